//! A turn while the user may type, answer or interrupt.

use hermes_tui::Operation;
use hermes_types::{Cancel, Frontend as _};

use super::frontend::{ChatFrontend, ChatView};
use super::input::{ChatEvent, ChatInput, is_command, restore_terminal};
use super::message::TypedMessage;
use super::signals::{ChatSignal, ChatSignals};

/// The meaning of a line that is typed while a turn runs and that answers no question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedLinePolicy {
    /// The line is the next message; it stops the turn unless the settings say that it waits.
    Interrupt,
    /// The line is ignored, because there is no next turn.
    Ignore,
}

/// The result of a turn, and what was typed while it ran.
pub(crate) struct DrivenTurn<T> {
    pub(crate) result: T,
    /// Messages and commands in order; messages in a row are one.
    pub(crate) typed: Vec<TypedMessage>,
}

/// Runs a turn while the user may type, answer or interrupt. The first Ctrl-C stops the turn, the second the
/// program; a signal that ends the chat stops the turn too.
pub(crate) async fn drive<T>(
    turn: impl Future<Output = T>,
    frontend: &ChatFrontend<'_>,
    input: &mut ChatInput,
    signals: &mut ChatSignals,
    cancel: &Cancel,
    policy: TypedLinePolicy,
) -> DrivenTurn<T> {
    let mut turn = std::pin::pin!(turn);
    let mut typed = TypedLines::default();
    let mut listening = true;
    loop {
        tokio::select! {
            biased;
            result = &mut turn => {
                // The turn did not come to these any more.
                frontend.take_remarks().into_iter().for_each(|remark| typed.push(remark.into()));
                return DrivenTurn { result, typed: typed.0 };
            }
            heard = signals.next() => match heard {
                ChatSignal::Interrupt if cancel.is_cancelled() => leave_at_once(),
                ChatSignal::Interrupt | ChatSignal::End => cancel.cancel(),
            },
            event = input.next(), if listening => match event {
                None => listening = false,
                Some(ChatEvent::Line(line)) => {
                    let line = frontend.answer(line).filter(|line| !line.trim().is_empty());
                    if let Some(line) = line {
                        take_line(line, frontend, cancel, policy, &mut typed);
                    }
                }
                Some(ChatEvent::Screen(operation)) => perform(operation, frontend, cancel, &mut typed),
            },
        }
    }
}

/// What was typed and waits for the end of the turn.
#[derive(Default)]
struct TypedLines(Vec<TypedMessage>);

impl TypedLines {
    fn push(&mut self, message: TypedMessage) {
        match self.0.last_mut() {
            Some(last) if !last.is_command() && !message.is_command() => last.append(message),
            _ => self.0.push(message),
        }
    }
}

/// Takes a line of the line chat.
fn take_line(
    line: String,
    frontend: &ChatFrontend<'_>,
    cancel: &Cancel,
    policy: TypedLinePolicy,
    typed: &mut TypedLines,
) {
    if is_command(&line) {
        return take_command(line, frontend, cancel, typed);
    }
    match frontend.display().busy_input_mode.as_str() {
        "steer" if policy == TypedLinePolicy::Interrupt => return frontend.remark(line),
        "queue" => {}
        _ if policy == TypedLinePolicy::Interrupt && !cancel.is_cancelled() => {
            if let ChatView::Lines(lines) = &frontend.view {
                lines.print_note("⚡ New message detected, interrupting...");
            }
            cancel.cancel();
        }
        _ => {}
    }
    typed.push(line.into());
}

/// Takes a command: those about the running turn act now, the others wait for its end.
fn take_command(line: String, frontend: &ChatFrontend<'_>, cancel: &Cancel, typed: &mut TypedLines) {
    let (name, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    match name.to_lowercase().as_str() {
        "/steer" if !rest.trim().is_empty() => frontend.remark(rest.trim().to_owned()),
        "/queue" | "/q" if !rest.trim().is_empty() => typed.push(rest.trim().to_owned().into()),
        "/agents" | "/tasks" => frontend.list_agents(),
        "/quit" | "/exit" | "/q" => {
            cancel.cancel();
            typed.push(line.into());
        }
        _ => typed.push(line.into()),
    }
}

/// Does what was typed on the screen while a turn runs.
fn perform(operation: Operation, frontend: &ChatFrontend<'_>, cancel: &Cancel, typed: &mut TypedLines) {
    match operation {
        Operation::Submit(text) | Operation::Queue(text) => typed.push(text.into()),
        Operation::Steer(text) => frontend.remark(text.text),
        Operation::Command(line) => take_command(line, frontend, cancel, typed),
        Operation::Interrupt => cancel.cancel(),
        Operation::Quit => take_command("/quit".to_owned(), frontend, cancel, typed),
        // The key records while no turn runs.
        Operation::Record | Operation::CancelRecording => {}
        Operation::ForceQuit => leave_at_once(),
    }
}

/// Ends the program although the turn has not stopped. What the turn did so far is stored.
fn leave_at_once() -> ! {
    restore_terminal();
    std::process::exit(130)
}
