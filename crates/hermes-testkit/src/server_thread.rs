//! Servers on separate threads, for tests without a runtime and for binaries under test.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::Error;

/// A thread that ends, with all its tasks, when this is dropped.
#[derive(Debug)]
pub(crate) struct ServerThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Listens on that port of the loopback interface, or on a free one for 0, and serves.
    pub(crate) fn start<F: Future<Output = ()>>(
        name: &str,
        port: u16,
        serve: impl FnOnce(TcpListener) -> F + Send + 'static,
    ) -> Result<(SocketAddr, Self), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::io("start a runtime"))?;
        // Entered, not blocked on: the caller may itself be inside a runtime.
        let listener = {
            let _inside = runtime.enter();
            bind(port)?
        };
        let address = listener.local_addr().map_err(Error::io("read the listener's address"))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener) => {}
                    _ = stopped => {}
                }
            });
        });
        let thread = thread.map_err(Error::io("start a thread"))?;
        Ok((address, Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        // Both fail only when the thread has ended already.
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

pub(crate) fn bind(port: u16) -> Result<TcpListener, Error> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let doing = format!("listen on {address}");
    let listener = std::net::TcpListener::bind(address).map_err(Error::io(doing.clone()))?;
    listener.set_nonblocking(true).map_err(Error::io(doing.clone()))?;
    TcpListener::from_std(listener).map_err(Error::io(doing))
}
