//! `hermes doctor`: checks an installation, says what is wrong with it and which command mends it.
//!
//! Invariant: without `--fix` nothing that exists is changed, and with it nothing is removed that holds data.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use hermes_browser::{BrowserPlace, BrowserPool};
use hermes_channels::PLATFORMS;
use hermes_config::auth::AuthFile;
use hermes_config::env::dotenv;
use hermes_config::settings::{BackendFacts, TerminalSettings};
use hermes_config::{Config, ManagedMode, save, user_home};
use hermes_exec::SandboxState;
use hermes_gateway::process;
use hermes_knowledge::People;
use hermes_model::discovery::ListFreshness;
use hermes_model::provider::{ProviderChoice, ProviderInputs};
use hermes_schedule::{JobFilter, JobStore, Zone};
use hermes_store::{IndexHealth, Store};
use hermes_task::SystemClock;
use hermes_tools::BUILT_IN_TOOLS;
use hermes_types::Clock;
use serde_json::{Value, json};

use crate::cli::DoctorArguments;
use crate::command::slash::describe_browser;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring;
use crate::wiring::channels::options;
use crate::wiring::memory_services::{MemoryServices, configured_service};
use crate::wiring::model_lists::{list_models, target_of};
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::web::browser_options;

/// Programs that tools use when they are there.
const PROGRAMS: [(&str, &str); 4] = [
    ("git", "checkpoints, worktrees and @diff need it"),
    ("bash", "the terminal tool uses it"),
    ("python3", "execute_code and Python hooks need it"),
    ("ffmpeg", "voice messages in other formats need it"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckResult {
    Good,
    /// Works, but not as well as it could.
    Warning,
    Bad,
    /// Says something without judging it.
    Info,
}

impl CheckResult {
    const fn mark(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Warning => "⚠",
            Self::Bad => "✗",
            Self::Info => "→",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Bad => "failure",
            Self::Info => "info",
        }
    }
}

/// What `--fix` does about a finding.
#[derive(Debug, Clone)]
enum Repair {
    CreateFolder(PathBuf),
    CreateFile(PathBuf),
    WriteDefaultConfig,
    MakePrivate(PathBuf, u32),
    RebuildIndex,
    RemoveStalePid(PathBuf),
}

struct Check {
    section: &'static str,
    result: CheckResult,
    text: String,
    /// What mends it: a command, or a sentence.
    advice: String,
    repair: Option<Repair>,
}

/// The checks so far.
struct Doctor<'a> {
    context: &'a ProgramContext,
    config: Config,
    section: &'static str,
    checks: Vec<Check>,
}

pub(crate) fn run(arguments: &DoctorArguments, context: &ProgramContext, output: &Console) -> ExitCode {
    let doctor = examine(arguments.offline, context);
    let mut fixed = Vec::new();
    if arguments.fix {
        for check in doctor.checks.iter().filter(|check| check.repair.is_some()) {
            fixed.push(match mend(check, context) {
                Ok(text) => text,
                Err(error) => format!("could not be mended: {}: {error:#}", check.text),
            });
        }
    }
    if arguments.json {
        output.line(&as_json(&doctor.checks, &fixed));
    } else {
        print(&doctor.checks, &fixed, arguments.fix, output);
    }
    ExitCode::SUCCESS
}

/// Runs all checks.
fn examine(offline: bool, context: &ProgramContext) -> Doctor<'_> {
    let config = Config::load(&context.home, &context.env);
    context.register_secrets(&config);
    let mut doctor = Doctor { context, config, section: "", checks: Vec::new() };
    doctor.runtime();
    doctor.configuration();
    doctor.home();
    doctor.database();
    doctor.model(offline);
    doctor.sign_ins();
    doctor.terminal();
    doctor.programs();
    doctor.gateway();
    doctor.jobs();
    doctor.memory();
    doctor.tools();
    doctor
}

/// Returns the checks that ask no server, as text.
pub(crate) fn report(context: &ProgramContext) -> String {
    lines(&examine(true, context).checks, &[], false).join("\n")
}

fn print(checks: &[Check], fixed: &[String], fixes: bool, output: &Console) {
    for line in lines(checks, fixed, fixes) {
        output.line(&line);
    }
}

