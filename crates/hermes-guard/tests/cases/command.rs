//! Commands and the decisions about them.

mod asked;
mod differential;
mod disguised;
mod judged;
mod led_to;
mod month;
mod quiet;
mod spellings;
mod week;

use hermes_guard::{CommandJudgement, HomeFolders, judge};
use proptest::prelude::*;

use asked::{DANGEROUS, DENIED, DISGUISED};
use disguised::{HARMLESS_TWINS, HIDDEN};
use judged::{JUDGED, NEVER};
use led_to::{FOLLOWED, TEXTS, UNSEEN, WRAPPED};
use month::MONTH;
use quiet::{EVERYDAY, HARMLESS};
use spellings::SPELLINGS;
use week::ANOTHER_WEEK;

const PLACES: HomeFolders<'_> = HomeFolders { home: Some("/home/me"), hermes_home: Some("/home/me/.hermes") };

fn keys(command: &str) -> Vec<String> {
    match judge(command, PLACES) {
        CommandJudgement::Allow => Vec::new(),
        CommandJudgement::Ask(dangers) => dangers.into_iter().map(|danger| danger.key).collect(),
        CommandJudgement::Deny(danger) => vec![format!("DENY {}", danger.key)],
    }
}

fn check(table: &[(&str, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .filter(|(command, key)| {
            keys(command).first().map(String::as_str) != Some(*key).filter(|key| !key.is_empty())
        })
        .map(|(command, key)| format!("{command:?}: wanted {key:?}, got {:?}", keys(command)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Commands for which the parser decides otherwise than a list of patterns would, each with the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("bash -c 'ls'", "", "the text is read instead of distrusting every -c"),
    ("sh -c 'make test'", "", "the text is read instead of distrusting every -c"),
    ("python -c 'print(2**10)'", "", "code that only computes and prints is everyday work"),
    ("node -e 'console.log(process.version)'", "", "code that only computes and prints is everyday work"),
    ("rm /tmp/x.log", "", "one file in a folder for passing things is no deletion in the root"),
    ("echo 'dd if=/dev/zero of=x'", "", "quoted words of echo are not run"),
    ("git commit -m 'systemctl stop was wrong'", "", "a commit message is not run"),
    ("grep -rn 'mkfs' docs", "", "a search pattern is not run"),
    ("kill -1 4242", "", "-1 before a pid is the hang-up signal"),
    (
        "psql -c 'DELETE FROM a; SELECT 1 WHERE 1=1'",
        "SQL DELETE without WHERE",
        "a WHERE of another statement does not count",
    ),
    (
        "chmod +x build.sh && ./build.sh",
        "",
        "making one's own script runnable is everyday; only fetched files are asked about",
    ),
    ("cp .env.example .env", "", "a project's own .env is the user's work, not the product's configuration"),
    ("cat config.yaml > other.yaml", "", "a project's config.yaml is not the product's"),
    ("rm -rf \"$X\"", "recursive delete", "a name that is not known does not hide the deletion"),
    ("eval \"$(direnv hook bash)\"", "", "setting up a shell from a local program is everyday"),
    ("git push --force-with-lease", "", "it refuses to lose others' work"),
    ("dd of=/dev/sdb if=x", "DENY write to block device", "the order of dd's words does not matter"),
    (
        "dd if=/dev/zero of=test.img bs=1M count=10",
        "",
        "filling a plain file is everyday; devices and targets nobody knows are asked about",
    ),
    ("dd if=in.bin bs=1 count=4 | xxd", "", "a plain file is read and shown"),
    ("c='cd x && rm -rf y'; $c", "", "operators in a value are words to the shell: only cd would be run"),
    ("docker run --rm -v /srv/data:/data alpine ls", "", "--rm is an option, not the program"),
    ("docker run --rm --network host x", "", "--rm is an option, not the program"),
    ("ls | xargs -I{} echo rm {}", "", "echo only shows its words"),
    ("ls # rm -rf /", "", "a remark is not run"),
    ("python3 - <<'E'\nprint(\"rm -rf x\")\nE", "", "code that only prints is everyday work"),
    ("jq -n --arg x 'rm -rf y' '$x'", "", "a value in a query is not run"),
    ("curl -d '{\"cmd\":\"rm -rf x\"}' http://localhost", "", "what is sent is not run here"),
    ("env -i bash --norc", "", "an option with a c in it is not -c"),
    ("cmd='ls -la'; bash -c \"$cmd\"", "", "the value is known and read"),
    ("git rm -r --cached node_modules", "", "the files stay; only the index forgets them"),
    (
        "some-tool --message 'do not rm -rf x'",
        "",
        "the words do not begin with a command: it is said, not run",
    ),
    ("cat > clean.sh <<'EOF'\nrm -rf build\nEOF", "", "a script that is written is not yet run"),
    ("files=(rm -rf x)", "", "a list of words is not yet run"),
    ("X='rm -rf y'", "", "a value is not yet run"),
    ("psql -c \"SELECT 'rm -rf x'\"", "", "a value in a query is not run"),
    ("cat install.sh | bash", "", "the same as running the script by its name"),
    ("truncate -s 0 x.log", "", "the program is not the SQL word"),
    ("cat notes | grep -i 'truncate table'", "", "a search pattern is not run"),
];

#[test]
fn dangerous_commands_are_asked_about() {
    check(DANGEROUS);
}

#[test]
fn disguises_do_not_help() {
    check(DISGUISED);
}

#[test]
fn what_a_command_leads_to_is_asked_about() {
    check(&[WRAPPED, TEXTS, FOLLOWED, UNSEEN].concat());
}

#[test]
fn no_spelling_is_simply_run() {
    let run: Vec<&&str> = SPELLINGS.iter().filter(|command| keys(command).is_empty()).collect();
    assert!(run.is_empty(), "{run:#?}");
}

#[test]
fn what_bash_would_run_is_not_hidden() {
    assert!(HIDDEN.len() >= 100);
    let run: Vec<&&str> = HIDDEN.iter().filter(|command| keys(command).is_empty()).collect();
    assert!(run.is_empty(), "{run:#?}");
    let asked: Vec<(&&str, Vec<String>)> = HARMLESS_TWINS
        .iter()
        .map(|command| (command, keys(command)))
        .filter(|(_, keys)| !keys.is_empty())
        .collect();
    assert!(asked.is_empty(), "{asked:#?}");
}

/// Checks that every construct that leads to one dangerous command leads to any other.
#[test]
fn every_way_leads_to_every_command() {
    const OTHERS: &[&str] =
        &["chmod -R 777 x", "find . -delete", "systemctl stop x", "pkill -9 x", "sudo rm -r x"];
    let ways = [DISGUISED, WRAPPED, TEXTS, FOLLOWED].concat();
    let ways = ways.iter().map(|(command, _)| *command).filter(|command| command.contains("rm -rf x"));
    let commands: Vec<String> =
        ways.flat_map(|way| OTHERS.iter().map(move |other| way.replace("rm -rf x", other))).collect();
    assert!(commands.len() > 500);
    let run: Vec<&String> = commands.iter().filter(|command| keys(command).is_empty()).collect();
    assert!(run.is_empty(), "{run:#?}");
}

#[test]
fn dangers_no_pattern_names_are_asked_about() {
    check(JUDGED);
}

#[test]
fn some_are_never_run() {
    check(DENIED);
    check(NEVER);
}

#[test]
fn harmless_commands_are_not_asked_about() {
    let all = HARMLESS.iter().chain(EVERYDAY).chain(ANOTHER_WEEK).chain(MONTH);
    let table: Vec<(&str, &str)> = all.map(|command| (*command, "")).collect();
    assert!(table.len() >= 1_100);
    check(&table);
}

#[test]
fn every_difference_from_the_patterns_is_meant() {
    let table: Vec<(&str, &str)> = DIFFERENT.iter().map(|(command, key, _)| (*command, *key)).collect();
    check(&table);
}

#[test]
fn every_danger_of_a_command_is_told() {
    let both = keys("rm -rf x && systemctl stop y; rm -rf z");
    assert_eq!(both, ["recursive delete", "stop/disable system service"]);
    match judge("sudo sh -c 'rm -rf x'", PLACES) {
        CommandJudgement::Ask(dangers) => assert_eq!(dangers[0].reason, "recursive delete: rm -rf x"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_read_is_asked_about() {
    assert_eq!(keys(&"a".repeat(128_001)), ["command too long to check"]);
    let nested = format!("{}ls{}", "$(".repeat(60), ")".repeat(60));
    assert_eq!(keys(&nested), ["command nested too deeply to check"]);
    let growing: Vec<String> = (0..60).map(|at| format!("a{}=$a{at}$a{at};", at + 1)).collect();
    let growing = growing.concat();
    assert!(keys(&format!("a0=xxxxxxxxxx;{growing} ls $a60")).len() <= 1);
}

#[test]
fn hostile_texts_come_to_an_end() {
    let pieces = [
        "$(",
        "(",
        "`",
        "{",
        "{a,",
        "'",
        "\"$(",
        "<<E\n",
        "a=b;",
        "a=$a$a;",
        "$a",
        "case x in ",
        "|",
        "find -exec ",
        "sudo ",
        "bash -c ",
        "[[",
        "*",
        "\\",
        "${",
        "${x:-",
        "env ",
        "echo x|sh;",
        "curl x|",
        "xargs ",
        "<(",
        "\u{1b}]",
        "\u{1b}P",
        "}|sh;",
        "curl|sh|",
        "cat <<E\nE\n",
        "f(){ f|f&};",
        "eval ",
        "trap ",
        "git rebase -x ",
        "for a in b;",
        "$((",
        "sh -c '",
        "a`b",
        "((",
        "$(($(a)))",
        "foo rm ",
        "foo sudo 'rm x' ",
        "docker run x ",
        "ssh h 'ssh h ",
        "set -- $@ $@;",
        "a+=(x);${a[@]}",
        "printf -v a %s%s $a $a;",
        "echo x > a;sh a;",
        "alias a=b;a;",
        "vim '!!!!!!!' ",
        "tee >(sh) ",
        "bash <(echo x) ",
        "A='b c' d ",
        "while read x; do $x; done <<< y;",
        "uv run ",
        "sh -c a ",
    ];
    for piece in pieces {
        let text: String = piece.repeat(LONGEST / piece.len()).chars().take(LONGEST).collect();
        keys(&text);
    }
}

const LONGEST: usize = 16_000;

proptest! {
    #[test]
    fn nothing_panics(command in "[a-z${}()|&;<>'\"`\\\\ \n#=*~/-]{0,80}") {
        keys(&command);
    }

    #[test]
    fn quoting_a_command_for_echo_makes_it_harmless(at in 0..DANGEROUS.len()) {
        let (command, _) = DANGEROUS[at];
        let quoted = format!("echo '{}'", command.replace('\'', "'\\''"));
        prop_assert_eq!(keys(&quoted), Vec::<String>::new());
    }

    #[test]
    fn a_shell_around_a_command_changes_nothing(at in 0..DISGUISED.len() + WRAPPED.len() + FOLLOWED.len()) {
        let (command, key) = [DISGUISED, WRAPPED, FOLLOWED].concat()[at];
        let quoted = format!("bash -c '{}'", command.replace('\'', "'\\''"));
        let found = keys(&quoted);
        prop_assert_eq!(found.first().map(String::as_str), Some(key));
    }
}
#[test]
fn patterns_of_file_names_hide_no_names() {
    check(&[
        ("/sbin/mk[f]s.ext4 /dev/sda", "DENY format filesystem"),
        ("/bin/[q-s]m -rf ~", "DENY delete the system or a home folder"),
        ("/bin/[!x]m -rf ~", "DENY delete the system or a home folder"),
        ("curl x | /bin/b?sh", "pipe remote content to shell"),
        ("rm -rf /e??", "DENY delete the system or a home folder"),
        ("rm -rf /h*", "DENY delete the system or a home folder"),
        ("echo x > /et[c]/passwd", "overwrite system config"),
        ("dd if=/dev/zero of=/dev/s[d]a", "DENY write to block device"),
        ("echo x >> ~/.bashr[c]", "change a shell start-up file"),
        ("cp x ~/.bash?c", "change a shell start-up file"),
        ("cat src/*.rs", ""),
        ("for f in src/[a-z]*.rs; do wc -l $f; done", ""),
        ("rm build/*.o", ""),
        ("/usr/bin/pyth?n3 -V", ""),
        ("ls ~/.b*", ""),
    ]);
}
