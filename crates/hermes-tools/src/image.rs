//! `image_generate`: makes pictures with FAL, or with a server that has OpenAI's images endpoint.
//!
//! A key goes only to the service it belongs to, whatever addresses an answer names.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::{BASE64, HEXLOWER};
use hermes_config::settings::{ImageProvider, ImageSettings};
use hermes_net::{HttpRequest, Method, Url, header};
use hermes_types::{
    BoxFuture, Cancel, Clock, Deadline, OutcomeStatus, Provenance, ResultAuthor, Secret, Tool, ToolContext,
    ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec, ToolUser,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::argument::{any_text, spec};
use crate::web::LazyHttpClient;

/// The time for one picture, with everything that is done to it.
const TIMEOUT: Duration = Duration::from_mins(5);
const ANSWER_TIMEOUT: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_secs(1);
const LARGEST: usize = 64 * 1024 * 1024;
const FAL_MODEL: &str = "fal-ai/flux-2-pro";
const FAL_UPSCALER: &str = "fal-ai/clarity-upscaler";

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "image_generate",
    toolset: "image_gen",
    summary: "Makes a picture from a description",
    condition: "a service for pictures is configured",
    icon: "🎨",
    verb: "draw",
    preview_arguments: &["prompt"],
    result_author: ResultAuthor::Tool,
    withheld_from: &[ToolUser::Editor],
    ..ToolDescriptor::unknown("")
};

/// Makes pictures.
#[derive(Debug, Clone)]
pub struct ImageMaker {
    pub settings: ImageSettings,
    pub http: LazyHttpClient,
    pub clock: Arc<dyn Clock>,
    /// The folder for pictures that come as data.
    pub folder: PathBuf,
    pub fal_url: String,
}

/// The shape of a picture.
#[derive(Debug, Clone, Copy)]
enum AspectRatio {
    Landscape,
    Square,
    Portrait,
}

impl AspectRatio {
    fn parse(text: &str) -> Self {
        match text.trim().to_lowercase().as_str() {
            "square" => Self::Square,
            "portrait" => Self::Portrait,
            _ => Self::Landscape,
        }
    }

    fn of_fal(self) -> &'static str {
        match self {
            Self::Landscape => "landscape_16_9",
            Self::Square => "square_hd",
            Self::Portrait => "portrait_16_9",
        }
    }

    fn of_openai(self) -> &'static str {
        match self {
            Self::Landscape => "1536x1024",
            Self::Square => "1024x1024",
            Self::Portrait => "1024x1536",
        }
    }
}

impl ImageMaker {
    async fn make(&self, prompt: &str, ratio: AspectRatio, cancel: &Cancel) -> Result<String, String> {
        let deadline = Deadline::after(&*self.clock, TIMEOUT);
        let settings = &self.settings;
        match settings.provider.clone()? {
            ImageProvider::Fal => {
                let key = settings.fal_key.as_ref().ok_or("FAL_KEY is not set")?;
                self.by_fal(key, prompt, ratio, deadline, cancel).await
            }
            ImageProvider::OpenAi => {
                let mut body =
                    json!({"model": settings.model, "prompt": prompt, "n": 1, "size": ratio.of_openai()});
                if let (true, Some(fields)) = (settings.model.starts_with("dall-e"), body.as_object_mut()) {
                    // Later models always answer with data.
                    fields.insert("response_format".to_owned(), "b64_json".into());
                }
                let address = format!("{}/images/generations", settings.base_url);
                let request = HttpRequest::post(&address)
                    .and_then(|request| request.json(&body))
                    .map_err(|error| error.to_string())?;
                let request = match &settings.key {
                    Some(key) => request.bearer(key).map_err(|error| error.to_string())?,
                    None => request,
                };
                let answer = self.json(request, deadline, cancel).await?;
                let picture = answer.pointer("/data/0").ok_or("the answer has no picture")?;
                match (
                    picture.get("b64_json").and_then(Value::as_str),
                    picture.get("url").and_then(Value::as_str),
                ) {
                    (Some(data), _) => self.store(data),
                    (None, Some(url)) => Ok(url.to_owned()),
                    (None, None) => Err("the answer has no picture".to_owned()),
                }
            }
        }
    }

    async fn by_fal(
        &self,
        key: &Secret,
        prompt: &str,
        ratio: AspectRatio,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<String, String> {
        let body = json!({
            "prompt": prompt, "image_size": ratio.of_fal(), "num_inference_steps": 50, "guidance_scale": 4.5,
            "num_images": 1, "output_format": "png", "enable_safety_checker": false, "safety_tolerance": "5",
            "sync_mode": true,
        });
        let made = self.fal_job(key, FAL_MODEL, &body, deadline, cancel).await?;
        let image =
            made.pointer("/images/0/url").and_then(Value::as_str).ok_or("the answer has no picture")?;
        let body = json!({
            "image_url": image, "upscale_factor": 2, "creativity": 0.35, "resemblance": 0.6, "guidance_scale": 4,
            "num_inference_steps": 18, "enable_safety_checker": false,
            "prompt": format!("masterpiece, best quality, highres, {prompt}"),
            "negative_prompt": "(worst quality, low quality, normal quality:2)",
        });
        let larger = match self.fal_job(key, FAL_UPSCALER, &body, deadline, cancel).await {
            Ok(answer) => answer.pointer("/image/url").and_then(Value::as_str).map(str::to_owned),
            Err(reason) => {
                tracing::warn!(reason, "a picture could not be enlarged; the original is used");
                None
            }
        };
        let image = larger.unwrap_or_else(|| image.to_owned());
        match image.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
            Some((_, data)) => self.store(data),
            None => Ok(image),
        }
    }

