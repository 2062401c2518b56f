//! `hermes whatsapp`: installs the bridge and links a phone by a QR code.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_channels::{HelperError, HelperRequest};
use hermes_config::ManagedMode;
use hermes_config::env::dotenv;
use hermes_task::SystemClock;
use hermes_types::Clock;
use qrcodegen::{QrCode, QrCodeEcc};
use serde_json::Value;

use crate::cli::WhatsAppArguments;
use crate::context::ProgramContext;
use crate::output::{Confirmation, Console};
use crate::wiring::whatsapp_bridge::WhatsAppBridge;

/// The light border that cameras need around a code.
const BORDER: i32 = 2;

pub(crate) fn run(
    arguments: &WhatsAppArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let config = context.usable_config(output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let bridge = WhatsAppBridge::new(&context.home, &config, &context.env, &clock);
    let settings = settings(arguments, context, output)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("no runtime")?;
    if !bridge.is_installed() {
        output.line("Installing the bridge with npm; this takes a minute …");
    }
    runtime.block_on(bridge.install()).map_err(explain)?;
    // The switch is set only where the bridge can run.
    let management = ManagedMode::detect(&context.home, &context.env);
    let pairs: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    dotenv::save(&context.home, management, &pairs)?;
    if bridge.is_linked() && !arguments.again {
        match output.confirm("A phone is linked already. Link another one?") {
            Confirmation::Yes => {}
            Confirmation::No | Confirmation::NotInteractive => {
                output.line("✓ WhatsApp is set up. Start the gateway with `hermes gateway run`.");
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    if bridge.is_linked() {
        let kept = bridge.session.with_extension(format!("before-{}", hermes_types::random_hex(6)));
        std::fs::rename(&bridge.session, &kept)
            .with_context(|| format!("{} could not be set aside", bridge.session.display()))?;
        output.line(&format!("The present link is kept in {}.", kept.display()));
    }
    let linked = runtime.block_on(link(&bridge, arguments, output));
    runtime.shutdown_background();
    linked
}

/// Asks for what no flag gives.
fn settings(
    arguments: &WhatsAppArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<Vec<(&'static str, String)>> {
    let present = |name: &str| context.env.get(name).map(str::to_owned).filter(|text| !text.is_empty());
    let ask = |question: &str, now: Option<String>| {
        let shown = now.clone().unwrap_or_else(|| "none".to_owned());
        let said = output.can_ask().then(|| output.ask(&format!("{question} [{shown}]: "))).flatten();
        said.map(|said| said.trim().to_owned()).filter(|said| !said.is_empty()).or(now)
    };
    let now = present("WHATSAPP_MODE").or_else(|| Some("self-chat".to_owned()));
    let mode = arguments.mode.clone().or_else(|| {
        ask("Mode: self-chat (the agent shares your number) or bot (it has a number of its own)", now)
    });
    let mode = mode.unwrap_or_default();
    if !matches!(mode.as_str(), "self-chat" | "bot") {
        bail!("`{mode}` is not self-chat or bot; nothing was changed");
    }
    let allowed = arguments.allow.clone().or_else(|| {
        ask(
            "Numbers that may talk to it: country code and digits, comma separated",
            present("WHATSAPP_ALLOWED_USERS"),
        )
    });
    let mut values = vec![("WHATSAPP_ENABLED", "true".to_owned()), ("WHATSAPP_MODE", mode)];
    if let Some(allowed) = allowed {
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, ',' | ' ' | '*');
        let allowed = allowed.replace('+', "");
        if !allowed.chars().all(is_number) {
            bail!(
                "`{allowed}`: write numbers with country code, without spaces or signs; nothing was changed"
            );
        }
        values.push(("WHATSAPP_ALLOWED_USERS", allowed));
    }
    Ok(values)
}

async fn link(bridge: &WhatsAppBridge, arguments: &WhatsAppArguments, output: &Console) -> Result<ExitCode> {
    let mut flags = vec!["--pair-only".to_owned(), "--stdin".to_owned()];
    if let Some(phone) = &arguments.phone {
        flags.extend(["--pair-phone".to_owned(), phone.replace(['+', ' '], "")]);
    }
    let request =
        HelperRequest { name: "whatsapp", arguments: flags, variables: Vec::new(), first_line: "{}" };
    let mut helper = bridge.start(request).await.map_err(explain)?;
    let mut failure = None;
    while let Some(line) = helper.next_line().await {
        let event: Value = serde_json::from_str(&line).unwrap_or_default();
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("event") {
            "qr" => {
                output.line(
                    "\nScan this with the phone: WhatsApp → Settings → Linked devices → Link a device\n",
                );
                output.text(&draw(text("payload")).context("the code is too long to draw")?);
            }
            "code" => output.line(&format!(
                "Type this code on the phone (Linked devices → Link with phone number instead): {}",
                text("code")
            )),
            "linked" => {
                helper.stop().await;
                output.line("✓ The phone is linked. Start the gateway with `hermes gateway run`.");
                return Ok(ExitCode::SUCCESS);
            }
            "disconnected" => {
                output.notice(&format!(
                    "note: no connection to WhatsApp ({}); the bridge tries again",
                    text("text")
                ));
            }
            "timeout" => {
                failure = Some("no phone was linked in time; run `hermes whatsapp` again".to_owned());
            }
            "refused" | "session_in_use" | "no_library" | "logged_out" => {
                failure = Some(text("text").to_owned());
            }
            "exit" if event.get("code").and_then(Value::as_i64) != Some(0) => {
                failure = failure.or_else(|| Some(text("text").to_owned()));
            }
            _ => {}
        }
    }
    helper.stop().await;
    bail!(
        "{}",
        failure.unwrap_or_else(|| "the bridge ended before a phone was linked; see bridge.log".to_owned())
    )
}

fn explain(error: HelperError) -> anyhow::Error {
    match error {
        HelperError::Missing(why) | HelperError::Failed(why) => anyhow::anyhow!("{why}"),
    }
}

/// Draws a code with two rows of it in each line. Light is drawn and dark is left out, for terminals with a dark ground.
fn draw(payload: &str) -> Option<String> {
    let code = QrCode::encode_text(payload, QrCodeEcc::Low).ok()?;
    let (from, to) = (-BORDER, code.size() + BORDER);
    let is_light = |x: i32, y: i32| y < to && !code.get_module(x, y);
    let mut text = String::new();
    let mut y = from;
    while y < to {
        for x in from..to {
            text.push(match (is_light(x, y), is_light(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        text.push('\n');
        y += 2;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_border_and_its_corners() {
        let drawn = draw("2@abc,def,ghi").unwrap();
        let lines: Vec<&str> = drawn.lines().collect();
        let width = lines[0].chars().count();
        assert!(lines.iter().all(|line| line.chars().count() == width), "{drawn}");
        assert_eq!(lines.len(), width.div_ceil(2));
        assert!(lines[0].chars().all(|c| c == '█'), "{drawn}");
        // The corner begins with seven dark squares, below them a dark and a light one.
        assert!(lines[1].starts_with("██ ▄▄▄▄▄ █"), "{drawn}");
        assert_eq!(draw(&"x".repeat(5000)), None);
    }
}
