//! Draws the pictures of an answer on the screen, where the terminal can show them.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_extract::{ScaledPicture, scale_picture};
use hermes_tui::{PictureDisplay, PicturePixels, ScreenHandle, TerminalPicture};

/// The most pictures that are drawn after one answer; the others stay paths.
const MOST_PICTURES: usize = 4;
/// The largest file that is read.
const MOST_BYTES: u64 = 50 * 1024 * 1024;

/// Draws pictures above the input, from a thread of its own: a large one takes a moment to scale.
pub(super) fn show(screen: &ScreenHandle, pictures: Vec<PathBuf>) {
    if pictures.is_empty() {
        return;
    }
    let Some(canvas) = screen.pictures() else { return };
    let draw = move || {
        for path in pictures.into_iter().take(MOST_PICTURES) {
            if let Some(picture) = prepare(&path, canvas.display) {
                canvas.show(picture);
            } else {
                // The answer names the file; there is nothing more to say.
                tracing::debug!(path = %path.display(), "a picture cannot be shown");
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("pictures".to_owned()).spawn(draw) {
        tracing::warn!(%error, "pictures cannot be shown");
    }
}

fn prepare(path: &Path, display: PictureDisplay) -> Option<TerminalPicture> {
    if fs::metadata(path).ok()?.len() > MOST_BYTES {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let ScaledPicture { width, height, rgba } = scale_picture(&bytes, |size| display.pixels(size)).ok()?;
    let png = |pixels: &PicturePixels| {
        let PicturePixels { width, height, rgba } = pixels.clone();
        ScaledPicture { width, height, rgba }.to_png()
    };
    display.prepare(&PicturePixels { width, height, rgba }, png)
}
