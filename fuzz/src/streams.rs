//! Streamed answers on the four wires.

use hermes_model::Error;
use hermes_model::wire::{AnswerDecoder, ApiMode, StreamEnding, WireOptions};
use hermes_types::{CallId, Delta};

use crate::answers::{check_answer, options};
use crate::{cuts, frames};

pub fn chat_stream(data: &[u8]) {
    check_stream(&options(ApiMode::Chat), data);
}

pub fn responses_stream(data: &[u8]) {
    check_stream(&options(ApiMode::Responses), data);
}

pub fn anthropic_stream(data: &[u8]) {
    check_stream(&options(ApiMode::Anthropic), data);
}

/// The first byte says how the rest becomes frames:
/// `f` one event per line, kind and payload parted by a blank; `m` one Messages event per line, wrapped in a chunk;
/// `h` one frame with raw headers, whose length is the second byte; anything else: raw bytes.
pub fn converse_stream(data: &[u8]) {
    let Some((form, rest)) = data.split_first() else { return };
    let lines = rest.split(|byte| *byte == b'\n');
    let converse = options(ApiMode::Converse);
    match form {
        b'f' => {
            let events = lines.map(|line| {
                let mut parts = line.splitn(2, |byte| *byte == b' ');
                frames::event(parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
            });
            check_stream(&converse, &events.collect::<Vec<_>>().concat());
        }
        b'm' => {
            let bedrock = WireOptions::new(ApiMode::Anthropic, "bedrock", converse.base.as_str());
            check_stream(&bedrock, &lines.map(frames::chunk).collect::<Vec<_>>().concat());
        }
        b'h' => {
            let (length, rest) = rest.split_first().unwrap_or((&0, &[]));
            let (headers, payload) = rest.split_at(usize::from(*length).min(rest.len()));
            check_stream(&converse, &frames::frame(headers, payload));
        }
        _ => check_stream(&converse, data),
    }
}

/// What a listener holds at the end of a stream.
#[derive(Debug, PartialEq)]
struct Heard {
    text: String,
    reasoning: String,
    started: Vec<String>,
    ending: Result<StreamEnding, Error>,
}

fn check_stream(options: &WireOptions, bytes: &[u8]) {
    let [whole, single, uneven] = cuts(bytes).map(|pieces| hear(options, &pieces));
    assert_eq!(whole, single, "cut into single bytes");
    assert_eq!(whole, uneven, "cut unevenly");
    let room = 8 * bytes.len() + 1024;
    assert!(whole.text.len() + whole.reasoning.len() <= room, "more was shown than came");
    match &whole.ending {
        Ok(StreamEnding::Complete(answer)) => {
            check_answer(answer, room);
            // Responses may say in its items what it never streamed, and the other way round.
            if options.mode == ApiMode::Chat && whole.started.is_empty() {
                let content = answer.message.content.text();
                assert_eq!(hermes_text::strip_think(&content), whole.text, "what was shown is what was said");
            }
        }
        Ok(StreamEnding::CutOff(cut)) => {
            assert!(cut.partial.tool_calls.is_empty(), "a call of a torn answer: {cut:?}");
            assert_eq!(cut.partial.finish_reason, None, "{cut:?}");
        }
        Err(Error::Retry { reason }) => assert!(reason.chars().count() < 400, "{reason}"),
        Err(Error::UseFallback { .. } | Error::Classify(_)) => {}
    }
}

fn hear(options: &WireOptions, pieces: &[&[u8]]) -> Heard {
    let mut decoder = AnswerDecoder::new(options);
    let mut deltas = Vec::new();
    let pushed = pieces.iter().try_for_each(|piece| decoder.push(piece, &mut deltas));
    let mut ending = match pushed {
        Err(error) => {
            let before = deltas.len();
            assert_eq!(decoder.push(b"data: {}\n\n", &mut deltas), Err(error.clone()), "an error is final");
            assert_eq!(decoder.finish(&mut deltas), Err(error.clone()), "an error is final");
            assert_eq!(deltas.len(), before, "nothing is shown behind an error");
            Err(error)
        }
        Ok(()) => {
            let ended = decoder.has_ended();
            let ending = decoder.finish(&mut deltas);
            let torn = matches!(ending, Ok(StreamEnding::CutOff(_)));
            // A chat stream may mark its end and still leave a call unfinished.
            assert!(!(torn && ended && options.mode == ApiMode::Converse), "ended and torn at once");
            ending
        }
    };
    forget_made_up_ids(&mut ending);
    let mut heard = Heard { text: String::new(), reasoning: String::new(), started: Vec::new(), ending };
    for delta in deltas {
        match delta {
            Delta::Text(text) => heard.text += &text,
            Delta::Reasoning(text) => heard.reasoning += &text,
            Delta::ToolStarted { name } => heard.started.push(name),
            Delta::Restart | Delta::Status(_) => panic!("a decoder has no say in that: {delta:?}"),
        }
    }
    heard
}

/// Ids that were made up differ from run to run; they are 17 letters long.
fn forget_made_up_ids(ending: &mut Result<StreamEnding, Error>) {
    let Ok(StreamEnding::Complete(answer)) = ending else { return };
    for (at, call) in answer.message.tool_calls.iter_mut().enumerate() {
        if call.id.as_str().len() == 17 {
            call.id = CallId::new(format!("made up {at}"));
            call.call_id = None;
            call.response_item_id = None;
        }
    }
}
