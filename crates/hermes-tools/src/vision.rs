//! `vision_analyze`: answers a question about a picture with the model for pictures.
//!
//! A picture comes from a file the conversation may read, from the web, or from a data URL. Only what is a picture
//! leaves this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use hermes_extract::{Picture, PictureLimits, fit_picture};
use hermes_net::{HttpRequest, Method, Url, header};
use hermes_store::{ModelCharge, Store};
use hermes_text::strip_think;
use hermes_types::{
    BoxFuture, CallPolicy, Cancel, Clock, Concurrency, ContentPart, Deadline, Message, MessageContent,
    ModelError, ModelRequest, OutcomeStatus, Provenance, SessionId, SideModel, Tool, ToolContext,
    ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::argument::{missing, spec, text};
use crate::file::{FileTools, ReadRefusal};
use crate::off_thread::off_thread;
use crate::web::{LazyHttpClient, WebsitePolicy, denial_text};

const MOST_TOKENS: u64 = 2_000;
const TEMPERATURE: f32 = 0.1;
/// The largest file that is read as a picture.
const LARGEST: usize = 40 * 1024 * 1024;
const DOWNLOAD_TRIES: u32 = 3;
const MOST_HOPS: usize = 5;
const PROMPT: &str = include_str!("texts/vision_prompt.md");

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "vision_analyze",
    toolset: "vision",
    summary: "Answers questions about a picture",
    condition: "a model that reads pictures is configured",
    icon: "👁️",
    verb: "look",
    preview_arguments: &["question"],
    ..ToolDescriptor::unknown("")
};

/// Describes pictures with the model for them.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct PictureReader {
    pub side: SideModel,
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub http: LazyHttpClient,
    pub policy: WebsitePolicy,
    pub download_timeout: Duration,
}

/// The reason why there is no description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PictureFailure {
    Cancelled,
    /// The picture could not be read.
    Unreadable(String),
    /// The model gave no answer.
    Model(String),
}

