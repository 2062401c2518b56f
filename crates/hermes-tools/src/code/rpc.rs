//! Handles the calls that a script makes over its socket.
//!
//! A call is handled like one of the model: with the same tools, frontend, cancellation and deadline.
//! Invariants: a client without the token only gets errors; the number of calls is limited.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hermes_types::{CallId, Tool, ToolContext, ToolEvent, ToolInvocation, ToolOutcome};
use serde::Deserialize;
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::reply;

/// The maximum length of a request.
const LONGEST_REQUEST: u64 = 32 * 1024 * 1024;
/// Options of the terminal that a script cannot use, because its commands run in the foreground.
const FOREGROUND_ONLY: [&str; 5] =
    ["background", "check_interval", "pty", "notify_on_complete", "watch_patterns"];

/// The tools that a script may call, and the context of the calls.
pub(super) struct ToolRpcService<'a> {
    pub(super) tools: &'a [Arc<dyn Tool>],
    /// The call that runs the script.
    pub(super) script: &'a ToolInvocation,
    pub(super) context: ToolContext<'a>,
    pub(super) token: &'a str,
    pub(super) most_calls: usize,
    pub(super) call_count: &'a AtomicUsize,
}

#[derive(Deserialize)]
struct RpcRequest {
    tool: String,
    #[serde(default)]
    args: Map<String, Value>,
    #[serde(default)]
    token: String,
}

impl ToolRpcService<'_> {
    /// Serves connections until the future is dropped.
    pub(super) async fn serve(&self, listener: &UnixListener) {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => open.push(self.serve_connection(stream)),
                    Err(error) => {
                        tracing::warn!(%error, "a script could not connect");
                        tokio::task::yield_now().await;
                    }
                },
                Some(ended) = open.next() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a script's connection broke");
                    }
                }
            }
        }
    }

    async fn serve_connection(&self, stream: UnixStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = (&mut stream).take(LONGEST_REQUEST).read_until(b'\n', &mut line).await?;
            if count == 0 {
                return Ok(());
            }
            let whole = line.ends_with(b"\n");
            let answer = if whole {
                self.answer(&line).await
            } else {
                reply::error("Invalid RPC request: it is too long or not ended by a newline")
            };
            stream.get_mut().write_all(answer.as_bytes()).await?;
            if !whole {
                return Ok(());
            }
        }
    }

    async fn answer(&self, line: &[u8]) -> String {
        let request: RpcRequest = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => return reply::error(&format!("Invalid RPC request: {error}")),
        };
        if !bool::from(request.token.as_bytes().ct_eq(self.token.as_bytes())) {
            return reply::error("Unauthorized RPC request");
        }
        let Some(tool) = self.tools.iter().find(|tool| tool.spec().name == request.tool) else {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
            return reply::error(&format!(
                "Tool '{}' is not available in execute_code. Available: {}",
                request.tool,
                names.join(", ")
            ));
        };
        let counted = self.call_count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| {
            (made < self.most_calls).then_some(made + 1)
        });
        let Ok(before) = counted else {
            return reply::error(&format!(
                "Tool call limit reached ({}). No more tool calls allowed in this execution.",
                self.most_calls
            ));
        };
        let outcome = self.run(&**tool, request, before + 1).await;
        reply::line(&outcome.content)
    }

    async fn run(&self, tool: &dyn Tool, request: RpcRequest, number: usize) -> ToolOutcome {
        let RpcRequest { tool: name, mut args, .. } = request;
        if name == "terminal" {
            args.retain(|name, _| !FOREGROUND_ONLY.contains(&name.as_str()));
        }
        let call = ToolInvocation {
            id: CallId::new(format!("{}_{number}", self.script.id.as_str())),
            name,
            arguments: args,
            ..self.script.clone()
        };
        for tool in self.tools {
            // The script does not have the pages that the model has read, so it must be able to read them
            // again.
            tool.on_event(&call.task, ToolEvent::Compressed);
            tool.on_event(&call.task, ToolEvent::CallStarting(&call.name));
        }
        let ran = AssertUnwindSafe(tool.run(&call, self.context)).catch_unwind().await;
        ran.unwrap_or_else(|_| {
            ToolOutcome::failed(format!("Tool execution failed: {} stopped unexpectedly", call.name))
        })
    }
}
