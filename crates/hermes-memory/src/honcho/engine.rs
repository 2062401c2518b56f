//! Talks to Honcho.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use hermes_net::Method;
use hermes_text::{ellipsize, head};
use hermes_types::{BoxFuture, MemoryWrite, SessionId};
use serde_json::{Map, Value, json};

use super::session_name::session_name;
use super::settings::{HonchoMemoryMode, HonchoRecallMode, HonchoSettings, HonchoWriteFrequency};
use crate::client::{EngineAccess, EngineClient, KeyHeader, texts_in};
use crate::engine::{
    EngineHealth, EngineResult, MemoryEngine, MemoryScope, SpokenMessage, number, optional, required,
    safe_name,
};

const API: &str = "v3";
/// The longest message Honcho takes; longer ones are sent in pieces.
const LONGEST_PIECE: usize = 25_000;
/// The most messages in one request.
const MOST_MESSAGES: usize = 100;
/// The longest question.
const LONGEST_QUESTION: usize = 10_000;
/// The bytes of a token, roughly.
const TOKEN_BYTES: usize = 4;
/// The most conversations of which anything is kept.
const MOST_KEPT: usize = 256;

/// Honcho as a memory.
pub(crate) struct Honcho {
    client: EngineClient,
    settings: HonchoSettings,
    state: Mutex<HonchoState>,
}

#[derive(Default)]
struct HonchoState {
    /// What exists there: workspaces, peers and sessions.
    created: HashSet<String>,
    /// The first session of a conversation that was compressed.
    roots: HashMap<SessionId, SessionId>,
    /// Turns that wait for their time, by session.
    unsent: HashMap<String, Vec<Value>>,
    /// What Honcho said about the user after the last turn, by session.
    dialectic: HashMap<String, String>,
}

