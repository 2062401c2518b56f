//! The tools of memory services.

use std::sync::Arc;
use std::time::Duration;

use hermes_text::head;
use hermes_types::{
    BoxFuture, OutcomeStatus, Provenance, RawJson, ResultAuthor, Tool, ToolContext, ToolDescriptor,
    ToolInvocation, ToolOutcome, ToolRole, ToolSpec, ToolUser,
};
use serde_json::json;

use crate::service::PersonalMemory;
use crate::table::{SERVICE_TOOL_TEXTS, ServiceToolText, TEXTS};

/// The longest time that a call of the model may take.
const LONGEST_CALL: Duration = Duration::from_secs(45);
/// The longest result, in bytes.
const LONGEST_RESULT: usize = 20_000;

/// The descriptors of the tools of all services, in the order in which people see them.
pub const SERVICE_TOOLS: [ToolDescriptor<'static>; TEXTS.len()] = descriptors();

const fn descriptors() -> [ToolDescriptor<'static>; TEXTS.len()] {
    let mut all = [ToolDescriptor::unknown(""); TEXTS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = descriptor(&TEXTS[at]);
        at += 1;
    }
    all
}

const fn descriptor(text: &ServiceToolText) -> ToolDescriptor<'static> {
    ToolDescriptor {
        name: text.name,
        toolset: text.toolset,
        summary: text.summary,
        condition: text.condition,
        icon: "🔮",
        verb: text.name,
        role: Some(ToolRole::MemoryService),
        withheld_from: &[ToolUser::Subagent, ToolUser::Job, ToolUser::Editor],
        result_author: ResultAuthor::Others,
        ..ToolDescriptor::unknown(text.name)
    }
}

/// A tool of the active service, for one person.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct EngineTool {
    spec: ToolSpec,
    text: &'static ServiceToolText,
    memory: PersonalMemory,
}

impl EngineTool {
    /// Returns the tools that the service of this memory offers.
    pub(crate) fn all(memory: &PersonalMemory) -> Vec<Arc<dyn Tool>> {
        let engine = &memory.service.engine;
        if !engine.offers_tools() {
            return Vec::new();
        }
        let own = SERVICE_TOOL_TEXTS.iter().filter(|text| text.engine == engine.name());
        own.map(|text| Arc::new(Self::new(text, memory.clone())) as Arc<dyn Tool>).collect()
    }

    fn new(text: &'static ServiceToolText, memory: PersonalMemory) -> Self {
        let parameters = RawJson::parse(text.parameters.to_owned())
            .unwrap_or_else(|_| RawJson::from_value(&json!({"type": "object", "properties": {}})));
        let (name, description) = (text.name.to_owned(), text.description.to_owned());
        Self { spec: ToolSpec { name, description, parameters }, text, memory }
    }

    async fn answer(&self, call: &ToolInvocation, context: ToolContext<'_>) -> ToolOutcome {
        let service = &self.memory.service;
        let folder = std::path::Path::new("");
        let scope = service.scope(&call.session, folder, &self.memory.person).await;
        let limit = context.deadline.remaining(&**service.clock()).min(LONGEST_CALL);
        let work = service.engine.call(&scope, self.text.name, &call.arguments);
        let answered = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return ToolOutcome::failed("The call was interrupted."),
            answered = service.limited(limit, work) => answered,
        };
        service.note(&answered);
        match answered {
            Ok(text) => ToolOutcome {
                content: json!({"result": head(&text, LONGEST_RESULT)}).to_string(),
                status: OutcomeStatus::Done,
                provenance: Provenance::Memory,
            },
            Err(error) => ToolOutcome::failed(error.to_string()),
        }
    }
}

impl Tool for EngineTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        descriptor(self.text)
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(self.answer(call, context))
    }
}
