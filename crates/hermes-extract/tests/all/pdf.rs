//! PDF documents: their text, their pages, and those that cannot be read.

use std::io::Write as _;

use hermes_extract::{DocumentKind, ExtractError, extract};

/// Builds a PDF with a page per text; each stream is compressed.
fn document(pages: &[&str]) -> Vec<u8> {
    let mut objects: Vec<Vec<u8>> = Vec::new();
    let kids: Vec<String> = (0..pages.len()).map(|n| format!("{} 0 R", 5 + n * 2)).collect();
    objects.push(b"<< /Type /Catalog /Pages 2 0 R >>".to_vec());
    objects
        .push(format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()).into_bytes());
    objects
        .push(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_vec());
    objects.push(b"<< /Title (A ledger) >>".to_vec());
    for (n, text) in pages.iter().enumerate() {
        objects.push(
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> /Contents {} 0 R >>",
                6 + n * 2
            )
            .into_bytes(),
        );
        let shown: Vec<String> = text.lines().map(|line| format!("({line}) Tj T*")).collect();
        let content = format!("BT /F1 12 Tf 14 TL 50 800 Td {} ET", shown.join(" "));
        objects.push(stream(content.as_bytes()));
    }
    assemble(&objects)
}

fn stream(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    let packed = encoder.finish().unwrap();
    let mut object = format!("<< /Length {} /Filter /FlateDecode >>\nstream\n", packed.len()).into_bytes();
    object.extend(packed);
    object.extend(b"\nendstream");
    object
}

fn assemble(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.5\n".to_vec();
    let mut offsets = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        offsets.push(bytes.len());
        bytes.extend(format!("{} 0 obj\n", n + 1).bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    let at = bytes.len();
    bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for offset in offsets {
        bytes.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    bytes.extend(
        format!(
            "trailer\n<< /Size {} /Root 1 0 R /Info 4 0 R >>\nstartxref\n{at}\n%%EOF\n",
            objects.len() + 1
        )
        .bytes(),
    );
    bytes
}

#[test]
fn pages_are_read_in_order() {
    let bytes = document(&["First page\nsecond line", "Page two"]);
    let read = extract(&bytes, Some("application/octet-stream"), "https://example.com/a.pdf").unwrap();
    assert_eq!((read.kind, read.title.as_str()), (DocumentKind::Pdf, "A ledger"));
    assert_eq!(read.text, "First page\nsecond line\n\nPage two");
}

#[test]
fn a_stream_that_expands_without_end_is_not_expanded() {
    let mut bomb = b"BT /F1 12 Tf (visible) Tj ET ".to_vec();
    bomb.resize(40 * 1024 * 1024, b' ');
    let page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Resources << /Font << /F1 3 0 R >> >> /Contents 6 0 R >>";
    let objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>".to_vec(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
        b"<< >>".to_vec(),
        page.to_vec(),
        stream(&bomb),
    ];
    let error = extract(&assemble(&objects), Some("application/pdf"), "https://example.com/").unwrap_err();
    assert!(error.to_string().contains("no text"), "{error}");
}

#[test]
fn damage_is_an_error_and_not_a_crash() {
    let whole = document(&["Some words on a page"]);
    for end in (10..whole.len()).step_by(37) {
        drop(extract(&whole[..end], Some("application/pdf"), "https://example.com/"));
    }
    for at in (9..whole.len()).step_by(5) {
        let mut changed = whole.clone();
        changed[at] ^= 0x15;
        drop(extract(&changed, Some("application/pdf"), "https://example.com/"));
    }
    let error = extract(b"%PDF-1.4 nothing", None, "https://example.com/").unwrap_err();
    assert!(matches!(error, ExtractError::Malformed { kind: "PDF", .. }), "{error:?}");
}
