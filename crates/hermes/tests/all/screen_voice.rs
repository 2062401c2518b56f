//! Voice mode of the screen, with stand-ins for the programs that record, understand, speak and play.

use std::path::Path;

use hermes_testkit::TempHome;
use serde_json::{Value, json};

use super::screen::EmulatedTerminal;

/// A recorder that is heard saying something for a second, and then nothing; after two recordings only silence.
const RECORDER: &str = r#"#!/bin/sh
echo "record $*" >> "$HOME/log"
n=$(grep -c ^record "$HOME/log")
[ -e "$HOME/broken" ] && { echo "no such device" >&2; exit 1; }
if [ "$n" -le 2 ]; then
    exec /usr/bin/python3 -c 'import sys,time; w=sys.stdout.buffer.write
w(b"\x00\x20\x00\xe0"*8000); w(b"\x00\x00"*64000); sys.stdout.flush(); time.sleep(600)'
fi
exec /usr/bin/python3 -c 'import sys,time; w=sys.stdout.buffer.write
w(b"\x00\x00"*16000*16); sys.stdout.flush(); time.sleep(600)'
"#;
const PLAYER: &str = r#"#!/bin/sh
for file; do :; done
case "$file" in */beep-*) echo beep >> "$HOME/log" ;; *) echo "play $(head -c 4 "$file")" >> "$HOME/log" ;; esac
"#;
const SPEAKER: &str = r#"#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = -w ] && out=$2; shift; done
echo "speak $1" >> "$HOME/log"
printf RIFFspeech > "$out"
"#;
const RECOGNIZER: &str = "head -c 4 {input_path} >> $HOME/log; echo understood >> $HOME/log; echo what the microphone heard > {output_dir}/said.txt";

const TALK: &str = r"
replies:
  - {when: {user_contains: microphone heard}, text: 'You **said** it.'}
  - {when: {user_contains: typed}, text: 'You typed it.'}
default: {reply: {text: a title}}
";

fn open(more: &Value) -> EmulatedTerminal {
    EmulatedTerminal::prepared(TALK, more, |home| {
        write_no_microphone(home);
        for (name, text) in [("arecord", RECORDER), ("ffplay", PLAYER), ("espeak-ng", SPEAKER)] {
            write_program(&home.path().join("user/bin").join(name), text);
        }
        let env = home.path().join(".env");
        let text = std::fs::read_to_string(&env).unwrap_or_default();
        std::fs::write(&env, format!("{text}HERMES_LOCAL_STT_COMMAND={RECOGNIZER}\n")).unwrap();
    })
}

