//! The second half of an update: the new program lies beside the old one, which checks it, puts it in place,
//! restarts the gateway with it, and takes the step back if it does not work.
//!
//! Invariant: the old program stays as `hermes.previous`, and takes its place again unless the new one has shown
//! that it works in this home.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_config::Config;
use hermes_exec::start_service;
use hermes_gateway::process::{self, GatewayInstance};
use hermes_task::SystemClock;
use hermes_types::Clock;
use rustix::process::Signal;

use super::{Installation, signature};
use crate::cli::{self, UpdateArguments};
use crate::command::gateway::service::{self, ServiceControl, ServiceScope};
use crate::context::ProgramContext;
use crate::output::Console;

/// The time that a gateway has for its start, beside what its running turns may take.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// The time without any process of the gateway after which it counts as ended.
const GONE_AFTER: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The files of an update, in the folder of the program.
struct ProgramFiles {
    current: PathBuf,
    new: PathBuf,
    signature: PathBuf,
    previous: PathBuf,
    record: PathBuf,
    new_record: PathBuf,
}

impl ProgramFiles {
    fn of(own: &Installation) -> Self {
        let bin = own.folder.join("bin");
        Self {
            current: bin.join("hermes"),
            new: bin.join(".hermes.new"),
            signature: bin.join(".hermes.new.minisig"),
            previous: bin.join("hermes.previous"),
            record: own.folder.join(super::RECORD),
            new_record: own.folder.join(".hermes-install.new"),
        }
    }

    /// Removes what the installer has left for an update that does not take place.
    fn discard(&self) {
        for file in [&self.new, &self.signature, &self.new_record] {
            // It may not exist; the next update replaces it.
            let _ = fs::remove_file(file);
        }
    }

    /// Puts the new program in place, and keeps the old one beside it.
    fn swap(&self) -> Result<()> {
        let kept = self.previous.with_extension("keep");
        let _ = fs::remove_file(&kept);
        fs::hard_link(&self.current, &kept)
            .or_else(|_| fs::copy(&self.current, &kept).map(drop))
            .and_then(|()| fs::rename(&kept, &self.previous))
            .with_context(|| format!("{} could not be kept", self.current.display()))?;
        fs::rename(&self.new, &self.current)
            .with_context(|| format!("{} could not be replaced", self.current.display()))
    }

    /// Puts the previous program back in place.
    fn swap_back(&self) -> Result<()> {
        let back = self.current.with_extension("back");
        fs::copy(&self.previous, &back)
            .and_then(|_| fs::rename(&back, &self.current))
            .with_context(|| format!("{} could not be put back", self.previous.display()))
    }
}

/// Installs the staged program, which the installer has fetched or built.
pub(crate) fn install(
    arguments: &UpdateArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let own = Installation::own()?;
    let files = ProgramFiles::of(&own);
    let control = ServiceControl::new(&context.env, context.home.path())?;
    if let Err(error) = check(&own, &files, arguments, &control) {
        files.discard();
        return Err(error.context("nothing was installed"));
    }
    if fs::read(&files.new)? == fs::read(&files.current)? {
        fs::rename(&files.new_record, &files.record)?;
        files.discard();
        output.line("✓ Up to date.");
        return finish(arguments, &files, context);
    }
    let gateway = process::running_pid(&context.home).and_then(|_| process::instance(&context.home));
    files.swap()?;
    if let Err(reason) = try_out(gateway.as_ref(), context, output) {
        output.error(&format!("the new program does not work: {reason:#}"));
        files.swap_back()?;
        files.discard();
        output.line("The previous program is back in place.");
        if let Some(gateway) = gateway {
            revive(&gateway, &files, context, output)?;
        }
        return Ok(ExitCode::FAILURE);
    }
    fs::rename(&files.new_record, &files.record)?;
    files.discard();
    finish(arguments, &files, context)
}

/// Lets the new program do the remaining steps.
fn finish(arguments: &UpdateArguments, files: &ProgramFiles, context: &ProgramContext) -> Result<ExitCode> {
    let program = files.current.to_str().context("the installation's folder has no readable name")?;
    let home = context.home.path().to_str().context("the home has no readable name")?;
    let mut options = vec!["update", "--installed"];
    if arguments.yes {
        options.push("--yes");
    }
    Err(hermes_exec::exec_program(program, &options, &[("HERMES_HOME", home)]))
        .context("the new program could not be started")
}