fn lines(checks: &[Check], fixed: &[String], fixes: bool) -> Vec<String> {
    let mut lines = vec!["⚕ Hermes Doctor".to_owned()];
    let mut section = "";
    for check in checks {
        if check.section != section {
            section = check.section;
            lines.push(format!("\n{section}"));
        }
        lines.push(format!("  {} {}", check.result.mark(), check.text));
    }
    let issues: Vec<&Check> = checks
        .iter()
        .filter(|check| matches!(check.result, CheckResult::Bad | CheckResult::Warning))
        .filter(|check| !check.advice.is_empty())
        .collect();
    lines.push(String::new());
    if issues.is_empty() {
        lines.push("All checks passed! 🎉".to_owned());
        return lines;
    }
    lines.push(format!("Found {} issue(s) to address:", issues.len()));
    for (at, check) in issues.iter().enumerate() {
        lines.push(format!("  {}. {}: {}", at + 1, check.text, check.advice));
    }
    if fixes {
        lines.push(format!("\nFixed {} issue(s).", fixed.len()));
        lines.extend(fixed.iter().map(|text| format!("  ✓ {text}")));
    } else if checks.iter().any(|check| check.repair.is_some()) {
        lines.push("\n`hermes doctor --fix` mends what can be mended without losing anything.".to_owned());
    }
    lines
}

fn as_json(checks: &[Check], fixed: &[String]) -> String {
    let checks: Vec<Value> = checks
        .iter()
        .map(|check| {
            json!({
                "section": check.section,
                "result": check.result.name(),
                "text": check.text,
                "advice": check.advice,
                "fixable": check.repair.is_some(),
            })
        })
        .collect();
    json!({ "checks": checks, "fixed": fixed }).to_string()
}

