//! A web site with contents that a test sets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::Error;
use crate::http::HttpConnection;
use crate::server_thread::ServerThread;
use crate::task::start_in;
use crate::watched_value::WatchedValue;

/// A web site on this machine, until it is dropped. Other paths are a 404.
#[derive(Debug)]
pub struct TestWebsite {
    address: SocketAddr,
    state: Arc<WatchedValue<WebsiteState>>,
    _thread: ServerThread,
}

#[derive(Debug, Default)]
struct WebsiteState {
    pages: BTreeMap<String, Page>,
    visits: Vec<String>,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
struct Page {
    status: u16,
    mime: String,
    bytes: Vec<u8>,
    /// The address the page redirects to.
    location: Option<String>,
}

impl TestWebsite {
    pub fn start() -> Result<Self, Error> {
        let shelf = Arc::new(WatchedValue::new(WebsiteState::default()));
        let shown = shelf.clone();
        let (address, thread) = ServerThread::start("site", 0, |listener| serve(listener, shown))?;
        Ok(Self { address, state: shelf, _thread: thread })
    }

    /// Sets the contents of a path and returns its URL.
    pub fn put(&self, path: &str, mime: &str, bytes: &[u8]) -> String {
        self.put_with(200, path, mime, bytes)
    }

    pub fn put_with(&self, status: u16, path: &str, mime: &str, bytes: &[u8]) -> String {
        let page = Page { status, mime: mime.to_owned(), bytes: bytes.to_vec(), location: None };
        self.state.update(|shelf| shelf.pages.insert(path.to_owned(), page));
        self.url(path)
    }

    /// Makes a path redirect to an address, and returns the URL of the path.
    pub fn redirect(&self, path: &str, location: &str) -> String {
        let page = Page {
            status: 302,
            mime: "text/html".to_owned(),
            bytes: Vec::new(),
            location: Some(location.to_owned()),
        };
        self.state.update(|shelf| shelf.pages.insert(path.to_owned(), page));
        self.url(path)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the values of a header, written in small letters, of all requests.
    pub fn headers(&self, name: &str) -> Vec<String> {
        let of_it = |(known, value): &(String, String)| (known == name).then(|| value.clone());
        self.state.read(|shelf| shelf.headers.iter().filter_map(of_it).collect())
    }

    /// Returns the requested paths, in order.
    pub fn visits(&self) -> Vec<String> {
        self.state.read(|shelf| shelf.visits.clone())
    }
}

async fn serve(listener: TcpListener, shelf: Arc<WatchedValue<WebsiteState>>) {
    let mut work = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start_in(&mut work, serve_connection(stream, shelf.clone()));
            },
            Some(_) = work.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, shelf: Arc<WatchedValue<WebsiteState>>) {
    let mut connection = HttpConnection::new(stream);
    while let Ok(message) = connection.read().await {
        let path = message.target.split('?').next().unwrap_or_default().to_owned();
        let page = shelf.update(|shelf| {
            shelf.visits.push(path.clone());
            shelf
                .headers
                .extend(message.headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())));
            shelf.pages.get(&path).cloned()
        });
        let nothing =
            || Page { status: 404, mime: "text/html".to_owned(), bytes: b"<html>".to_vec(), location: None };
        let Page { status, mime, bytes, location } = page.unwrap_or_else(nothing);
        let length = bytes.len();
        let location = location.map(|to| format!("location: {to}\r\n")).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: {mime}\r\n{location}content-length: {length}\r\n\r\n"
        );
        if connection.write(&[head.into_bytes(), bytes].concat()).await.is_err() || message.wants_close() {
            return;
        }
    }
}