impl PictureReader {
    /// Describes a picture, or answers a question about it.
    pub async fn describe(
        &self,
        picture: &[u8],
        question: &str,
        session: &SessionId,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<String, PictureFailure> {
        let bytes = picture.to_vec();
        let fitted = off_thread("vision", move || fit_picture(&bytes, PictureLimits::default())).await;
        let picture = fitted
            .map_err(|_| PictureFailure::Unreadable("the picture could not be read".to_owned()))?
            .map_err(|error| PictureFailure::Unreadable(error.to_string()))?;
        let prompt = format!("{}\n\n{question}", PROMPT.trim());
        let request = ModelRequest {
            model: self.side.name.clone(),
            system: String::new(),
            messages: vec![Message::user(MessageContent::Parts(vec![
                ContentPart::Text(prompt),
                ContentPart::Image { url: data_url(&picture) },
            ]))],
            tools: Arc::new([]),
            max_tokens: Some(MOST_TOKENS),
            temperature: Some(TEMPERATURE),
            effort: None,
            session: None,
            deadline: deadline.at_most(&*self.clock, self.side.timeout),
            cancel: cancel.clone(),
        };
        // An empty answer is asked for once more.
        for _ in 0..2 {
            match self.side.model.complete(&request, &mut |_| {}).await {
                Ok(completion) => {
                    drop(self.store.record_charge(ModelCharge {
                        at: self.clock.now(),
                        session: session.clone(),
                        turn: None,
                        root_turn: None,
                        job: None,
                        provider: completion.provider.clone(),
                        model: completion.model.clone(),
                        usage: completion.usage.unwrap_or_default(),
                        cost: completion.cost,
                    }));
                    let said = completion.message.content.text();
                    let said = strip_think(&said).trim().to_owned();
                    if !said.is_empty() {
                        return Ok(said);
                    }
                }
                Err(ModelError::Cancelled) => return Err(PictureFailure::Cancelled),
                Err(error) => return Err(PictureFailure::Model(error.to_string())),
            }
        }
        Err(PictureFailure::Model("the model gave an empty answer".to_owned()))
    }

    /// Downloads a picture whose address the policy allows.
    async fn download(
        &self,
        address: &str,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, PictureFailure> {
        let policy = self.policy.current();
        let unreadable = |reason: String| PictureFailure::Unreadable(reason);
        let mut url = policy.parse(address).map_err(|denial| unreadable(denial_text(&denial)))?;
        let http = self.http.get().map_err(unreadable)?;
        let mut hops = 0;
        let mut tries = 1;
        loop {
            let request = HttpRequest::new(Method::GET, url.clone())
                .header(header::ACCEPT, "image/*,*/*;q=0.8")
                .and_then(|request| request.header(header::USER_AGENT, crate::web::USER_AGENT))
                .map_err(|error| unreadable(error.to_string()))?
                .body_limit(LARGEST)
                .response_timeout(self.download_timeout)
                .untrusted();
            let answer = match http.send(request, deadline, cancel).await {
                Ok(answer) => answer,
                Err(hermes_net::Error::Cancelled) => return Err(PictureFailure::Cancelled),
                Err(error) if error.is_transient() && tries < DOWNLOAD_TRIES => {
                    self.clock.sleep(Duration::from_secs(1 << tries)).await;
                    tries += 1;
                    continue;
                }
                Err(hermes_net::Error::Denied(denial)) => return Err(unreadable(denial_text(&denial))),
                Err(error) => return Err(unreadable(error.to_string())),
            };
            let status = answer.status();
            if status.is_redirection() && hops < MOST_HOPS {
                let next = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
                url = next
                    .and_then(|to| url.join(to).ok())
                    .ok_or_else(|| unreadable("a bad redirect".to_owned()))?;
                policy.check_url(&url).map_err(|denial| unreadable(denial_text(&denial)))?;
                hops += 1;
                continue;
            }
            if !status.is_success() {
                return Err(unreadable(format!("HTTP {}", status.as_u16())));
            }
            return match answer.bytes(LARGEST).await {
                Ok(bytes) => Ok(bytes.to_vec()),
                Err(hermes_net::Error::Cancelled) => Err(PictureFailure::Cancelled),
                Err(error) => Err(unreadable(error.to_string())),
            };
        }
    }
}

/// Reads a file of a message as a picture of a size that models accept.
pub async fn load_picture(path: PathBuf) -> Result<Picture, String> {
    let read = off_thread("picture", move || {
        let details = std::fs::metadata(&path).map_err(|error| error.to_string())?;
        if usize::try_from(details.len()).is_ok_and(|size| size > LARGEST) {
            return Err("it is larger than 40 MB".to_owned());
        }
        let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
        fit_picture(&bytes, PictureLimits::default()).map_err(|error| error.to_string())
    });
    read.await.map_err(|_| "its reader failed".to_owned())?
}

/// Returns a picture as a data URL.
pub fn data_url(picture: &Picture) -> String {
    format!("data:{};base64,{}", picture.mime, BASE64.encode(&picture.bytes))
}

/// The `vision_analyze` tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct VisionTool {
    spec: ToolSpec,
    files: FileTools,
    reader: Option<PictureReader>,
}

impl VisionTool {
    /// Creates the tool. Without a reader it only returns an error.
    pub fn new(files: FileTools, reader: Option<PictureReader>) -> Self {
        let spec = spec(
            &DESCRIPTOR,
            include_str!("texts/vision_analyze.md"),
            include_str!("texts/vision_analyze.json"),
        );
        Self { spec, files, reader }
    }

