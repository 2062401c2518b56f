//! The programs that record and play sound on this machine.

use std::f64::consts::TAU;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_exec::{OutputStream, Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_types::Cancel;

use super::recording::{SAMPLE_RATE, wav};

/// Recorders, with the arguments that make them write 16-bit samples of one channel to standard output.
const RECORDERS: [(&str, &[&str]); 3] = [
    ("arecord", &["-q", "-f", "S16_LE", "-r", "16000", "-c", "1", "-t", "raw"]),
    ("parec", &["--raw", "--format=s16le", "--rate=16000", "--channels=1"]),
    ("rec", &["-q", "-t", "raw", "-b", "16", "-e", "signed-integer", "-c", "1", "-r", "16000", "-"]),
];
/// Players of all formats, with their arguments before the file.
const PLAYERS: [(&str, &[&str]); 5] = [
    ("ffplay", &["-nodisp", "-autoexit", "-loglevel", "error"]),
    ("mpv", &["--no-video", "--really-quiet"]),
    ("play", &["-q"]),
    ("afplay", &[]),
    ("paplay", &[]),
];
/// Plays WAV files only.
const WAV_PLAYER: (&str, &[&str]) = ("aplay", &["-q"]);
const LONGEST_PLAY: Duration = Duration::from_mins(10);
const LONGEST_BEEP: Duration = Duration::from_secs(3);
const BEEP_LENGTH: usize = SAMPLE_RATE as usize * 12 / 100;
const BEEP_PAUSE: usize = SAMPLE_RATE as usize * 8 / 100;
const BEEP_HEIGHT: f64 = 8000.0;

/// Records and plays.
#[derive(Debug, Clone)]
pub(super) struct Audio {
    programs: ProgramRunner,
    /// The folder of temporary files.
    folder: PathBuf,
}

impl Audio {
    pub(super) fn new(programs: ProgramRunner, folder: PathBuf) -> Self {
        Self { programs, folder }
    }

    /// Says what is missing for recording.
    pub(super) fn check_recorder(&self) -> Result<(), String> {
        self.recorder().map(drop)
    }

    fn recorder(&self) -> Result<(&'static str, &'static [&'static str]), String> {
        RECORDERS.into_iter().find(|(name, _)| self.programs.find(name).is_some()).ok_or_else(|| {
            "no program records sound here: install alsa-utils (arecord), pulseaudio-utils (parec) or sox (rec)"
                .to_owned()
        })
    }

    /// Says what is missing for playing speech.
    pub(super) fn check_player(&self) -> Result<(), String> {
        self.player(Path::new("speech.ogg")).map(drop)
    }

    fn player(&self, file: &Path) -> Result<(&'static str, &'static [&'static str]), String> {
        let is_wav = file.extension().is_some_and(|suffix| suffix == "wav");
        let all = PLAYERS.into_iter().chain(is_wav.then_some(WAV_PLAYER));
        all.into_iter().find(|(name, _)| self.programs.find(name).is_some()).ok_or_else(|| {
            "no program plays sound here: install ffmpeg (ffplay), mpv or sox (play)".to_owned()
        })
    }

    /// Starts a recording.
    pub(super) async fn record(&self) -> Result<OutputStream, String> {
        let (name, arguments) = self.recorder()?;
        self.create_folder()?;
        let started = self.programs.stream(self.program(name, arguments, None, LONGEST_PLAY)).await;
        started.map_err(|error| format!("{name}: {error}"))
    }

    /// Plays a file to its end, or until the token is cancelled.
    pub(super) async fn play(&self, file: &Path, cancel: &Cancel) -> Result<(), String> {
        self.play_within(file, LONGEST_PLAY, cancel).await
    }

    /// Plays a tone some times. Where nothing plays, nothing is heard.
    pub(super) async fn beep(&self, hertz: f64, times: usize) {
        if let Err(reason) = self.create_folder() {
            return tracing::debug!(reason, "no beep");
        }
        let file = self.folder.join(format!("beep-{}.wav", hermes_types::random_hex(4)));
        if write_private(&file, &wav(&tones(hertz, times))).is_ok() {
            if let Err(reason) = self.play_within(&file, LONGEST_BEEP, &Cancel::new()).await {
                tracing::debug!(reason, "no beep");
            }
            let _ = std::fs::remove_file(&file);
        }
    }

    /// Stores a recording for the time in which it is read.
    pub(super) fn store(&self, recording: &[u8]) -> Result<PathBuf, String> {
        let file = self.folder.join(format!("recording-{}.wav", hermes_types::random_hex(8)));
        write_private(&file, recording).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    fn create_folder(&self) -> Result<(), String> {
        use std::os::unix::fs::DirBuilderExt as _;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| format!("{}: {error}", self.folder.display()))
    }

    async fn play_within(&self, file: &Path, limit: Duration, cancel: &Cancel) -> Result<(), String> {
        let (name, arguments) = self.player(file)?;
        match self.programs.output(self.program(name, arguments, Some(file), limit), cancel).await {
            Ok((_, ProgramExit::Exited(0) | ProgramExit::Cancelled)) => Ok(()),
            Ok((said, ProgramExit::Exited(code))) => {
                Err(format!("{name} ended with {code}: {}", hermes_text::tail(said.trim(), 200)))
            }
            Ok((_, ProgramExit::TimedOut)) => Err(format!("{name} took longer than {} s", limit.as_secs())),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }

    fn program<'a>(
        &'a self,
        name: &'a str,
        arguments: &[&str],
        file: Option<&Path>,
        limit: Duration,
    ) -> Program<'a> {
        let arguments = arguments.iter().map(OsString::from).chain(file.map(OsString::from)).collect();
        Program { name, arguments, directory: &self.folder, limit, stderr: StderrMode::Merge }
    }
}

fn write_private(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(bytes)
}

/// Returns the samples of a tone that sounds some times, with a soft beginning and end.
fn tones(hertz: f64, times: usize) -> Vec<i16> {
    const EDGE: usize = BEEP_LENGTH / 10;
    let sample = |at: usize| {
        #[expect(clippy::cast_precision_loss, reason = "a beep has some thousand samples")]
        let (at, edge) = (at as f64, at.min(BEEP_LENGTH - at).min(EDGE) as f64);
        #[expect(clippy::cast_precision_loss, reason = "some hundred samples")]
        let height = BEEP_HEIGHT * edge / EDGE as f64;
        #[expect(clippy::cast_possible_truncation, reason = "the height is far below the limit")]
        let sample = ((at * hertz * TAU / f64::from(SAMPLE_RATE)).sin() * height) as i16;
        sample
    };
    let tone = (0..BEEP_LENGTH).map(sample).chain(std::iter::repeat_n(0, BEEP_PAUSE));
    let tone: Vec<i16> = tone.collect();
    tone.repeat(times)
}