impl Doctor<'_> {
    fn good(&mut self, text: impl Into<String>) {
        self.add(CheckResult::Good, text.into(), "", None);
    }

    fn info(&mut self, text: impl Into<String>) {
        self.add(CheckResult::Info, text.into(), "", None);
    }

    fn warn(&mut self, text: impl Into<String>, advice: &str) {
        self.add(CheckResult::Warning, text.into(), advice, None);
    }

    fn bad(&mut self, text: impl Into<String>, advice: &str) {
        self.add(CheckResult::Bad, text.into(), advice, None);
    }

    fn add(&mut self, result: CheckResult, text: String, advice: &str, repair: Option<Repair>) {
        self.checks.push(Check { section: self.section, result, text, advice: advice.to_owned(), repair });
    }

    fn runtime(&mut self) {
        self.section = "Runtime";
        self.info(format!(
            "{} on {} {}",
            crate::cli::version(),
            std::env::consts::OS,
            std::env::consts::ARCH
        ));
        if let Ok(program) = std::env::current_exe() {
            self.info(format!("program: {}", program.display()));
        }
    }

    fn configuration(&mut self) {
        self.section = "Configuration Files";
        let home = &self.context.home;
        let (file, keys) = (home.config(), home.dotenv());
        if file.exists() {
            if let Err(error) = self.config.require_usable(&self.context.env) {
                self.bad(format!("config.yaml cannot be used: {error}"), "`hermes config edit` opens it");
            } else {
                self.good("config.yaml exists and can be read");
            }
        } else {
            let advice = "`hermes setup`, or --fix writes the defaults";
            self.add(
                CheckResult::Warning,
                "config.yaml is missing".into(),
                advice,
                Some(Repair::WriteDefaultConfig),
            );
        }
        let warnings: Vec<String> = self.config.warnings().iter().map(ToString::to_string).collect();
        for warning in warnings {
            self.warn(warning, "`hermes config edit` opens the file");
        }
        let findings: Vec<String> = self.config.findings().iter().map(ToString::to_string).collect();
        for finding in findings {
            self.warn(finding, "`hermes config check` shows all, `hermes config set` changes one");
        }
        match fs::read(&keys) {
            Ok(bytes) => {
                let (text, _) = dotenv::decode(&bytes);
                let ignored = dotenv::ignored_lines(&text);
                if ignored.is_empty() {
                    self.good(".env exists");
                } else {
                    let lines: Vec<String> = ignored.iter().map(ToString::to_string).collect();
                    self.warn(
                        format!(".env has lines that are no NAME=VALUE: {}", lines.join(", ")),
                        "correct them; they are ignored",
                    );
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let advice = "`hermes config set OPENROUTER_API_KEY …`, or --fix creates an empty one";
                self.add(
                    CheckResult::Warning,
                    ".env is missing".into(),
                    advice,
                    Some(Repair::CreateFile(keys)),
                );
            }
            Err(error) => self.bad(format!(".env cannot be read: {error}"), "check its owner and mode"),
        }
    }

    fn home(&mut self) {
        self.section = "Directory Structure";
        let home = &self.context.home;
        if !home.path().is_dir() {
            let text = format!("the home {} is missing", home.path().display());
            return self.add(
                CheckResult::Bad,
                text,
                "`hermes setup`, or --fix creates it",
                Some(Repair::CreateFolder(home.path().to_owned())),
            );
        }
        self.good(format!("home: {}", home.path().display()));
        for name in ["cron", "sessions", "logs", "skills", "memories"] {
            let path = home.join(name);
            if path.is_dir() {
                self.private(&path, name, 0o700);
            } else if path.exists() {
                self.bad(format!("{name} is no folder"), "move the file away");
            } else {
                let advice = "it is created when it is needed, or by --fix";
                self.add(
                    CheckResult::Warning,
                    format!("the folder {name} is missing"),
                    advice,
                    Some(Repair::CreateFolder(path)),
                );
            }
        }
        for (path, name) in
            [(home.dotenv(), ".env"), (home.auth(), "auth.json"), (home.config(), "config.yaml")]
        {
            if path.is_file() {
                self.private(&path, name, 0o600);
            }
        }
        for (path, name, limit) in [
            (home.memory_file(), "MEMORY.md", self.config.count("memory.memory_char_limit")),
            (home.user_file(), "USER.md", self.config.count("memory.user_char_limit")),
        ] {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let size = text.chars().count();
            if limit > 0 && size > limit {
                self.warn(
                    format!("{name} has {size} characters, more than its limit of {limit}"),
                    "ask the agent to shorten it, or edit the file",
                );
            } else {
                self.good(format!("{name}: {size} of {limit} characters"));
            }
        }
    }

    /// Checks that others cannot read a file or a folder.
    fn private(&mut self, path: &Path, name: &str, mode: u32) {
        let Ok(data) = fs::metadata(path) else { return };
        let found = data.permissions().mode() & 0o777;
        if found.trailing_zeros() >= 6 {
            return self.good(format!("{name} is private"));
        }
        self.add(
            CheckResult::Warning,
            format!("others may read {name} (mode {found:o})"),
            &format!("chmod {mode:o} {}, or --fix does it", path.display()),
            Some(Repair::MakePrivate(path.to_owned(), mode)),
        );
    }

    fn database(&mut self) {
        self.section = "Database";
        let path = self.context.database();
        if !path.exists() {
            return self.info("state.db is created with the first conversation");
        }
        let store = match Store::open_read_only(&path) {
            Ok(store) => store,
            Err(error) => return self.bad(format!("state.db: {error}"), "`hermes db repair`"),
        };
        match store.check().wait() {
            Ok(found) if found.problems.is_empty() && found.dangling_rows == 0 => {
                let count = store.stats().wait().map(|stats| stats.sessions).unwrap_or_default();
                self.good(format!("state.db is sound, {count} sessions"));
                if matches!(found.index, IndexHealth::Damaged(_) | IndexHealth::Missing) {
                    self.add(
                        CheckResult::Warning,
                        "the search index is damaged".into(),
                        "`hermes db check` rebuilds it, --fix too",
                        Some(Repair::RebuildIndex),
                    );
                }
            }
            Ok(found) => {
                let problem =
                    found.problems.first().cloned().unwrap_or_else(|| "rows without their session".into());
                self.bad(
                    format!("state.db is damaged: {problem}"),
                    "stop every Hermes, then `hermes db repair`",
                );
            }
            Err(error) => self.bad(format!("state.db: {error}"), "`hermes db repair`"),
        }
        // The store is closed with its last handle.
        drop(store);
    }

    fn model(&mut self, offline: bool) {
        self.section = "Model";
        let inputs = ProviderInputs::read(&self.context.home, self.config.clone(), self.context.env.clone());
        let target = match target_of(&inputs, &ProviderChoice::default()) {
            Ok(Some(target)) => target,
            Ok(None) => {
                return self.warn(
                    "no model is configured; the built-in offline model answers",
                    "`hermes setup model` connects one",
                );
            }
            Err(error) => return self.bad(error.to_string(), "`hermes setup model`"),
        };
        self.good(format!("{} at {} ({})", target.model, target.provider(), target.base_url()));
        if offline {
            return;
        }
        let asked = list_models(&target, self.context, ListFreshness::Current).map(|models| models.len());
        match asked {
            Ok(count) => self.good(format!("{} answers and lists {count} model(s)", target.provider())),
            Err(error) => {
                let text = format!("{error:#}");
                let advice = if text.contains("401") || text.contains("403") {
                    "the key is not accepted: `hermes setup model`"
                } else {
                    "check the network and the address; some endpoints list no models"
                };
                self.warn(format!("{}: {text}", target.provider()), advice);
            }
        }
    }

    fn sign_ins(&mut self) {
        self.section = "Sign-ins";
        let state = AuthFile::new(&self.context.home).read();
        let names: Vec<String> = state.providers().into_iter().map(str::to_owned).collect();
        if names.is_empty() {
            self.info("none; `hermes login` signs in where a provider needs it");
        }
        for name in names {
            self.good(format!("{name}: signed in"));
        }
        let text = fs::read_to_string(self.context.home.auth()).unwrap_or_default();
        if !text.trim().is_empty() && serde_json::from_str::<Value>(&text).is_err() {
            self.bad(
                "auth.json cannot be read",
                "sign in again with `hermes login`; a copy of the file is kept",
            );
        }
    }

    fn terminal(&mut self) {
        self.section = "Terminal";
        let settings = TerminalSettings::resolve(&self.config, &self.context.env);
        let backend = settings.backend.clone();
        if !settings.is_local() {
            let programs = BackendFacts::find(&backend).map_or(&[][..], |facts| facts.programs);
            let is_ready = programs.is_empty()
                || programs.iter().any(|program| find_program(program, self.context).is_some());
            return if is_ready {
                self.good(format!("commands run by {backend}"));
            } else {
                let program = programs.join(" or ");
                self.bad(format!("commands run by {backend}, but {program} is not installed"), "install it");
            };
        }
        let Ok(user_home) = user_home(&self.context.env) else {
            return self.bad("HOME is not set", "set it");
        };
        let (state, words) = wiring::sandbox::sandbox(&settings, &user_home, self.context).state();
        if state == SandboxState::Full {
            self.good(format!("sandbox: {words}"));
        } else {
            self.warn(format!("sandbox: {words}"), "docs/security.md says what this means");
        }
    }

    fn programs(&mut self) {
        self.section = "External Tools";
        for (name, why) in PROGRAMS {
            match find_program(name, self.context) {
                Some(path) => self.good(format!("{name}: {}", path.display())),
                None => self.warn(format!("{name} is not installed"), why),
            }
        }
    }

    fn gateway(&mut self) {
        self.section = "Gateway";
        let home = &self.context.home;
        let pid_file = home.gateway_pid();
        if let Some(pid) = process::running_pid(home) {
            self.good(format!("running (PID {pid})"));
        } else if pid_file.exists() {
            self.add(
                CheckResult::Warning,
                "not running, though gateway.pid exists".into(),
                "--fix removes the file; `hermes gateway start` starts the gateway",
                Some(Repair::RemoveStalePid(pid_file)),
            );
        } else {
            self.info("not running");
        }
        let configured: Vec<&str> = PLATFORMS
            .iter()
            .filter(|platform| platform.is_configured(&options(platform, &self.config, &self.context.env)))
            .map(hermes_channels::Platform::label)
            .collect();
        if configured.is_empty() {
            self.info("no chat platform is configured; `hermes gateway setup`");
        } else {
            self.good(format!("platforms: {}", configured.join(", ")));
        }
    }

    fn memory(&mut self) {
        self.section = "Memory";
        for entry in People::unusable(self.config.get("memory.people").as_ref()) {
            self.warn(
                format!("memory.people: {entry} is no account, and is left out"),
                "write accounts as platform:id, such as telegram:42",
            );
        }
        let Some(name) = configured_service(&self.config) else {
            return self.info("what was said earlier is recalled from the transcripts");
        };
        let services = MemoryServices::new(Arc::new(SystemClock::new()));
        let from = ProgramConfig { context: self.context, config: &self.config };
        match services.engine(&name, from) {
            Ok(engine) => self.good(format!("{} is the memory service", engine.label())),
            Err(reason) => self.bad(reason, "`hermes memory setup`; the transcripts are used meanwhile"),
        }
    }

    fn jobs(&mut self) {
        self.section = "Scheduled Jobs";
        let zone = Zone::configured(&self.config, &self.context.env);
        let path = self.context.home.cron_jobs();
        let text = fs::read_to_string(&path).unwrap_or_default();
        if !text.trim().is_empty() && serde_json::from_str::<Value>(&text).is_err() {
            return self.bad("cron/jobs.json cannot be read", "restore it from a backup, or move it away");
        }
        let jobs = JobStore::new(self.context.home.clone(), zone);
        let active = jobs.list(JobFilter::Enabled).len();
        if active > 0 && process::running_pid(&self.context.home).is_none() {
            return self.warn(
                format!("{active} active job(s), but the gateway that runs them does not run"),
                "`hermes gateway install`, or `hermes gateway run`",
            );
        }
        self.good(format!("{active} active job(s)"));
    }

    fn tools(&mut self) {
        self.section = "Tool Availability";
        let mut toolsets: Vec<&str> = BUILT_IN_TOOLS.iter().map(|tool| tool.toolset).collect();
        toolsets.sort_unstable();
        toolsets.dedup();
        self.good(format!("{} tools in {}", BUILT_IN_TOOLS.len(), toolsets.join(", ")));
        self.browser();
    }

    fn browser(&mut self) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let from = ProgramConfig { context: self.context, config: &self.config };
        let options = browser_options(&clock, from);
        let pool = BrowserPool::new(clock);
        let found = describe_browser(&pool, &options);
        if !pool.is_usable(&options) {
            return self.warn(format!("browser: {found}"), "the browser tools need one");
        }
        self.good(format!("browser: {found}"));
        if matches!(options.place, BrowserPlace::Local) && hermes_browser::is_root() {
            self.warn(
                "browser: Hermes runs as root, so the browser runs without its own sandbox".to_owned(),
                "run Hermes as another user",
            );
        }
    }
}

