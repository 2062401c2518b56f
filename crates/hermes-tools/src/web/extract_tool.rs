//! `web_extract`: reads pages and documents of the web.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use hermes_config::settings::WebService;
use hermes_guard::{UrlDenial, UrlPolicy};
use hermes_net::{HttpClient, Url};
use hermes_types::{
    BoxFuture, CallPolicy, Concurrency, OutcomeStatus, Provenance, Tool, ToolContext, ToolDescriptor,
    ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use super::fetch::{FetchFailure, fetch};
use super::page_text::{bounded, cleaned, warning};
use super::policy::{blocking_rule, denial_text};
use super::service::{ServiceCall, ServiceFailure, ServicePage, exa, firecrawl, parallel, tavily};
use super::{WebAccess, interrupted, pretty};
use crate::argument::{missing, spec};

/// The most pages of one call; further ones are dropped.
const MOST_PAGES: usize = 5;
/// The time for all pages of a call.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The longest text of all pages of a call, in characters, unless it is one page.
const LONGEST_CALL: usize = 60_000;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "web_extract",
    toolset: "web",
    summary: "Reads pages and documents of the web",
    icon: "📄",
    verb: "fetch",
    preview_arguments: &["urls"],
    ..ToolDescriptor::unknown("")
};

/// The `web_extract` tool.
#[derive(Debug)]
pub struct WebExtractTool {
    spec: ToolSpec,
    access: WebAccess,
}

/// One entry of the result.
#[derive(Debug, Default)]
struct PageResult {
    url: String,
    title: String,
    content: String,
    error: Option<String>,
    /// The rule that blocks the website.
    blocked: Option<Value>,
}

impl PageResult {
    fn failed(url: &str, error: String) -> Self {
        Self { url: url.to_owned(), error: Some(error), ..Self::default() }
    }

    fn denied(url: &str, denial: &UrlDenial) -> Self {
        Self { blocked: blocking_rule(denial), ..Self::failed(url, denial_text(denial)) }
    }
}

impl WebExtractTool {
    pub fn new(access: WebAccess) -> Self {
        let spec = spec(
            &DESCRIPTOR,
            include_str!("../texts/web_extract.md"),
            include_str!("../texts/web_extract.json"),
        );
        Self { spec, access }
    }

    /// Tells whether pages can be read: always, unless a service without its key is configured.
    pub fn is_usable(access: &WebAccess) -> bool {
        access.settings.extract.is_ok()
    }

    async fn pages(
        &self,
        urls: &[&str],
        context: &ToolContext<'_>,
    ) -> Result<Vec<PageResult>, ServiceFailure> {
        let access = &self.access;
        let service = access.settings.extract.clone().map_err(ServiceFailure::Failed)?;
        let http = access.http.get().map_err(ServiceFailure::Failed)?;
        let policy = access.policy.current();
        let mut denied = Vec::new();
        let mut allowed: Vec<(String, Url)> = Vec::new();
        for given in urls {
            match self.check(given, service, &policy, &http).await {
                Ok(url) => allowed.push(((*given).to_owned(), url)),
                Err(denial) => denied.push(denial),
            }
        }
        let read = match service {
            WebService::Native => self.native(allowed, context).await?,
            service => self.by_service(service, &allowed, &policy, context).await?,
        };
        denied.extend(read);
        Ok(denied)
    }

    /// Checks an address before anything is sent. What a service is asked to fetch, Hermes resolves itself first.
    async fn check(
        &self,
        given: &str,
        service: WebService,
        policy: &UrlPolicy,
        http: &HttpClient,
    ) -> Result<Url, PageResult> {
        let address = with_scheme(given);
        let url = policy.parse(&address).map_err(|denial| PageResult::denied(given, &denial))?;
        if service == WebService::Native {
            // The client checks what the name resolves to when it connects, on every hop.
            return Ok(url);
        }
        policy.check_shareable(&url).map_err(|denial| PageResult::denied(given, &denial))?;
        if let Some(name) = url.domain() {
            let addresses: Vec<IpAddr> = http.look_up(name).await;
            if addresses.is_empty() {
                return Err(PageResult::failed(given, format!("Blocked: {name} could not be resolved")));
            }
            for address in addresses {
                policy.check_address(address).map_err(|denial| PageResult::denied(given, &denial))?;
            }
        }
        Ok(url)
    }