fn write_program(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn log(home: &TempHome) -> String {
    std::fs::read_to_string(home.path().join("user/log")).unwrap_or_default()
}

#[test]
fn what_is_said_becomes_a_message_and_the_answer_is_spoken() {
    let mut terminal = open(&json!({"tts": {"provider": "espeak"}, "voice": {"auto_tts": true}}));
    terminal.until_ready();
    terminal.say("/voice on");
    terminal.until_shown("Voice mode is on: ctrl+b records");
    terminal.until_shown("🎤 ❯");
    terminal.press("\x02");
    // Two spoken messages follow each other; then nobody speaks three times, and it waits for the key again.
    terminal.until_shown("● what the microphone heard");
    terminal.until_shown("You said it.");
    terminal.until_shown("Nobody spoke.");
    let log = log(&terminal.home);
    assert!(
        log.starts_with("beep\nrecord -q -f S16_LE -r 16000 -c 1 -t raw\nbeep\nRIFFunderstood\nspeak"),
        "{log}"
    );
    for (what, times) in [("record ", 5), ("understood", 2), ("speak ", 2), ("play RIFF", 2)] {
        assert_eq!(log.matches(what).count(), times, "{what}: {log}");
    }
    let requests = terminal.server.requests();
    let asked = requests
        .iter()
        .map(|request| request.body_text().into_owned())
        .find(|body| body.contains("microphone"));
    assert!(asked.unwrap().contains("The user spoke this message"));
    let kept = terminal.home.path().join("cache/voice");
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 0, "recordings and speech are removed");
    // What was typed is not marked as spoken, and what is stored is what was said.
    terminal.say("/voice off");
    terminal.until_shown("Voice mode is off.");
    terminal.say("typed words");
    terminal.until_shown("You typed it.");
    let last = terminal.server.requests().pop().unwrap();
    let last = last.body_text().into_owned();
    assert!(last.contains("what the microphone heard") && !last.contains("The user spoke"), "{last}");
    terminal.say("/quit");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn a_recording_is_thrown_away_and_a_recorder_that_fails_is_named() {
    let mut terminal =
        open(&json!({"voice": {"beep_enabled": false, "silence_duration": 60, "record_key": "f8"}}));
    terminal.until_ready();
    terminal.say("/voice on");
    terminal.until_shown("f8 records");
    terminal.press("\x1b[19~");
    terminal.until_shown("recording…");
    terminal.press("\x03");
    terminal.until_shown("🎤 ❯");
    std::fs::write(terminal.home.path().join("user/broken"), "").unwrap();
    terminal.press("\x1b[19~");
    terminal.until_shown("The recorder failed: no such device");
    terminal.until_shown("🎤 ❯");
    assert!(!log(&terminal.home).contains("understood"));
    assert!(terminal.server.requests().is_empty());
    terminal.say("/voice status");
    terminal.until_shown("Voice mode: on (f8 records)");
    terminal.say("/quit");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn what_is_missing_for_voice_mode_is_said() {
    let mut terminal = EmulatedTerminal::prepared(TALK, &json!({}), write_no_microphone);
    terminal.until_ready();
    terminal.say("/voice on");
    terminal.until_shown("Voice mode cannot be turned on: no program records sound here");
    terminal.say("/voice loud");
    terminal.until_shown("`loud` is none of on, off, tts, status.");
    terminal.say("/quit");
    assert_eq!(terminal.end().code(), Some(0));
}

/// A device that gives what is in a file, without waiting, and then silence.
#[cfg(feature = "cpal")]
fn write_microphone(home: &TempHome) {
    let user = home.path().join("user");
    let said = user.join("microphone.raw");
    let tone = (0..32_000).flat_map(|at| (if at % 16 < 8 { 8000_i16 } else { -8000 }).to_le_bytes());
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(&said, tone.chain(std::iter::repeat_n(0, 3_200_000)).collect::<Vec<u8>>()).unwrap();
    let device = format!(
        "pcm.!default {{ type file slave.pcm {{ type null }} file /dev/null infile \"{}\" format raw }}\n",
        said.display()
    );
    std::fs::write(user.join(".asoundrc"), device).unwrap();
}

#[cfg(feature = "cpal")]
#[test]
fn the_microphone_needs_no_program() {
    let more = json!({"voice": {"beep_enabled": false}});
    let mut terminal = EmulatedTerminal::prepared(TALK, &more, |home| {
        write_microphone(home);
        let env = home.path().join(".env");
        let text = std::fs::read_to_string(&env).unwrap_or_default();
        std::fs::write(&env, format!("{text}HERMES_LOCAL_STT_COMMAND={RECOGNIZER}\n")).unwrap();
    });
    terminal.until_ready();
    terminal.say("/voice on");
    terminal.until_shown("Voice mode is on: ctrl+b records");
    terminal.press("\x02");
    terminal.until_shown("● what the microphone heard");
    terminal.until_shown("You said it.");
    terminal.say("/voice off");
    terminal.until_shown("Voice mode is off.");
    assert!(log(&terminal.home).starts_with("RIFFunderstood"), "{}", log(&terminal.home));
    terminal.say("/quit");
    assert_eq!(terminal.end().code(), Some(0));
}

#[cfg(feature = "cpal")]
#[test]
fn a_program_records_where_no_microphone_can_be_opened() {
    let more = json!({"voice": {"beep_enabled": false}});
    let mut terminal = open(&more);
    terminal.until_ready();
    terminal.say("/voice on");
    terminal.until_shown("Voice mode is on: ctrl+b records");
    terminal.press("\x02");
    terminal.until_shown("You said it.");
    assert!(log(&terminal.home).starts_with("record -q"), "{}", log(&terminal.home));
    terminal.say("/quit");
    terminal.end();
    let mut without = EmulatedTerminal::prepared(TALK, &more, write_no_microphone);
    without.until_ready();
    without.say("/voice on");
    without.until_shown("without a program:");
    without.say("/quit");
    assert_eq!(without.end().code(), Some(0));
}

/// A sound system without devices, also on a machine with one.
fn write_no_microphone(home: &TempHome) {
    let user = home.path().join("user");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(user.join(".asoundrc"), "pcm.!default { type hw card 99 }\n").unwrap();
}
