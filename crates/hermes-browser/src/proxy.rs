//! The proxy through which a local browser reaches the network.
//!
//! A page opens more than the DevTools protocol can intercept: sockets, early connections, requests of workers. All of them
//! pass here. Invariant: a connection is opened only to addresses that the guard allowed, and the name is not resolved
//! again in between.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use hermes_types::{Cancel, Clock};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::network::RequestGuard;

/// The time for the greeting of a connection, and for connecting.
const PATIENCE: Duration = Duration::from_secs(30);

const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const UNREACHABLE: u8 = 4;

/// A SOCKS 5 server on this machine, until it is dropped.
#[derive(Debug)]
pub(crate) struct CheckingProxy {
    port: u16,
    stop: Cancel,
}

impl CheckingProxy {
    pub(crate) async fn start(guard: RequestGuard, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let stop = Cancel::new();
        let work = serve(listener, guard, clock, stop.clone());
        drop(hermes_task::spawn_named("browser proxy", &stop, work));
        Ok(Self { port, stop })
    }

    pub(crate) fn address(&self) -> String {
        format!("socks5://127.0.0.1:{}", self.port)
    }
}

impl Drop for CheckingProxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn serve(listener: TcpListener, guard: RequestGuard, clock: Arc<dyn Clock>, stop: Cancel) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (guard, clock) = (guard.clone(), clock.clone());
                let work = async move {
                    // A connection that fails is the browser's to report.
                    let _ = relay(stream, &guard, &*clock).await;
                };
                drop(hermes_task::spawn_named("browser connection", &stop, work));
            }
            // Out of descriptors, most likely: connections that end give some back.
            Err(_) => clock.sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn relay(mut browser: TcpStream, guard: &RequestGuard, clock: &dyn Clock) -> io::Result<()> {
    let target = tokio::select! {
        target = greet(&mut browser) => target?,
        () = clock.sleep(PATIENCE) => return Ok(()),
    };
    let (host, port) = target;
    let addresses = match guard.check_host(&host, port).await {
        Ok(addresses) => addresses,
        Err(denial) => {
            tracing::debug!(host, %denial, "a connection of the browser was refused");
            return answer(&mut browser, NOT_ALLOWED).await;
        }
    };
    let connected = tokio::select! {
        connected = guard.network().connect(addresses, port) => connected,
        () = clock.sleep(PATIENCE) => Err(io::ErrorKind::TimedOut.into()),
    };
    match connected {
        Ok(mut server) => {
            answer(&mut browser, SUCCEEDED).await?;
            copy_bidirectional(&mut browser, &mut server).await.map(|_| ())
        }
        Err(_) => answer(&mut browser, UNREACHABLE).await,
    }
}

/// Reads the greeting and the request; returns where the browser wants to connect to.
async fn greet(browser: &mut TcpStream) -> io::Result<(String, u16)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut head = [0; 2];
    browser.read_exact(&mut head).await?;
    let [5, methods] = head else { return Err(invalid()) };
    let mut offered = vec![0; usize::from(methods)];
    browser.read_exact(&mut offered).await?;
    browser.write_all(&[5, 0]).await?;
    let mut request = [0; 4];
    browser.read_exact(&mut request).await?;
    let [5, 1, _, kind] = request else { return Err(invalid()) };
    let host = match kind {
        1 => IpAddr::from(Ipv4Addr::from(read_array::<4>(browser).await?)).to_string(),
        4 => IpAddr::from(Ipv6Addr::from(read_array::<16>(browser).await?)).to_string(),
        3 => {
            let [length] = read_array::<1>(browser).await?;
            let mut name = vec![0; usize::from(length)];
            browser.read_exact(&mut name).await?;
            String::from_utf8(name).map_err(|_| invalid())?
        }
        _ => return Err(invalid()),
    };
    Ok((host, u16::from_be_bytes(read_array::<2>(browser).await?)))
}

async fn read_array<const N: usize>(browser: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    browser.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn answer(browser: &mut TcpStream, code: u8) -> io::Result<()> {
    browser.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await
}
