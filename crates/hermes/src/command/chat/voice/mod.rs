//! Voice mode of the screen: a key records, what was said becomes a message, answers are spoken.
//!
//! `recording` decides when a recording ends, `audio` runs the programs that record and play, `microphone` records without one. Invariants: one thing happens at a
//! time (recording, transcribing or speaking); recordings and speech are private files that are removed after use.

mod audio;
#[cfg(feature = "cpal")]
mod microphone;
mod recording;

use std::sync::Arc;

use hermes_config::settings::VoiceSettings;
use hermes_config::{Config, ProgramSurface};
use hermes_exec::ProgramRunner;
use hermes_task::TaskGroup;
use hermes_text::spoken_words;
use hermes_tools::{Speaker, Transcriber};
use hermes_tui::{ScreenHandle, VoiceActivity};
use hermes_types::{Cancel, Clock};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::audio::{Audio, SoundSource};
use self::recording::Recording;
use crate::context::ProgramContext;
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::{child_variables, web};

/// Told to the model with a message that was spoken; not stored.
const SPOKEN_MESSAGE: &str = include_str!("spoken_message.md").trim_ascii();
const START_TONE: f64 = 880.0;
const END_TONE: f64 = 660.0;
/// The recordings without speech after which voice mode waits for the key again.
const MOST_SILENT_ROUNDS: u8 = 3;
/// What speech recognizers make of silence.
const PHANTOM_PHRASES: [&str; 12] = [
    "you",
    "bye",
    "bye bye",
    "thank you",
    "thank you very much",
    "thanks for watching",
    "thank you for watching",
    "please subscribe",
    "subtitles by the amara org community",
    "the end",
    "okay",
    "so",
];

/// Voice mode of one chat.
pub(crate) struct VoiceMode {
    settings: VoiceSettings,
    audio: Audio,
    transcriber: Result<Transcriber, String>,
    speaker: Speaker,
    screen: Option<ScreenHandle>,
    is_on: bool,
    speaks: bool,
    activity: Activity,
    /// Recording begins again after each answer.
    is_continuous: bool,
    silent_rounds: u8,
    tasks: TaskGroup,
    ends: (UnboundedSender<ActivityEnd>, UnboundedReceiver<ActivityEnd>),
    /// The number of the running activity; the end of an earlier one means nothing.
    current: u64,
}

/// What voice mode is doing.
enum Activity {
    Nothing,
    Recording {
        /// Ends the recording and has it transcribed.
        finish: Cancel,
        cancel: Cancel,
    },
    Speaking(Cancel),
}

/// The end of an activity.
struct ActivityEnd {
    number: u64,
    outcome: VoiceOutcome,
}

enum VoiceOutcome {
    Heard(String),
    Silence,
    Spoken,
    Failed(String),
}

impl VoiceMode {
    pub(crate) fn new(
        config: &Config,
        context: &ProgramContext,
        clock: &Arc<dyn Clock>,
        screen: Option<ScreenHandle>,
    ) -> Self {
        let from = ProgramConfig { context, config };
        let folder = context.home.join("cache/voice");
        let programs = ProgramRunner::new(child_variables(&context.env, &[]), clock.clone());
        Self {
            settings: VoiceSettings::from_config(config),
            audio: Audio::new(programs, folder.clone()),
            transcriber: web::transcriber(clock, from).map(|mut transcriber| {
                if let Some(screen) = screen.clone() {
                    transcriber.progress = Arc::new(move |progress| screen.notice(progress));
                }
                transcriber
            }),
            speaker: Speaker { folder, ..web::speaker(ProgramSurface::Cli, clock, from) },
            screen,
            is_on: false,
            speaks: false,
            activity: Activity::Nothing,
            is_continuous: false,
            silent_rounds: 0,
            tasks: TaskGroup::new(&Cancel::new()),
            ends: unbounded_channel(),
            current: 0,
        }
    }

    /// Runs `/voice`; returns what the user is told.
    pub(crate) fn command(&mut self, argument: &str) -> String {
        match argument {
            "status" => self.status(),
            "off" => self.turn_off(),
            "" if self.is_on => self.turn_off(),
            "" | "on" => self.turn_on(),
            "tts" => self.toggle_speech(),
            other => format!("`{other}` is none of on, off, tts, status."),
        }
    }

    fn turn_on(&mut self) -> String {
        if self.screen.is_none() {
            return "Voice mode needs the screen; this is the line interface.".to_owned();
        }
        if let Err(reason) = self.check_recording() {
            return format!("Voice mode cannot be turned on: {reason}.");
        }
        self.is_on = true;
        self.show(VoiceActivity::Idle);
        let key = self.settings.record_key.clone();
        let spoken = if self.settings.speaks_answers { self.start_speaking() } else { String::new() };
        format!("🎤 Voice mode is on: {key} records, silence ends a recording.{spoken}")
    }

    fn turn_off(&mut self) -> String {
        self.stop();
        (self.is_on, self.speaks, self.is_continuous) = (false, false, false);
        self.show(VoiceActivity::Off);
        "Voice mode is off.".to_owned()
    }

