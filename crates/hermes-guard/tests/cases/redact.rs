use hermes_guard::{Assignments, PhoneNumbers, Redaction, Redactor, redact};
use hermes_types::Secret;
use proptest::prelude::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let once = redact(text, Redaction::default());
    assert_eq!(once, expected, "{text}");
    assert_eq!(redact(&once, Redaction::default()), expected, "twice: {text}");
}

#[track_caller]
fn check_kept(texts: &[&str]) {
    for text in texts {
        check(text, text);
    }
}

#[test]
fn keys_known_by_their_prefix() {
    check("key sk-ant-api03-abcdefghijklmnop.", "key sk-ant...mnop.");
    check("sk-1234567890", "***");
    check("(sk-or-v1-0123456789abcdef0123456789abcdef)", "(sk-or-...cdef)");
    check("ghp_abcdefghij0123456789", "ghp_ab...6789");
    check("github_pat_11ABC_defghijklmnop", "github...mnop");
    check("xoxb-123456789012-abcdef", "xoxb-1...cdef");
    check("AKIAIOSFODNN7EXAMPLE", "AKIAIO...MPLE");
    check("AIzaSyA-abcdefghijklmnopqrstuvwxyz01234", "AIzaSy...1234");
    check("glpat-abcdefghij0123456789", "glpat-...6789");
    check("SG.abcdefghijklmnop.qrstuvwxyz012345.", "SG.abc...2345.");
    check("gAAAAABkabcdefghijklmnopqrstuv== end", "gAAAAA...uv== end");
    check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJhbG...dXJl");
    check(r"line\nsk-abcdefghijklmnopqrst\n", r"line\nsk-abc...qrst\n");
    check("q%3Dsk-abcdefghijklmnopqrst", "q%3Dsk-abc...qrst");
    check_kept(&[
        "sk-short",
        "task-abcdefghijklmnop",
        "npm_config_registry",
        "hf_hub_download_file",
        "ASIA PACIFIC",
        "eyJ.x",
    ]);
}

