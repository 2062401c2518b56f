//! Compares the commands that the parser finds with those that bash runs.
//!
//! Commands are generated at random from the whole shell grammar, then damaged at random. One bash runs them all in
//! a separate folder, with no programs in its path: it records whatever it would have run. A command that bash ran
//! and the parser did not find is a way around the judge. `HERMES_COMMANDS` sets how many are generated, and
//! `HERMES_SEED` where the series begins.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use hermes_guard::executed_words;

const COMMANDS: usize = 10_000;

/// A script that runs each command of a list, and records the words of whatever would have been run.
const DRIVER: &str = r#"
PATH=/nonexistent
set -f
# In one line and one write, or what runs beside would be written in between.
command_not_found_handle() { local IFS=$'\037' words; words=$*; printf '%s\036' "$N$IFS${words//$'\n'/$'\035'}" >&9; }
for name in {a..z}{a..d}; do
    eval "z$name() { command_not_found_handle z$name \"\$@\"; }"
done
FUNCNEST=30
enable -n kill exec source . wait read exit return trap cd pushd popd logout bg fg jobs suspend umask ulimit builtin command
N=0
while IFS= builtin_read -r -d '' text; do
    (eval "$text") </dev/null >/dev/null 2>&1
    N=$((N + 1))
done < commands
"#;

/// A small random number generator, deterministic for a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % end as u64).unwrap()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Generates commands.
struct CommandGenerator {
    random: Random,
    names: usize,
}

impl CommandGenerator {
    fn name(&mut self) -> String {
        let letter =
            |first: u8, at: usize, count: usize| char::from(first + u8::try_from(at % count).unwrap());
        let name = format!("z{}{}", letter(b'a', self.names, 26), letter(b'a', self.names / 26, 4));
        self.names += 1;
        name
    }