impl Honcho {
    pub(crate) fn new(settings: HonchoSettings, access: &EngineAccess) -> Result<Self, String> {
        let key = settings.key.clone().map(|key| (KeyHeader::Bearer, key));
        let client = EngineClient::new(access, "Honcho", "HONCHO_API_KEY", &settings.url, key)?;
        Ok(Self { client, settings, state: Mutex::default() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, HonchoState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn user(&self, scope: &MemoryScope) -> String {
        scope.person.key().unwrap_or_else(|| safe_name(&self.settings.peer))
    }

    fn ai(&self) -> String {
        safe_name(&self.settings.ai_peer)
    }

    fn session(&self, scope: &MemoryScope) -> String {
        let root = self.state().roots.get(&scope.session).cloned().unwrap_or_else(|| scope.session.clone());
        session_name(&self.settings, scope, root.as_str())
    }

    /// Sends a request below the workspace.
    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> EngineResult<Value> {
        let whole: Vec<&str> =
            [API, "workspaces", &self.settings.workspace].into_iter().chain(path.iter().copied()).collect();
        self.client.send(method, &whole, query, body).await
    }

    async fn post(&self, path: &[&str], body: &Value) -> EngineResult<Value> {
        self.send(Method::POST, path, &[], Some(body)).await
    }

    /// Creates what does not exist yet: workspace, peers, session. Honcho returns those that exist.
    async fn prepare_session(&self, scope: &MemoryScope) -> EngineResult<String> {
        let (user, ai, session) = (self.user(scope), self.ai(), self.session(scope));
        self.prepare_peers(&user, &ai).await?;
        let mark = format!("session {session} {user}");
        if !self.state().created.contains(&mark) {
            let config = json!({"observe_me": true, "observe_others": true});
            let body = json!({"id": session, "peers": {&user: config, &ai: config}});
            self.post(&["sessions"], &body).await?;
            self.state().created.insert(mark);
        }
        Ok(session)
    }

    async fn prepare_peers(&self, user: &str, ai: &str) -> EngineResult<()> {
        if !self.state().created.contains("workspace") {
            self.client.post(&[API, "workspaces"], &json!({"id": self.settings.workspace})).await?;
            self.state().created.insert("workspace".to_owned());
        }
        for peer in [user, ai] {
            let mark = format!("peer {peer}");
            if !self.state().created.contains(&mark) {
                self.post(&["peers"], &json!({"id": peer})).await?;
                self.state().created.insert(mark);
            }
        }
        Ok(())
    }

    /// Sends messages in order.
    async fn send_messages(&self, session: &str, messages: &[Value]) -> EngineResult<()> {
        for batch in messages.chunks(MOST_MESSAGES) {
            self.post(&["sessions", session, "messages"], &json!({"messages": batch})).await?;
        }
        Ok(())
    }

    /// Sends what waited for its time.
    async fn flush(&self, scope: &MemoryScope) -> EngineResult<()> {
        let session = self.session(scope);
        let waiting = self.state().unsent.remove(&session).unwrap_or_default();
        if waiting.is_empty() {
            return Ok(());
        }
        self.prepare_session(scope).await?;
        self.send_messages(&session, &waiting).await
    }

    /// Asks a question that a model answers.
    async fn ask(&self, scope: &MemoryScope, question: &str, about: &str) -> EngineResult<Option<String>> {
        let (user, ai) = (self.user(scope), self.ai());
        self.prepare_peers(&user, &ai).await?;
        let mut body = json!({
            "query": head(question, LONGEST_QUESTION), "stream": false,
            "reasoning_level": self.settings.reasoning_level,
        });
        if about != ai {
            body["target"] = json!(about);
        }
        let answer = self.post(&["peers", &ai, "chat"], &body).await?;
        Ok(answer
            .get("content")
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|t| !t.is_empty())
            .map(str::to_owned))
    }

    async fn conclude(&self, scope: &MemoryScope, fact: &str) -> EngineResult<()> {
        let (user, ai) = (self.user(scope), self.ai());
        let session = self.prepare_session(scope).await?;
        let conclusion = json!({
            "content": fact, "observer_id": ai, "observed_id": user, "session_id": session,
        });
        self.post(&["conclusions"], &json!({"conclusions": [conclusion]})).await.map(drop)
    }

    /// Returns what Honcho concluded about the user, as far as it belongs to a text.
    async fn representation(&self, scope: &MemoryScope, query: &str) -> EngineResult<Vec<String>> {
        let (user, ai) = (self.user(scope), self.ai());
        self.prepare_peers(&user, &ai).await?;
        let query = head(query, LONGEST_QUESTION);
        let answer = self
            .send(
                Method::GET,
                &["peers", &ai, "context"],
                &[("target", &user), ("search_query", query)],
                None,
            )
            .await?;
        let mut found = texts_in(&answer, &["/peer_card"]);
        let text = answer.get("representation").and_then(Value::as_str).unwrap_or_default().trim();
        if !text.is_empty() {
            found.push(text.to_owned());
        }
        Ok(found)
    }

    /// Cuts recalled texts to the budget of tokens.
    fn within_budget(&self, found: Vec<String>) -> Vec<String> {
        let Some(tokens) = self.settings.context_tokens else { return found };
        let mut left = tokens.saturating_mul(TOKEN_BYTES);
        let cut = |text: String| {
            let kept = head(&text, left).to_owned();
            left -= kept.len();
            kept
        };
        found.into_iter().map(cut).filter(|text| !text.is_empty()).collect()
    }

    fn messages_of(&self, scope: &MemoryScope, turn: &[SpokenMessage]) -> Vec<Value> {
        let (user, ai) = (self.user(scope), self.ai());
        let mut messages = Vec::new();
        for said in turn {
            let mode = if said.is_user { self.settings.user_mode } else { self.settings.ai_mode };
            if mode == HonchoMemoryMode::Local {
                continue;
            }
            let peer = if said.is_user { &user } else { &ai };
            let mut rest = said.text.as_str();
            while !rest.is_empty() {
                let piece = head(rest, LONGEST_PIECE);
                // A piece always moves on, whatever the limit.
                let piece = if piece.is_empty() { rest } else { piece };
                messages.push(json!({"content": piece, "peer_id": peer}));
                rest = rest.get(piece.len()..).unwrap_or_default();
            }
        }
        messages
    }
}

impl MemoryEngine for Honcho {
    fn name(&self) -> &'static str {
        "honcho"
    }

    fn label(&self) -> &'static str {
        "Honcho"
    }

    fn recalls(&self) -> bool {
        self.settings.recall_mode != HonchoRecallMode::Tools
    }

    fn stores(&self) -> bool {
        self.settings.saves_messages
    }

    fn offers_tools(&self) -> bool {
        self.settings.recall_mode != HonchoRecallMode::Context
    }

