//! Asking a model until it answers: the one place where waiting, retrying and switching happen.
//!
//! Invariants: one deadline and one cancel token cover everything; text the user has seen is never shown twice; a tool
//! call of an answer that did not finish is never handed on; a key goes only to the endpoint it belongs to.

mod aws;
mod budget;
mod dump;
mod endpoint;
mod exchange;
mod learning;
mod learnt;
mod local;
mod persistence;
mod refusal_words;
mod shown;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_net::Client;
use hermes_text::estimate_tokens;
use hermes_types::{BoxFuture, Clock, Completion, Cost, DeltaSink, Model, ModelError, Request};

use crate::price::{Billing, HostKind, PricedRoute, cost};
use crate::wire::{
    Answer, Cause, Circumstances, Failure, Fallback, Field, KeyPool, Refresh, Remedy, Streaming, Vendor,
    backoff, build_body, classify, headers, invalid_response_backoff, url_for,
};
use dump::{Dumped, Occasion};
use exchange::{Patience, Sending, Trouble, exchange};
use shown::Shown;

pub use budget::{Account, Budget, BudgetedModel, SpentBefore};
pub use dump::{Dumps, Echo, Extent};
pub use endpoint::{AwsKeys, Credentials, Endpoint, FixedKey, Presented, Refusal, Unavailable};
pub use learning::Learning;
pub use learnt::Learnt;
pub use persistence::Persistence;

/// A model with its fallbacks.
#[derive(Debug)]
pub struct ModelClient {
    net: Client,
    clock: Arc<dyn Clock>,
    /// The first is the one configured; each further one is used when those before it have failed.
    endpoints: Vec<Endpoint>,
    persistence: Persistence,
    /// Which endpoint is in use; it only ever moves on.
    in_use: AtomicUsize,
    /// A server that cannot stream is not asked to again.
    streams: AtomicBool,
    dumps: Option<Dumps>,
    echo: Option<Echo>,
    learning: Option<Learning>,
}

impl ModelClient {
    /// `None` without an endpoint to ask.
    pub fn new(
        net: Client,
        clock: Arc<dyn Clock>,
        endpoints: Vec<Endpoint>,
        persistence: Persistence,
    ) -> Option<Self> {
        (!endpoints.is_empty()).then_some(Self {
            net,
            clock,
            endpoints,
            persistence,
            in_use: AtomicUsize::new(0),
            streams: AtomicBool::new(true),
            dumps: None,
            echo: None,
            learning: None,
        })
    }

    /// Writes requests down, as the user asked.
    #[must_use]
    pub fn with_dumps(mut self, dumps: Option<Dumps>) -> Self {
        self.dumps = dumps;
        self
    }

    /// Shows each request that is written down, too.
    #[must_use]
    pub fn with_echo(mut self, echo: Option<Echo>) -> Self {
        self.echo = echo;
        self
    }

    /// Finds out windows and prices after replies, in the background, and remembers them.
    #[must_use]
    pub fn with_learning(mut self, learning: Learning) -> Self {
        self.learning = Some(learning);
        self
    }

