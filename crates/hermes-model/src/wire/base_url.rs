//! The URL of a provider, parsed so that hosts are compared as hosts.

use url::Url;

/// A base URL. `openai` somewhere inside a URL means nothing; its host and path do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BaseUrl {
    text: String,
    host: String,
    path: String,
}

impl BaseUrl {
    /// Parses a URL and never fails: text that is not a URL has no host.
    pub fn parse(text: &str) -> Self {
        let text = text.trim().trim_end_matches('/').to_owned();
        let with_scheme = if text.contains("://") { text.clone() } else { format!("http://{text}") };
        let url = Url::parse(&with_scheme).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let path = url.as_ref().map_or("", Url::path).trim_end_matches('/');
        Self { host: host.trim_end_matches('.').to_ascii_lowercase(), path: path.to_ascii_lowercase(), text }
    }

    /// Returns the URL as configured, without a final slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the path in lower case, without a final slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Tells whether the host is that domain or a subdomain of it.
    pub fn is_under(&self, domain: &str) -> bool {
        self.host == domain || self.host.strip_suffix(domain).is_some_and(|front| front.ends_with('.'))
    }

    /// Tells whether the host is loopback, in a private network, or a name that only a local network resolves.
    pub fn is_local(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        if host == "localhost" || self.is_under("localhost") || self.is_under("local") {
            return true;
        }
        match host.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(ip)) => {
                ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()
            }
            Ok(std::net::IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local(),
            Err(_) => !host.is_empty() && !host.contains('.'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_hosts() {
        let check = |text: &str, host: &str, path: &str| {
            let base = BaseUrl::parse(text);
            assert_eq!((base.host(), base.path()), (host, path), "{text}");
        };
        check("https://API.openai.com/v1/", "api.openai.com", "/v1");
        check("localhost:8080/v1", "localhost", "/v1");
        check("https://api.openai.com@evil.example/v1", "evil.example", "/v1");
        check("https://openrouter.ai/api/v1?x=api.openai.com", "openrouter.ai", "/api/v1");
        check("", "", "");
        check("::::", "", "");
    }

    #[test]
    fn below_and_local() {
        assert!(BaseUrl::parse("https://x.githubcopilot.com").is_under("githubcopilot.com"));
        assert!(!BaseUrl::parse("https://evilgithubcopilot.com").is_under("githubcopilot.com"));
        for local in [
            "http://127.0.0.1:1",
            "http://192.168.1.4/v1",
            "http://box:80",
            "http://[::1]:8",
            "http://a.local",
        ] {
            assert!(BaseUrl::parse(local).is_local(), "{local}");
        }
        assert!(!BaseUrl::parse("https://api.z.ai").is_local());
    }
}