    fn recall<'a>(
        &'a self,
        scope: &'a MemoryScope,
        query: &'a str,
    ) -> BoxFuture<'a, EngineResult<Vec<String>>> {
        Box::pin(async move {
            let mut found = self.representation(scope, query).await?;
            let key = self.dialectic_key(scope);
            found.extend(self.state().dialectic.get(&key).cloned());
            Ok(self.within_budget(found))
        })
    }

    fn store_turn<'a>(
        &'a self,
        scope: &'a MemoryScope,
        turn: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            let messages = self.messages_of(scope, turn);
            let session = self.session(scope);
            let is_due = {
                let mut state = self.state();
                let waiting = state.unsent.entry(session).or_default();
                waiting.extend(messages);
                match self.settings.write_frequency {
                    HonchoWriteFrequency::EachTurn => true,
                    HonchoWriteFrequency::Session => false,
                    HonchoWriteFrequency::Turns(turns) => waiting.len() >= turns.saturating_mul(2),
                }
            };
            if is_due { self.flush(scope).await } else { Ok(()) }
        })
    }

    fn prepare<'a>(&'a self, scope: &'a MemoryScope, query: &'a str) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            if !self.recalls() || self.settings.dialectic_chars == 0 {
                return Ok(());
            }
            let question = format!(
                "What is known about this person that helps to answer what they say next? They said last: {query}"
            );
            let user = self.user(scope);
            let answer = self.ask(scope, &question, &user).await?;
            let key = self.dialectic_key(scope);
            let mut state = self.state();
            if state.dialectic.len() >= MOST_KEPT {
                state.dialectic.clear();
            }
            match answer {
                Some(text) => {
                    let text = ellipsize(&text, self.settings.dialectic_chars).into_owned();
                    state.dialectic.insert(key, text);
                }
                None => {
                    state.dialectic.remove(&key);
                }
            }
            Ok(())
        })
    }

    fn call<'a>(
        &'a self,
        scope: &'a MemoryScope,
        tool: &'a str,
        arguments: &'a Map<String, Value>,
    ) -> BoxFuture<'a, EngineResult<String>> {
        Box::pin(async move {
            let (user, ai) = (self.user(scope), self.ai());
            match tool {
                "honcho_profile" => {
                    self.prepare_peers(&user, &ai).await?;
                    let target = [("target", user.as_str())];
                    let answer = self.send(Method::GET, &["peers", &ai, "card"], &target, None).await?;
                    let facts = texts_in(&answer, &["/peer_card"]);
                    Ok(match facts.as_slice() {
                        [] => "Honcho knows nothing about the user yet.".to_owned(),
                        facts => facts.join("\n"),
                    })
                }
                "honcho_search" => {
                    let query = required(arguments, "query")?;
                    let tokens = number(arguments, "max_tokens", 800, 2_000);
                    let limit = usize::try_from(tokens).unwrap_or(800).saturating_mul(TOKEN_BYTES);
                    self.prepare_peers(&user, &ai).await?;
                    let body = json!({"target": user, "search_query": query});
                    let answer = self.post(&["peers", &ai, "representation"], &body).await?;
                    let text =
                        answer.get("representation").and_then(Value::as_str).unwrap_or_default().trim();
                    Ok(if text.is_empty() {
                        "No relevant context found.".to_owned()
                    } else {
                        head(text, limit).to_owned()
                    })
                }
                "honcho_context" => {
                    let about = if optional(arguments, "peer") == Some("ai") { &ai } else { &user };
                    let answer = self.ask(scope, required(arguments, "query")?, about).await?;
                    Ok(answer.unwrap_or_else(|| "Honcho has no answer.".to_owned()))
                }
                // Not a tool of the model: the command `hermes honcho identity`.
                "identity" => {
                    let text = required(arguments, "identity")?;
                    self.prepare_peers(&user, &ai).await?;
                    let about = json!({"content": text, "observer_id": ai, "observed_id": ai});
                    self.post(&["conclusions"], &json!({"conclusions": [about]})).await?;
                    Ok("Stored.".to_owned())
                }
                _ => {
                    let fact = required(arguments, "conclusion")?;
                    self.conclude(scope, fact).await?;
                    Ok(format!("Stored: {fact}"))
                }
            }
        })
    }

    fn mirror<'a>(
        &'a self,
        scope: &'a MemoryScope,
        write: &'a MemoryWrite,
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            let is_observation = write.action == "add" && write.target == "user" && !write.content.is_empty();
            if is_observation { self.conclude(scope, &write.content).await } else { Ok(()) }
        })
    }

    fn end_session<'a>(
        &'a self,
        scope: &'a MemoryScope,
        _: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(self.flush(scope))
    }

    fn session_continues(&self, from: &SessionId, to: &SessionId) {
        let mut state = self.state();
        if state.roots.len() >= MOST_KEPT {
            state.roots.clear();
        }
        let root = state.roots.get(from).cloned().unwrap_or_else(|| from.clone());
        state.roots.insert(to.clone(), root);
    }

    fn check(&self) -> BoxFuture<'_, EngineResult<EngineHealth>> {
        Box::pin(async move {
            self.client.post(&[API, "workspaces"], &json!({"id": self.settings.workspace})).await?;
            Ok(EngineHealth { place: self.client.place() })
        })
    }
}

impl Honcho {
    fn dialectic_key(&self, scope: &MemoryScope) -> String {
        format!("{} {}", self.session(scope), self.user(scope))
    }
}