    fn toggle_speech(&mut self) -> String {
        if self.speaks {
            self.speaks = false;
            return "🔇 Answers are no longer spoken.".to_owned();
        }
        if self.screen.is_none() {
            return "Voice mode needs the screen; this is the line interface.".to_owned();
        }
        self.start_speaking().trim().to_owned()
    }

    fn start_speaking(&mut self) -> String {
        match self.check_speech() {
            Ok(voice) => {
                self.speaks = true;
                format!(" 🔊 Answers are spoken ({voice}).")
            }
            Err(reason) => format!(" Answers cannot be spoken: {reason}."),
        }
    }

    fn status(&self) -> String {
        let recording = match (self.is_on, self.check_recording()) {
            (true, _) => format!("on ({} records)", self.settings.record_key),
            (false, Ok(())) => "off".to_owned(),
            (false, Err(reason)) => format!("off; {reason}"),
        };
        let speech = match (self.speaks, self.check_speech()) {
            (true, Ok(voice)) => format!("on ({voice})"),
            (false, Ok(_)) => "off".to_owned(),
            (_, Err(reason)) => format!("off; {reason}"),
        };
        format!("🎤 Voice mode: {recording}\n🔊 Spoken answers: {speech}")
    }

    fn check_recording(&self) -> Result<(), String> {
        self.audio.check_recorder()?;
        self.transcriber.as_ref().map_err(Clone::clone)?.check()
    }

    fn check_speech(&self) -> Result<&'static str, String> {
        let voice = self.speaker.provider()?.name();
        self.audio.check_player()?;
        Ok(voice)
    }

    /// Acts on the key: starts a recording, ends one, or stops the voice.
    pub(crate) fn press_key(&mut self) {
        match &self.activity {
            Activity::Speaking(_) => {
                self.stop();
                self.resume();
            }
            _ if !self.is_on => {}
            Activity::Nothing => {
                (self.is_continuous, self.silent_rounds) = (true, 0);
                self.record();
            }
            Activity::Recording { finish, .. } => {
                self.is_continuous = false;
                finish.cancel();
            }
        }
    }

    /// Throws a recording away.
    pub(crate) fn cancel_recording(&mut self) {
        if matches!(self.activity, Activity::Recording { .. }) {
            self.is_continuous = false;
            self.stop();
        }
    }

    /// Stops what goes on, because a turn begins.
    pub(crate) fn stop(&mut self) {
        match std::mem::replace(&mut self.activity, Activity::Nothing) {
            Activity::Recording { cancel, .. } | Activity::Speaking(cancel) => cancel.cancel(),
            Activity::Nothing => {}
        }
        self.current += 1;
        self.show_idle();
    }

    /// Starts the next recording, if one follows the other and nothing goes on.
    pub(crate) fn resume(&mut self) {
        if self.is_on && self.is_continuous && matches!(self.activity, Activity::Nothing) {
            self.record();
        }
    }

    /// Returns the next message that was spoken.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            // The sender is in this value, so that there is always another one.
            let Some(ActivityEnd { number, outcome }) = self.ends.1.recv().await else {
                return std::future::pending().await;
            };
            if number != self.current {
                continue;
            }
            self.activity = Activity::Nothing;
            self.show_idle();
            match outcome {
                VoiceOutcome::Heard(words) => {
                    self.silent_rounds = 0;
                    if let Some(screen) = &self.screen {
                        screen.echo(words.as_str());
                    }
                    return words;
                }
                VoiceOutcome::Silence => {
                    self.silent_rounds += 1;
                    if self.silent_rounds >= MOST_SILENT_ROUNDS {
                        self.is_continuous = false;
                    }
                    if !self.is_continuous {
                        self.hint("Nobody spoke.");
                    }
                }
                VoiceOutcome::Spoken => {}
                VoiceOutcome::Failed(reason) => {
                    self.is_continuous = false;
                    self.hint(&reason);
                }
            }
            self.resume();
        }
    }

    fn record(&mut self) {
        let Ok(transcriber) = self.transcriber.clone() else { return };
        let Some(screen) = self.screen.clone() else { return };
        let (finish, cancel) = (Cancel::new(), self.tasks.cancel_token().child_token());
        self.activity = Activity::Recording { finish: finish.clone(), cancel: cancel.clone() };
        screen.set_voice(VoiceActivity::Recording { level: 0 });
        let job = RecordingJob {
            audio: self.audio.clone(),
            settings: self.settings.clone(),
            transcriber,
            screen,
            finish,
            cancel,
        };
        self.start(async move { job.run().await });
    }

    /// Speaks an answer, if answers are spoken.
    pub(crate) fn speak(&mut self, answer: &str) {
        let words = spoken_words(answer);
        if !self.speaks || words.trim().is_empty() {
            return;
        }
        self.stop();
        let cancel = self.tasks.cancel_token().child_token();
        self.activity = Activity::Speaking(cancel.clone());
        self.show(VoiceActivity::Speaking);
        let (speaker, audio) = (self.speaker.clone(), self.audio.clone());
        self.start(async move {
            let file = match speaker.speak(&words, None, &cancel).await {
                Ok(file) => file.path,
                Err(reason) => return VoiceOutcome::Failed(format!("The answer was not spoken: {reason}")),
            };
            let played = audio.play(&file, &cancel).await;
            if let Err(error) = std::fs::remove_file(&file) {
                tracing::warn!(%error, "speech was not removed");
            }
            match played {
                Ok(()) => VoiceOutcome::Spoken,
                Err(reason) => VoiceOutcome::Failed(reason),
            }
        });
    }

    fn start(&mut self, work: impl Future<Output = VoiceOutcome> + Send + 'static) {
        self.current += 1;
        let (number, ends) = (self.current, self.ends.0.clone());
        self.tasks.spawn("voice", async move {
            let outcome = work.await;
            // The chat has ended when nobody receives this.
            let _ = ends.send(ActivityEnd { number, outcome });
        });
    }

    fn show(&self, activity: VoiceActivity) {
        if let Some(screen) = &self.screen {
            screen.set_voice(activity);
        }
    }

    fn show_idle(&self) {
        if self.is_on || self.speaks {
            self.show(if self.is_on { VoiceActivity::Idle } else { VoiceActivity::Off });
        }
    }

    fn hint(&self, text: &str) {
        if let Some(screen) = &self.screen {
            screen.notice(text);
        }
    }
}

