use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact, register_secrets};
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

/// Tests one token of each kind in circulation, in lines of the kinds in which they occur.
#[test]
fn tokens_of_many_services() {
    let body = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
    let hex = "0123456789abcdef0123456789abcdef";
    let prefixes = [
        "sk-",
        "sk-proj-",
        "sk-ant-api03-",
        "sk-or-v1-",
        "sk-lf-",
        "gsk_",
        "hf_",
        "r8_",
        "xai-",
        "pplx-",
        "nvapi-",
        "fw_",
        "csk-",
        "tgp_v1_",
        "pcsk_",
        "lsv2_pt_",
        "tvly-",
        "fc-",
        "bb_live_",
        "e2b_",
        "dtn_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "gldt-",
        "glrt-",
        "glptt-",
        "ATATT3",
        "bkua_",
        "CCIPAT_",
        "sgp_",
        "sntrys_",
        "sntryu_",
        "squ_",
        "xoxb-",
        "xoxp-",
        "xoxe-",
        "xoxc-",
        "xoxd-",
        "xapp-",
        "xwfp-",
        "syt_",
        "mat_",
        "GOCSPX-",
        "AIza",
        "LTAI",
        "AKID",
        "HRKU-",
        "dckr_pat_",
        "dckr_oat_",
        "tskey-auth-",
        "tskey-api-",
        "nfp_",
        "rnd_",
        "vercel_blob_rw_",
        "sbp_",
        "sb_secret_",
        "napi_",
        "pscale_tkn_",
        "pscale_pw_",
        "mdb_sa_sk_",
        "AVNS_",
        "PMAK-",
        "pul-",
        "NRAK-",
        "glc_",
        "glsa_",
        "phx_",
        "figd_",
        "rdme_",
        "tfp_",
        "CFPAT-",
        "CLOJARS_",
        "rubygems_",
        "npm_",
        "pypi-",
        "lin_api_",
        "lin_oauth_",
        "ntn_",
        "secret_",
        "shpat_",
        "shpss_",
        "dop_v1_",
        "doo_v1_",
        "dor_v1_",
        "sk_live_",
        "rk_live_",
        "whsec_",
        "rzp_live_",
        "sq0atp-",
        "FLWSECK-",
        "shippo_live_",
        "duffel_live_",
        "AGE-SECRET-KEY-1",
        "re_",
        "aio_",
        "pnu_",
        "fio-u-",
        "hvs.",
        "hvb.",
        "ya29.",
        "SG.",
        "sl.",
        "dp.pt.",
        "dt0c01.abcdefghijkl.",
        "fm2_",
        "ops_",
    ];
    let mut tokens: Vec<String> = prefixes.iter().map(|prefix| format!("{prefix}{body}")).collect();
    tokens.extend([
        format!("AKIA{}", "A1B2C3D4E5F6G7H8"),
        format!("dapi{hex}"),
        format!("SK{hex}"),
        format!("patA1b2C3d4E5f6G7.{hex}{hex}"),
        format!("A1b2C3d4E5f6G7.atlasv1.{body}"),
        format!("MTIzNDU2Nzg5MDEyMzQ1Njc4.Gabcde.{body}"),
        format!("sk.eyJ{body}.abcdefgh12"),
        format!("eyJ{body}.eyJ{body}.{body}"),
        format!("gAAAAA{body}=="),
        format!("12345678:{body}"),
    ]);
    let mut kept = Vec::new();
    for token in &tokens {
        for line in [
            format!("see {token} there"),
            format!("\"x\": \"{token}\","),
            format!("export X={token}"),
            format!("   12|key {token}"),
            format!("https://h/x?y={token}&z=1"),
        ] {
            let secret = token.rsplit(['-', '_', '.', ':']).next().unwrap_or(token);
            let shown = redact(
                &line,
                Redaction { assignments: Assignments::ConfigStyle, phone_numbers: PhoneNumbers::Keep },
            );
            if shown.contains(secret) {
                kept.push(line);
            }
        }
    }
    assert!(tokens.len() > 100 && kept.is_empty(), "{kept:#?}");
}

#[test]
fn secrets_by_the_place_they_stand_in() {
    check("password: hunter2\n", "password: ***\n");
    check("db:\n  db_password: s3cr3tvalue\n  port: 1", "db:\n  db_password: ***\n  port: 1");
    check("DB_PASS=hunter2", "DB_PASS=***");
    check("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=wJalrX...DENG");
    check("mysql --password hunter2 -u me", "mysql --password *** -u me");
    check("tool --api-key 'abc def' x", "tool --api-key '***' x");
    check(r#"{"dbPassword": "hunter2"}"#, r#"{"dbPassword": "***"}"#);
    check(r#"{"secretAccessKey": "abc"}"#, r#"{"secretAccessKey": "***"}"#);
    check(
        "https://hooks.slack.com/services/T01/B02/abcdefghijkl",
        "https://hooks.slack.com/services/T01/B02/***",
    );
    check("https://discord.com/api/webhooks/123/abcdefghij", "https://discord.com/api/webhooks/123/***");
    check("AccountName=x;AccountKey=abcdefghijkl==;E=1", "AccountName=x;AccountKey=abcdef...;E=1");
    check_kept(&[
        "    password: str",
        "password: string;",
        "token: Optional[str]",
        "nextPageToken: abc123def",
        r#"{"nextPageToken": "abc"}"#,
        "--token <TOKEN>",
        "the password: it is long",
        "  --password-file /run/x",
        "mat_mul_result",
        "re_compile_pattern",
        "glc_context_size",
        "sl.abc",
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
    register_secrets(
        ["correct horse battery", "hunter22", "hunter22-longer", "abc", "password"].map(Secret::new),
    );
    check("xcorrect horse batteryx abc password", "xcorrec...teryx abc password");
    check("hunter22-longer hunter22", "*** ***");
    check("q=correct%20horse%20battery", "q=correc...tery");
}

/// Runs for minutes unless redaction takes linear time.
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
