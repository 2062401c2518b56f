//! Removes terminal control sequences from text.
//!
//! Implements the grammar of ECMA-48: control sequences with private and colon parameters, strings ended by BEL or
//! ST, charset selections, single escapes, and the 8-bit forms. An unterminated string loses its introducer only,
//! so that a stray escape cannot remove the text after it.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
const STRING_END: char = '\u{9c}';

/// Returns the text as a terminal would show it, without colours, titles and cursor movements.
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c == ESCAPE || is_c1(c)) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut ahead = PendingTerminators { bell: true, end: true };
    while let Some(c) = rest.next() {
        match c {
            ESCAPE => match rest.peek().copied() {
                Some('[') => {
                    rest.next();
                    skip_control(&mut rest);
                }
                Some(kind @ (']' | 'P' | 'X' | '^' | '_')) => {
                    rest.next();
                    skip_string(&mut rest, kind == ']', &mut ahead);
                }
                Some(' '..='/') => {
                    skip_while(&mut rest, |c| matches!(c, ' '..='/'));
                    rest.next_if(|c| matches!(c, '0'..='~'));
                }
                Some('0'..='~') => {
                    rest.next();
                }
                _ => {}
            },
            '\u{9b}' => skip_control(&mut rest),
            '\u{9d}' => skip_string(&mut rest, true, &mut ahead),
            '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest, false, &mut ahead),
            c if is_c1(c) => {}
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

fn is_c1(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}')
}

fn skip_control(rest: &mut Peekable<Chars<'_>>) {
    skip_while(rest, |c| matches!(c, '0'..='?'));
    skip_while(rest, |c| matches!(c, ' '..='/'));
    rest.next_if(|c| matches!(c, '@'..='~'));
}

/// The string terminators that may still follow. A missing one is searched for once, or a text of introducers would
/// take quadratic time.
struct PendingTerminators {
    bell: bool,
    end: bool,
}

fn skip_string(rest: &mut Peekable<Chars<'_>>, bell_ends: bool, ahead: &mut PendingTerminators) {
    let wanted = PendingTerminators { bell: bell_ends && ahead.bell, end: ahead.end };
    if !wanted.bell && !wanted.end {
        return;
    }
    let mut further = rest.clone();
    while let Some(c) = further.next() {
        let ended = match c {
            BELL => wanted.bell,
            STRING_END => true,
            ESCAPE => further.next_if_eq(&'\\').is_some(),
            _ => false,
        };
        if ended {
            *rest = further;
            return;
        }
    }
    ahead.end = false;
    ahead.bell &= !bell_ends;
}

fn skip_while(rest: &mut Peekable<Chars<'_>>, skipped: impl Fn(char) -> bool) {
    while rest.next_if(|c| skipped(*c)).is_some() {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, plain: &str) {
        assert_eq!(strip_ansi(text), plain, "{text:?}");
    }

    #[test]
    fn every_kind_of_sequence_goes() {
        check("plain ünï ✓", "plain ünï ✓");
        check("\u{1b}[31mred\u{1b}[0m", "red");
        check("\u{1b}[38:2::255:0:0mx\u{1b}[?25lhide\u{1b}[!p", "xhide");
        check("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink");
        check("\u{1b}Pdcs\u{1b}\\a\u{1b}_apc\u{9c}b\u{1b}^pm\u{1b}\\c\u{1b}Xsos\u{1b}\\d", "abcd");
        check("\u{1b}(B\u{1b}=x\u{1b}7\u{1b}M", "x");
        check("\u{9b}1mbold\u{9d}t\u{7}\u{85}.", "bold.");
        check("r\u{1b}[0mm -rf", "rm -rf");
    }

    #[test]
    fn an_unfinished_sequence_does_not_swallow_the_text() {
        check("\u{1b}]0;no end", "0;no end");
        check("a\u{1b}", "a");
        check("a\u{1b}[31", "a");
        check("\u{1b}Pno end\u{1b}]0;t\u{7}x", "no endx");
    }

    proptest! {
        #[test]
        fn nothing_of_a_sequence_stays(text in "[a-z\\x1b\\[\\]\\x07;0-9m\u{9b}\\\\]{0,60}") {
            let plain = strip_ansi(&text).into_owned();
            prop_assert!(!plain.contains(ESCAPE) && !plain.chars().any(is_c1));
        }
    }
}
