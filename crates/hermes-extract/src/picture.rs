//! Pictures: what format they have, and a smaller copy of those a model would not accept.

use std::io::Cursor;
use std::panic::catch_unwind;

use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageFormat, ImageReader, Limits};

use crate::ExtractError;

/// The bounds of a picture that every provider accepts.
#[derive(Debug, Clone, Copy)]
pub struct PictureLimits {
    /// The longest side, in pixels.
    pub side: u32,
    pub bytes: usize,
}

impl Default for PictureLimits {
    fn default() -> Self {
        // Providers scale larger pictures down themselves; 5 MB of base64 is the least of their limits.
        Self { side: 1568, bytes: 3_500_000 }
    }
}

/// A picture in a format that models read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub mime: &'static str,
    pub bytes: Vec<u8>,
}

/// The largest picture that is decoded, by its sides and by the memory it takes.
const LARGEST_SIDE: u32 = 20_000;
const LARGEST_DECODED: u64 = 400_000_000;
/// The qualities that are tried until the file is small enough.
const QUALITIES: [u8; 3] = [85, 70, 50];

/// Returns a picture within the limits: unchanged if it already is, otherwise a smaller copy.
pub fn fit_picture(bytes: &[u8], limits: PictureLimits) -> Result<Picture, ExtractError> {
    // A decoder that panics must not end more than this picture.
    catch_unwind(|| fit(bytes, limits)).unwrap_or_else(|_| Err(damaged("its decoder failed")))
}

fn fit(bytes: &[u8], limits: PictureLimits) -> Result<Picture, ExtractError> {
    let format = image::guess_format(bytes).map_err(|_| not_a_picture())?;
    let mime = match format {
        ImageFormat::Png => "image/png",
        ImageFormat::Jpeg => "image/jpeg",
        ImageFormat::Gif => "image/gif",
        ImageFormat::WebP => "image/webp",
        // Models do not read it; it is converted.
        ImageFormat::Bmp => "",
        _ => return Err(not_a_picture()),
    };
    let (width, height) = reader(bytes)?.into_dimensions().map_err(damaged)?;
    if !mime.is_empty() && width.max(height) <= limits.side && bytes.len() <= limits.bytes {
        return Ok(Picture { mime, bytes: bytes.to_vec() });
    }
    let decoded = reader(bytes)?.decode().map_err(damaged)?;
    let scaled = if width.max(height) > limits.side {
        decoded.resize(limits.side, limits.side, FilterType::Triangle)
    } else {
        decoded
    };
    if scaled.color().has_alpha()
        && let Ok(bytes) = encode_png(&scaled)
        && bytes.len() <= limits.bytes
    {
        return Ok(Picture { mime: "image/png", bytes });
    }
    let plain = scaled.to_rgb8();
    for quality in QUALITIES {
        let mut bytes = Vec::new();
        JpegEncoder::new_with_quality(&mut bytes, quality).encode_image(&plain).map_err(damaged)?;
        if bytes.len() <= limits.bytes {
            return Ok(Picture { mime: "image/jpeg", bytes });
        }
    }
    Err(ExtractError::Malformed { kind: "picture", reason: "it cannot be made small enough".to_owned() })
}

/// A picture as pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaledPicture {
    pub width: u32,
    pub height: u32,
    /// Red, green, blue and alpha of each pixel, row by row.
    pub rgba: Vec<u8>,
}

impl ScaledPicture {
    /// Returns the picture as a PNG file; `None` when the pixels do not have the stated size.
    pub fn to_png(&self) -> Option<Vec<u8>> {
        let picture = image::RgbaImage::from_raw(self.width, self.height, self.rgba.clone())?;
        encode_png(&DynamicImage::ImageRgba8(picture)).ok()
    }
}

/// Decodes a picture and scales it down, in its proportions, to at most the size that `fit` returns for its own.
pub fn scale_picture(
    bytes: &[u8],
    fit: impl FnOnce((u32, u32)) -> (u32, u32) + std::panic::UnwindSafe,
) -> Result<ScaledPicture, ExtractError> {
    catch_unwind(|| {
        let decoded = reader(bytes)?.decode().map_err(damaged)?;
        let (width, height) = fit((decoded.width(), decoded.height()));
        let (width, height) = (width.max(1), height.max(1));
        let scaled = if decoded.width() > width || decoded.height() > height {
            decoded.resize(width, height, FilterType::Triangle)
        } else {
            decoded
        };
        let pixels = scaled.into_rgba8();
        Ok(ScaledPicture { width: pixels.width(), height: pixels.height(), rgba: pixels.into_raw() })
    })
    .unwrap_or_else(|_| Err(damaged("its decoder failed")))
}

fn reader(bytes: &[u8]) -> Result<ImageReader<Cursor<&[u8]>>, ExtractError> {
    let mut reader =
        ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|_| not_a_picture())?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(LARGEST_SIDE);
    limits.max_image_height = Some(LARGEST_SIDE);
    limits.max_alloc = Some(LARGEST_DECODED);
    reader.limits(limits);
    Ok(reader)
}

fn encode_png(picture: &DynamicImage) -> Result<Vec<u8>, image::ImageError> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

fn not_a_picture() -> ExtractError {
    ExtractError::NotText("not a PNG, JPEG, GIF, WebP or BMP picture".to_owned())
}

fn damaged(error: impl std::fmt::Display) -> ExtractError {
    let reason = error.to_string().lines().next().unwrap_or_default().chars().take(200).collect();
    ExtractError::Malformed { kind: "picture", reason }
}