    fn script(&mut self, depth: usize) -> String {
        let mut text = self.command(depth);
        for _ in 0..self.random.below(3) {
            let joint = self.random.one(&[
                "; ",
                "\n",
                " && ",
                " & ",
                "\n\n",
                " ;",
                " || ",
                " | ",
                " # it's\n",
                " |& ",
            ]);
            text.push_str(joint);
            text.push_str(&self.command(depth));
        }
        text
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.simple(0);
        }
        let depth = depth - 1;
        match self.random.below(20) {
            0 => format!("({})", self.script(depth)),
            1 => format!("{{ {}; }}", self.script(depth)),
            2 => format!("if {}; then {}; fi", self.simple(depth), self.script(depth)),
            3 => format!("for i in a b; do {}; done", self.script(depth)),
            4 => {
                let word = self.word(depth);
                format!("case x in {word}) {};; (x|y) {};; esac", self.script(depth), self.script(depth))
            }
            5 => {
                let name = self.name();
                format!("f{name}() {{ {}; }}; f{name}", self.script(depth))
            }
            6 => format!("[[ {} == {} ]]; {}", self.word(depth), self.word(depth), self.simple(depth)),
            7 => format!("(( 1 + 2 )); {}", self.simple(depth)),
            8 => format!("list=({} {}); {}", self.word(depth), self.word(depth), self.simple(depth)),
            9 => {
                let (open, end) =
                    [("E", "E"), ("'E'", "E"), ("\\E", "E"), ("E\"F\"", "EF"), ("-E", "E"), ("$x", "$x")]
                        [self.random.below(6)];
                let (first, second, after) = (self.script(0), self.word(depth), self.script(depth));
                format!("{} <<{open}\n{first}\n{second}\n{end}\n{after}", self.simple(0))
            }
            10 => format!("! {}", self.command(depth)),
            11 => format!("eval {}", quoted(&self.script(depth))),
            12 => format!("x={} {}", self.word(depth), self.simple(depth)),
            _ => self.simple(depth),
        }
    }

    fn simple(&mut self, depth: usize) -> String {
        let mut text = self.name();
        for _ in 0..self.random.below(3) {
            text.push_str(self.random.one(&[" ", "  ", " \\\n", "\t"]));
            text.push_str(&self.word(depth));
        }
        if self.random.below(8) == 0 {
            text.push_str(self.random.one(&[
                " 2>o",
                " >o",
                " </dev/null",
                " 2>&1",
                " &>o",
                " {fd}>o",
                " <<<w",
                " <&-",
            ]));
        }
        text
    }

    fn word(&mut self, depth: usize) -> String {
        let mut text = String::new();
        for _ in 0..=self.random.below(2) {
            text.push_str(&self.part(depth));
        }
        text
    }

    fn part(&mut self, depth: usize) -> String {
        let plain = self
            .random
            .one(&["p", "q r", "#", "}", "{", "it's", ")", "(", ";", "<<E", "\\", "`", "$", "&", "\n"]);
        if depth == 0 {
            return self
                .random
                .one(&["v", "w", "1", "v-w", "a=b", "{a,b}", "\\;", "'#'", "x#y", "$'\\x41'", "~"])
                .to_owned();
        }
        let depth = depth - 1;
        match self.random.below(16) {
            0 => quoted(plain),
            1 => format!("\"{}\"", plain.replace(['\\', '`', '$'], "")),
            2 => format!("$({})", self.script(depth)),
            3 => format!("\"$({})\"", self.script(depth)),
            4 => format!("`{}`", self.simple(0)),
            5 => format!("${{u:-{}}}", self.word(depth)),
            6 => format!("\"${{u:-{}}}\"", self.word(depth)),
            7 => format!("$((1 + $({})0))", self.simple(0)),
            8 => format!("<({})", self.script(depth)),
            9 => format!("${{u#{}}}", self.random.one(&["{", "\\}", "'}'", "\"}\"", "#", "$x"])),
            10 => format!("$(({}) )", self.script(depth)),
            11 => format!("$[1 + $({})0]", self.simple(0)),
            12 => format!("{{{},{}}}", self.part(0), self.part(0)),
            13 => format!("$'{}'", self.random.one(&["\\'", "\\\\", "\\x41", "a\\\nb", "\\0z", "#"])),
            _ => self.random.one(&["v", "w", "1", "a=b", "x#y", "\\\\", "\\'", "'a b'", "\\#"]).to_owned(),
        }
    }

    /// Returns a command; every second one is damaged.
    fn next(&mut self) -> String {
        self.names = 0;
        let mut text: Vec<char> = self.script(2).chars().collect();
        if self.random.below(2) == 0 {
            return text.into_iter().collect();
        }
        for _ in 0..=self.random.below(3) {
            let at = self.random.below(text.len());
            match self.random.below(3) {
                0 => {
                    text.remove(at);
                }
                1 => {
                    let other = self.random.below(text.len());
                    text.swap(at, other);
                }
                _ => {
                    let special: Vec<char> = "'\"\\$`(){}[]<>;&|#\n \t!=z".chars().collect();
                    text.insert(at, special[self.random.below(special.len())]);
                }
            }
            if text.is_empty() {
                break;
            }
        }
        text.into_iter().collect()
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns what bash ran for each command.
fn run_by_bash(commands: &[String], folder: &Path) -> HashMap<usize, Vec<Vec<String>>> {
    std::fs::write(folder.join("commands"), commands.join("\0") + "\0").unwrap();
    let driver = DRIVER.replace("IFS= builtin_read", "IFS= read").replace(" read exit", " exit");
    #[expect(clippy::disallowed_methods, reason = "bash is the other side of the comparison")]
    let status = Command::new("bash")
        .args(["--norc", "-c", &format!("exec 9>trace; ulimit -t 60; {driver}")])
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let trace = std::fs::read(folder.join("trace")).unwrap();
    let trace = String::from_utf8_lossy(&trace).replace('\u{1d}', "\n");
    let mut ran: HashMap<usize, Vec<Vec<String>>> = HashMap::new();
    for line in trace.split('\u{1e}').filter(|line| !line.is_empty()) {
        let mut words = line.split('\u{1f}').map(str::to_owned);
        let number = words.next().and_then(|number| number.parse().ok()).unwrap();
        ran.entry(number).or_default().push(words.collect());
    }
    ran
}

const RESERVED: &[&str] =
    &["!", "{", "}", "if", "then", "else", "elif", "fi", "do", "done", "esac", "in", "time", "coproc"];

/// Removes a backslash at the very end of a text, which bash may keep or drop.
fn without_end(word: &str) -> &str {
    word.strip_suffix('\\').unwrap_or(word)
}

/// Tells whether the found words could be those that were run: they are equal as far as they can be known without a
/// shell.
fn is_same(seen: &[Option<String>], ran: &[String]) -> bool {
    let is_known =
        |word: &Option<String>| word.as_ref().is_some_and(|word| !word.contains(['*', '?', '[', '~', '{']));
    match (seen.first(), ran.first()) {
        (Some(Some(seen_name)), Some(ran_name)) if without_end(seen_name) != without_end(ran_name) => false,
        (Some(None), Some(_)) => true,
        _ => {
            !seen.iter().all(is_known)
                || seen
                    .iter()
                    .flatten()
                    .map(|word| without_end(word))
                    .eq(ran.iter().map(|word| without_end(word)))
        }
    }
}

#[test]
fn what_bash_runs_is_seen() {
    #[expect(clippy::disallowed_methods, reason = "a person chooses how long the series is")]
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seed = number("HERMES_SEED").unwrap_or(0x5eed_u64);
    let count = number("HERMES_COMMANDS").map_or(COMMANDS, |count| usize::try_from(count).unwrap());
    let mut maker = CommandGenerator { random: Random(seed | 1), names: 0 };
    let commands: Vec<String> = (0..count).map(|_| maker.next()).collect();
    let folder = tempfile::tempdir().unwrap();
    let ran = run_by_bash(&commands, folder.path());
    let mut unseen = String::new();
    let mut compared = 0;
    for (at, command) in commands.iter().enumerate() {
        let Some(seen) = executed_words(command) else { continue };
        for words in ran.get(&at).into_iter().flatten() {
            compared += 1;
            // Bytes that are not text, and the byte that bash uses as a mark of its own; and braces that bash does not expand because of others in a `${…}` before
            // them, which can only make fewer words of them.
            if words
                .iter()
                .any(|word| word.contains(['\u{fffd}', '\u{1}']) || word.contains('{') && word.contains(','))
            {
                continue;
            }
            // In some places bash takes a reserved word for the name of a program, and runs nothing after it.
            let is_own = words.first().is_some_and(|word| RESERVED.contains(&word.as_str()));
            // Braces after an expansion to several words multiply some of them.
            let multiplied = command.contains("}{") || command.contains("}${");
            if is_own || multiplied || words.first().is_some_and(|name| name.contains('[')) {
                continue;
            }
            if !seen.iter().any(|seen| is_same(seen, words)) {
                writeln!(unseen, "{command:?}\n  ran {words:?}\n  saw {seen:?}").unwrap();
            }
        }
    }
    assert!(compared > count, "only {compared} commands were run");
    assert!(unseen.is_empty(), "{unseen}");
}
