//! The services that search the web and read pages, emulated: Firecrawl, Tavily, Exa, Parallel, SearXNG and Brave; and those
//! that transcribe and speak (OpenAI's protocol, ElevenLabs), make pictures (OpenAI's protocol, FAL) or rent browsers
//! (Browserbase, Browser Use).
//!
//! Written from their public documentation, apart from the code it tests. All of them know the same few pages. Each has
//! a base address of its own, checks its key, and can be told to refuse or to stay silent.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::Error;
use crate::http::{HttpConnection, ReceivedRequest};
use crate::server_thread::ServerThread;
use crate::task::start_in;
use crate::watched_value::WatchedValue;

/// The key that every service accepts.
pub const WEB_SERVICE_KEY: &str = "right-key-0123456789abcdef";

/// The emulated services, until they are dropped.
#[derive(Debug)]
pub struct WebServices {
    address: SocketAddr,
    state: Arc<WatchedValue<WebServicesState>>,
    _thread: ServerThread,
}

#[derive(Debug, Default)]
struct WebServicesState {
    pages: Vec<WebServicePage>,
    /// The address of the browser that the services rent.
    browser: String,
    faults: VecDeque<WebServiceFault>,
    requests: Vec<WebServiceRequest>,
}

/// A page that the services know.
#[derive(Debug, Clone)]
struct WebServicePage {
    url: String,
    title: String,
    text: String,
}

/// What happens to the next request.
#[derive(Debug, Clone)]
pub enum WebServiceFault {
    /// The service answers with this status, an optional `retry-after`, and this body.
    Refuse { status: u16, retry_after: Option<u32>, body: String },
    /// The service never answers.
    Silence,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct WebServiceRequest {
    /// The path with its query, beginning with the name of the service.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl WebServiceRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl WebServices {
    pub fn start() -> Result<Self, Error> {
        let state = Arc::new(WatchedValue::new(WebServicesState::default()));
        let shared = state.clone();
        let (address, thread) = ServerThread::start("web services", 0, |listener| serve(listener, shared))?;
        Ok(Self { address, state, _thread: thread })
    }

    /// Returns the base address of a service, such as `tavily`.
    pub fn base(&self, service: &str) -> String {
        format!("http://{}/{service}", self.address)
    }

    /// Adds a page that searches find and extractions read.
    pub fn add_page(&self, url: &str, title: &str, text: &str) {
        let page = WebServicePage { url: url.to_owned(), title: title.to_owned(), text: text.to_owned() };
        self.state.update(|state| state.pages.push(page));
    }

    /// Sets the address of the browser that the services rent.
    pub fn set_browser(&self, address: &str) {
        self.state.update(|state| address.clone_into(&mut state.browser));
    }

    /// Makes the next request fail; several are used up in order.
    pub fn fail_next(&self, fault: WebServiceFault) {
        self.state.update(|state| state.faults.push_back(fault));
    }

    /// Returns the requests that arrived, in order.
    pub fn requests(&self) -> Vec<WebServiceRequest> {
        self.state.read(|state| state.requests.clone())
    }

    /// Waits until this many requests have arrived.
    pub async fn arrived(&self, count: usize) {
        self.state.until(|state| (state.requests.len() >= count).then_some(())).await;
    }
}

async fn serve(listener: TcpListener, state: Arc<WatchedValue<WebServicesState>>) {
    let mut work = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start_in(&mut work, serve_connection(stream, state.clone()));
            },
            Some(_) = work.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, state: Arc<WatchedValue<WebServicesState>>) {
    let mut connection = HttpConnection::new(stream);
    while let Ok(message) = connection.read().await {
        let body: Value = serde_json::from_slice(&message.body).unwrap_or_default();
        let (pages, browser, fault) = state.update(|state| {
            let headers = message.headers.clone();
            state.requests.push(WebServiceRequest {
                target: message.target.clone(),
                headers,
                body: body.clone(),
            });
            (state.pages.clone(), state.browser.clone(), state.faults.pop_front())
        });
        let (status, retry_after, text) = match fault {
            Some(WebServiceFault::Silence) => {
                connection.until_gone().await;
                return;
            }
            Some(WebServiceFault::Refuse { status, retry_after, body }) => (status, retry_after, body),
            None => {
                let (status, value) = answer(&message, &body, &pages, &browser);
                // A transcript is plain text.
                (status, None, value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            }
        };
        let wait = retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\n{wait}content-length: {}\r\n\r\n",
            text.len()
        );
        if connection.write(&[head.into_bytes(), text.into_bytes()].concat()).await.is_err() {
            return;
        }
    }
}