/// Finds a program in the path.
fn find_program(name: &str, context: &ProgramContext) -> Option<PathBuf> {
    let path = context.env.get("PATH")?;
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|file| {
        fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

/// Mends a finding, and says what was done.
fn mend(check: &Check, context: &ProgramContext) -> Result<String> {
    let Some(repair) = &check.repair else { return Ok(String::new()) };
    Ok(match repair {
        Repair::CreateFolder(path) => {
            context.home.ensure()?;
            let name = path.strip_prefix(context.home.path()).unwrap_or(path);
            context.home.folder(name)?;
            format!("created {}", path.display())
        }
        Repair::CreateFile(path) => {
            context.home.ensure()?;
            fs::OpenOptions::new().create_new(true).write(true).open(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            format!("created {}", path.display())
        }
        Repair::WriteDefaultConfig => {
            context.home.ensure()?;
            save::full_save(&context.home, ManagedMode::detect(&context.home, &context.env), &[])?;
            format!("wrote {}", context.home.config().display())
        }
        Repair::MakePrivate(path, mode) => {
            fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
            format!("made {} private", path.display())
        }
        Repair::RebuildIndex => {
            let store = Store::open(&context.database())?;
            store.rebuild_index();
            store.close().wait()?;
            "rebuilt the search index".to_owned()
        }
        Repair::RemoveStalePid(path) => {
            fs::remove_file(path)?;
            format!("removed {}", path.display())
        }
    })
}