    /// The endpoint that would be asked now.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoints.get(self.in_use.load(Ordering::Relaxed)).or(self.endpoints.last())
    }

    async fn ask(&self, request: &Request, sink: DeltaSink<'_>) -> Result<Completion, ModelError> {
        let mut shown = Shown::new(sink);
        loop {
            let at = self.in_use.load(Ordering::Relaxed).min(self.endpoints.len().saturating_sub(1));
            let Some(endpoint) = self.endpoints.get(at) else {
                return Err(ModelError::Configure("no model is configured; run `hermes model`".to_owned()));
            };
            let fallback = self.endpoints.get(at + 1);
            match self.ask_endpoint(endpoint, fallback.is_some(), request, &mut shown).await {
                Ok(completion) => return Ok(completion),
                Err(GaveUp::MoveOn(why)) => {
                    let Some(next) = fallback else { return Err(gave_up(why, None)) };
                    shown.status(format!("{why} Switching to {} ({}).", next.model, next.wire.provider));
                    self.in_use.fetch_max(at + 1, Ordering::Relaxed);
                    self.streams.store(true, Ordering::Relaxed);
                }
                Err(GaveUp::Final(error)) => return Err(error),
            }
        }
    }

    /// Asks one endpoint until it answers, or there is nothing left to try with it.
    async fn ask_endpoint(
        &self,
        endpoint: &Endpoint,
        has_fallback: bool,
        request: &Request,
        shown: &mut Shown<'_>,
    ) -> Result<Completion, GaveUp> {
        let mut endpoint = endpoint.clone();
        if let Some(learning) = &self.learning {
            match learning.prepare_local(&mut endpoint, &request.cancel).await {
                Ok(note) => note.into_iter().for_each(|note| shown.status(note)),
                Err(words) => return Err(unusable(words, has_fallback)),
            }
        }
        let mut request = request.clone();
        request.model.clone_from(&endpoint.model);
        let mut tries = Tries::default();
        loop {
            self.check_time(&request)?;
            let presented = endpoint
                .credentials
                .current(&request.cancel)
                .await
                .map_err(|Unavailable(words)| unusable(words, has_fallback))?;
            let streaming =
                if self.streams.load(Ordering::Relaxed) { Streaming::Streamed } else { Streaming::Plain };
            shown.begin_attempt();
            let sending = Sending {
                client: &self.net,
                endpoint: &endpoint,
                presented,
                streaming,
                patience: self.patience(&request),
                clock: &*self.clock,
            };
            self.dump(Occasion::BeforeSending, &sending, &request, None);
            let outcome = exchange(&sending, &request, shown).await;
            let trouble = match outcome {
                Ok(answer) => {
                    shown.end_attempt();
                    let completion = complete(&endpoint, answer);
                    if let Some(learning) = &self.learning {
                        learning.after(&endpoint, &completion).await;
                    }
                    return Ok(completion);
                }
                Err(trouble) => trouble,
            };
            match trouble {
                Trouble::Cancelled => return Err(GaveUp::Final(ModelError::Cancelled)),
                Trouble::DeadlinePassed => return Err(GaveUp::Final(deadline_passed(tries.last.as_ref()))),
                Trouble::Misconfigured(words) => return Err(unusable(words, has_fallback)),
                Trouble::Shapeless(missing) => {
                    if has_fallback {
                        return Err(GaveUp::MoveOn(format!(
                            "{} sent no usable answer.",
                            endpoint.wire.provider
                        )));
                    }
                    tries.count += 1;
                    if tries.count >= self.persistence.attempts {
                        let message =
                            "Invalid API response shape. Likely rate limited or malformed provider response.";
                        return Err(GaveUp::Final(gave_up(format!("{message} ({missing})"), None)));
                    }
                    let wait = invalid_response_backoff(tries.count);
                    shown.status(format!(
                        "{} sent no usable answer ({missing}). Trying again in {} s.",
                        endpoint.wire.base.host(),
                        wait.as_secs()
                    ));
                    self.wait(wait, &request).await?;
                }
                Trouble::Failed(failure) => {
                    let (presented, summary) = (sending.presented, failure.summary());
                    let (refused, shown_key) = ((*failure).clone(), presented.clone());
                    let remedied = self
                        .remedy(
                            *failure,
                            &mut endpoint,
                            &mut request,
                            &mut tries,
                            has_fallback,
                            streaming,
                            shown,
                        )
                        .await;
                    if matches!(&remedied, Err(GaveUp::MoveOn(_) | GaveUp::Final(ModelError::GiveUp { .. })))
                    {
                        let exhausted = tries.count >= self.persistence.attempts;
                        let occasion = if exhausted { Occasion::RetriesExhausted } else { Occasion::Refused };
                        let (client, endpoint, clock) = (&self.net, &endpoint, &*self.clock);
                        let patience = self.patience(&request);
                        let sent = Sending { client, endpoint, presented, streaming, patience, clock };
                        self.dump(occasion, &sent, &request, Some(&summary));
                    }
                    match remedied {
                        Err(GaveUp::Final(ModelError::GiveUp { message, status })) => {
                            let learning = self.learning.as_ref();
                            let words = refusal_words::explain(
                                &refused,
                                &endpoint,
                                &shown_key,
                                learning,
                                &request.cancel,
                            )
                            .await;
                            return Err(GaveUp::Final(gave_up(words.unwrap_or(message), status)));
                        }
                        other => other?,
                    }
                }
            }
        }
    }

    fn dump(&self, occasion: Occasion, sending: &Sending<'_>, request: &Request, error: Option<&str>) {
        let Some(dumps) = &self.dumps else { return };
        if occasion == Occasion::BeforeSending && dumps.extent == Extent::Failures {
            return;
        }
        let Sending { endpoint, presented, streaming, clock, .. } = sending;
        let dumped = Dumped {
            session: request.session.as_deref(),
            url: &url_for(&endpoint.wire, &endpoint.model, *streaming),
            headers: &headers(&endpoint.wire, request),
            presented,
            body: &build_body(request, &endpoint.wire, *streaming).to_bytes(),
            error,
        };
        let text = dumps.write(occasion, &dumped, clock.now());
        if let Some(echo) = &self.echo {
            (echo.0)(&text);
        }
    }

    /// Does what helps against a failure, or says why nothing does.
    #[expect(clippy::too_many_arguments, reason = "everything a remedy may change is named here, once")]
    async fn remedy(
        &self,
        failure: Failure,
        endpoint: &mut Endpoint,
        request: &mut Request,
        tries: &mut Tries,
        has_fallback: bool,
        streaming: Streaming,
        shown: &mut Shown<'_>,
    ) -> Result<(), GaveUp> {
        if failure.is_network() && !shown.any() && streaming == Streaming::Streamed {
            if tries.connections < self.persistence.stream_retries {
                tries.connections += 1;
                tries.last = Some(failure);
                return Ok(());
            }
            if !tries.plain {
                // Some servers and proxies break streams and nothing else.
                tries.plain = true;
                self.streams.store(false, Ordering::Relaxed);
                tries.last = Some(failure);
                return Ok(());
            }
        }
        let known = Circumstances {
            refresh: if endpoint.credentials.can_renew() && !tries.renewed {
                Refresh::Possible
            } else {
                Refresh::Impossible
            },
            keys: if endpoint.credentials.has_another() { KeyPool::HasAnother } else { KeyPool::Exhausted },
            fallback: if has_fallback { Fallback::Available } else { Fallback::Unavailable },
            prompt_tokens: estimate(request),
            context_length: endpoint.window(),
            messages: request.messages.len(),
            max_tokens: request.max_tokens,
            dropped: endpoint.wire.dropped.clone(),
        };
        let verdict = classify(&failure, &known);
        let summary = verdict.summary;
        // A key that is gone for good is put away even when there is no other.
        let rotates = matches!(verdict.remedy, Remedy::RotateKey { .. } | Remedy::RefreshToken);
        if verdict.cause == Cause::Credential && !rotates && failure.final_word().is_some() {
            endpoint.credentials.rotate(&Refusal::read(verdict.cause, None, &failure));
        }
        match verdict.remedy {
            Remedy::Retry { after } => {
                tries.count += 1;
                if tries.count >= self.persistence.attempts {
                    return Err(self.exhausted(&summary, failure.status(), has_fallback));
                }
                let wait = after.unwrap_or_else(|| backoff(tries.count));
                shown.status(format!("{summary}. Trying again in {} s.", wait.as_secs().max(1)));
                tries.last = Some(failure);
                self.wait(wait, request).await
            }
            Remedy::RotateKey { after } => {
                if endpoint.credentials.rotate(&Refusal::read(verdict.cause, after, &failure)) {
                    return Ok(());
                }
                Err(self.exhausted(&summary, failure.status(), has_fallback))
            }
            Remedy::RefreshToken => {
                tries.renewed = true;
                let renewed = endpoint.credentials.renew(&request.cancel).await;
                renewed.map_err(|Unavailable(words)| unusable(words, has_fallback))
            }
            Remedy::Compress { limit } => {
                if let Some(limit) = limit {
                    endpoint.learnt.set_refused_above(limit);
                }
                Err(GaveUp::Final(match verdict.cause {
                    Cause::TooLarge => ModelError::TooLarge,
                    _ => ModelError::Compress { limit },
                }))
            }
            Remedy::LowerMaxTokens { to } => {
                if request.max_tokens.is_some_and(|current| current <= to) {
                    return Err(GaveUp::Final(gave_up(summary, failure.status())));
                }
                request.max_tokens = Some(to);
                Ok(())
            }
            Remedy::SwitchToFallback => Err(GaveUp::MoveOn(format!("{summary}."))),
            Remedy::DropField(Field::Streaming) => {
                self.streams.store(false, Ordering::Relaxed);
                Ok(())
            }
            Remedy::DropField(field) => {
                if field == Field::Tools {
                    shown.status(format!("{} cannot use tools; it answers without them.", endpoint.model));
                }
                drop_field(endpoint, field);
                Ok(())
            }
            Remedy::GiveUp { message } => Err(GaveUp::Final(gave_up(message, failure.status()))),
        }
    }

    fn check_time(&self, request: &Request) -> Result<(), GaveUp> {
        if request.cancel.is_cancelled() {
            return Err(GaveUp::Final(ModelError::Cancelled));
        }
        if request.deadline.is_past(&*self.clock) {
            return Err(GaveUp::Final(deadline_passed(None)));
        }
        Ok(())
    }

    /// Waits, but not past the deadline and not after a cancellation.
    async fn wait(&self, span: Duration, request: &Request) -> Result<(), GaveUp> {
        let left = request.deadline.remaining(&*self.clock);
        if span >= left {
            return Err(GaveUp::Final(ModelError::DeadlinePassed(format!(
                "the provider asks to wait {} s, and the turn has {} s left",
                span.as_secs(),
                left.as_secs()
            ))));
        }
        let mut sleeping = self.clock.sleep(span);
        let mut cancelled = std::pin::pin!(request.cancel.cancelled());
        std::future::poll_fn(|context| {
            use std::task::Poll;
            if cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(GaveUp::Final(ModelError::Cancelled)));
            }
            sleeping.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// A large prompt takes a provider longer to begin with.
    fn patience(&self, request: &Request) -> Patience {
        let extra = match estimate(request) {
            0..=50_000 => 0,
            50_001..=100_000 => 60,
            _ => 120,
        };
        let stall = self.persistence.stall_after + Duration::from_secs(extra);
        let silence = self.persistence.read_within.map_or(stall, |read| read.min(stall));
        Patience { answer: self.persistence.answer_within, stall, silence }
    }

    fn exhausted(&self, summary: &str, status: Option<u16>, has_fallback: bool) -> GaveUp {
        let attempts = self.persistence.attempts;
        if has_fallback {
            return GaveUp::MoveOn(format!("{summary}."));
        }
        GaveUp::Final(gave_up(format!("API call failed after {attempts} attempts: {summary}"), status))
    }
}

