//! The gateway: how soon it answers, how small it stays, how many turns it takes. The model is the scripted server, in a
//! process of its own beside it, as small as it can be.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hermes_testkit::telegram::FakeTelegram;
use hermes_testkit::{LoadReport, LoadTest, TempHome, http_get, percentile};

use super::Measurement;

const KEY: &str = "a-key-for-measuring";
/// Turns after which memory must no longer grow.
const WARM_UP: usize = 2_000;
const LONG_RUN: usize = 10_000;
const SOAK_TURNS: usize = 20_000;
const CHAT_PEOPLE: i64 = 50;
const CHAT_ROUNDS: usize = 40;
const AFTER_SOAK: Duration = Duration::from_secs(30);
/// After this a gateway has given back what only its start needed.
const AFTER_START: Duration = Duration::from_secs(3);
const BOT_TOKEN: &str = "1000:a-token-for-measuring";
const RESIDENT: &str = "VmRSS:";
const PEAK: &str = "VmHWM:";

/// Ended by its number when it goes.
struct GatewayProcess(Child);

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A gateway with a model server of its own, both in a temporary home.
struct Bench {
    gateway: GatewayProcess,
    _model: GatewayProcess,
    _home: TempHome,
    address: SocketAddr,
    healthy_after: Duration,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    /// Starts both and waits until the gateway is healthy.
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    fn start(binary: &Path, config: &str, env: &str) -> Result<Self> {
        let model_port = free_port()?;
        let testkit = binary.with_file_name("hermes-testkit");
        let serve = ["serve", "--echo", "--quiet", "--port", &model_port.to_string()];
        let model = start(&testkit, Path::new("/"), &serve)?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let config = format!(
            "model: {{provider: custom, base_url: \"http://127.0.0.1:{model_port}/v1\", default: test-model}}\n{config}"
        );
        let env = format!("API_SERVER_KEY={KEY}\nAPI_SERVER_PORT={}\n{env}", address.port());
        let home = TempHome::builder().config_yaml(&config).env_file(&env).build().context("no home")?;
        let began = Instant::now();
        let gateway = start(binary, home.path(), &["gateway", "run"])?;
        while !http_get(address, "/health").is_ok_and(|reply| reply.status == 200) {
            if began.elapsed() > Duration::from_secs(10) {
                bail!("the gateway does not come up");
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let runtime = tokio::runtime::Runtime::new()?;
        let healthy_after = began.elapsed();
        Ok(Self { gateway, _model: model, _home: home, address, healthy_after, runtime })
    }

    /// Runs API turns; fails if one of them does.
    fn load(&self, clients: usize, turns: usize) -> Result<LoadReport> {
        let (address, key) = (self.address, KEY.to_owned());
        let load = LoadTest { address, key, clients, turns, conversations: 1000, stream: false };
        let loaded = self.runtime.block_on(load.run());
        if loaded.failed > 0 {
            bail!("{} turns failed", loaded.failed);
        }
        Ok(loaded)
    }

    fn memory(&self, line: &str) -> Result<f64> {
        memory(self.gateway.0.id(), line)
    }

    fn descriptors(&self) -> Result<f64> {
        let count = std::fs::read_dir(format!("/proc/{}/fd", self.gateway.0.id()))?.count();
        Ok(f64::from(u32::try_from(count)?))
    }
}

pub(crate) fn measure(binary: &Path) -> Result<Vec<Measurement>> {
    let bench = Bench::start(binary, "", "")?;
    std::thread::sleep(AFTER_START);
    let idle = bench.memory(RESIDENT)?;
    let first = bench.load(1, 1)?;
    let busy = bench.load(128, WARM_UP)?;
    let warm = bench.memory(RESIDENT)?;
    bench.load(64, LONG_RUN)?;
    let after = bench.memory(RESIDENT)?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(vec![
        Measurement { name: "gateway, start to /health", value: ms(bench.healthy_after) },
        Measurement { name: "gateway, first turn", value: ms(percentile(&first.times, 50)) },
        Measurement { name: "gateway, idle memory", value: idle },
        Measurement { name: "API turns, 128 clients", value: busy.per_second() },
        Measurement { name: "API turn p99, 128 clients", value: ms(percentile(&busy.times, 99)) },
        Measurement { name: "growth over 10000 turns", value: (after - warm).max(0.0) },
    ])
}

/// Prints what a gateway does under the load of more and more clients.
pub(crate) fn load(binary: &Path) -> Result<()> {
    let bench = Bench::start(binary, "", "")?;
    println!("{:>8} {:>10} {:>10} {:>10} {:>10}", "clients", "turns/s", "p50 ms", "p99 ms", "memory MB");
    for clients in [1, 8, 32, 128, 1000] {
        let report = bench.load(clients, (clients * 20).clamp(1000, LONG_RUN))?;
        let ms = |which| percentile(&report.times, which).as_secs_f64() * 1e3;
        let memory = bench.memory(RESIDENT)?;
        println!(
            "{clients:>8} {:>10.0} {:>10.1} {:>10.1} {memory:>10.1}",
            report.per_second(),
            ms(50),
            ms(99)
        );
    }
    Ok(())
}

/// Runs API turns and chat messages, then waits: what a burst leaves behind in a gateway.
pub(crate) fn soak(binary: &Path) -> Result<Vec<Measurement>> {
    let telegram = FakeTelegram::start(BOT_TOKEN).context("no Telegram")?;
    let config = format!("platforms: {{telegram: {{extra: {{base_url: \"{}\"}}}}}}\n", telegram.base_url());
    let env = format!("TELEGRAM_BOT_TOKEN={BOT_TOKEN}\nTELEGRAM_ALLOW_ALL_USERS=true\n");
    let bench = Bench::start(binary, &config, &env)?;
    telegram.until_called_blocking("getUpdates", 2);
    std::thread::sleep(AFTER_START);
    let (idle, descriptors) = (bench.memory(RESIDENT)?, bench.descriptors()?);
    bench.load(128, SOAK_TURNS)?;
    let people: Vec<_> =
        (1..=CHAT_PEOPLE).map(|id| (id, telegram.person(id, &format!("Person {id}")))).collect();
    for round in 0..CHAT_ROUNDS {
        for (id, person) in &people {
            person.says(*id, &format!("message {round} of {id}"));
        }
        for (id, _) in &people {
            telegram.until_said_blocking(*id, &format!("message {round} of {id}"));
        }
    }
    let peak = bench.memory(PEAK)?;
    std::thread::sleep(AFTER_SOAK);
    Ok(vec![
        Measurement { name: "soak, memory before", value: idle },
        Measurement { name: "soak, peak memory", value: peak },
        Measurement {
            name: "soak, memory kept after 30 s",
            value: (bench.memory(RESIDENT)? - idle).max(0.0),
        },
        Measurement { name: "soak, descriptors kept", value: (bench.descriptors()? - descriptors).max(0.0) },
    ])
}

#[expect(clippy::disallowed_methods, reason = "a chore runs the program it measures")]
fn start(program: &Path, home: &Path, arguments: &[&str]) -> Result<GatewayProcess> {
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
    Ok(GatewayProcess(child))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Megabytes a process holds now (`VmRSS:`) or held at most (`VmHWM:`).
fn memory(pid: u32, line: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|found| found.strip_prefix(line)).context("no memory")?;
    let kilobytes: f64 = line.split_whitespace().next().context("no memory")?.parse()?;
    Ok(kilobytes / 1e3)
}
