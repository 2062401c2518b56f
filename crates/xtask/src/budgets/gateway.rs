//! The gateway: how soon it answers, how small it stays, how many turns it takes. The model is the scripted server, in a
//! process of its own beside it, as small as it can be.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hermes_testkit::{Load, Loaded, TempHome, http_get, percentile};

use super::Figure;

const KEY: &str = "a-key-for-measuring";
/// Turns after which memory must no longer grow.
const WARM_UP: usize = 2_000;
const LONG_RUN: usize = 10_000;

/// Ended by its number when it goes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn measure(binary: &Path) -> Result<Vec<Figure>> {
    let model_port = free_port()?;
    let testkit = binary.with_file_name("hermes-testkit");
    if !testkit.exists() {
        bail!("{} is not built; run `cargo build --release -p hermes-testkit` first", testkit.display());
    }
    let model =
        start(&testkit, Path::new("/"), &["serve", "--echo", "--quiet", "--port", &model_port.to_string()])?;
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
    let config = format!(
        "model: {{provider: custom, base_url: \"http://127.0.0.1:{model_port}/v1\", default: test-model}}\n"
    );
    let env = format!("API_SERVER_KEY={KEY}\nAPI_SERVER_PORT={}\n", address.port());
    let home = TempHome::builder().config_yaml(&config).env_file(&env).build().context("no home")?;
    let began = Instant::now();
    let gateway = start(binary, home.path(), &["gateway", "run"])?;
    while !http_get(address, "/health").is_ok_and(|reply| reply.status == 200) {
        if began.elapsed() > Duration::from_secs(10) {
            bail!("the gateway does not come up");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let healthy = began.elapsed();
    let idle = memory(gateway.0.id())?;
    let runtime = tokio::runtime::Runtime::new()?;
    let load = |clients: usize, turns: usize| -> Loaded {
        let load = Load { address, key: KEY.to_owned(), clients, turns, conversations: 1000, stream: false };
        runtime.block_on(load.run())
    };
    let first = load(1, 1);
    let busy = load(128, WARM_UP);
    let warm = memory(gateway.0.id())?;
    let long = load(64, LONG_RUN);
    let after = memory(gateway.0.id())?;
    let failed = first.failed + busy.failed + long.failed;
    if failed > 0 {
        bail!("{failed} turns failed");
    }
    drop((gateway, model));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(vec![
        Figure { name: "gateway, start to /health", value: ms(healthy) },
        Figure { name: "gateway, first turn", value: ms(percentile(&first.times, 50)) },
        Figure { name: "gateway, idle memory", value: idle },
        Figure { name: "API turns, 128 clients", value: busy.per_second() },
        Figure { name: "API turn p99, 128 clients", value: ms(percentile(&busy.times, 99)) },
        Figure { name: "growth over 10000 turns", value: (after - warm).max(0.0) },
    ])
}

#[expect(clippy::disallowed_methods, reason = "a chore runs the program it measures")]
fn start(program: &Path, home: &Path, arguments: &[&str]) -> Result<Running> {
    let child = Command::new(program)
        .args(arguments)
        .current_dir(home)
        .env_clear()
        .env("HERMES_HOME", home)
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Running(child))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Megabytes a process holds.
fn memory(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no memory")?;
    let kilobytes: f64 = line.split_whitespace().next().context("no memory")?.parse()?;
    Ok(kilobytes / 1e3)
}
