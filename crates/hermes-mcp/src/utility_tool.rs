//! The tools that read a server's resources and prompts.

use std::sync::Arc;

use hermes_types::{
    BoxFuture, RawJson, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec,
};
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest, ListResourcesRequest,
    PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use serde_json::{Map, Value, json};

use crate::call::CallError;
use crate::content::{prompt_messages, prompts, resource_text, resources};
use crate::foreign_text::mask;
use crate::link::ServerLink;
use crate::listing::ServerListing;
use crate::names::toolset_name;
use crate::tool::{call_failed, descriptor, marked, outcome_of_error};

/// The most pages of a list that are read.
const MOST_PAGES: usize = 20;

/// What a utility tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Utility {
    ListResources,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

impl Utility {
    fn name(self) -> &'static str {
        match self {
            Self::ListResources => "list_resources",
            Self::ReadResource => "read_resource",
            Self::ListPrompts => "list_prompts",
            Self::GetPrompt => "get_prompt",
        }
    }

    fn description(self, server: &str) -> String {
        match self {
            Self::ListResources => format!("List the resources of the MCP server {server}"),
            Self::ReadResource => format!("Read a resource of the MCP server {server} by its URI"),
            Self::ListPrompts => format!("List the prompts of the MCP server {server}"),
            Self::GetPrompt => format!("Get a prompt of the MCP server {server} by its name"),
        }
    }

    fn parameters(self) -> Value {
        match self {
            Self::ListResources | Self::ListPrompts => {
                json!({"type": "object", "properties": {}, "required": []})
            }
            Self::ReadResource => json!({
                "type": "object",
                "properties": {"uri": {"type": "string", "description": "URI of the resource"}},
                "required": ["uri"],
            }),
            Self::GetPrompt => json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Name of the prompt"},
                    "arguments": {"type": "object", "description": "Arguments of the prompt", "properties": {}},
                },
                "required": ["name"],
            }),
        }
    }
}

/// One utility tool of a server.
pub(crate) struct UtilityTool {
    spec: ToolSpec,
    toolset: String,
    utility: Utility,
    other_name: String,
    link: Arc<ServerLink>,
}

impl UtilityTool {
    /// Lists the utility tools of a server: those for what it has and the user did not switch off.
    pub(crate) fn of<'a>(
        link: &'a Arc<ServerLink>,
        listing: &'a ServerListing,
    ) -> impl Iterator<Item = Arc<dyn Tool>> + 'a {
        let of_resources = [Utility::ListResources, Utility::ReadResource].into_iter();
        let of_prompts = [Utility::ListPrompts, Utility::GetPrompt].into_iter();
        of_resources
            .filter(|_| listing.has_resources)
            .chain(of_prompts.filter(|_| listing.has_prompts))
            .map(|utility| Arc::new(Self::new(utility, link.clone())) as Arc<dyn Tool>)
    }

    fn new(utility: Utility, link: Arc<ServerLink>) -> Self {
        let (server, naming) = (link.server.name.as_str(), link.shared.options.naming);
        let spec = ToolSpec {
            name: naming.tool_name(server, utility.name()),
            description: utility.description(server),
            parameters: RawJson::from_value(&utility.parameters()),
        };
        let other_name = naming.other().tool_name(server, utility.name());
        Self { spec, toolset: toolset_name(server), utility, other_name, link }
    }

    async fn call(&self, call: &ToolInvocation, context: ToolContext<'_>) -> ToolOutcome {
        let text =
            |name: &str| call.arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let answer = match self.utility {
            Utility::ListResources => self.list_resources(&context).await,
            Utility::ListPrompts => self.list_prompts(&context).await,
            Utility::ReadResource => {
                let uri = text("uri");
                if uri.is_empty() {
                    return ToolOutcome::failed("Missing required parameter 'uri'");
                }
                self.read_resource(uri, &context).await
            }
            Utility::GetPrompt => {
                let name = text("name");
                if name.is_empty() {
                    return ToolOutcome::failed("Missing required parameter 'name'");
                }
                let arguments = call.arguments.get("arguments").and_then(Value::as_object).cloned();
                self.get_prompt(name, arguments, &context).await
            }
        };
        match answer {
            Ok(Some(answer)) => {
                let masked = mask(&answer.to_string(), self.link.shared.options.secrets).into_owned();
                match serde_json::from_str(&masked) {
                    Ok(Value::Object(answer)) => marked(answer),
                    _ => marked(Map::from_iter([("result".to_owned(), masked.into())])),
                }
            }
            Ok(None) => call_failed("ProtocolError", "the server answered something else"),
            Err(error) => outcome_of_error(&self.link.server.name, error),
        }
    }

    async fn list_resources(&self, context: &ToolContext<'_>) -> Result<Option<Value>, CallError> {
        let mut pages = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let request = ListResourcesRequest::with_param(
                PaginatedRequestParams::default().with_cursor(cursor.take()),
            );
            let ServerResult::ListResourcesResult(page) = self.link.request(request, context).await? else {
                return Ok(None);
            };
            cursor.clone_from(&page.next_cursor);
            pages.push(page);
            if cursor.is_none() {
                break;
            }
        }
        Ok(Some(resources(&pages)))
    }

    async fn list_prompts(&self, context: &ToolContext<'_>) -> Result<Option<Value>, CallError> {
        let mut pages = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let request =
                ListPromptsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor.take()));
            let ServerResult::ListPromptsResult(page) = self.link.request(request, context).await? else {
                return Ok(None);
            };
            cursor.clone_from(&page.next_cursor);
            pages.push(page);
            if cursor.is_none() {
                break;
            }
        }
        Ok(Some(prompts(&pages)))
    }

    async fn read_resource(
        &self,
        uri: String,
        context: &ToolContext<'_>,
    ) -> Result<Option<Value>, CallError> {
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        Ok(match self.link.request(ClientRequest::from(request), context).await? {
            ServerResult::ReadResourceResult(result) => Some(json!({"result": resource_text(&result)})),
            _ => None,
        })
    }

    async fn get_prompt(
        &self,
        name: String,
        arguments: Option<Map<String, Value>>,
        context: &ToolContext<'_>,
    ) -> Result<Option<Value>, CallError> {
        let mut params = GetPromptRequestParams::new(name);
        params.arguments = arguments;
        Ok(match self.link.request(GetPromptRequest::new(params), context).await? {
            ServerResult::GetPromptResult(result) => Some(prompt_messages(&result)),
            _ => None,
        })
    }
}

impl Tool for UtilityTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        descriptor(&self.spec.name, &self.toolset)
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(self.call(call, context))
    }

    fn upgrade_legacy_call(&self, name: &str, arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
        (name == self.other_name).then(|| arguments.clone())
    }
}
