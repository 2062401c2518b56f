//! Pictures: those that fit stay as they are, others become smaller, hostile ones are refused.

use std::io::Cursor;

use hermes_extract::{ExtractError, PictureLimits, fit_picture};
use image::{DynamicImage, ImageFormat, RgbImage, RgbaImage};

fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn plain(width: u32, height: u32) -> DynamicImage {
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([x.to_le_bytes()[0], y.to_le_bytes()[0], 7])
    }))
}

fn size(bytes: &[u8]) -> (u32, u32) {
    let decoded = image::load_from_memory(bytes).unwrap();
    (decoded.width(), decoded.height())
}

#[test]
fn a_picture_that_fits_is_not_touched() {
    for (format, mime) in [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::Gif, "image/gif"),
        (ImageFormat::WebP, "image/webp"),
    ] {
        let bytes = encoded(&plain(40, 30), format);
        let fitted = fit_picture(&bytes, PictureLimits::default()).unwrap();
        assert_eq!((fitted.mime, fitted.bytes == bytes), (mime, true));
    }
}

#[test]
fn a_large_picture_becomes_smaller_and_keeps_its_shape() {
    let bytes = encoded(&plain(4000, 1000), ImageFormat::Png);
    let fitted = fit_picture(&bytes, PictureLimits::default()).unwrap();
    assert_eq!((fitted.mime, size(&fitted.bytes)), ("image/jpeg", (1568, 392)));
    let glass = DynamicImage::ImageRgba8(RgbaImage::from_pixel(2000, 2000, image::Rgba([1, 2, 3, 100])));
    let fitted = fit_picture(&encoded(&glass, ImageFormat::Png), PictureLimits::default()).unwrap();
    assert_eq!((fitted.mime, size(&fitted.bytes)), ("image/png", (1568, 1568)), "it stays transparent");
    let bitmap = encoded(&plain(20, 10), ImageFormat::Bmp);
    let fitted = fit_picture(&bitmap, PictureLimits::default()).unwrap();
    assert_eq!((fitted.mime, size(&fitted.bytes)), ("image/jpeg", (20, 10)));
    let heavy = PictureLimits { bytes: 6_000, ..PictureLimits::default() };
    assert!(fit_picture(&encoded(&plain(300, 300), ImageFormat::Bmp), heavy).unwrap().bytes.len() <= 6_000);
}

#[test]
fn what_is_no_picture_or_too_large_is_refused() {
    let refused = |bytes: &[u8]| fit_picture(bytes, PictureLimits::default()).unwrap_err();
    assert!(matches!(refused(b"-----BEGIN OPENSSH PRIVATE KEY-----"), ExtractError::NotText(_)));
    assert!(matches!(refused(b""), ExtractError::NotText(_)));
    let mut bomb = encoded(&plain(10, 10), ImageFormat::Bmp);
    bomb[18..26].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f]);
    assert!(matches!(refused(&bomb), ExtractError::Malformed { .. }));
    let whole = encoded(&plain(2000, 20), ImageFormat::Png);
    assert!(matches!(refused(&whole[..whole.len() / 2]), ExtractError::Malformed { .. }));
    for at in 8..whole.len().min(400) {
        let mut changed = whole.clone();
        changed[at] ^= 0x3c;
        drop(fit_picture(&changed, PictureLimits::default()));
    }
}
