//! The steps of a turn at which hooks of the user run: names, and what an answer means.

/// A step at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookEvent {
    PreToolCall,
    PostToolCall,
    TransformToolResult,
    TransformTerminalOutput,
    TransformLlmOutput,
    PreLlmCall,
    PostLlmCall,
    PreApiRequest,
    PostApiRequest,
    ApiRequestError,
    OnSessionStart,
    OnSessionEnd,
    OnSessionFinalize,
    OnSessionReset,
    SubagentStart,
    SubagentStop,
}

/// Says what the answer of a hook does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookReply {
    /// Nothing waits for it.
    Ignored,
    /// A text keeps the tool from running; the model reads it instead of a result.
    Block,
    /// A text is added to what the model reads in this turn.
    Context,
    /// A text takes the place of the result.
    Replacement,
}

/// What is known about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookFacts {
    pub event: HookEvent,
    /// The name in configurations, plugins and inputs of hooks.
    pub name: &'static str,
    pub reply: HookReply,
    /// Says when it runs, for people.
    pub when: &'static str,
}

const fn facts(event: HookEvent, name: &'static str, reply: HookReply, when: &'static str) -> HookFacts {
    HookFacts { event, name, reply, when }
}

/// All steps.
pub const HOOK_FACTS: &[HookFacts] = &[
    facts(HookEvent::PreToolCall, "pre_tool_call", HookReply::Block, "before a tool runs"),
    facts(HookEvent::PostToolCall, "post_tool_call", HookReply::Ignored, "after a tool ran"),
    facts(
        HookEvent::TransformToolResult,
        "transform_tool_result",
        HookReply::Replacement,
        "before the model reads a result",
    ),
    facts(
        HookEvent::TransformTerminalOutput,
        "transform_terminal_output",
        HookReply::Replacement,
        "before the model reads the output of a command",
    ),
    facts(
        HookEvent::TransformLlmOutput,
        "transform_llm_output",
        HookReply::Replacement,
        "before an answer is stored and delivered",
    ),
    facts(
        HookEvent::PreLlmCall,
        "pre_llm_call",
        HookReply::Context,
        "once per turn, before the first model call",
    ),
    facts(HookEvent::PostLlmCall, "post_llm_call", HookReply::Ignored, "once per turn, after the answer"),
    facts(HookEvent::PreApiRequest, "pre_api_request", HookReply::Ignored, "before each model call"),
    facts(HookEvent::PostApiRequest, "post_api_request", HookReply::Ignored, "after each model call"),
    facts(HookEvent::ApiRequestError, "api_request_error", HookReply::Ignored, "when a model call fails"),
    facts(
        HookEvent::OnSessionStart,
        "on_session_start",
        HookReply::Ignored,
        "with the first turn of a session",
    ),
    facts(HookEvent::OnSessionEnd, "on_session_end", HookReply::Ignored, "at the end of each turn"),
    facts(
        HookEvent::OnSessionFinalize,
        "on_session_finalize",
        HookReply::Ignored,
        "when a session is closed",
    ),
    facts(HookEvent::OnSessionReset, "on_session_reset", HookReply::Ignored, "when `/new` closes a session"),
    facts(HookEvent::SubagentStart, "subagent_start", HookReply::Ignored, "when a subagent starts"),
    facts(HookEvent::SubagentStop, "subagent_stop", HookReply::Ignored, "when a subagent ends"),
];

impl HookEvent {
    /// Returns the facts of this step.
    pub fn facts(self) -> HookFacts {
        let found = HOOK_FACTS.iter().find(|facts| facts.event == self).copied();
        found.unwrap_or(facts(self, "", HookReply::Ignored, ""))
    }

    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Finds a step by its name.
    pub fn parse(name: &str) -> Option<Self> {
        HOOK_FACTS.iter().find(|facts| facts.name == name).map(|facts| facts.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_in_the_table_once() {
        for facts in HOOK_FACTS {
            assert_eq!(HookEvent::parse(facts.name), Some(facts.event));
            assert_eq!(facts.event.facts(), *facts);
            assert!(!facts.name.is_empty() && !facts.when.is_empty());
        }
    }
}
