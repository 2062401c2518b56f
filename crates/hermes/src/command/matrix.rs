//! `hermes matrix verify`: compares the emoji of a verification that another Matrix device has begun.
//!
//! The gateway has the keys. It writes down what is to be compared; the answer is written down for it here.

use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_config::write;
use hermes_gateway::process;
use serde_json::{Value, json};

use crate::cli::MatrixCommand;
use crate::context::ProgramContext;
use crate::output::{Confirmation, Console};

const SHOWN: &str = "matrix_verification.json";
const ANSWER: &str = "matrix_verification_answer.json";

pub(crate) fn run(command: MatrixCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let MatrixCommand::Verify { yes, no } = command;
    let text = std::fs::read_to_string(context.home.join(SHOWN)).unwrap_or_default();
    let shown: Value = serde_json::from_str(&text).unwrap_or_default();
    let field = |key: &str| shown.get(key).and_then(Value::as_str).unwrap_or_default();
    if field("id").is_empty() || process::running_pid(&context.home).is_none() {
        bail!(
            "no Matrix device waits for a verification. Start the gateway, begin the verification on the other device, and run \
             this again"
        );
    }
    output.line(&format!("{}, device {}, shows:\n", field("user"), field("device")));
    for emoji in shown.get("emoji").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| emoji.get(key).and_then(Value::as_str).unwrap_or_default();
        output.line(&format!("  {}  {}", text("symbol"), text("name")));
    }
    let numbers = shown.get("numbers").and_then(Value::as_array).into_iter().flatten();
    let numbers: Vec<String> = numbers.map(Value::to_string).collect();
    output.line(&format!("\nor the numbers {}.", numbers.join(" ")));
    let matches = match (yes, no) {
        (true, _) => true,
        (_, true) => false,
        _ if !output.can_ask() => {
            output.line("`hermes matrix verify --yes` confirms that the other device shows the same, `--no` says that it does not.");
            return Ok(ExitCode::SUCCESS);
        }
        _ => output.confirm("Does the other device show the same, in this order?") == Confirmation::Yes,
    };
    let answer = json!({"id": field("id"), "matches": matches}).to_string();
    write::replace(&context.home.join(ANSWER), answer.as_bytes())?;
    output.line(if matches {
        "Confirmed. The device is verified once the other side has confirmed, too."
    } else {
        "The verification is ended. Somebody may be reading along; begin it again."
    });
    Ok(ExitCode::SUCCESS)
}
