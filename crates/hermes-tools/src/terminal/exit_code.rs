//! Explains exit codes that do not mean a failure.

/// Returns the meaning of an exit code of this command if it is not a plain failure.
pub(super) fn exit_code_meaning(command: &str, code: i32) -> Option<&'static str> {
    let last = command.rsplit(['|', ';', '&']).next()?.trim();
    let mut words = last.split_whitespace().skip_while(|word| word.contains('=') || *word == "sudo");
    let name = words.next()?.rsplit('/').next()?;
    match (name, code) {
        ("grep" | "egrep" | "fgrep" | "rg" | "ag", 1) => Some("no match was found"),
        ("diff" | "cmp", 1) => Some("the files differ"),
        ("test" | "[", 1) => Some("the condition is false"),
        ("curl", 6) => Some("the host name could not be resolved"),
        ("curl", 7) => Some("no connection could be made"),
        ("curl", 22) => Some("the server answered with an error"),
        ("curl", 28) => Some("it timed out"),
        ("find", 1) => Some("some folders could not be read"),
        ("git", 1) if words.next() == Some("diff") => Some("there are differences"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_codes_have_a_meaning() {
        assert_eq!(exit_code_meaning("cat x | grep y", 1), Some("no match was found"));
        assert_eq!(exit_code_meaning("A=1 /usr/bin/curl x", 7), Some("no connection could be made"));
        assert_eq!(
            (exit_code_meaning("grep x y", 2), exit_code_meaning("ls", 1), exit_code_meaning("", 1)),
            (None, None, None)
        );
    }
}
