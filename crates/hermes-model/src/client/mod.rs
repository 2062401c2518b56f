//! Sends a request until a model answers: the only place where waiting, retrying and switching happen.
//!
//! Invariants: one deadline and one cancel token cover everything; text the user has seen is never shown twice; a
//! tool call of an incomplete answer is never returned; a key is sent only to the endpoint it belongs to.

mod aws;
mod background_discovery;
mod budget;
mod dump;
mod endpoint;
mod endpoint_stats;
mod exchange;
mod local_server;
mod pictures;
mod raw_tool_calls;
mod refusal_messages;
mod replay_filter;
mod retry_policy;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_net::HttpClient;
use hermes_text::estimate_tokens;
use hermes_types::{BoxFuture, Clock, Completion, Cost, DeltaSink, Model, ModelError, ModelRequest};

use crate::price::{CallBilling, HostKind, PriceKey, cost};
use crate::wire::{
    DecodedAnswer, EndpointVendor, FailureCause, FailureContext, FallbackAvailability, PoolAvailability,
    ProviderFailure, Remedy, RequestField, StreamingMode, TokenRefresh, backoff, build_body, classify,
    headers, invalid_response_backoff, url_for,
};
use dump::{DumpReason, DumpedRequest};
use exchange::{ExchangeError, ExchangeOptions, ExchangeTimeouts, exchange};
use pictures::{PictureRefusals, leave_out_pictures};
use replay_filter::ReplayFilter;

pub use background_discovery::BackgroundDiscovery;
pub use budget::{Budget, BudgetedModel, SpendingAccount};
pub use dump::{DumpEcho, DumpScope, RequestDumper};
pub use endpoint::{
    AwsKeys, CredentialProvider, CredentialUnavailable, Endpoint, FixedCredential, KeyRefusal,
    PresentedCredential,
};
pub use endpoint_stats::EndpointStats;
pub use raw_tool_calls::RawToolCallModel;
pub use retry_policy::RetryPolicy;

/// A model with its fallbacks.
#[derive(Debug)]
pub struct ModelClient {
    net: HttpClient,
    clock: Arc<dyn Clock>,
    /// The configured endpoint first; each further one is used when those before it have failed.
    endpoints: Vec<Endpoint>,
    retry_policy: RetryPolicy,
    /// The index of the endpoint in use; it only increases.
    in_use: AtomicUsize,
    /// Cleared once a server failed to stream; it is not asked to stream again.
    streams: AtomicBool,
    refusals: PictureRefusals,
    dumps: Option<RequestDumper>,
    echo: Option<DumpEcho>,
    discovery: Option<BackgroundDiscovery>,
}

impl ModelClient {
    /// Creates a client, or returns `None` without an endpoint.
    pub fn new(
        net: HttpClient,
        clock: Arc<dyn Clock>,
        endpoints: Vec<Endpoint>,
        persistence: RetryPolicy,
    ) -> Option<Self> {
        (!endpoints.is_empty()).then_some(Self {
            net,
            clock,
            endpoints,
            retry_policy: persistence,
            in_use: AtomicUsize::new(0),
            streams: AtomicBool::new(true),
            refusals: PictureRefusals::default(),
            dumps: None,
            echo: None,
            discovery: None,
        })
    }

    /// Dumps requests as the user configured.
    #[must_use]
    pub fn with_dumps(mut self, dumps: Option<RequestDumper>) -> Self {
        self.dumps = dumps;
        self
    }

    /// Shows each request that is dumped, too.
    #[must_use]
    pub fn with_echo(mut self, echo: Option<DumpEcho>) -> Self {
        self.echo = echo;
        self
    }

    /// Enables discovery of windows and prices, in the background after replies.
    #[must_use]
    pub fn with_discovery(mut self, learning: BackgroundDiscovery) -> Self {
        self.discovery = Some(learning);
        self
    }