/// Adds to a spoken message what the model is told about it.
pub(crate) fn with_instruction(text: &str) -> String {
    format!("{SPOKEN_MESSAGE}\n\n{text}")
}

/// A recording and its transcription.
struct RecordingJob {
    audio: Audio,
    settings: VoiceSettings,
    transcriber: Transcriber,
    screen: ScreenHandle,
    finish: Cancel,
    cancel: Cancel,
}

impl RecordingJob {
    async fn run(self) -> VoiceOutcome {
        if self.settings.beeps {
            self.audio.beep(START_TONE, 1).await;
        }
        let recording = match self.record().await {
            Ok(recording) => recording,
            Err(reason) => return VoiceOutcome::Failed(reason),
        };
        if self.cancel.is_cancelled() {
            return VoiceOutcome::Silence;
        }
        if self.settings.beeps {
            self.audio.beep(END_TONE, 2).await;
        }
        if !recording.has_speech() {
            return VoiceOutcome::Silence;
        }
        self.screen.set_voice(VoiceActivity::Transcribing);
        let file = match self.audio.store(&recording.to_wav()) {
            Ok(file) => file,
            Err(reason) => return VoiceOutcome::Failed(reason),
        };
        let heard = self.transcriber.transcribe(&file, &self.cancel).await;
        if let Err(error) = std::fs::remove_file(&file) {
            tracing::warn!(%error, "a recording was not removed");
        }
        match heard {
            Ok(words) if is_phantom(&words) => VoiceOutcome::Silence,
            Ok(words) => VoiceOutcome::Heard(words),
            Err(reason) => VoiceOutcome::Failed(format!("What was said was not understood: {reason}")),
        }
    }

    /// Records until silence, the key, or an end for another reason.
    async fn record(&self) -> Result<Recording, String> {
        let mut stream = self.audio.record().await?;
        let mut recording = Recording::new(&self.settings);
        let mut shown = 0;
        loop {
            let samples = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Ok(recording),
                () = self.finish.cancelled() => return Ok(recording),
                samples = stream.next() => samples,
            };
            let Some(samples) = samples? else { return ended(&stream, recording) };
            if recording.push(&samples).is_some() {
                return Ok(recording);
            }
            if recording.level() != shown {
                shown = recording.level();
                self.screen.set_voice(VoiceActivity::Recording { level: shown });
            }
        }
    }
}

/// Judges a recording whose recorder ended by itself.
fn ended(stream: &SoundSource, recording: Recording) -> Result<Recording, String> {
    if recording.has_speech() {
        return Ok(recording);
    }
    match stream.messages() {
        messages if messages.is_empty() => Err("The recorder ended; is there a microphone?".to_owned()),
        messages => Err(format!("The recorder failed: {}", hermes_text::tail(&messages, 200))),
    }
}

/// Tells whether these are words that a recognizer makes of silence.
fn is_phantom(words: &str) -> bool {
    let plain: String =
        words.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let plain: Vec<&str> = plain.split_whitespace().collect();
    plain.is_empty() || PHANTOM_PHRASES.contains(&plain.join(" ").as_str())
}

#[cfg(test)]
mod tests {
    use super::is_phantom;

    #[test]
    fn what_recognizers_make_of_silence_is_no_message() {
        for (words, phantom) in [
            ("Thank you.", true),
            (" Thanks for watching! ", true),
            ("Subtitles by the Amara.org community", true),
            ("...", true),
            ("Thank you for the file, now delete it", false),
            ("so what?", false),
        ] {
            assert_eq!(is_phantom(words), phantom, "{words}");
        }
    }
}
