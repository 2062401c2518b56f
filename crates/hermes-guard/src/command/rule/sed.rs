//! Detects scripts of sed that run something.

/// Tells whether a script has an `e`, as a command or as the flag of a substitution: both run unknown text.
pub(super) fn runs(script: &str) -> bool {
    script.lines().flat_map(|line| line.split(';')).any(|command| {
        let command = command
            .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ' ' | '$' | ',' | '{' | '!'));
        let command = after_address(command);
        command.starts_with("e ") || flags(command).is_some_and(|flags| flags.contains('e'))
    })
}

/// Returns the command after its address: `/pattern/s…`.
fn after_address(command: &str) -> &str {
    let address = command.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    address.map_or(command, |(_, command)| command)
}

/// Returns the flags of `s/…/…/flags`.
fn flags(command: &str) -> Option<&str> {
    let rest = command.trim_start().strip_prefix('s')?;
    let sign = rest.chars().next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace() && *c != '\\')?;
    let mut escaped = false;
    let mut signs = 0;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == sign => signs += 1,
            _ => {}
        }
        if signs == 3 {
            let flags = rest.get(at + c.len_utf8()..)?.trim();
            let flags = flags.split(['w', '}', ' ']).next().unwrap_or_default();
            return flags.chars().all(|c| c.is_ascii_digit() || "gpiImMe".contains(c)).then_some(flags);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_e_runs_something() {
        for runner in ["s/a/b/e", "s|a|b|gpe", "/x/s/a/b/e", "1e rm x", "/x/e rm x", "p;e ls"] {
            assert!(runs(runner), "{runner}");
        }
        for quiet in
            ["s/a/e/", "s/e/E/g", "/e/d", "s/a/b/", "s|/e|/e|g", "s/a\\/e/b/", "", "s", "s/", "sé", "y/e/f/"]
        {
            assert!(!runs(quiet), "{quiet}");
        }
    }
}
