//! Archives as a registry, or an attacker, may send them.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use hermes_hub::unpack_zip;
use proptest::prelude::*;

/// One entry of an archive: path, content, mode of Unix, whether it is compressed.
pub(crate) type ArchiveEntry<'a> = (&'a str, &'a [u8], u32, bool);

/// Builds an archive.
pub(crate) fn zip(entries: &[ArchiveEntry<'_>]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (path, content, mode, compressed) in entries {
        let data = if *compressed {
            let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
            packed.write_all(content).unwrap();
            packed.finish().unwrap()
        } else {
            content.to_vec()
        };
        let method: u16 = if *compressed { 8 } else { 0 };
        let sizes = |header: &mut Vec<u8>| {
            header.extend(0_u32.to_le_bytes());
            header.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
            header.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
            header.extend(u16::try_from(path.len()).unwrap().to_le_bytes());
            header.extend(0_u16.to_le_bytes());
        };
        let start = u32::try_from(out.len()).unwrap();
        out.extend(b"PK\x03\x04\x14\0\0\0");
        out.extend(method.to_le_bytes());
        out.extend([0; 4]);
        sizes(&mut out);
        out.extend(path.as_bytes());
        out.extend(&data);
        directory.extend(b"PK\x01\x02\x14\x03\x14\0\0\0");
        directory.extend(method.to_le_bytes());
        directory.extend([0; 4]);
        sizes(&mut directory);
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(start.to_le_bytes());
        directory.extend(path.as_bytes());
    }
    let (count, size) = (u16::try_from(entries.len()).unwrap(), u32::try_from(directory.len()).unwrap());
    let start = u32::try_from(out.len()).unwrap();
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}

const FILE: u32 = 0o100_644;

#[test]
fn stored_and_compressed_files_are_unpacked() {
    let archive = zip(&[
        ("skill/", b"", 0o040_755, false),
        ("skill/SKILL.md", b"text", FILE, false),
        ("skill/scripts/a.sh", "echo\n".repeat(500).as_bytes(), 0o100_755, true),
    ]);
    let files = unpack_zip(&archive).unwrap();
    let paths: Vec<(&str, usize, bool)> =
        files.iter().map(|file| (file.path.as_str(), file.bytes.len(), file.executable)).collect();
    assert_eq!(paths, [("skill/SKILL.md", 4, false), ("skill/scripts/a.sh", 2_500, true)]);
}

#[test]
fn what_leads_out_of_the_folder_or_is_no_file_is_refused() {
    for path in
        ["../x", "a/../../x", "/etc/x", "a\\..\\x", "C:x", "a//b", "./x", "a\0b", ".git/hooks/x", "a/.git/x"]
    {
        assert!(unpack_zip(&zip(&[(path, b"x", FILE, false)])).is_err(), "{path:?}");
    }
    for mode in [0o120_777, 0o020_666, 0o060_666, 0o010_644, 0o140_755] {
        assert!(unpack_zip(&zip(&[("x", b"/etc/passwd", mode, false)])).is_err(), "{mode:o}");
    }
    assert!(unpack_zip(&zip(&[("x", b"1", FILE, false), ("x", b"2", FILE, false)])).is_err());
}

#[test]
fn a_bomb_is_refused_whatever_its_headers_say() {
    let large = vec![0; 64 * 1024 * 1024];
    let mut archive = zip(&[("SKILL.md", &large, FILE, true)]);
    assert!(archive.len() < 100_000);
    assert!(unpack_zip(&archive).is_err());
    // The headers say that it is small.
    let size = u32::try_from(large.len()).unwrap().to_le_bytes();
    while let Some(at) = archive.windows(4).position(|window| window == size) {
        archive[at..at + 4].copy_from_slice(&10_u32.to_le_bytes());
    }
    assert!(unpack_zip(&archive).is_err());
    let names: Vec<String> = (0..400).map(|number| format!("f{number}")).collect();
    let many: Vec<ArchiveEntry<'_>> =
        names.iter().map(|name| (name.as_str(), b"x".as_slice(), FILE, false)).collect();
    assert!(unpack_zip(&zip(&many)).is_err());
    let part = vec![7; 3 * 1024 * 1024];
    let whole: Vec<ArchiveEntry<'_>> =
        names.iter().take(20).map(|name| (name.as_str(), part.as_slice(), FILE, true)).collect();
    assert!(unpack_zip(&zip(&whole)).is_err());
}

proptest! {
    #[test]
    fn damaged_archives_are_errors_and_never_panics(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut archive = zip(&[("SKILL.md", b"text", FILE, false), ("scripts/a.sh", b"echo echo echo", FILE, true)]);
        for (at, byte) in flips {
            let at = at.index(archive.len());
            archive[at] = byte;
        }
        archive.truncate(cut.index(archive.len()) + 1);
        if let Ok(files) = unpack_zip(&archive) {
            for file in files {
                prop_assert!(!file.path.contains("..") && !file.path.starts_with('/'));
            }
        }
    }
}