#[test]
fn assignments() {
    check("OPENAI_API_KEY=abcdefghijklmnopqrstuvwx", "OPENAI_API_KEY=abcdef...uvwx");
    check("export DB_PASSWORD='hunter 2' # x", "export DB_PASSWORD='***' # x");
    check("MY_TOKEN=\"abc\"", "MY_TOKEN=\"***\"");
    check("run(token=abc123, n=1)", "run(token=***, n=1)");
    check("AUTH=Bearer abc.def", "AUTH=Bearer ***");
    check("password = hunter2\n", "password = ***\n");
    check(r#"{"env":"A_SECRET=x\nB=1"}"#, r#"{"env":"A_SECRET=***\nB=1"}"#);
    check("https://h/p?a=1&api_key=secretvalue&b=2#f", "https://h/p?a=1&api_key=***&b=2#f");
    check("https://h/p?key=abcdefghijklmnopqrst", "https://h/p?key=abcdef...qrst");
    check_kept(&[
        "GIT_AUTHOR_NAME=Ada",
        "MAX_TOKENS=4096",
        "TOKENIZERS_PARALLELISM=false",
        "API_KEY=$OTHER_KEY",
        "API_KEY=${OTHER_KEY}",
        "TOKEN=",
        "a == b",
        "keyboard=qwerty",
    ]);
}

#[test]
fn source_code_stays_readable() {
    let source = Redaction { assignments: Assignments::ConfigStyle, ..Redaction::default() };
    for kept in ["    call(token=token, password=pw)", "let token = next();", "  x.auth=y"] {
        assert_eq!(redact(kept, source), kept);
    }
    assert_eq!(redact("f(API_TOKEN=abc)", source), "f(API_TOKEN=***)");
    assert_eq!(redact("x\npassword=abc\n", source), "x\npassword=***\n");
}

#[test]
fn fields() {
    check(r#"{"apiKey": "abcdefghijklmnopqrstuvwx","a":1}"#, r#"{"apiKey": "abcdef...uvwx","a":1}"#);
    check(r#"{"password":"a\"b"}"#, r#"{"password":"***"}"#);
    check("{'access_token': 'abc'}", "{'access_token': '***'}");
    check(r#""{\"token\": \"abc\"}""#, r#""{\"token\": \"***\"}""#);
    check_kept(&[r#"{"tokens": "12"}"#, r#"{"token": 12}"#, r#"{"token": ""}"#, r#"{"name": "abc"}"#]);
}

#[test]
fn headers() {
    check("Authorization: Bearer abcdefghijklmnopqrstuvwx", "Authorization: Bearer abcdef...uvwx");
    check("authorization: Basic dXNlcjpwdw==", "authorization: Basic ***");
    check("curl -H 'X-Api-Key: abc123def'", "curl -H 'X-Api-Key: ***'");
    check(r#"{"Authorization": "Bearer abc"}"#, r#"{"Authorization": "Bearer ***"}"#);
    check("sent bearer a1b2c3d4e5 along", "sent bearer *** along");
    check_kept(&[
        "the bearer authentication scheme",
        "authorization: str",
        "Authorization: Bearer $TOKEN",
        "bearer of news",
    ]);
}

#[test]
fn shapes() {
    check("bot12345678:AAabcdefghijklmnopqrstuvwxyz0123456", "bot12345678:***");
    check("postgres://u:p@ss@h/db", "postgres://u:***@h/db");
    check("mongodb+srv://u:pa/ss@h/db", "mongodb+srv://u:***@h/db");
    check("https://user:pw@h/x", "https://user:***@h/x");
    check("https://abcdefghijklmnopqrstuvwxyz@github.com/x", "https://***@github.com/x");
    check_kept(&["ssh://git@github.com/x", "http://h:80/@x", "see ://", "12:30:45"]);
    check(
        "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIabc+/=\nx\n-----END RSA PRIVATE KEY-----\nb",
        "a\n[REDACTED PRIVATE KEY]\nb",
    );
    check("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nMII", "[REDACTED PRIVATE KEY]");
    check_kept(&[
        "-----BEGIN PUBLIC KEY-----\nMII\n-----END PUBLIC KEY-----",
        "looks for \"-----BEGIN PRIVATE KEY-----\"",
    ]);
}

#[test]
fn phone_numbers_if_wanted() {
    check("call +15551234567.", "call +155****4567.");
    check("+1234567", "+1****67");
    check_kept(&["+123456", "+0123456789", "1+1234567a", "a+12345678", "+1234567890123456"]);
    let keep = Redaction { phone_numbers: PhoneNumbers::Keep, ..Redaction::default() };
    assert_eq!(redact("+15551234567", keep), "+15551234567");
}

#[test]
fn known_secrets_go_wherever_they_stand() {
    let known = ["correct horse battery", "hunter22", "hunter22-longer", "abc"].map(Secret::new);
    let redactor = Redactor::new(Redaction::default(), known);
    assert_eq!(redactor.redact("xcorrect horse batteryx abc"), "xcorrec...teryx abc");
    assert_eq!(redactor.redact("hunter22-longer hunter22"), "*** ***");
    assert!(!format!("{redactor:?}").contains("hunter"));
}

/// Anything but linear time would keep this test busy for minutes.
#[test]
fn hostile_text_is_read_once() {
    let pieces = [
        "TOKEN=",
        "TOKEN='",
        "TOKEN=\"\\",
        "= ",
        "://",
        "redis://u:",
        "\"token\":",
        "\\\"token\\\": \\\"",
        "12345678:",
        "+",
        "+1",
        "-----BEGIN PRIVATE KEY----- ",
        "-----BEGIN ",
        "Authorization: ",
        "bearer ",
        "eyJabcdefghijk.",
        "SG.",
        "sk-",
        "a",
        " ",
        "é",
        "'",
        "?key=",
        "${",
        "AUTH=Bearer ",
        "12345678:a@",
    ];
    for piece in pieces {
        let text = piece.repeat(80_000 / piece.len());
        assert!(redact(&text, Redaction::default()).len() <= text.len() * 3, "{piece}");
    }
}

fn planted() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        "[a-zA-Z0-9]{24,40}".prop_map(|s| (format!("sk-{s}"), s)),
        "[a-zA-Z0-9]{20,40}".prop_map(|s| (format!("ghp_{s}"), s)),
        "[a-zA-Z0-9!%^*]{8,40}".prop_map(|s| (format!("MY_API_KEY={s}"), s)),
        "[a-zA-Z0-9!%^* ]{8,40}".prop_map(|s| (format!("{{\"password\": \"{s}\"}}"), s)),
        "[a-zA-Z0-9]{20,40}".prop_map(|s| (format!("Authorization: Bearer {s}"), s)),
        "[a-zA-Z0-9]{8,40}".prop_map(|s| (format!("redis://user:{s}@host/0"), s)),
        "[a-zA-Z0-9]{8,40}".prop_map(|s| (format!("https://h/?token={s}&a=b"), s)),
    ]
}

fn noise() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("TOKEN="),
        Just("password = "),
        Just("\"token\": \""),
        Just("sk-abcdefghijklmnop"),
        Just("Bearer "),
        Just("Authorization: "),
        Just("://u:p@h"),
        Just("12345678:"),
        Just("+15551234567"),
        Just("eyJabcdefghijk."),
        Just("-----BEGIN PRIVATE KEY-----"),
        Just("-----END PRIVATE KEY-----"),
        Just("abcdefghijklmnopqrstuvwx"),
        Just("\""),
        Just("'"),
        Just("\\"),
        Just("\n"),
        Just(" "),
        Just("="),
        Just(":"),
        Just("&"),
        Just("."),
        Just("é"),
        Just("***"),
        Just("..."),
        Just("SG."),
        Just("@"),
        Just("/"),
        Just("a1"),
    ];
    prop_oneof![prop::collection::vec(token, 0..16).prop_map(|tokens| tokens.concat()), any::<String>()]
}

proptest! {
    #[test]
    fn planted_secrets_never_survive((text, secret) in planted(), before in "[a-z ,.\n]{0,20}", after in "[a-z ,.\n]{0,20}") {
        let text = format!("{before} {text} {after}");
        for what in [Redaction::default(), Redaction { assignments: Assignments::ConfigStyle, ..Redaction::default() }] {
            prop_assert!(!redact(&text, what).contains(&secret), "{}", text);
        }
    }

    #[test]
    fn any_text_is_taken_and_grows_little(text in noise()) {
        let once = redact(&text, Redaction::default());
        // A one-letter secret becomes three stars.
        prop_assert!(once.len() <= text.len() * 3);
    }

    #[test]
    fn plain_prose_is_untouched(text in "([a-z]{1,12}[ ,.!?\n]){0,20}") {
        prop_assert_eq!(&redact(&text, Redaction::default()), &text);
    }

    #[test]
    fn doing_it_twice_changes_nothing(text in noise()) {
        let once = redact(&text, Redaction::default()).into_owned();
        let twice = redact(&once, Redaction::default()).into_owned();
        prop_assert_eq!(once, twice);
    }
}
