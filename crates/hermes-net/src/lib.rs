//! The only HTTP and WebSocket client, the connections of protocols made of lines, and the connections of our HTTP
//! servers.
//!
//! Holds TLS, proxies, connection reuse, time limits, size caps, redirects and the checks on requests to untrusted
//! URLs. Does not parse what it fetches, and does not retry: callers know what may be repeated. Every request has a
//! deadline and a cancel token, and no error text contains a query, a user name, a header or a key.

mod client;
mod config;
mod error;
mod failure;
mod http_listener;
mod line_stream;
mod redirect;
mod request;
mod request_bounds;
mod resolve;
mod response;
mod retry_after;
mod socket;
mod tls;
mod tls_handshake;

pub use bytes::Bytes;
pub use hermes_guard::{PrivateAddresses, UrlPolicy};
pub use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
pub use reqwest::{Method, StatusCode};
pub use url::Url;

pub use client::HttpClient;
pub use config::{CertificateVerification, Config, ProxyMode};
pub use error::{Error, TimeoutPhase};
pub use http_listener::{HttpListener, serve_connection};
pub use line_stream::{LineStream, StreamSecurity};
pub use request::{HttpRequest, RedirectPolicy, UrlTrust};
pub use resolve::{HostResolver, SystemResolver};
pub use response::HttpResponse;
pub use retry_after::{parse_date, retry_after};
pub use socket::{SocketFrame, SocketLimits, WebSocket};
pub use tls_handshake::{TlsHandshake, TlsStream};
