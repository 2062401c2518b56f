//! `/browser`: which browser the browser tools use.

use hermes_browser::{BrowserOptions, BrowserPlace, BrowserPool, shown_address};

use super::CommandReply;

/// Where a browser that was started for it listens.
const USUAL_ADDRESS: &str = "http://127.0.0.1:9222";
const USAGE: &str = "Usage: /browser [status | connect [address] | disconnect]";

pub(super) async fn run(arguments: &str, pool: &BrowserPool, options: &BrowserOptions) -> CommandReply {
    let mut words = arguments.split_whitespace();
    let text = match (words.next(), words.next(), words.next()) {
        (None | Some("status"), None, _) => status(pool, options),
        (Some("connect"), address, None) => connect(pool, options, address.unwrap_or(USUAL_ADDRESS)).await,
        (Some("disconnect"), None, _) => disconnect(pool, options).await,
        _ => USAGE.to_owned(),
    };
    CommandReply::text(text)
}

fn status(pool: &BrowserPool, options: &BrowserOptions) -> String {
    let sessions = match pool.open_sessions() {
        0 => "no session is open".to_owned(),
        1 => "1 session is open".to_owned(),
        count => format!("{count} sessions are open"),
    };
    format!("Browser: {}; {sessions}", describe(pool, options))
}

/// Describes the browser that is used.
pub(crate) fn describe(pool: &BrowserPool, options: &BrowserOptions) -> String {
    if let Some(address) = pool.chosen_address() {
        return format!("at {} until /browser disconnect", shown_address(&address));
    }
    match &options.place {
        BrowserPlace::Local => match options.local.find(pool.clock()) {
            Some(path) => path.display().to_string(),
            None => "none was found. Install Chromium, Chrome or Edge, or connect one".to_owned(),
        },
        BrowserPlace::Address(address) => format!("at {}", shown_address(address)),
        BrowserPlace::Cloud(service) => format!("of {}", service.name()),
        BrowserPlace::Nowhere(reason) => format!("none: {reason}"),
    }
}

async fn connect(pool: &BrowserPool, options: &BrowserOptions, address: &str) -> String {
    let was_usable = pool.is_usable(options);
    match pool.connect(address, options).await {
        Ok(_) => {
            let mut text = format!(
                "Connected to the browser at {}. The agent opens its own tab there and is signed in where that browser is.",
                shown_address(address)
            );
            if !was_usable {
                text.push_str(
                    " The browser tools were not offered when this program started. To have them, set browser.cdp_url and \
                     start it again.",
                );
            }
            text
        }
        Err(error) => format!("⚠️ {error}. Nothing was changed."),
    }
}

async fn disconnect(pool: &BrowserPool, options: &BrowserOptions) -> String {
    match pool.disconnect().await {
        Some(address) => {
            format!("Disconnected from {}. Browser now: {}", shown_address(&address), describe(pool, options))
        }
        None => "No browser was connected with /browser connect.".to_owned(),
    }
}