    async fn analyze(
        &self,
        call: &ToolInvocation,
        picture: &str,
        question: &str,
        context: &ToolContext<'_>,
    ) -> Result<String, PictureFailure> {
        let Some(reader) = &self.reader else {
            let reason =
                "no model that reads pictures is configured. Set auxiliary.vision.provider and .model";
            return Err(PictureFailure::Model(reason.to_owned()));
        };
        let bytes = if let Some(data) = picture.strip_prefix("data:") {
            let encoded = data.split_once(";base64,").map(|(_, encoded)| encoded.trim());
            encoded
                .and_then(|encoded| BASE64.decode(encoded.as_bytes()).ok())
                .ok_or_else(|| PictureFailure::Unreadable("the data URL is not base64".to_owned()))?
        } else if Url::parse(picture).is_ok_and(|url| url.has_host()) {
            reader.download(picture, context.deadline, context.cancel).await?
        } else {
            self.file(call, picture, context).await?
        };
        reader.describe(&bytes, question, &call.session, context.deadline, context.cancel).await
    }

    /// Reads a file under the rules of the file tools.
    async fn file(
        &self,
        call: &ToolInvocation,
        given: &str,
        context: &ToolContext<'_>,
    ) -> Result<Vec<u8>, PictureFailure> {
        let unreadable = |reason: String| PictureFailure::Unreadable(reason);
        let disk = self
            .files
            .file_system(call, context.cancel)
            .await
            .map_err(|outcome| unreadable(outcome.content))?;
        let given = given.strip_prefix("file://").unwrap_or(given).to_owned();
        let read = off_thread("vision", move || {
            let path = disk.resolve(&given);
            let seen = disk.inspect(&path).map_err(|error| format!("cannot read {given}: {error}"))?;
            // A picture is a binary file; every other reason counts.
            match disk.read_refusal(&path, &seen) {
                None | Some(ReadRefusal::Binary { .. }) => {}
                Some(refusal) => return Err(refusal.to_string()),
            }
            let most = u64::try_from(LARGEST).unwrap_or(u64::MAX);
            disk.read(&path, most).map_err(|error| format!("cannot read {given}: {error}"))
        });
        read.await.map_err(|outcome| unreadable(outcome.content))?.map_err(unreadable)
    }
}

impl Tool for VisionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some(picture) = text(&call.arguments, "image_url") else {
                return missing("vision_analyze", "image_url");
            };
            let Some(question) = text(&call.arguments, "question") else {
                return missing("vision_analyze", "question");
            };
            match self.analyze(call, picture.trim(), question, &context).await {
                Ok(analysis) => outcome(&json!({"success": true, "analysis": analysis}), OutcomeStatus::Done),
                Err(PictureFailure::Cancelled) => {
                    outcome(&json!({"success": false, "error": "Interrupted"}), OutcomeStatus::Cancelled)
                }
                Err(PictureFailure::Unreadable(reason) | PictureFailure::Model(reason)) => {
                    let error = format!("Error analyzing image: {reason}");
                    let failure = json!({"success": false, "error": error, "analysis": advice(&reason)});
                    outcome(&failure, OutcomeStatus::Failed)
                }
            }
        })
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { concurrency: Concurrency::Parallel, ..CallPolicy::default() }
    }
}

fn outcome(value: &Value, status: OutcomeStatus) -> ToolOutcome {
    let content = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    // A picture can contain words of anybody.
    ToolOutcome { content, status, provenance: Provenance::Web }
}

/// Says what the failure means for the user.
fn advice(reason: &str) -> &'static str {
    const PAYMENT: [&str; 5] = ["402", "insufficient", "payment required", "credits", "billing"];
    const CAPABILITY: [&str; 8] = [
        "does not support",
        "not support image",
        "invalid_request",
        "content_policy",
        "image_url",
        "multimodal",
        "unrecognized request argument",
        "image input",
    ];
    let reason = reason.to_lowercase();
    if PAYMENT.iter().any(|word| reason.contains(word)) {
        return "The picture was not analyzed: the provider of the vision model refuses for lack of credits.";
    }
    if CAPABILITY.iter().any(|word| reason.contains(word)) {
        return "The picture was not analyzed: the configured vision model does not accept pictures. The user can set \
                auxiliary.vision.model to one that does.";
    }
    "The picture was not analyzed."
}
