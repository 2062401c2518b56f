//! Converts errors of the underlying libraries to [`Error`]. Their own texts name URLs, so only selected parts are
//! kept.

use std::error::Error as StdError;
use std::io;

use hermes_guard::{Redaction, UrlDenial, redact};
use hermes_types::{OUT_OF_DESCRIPTORS, is_out_of_descriptors};

use crate::error::{Error, TimeoutPhase};
use crate::resolve::UnresolvedHost;

/// Converts an error that occurred before the status line arrived.
pub(crate) fn request_error(host: &str, error: reqwest::Error) -> Error {
    let host = host.to_owned();
    let error = &error.without_url();
    if let Some(denied) = find::<UrlDenial>(error) {
        return Error::Denied(denied.clone());
    }
    if let Some(unresolved) = find::<UnresolvedHost>(error) {
        return Error::Connect { host, why: unresolved.to_string(), retryable: unresolved.temporary };
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return Error::Tls { host, why: describe_tls_error(tls) };
    }
    if error.is_builder() {
        return Error::InvalidUrl;
    }
    if error.is_connect() {
        if error.is_timeout() {
            return Error::TimedOut { host, wait: TimeoutPhase::Connection };
        }
        if let Some(why) = describe_proxy_error(error) {
            return Error::Proxy { host, why };
        }
        return connect_error(host, find::<io::Error>(error));
    }
    if error.is_timeout() {
        return Error::TimedOut { host, wait: TimeoutPhase::Answer };
    }
    if error.is_request() || error.is_body() {
        return Error::ConnectionLost { host };
    }
    Error::Other { host, why: innermost_text(error) }
}

/// Converts an error that occurred while the body was read.
pub(crate) fn body_error(host: &str, error: &reqwest::Error) -> Error {
    let host = host.to_owned();
    let garbled =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
    match find::<io::Error>(error) {
        Some(io) if garbled(io) => Error::Malformed { host, why: "its compression is broken".to_owned() },
        _ => Error::ConnectionLost { host },
    }
}

pub(crate) fn connect_error(host: String, error: Option<&io::Error>) -> Error {
    if error.is_some_and(is_out_of_descriptors) {
        return Error::Connect { host, why: OUT_OF_DESCRIPTORS.to_owned(), retryable: true };
    }
    let (why, retryable) = match error.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => ("nothing answers at that port", true),
        Some(
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof,
        ) => ("the connection was broken off", true),
        Some(
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown,
        ) => ("the network is unreachable", true),
        Some(io::ErrorKind::TimedOut) => ("no answer in time", true),
        Some(io::ErrorKind::PermissionDenied) => ("this machine does not permit it", false),
        _ => ("the connection failed", true),
    };
    Error::Connect { host, why: why.to_owned(), retryable }
}

pub(crate) fn describe_tls_error(error: &rustls::Error) -> String {
    use rustls::CertificateError as Certificate;
    let words = match error {
        rustls::Error::InvalidCertificate(Certificate::UnknownIssuer) => {
            "its certificate comes from an unknown authority; set HERMES_CA_BUNDLE if your network has its own"
        }
        rustls::Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "its certificate has expired"
        }
        rustls::Error::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        ) => "its certificate is for another name",
        rustls::Error::InvalidCertificate(_) => "its certificate is not valid",
        rustls::Error::General(text) if text.contains("No CA certificates") => {
            "this machine has no certificate authorities; install ca-certificates or set HERMES_CA_BUNDLE"
        }
        other => return sanitize_text(&other.to_string()),
    };
    words.to_owned()
}

fn describe_proxy_error(error: &reqwest::Error) -> Option<String> {
    let words = innermost_text(error);
    let lower = words.to_ascii_lowercase();
    ["tunnel", "proxy", "socks"].iter().any(|word| lower.contains(word)).then_some(words)
}

/// Returns the innermost text of an error chain, which says what happened but names no URL.
fn innermost_text(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    walk(error, &mut |error| text = error.to_string());
    sanitize_text(&text)
}

/// Makes a text from another program safe to show.
pub(crate) fn sanitize_text(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    redact(&text, Redaction::default()).into_owned()
}

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut found = None;
    walk(error, &mut |error| found = found.or(error.downcast_ref::<T>()));
    found
}

/// Visits an error and its causes. The error that an I/O error wraps is not among its sources, so it is visited
/// separately.
fn walk<'a>(error: &'a (dyn StdError + 'static), visit: &mut dyn FnMut(&'a (dyn StdError + 'static))) {
    let mut next = Some(error);
    while let Some(error) = next {
        visit(error);
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_descriptors_is_told_as_what_it_is() {
        for number in [23, 24] {
            let told =
                connect_error("host".to_owned(), Some(&io::Error::from_raw_os_error(number))).to_string();
            assert!(told.contains("no file descriptors left"), "{told}");
        }
        let told = connect_error("host".to_owned(), Some(&io::Error::from_raw_os_error(111))).to_string();
        assert!(told.contains("nothing answers at that port"), "{told}");
    }
}
