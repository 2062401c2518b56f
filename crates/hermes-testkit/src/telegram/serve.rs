//! The HTTP server: routes, long polls, faults, downloads, and the web page.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::call::{FakeTelegramCall, FakeTelegramError, Result};
use super::fault::TelegramFault;
use super::{FakeTelegramServer, page, webhook};
use crate::http::{HttpConnection, ReceivedRequest};
use crate::script::CutKind;
use crate::task::start_in;

pub(super) async fn serve(listener: TcpListener, stage: Arc<FakeTelegramServer>) {
    let mut work = JoinSet::new();
    start_in(&mut work, webhook::deliver(stage.clone()));
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start_in(&mut work, serve_connection(stream, stage.clone()));
            },
            Some(_) = work.join_next() => {}
        }
    }
}

/// A response, or the lack of one.
pub(super) enum FakeTelegramAnswer {
    Body { status: u16, kind: &'static str, bytes: Vec<u8> },
    Nothing,
}

impl FakeTelegramAnswer {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::Body { status, kind: "application/json", bytes: body.to_string().into_bytes() }
    }

    fn of(result: Result<Value>) -> Self {
        match result {
            Ok(value) => Self::json(200, &json!({"ok": true, "result": value})),
            Err(refusal) => Self::json(refusal.code, &refusal.to_json()),
        }
    }
}

async fn serve_connection(stream: TcpStream, stage: Arc<FakeTelegramServer>) {
    let mut connection = HttpConnection::new(stream);
    while let Ok(message) = connection.read().await {
        let answer = tokio::select! {
            answer = answer(&stage, &message) => answer,
            () = connection.until_gone() => return,
        };
        let FakeTelegramAnswer::Body { status, kind, bytes } = answer else {
            return connection.cut(CutKind::Rst).await;
        };
        let head = format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            bytes.len()
        );
        let whole = [head.into_bytes(), bytes].concat();
        if connection.write(&whole).await.is_err() || message.wants_close() {
            return;
        }
    }
}

async fn answer(stage: &FakeTelegramServer, message: &ReceivedRequest) -> FakeTelegramAnswer {
    let (path, query) = message.target.split_once('?').unwrap_or((&message.target, ""));
    if let Some(rest) = path.strip_prefix("/file/bot") {
        return download(stage, rest);
    }
    let Some((token, method)) = path.strip_prefix("/bot").and_then(|rest| rest.split_once('/')) else {
        return page::answer(stage, path, query, message);
    };
    if token != stage.world.read(|world| world.token.clone()) {
        return FakeTelegramAnswer::of(Err(FakeTelegramError::new(401, "Unauthorized")));
    }
    match FakeTelegramCall::read(method, query, message) {
        Ok(call) => perform(stage, &call).await,
        Err(refusal) => FakeTelegramAnswer::of(Err(refusal)),
    }
}

async fn perform(stage: &FakeTelegramServer, call: &FakeTelegramCall) -> FakeTelegramAnswer {
    let fault = stage.world.update(|world| {
        world.calls.push((call.method.clone(), call.fields.clone()));
        world.faults.get_mut(&call.method).and_then(std::collections::VecDeque::pop_front)
    });
    match &fault {
        Some(TelegramFault::Refuse { code, description, retry_after }) => {
            let mut refusal = FakeTelegramError::new(*code, description.clone());
            if let Some(seconds) = retry_after {
                refusal.parameters = json!({"retry_after": seconds});
            }
            return FakeTelegramAnswer::of(Err(refusal));
        }
        Some(TelegramFault::Drop) => return FakeTelegramAnswer::Nothing,
        Some(TelegramFault::Garbage) => {
            let bytes = b"<html><body>502 Bad Gateway</body></html>".to_vec();
            return FakeTelegramAnswer::Body { status: 502, kind: "text/html", bytes };
        }
        Some(TelegramFault::Hang(gate)) => stage.gates.pass(gate).await,
        Some(TelegramFault::DropAfter | TelegramFault::HangAfter(_)) | None => {}
    }
    let result = match call.method.as_str() {
        "getUpdates" => updates(stage, call).await,
        _ => stage.world.update(|world| world.perform(call)),
    };
    match &fault {
        Some(TelegramFault::DropAfter) => return FakeTelegramAnswer::Nothing,
        Some(TelegramFault::HangAfter(gate)) => stage.gates.pass(gate).await,
        _ => {}
    }
    FakeTelegramAnswer::of(result)
}

/// Confirms the updates before the offset and waits for more. A later poll ends an earlier one.
async fn updates(stage: &FakeTelegramServer, call: &FakeTelegramCall) -> Result<Value> {
    let mine = stage.world.update(|world| {
        world.check(call)?;
        if world.hook.is_some() {
            let why = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first";
            return Err(FakeTelegramError::new(409, why));
        }
        let offset = call.number("offset").unwrap_or_default();
        if offset < 0 {
            let keep = usize::try_from(-offset).unwrap_or_default();
            let surplus = world.pending.len().saturating_sub(keep);
            world.pending.drain(..surplus);
        }
        world.pending.retain(|(id, _)| *id >= offset);
        world.poll += 1;
        Ok(world.poll)
    })?;
    let limit =
        call.number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(100).clamp(1, 100);
    let allowed: Vec<String> = call
        .document("allowed_updates")?
        .and_then(|list| serde_json::from_value(list).ok())
        .unwrap_or_default();
    let look = stage.world.until(|world| {
        if world.poll != mine {
            let why = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";
            return Some(Err(FakeTelegramError::new(409, why)));
        }
        let wanted = |update: &Value| allowed.is_empty() || allowed.iter().any(|kind| update.get(kind).is_some());
        world.pending.retain(|(_, update)| wanted(update));
        let waiting: Vec<Value> = world.pending.iter().take(limit).map(|(_, update)| update.clone()).collect();
        (!waiting.is_empty()).then_some(Ok(Value::Array(waiting)))
    });
    let patience =
        Duration::from_secs(call.number("timeout").and_then(|span| span.try_into().ok()).unwrap_or(0));
    tokio::time::timeout(patience, look).await.unwrap_or(Ok(json!([])))
}

fn download(stage: &FakeTelegramServer, rest: &str) -> FakeTelegramAnswer {
    stage.world.read(|world| {
        let path = rest.strip_prefix(&world.token).and_then(|rest| rest.strip_prefix('/'));
        match path.and_then(|path| world.files.values().find(|file| file.path == path)) {
            Some(file) => FakeTelegramAnswer::Body {
                status: 200,
                kind: "application/octet-stream",
                bytes: file.bytes.clone(),
            },
            None => FakeTelegramAnswer::of(Err(FakeTelegramError::new(404, "Not Found"))),
        }
    })
}
