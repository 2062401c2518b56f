//! Packs the bundled skills, the optional ones and the WhatsApp bridge into a compressed file each, which become part of the program.
//!
//! The packed form is, for each file in the order of paths, a line `{x or -} {bytes} {path}` and the content.
//! `hermes-knowledge` reads it. The digest beside it changes whenever a file does.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use md5::{Digest as _, Md5};

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script its folders in variables")]
fn main() -> io::Result<()> {
    let folder = |name| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(name));
    let root = folder("CARGO_MANIFEST_DIR")?.join("../..");
    let out = folder("OUT_DIR")?;
    println!("cargo:rerun-if-changed=build.rs");
    pack(&root.join("skills"), &out, "bundled_skills")?;
    pack(&root.join("optional-skills"), &out, "optional_skills")?;
    pack_bridge(&root.join("bridges/whatsapp"), &out)
}

/// Packs the files of the WhatsApp bridge that a home gets.
fn pack_bridge(folder: &Path, out: &Path) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().into_string().map_err(|_| io::Error::other("a name is not UTF-8"))?;
        let is_script = Path::new(&name).extension().is_some_and(|extension| extension == "js");
        if is_script || ["package.json", "package-lock.json", ".npmrc"].contains(&name.as_str()) {
            files.push(name);
        }
    }
    write_pack(folder, files, out, "whatsapp_bridge")
}

/// Packs a folder into `NAME.zlib`, and writes `NAME.digest` beside it.
fn pack(folder: &Path, out: &Path, name: &str) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    collect(folder, "", &mut files)?;
    write_pack(folder, files, out, name)
}

fn write_pack(folder: &Path, mut files: Vec<String>, out: &Path, name: &str) -> io::Result<()> {
    files.sort();
    let mut plain = Vec::new();
    for path in &files {
        let file = folder.join(path);
        let content = fs::read(&file)?;
        let mode = if file.metadata()?.permissions().mode() & 0o100 == 0 { '-' } else { 'x' };
        writeln!(plain, "{mode} {} {path}", content.len())?;
        plain.extend(content);
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&plain)?;
    fs::write(out.join(format!("{name}.zlib")), packed.finish()?)?;
    let mut digest = String::new();
    for byte in Md5::digest(&plain) {
        // Writing to a `String` cannot fail.
        let _ = write!(digest, "{byte:02x}");
    }
    fs::write(out.join(format!("{name}.digest")), digest)
}

/// Adds the paths of the regular files below a folder, without hidden ones and what Python leaves behind.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| io::Error::other("a name is not UTF-8"))?;
        if name.starts_with('.') || name == "__pycache__" {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