fn answer(message: &ReceivedRequest, body: &Value, pages: &[WebServicePage], browser: &str) -> (u16, Value) {
    let (path, query) = message.target.split_once('?').unwrap_or((message.target.as_str(), ""));
    let mut segments = path.trim_start_matches('/').splitn(2, '/');
    let (service, method) = (segments.next().unwrap_or_default(), segments.next().unwrap_or_default());
    let header = |name: &str| message.header(name).unwrap_or_default().to_owned();
    let key = match service {
        "firecrawl" | "speech" => header("authorization").trim_start_matches("Bearer ").to_owned(),
        "tavily" => text(body, "api_key"),
        "exa" | "parallel" => header("x-api-key"),
        "elevenlabs" => header("xi-api-key"),
        "fal" => header("authorization").trim_start_matches("Key ").to_owned(),
        "brave" => header("x-subscription-token"),
        "browserbase" => header("x-bb-api-key"),
        "browser-use" => header("x-browser-use-api-key"),
        _ => WEB_SERVICE_KEY.to_owned(),
    };
    if key != WEB_SERVICE_KEY {
        return (401, json!({"error": format!("the key {key} is not valid")}));
    }
    let found = |count: u64| pages.iter().take(usize::try_from(count).unwrap_or(0));
    match (message.method.as_str(), service, method) {
        ("POST", "firecrawl", "v2/search") => {
            let rows = found(body["limit"].as_u64().unwrap_or(0)).enumerate();
            let rows = rows.map(|(at, page)| {
                json!({"url": page.url, "title": page.title, "description": page.text, "position": at + 1})
            });
            (200, json!({"success": true, "data": {"web": rows.collect::<Vec<_>>()}}))
        }
        ("POST", "firecrawl", "v2/scrape") if body["formats"] == json!(["markdown"]) => {
            match pages.iter().find(|page| page.url == body["url"]) {
                Some(page) => {
                    let metadata = json!({"title": page.title, "statusCode": 200});
                    (200, json!({"success": true, "data": {"markdown": page.text, "metadata": metadata}}))
                }
                None => (200, json!({"success": true, "data": {"metadata": {"error": "Not Found"}}})),
            }
        }
        ("POST", "tavily", "search") => {
            let rows = found(body["max_results"].as_u64().unwrap_or(0));
            let rows = rows.map(|page| json!({"url": page.url, "title": page.title, "content": page.text}));
            (200, json!({"results": rows.collect::<Vec<_>>()}))
        }
        ("POST", "tavily", "extract") => {
            let (read, failed) = read(body, pages, |page| json!({"url": page.url, "raw_content": page.text}));
            let failed: Vec<Value> =
                failed.iter().map(|url| json!({"url": url, "error": "Failed to fetch url"})).collect();
            (200, json!({"results": read, "failed_results": failed}))
        }
        ("POST", "exa", "search") => {
            let rows = found(body["numResults"].as_u64().unwrap_or(0));
            let rows = rows.map(
                |page| json!({"url": page.url, "title": page.title, "highlights": [page.text, "and more"]}),
            );
            (200, json!({"results": rows.collect::<Vec<_>>()}))
        }
        ("POST", "exa", "contents") => {
            let (read, failed) =
                read(body, pages, |page| json!({"url": page.url, "title": page.title, "text": page.text}));
            let failed: Vec<Value> = failed
                .iter()
                .map(|url| json!({"id": url, "status": "error", "error": {"tag": "CRAWL_NOT_FOUND"}}))
                .collect();
            (200, json!({"results": read, "statuses": failed}))
        }
        ("POST", "parallel", "v1beta/search") if !header("parallel-beta").is_empty() => {
            let rows = found(body["max_results"].as_u64().unwrap_or(0));
            let rows = rows.map(
                |page| json!({"url": page.url, "title": page.title, "excerpts": [page.text, "and more"]}),
            );
            (200, json!({"search_id": "s", "results": rows.collect::<Vec<_>>()}))
        }
        ("POST", "parallel", "v1beta/extract") if !header("parallel-beta").is_empty() => {
            let (read, failed) = read(
                body,
                pages,
                |page| json!({"url": page.url, "title": page.title, "full_content": page.text, "excerpts": []}),
            );
            let failed: Vec<Value> = failed
                .iter()
                .map(|url| json!({"url": url, "error_type": "fetch_error", "content": "gone"}))
                .collect();
            (200, json!({"results": read, "errors": failed}))
        }
        ("POST", "speech", "audio/speech") => (200, json!(format!("sound of {}", text(body, "input")))),
        ("POST", "speech", "images/generations") => (200, json!({"data": [{"b64_json": "iVBORw=="}]})),
        ("POST", "elevenlabs", method) if method.starts_with("v1/text-to-speech/") => {
            (200, json!(format!("sound of {}", text(body, "text"))))
        }
        ("POST", "fal", "fal-ai/flux-2-pro" | "fal-ai/clarity-upscaler") => {
            (200, json!({"request_id": "job-1", "status": "IN_QUEUE"}))
        }
        (
            "GET",
            "fal",
            "fal-ai/flux-2-pro/requests/job-1/status" | "fal-ai/clarity-upscaler/requests/job-1/status",
        ) => (200, json!({"status": "COMPLETED"})),
        ("GET", "fal", "fal-ai/flux-2-pro/requests/job-1") => {
            (200, json!({"images": [{"url": "https://fal.media/small.png"}]}))
        }
        ("GET", "fal", "fal-ai/clarity-upscaler/requests/job-1") => {
            (200, json!({"image": {"url": "https://fal.media/large.png"}}))
        }
        ("POST", "speech", "audio/transcriptions") => {
            let form = String::from_utf8_lossy(&message.body);
            let after = |mark: &str| form.split_once(mark).map_or("", |(_, rest)| rest).to_owned();
            let model = after("name=\"model\"\r\n\r\n").lines().next().unwrap_or_default().to_owned();
            let file = after("filename=\"").split('"').next().unwrap_or_default().to_owned();
            (200, json!(format!("words of {file} by {model}")))
        }
        ("POST", "browserbase", "v1/sessions") if body["projectId"] == "project-1" => {
            (201, json!({"id": "rented-1", "status": "RUNNING", "connectUrl": browser}))
        }
        ("POST", "browserbase", "v1/sessions/rented-1") if body["status"] == "REQUEST_RELEASE" => {
            (200, json!({"id": "rented-1", "status": "COMPLETED"}))
        }
        ("POST", "browser-use", "browsers") => {
            (201, json!({"id": "rented-2", "status": "active", "cdpUrl": browser}))
        }
        ("PATCH", "browser-use", "browsers/rented-2") if body["action"] == "stop" => {
            (200, json!({"id": "rented-2", "status": "stopped"}))
        }
        ("GET", "searxng", "search") if query.contains("format=json") => {
            let rows = pages.iter();
            let rows = rows.map(|page| json!({"url": page.url, "title": page.title, "content": page.text}));
            (200, json!({"query": "q", "results": rows.collect::<Vec<_>>()}))
        }
        ("GET", "brave", "res/v1/web/search") => {
            let rows = pages.iter().map(|page| {
                let description = format!("<strong>{}</strong>", page.text);
                json!({"url": page.url, "title": page.title, "description": description})
            });
            (200, json!({"web": {"results": rows.collect::<Vec<_>>()}}))
        }
        _ => (404, json!({"error": "no such method"})),
    }
}

/// Returns the rows of the known addresses, and the unknown addresses.
fn read(
    body: &Value,
    pages: &[WebServicePage],
    row: impl Fn(&WebServicePage) -> Value,
) -> (Vec<Value>, Vec<String>) {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for url in body["urls"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        match pages.iter().find(|page| page.url == url) {
            Some(page) => known.push(row(page)),
            None => unknown.push(url.to_owned()),
        }
    }
    (known, unknown)
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