    async fn native(
        &self,
        pages: Vec<(String, Url)>,
        context: &ToolContext<'_>,
    ) -> Result<Vec<PageResult>, ServiceFailure> {
        let deadline = context.deadline.at_most(&*self.access.clock, TIMEOUT);
        let work = pages.into_iter().map(|(given, url)| async move {
            match fetch(&self.access, url, deadline, context.cancel).await {
                Ok(page) => Ok(PageResult {
                    url: page.url,
                    title: page.title,
                    content: page.text,
                    ..PageResult::default()
                }),
                Err(FetchFailure::Denied(denial)) => Ok(PageResult::denied(&given, &denial)),
                Err(FetchFailure::Failed(reason)) => Ok(PageResult::failed(&given, reason)),
                Err(FetchFailure::Cancelled) => Err(ServiceFailure::Cancelled),
            }
        });
        join_all(work).await.into_iter().collect()
    }

    async fn by_service(
        &self,
        service: WebService,
        pages: &[(String, Url)],
        policy: &UrlPolicy,
        context: &ToolContext<'_>,
    ) -> Result<Vec<PageResult>, ServiceFailure> {
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        let urls: Vec<&str> = pages.iter().map(|(_, url)| url.as_str()).collect();
        let call = ServiceCall::new(&self.access, service, TIMEOUT, context)?;
        let read: Vec<ServicePage> = match service {
            WebService::Firecrawl => firecrawl::extract(&call, &urls).await?,
            WebService::Parallel => parallel::extract(&call, &urls).await?,
            WebService::Tavily => tavily::extract(&call, &urls).await?,
            WebService::Exa => exa::extract(&call, &urls).await?,
            _ => return Err(ServiceFailure::Failed(format!("{} reads no pages", service.name()))),
        };
        Ok(read.into_iter().map(|page| judged(page, policy)).collect())
    }

    fn answer(&self, pages: Vec<PageResult>) -> ToolOutcome {
        let page_chars = self.access.settings.page_chars;
        let limit = if pages.len() > 1 { page_chars.min(LONGEST_CALL / pages.len()) } else { page_chars };
        let is_failure = pages.iter().all(|page| page.error.is_some());
        let results: Vec<Value> = pages.into_iter().map(|page| self.entry(page, limit)).collect();
        if results.is_empty() {
            return ToolOutcome::failed("Content was inaccessible or not found");
        }
        let status = if is_failure { OutcomeStatus::Failed } else { OutcomeStatus::Done };
        ToolOutcome { content: pretty(&json!({"results": results})), status, provenance: Provenance::Web }
    }

    fn entry(&self, page: PageResult, limit: usize) -> Value {
        let text = cleaned(&page.content);
        let title = cleaned(&page.title);
        // The whole text is examined, because the part that is not shown is read later.
        let warning = warning(&text).or_else(|| warning(&title));
        let content = bounded(text, limit, &page.url, &self.access.cache, self.access.clock.now());
        let mut entry = json!({"url": page.url, "title": title, "content": content, "error": page.error});
        if let Some(fields) = entry.as_object_mut() {
            if let Some(warning) = warning {
                fields.shift_insert(0, "_warning".to_owned(), warning.into());
            }
            if let Some(rule) = page.blocked {
                fields.insert("blocked_by_policy".to_owned(), rule);
            }
        }
        entry
    }
}

impl Tool for WebExtractTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some(given) = call.arguments.get("urls") else { return missing("web_extract", "urls") };
            let urls: Vec<&str> = match given {
                Value::String(url) => vec![url.as_str()],
                Value::Array(urls) => urls.iter().filter_map(Value::as_str).take(MOST_PAGES).collect(),
                _ => Vec::new(),
            };
            match self.pages(&urls, &context).await {
                Ok(pages) => self.answer(pages),
                Err(ServiceFailure::Cancelled) => interrupted(),
                Err(ServiceFailure::Failed(reason)) => {
                    ToolOutcome::failed(format!("Error extracting content: {reason}"))
                }
            }
        })
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { concurrency: Concurrency::Parallel, ..CallPolicy::default() }
    }
}

/// Adds the scheme that people leave out.
pub(crate) fn with_scheme(given: &str) -> String {
    let given = given.trim();
    let has_scheme =
        given.split_once("://").is_some_and(|(scheme, _)| scheme.chars().all(char::is_alphanumeric));
    let is_name = given.split(['/', ':', '?']).next().is_some_and(|host| host.contains('.'));
    if !has_scheme && is_name { format!("https://{given}") } else { given.to_owned() }
}

/// Applies the list of blocked websites to the address a service ended up at.
fn judged(page: ServicePage, policy: &UrlPolicy) -> PageResult {
    let denied = Url::parse(&page.url).ok().and_then(|url| policy.check_url(&url).err());
    match denied {
        Some(denial) => PageResult::denied(&page.url, &denial),
        None => PageResult {
            url: page.url,
            title: page.title,
            content: page.text,
            error: page.error,
            blocked: None,
        },
    }
}
