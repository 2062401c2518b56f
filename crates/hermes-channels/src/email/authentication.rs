//! Who sent a mail, by the word of the server that received it (RFC 8601). Pure.
//!
//! Anybody can write anything into a mail, these results too. Only the first field of a server that the user named counts:
//! servers put their own on top and remove those that came in under their name. Whatever is unclear is a refusal.

use super::address::domain_of;

/// One result: `dkim=pass header.d=example.org`.
#[derive(Debug, Default)]
struct MethodResult {
    method: String,
    result: String,
    properties: Vec<(String, String)>,
}

/// Tells why the sender of a mail is not believed; `None` means that they are. `fields` has the values of the fields
/// `Authentication-Results`, the topmost first.
pub(super) fn refusal<'a>(
    fields: impl Iterator<Item = &'a str>,
    servers: &[String],
    sender: &str,
) -> Option<&'static str> {
    let is_trusted = |name: &str| {
        servers.iter().any(|server| {
            let below = name.strip_suffix(server.as_str()).is_some_and(|rest| rest.ends_with('.'));
            name == server || below
        })
    };
    let mut read = fields.map(parse);
    let Some((_, results)) = read.find(|(server, _)| is_trusted(server)) else {
        return Some("the receiving server wrote no results about it");
    };
    let domain = domain_of(sender);
    let with = |name: &'static str| results.iter().filter(move |found| found.method == name);
    let mut policies = with("dmarc").peekable();
    if policies.peek().is_some() {
        let is_of_sender =
            |found: &MethodResult| found.get("header.from").is_none_or(|from| domain_part(from) == domain);
        let passed = policies.all(|found| found.result == "pass" && is_of_sender(found));
        if passed {
            return None;
        }
        // The owner of the domain published no policy: what follows decides.
        if with("dmarc").any(|found| !matches!(found.result.as_str(), "none" | "bestguesspass")) {
            return Some("it fails DMARC");
        }
    }
    let signed = with("dkim").any(|found| {
        let by = found.get("header.d").or_else(|| found.get("header.i"));
        found.result == "pass" && by.is_some_and(|by| speaks_for(domain_part(by), domain))
    });
    let sent = with("spf").any(|found| {
        let by = found.get("smtp.mailfrom").or_else(|| found.get("smtp.mail"));
        found.result == "pass" && by.is_some_and(|by| speaks_for(domain_part(by), domain))
    });
    if signed || sent { None } else { Some("neither DKIM nor SPF confirms the domain of its sender") }
}

/// Tells whether a domain may speak for another: itself, and what is below it. Not what is above it: below a public suffix
/// everybody may have a name.
fn speaks_for(by: &str, domain: &str) -> bool {
    let is_below = domain.strip_suffix(by).is_some_and(|rest| rest.ends_with('.'));
    by == domain || (is_below && by.contains('.'))
}

fn domain_part(value: &str) -> &str {
    value.rsplit_once('@').map_or(value, |(_, domain)| domain)
}

impl MethodResult {
    fn get(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the name of the server and its results, all in lower case.
fn parse(field: &str) -> (String, Vec<MethodResult>) {
    let mut sections = sections(field).into_iter();
    let head = sections.next().unwrap_or_default();
    let server = head.first().map(|word| word.trim_end_matches('.').to_owned()).unwrap_or_default();
    let results = sections.filter_map(|words| {
        let mut words = words.iter();
        let (method, result) = words.next()?.split_once('=')?;
        let method = method.split('/').next().unwrap_or_default();
        let pair = |word: &String| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.trim_end_matches('.').to_owned()))
        };
        let properties = words.filter_map(pair).collect();
        Some(MethodResult { method: method.to_owned(), result: result.to_owned(), properties })
    });
    (server, results.collect())
}

