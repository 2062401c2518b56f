//! Opens the connection to a server: starts its program, or reaches its address.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_config::settings::{McpServer, McpTransport};
use hermes_exec::{Program, ProgramRunner, StderrMode, Variables};
use rmcp::RoleClient;
use rmcp::service::{ClientInitializeError, RunningService, serve_client};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};

use crate::connections::SharedParts;
use crate::error::Error;
use crate::event_handler::EventHandler;
use crate::foreign_text::scrub_error;
use crate::http_transport::HttpTransport;
use crate::process_transport::{LONGEST_LINE, ProcessTransport, StderrTail};

/// Programs that users have in a folder of their own.
const NODE_PROGRAMS: [&str; 3] = ["npx", "npm", "node"];

/// Connects a server and exchanges the greetings.
pub(crate) async fn connect(
    server: &McpServer,
    shared: &SharedParts,
    handler: EventHandler,
) -> Result<RunningService<RoleClient, EventHandler>, Error> {
    match &server.transport {
        McpTransport::Stdio { command, args, env } => {
            let stderr_tail = StderrTail::default();
            let transport = start_program(command, args, env, shared, stderr_tail.clone()).await?;
            serve_client(handler, transport).await.map_err(|error| {
                let said = stderr_tail.text();
                let reason = match (&error, said.is_empty()) {
                    (_, true) => error.to_string(),
                    (ClientInitializeError::ConnectionClosed(_), false) => {
                        format!("the program ended: {said}")
                    }
                    (_, false) => format!("{error}: {said}"),
                };
                Error::Unavailable(scrub_error(&reason))
            })
        }
        McpTransport::Http { url, oauth, .. } => {
            let transport = HttpTransport::new(server, shared)?;
            let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            let transport = StreamableHttpClientTransport::with_client(transport, config);
            serve_client(handler, transport).await.map_err(|error| {
                match (error.is_authorization_required(), oauth) {
                    (true, true) => Error::SignInNeeded { server: server.name.clone() },
                    (true, false) => Error::Configuration(
                        "the server does not accept the request (HTTP 401); check the key in its headers, or set auth: oauth"
                            .to_owned(),
                    ),
                    (false, _) => Error::Unavailable(scrub_error(&initialize_reason(&error))),
                }
            })
        }
    }
}

/// Returns the reason without the names of Rust types that the transport's texts have.
fn initialize_reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        other => other.to_string(),
    }
}

async fn start_program(
    command: &str,
    args: &[String],
    env: &[(String, String)],
    shared: &SharedParts,
    stderr_tail: StderrTail,
) -> Result<ProcessTransport, Error> {
    let pairs =
        shared.options.base_variables.iter().chain(env).map(|(name, value)| (name.as_str(), value.as_str()));
    let mut variables = Variables::exactly(pairs);
    let runner = ProgramRunner::new(variables.clone(), shared.clock.clone());
    let command = hermes_path(command, &shared.options.user_home);
    let found = runner.find(&command).or_else(|| node_program(&command, shared));
    let Some(program) = found else {
        return Err(Error::Configuration(format!("there is no program `{command}`")));
    };
    // A program such as npx starts others that lie beside it.
    if let Some(folder) = program.parent().and_then(Path::to_str).filter(|folder| !folder.is_empty()) {
        let path = format!("{folder}:{}", variables.get("PATH").unwrap_or_default());
        variables = variables.with("PATH", &path);
    }
    let name = program.to_string_lossy();
    let program = Program {
        name: &name,
        arguments: args.iter().map(Into::into).collect(),
        directory: &shared.options.folder,
        limit: Duration::MAX,
        stderr: StderrMode::Merge,
    };
    let process = ProgramRunner::new(variables, shared.clock.clone()).piped(program, LONGEST_LINE).await;
    let process = process.map_err(|error| Error::Unavailable(scrub_error(&error.to_string())))?;
    Ok(ProcessTransport::new(process, stderr_tail, shared.clock.clone()))
}

fn hermes_path(command: &str, user_home: &Path) -> String {
    match command.strip_prefix("~/") {
        Some(rest) => user_home.join(rest).to_string_lossy().into_owned(),
        None => command.to_owned(),
    }
}

/// Finds one of Node's programs where installers put it.
fn node_program(command: &str, shared: &SharedParts) -> Option<PathBuf> {
    if !NODE_PROGRAMS.contains(&command) {
        return None;
    }
    let folders = [shared.options.home.join("node/bin"), shared.options.user_home.join(".local/bin")];
    folders.into_iter().map(|folder| folder.join(command)).find(|path| path.is_file())
}
