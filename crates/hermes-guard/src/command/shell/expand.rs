//! Brace expansion: `{a,b}` and `{a..b}` become several words.

/// The most words that one may become; with more it is left unexpanded.
const MOST: usize = 64;

/// Returns the words that an unquoted word with braces expands to; one if it has none.
pub(super) fn braces(text: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    while let Some(next) = open.pop() {
        match split(&next) {
            Some((before, choices, after)) if done.len() + open.len() + choices.len() <= MOST => {
                for choice in choices.into_iter().rev() {
                    open.push(format!("{before}{choice}{after}"));
                }
            }
            _ => done.push(next),
        }
    }
    done
}

/// Returns the first pair of braces with a comma between them.
fn split(text: &str) -> Option<(String, Vec<String>, String)> {
    let chars: Vec<char> = text.chars().collect();
    for start in chars.iter().enumerate().filter(|(_, c)| **c == '{').map(|(at, _)| at).take(8) {
        if start > 0 && chars.get(start - 1) == Some(&'$') {
            continue;
        }
        let mut depth = 0usize;
        let mut choices = vec![String::new()];
        for (at, &c) in chars.iter().enumerate().skip(start + 1) {
            match c {
                '{' => depth += 1,
                // `x{}a,b}`: this brace does not close; at the start of a word it makes the whole word plain.
                '}' if depth == 0 && at == start + 1 && start == 0 => return None,
                '}' if depth == 0 && at == start + 1 => {}
                // `{a}b,c}`: without a comma or two dots before it, a brace does not close either.
                '}' if depth == 0 && matches!(choices.as_slice(), [only] if !only.contains("..")) => {}
                '}' if depth == 0 => {
                    if let [only] = choices.as_slice() {
                        let Some(sequence) = sequence(only) else { break };
                        choices = sequence;
                    }
                    let before = chars.iter().take(start).collect();
                    let after = chars.iter().skip(at + 1).collect();
                    return Some((before, choices, after));
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    choices.push(String::new());
                    continue;
                }
                _ => {}
            }
            if let Some(choice) = choices.last_mut() {
                choice.push(c);
            }
        }
    }
    None
}

/// Returns the members of `from..to` or `from..to..step`: numbers or single letters.
fn sequence(text: &str) -> Option<Vec<String>> {
    let mut parts = text.split("..");
    let (from, to) = (parts.next()?, parts.next()?);
    let step = parts.next().map_or(Some(1), |step| step.parse::<i64>().ok())?.unsigned_abs().max(1);
    let letter = |text: &str| {
        let mut chars = text.chars();
        chars
            .next()
            .filter(|c| c.is_ascii_alphabetic() && chars.next().is_none())
            .map(|c| i64::from(u32::from(c)))
    };
    let numbers = from.parse::<i64>().ok().zip(to.parse::<i64>().ok());
    let (ends, letters) = match numbers {
        Some(ends) => (ends, false),
        None => (letter(from).zip(letter(to))?, true),
    };
    let count = ends.0.abs_diff(ends.1) / step + 1;
    let member = |at: u64| {
        let offset = i64::try_from(at * step).unwrap_or_default();
        let value = if ends.0 <= ends.1 { ends.0 + offset } else { ends.0 - offset };
        let as_letter = u32::try_from(value).ok().and_then(char::from_u32).filter(|_| letters);
        as_letter.map_or_else(|| value.to_string(), String::from)
    };
    (parts.next().is_none() && count <= MOST as u64).then(|| (0..count).map(member).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_words() {
        assert_eq!(braces("plain"), ["plain"]);
        assert_eq!(braces("{rm,-rf,/}"), ["rm", "-rf", "/"]);
        assert_eq!(braces("/{etc,usr}/x"), ["/etc/x", "/usr/x"]);
        assert_eq!(braces("r{m..m}"), ["rm"]);
        assert_eq!(braces("{1..7..3}{b..a}"), ["1b", "1a", "4b", "4a", "7b", "7a"]);
        assert_eq!(braces("{a..}"), ["{a..}"]);
        assert_eq!(braces("{}"), ["{}"]);
        assert_eq!(braces("a{b}c"), ["a{b}c"]);
        assert_eq!(braces("{a}b,c}"), ["a}b", "c"]);
        assert_eq!(braces("{a}{b,c}"), ["{a}b", "{a}c"]);
        assert_eq!(braces("{a,{b,c}}"), ["a", "b", "c"]);
    }
}
