//! The scripted model server and the emulators as a program: `hermes-testkit serve script.yaml`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is the binary; its output is its purpose"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use hermes_testkit::discord::FakeDiscord;
use hermes_testkit::matrix::{self, FakeMatrix};
use hermes_testkit::slack::{self, FakeSlack};
use hermes_testkit::telegram::FakeTelegram;
use hermes_testkit::{LoadTest, ModelScript, ModelServer, RealClock, RecordedRequest, percentile};
use hermes_types::Clock as _;

/// The interval at which the server's memory is measured.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Tools that the tests stand on, for use by hand.
#[derive(Debug, Parser)]
#[command(name = "hermes-testkit", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Play a model: answer requests by a script until stopped with Ctrl-C.
    ///
    /// Speaks OpenAI chat completions and Responses under the printed base URL, and Anthropic Messages under the same
    /// URL without /v1. SCRIPT.md describes the scripts; some are in scripts/.
    Serve {
        /// The script to play; may be left out with --echo.
        #[arg(required_unless_present = "echo")]
        script: Option<PathBuf>,
        /// The port on 127.0.0.1 to listen on; 0 takes a free one.
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Answer with the user's own words when the script has no reply.
        #[arg(long)]
        echo: bool,
        /// Print nothing per request, and keep nothing: for load tests.
        #[arg(long)]
        quiet: bool,
    },
    /// Be many clients of a Hermes API server, and print how it does.
    ///
    /// For many streams at once, let the server ask a slow model: `serve scripts/slow.yaml --quiet`.
    Load {
        /// Where it listens, as 127.0.0.1:8642.
        address: std::net::SocketAddr,
        #[arg(long, default_value = "")]
        key: String,
        /// Clients at once; several runs when several are given.
        #[arg(long, value_delimiter = ',', default_value = "1,8,32,128")]
        clients: Vec<usize>,
        /// Turns of each run.
        #[arg(long, default_value_t = 2000)]
        turns: usize,
        #[arg(long, default_value_t = 1000)]
        conversations: usize,
        #[arg(long)]
        stream: bool,
        /// The server's process, to print its memory.
        #[arg(long)]
        pid: Option<u32>,
    },
    /// Be Discord with a server, a channel and one person; the page at the printed address chats as that person.
    Discord {
        /// The port on 127.0.0.1 to listen on; 0 takes a free one.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Be a Slack workspace with two people, a channel C1 and direct chats D1 and D2; the page chats as one of them.
    Slack {
        /// The port on 127.0.0.1 to listen on; 0 takes a free one.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Be Telegram's Bot API for one bot; the page at the printed address chats with it.
    Telegram {
        /// The port on 127.0.0.1 to listen on; 0 takes a free one.
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// The token of the bot.
        #[arg(long, default_value = "42:test")]
        token: String,
    },
    /// Be a Matrix homeserver with one person, Ann, and a direct chat with the bot. Ann says each line that is typed; what the bot has
    /// said is printed with the next line.
    Matrix {
        /// The port on 127.0.0.1 to listen on; 0 takes a free one.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Read a script and say whether it is well-formed.
    Check {
        /// The scripts to read.
        #[arg(required = true)]
        scripts: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve { script, port, echo, quiet } => serve(script, port, echo, quiet),
        Command::Load { address, key, clients, turns, conversations, stream, pid } => {
            let load = LoadTest { address, key, clients: 0, turns, conversations, stream };
            run_load(&load, &clients, pid)
        }
        Command::Discord { port } => serve_discord(port),
        Command::Slack { port } => serve_slack(port),
        Command::Matrix { port } => serve_matrix(port),
        Command::Telegram { port, token } => serve_telegram(&token, port),
        Command::Check { scripts } => check(&scripts),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve_discord(port: u16) -> Result<(), hermes_testkit::Error> {
    let discord = FakeDiscord::builder().port(port).start()?;
    let guild = discord.guild("Home");
    discord.channel(guild, "general");
    let person = discord.person("you", Some("You"));
    discord.dm(person);
    println!("{} (token {})", discord.base_url(), hermes_testkit::discord::TOKEN);
    loop {
        std::thread::park();
    }
}

/// Chats by the terminal: a line of the input is a message of Ann.
fn serve_matrix(port: u16) -> Result<(), hermes_testkit::Error> {
    let server = FakeMatrix::start_at(port)?;
    let ann = server.person("Ann");
    let room = server.room("", &[&ann]);
    println!("{}", server.base_url());
    println!("MATRIX_ACCESS_TOKEN={} room {room}; type what {ann} says", matrix::TOKEN);
    let mut said = 0;
    for line in std::io::stdin().lines().map_while(Result::ok) {
        if !line.is_empty() {
            server.says(&ann, &room, &line);
        }
        // What the bot said since is printed with each line, also with an empty one.
        let messages = server.said(&room);
        for message in messages.iter().skip(std::mem::replace(&mut said, messages.len())) {
            println!("bot: {}", message.text);
        }
    }
    Ok(())
}

fn serve_telegram(token: &str, port: u16) -> Result<(), hermes_testkit::Error> {
    let telegram = FakeTelegram::start_on(token, port)?;
    println!("{}", telegram.base_url());
    loop {
        std::thread::park();
    }
}

fn run_load(load: &LoadTest, clients: &[usize], pid: Option<u32>) -> Result<(), hermes_testkit::Error> {
    let io = |source| hermes_testkit::Error::Io { doing: "start a runtime".into(), source };
    let runtime = tokio::runtime::Runtime::new().map_err(io)?;
    let now = || pid.and_then(resident).unwrap_or_default();
    println!("clients  turns/s      p50      p99  first p50  failed   before   during    after (memory)");
    for count in clients {
        let load = LoadTest { clients: *count, ..load.clone() };
        let before = now();
        let (done, during) = runtime.block_on(async {
            let mut most = before;
            let mut run = std::pin::pin!(load.run());
            loop {
                tokio::select! {
                    done = &mut run => break (done, most.max(now())),
                    () = RealClock::default().sleep(LOOK_EVERY) => most = most.max(now()),
                }
            }
        });
        let ms = |at: usize| percentile(&done.times, at).as_secs_f64() * 1e3;
        let first = percentile(&done.first_bytes, 50).as_secs_f64() * 1e3;
        println!(
            "{count:>7} {:>8.0} {:>6.1}ms {:>6.1}ms {first:>8.1}ms {:>7} {} {} {}",
            done.per_second(),
            ms(50),
            ms(99),
            done.failed,
            megabytes(before),
            megabytes(during),
            megabytes(now()),
        );
    }
    Ok(())
}

fn megabytes(kb: u64) -> String {
    format!("{:>5}.{}MB", kb / 1024, kb % 1024 * 10 / 1024)
}

/// Returns the memory of a process in kB.
fn resident(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse().ok())
}

fn serve_slack(port: u16) -> Result<(), hermes_testkit::Error> {
    let slack = FakeSlack::start_on(port, Arc::new(RealClock::default()))?;
    for (person, name, direct) in [("U1", "Ann", "D1"), ("U2", "Bob", "D2")] {
        slack.person(person, name);
        slack.direct(direct);
    }
    slack.channel("C1", "general");
    println!("{} is the page to chat from, and platforms.slack.extra.base_url", slack.base_url());
    println!("SLACK_BOT_TOKEN={}\nSLACK_APP_TOKEN={}", slack::BOT_TOKEN, slack::APP_TOKEN);
    loop {
        std::thread::park();
    }
}

fn check(paths: &[PathBuf]) -> Result<(), hermes_testkit::Error> {
    for path in paths {
        ModelScript::load(path)?;
        println!("{}: ok", path.display());
    }
    Ok(())
}

fn serve(path: Option<PathBuf>, port: u16, echo: bool, quiet: bool) -> Result<(), hermes_testkit::Error> {
    let mut script = path.map_or_else(|| Ok(ModelScript::new()), |path| ModelScript::load(&path))?;
    if echo {
        script = script.echo();
    }
    let io = |source| hermes_testkit::Error::Io { doing: "start a runtime".into(), source };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(io)?;
    runtime.block_on(async {
        let mut builder = ModelServer::builder(script).port(port).clock(Arc::new(RealClock::default()));
        builder = if quiet {
            builder.keep_requests(1)
        } else {
            builder.keep_requests(100).on_request(Arc::new(report))
        };
        let server = builder.start().await?;
        println!("{}", server.base_url());
        std::future::pending::<()>().await;
        Ok(())
    })
}

fn report(request: &RecordedRequest) {
    println!("{request}");
}
