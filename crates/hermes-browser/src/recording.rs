//! A video of what the agent does in a browser, if the user wants one.
//!
//! The browser sends pictures of the current tab, which are stored one by one; when the session is closed, `ffmpeg` makes a video of
//! them. Invariant: what a recording takes on disk is bounded, and old recordings are removed.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use data_encoding::BASE64;
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_types::{Cancel, CivilTime, TaskId, Timestamp};
use serde_json::{Value, json};

/// The shortest time between two pictures, in seconds.
const SHORTEST_STEP: f64 = 0.1;
/// The time the last picture is shown, in seconds.
const LAST_STEP: f64 = 1.0;
const MOST_PICTURES: usize = 18_000;
const MOST_BYTES: u64 = 1024 * 1024 * 1024;
const ENCODING_TIMEOUT: Duration = Duration::from_mins(5);
/// How long recordings are kept.
const KEPT: Duration = Duration::from_hours(72);

/// Where recordings go, and what makes videos of them.
#[derive(Debug, Clone)]
pub struct RecordingOptions {
    pub folder: PathBuf,
    pub programs: ProgramRunner,
    pub local_time: fn(Timestamp) -> CivilTime,
}

/// The recording of one session.
#[derive(Debug)]
pub(crate) struct SessionRecording {
    programs: ProgramRunner,
    /// The folder of the pictures.
    pictures: PathBuf,
    video: PathBuf,
    state: Mutex<RecordedPictures>,
}

#[derive(Debug, Default)]
struct RecordedPictures {
    /// The times of the pictures, in seconds.
    times: Vec<f64>,
    bytes: u64,
}

impl SessionRecording {
    /// Starts a recording. Fails where there is no `ffmpeg`.
    pub(crate) fn start(options: &RecordingOptions, task: &TaskId, now: Timestamp) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        if options.programs.find("ffmpeg").is_none() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "ffmpeg is not installed"));
        }
        let at = (options.local_time)(now);
        let task: String = task.as_str().chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        let name = format!(
            "session_{:04}{:02}{:02}_{:02}{:02}{:02}_{task}",
            at.year, at.month, at.day, at.hour, at.minute, at.second
        );
        let create = |folder: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        create(&options.folder)?;
        remove_old(&options.folder, now);
        let pictures = options.folder.join(format!(".{name}"));
        create(&pictures)?;
        Ok(Self {
            programs: options.programs.clone(),
            pictures,
            video: options.folder.join(format!("{name}.webm")),
            state: Mutex::default(),
        })
    }

    /// Returns the parameters with which the browser is asked for pictures.
    pub(crate) fn screencast() -> Value {
        json!({"format": "jpeg", "quality": 60, "maxWidth": 1280, "maxHeight": 720, "everyNthFrame": 1})
    }

    /// Stores a picture, unless it follows the one before too closely.
    pub(crate) fn add(&self, at: f64, picture: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_late = state.times.last().is_none_or(|last| at - last >= SHORTEST_STEP);
        if !at.is_finite() || !is_late || state.times.len() >= MOST_PICTURES || state.bytes >= MOST_BYTES {
            return;
        }
        let Ok(bytes) = BASE64.decode(picture.as_bytes()) else { return };
        let file = self.pictures.join(picture_name(state.times.len()));
        match fs::write(&file, &bytes) {
            Ok(()) => {
                state.times.push(at);
                state.bytes += bytes.len() as u64;
            }
            Err(error) => tracing::warn!(%error, "a picture of a recording was not stored"),
        }
    }

    /// Makes the video. Returns its path; nothing if there was nothing to see.
    pub(crate) async fn finish(&self) -> Option<PathBuf> {
        let times = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            // What comes after the end is not stored.
            state.bytes = MOST_BYTES;
            std::mem::take(&mut state.times)
        };
        let made = if times.is_empty() { Ok(()) } else { self.encode(&times).await };
        if let Err(error) = fs::remove_dir_all(&self.pictures) {
            tracing::warn!(%error, "the pictures of a recording were not removed");
        }
        match made {
            Ok(()) => Some(self.video.clone()).filter(|video| video.exists()),
            Err(reason) => {
                tracing::warn!(reason, "a recording was not made");
                None
            }
        }
    }

    async fn encode(&self, times: &[f64]) -> Result<(), String> {
        let list = self.pictures.join("list.txt");
        fs::write(&list, list_of(times)).map_err(|error| error.to_string())?;
        let words = [
            "-v",
            "error",
            "-y",
            "-f",
            "concat",
            "-safe",
            "0",
            "-i",
            "list.txt",
            "-vf",
            "scale=trunc(iw/2)*2:trunc(ih/2)*2",
            "-c:v",
            "libvpx",
            "-b:v",
            "1M",
            "-f",
            "webm",
        ];
        let arguments = words.map(Into::into).into_iter().chain([self.video.clone().into_os_string()]);
        let program = Program {
            name: "ffmpeg",
            arguments: arguments.collect(),
            directory: &self.pictures,
            limit: ENCODING_TIMEOUT,
            stderr: StderrMode::Merge,
        };
        match self.programs.output(program, &Cancel::new()).await {
            Ok((_, ProgramExit::Exited(0))) => Ok(()),
            Ok((said, end)) => Err(format!("ffmpeg: {end:?}: {said}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn picture_name(number: usize) -> String {
    format!("{number:06}.jpg")
}

/// Returns the list of pictures with the time each is shown, as ffmpeg reads it.
fn list_of(times: &[f64]) -> String {
    let mut list = String::new();
    for (number, at) in times.iter().enumerate() {
        let step = times.get(number + 1).map_or(LAST_STEP, |next| next - at);
        let _ = writeln!(list, "file '{}'\nduration {step:.3}", picture_name(number));
    }
    if let Some(last) = times.len().checked_sub(1) {
        // Without this the time of the last picture is ignored.
        let _ = writeln!(list, "file '{}'", picture_name(last));
    }
    list
}

fn remove_old(folder: &Path, now: Timestamp) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|details| details.modified());
        let at = modified.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let is_old = at.is_some_and(|at| now.since(Timestamp(at.as_secs_f64())) > KEPT);
        let name = entry.file_name();
        let path = entry.path();
        if is_old && name.to_string_lossy().trim_start_matches('.').starts_with("session_") {
            // Another process may have removed it.
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::list_of;

    #[test]
    fn each_picture_is_shown_until_the_next() {
        assert_eq!(
            list_of(&[10.0, 10.25, 12.0]),
            "file '000000.jpg'\nduration 0.250\nfile '000001.jpg'\nduration 1.750\nfile '000002.jpg'\nduration 1.000\nfile '000002.jpg'\n"
        );
        assert_eq!(list_of(&[]), "");
    }
}
