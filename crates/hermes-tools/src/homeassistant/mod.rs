//! `ha_list_entities`, `ha_get_state`, `ha_list_services` and `ha_call_service`: the devices of a house, through the
//! REST API of Home Assistant.
//!
//! Invariants: requests go to the configured address only, and a name becomes part of a path only when it is a plain
//! one; services that run programs or send requests are not called.

mod catalog;
mod request;

use std::sync::Arc;

use hermes_types::{
    BoxFuture, CallPolicy, Clock, Concurrency, OutcomeStatus, Provenance, ResultAuthor, Secret, Tool,
    ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer::{failure_json, success_json};
use crate::argument::{missing, spec, text};
use crate::web::LazyHttpClient;
use request::HomeRequest;

const TOOLSET: &str = "homeassistant";

const BASE: ToolDescriptor<'static> = ToolDescriptor {
    toolset: TOOLSET,
    condition: "when `HASS_TOKEN` is set",
    icon: "🏠",
    verb: "home",
    preview_arguments: &["entity_id", "service", "domain", "area"],
    result_author: ResultAuthor::Others,
    ..ToolDescriptor::unknown("")
};

pub(crate) const LIST_ENTITIES: ToolDescriptor<'static> =
    ToolDescriptor { name: "ha_list_entities", summary: "Lists devices and sensors", ..BASE };
pub(crate) const GET_STATE: ToolDescriptor<'static> =
    ToolDescriptor { name: "ha_get_state", summary: "Reads the state of a device or sensor", ..BASE };
pub(crate) const LIST_SERVICES: ToolDescriptor<'static> =
    ToolDescriptor { name: "ha_list_services", summary: "Lists what devices can do", ..BASE };
pub(crate) const CALL_SERVICE: ToolDescriptor<'static> =
    ToolDescriptor { name: "ha_call_service", summary: "Switches and sets devices", ..BASE };

/// The access to a Home Assistant.
#[derive(Debug, Clone)]
pub struct HomeAssistantAccess {
    /// The address, with or without a trailing slash.
    pub url: String,
    pub token: Secret,
    pub http: LazyHttpClient,
    pub clock: Arc<dyn Clock>,
}

/// The action of one of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HomeAction {
    ListEntities,
    GetState,
    ListServices,
    CallService,
}

/// One of the four tools.
#[derive(Debug)]
pub struct HomeAssistantTool {
    spec: ToolSpec,
    action: HomeAction,
    access: HomeAssistantAccess,
}

impl HomeAssistantTool {
    /// Builds the four tools.
    pub fn all(access: &HomeAssistantAccess) -> [Self; 4] {
        let tool = |action: HomeAction, description: &str, parameters: &str| Self {
            spec: spec(&action.descriptor(), description, parameters),
            action,
            access: access.clone(),
        };
        [
            tool(
                HomeAction::ListEntities,
                include_str!("../texts/ha_list_entities.md"),
                include_str!("../texts/ha_list_entities.json"),
            ),
            tool(
                HomeAction::GetState,
                include_str!("../texts/ha_get_state.md"),
                include_str!("../texts/ha_get_state.json"),
            ),
            tool(
                HomeAction::ListServices,
                include_str!("../texts/ha_list_services.md"),
                include_str!("../texts/ha_list_services.json"),
            ),
            tool(
                HomeAction::CallService,
                include_str!("../texts/ha_call_service.md"),
                include_str!("../texts/ha_call_service.json"),
            ),
        ]
    }

    async fn execute(&self, call: &ToolInvocation, context: &ToolContext<'_>) -> ToolOutcome {
        let arguments = &call.arguments;
        let required = |name: &str| text(arguments, name).ok_or_else(|| missing(&self.spec.name, name));
        let request = match self.action {
            HomeAction::ListEntities => HomeRequest::states(),
            HomeAction::GetState => match required("entity_id") {
                Ok(entity) => HomeRequest::state(entity.trim()),
                Err(outcome) => return outcome,
            },
            HomeAction::ListServices => HomeRequest::services(),
            HomeAction::CallService => match (required("domain"), required("service")) {
                (Ok(domain), Ok(service)) => HomeRequest::service(domain.trim(), service.trim(), arguments),
                (Err(outcome), _) | (_, Err(outcome)) => return outcome,
            },
        };
        let sent = match request {
            Ok(request) => request.send(&self.access, context).await,
            Err(reason) => Err(reason),
        };
        match sent {
            Ok(answer) => self.result(arguments, &answer),
            Err(reason) => failure_json(&json!({"error": reason})),
        }
    }

    fn result(&self, arguments: &Map<String, Value>, answer: &Value) -> ToolOutcome {
        let result = match self.action {
            HomeAction::ListEntities => {
                catalog::entities(answer, text(arguments, "domain"), text(arguments, "area"))
            }
            HomeAction::GetState => catalog::state(answer),
            HomeAction::ListServices => catalog::services(answer, text(arguments, "domain")),
            HomeAction::CallService => catalog::service_result(arguments, answer),
        };
        // Names and states come from devices, not from the user.
        ToolOutcome {
            provenance: Provenance::Web,
            status: OutcomeStatus::Done,
            ..success_json(&json!({"result": result}))
        }
    }
}

impl HomeAction {
    const fn descriptor(self) -> ToolDescriptor<'static> {
        match self {
            Self::ListEntities => LIST_ENTITIES,
            Self::GetState => GET_STATE,
            Self::ListServices => LIST_SERVICES,
            Self::CallService => CALL_SERVICE,
        }
    }
}

impl Tool for HomeAssistantTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        self.action.descriptor()
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { self.execute(call, &context).await })
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        let concurrency = match self.action {
            HomeAction::CallService => Concurrency::Sequential,
            _ => Concurrency::Parallel,
        };
        CallPolicy { concurrency, ..CallPolicy::default() }
    }
}