    /// Queues a job, waits for its end, and returns its result.
    async fn fal_job(
        &self,
        key: &Secret,
        model: &str,
        body: &Value,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<Value, String> {
        let key = Secret::new(format!("Key {}", key.expose()));
        let request = |method: Method, path: &str| {
            let url =
                Url::parse(&format!("{}/{model}{path}", self.fal_url)).map_err(|error| error.to_string())?;
            HttpRequest::new(method, url)
                .secret_header(header::AUTHORIZATION, &key)
                .map_err(|error| error.to_string())
        };
        let submit = request(Method::POST, "")?.json(body).map_err(|error| error.to_string())?;
        let job = self.json(submit, deadline, cancel).await?;
        let id = job.get("request_id").and_then(Value::as_str).unwrap_or_default();
        // The id becomes part of an address.
        if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err("FAL did not accept the job".to_owned());
        }
        loop {
            let state =
                self.json(request(Method::GET, &format!("/requests/{id}/status"))?, deadline, cancel).await?;
            match state.get("status").and_then(Value::as_str).unwrap_or_default() {
                "COMPLETED" => break,
                "IN_QUEUE" | "IN_PROGRESS" => {}
                other => return Err(format!("FAL reports the state '{other}'")),
            }
            tokio::select! {
                () = cancel.cancelled() => return Err("interrupted".to_owned()),
                () = self.clock.sleep(POLL) => {}
            }
        }
        self.json(request(Method::GET, &format!("/requests/{id}"))?, deadline, cancel).await
    }

    async fn json(&self, request: HttpRequest, deadline: Deadline, cancel: &Cancel) -> Result<Value, String> {
        let request = request.response_timeout(ANSWER_TIMEOUT).body_limit(LARGEST);
        let http = self.http.get()?;
        let answer = http.send(request, deadline, cancel).await.map_err(|error| error.to_string())?;
        match answer.status().as_u16() {
            200..=299 => answer.json(LARGEST).await.map_err(|error| error.to_string()),
            401 | 403 => Err("the service does not accept the key".to_owned()),
            402 => Err("the credits are used up".to_owned()),
            429 => Err("the service limits requests; try again later".to_owned()),
            status => Err(format!("the service failed (HTTP {status})")),
        }
    }

    /// Stores a picture that came as data, and returns its path.
    fn store(&self, data: &str) -> Result<String, String> {
        use std::os::unix::fs::DirBuilderExt as _;
        let bytes = BASE64.decode(data.as_bytes()).map_err(|_| "the picture is not base64".to_owned())?;
        let suffix = match bytes.get(..4) {
            Some([0xff, 0xd8, ..]) => "jpg",
            Some(b"RIFF") => "webp",
            _ => "png",
        };
        let digest = Sha256::digest(&bytes);
        let name = format!("img_{}.{suffix}", HEXLOWER.encode(digest.get(..6).unwrap_or_default()));
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let path = self.folder.join(name);
        hermes_config::write::replace(&path, &bytes).map_err(|error| error.to_string())?;
        Ok(path.display().to_string())
    }
}

/// The `image_generate` tool.
#[derive(Debug)]
pub struct ImageTool {
    spec: ToolSpec,
    maker: ImageMaker,
}

impl ImageTool {
    pub fn new(maker: ImageMaker) -> Self {
        let spec = spec(
            &DESCRIPTOR,
            include_str!("texts/image_generate.md"),
            include_str!("texts/image_generate.json"),
        );
        Self { spec, maker }
    }

    /// Tells whether a service for pictures is configured.
    pub fn is_usable(maker: &ImageMaker) -> bool {
        maker.settings.provider.is_ok()
    }
}

impl Tool for ImageTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let prompt = any_text(&call.arguments, "prompt").unwrap_or_default().trim();
            if prompt.is_empty() {
                return ToolOutcome::failed(
                    "image_generate needs `prompt`; call it again with that argument",
                );
            }
            let ratio = AspectRatio::parse(any_text(&call.arguments, "aspect_ratio").unwrap_or_default());
            match self.maker.make(prompt, ratio, context.cancel).await {
                Ok(image) => outcome(&json!({"success": true, "image": image}), OutcomeStatus::Done),
                Err(reason) => {
                    // Callers test for `image: null`; the reason has a name of its own for the model.
                    let failure = json!({"success": false, "image": null, "reason": reason});
                    outcome(&failure, OutcomeStatus::Failed)
                }
            }
        })
    }
}

fn outcome(value: &Value, status: OutcomeStatus) -> ToolOutcome {
    let content = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    ToolOutcome { content, status, provenance: Provenance::Tool }
}
