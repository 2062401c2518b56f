//! A thousand conversations on one gateway: latency and resource use. Measured by hand, without assertions.

use std::time::{Duration, Instant};

use hermes_testkit::slack::{self, FakeSlack};
use hermes_testkit::{ModelScript, ModelServer, RealClock, TempHome, percentile};
use serde_json::json;

use super::life::{GatewayChild, start_gateway};
use super::support::until;

const PEOPLE: usize = 1000;

/// Returns the memory of a process in MB.
pub(super) fn memory(gateway: &GatewayChild) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Returns the processor time of a process in seconds.
fn processor(gateway: &GatewayChild) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", gateway.pid())).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn told(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let ms = |at| percentile(times, at).as_secs_f64() * 1e3;
    format!("p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms", ms(50), ms(99), ms(100))
}

/// Runs by hand:
/// `HERMES_PROGRAM=… cargo nextest run -p hermes a_thousand_conversations --run-ignored all --no-capture`.
#[test]
#[ignore = "a measurement; by hand, on an idle machine"]
fn a_thousand_conversations() {
    let slack = FakeSlack::start().unwrap();
    let script = ModelScript::from_yaml("echo", "default: echo\nreplies: []\n").unwrap();
    let clock = std::sync::Arc::new(RealClock::default());
    let model = ModelServer::builder(script).clock(clock).keep_requests(1).start_blocking().unwrap();
    let config = json!({
        "model": {"provider": "custom", "base_url": model.base_url(), "default": "m"},
        "platforms": {"slack": {"extra": {"base_url": slack.base_url()}}},
    });
    let env = format!(
        "SLACK_ALLOW_ALL_USERS=1\nSLACK_HOME_CHANNEL=C\nSLACK_REACTIONS=false\nSLACK_BOT_TOKEN={}\nSLACK_APP_TOKEN={}\n",
        slack::BOT_TOKEN,
        slack::APP_TOKEN
    );
    let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    for person in 0..PEOPLE {
        slack.person(&format!("U{person}"), "Somebody");
        slack.direct(&format!("D{person}"));
    }
    let gateway = start_gateway(&home);
    until("it is connected", || slack.opened() >= 2);
    println!("at the start: {:.1} MB", memory(&gateway));
    let mut one_by_one = Vec::new();
    for person in 0..PEOPLE {
        let began = Instant::now();
        slack.says(&format!("U{person}"), &format!("D{person}"), "hello");
        slack.until_said_blocking(&format!("D{person}"), "hello");
        one_by_one.push(began.elapsed());
    }
    println!("one after the other: {}; {:.1} MB", told(&mut one_by_one), memory(&gateway));
    let (began, before) = (Instant::now(), processor(&gateway));
    for person in 0..PEOPLE {
        slack.says(&format!("U{person}"), &format!("D{person}"), "again");
    }
    for person in 0..PEOPLE {
        slack.until_said_blocking(&format!("D{person}"), "again");
    }
    let (took, used) = (began.elapsed().as_secs_f64(), processor(&gateway) - before);
    println!("all at once: {took:.2} s, {used:.2} s of processor time; {:.1} MB", memory(&gateway));
    let before = processor(&gateway);
    std::thread::sleep(Duration::from_secs(40));
    println!(
        "40 s later: {:.2} s of processor time; {:.1} MB",
        processor(&gateway) - before,
        memory(&gateway)
    );
}
