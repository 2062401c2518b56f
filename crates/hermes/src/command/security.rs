//! `hermes security audit`: what in this installation others could use. It reads, and asks nobody.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use hermes_channels::PLATFORMS;
use hermes_config::secrets::is_secret_name;
use hermes_config::settings::{SecuritySettings, TerminalSettings};
use hermes_config::yaml::YamlValue;
use hermes_config::{Config, user_home};
use hermes_exec::SandboxState;
use hermes_guard::SkillVerdict;
use hermes_knowledge::scan_folder;
use hermes_serve::{ServerSettings, WebhookSettings};
use serde_json::json;

use crate::cli::{AuditLevel, SecurityCommand};
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::sandbox;

/// The files that only their owner may read.
const PRIVATE: [&str; 4] = [".env", "auth.json", "config.yaml", "state.db"];
/// The programs that fetch and start packages.
const FETCHERS: [&str; 5] = ["npx", "bunx", "uvx", "pipx", "pnpx"];

/// What was found, and what mends it.
struct AuditFinding {
    level: AuditLevel,
    text: String,
    advice: &'static str,
}

pub(crate) fn run(command: SecurityCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let SecurityCommand::Audit { json: as_json, fail_on, skip_mcp, skip_skills } = command;
    let config = Config::load(&context.home, &context.env);
    context.register_secrets(&config);
    let mut findings = Vec::new();
    let mut add = |level, text: String, advice| findings.push(AuditFinding { level, text, advice });
    files(context, &mut add);
    approvals(&config, context, &mut add);
    platforms(&config, context, &mut add);
    servers(&config, context, &mut add);
    secrets_in_config(&config, &mut add);
    if !skip_mcp {
        mcp_servers(&config, &mut add);
    }
    if !skip_skills {
        skills(context, &mut add);
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    if as_json {
        let rows = findings.iter().map(|finding| {
            json!({"level": name(finding.level), "finding": finding.text, "advice": finding.advice})
        });
        let report = json!({"findings": rows.collect::<Vec<_>>()});
        output.line(&serde_json::to_string_pretty(&report)?);
    } else {
        print(&findings, output);
    }
    let fails = findings.iter().any(|finding| finding.level >= fail_on);
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(findings: &[AuditFinding], output: &Console) {
    if findings.is_empty() {
        output.line("✓ Nothing found.");
    }
    for AuditFinding { level, text, advice } in findings {
        output.line(&format!("{:<9} {text}", name(*level)));
        output.line(&format!("          {advice}"));
    }
}

fn name(level: AuditLevel) -> &'static str {
    match level {
        AuditLevel::Low => "low",
        AuditLevel::Moderate => "moderate",
        AuditLevel::High => "high",
        AuditLevel::Critical => "critical",
    }
}

fn files(context: &ProgramContext, add: &mut impl FnMut(AuditLevel, String, &'static str)) {
    let is_open = |path: &Path| path.metadata().is_ok_and(|data| data.permissions().mode() & 0o077 != 0);
    if is_open(context.home.path()) {
        let text = format!("others may enter {}", context.home.path().display());
        add(AuditLevel::High, text, "`hermes doctor --fix` makes it private");
    }
    for name in PRIVATE {
        if is_open(&context.home.join(name)) {
            add(
                AuditLevel::Critical,
                format!("others may read {name}"),
                "`hermes doctor --fix` makes it private",
            );
        }
    }
}

fn approvals(
    config: &Config,
    context: &ProgramContext,
    add: &mut impl FnMut(AuditLevel, String, &'static str),
) {
    let env = &context.env;
    if config.text("approvals.mode") == "off" || env.bool("HERMES_YOLO_MODE").unwrap_or(false) {
        let text = "dangerous commands run without approval".to_owned();
        add(AuditLevel::High, text, "set `approvals.mode` to manual or smart, and remove HERMES_YOLO_MODE");
    }
    if config.text("approvals.cron_mode") == "approve" {
        let text = "dangerous commands of scheduled jobs run without approval".to_owned();
        add(AuditLevel::Moderate, text, "set `approvals.cron_mode` to deny");
    }
    let terminal = TerminalSettings::resolve(config, env);
    if terminal.is_local()
        && let Ok(user_home) = user_home(env)
    {
        let (state, words) = sandbox::sandbox(&terminal, &user_home, context).state();
        if state != SandboxState::Full {
            let text = format!("the sandbox does not hold commands back fully: {words}");
            add(
                AuditLevel::High,
                text,
                "set `terminal.sandbox` to auto, or use a container: `terminal.backend`",
            );
        }
    }
    if !SecuritySettings::resolve(config, env).redact_secrets {
        let text = "secrets in the output of tools reach the model and the logs".to_owned();
        add(AuditLevel::Moderate, text, "set `security.redact_secrets` to true");
    }
    let allowed = config.list("command_allowlist").len();
    if allowed > 0 {
        let text = format!("{allowed} dangerous commands are approved for good");
        add(AuditLevel::Low, text, "`hermes config get command_allowlist` lists them");
    }
}

fn platforms(
    config: &Config,
    context: &ProgramContext,
    add: &mut impl FnMut(AuditLevel, String, &'static str),
) {
    let is_on = |name: &str| context.env.bool(name).unwrap_or(false);
    if is_on("GATEWAY_ALLOW_ALL_USERS") {
        let text = "everybody may talk to the agent on every platform (GATEWAY_ALLOW_ALL_USERS)".to_owned();
        add(AuditLevel::High, text, "remove it, and approve users: `hermes pairing`");
    }
    for platform in PLATFORMS {
        let variable = format!("{}_ALLOW_ALL_USERS", platform.name.to_uppercase());
        if is_on(&variable) {
            let text = format!("everybody may talk to the agent on {} ({variable})", platform.label());
            add(AuditLevel::High, text, "remove it, and approve users: `hermes pairing`");
        }
    }
    for (name, hook) in config.map("hooks").iter() {
        if !hook.is_null() {
            let text = format!("shell hooks run at {name}");
            add(AuditLevel::Low, text, "`hermes config get hooks` shows them");
        }
    }
}

fn servers(
    config: &Config,
    context: &ProgramContext,
    add: &mut impl FnMut(AuditLevel, String, &'static str),
) {
    const SHORT: usize = 16;
    if ServerSettings::resolve(config, &context.env).is_some()
        && context.env.get("API_SERVER_KEY").is_some_and(|key| key.len() < SHORT)
    {
        let text = "the key of the API server is short".to_owned();
        add(AuditLevel::High, text, "`hermes gateway setup --api-server` makes a random one");
    }
    let Some(webhooks) = WebhookSettings::resolve(config, &context.env) else { return };
    let open =
        webhooks.routes.iter().filter(|(_, route)| route.secret.as_deref() == Some("INSECURE_NO_AUTH"));
    for (name, _) in open {
        let text = format!("the webhook route {name} accepts unsigned events");
        add(AuditLevel::High, text, "give it a secret");
    }
}

fn secrets_in_config(config: &Config, add: &mut impl FnMut(AuditLevel, String, &'static str)) {
    let mut open = vec![(String::new(), YamlValue::Map(config.raw().clone()))];
    while let Some((path, value)) = open.pop() {
        let Some(map) = value.as_map() else { continue };
        for (name, value) in map.iter() {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let is_key = is_secret_name(name)
                && value.as_str().is_some_and(|text| text.len() >= 8 && !text.contains("${"));
            if is_key {
                let text = format!("{path} holds a secret in config.yaml");
                add(AuditLevel::Moderate, text, "put it into .env and write ${NAME} in its place");
            }
            open.push((path, value.clone()));
        }
    }
}

fn mcp_servers(config: &Config, add: &mut impl FnMut(AuditLevel, String, &'static str)) {
    for (name, server) in config.map("mcp_servers").iter() {
        let text = |key: &str| server.get(key).and_then(YamlValue::as_str).unwrap_or_default().to_owned();
        let url = text("url");
        let is_local =
            ["http://127.0.0.1", "http://localhost", "http://[::1]"].iter().any(|host| url.starts_with(host));
        if url.starts_with("http://") && !is_local {
            let text = format!("the MCP server {name} is reached without encryption");
            add(AuditLevel::High, text, "use an address with https://");
        }
        let command = text("command");
        let program = Path::new(&command).file_name().map(|name| name.to_string_lossy().into_owned());
        let arguments = server.get("args").and_then(YamlValue::as_seq).unwrap_or_default();
        let package = arguments.iter().filter_map(YamlValue::as_str).find(|word| !word.starts_with('-'));
        if let Some(package) = package
            && program.is_some_and(|program| FETCHERS.contains(&program.as_str()))
            && !is_pinned(package)
        {
            let text = format!("the MCP server {name} starts whatever version of {package} is newest");
            add(AuditLevel::Moderate, text, "name a version, as in package@1.2.3 or package==1.2.3");
        }
    }
}

/// Tells whether a package is named with its version. The scope of a package begins with `@`, too.
fn is_pinned(package: &str) -> bool {
    let version = package.split_once("==").map(|(_, version)| version);
    let version = version
        .or_else(|| package.get(1..).and_then(|rest| rest.rsplit_once('@')).map(|(_, version)| version));
    version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

fn skills(context: &ProgramContext, add: &mut impl FnMut(AuditLevel, String, &'static str)) {
    let mut open = vec![context.home.join("skills")];
    while let Some(folder) = open.pop() {
        if folder.join("SKILL.md").is_file() {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Ok(scan) = scan_folder(&folder)
                && scan.verdict == SkillVerdict::Dangerous
                && let Some(worst) = scan.findings.first()
            {
                let text =
                    format!("the skill {name}: {} ({}, line {})", worst.description, worst.file, worst.line);
                add(AuditLevel::High, text, "read it, and remove it if you do not trust it");
            }
            continue;
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        open.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_pins_a_package() {
        for (package, pinned) in [
            ("server", false),
            ("server@1.2.3", true),
            ("@scope/server", false),
            ("@scope/server@0.5.0", true),
            ("server@latest", false),
            ("mcp-server-time==2.1", true),
        ] {
            assert_eq!(is_pinned(package), pinned, "{package}");
        }
    }
}
