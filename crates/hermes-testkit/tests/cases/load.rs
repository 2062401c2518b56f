//! Measures the speed of the server, without assertions on it:
//! `cargo nextest run -p hermes-testkit --release --run-ignored only --no-capture load`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use hermes_testkit::{ModelScript, ModelServer, RealClock};
use hermes_types::Clock as _;

use super::{CHAT, ask_stream};

#[test]
#[ignore = "a measurement, run by hand"]
fn load() {
    const CLIENTS: usize = 16;
    const EACH: usize = 2_000;
    let server = ModelServer::builder(ModelScript::always("ok")).keep_requests(1).start_blocking().unwrap();
    let mut body = ask_stream("hi");
    body["messages"][0]["content"] = "x".repeat(4_000).into();
    let body = body.to_string();
    let request = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let clock = RealClock::default();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(server.address()).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut buffer = vec![0; 16 * 1024];
                for _ in 0..EACH {
                    stream.write_all(request.as_bytes()).unwrap();
                    let mut end = 0;
                    while !buffer[..end].ends_with(b"0\r\n\r\n") {
                        end += stream.read(&mut buffer[end..]).unwrap();
                    }
                }
            });
        }
    });
    let seconds = clock.monotonic().as_secs_f64();
    let total = server.request_count();
    println!(
        "{total} streamed replies in {seconds:.2} s: {:.0}/s",
        f64::from(u32::try_from(total).unwrap()) / seconds
    );
}
