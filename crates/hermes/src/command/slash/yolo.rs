//! `/yolo`: dangerous commands run without approval.

use hermes_tools::Yolo;

use super::{CommandReply, SessionChange};

/// Says for what approvals are turned off, and how the command reads its argument there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum YoloScope {
    /// One conversation of a chat; without an argument approvals are turned off.
    Conversation,
    /// The running program; without an argument the command toggles.
    Program,
}

pub(super) fn run(argument: &str, current: Yolo, scope: YoloScope) -> CommandReply {
    let toggles_off = scope == YoloScope::Program && current == Yolo::On;
    let yolo = match argument {
        "on" => Yolo::On,
        "off" => Yolo::Off,
        _ if toggles_off => Yolo::Off,
        _ => Yolo::On,
    };
    let text = match (yolo, scope) {
        (Yolo::Off, _) => "Dangerous commands are asked about again.",
        (Yolo::On, YoloScope::Conversation) => {
            "⚠️ Dangerous commands of this conversation run without asking until `/yolo off`, `/new` or a restart."
        }
        (Yolo::On, YoloScope::Program) => "Dangerous commands run without asking; /yolo ends that.",
    };
    CommandReply::text(text).changing(SessionChange::Yolo(yolo))
}