    /// Returns the endpoint that the next request goes to.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoints.get(self.in_use.load(Ordering::Relaxed)).or(self.endpoints.last())
    }

    async fn ask(&self, request: &ModelRequest, sink: DeltaSink<'_>) -> Result<Completion, ModelError> {
        let mut shown = ReplayFilter::new(sink);
        loop {
            let at = self.in_use.load(Ordering::Relaxed).min(self.endpoints.len().saturating_sub(1));
            let Some(endpoint) = self.endpoints.get(at) else {
                return Err(ModelError::Configure("no model is configured; run `hermes model`".to_owned()));
            };
            let fallback = self.endpoints.get(at + 1);
            match self.ask_endpoint(endpoint, fallback.is_some(), request, &mut shown).await {
                Ok(completion) => return Ok(completion),
                Err(EndpointFailure::MoveOn(why)) => {
                    let Some(next) = fallback else { return Err(give_up_error(why, None)) };
                    shown.status(format!("{why} Switching to {} ({}).", next.model, next.wire.provider));
                    self.in_use.fetch_max(at + 1, Ordering::Relaxed);
                    self.streams.store(true, Ordering::Relaxed);
                }
                Err(EndpointFailure::Final(error)) => return Err(error),
            }
        }
    }

    /// Sends the request to one endpoint until it answers or no remedy is left.
    async fn ask_endpoint(
        &self,
        endpoint: &Endpoint,
        has_fallback: bool,
        request: &ModelRequest,
        shown: &mut ReplayFilter<'_>,
    ) -> Result<Completion, EndpointFailure> {
        let mut endpoint = endpoint.clone();
        if let Some(learning) = &self.discovery {
            match learning.prepare_local(&mut endpoint, &request.cancel).await {
                Ok(note) => note.into_iter().for_each(|note| shown.status(note)),
                Err(words) => return Err(misconfigured_error(words, has_fallback)),
            }
        }
        // Copied only if something must differ: a long conversation is large.
        let mut request = Cow::Borrowed(request);
        if request.model != endpoint.model {
            request.to_mut().model.clone_from(&endpoint.model);
        }
        if self.refusals.contains(&endpoint.model) {
            leave_out_pictures(request.to_mut());
        }
        let mut tries = AttemptState::default();
        loop {
            self.check_time(&request)?;
            let presented = endpoint
                .credentials
                .current(&request.cancel)
                .await
                .map_err(|CredentialUnavailable(words)| misconfigured_error(words, has_fallback))?;
            let streaming = if self.streams.load(Ordering::Relaxed) {
                StreamingMode::Streamed
            } else {
                StreamingMode::Plain
            };
            shown.begin_attempt();
            let sending = ExchangeOptions {
                client: &self.net,
                endpoint: &endpoint,
                presented,
                streaming,
                timeouts: self.timeouts(&request),
                clock: &*self.clock,
            };
            self.dump(DumpReason::BeforeSending, &sending, &request, None);
            let outcome = exchange(&sending, &request, shown).await;
            let trouble = match outcome {
                Ok(answer) => {
                    shown.end_attempt();
                    let completion = complete(&endpoint, answer);
                    if let Some(learning) = &self.discovery {
                        learning.observe_completion(&endpoint, &completion).await;
                    }
                    return Ok(completion);
                }
                Err(trouble) => trouble,
            };
            match trouble {
                ExchangeError::Cancelled => return Err(EndpointFailure::Final(ModelError::Cancelled)),
                ExchangeError::DeadlinePassed => {
                    return Err(EndpointFailure::Final(deadline_error(tries.last.as_ref())));
                }
                ExchangeError::Misconfigured(words) => return Err(misconfigured_error(words, has_fallback)),
                ExchangeError::Malformed(missing) => {
                    if has_fallback {
                        return Err(EndpointFailure::MoveOn(format!(
                            "{} sent no usable answer.",
                            endpoint.wire.provider
                        )));
                    }
                    tries.count += 1;
                    if tries.count >= self.retry_policy.attempts {
                        let message =
                            "Invalid API response shape. Likely rate limited or malformed provider response.";
                        return Err(EndpointFailure::Final(give_up_error(
                            format!("{message} ({missing})"),
                            None,
                        )));
                    }
                    let wait = invalid_response_backoff(tries.count);
                    shown.status(format!(
                        "{} sent no usable answer ({missing}). Trying again in {} s.",
                        endpoint.wire.base.host(),
                        wait.as_secs()
                    ));
                    self.wait(wait, &request).await?;
                }
                ExchangeError::Failed(failure) => {
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
                    if matches!(
                        &remedied,
                        Err(EndpointFailure::MoveOn(_) | EndpointFailure::Final(ModelError::GiveUp { .. }))
                    ) {
                        let exhausted = tries.count >= self.retry_policy.attempts;
                        let occasion =
                            if exhausted { DumpReason::RetriesExhausted } else { DumpReason::Refused };
                        let (client, endpoint, clock) = (&self.net, &endpoint, &*self.clock);
                        let patience = self.timeouts(&request);
                        let sent = ExchangeOptions {
                            client,
                            endpoint,
                            presented,
                            streaming,
                            timeouts: patience,
                            clock,
                        };
                        self.dump(occasion, &sent, &request, Some(&summary));
                    }
                    match remedied {
                        Err(EndpointFailure::Final(ModelError::GiveUp { message, status })) => {
                            let learning = self.discovery.as_ref();
                            let words = refusal_messages::explain(
                                &refused,
                                &endpoint,
                                &shown_key,
                                learning,
                                &request.cancel,
                            )
                            .await;
                            return Err(EndpointFailure::Final(give_up_error(
                                words.unwrap_or(message),
                                status,
                            )));
                        }
                        other => other?,
                    }
                }
            }
        }
    }

    fn dump(
        &self,
        occasion: DumpReason,
        sending: &ExchangeOptions<'_>,
        request: &ModelRequest,
        error: Option<&str>,
    ) {
        let Some(dumps) = &self.dumps else { return };
        if occasion == DumpReason::BeforeSending && dumps.scope == DumpScope::Failures {
            return;
        }
        let ExchangeOptions { endpoint, presented, streaming, clock, .. } = sending;
        let dumped = DumpedRequest {
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

    /// Applies the remedy for a failure, or returns why there is none.
    #[expect(clippy::too_many_arguments, reason = "everything a remedy may change is named here, once")]
    async fn remedy(
        &self,
        failure: ProviderFailure,
        endpoint: &mut Endpoint,
        request: &mut Cow<'_, ModelRequest>,
        tries: &mut AttemptState,
        has_fallback: bool,
        streaming: StreamingMode,
        shown: &mut ReplayFilter<'_>,
    ) -> Result<(), EndpointFailure> {
        if failure.is_network() && !shown.has_text() && streaming == StreamingMode::Streamed {
            if tries.connections < self.retry_policy.stream_retries {
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
        let known = FailureContext {
            refresh: if endpoint.credentials.can_renew() && !tries.renewed {
                TokenRefresh::Possible
            } else {
                TokenRefresh::Impossible
            },
            keys: if endpoint.credentials.has_another() {
                PoolAvailability::HasAnother
            } else {
                PoolAvailability::Exhausted
            },
            fallback: if has_fallback {
                FallbackAvailability::Available
            } else {
                FallbackAvailability::Unavailable
            },
            prompt_tokens: estimate(request),
            context_length: endpoint.window(),
            messages: request.messages.len(),
            max_tokens: request.max_tokens,
            dropped: endpoint.wire.dropped.clone(),
        };
        let verdict = classify(&failure, &known);
        let summary = verdict.summary;
        // A permanently invalid key is marked as such even when there is no other.
        let rotates = matches!(verdict.remedy, Remedy::RotateKey { .. } | Remedy::RefreshToken);
        if verdict.cause == FailureCause::Credential && !rotates && failure.permanent_code().is_some() {
            endpoint.credentials.rotate(&KeyRefusal::read(verdict.cause, None, &failure));
        }
        match verdict.remedy {
            Remedy::Retry { after } => {
                tries.count += 1;
                if tries.count >= self.retry_policy.attempts {
                    return Err(self.exhausted(&summary, failure.status(), has_fallback));
                }
                let wait = after.unwrap_or_else(|| backoff(tries.count));
                shown.status(format!("{summary}. Trying again in {} s.", wait.as_secs().max(1)));
                tries.last = Some(failure);
                self.wait(wait, request).await
            }
            Remedy::RotateKey { after } => {
                if endpoint.credentials.rotate(&KeyRefusal::read(verdict.cause, after, &failure)) {
                    return Ok(());
                }
                Err(self.exhausted(&summary, failure.status(), has_fallback))
            }
            Remedy::RefreshToken => {
                tries.renewed = true;
                let renewed = endpoint.credentials.renew(&request.cancel).await;
                renewed.map_err(|CredentialUnavailable(words)| misconfigured_error(words, has_fallback))
            }
            Remedy::Compress { limit } => {
                if let Some(limit) = limit {
                    endpoint.stats.set_window_from_refusal(limit);
                }
                Err(EndpointFailure::Final(match verdict.cause {
                    FailureCause::TooLarge => ModelError::TooLarge,
                    _ => ModelError::Compress { limit },
                }))
            }
            Remedy::LowerMaxTokens { to } => {
                if request.max_tokens.is_some_and(|current| current <= to) {
                    return Err(EndpointFailure::Final(give_up_error(summary, failure.status())));
                }
                request.to_mut().max_tokens = Some(to);
                Ok(())
            }
            Remedy::SwitchToFallback => Err(EndpointFailure::MoveOn(format!("{summary}."))),
            Remedy::DropField(RequestField::Streaming) => {
                self.streams.store(false, Ordering::Relaxed);
                Ok(())
            }
            Remedy::DropField(RequestField::Pictures) => {
                self.refusals.remember(&endpoint.model);
                drop_field(endpoint, RequestField::Pictures);
                if leave_out_pictures(request.to_mut()) {
                    let words = "cannot see the picture; it gets the text without it";
                    shown.status(format!("{} {words}. ({summary})", endpoint.model));
                }
                Ok(())
            }
            Remedy::DropField(field) => {
                if field == RequestField::Tools {
                    shown.status(format!("{} cannot use tools; it answers without them.", endpoint.model));
                }
                drop_field(endpoint, field);
                Ok(())
            }
            Remedy::GiveUp { message } => {
                Err(EndpointFailure::Final(give_up_error(message, failure.status())))
            }
        }
    }

    fn check_time(&self, request: &ModelRequest) -> Result<(), EndpointFailure> {
        if request.cancel.is_cancelled() {
            return Err(EndpointFailure::Final(ModelError::Cancelled));
        }
        if request.deadline.is_past(&*self.clock) {
            return Err(EndpointFailure::Final(deadline_error(None)));
        }
        Ok(())
    }

    /// Waits, but not past the deadline and not after a cancellation.
    async fn wait(&self, span: Duration, request: &ModelRequest) -> Result<(), EndpointFailure> {
        let left = request.deadline.remaining(&*self.clock);
        if span >= left {
            return Err(EndpointFailure::Final(ModelError::DeadlinePassed(format!(
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
                return Poll::Ready(Err(EndpointFailure::Final(ModelError::Cancelled)));
            }
            sleeping.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Returns the time limits; they are longer for large prompts, because a provider takes longer to begin.
    fn timeouts(&self, request: &ModelRequest) -> ExchangeTimeouts {
        let extra = match estimate(request) {
            0..=50_000 => 0,
            50_001..=100_000 => 60,
            _ => 120,
        };
        let stall = self.retry_policy.stall_timeout + Duration::from_secs(extra);
        let silence = self.retry_policy.read_timeout.map_or(stall, |read| read.min(stall));
        ExchangeTimeouts { first_byte: self.retry_policy.first_byte_timeout, stall, silence }
    }

    fn exhausted(&self, summary: &str, status: Option<u16>, has_fallback: bool) -> EndpointFailure {
        let attempts = self.retry_policy.attempts;
        if has_fallback {
            return EndpointFailure::MoveOn(format!("{summary}."));
        }
        EndpointFailure::Final(give_up_error(
            format!("API call failed after {attempts} attempts: {summary}"),
            status,
        ))
    }
}

impl Model for ModelClient {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(self.ask(request, sink))
    }

    fn context_window(&self, _model: &str) -> u64 {
        self.endpoint().map_or(crate::context_window::DEFAULT, Endpoint::window)
    }
}

/// The remedies that have been tried with one endpoint.
#[derive(Debug, Default)]
struct AttemptState {
    count: u32,
    connections: u32,
    plain: bool,
    renewed: bool,
    last: Option<ProviderFailure>,
}

/// The failure of an endpoint with no remedy left.
enum EndpointFailure {
    /// The next endpoint may succeed; the message says why this one failed.
    MoveOn(String),
    Final(ModelError),
}

/// Returns the error for settings that prevent the request; the provider is not at fault.
fn misconfigured_error(words: String, has_fallback: bool) -> EndpointFailure {
    if has_fallback {
        EndpointFailure::MoveOn(format!("{words}."))
    } else {
        EndpointFailure::Final(ModelError::Configure(words))
    }
}

fn give_up_error(message: String, status: Option<u16>) -> ModelError {
    ModelError::GiveUp { message, status }
}

fn deadline_error(last: Option<&ProviderFailure>) -> ModelError {
    let words =
        last.map_or_else(|| "the time limit of this turn has passed".to_owned(), ProviderFailure::summary);
    ModelError::DeadlinePassed(words)
}

/// Omits a field in further attempts of this request.
fn drop_field(endpoint: &mut Endpoint, field: RequestField) {
    if !endpoint.wire.dropped.contains(&field) {
        endpoint.wire.dropped.push(field);
    }
}

fn estimate(request: &ModelRequest) -> u64 {
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

fn complete(endpoint: &Endpoint, answer: DecodedAnswer) -> Completion {
    let host = if matches!(endpoint.wire.vendor, EndpointVendor::Other) {
        HostKind::Private
    } else {
        HostKind::Public
    };
    let route = PriceKey { provider: &endpoint.wire.provider, model: &endpoint.model, host };
    let billing = CallBilling::find(&route, answer.reported_cost, endpoint.current_prices());
    let cost = answer.usage.map_or(Cost::UNKNOWN, |usage| cost(usage, billing).0);
    answer.into_completion(&endpoint.wire.provider, &endpoint.model, cost)
}