/// Checks who made the new program, and whether it runs on this machine and reads this home.
fn check(
    own: &Installation,
    files: &ProgramFiles,
    arguments: &UpdateArguments,
    control: &ServiceControl,
) -> Result<()> {
    if own.recorded("release").is_some() && !arguments.allow_unsigned {
        let key = signature::trusted_key(own.recorded("key")).context(
            "there is no key to check the release with; set HERMES_RELEASE_KEY to the public key of the releases and \
             install again, or pass --allow-unsigned to trust the checksum alone",
        )?;
        signature::verify(&files.new, &files.signature, key)?;
    }
    let said = run(control, files, "--version")?;
    let (old, new) = (version_of(&cli::version()), version_of(&said));
    // The installer passes on the recorded branch.
    let another_branch = arguments.branch.as_deref() != own.recorded("branch");
    if !another_branch && old.zip(new).is_some_and(|(old, new)| new < old) {
        bail!("the release is older than this program ({said}); name it with --branch to go back");
    }
    run(control, files, "status").map(drop)
}

/// Returns the numbers of a version such as `hermes 1.2.3`.
fn version_of(text: &str) -> Option<Vec<u64>> {
    let word = text
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))?;
    word.split(['.', '-', '+']).take(3).map(|part| part.parse().ok()).collect()
}

/// Runs the new program with one argument; it must succeed.
fn run(control: &ServiceControl, files: &ProgramFiles, argument: &str) -> Result<String> {
    let name = files.new.to_str().context("the installation's folder has no readable name")?;
    let ended = control.run(name, &[argument]).context("the new program does not run on this machine")?;
    if ended.code != 0 {
        bail!("`hermes {argument}` of the new program failed with {}: {}", ended.code, ended.text.trim());
    }
    Ok(ended.text)
}

/// Restarts the gateway, if one runs, with the new program, which is in place.
fn try_out(gateway: Option<&GatewayInstance>, context: &ProgramContext, output: &Console) -> Result<()> {
    let Some(before) = gateway else { return Ok(()) };
    let Some(pid) = process::signal_running(&context.home, Signal::USR2) else { return Ok(()) };
    output.line(&format!(
        "The gateway (PID {pid}) restarts with the new program; what it was doing goes on afterwards."
    ));
    wait_for_gateway(before, context)
}

/// Waits until another instance of the gateway runs than the one before.
fn wait_for_gateway(before: &GatewayInstance, context: &ProgramContext) -> Result<()> {
    let config = Config::load(&context.home, &context.env);
    let drain = config.int("agent.restart_drain_timeout").unwrap_or_default();
    let limit = START_TIMEOUT + Duration::from_secs(u64::try_from(drain).unwrap_or_default());
    let clock = SystemClock::new();
    let began = clock.monotonic();
    let mut last_seen = began;
    loop {
        let now = clock.monotonic();
        if process::running_pid(&context.home).is_some() {
            last_seen = now;
        }
        let present = process::instance(&context.home);
        if let Some(present) = present.filter(|present| before.id != present.id) {
            match present.phase.as_str() {
                "running" => return Ok(()),
                "startup_failed" => {
                    bail!("the gateway did not start: {}", present.reason.unwrap_or_default())
                }
                _ => {}
            }
        }
        if now.saturating_sub(last_seen) > GONE_AFTER {
            bail!("the gateway has ended");
        }
        if now.saturating_sub(began) > limit {
            bail!("the gateway was not running after {} s", limit.as_secs());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Starts the gateway again with the previous program, the way it ran before.
fn revive(
    before: &GatewayInstance,
    files: &ProgramFiles,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    process::signal_running(&context.home, Signal::KILL);
    let failed = process::instance(&context.home).unwrap_or_else(|| before.clone());
    if service::is_installed(context, output)? {
        service::restart(ServiceScope::User, context, output)?;
    } else {
        let log = context.home.folder("logs")?.join("gateway-after-update.log");
        start_service(&files.current, before.argv.get(1..).unwrap_or_default(), &log)
            .context("the gateway could not be started again")?;
    }
    wait_for_gateway(&failed, context)
        .context("the gateway does not run with the previous program either")?;
    output.line("The gateway runs again with the previous program.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(version_of("hermes 0.12.3 (abc)"), Some(vec![0, 12, 3]));
        assert!(version_of("hermes 0.9.0") < version_of("hermes 0.10.0"));
        assert_eq!(version_of("two"), None);
    }
}
