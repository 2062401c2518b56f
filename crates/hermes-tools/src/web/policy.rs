//! Which addresses of the web may be opened: private networks, and `security.website_blocklist`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_config::Home;
use hermes_config::settings::SecuritySettings;
use hermes_guard::{AddressKind, Blocklist, PrivateAddresses, UrlDenial, UrlDenialReason, UrlPolicy};
use hermes_types::Clock;
use serde_json::{Value, json};

/// How long the lists of blocked websites are used before their files are read again.
const REREAD: Duration = Duration::from_secs(30);

/// The policy for addresses of the web. Clones share what was read.
#[derive(Debug, Clone)]
pub struct WebsitePolicy(Arc<WebsitePolicyState>);

#[derive(Debug)]
struct WebsitePolicyState {
    private: PrivateAddresses,
    domains: Vec<String>,
    files: Vec<String>,
    home: Home,
    clock: Arc<dyn Clock>,
    /// The policy, and when it was read.
    current: Mutex<Option<(Duration, Arc<UrlPolicy>)>>,
}

impl WebsitePolicy {
    pub fn new(settings: &SecuritySettings, home: Home, clock: Arc<dyn Clock>) -> Self {
        let (domains, files) = if settings.blocklist_enabled {
            (settings.blocked_domains.clone(), settings.blocklist_files.clone())
        } else {
            (Vec::new(), Vec::new())
        };
        Self(Arc::new(WebsitePolicyState {
            private: private_addresses(settings),
            domains,
            files,
            home,
            clock,
            current: Mutex::default(),
        }))
    }

    /// Returns what gives the policy with the present contents of the shared files.
    pub fn source(&self) -> Arc<dyn Fn() -> Arc<UrlPolicy> + Send + Sync> {
        let policy = self.clone();
        Arc::new(move || policy.current())
    }

    /// Returns the policy with the present contents of the shared files.
    pub(crate) fn current(&self) -> Arc<UrlPolicy> {
        let state = &*self.0;
        let now = state.clock.monotonic();
        let mut current = state.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, policy)) = &*current
            && now.saturating_sub(*read) < REREAD
        {
            return policy.clone();
        }
        let policy = Arc::new(UrlPolicy { private: state.private, blocklist: state.read_blocklist() });
        *current = Some((now, policy.clone()));
        policy
    }
}

impl WebsitePolicyState {
    /// Reads the lists. A file that cannot be read blocks nothing, as in the original program, and is reported.
    fn read_blocklist(&self) -> Blocklist {
        let mut list = Blocklist::new();
        list.add(self.domains.iter().map(String::as_str), "config");
        for file in &self.files {
            let path = if Path::new(file).is_absolute() { file.into() } else { self.home.join(file) };
            match std::fs::read_to_string(&path) {
                Ok(text) => list.add_file(&text, &path.display().to_string()),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a list of blocked websites could not be read");
                }
            }
        }
        list
    }
}

/// Returns whether addresses of private networks may be opened.
pub(super) fn private_addresses(settings: &SecuritySettings) -> PrivateAddresses {
    if settings.allow_private_urls { PrivateAddresses::Allow } else { PrivateAddresses::Refuse }
}

/// Returns the text of a refusal for the model.
pub(crate) fn denial_text(denial: &UrlDenial) -> String {
    match &denial.reason {
        UrlDenialReason::Address { kind: AddressKind::Documentation | AddressKind::Multicast, .. }
        | UrlDenialReason::Blocklist { .. } => denial.to_string(),
        UrlDenialReason::Address { .. }
        | UrlDenialReason::LocalName { .. }
        | UrlDenialReason::Metadata(_) => {
            format!("Blocked: the URL points to a private or internal network address ({denial})")
        }
        _ => format!("Blocked: {denial}"),
    }
}

/// Returns the rule that blocks a website, for scripts.
pub(super) fn blocking_rule(denial: &UrlDenial) -> Option<Value> {
    match &denial.reason {
        UrlDenialReason::Blocklist { host, rule, source_name } => {
            Some(json!({"host": host, "rule": rule, "source": source_name}))
        }
        _ => None,
    }
}
