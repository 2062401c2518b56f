//! The settings for searching the web and reading pages.

use hermes_types::Secret;

use crate::{Config, Env};

/// A service that searches the web or reads pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebService {
    Firecrawl,
    Parallel,
    Tavily,
    Exa,
    Searxng,
    Brave,
    /// Hermes fetches and converts pages itself.
    Native,
}

impl WebService {
    pub fn name(self) -> &'static str {
        match self {
            Self::Firecrawl => "Firecrawl",
            Self::Parallel => "Parallel",
            Self::Tavily => "Tavily",
            Self::Exa => "Exa",
            Self::Searxng => "SearXNG",
            Self::Brave => "Brave",
            Self::Native => "Hermes",
        }
    }

    /// Returns the variable with the service's key; for SearXNG, the variable with its address.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Firecrawl => "FIRECRAWL_API_KEY",
            Self::Parallel => "PARALLEL_API_KEY",
            Self::Tavily => "TAVILY_API_KEY",
            Self::Exa => "EXA_API_KEY",
            Self::Searxng => "SEARXNG_URL",
            Self::Brave => "BRAVE_SEARCH_API_KEY",
            Self::Native => "",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "firecrawl" => Self::Firecrawl,
            "parallel" => Self::Parallel,
            "tavily" => Self::Tavily,
            "exa" => Self::Exa,
            "searxng" => Self::Searxng,
            // The name in newer releases of the Python program.
            "brave" | "brave-free" => Self::Brave,
            "native" => Self::Native,
            _ => return None,
        })
    }
}

/// The `web` section, with the keys of the services.
#[derive(Debug, Clone)]
pub struct WebSettings {
    /// The service that searches, or what to configure so that there is one.
    pub search: Result<WebService, String>,
    /// The service that reads pages, or what is missing for the configured one.
    pub extract: Result<WebService, String>,
    /// The longest text of one page that the model gets, in characters.
    pub page_chars: usize,
    pub keys: WebKeys,
}

/// The keys and addresses of the services.
#[derive(Debug, Clone, Default)]
pub struct WebKeys {
    pub firecrawl: Option<Secret>,
    /// The address of a self-hosted Firecrawl, which may need no key.
    pub firecrawl_url: Option<String>,
    pub parallel: Option<Secret>,
    pub parallel_mode: Option<String>,
    pub tavily: Option<Secret>,
    pub exa: Option<Secret>,
    pub searxng_url: Option<String>,
    pub brave: Option<Secret>,
}

/// The least value of `web.extract_char_limit`.
const LEAST_PAGE_CHARS: usize = 2_000;

impl WebSettings {
    pub fn resolve(config: &Config, env: &Env) -> Self {
        let key = |service: WebService| env.get(service.variable()).map(Secret::new);
        let address =
            |text: &str| Some(text.trim().trim_end_matches('/').to_owned()).filter(|url| !url.is_empty());
        let keys = WebKeys {
            firecrawl: key(WebService::Firecrawl),
            firecrawl_url: env.get("FIRECRAWL_API_URL").and_then(address),
            parallel: key(WebService::Parallel),
            parallel_mode: env.get("PARALLEL_SEARCH_MODE").map(str::to_owned),
            tavily: key(WebService::Tavily),
            exa: key(WebService::Exa),
            searxng_url: config
                .non_empty_text("web.searxng_url")
                .as_deref()
                .or_else(|| env.get(WebService::Searxng.variable()))
                .and_then(address),
            brave: key(WebService::Brave),
        };
        let named = |path: &str| config.non_empty_text(path).filter(|name| name != "auto");
        let both = named("web.backend");
        Self {
            search: keys.for_search(named("web.search_backend").or_else(|| both.clone()).as_deref()),
            extract: keys.for_pages(named("web.extract_backend").or(both).as_deref()),
            page_chars: config.count("web.extract_char_limit").max(LEAST_PAGE_CHARS),
            keys,
        }
    }
}

impl WebKeys {
    /// Tells whether a service has what it needs.
    pub fn has(&self, service: WebService) -> bool {
        match service {
            WebService::Firecrawl => self.firecrawl.is_some() || self.firecrawl_url.is_some(),
            WebService::Parallel => self.parallel.is_some(),
            WebService::Tavily => self.tavily.is_some(),
            WebService::Exa => self.exa.is_some(),
            WebService::Searxng => self.searxng_url.is_some(),
            WebService::Brave => self.brave.is_some(),
            WebService::Native => true,
        }
    }

    /// Returns the first of the services for both tasks that has a key, in the order of the original program.
    fn automatic(&self) -> Option<WebService> {
        [WebService::Firecrawl, WebService::Parallel, WebService::Tavily, WebService::Exa]
            .into_iter()
            .find(|service| self.has(*service))
    }

    fn for_search(&self, named: Option<&str>) -> Result<WebService, String> {
        let own = || [WebService::Searxng, WebService::Brave].into_iter().find(|service| self.has(*service));
        match named {
            // Hermes has no index of the web.
            Some(name) if WebService::parse(name) != Some(WebService::Native) => self.usable(name),
            _ => self.automatic().or_else(own).ok_or_else(|| {
                "no search service is configured. Set web.searxng_url to the address of a SearXNG instance, or store a \
                 key: BRAVE_SEARCH_API_KEY, TAVILY_API_KEY, EXA_API_KEY, PARALLEL_API_KEY or FIRECRAWL_API_KEY"
                    .to_owned()
            }),
        }
    }

    fn for_pages(&self, named: Option<&str>) -> Result<WebService, String> {
        match named {
            // These two only search.
            Some(name)
                if !matches!(WebService::parse(name), Some(WebService::Searxng | WebService::Brave)) =>
            {
                self.usable(name)
            }
            Some(_) => Ok(WebService::Native),
            None => Ok(self.automatic().unwrap_or(WebService::Native)),
        }
    }

    fn usable(&self, name: &str) -> Result<WebService, String> {
        let service =
            WebService::parse(name).ok_or_else(|| format!("web.backend: there is no service '{name}'"))?;
        if self.has(service) {
            return Ok(service);
        }
        Err(format!("{} is configured, but {} is not set", service.name(), service.variable()))
    }
}
