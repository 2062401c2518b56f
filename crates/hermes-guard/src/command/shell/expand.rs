//! Braces: `{a,b}` becomes two words.

/// How many words one may become; more are left as they stand.
const MOST: usize = 64;

/// The words that an unquoted word with braces stands for; one if it has none.
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

/// The first pair of braces with a comma between them.
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
                '}' if depth == 0 => {
                    if choices.len() < 2 {
                        break;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_words() {
        assert_eq!(braces("plain"), ["plain"]);
        assert_eq!(braces("{rm,-rf,/}"), ["rm", "-rf", "/"]);
        assert_eq!(braces("/{etc,usr}/x"), ["/etc/x", "/usr/x"]);
        assert_eq!(braces("{}"), ["{}"]);
        assert_eq!(braces("a{b}c"), ["a{b}c"]);
        assert_eq!(braces("{a,{b,c}}"), ["a", "b", "c"]);
    }
}
