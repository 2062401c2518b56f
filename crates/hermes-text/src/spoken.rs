//! Texts as they are read aloud.

/// Returns a text as it is read aloud: without code, marks and addresses.
pub fn spoken_words(text: &str) -> String {
    let mut words = String::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            continue;
        }
        let line = line.trim_start().trim_start_matches(['#', '>', '-', '*', '|']).trim_start();
        for word in line.split_whitespace() {
            if !word.contains("://") {
                words.extend(word.chars().filter(|c| !matches!(c, '*' | '_' | '`' | '~' | '|' | '#')));
                words.push(' ');
            } else if let Some((label, _)) = word.split_once("](") {
                words.push_str(label.trim_start_matches('['));
                words.push(' ');
            }
        }
        words.push('\n');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::spoken_words;

    #[test]
    fn marks_code_and_addresses_are_not_read_aloud() {
        let text = "## Result\n\n- **Done**: see [docs](https://a.example/x) or https://b.example\n```sh\nrm -rf /\n```\nBye `now`";
        assert_eq!(
            spoken_words(text).split_whitespace().collect::<Vec<_>>().join(" "),
            "Result Done: see docs or Bye now"
        );
    }
}