impl Model for ModelClient {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(self.ask(request, sink))
    }

    fn context_window(&self, _model: &str) -> u64 {
        self.endpoint().map_or(crate::context_window::DEFAULT, Endpoint::window)
    }
}

/// What has been tried with one endpoint.
#[derive(Debug, Default)]
struct Tries {
    count: u32,
    connections: u32,
    plain: bool,
    renewed: bool,
    last: Option<Failure>,
}

/// An endpoint has nothing left to try.
enum GaveUp {
    /// The next one may do better; the words say why.
    MoveOn(String),
    Final(ModelError),
}

/// Nothing was wrong with the provider: the settings do not let us ask it.
fn unusable(words: String, has_fallback: bool) -> GaveUp {
    if has_fallback {
        GaveUp::MoveOn(format!("{words}."))
    } else {
        GaveUp::Final(ModelError::Configure(words))
    }
}

fn gave_up(message: String, status: Option<u16>) -> ModelError {
    ModelError::GiveUp { message, status }
}

fn deadline_passed(last: Option<&Failure>) -> ModelError {
    let words = last.map_or_else(|| "the turn's time is used up".to_owned(), Failure::summary);
    ModelError::DeadlinePassed(words)
}

/// Left out from now on for this request's further attempts.
fn drop_field(endpoint: &mut Endpoint, field: Field) {
    if !endpoint.wire.dropped.contains(&field) {
        endpoint.wire.dropped.push(field);
    }
}

fn estimate(request: &Request) -> u64 {
    let messages: u64 = request
        .messages
        .iter()
        .map(|message| {
            let calls: u64 = message.tool_calls.iter().map(|call| estimate_tokens(&call.arguments) + 8).sum();
            estimate_tokens(&message.content.text()) + calls + 4
        })
        .sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| estimate_tokens(&tool.description) + estimate_tokens(tool.parameters.as_str()))
        .sum();
    estimate_tokens(&request.system) + messages + tools
}

fn complete(endpoint: &Endpoint, answer: Answer) -> Completion {
    let host =
        if matches!(endpoint.wire.vendor, Vendor::Other) { HostKind::Private } else { HostKind::Public };
    let route = PricedRoute { provider: &endpoint.wire.provider, model: &endpoint.model, host };
    let billing = Billing::find(&route, answer.reported_cost, endpoint.current_prices());
    let cost = answer.usage.map_or(Cost::UNKNOWN, |usage| cost(usage, billing).0);
    answer.into_completion(&endpoint.wire.provider, &endpoint.model, cost)
}
