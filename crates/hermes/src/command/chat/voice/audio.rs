//! The programs that record and play sound on this machine.

use std::f64::consts::TAU;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_exec::{OutputStream, Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_types::Cancel;

#[cfg(feature = "cpal")]
use super::microphone::Microphone;
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
        let Err(reason) = self.recorder() else { return Ok(()) };
        #[cfg(feature = "cpal")]
        let reason = match Microphone::check() {
            Ok(()) => return Ok(()),
            Err(failure) => format!("{reason}; without a program: {failure}"),
        };
        Err(reason)
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

    /// Starts a recording: by the microphone, where this build knows it and it can be opened, else by a program.
    pub(super) async fn record(&self) -> Result<SoundSource, String> {
        #[cfg(feature = "cpal")]
        match Microphone::open().await {
            Ok(microphone) => return Ok(SoundSource::Microphone(microphone)),
            Err(reason) => tracing::debug!(reason, "a program records"),
        }
        let (name, arguments) = self.recorder()?;
        self.create_folder()?;
        let started = self.programs.stream(self.program(name, arguments, None, LONGEST_PLAY)).await;
        let stream = started.map_err(|error| format!("{name}: {error}"))?;
        Ok(SoundSource::Program { stream: Box::new(stream), rest: Vec::new() })
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
        self.create_folder()?;
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

/// Where samples come from while something is recorded.
pub(super) enum SoundSource {
    Program {
        stream: Box<OutputStream>,
        /// Half a sample.
        rest: Vec<u8>,
    },
    #[cfg(feature = "cpal")]
    Microphone(Microphone),
}

impl SoundSource {
    /// Returns the next samples, or `None` when there are no more. The future may be dropped without losing any.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<i16>>, String> {
        match self {
            Self::Program { stream, rest } => {
                let Some(bytes) = stream.next().await.map_err(|error| error.to_string())? else {
                    return Ok(None);
                };
                rest.extend(bytes);
                let samples: Vec<i16> =
                    rest.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
                rest.drain(..samples.len() * 2);
                Ok(Some(samples))
            }
            #[cfg(feature = "cpal")]
            Self::Microphone(microphone) => microphone.next().await,
        }
    }

    /// Returns what the program said.
    pub(super) fn messages(&self) -> String {
        match self {
            Self::Program { stream, .. } => stream.messages(),
            #[cfg(feature = "cpal")]
            Self::Microphone(_) => String::new(),
        }
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