/// Splits a field at semicolons, and each section at blanks. Comments are left out; in quotes, both are plain characters.
/// A quoted text is joined with what surrounds it, and loses blanks and equals signs, which never belong to a domain.
fn sections(field: &str) -> Vec<Vec<String>> {
    let (mut sections, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let end_word = |word: &mut String, words: &mut Vec<String>| {
        if !word.is_empty() {
            words.push(std::mem::take(word));
        }
    };
    for c in field.chars().flat_map(char::to_lowercase) {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' if quoted || depth > 0 => escaped = true,
            '"' if depth == 0 => quoted = !quoted,
            _ if quoted => {
                if !c.is_whitespace() && c != '=' {
                    word.push(c);
                }
            }
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ';' => {
                end_word(&mut word, &mut words);
                sections.push(std::mem::take(&mut words));
            }
            _ if c.is_whitespace() => {
                // Blanks may stand around the equals sign.
                if !word.ends_with('=') {
                    end_word(&mut word, &mut words);
                }
            }
            '=' if word.is_empty() && !words.is_empty() => {
                word = words.pop().unwrap_or_default();
                word.push('=');
            }
            _ => word.push(c),
        }
    }
    end_word(&mut word, &mut words);
    // What is not closed hides what follows; nothing of it is believed.
    if !quoted && depth == 0 {
        sections.push(words);
    }
    sections
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn why(fields: &[&str], sender: &str) -> Option<&'static str> {
        refusal(fields.iter().copied(), &["mx.example.net".to_owned()], sender)
    }

    fn believed(field: &str) -> bool {
        why(&[field], "ann@example.org").is_none()
    }

    #[test]
    fn a_result_of_the_receiving_server_is_needed() {
        let good = "mx.example.net; dmarc=pass (p=REJECT) header.from=example.org";
        assert!(believed(good));
        assert!(why(&[], "ann@example.org").is_some());
        assert!(!believed("mx.evil.net; dmarc=pass header.from=example.org"));
        assert!(!believed("notmx.example.net; dmarc=pass header.from=example.org"));
        assert!(believed("in1.mx.example.net 1; dmarc=pass header.from=example.org"));
        // The first one of that name counts, and no later one.
        let forged = ["mx.example.net; dmarc=fail header.from=example.org", good];
        assert!(why(&forged, "ann@example.org").is_some());
        assert!(why(&["mx.other.net; dmarc=fail", good], "ann@example.org").is_none());
    }

    #[test]
    fn the_domain_must_be_that_of_the_sender() {
        for (field, expected) in [
            ("mx.example.net; dmarc=pass header.from=evil.org", false),
            ("mx.example.net; dmarc=pass", true),
            ("mx.example.net; dmarc=fail header.from=example.org; dkim=pass header.d=example.org", false),
            ("mx.example.net; dmarc=none header.from=example.org; dkim=pass header.d=example.org", true),
            ("mx.example.net; dkim=pass header.i=@example.org", true),
            ("mx.example.net; dkim=pass header.d=evil.org", false),
            ("mx.example.net; dkim=pass header.d=org", false),
            ("mx.example.net; dkim=pass header.d=ann.example.org", false),
            ("mx.example.net; dkim=fail header.d=example.org; dkim=pass header.d=example.org", true),
            ("mx.example.net; spf=pass smtp.mailfrom=ann@example.org", true),
            ("mx.example.net; spf=pass smtp.mailfrom=example.org", true),
            ("mx.example.net; spf=pass smtp.helo=example.org", false),
            ("mx.example.net; spf=softfail smtp.mailfrom=ann@example.org", false),
            ("mx.example.net; SPF = pass smtp.mailfrom = example.org", true),
            ("mx.example.net; none", false),
            ("mx.example.net", false),
            ("", false),
        ] {
            assert_eq!(believed(field), expected, "{field}");
        }
        assert!(why(&["mx.example.net; dkim=pass header.d=example.org"], "ann@mail.example.org").is_none());
    }

    #[test]
    fn what_a_sender_can_write_into_a_result_does_not_count() {
        for field in [
            "mx.example.net; spf=fail (x; dmarc=pass header.from=example.org) smtp.mailfrom=evil.org",
            r#"mx.example.net; spf=fail smtp.mailfrom="x; dmarc=pass header.from=example.org; "@evil.org"#,
            r#"mx.example.net; spf=pass smtp.mailfrom="a smtp.mailfrom=example.org"@evil.org"#,
            "mx.example.net; spf=fail (a (b) ; dkim=pass header.d=example.org",
            r"mx.example.net; spf=fail (a \) ; dkim=pass header.d=example.org) smtp.mailfrom=evil.org",
            "mx.example.net (x; dmarc=pass header.from=example.org",
        ] {
            assert!(!believed(field), "{field}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(field in "(mx.example.net; ?)?[ -~ü;=()\"\\\\]{0,60}") {
            believed(&field);
        }
    }
}
