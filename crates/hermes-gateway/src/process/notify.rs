//! Reports the gateway's state to systemd.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends one message to the socket named by `NOTIFY_SOCKET`; a name that begins with `@` is an abstract one.
pub fn notify_service(socket: &str, text: &str) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => abstract_address(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &str) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    SocketAddr::from_abstract_name(name.as_bytes())
}

#[cfg(not(target_os = "linux"))]
fn hidden(_: &str) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no such sockets"))
}
