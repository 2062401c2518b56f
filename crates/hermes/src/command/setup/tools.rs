//! The toolsets of the terminal, and how more are switched on.

use hermes_tools::PlatformToolsets;

use super::SetupWizard;

/// Shows what is on. Switching is the business of `hermes tools`.
pub(super) fn ask(wizard: &SetupWizard<'_>) {
    if !wizard.asks() {
        return;
    }
    for (set, is_on) in PlatformToolsets::of(&wizard.config, "cli").switches() {
        let mark = if is_on { "✓" } else { "✗" };

        wizard.output.line(&format!("  {mark} {}", set.name));
    }
    wizard.output.line("\n`hermes tools enable NAME` and `hermes tools disable NAME` change this.");
}
