use hermes_guard::{AddressKind, Blocklist, PrivateAddresses, UrlDenialReason, UrlPolicy};
use proptest::prelude::*;

fn open_policy() -> UrlPolicy {
    UrlPolicy { private: PrivateAddresses::Allow, ..UrlPolicy::default() }
}

#[track_caller]
fn check_allowed(policy: &UrlPolicy, urls: &[&str]) {
    for url in urls {
        assert_eq!(policy.parse(url).map(drop), Ok(()), "{url}");
    }
}

#[track_caller]
fn check_denied(policy: &UrlPolicy, urls: &[&str], expected: impl Fn(&UrlDenialReason) -> bool) {
    for url in urls {
        let reason = policy.parse(url).unwrap_err().reason;
        assert!(expected(&reason), "{url}: {reason:?}");
    }
}

#[track_caller]
fn check_kind(kind: AddressKind, urls: &[&str]) {
    check_denied(
        &UrlPolicy::default(),
        urls,
        |reason| matches!(reason, UrlDenialReason::Address { kind: k, .. } if *k == kind),
    );
    let open = open_policy();
    for url in urls {
        assert_eq!(open.parse(url).is_ok(), kind.can_be_allowed(), "{url}");
    }
}

#[test]
fn the_web_is_open() {
    check_allowed(
        &UrlPolicy::default(),
        &[
            "https://example.com/a?b=c#d",
            "http://93.184.216.34:8080/",
            "https://[2606:2800:220:1:248:1893:25c8:1946]/",
            "https://EXAMPLE.com./",
            "https://bücher.example/",
            "https://notlocalhost.com/",
            "https://internal.example.com/",
            "http://172.32.0.1/",
            "http://100.128.0.1/",
            "http://[64:ff9b::5db8:d822]/",
            "http://[2002:5db8:d822::1]/",
        ],
    );
}

#[test]
fn own_machine_and_network_are_closed() {
    check_kind(
        AddressKind::Loopback,
        &[
            "http://127.0.0.1/",
            "http://127.9.9.9/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://127.0.0.1./",
            "http://１２７.０.０.１/",
            "http://%31%32%37.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::ffff:0:127.0.0.1]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[2001:4860::5efe:127.0.0.1]/",
        ],
    );
    check_kind(
        AddressKind::Private,
        &[
            "http://10.0.0.1/",
            "http://172.16.0.1/",
            "http://172.31.255.255/",
            "http://192.168.1.1:8123/",
            "http://198.18.0.7/",
            "http://[fc00::1]/",
            "http://[fdab::1]/",
            "http://[fec0::1]/",
            "http://[64:ff9b:1::1]/",
            "http://[::ffff:10.0.0.1]/",
        ],
    );
    check_kind(AddressKind::LinkLocal, &["http://169.254.1.1/", "http://[fe80::1]/"]);
    check_kind(AddressKind::CarrierNat, &["http://100.64.0.1/", "http://100.127.255.255/"]);
}

#[test]
fn addresses_nobody_serves_stay_closed() {
    check_kind(
        AddressKind::Unspecified,
        &["http://0.0.0.0/", "http://0/", "http://0.1.2.3/", "http://[::]/"],
    );
    check_kind(AddressKind::Multicast, &["http://224.0.0.1/", "http://[ff02::1]/"]);
    check_kind(
        AddressKind::Documentation,
        &[
            "http://192.0.2.1/",
            "http://198.51.100.1/",
            "http://203.0.113.1/",
            "http://[2001:db8::1]/",
            "http://[3fff::1]/",
        ],
    );
    check_kind(
        AddressKind::Reserved,
        &[
            "http://240.0.0.1/",
            "http://255.255.255.255/",
            "http://192.88.99.1/",
            "http://[2001::1]/",
            "http://[100::1]/",
            "http://[4000::1]/",
        ],
    );
}

#[test]
fn local_names_are_closed_until_allowed() {
    let names = [
        "http://localhost/",
        "http://LOCALHOST:3000/",
        "http://localhost./",
        "http://a.localhost/",
        "http://printer.local/",
        "http://db.internal/",
        "http://db.internal../",
        "http://router.home.arpa/",
    ];
    check_denied(&UrlPolicy::default(), &names, |reason| {
        matches!(reason, UrlDenialReason::LocalName { .. } | UrlDenialReason::NotAUrl)
    });
    check_allowed(
        &open_policy(),
        &names.map(|name| if name.contains("..") { "http://db.internal./" } else { name }),
    );
}

#[test]
fn metadata_services_are_never_open() {
    let urls = [
        "http://169.254.169.254/latest/meta-data/",
        "http://0xa9fea9fe/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://169.254.170.2/v2/credentials",
        "http://100.100.100.200/",
        "http://[fd00:ec2::254]/",
        "http://metadata.google.internal/",
        "http://Metadata.Google.Internal./",
        "http://metadata.goog/",
        "http://metadata/",
    ];
    for policy in [UrlPolicy::default(), open_policy()] {
        check_denied(&policy, &urls, |reason| matches!(reason, UrlDenialReason::Metadata(_)));
    }
}

#[test]
fn only_plain_web_addresses_are_urls() {
    let policy = UrlPolicy::default();
    check_denied(
        &policy,
        &["ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "ws://example.com/"],
        |reason| matches!(reason, UrlDenialReason::Scheme(_)),
    );
    check_denied(
        &policy,
        &["https://user:pw@example.com/", "https://token@example.com/", "http://example.com@127.0.0.1/"],
        |reason| *reason == UrlDenialReason::Credentials,
    );
    check_denied(&policy, &["", "example.com", "http://", "http://1.2.3.4.5.6.7/"], |reason| {
        *reason == UrlDenialReason::NotAUrl
    });
}

#[test]
fn resolved_addresses_are_judged_alike() {
    let policy = UrlPolicy::default();
    policy.check_address("93.184.216.34".parse().unwrap()).unwrap();
    let denied = policy.check_address("127.0.0.1".parse().unwrap()).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "127.0.0.1 is this machine itself; set security.allow_private_urls: true to open such addresses"
    );
    open_policy().check_address("127.0.0.1".parse().unwrap()).unwrap();
    let denied = open_policy().check_address("169.254.169.254".parse().unwrap()).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "169.254.169.254 is a cloud metadata service, which hands out credentials; it is never opened"
    );
}

#[test]
fn third_parties_get_no_credentials() {
    let policy = UrlPolicy::default();
    let check = |url: &str, ok: bool| {
        assert_eq!(policy.check_shareable(&policy.parse(url).unwrap()).is_ok(), ok, "{url}");
    };
    check("https://example.com/?q=token", true);
    check("https://example.com/?token=", true);
    check("https://example.com/?a=b&API_KEY=x", false);
    check("https://example.com/?access%5Ftoken=x", false);
}

#[test]
fn the_blocklist_covers_names_and_what_is_below_them() {
    let mut blocklist = Blocklist::new();
    blocklist.add(
        [
            "https://WWW.Example.com./path",
            "*.tracker.net",
            "bücher.example",
            "  ",
            "*.a*z.org",
            "port.org:8080",
        ],
        "config",
    );
    blocklist.add_file("# shared\n\nads.example.org # why\nexample.com\n", "/home/u/.hermes/shared.txt");
    let find = |host: &str| blocklist.find(host).map(|(rule, source)| format!("{rule} {source}"));
    assert_eq!(find("example.com").as_deref(), Some("example.com config"));
    assert_eq!(find("Sub.Example.COM.").as_deref(), Some("example.com config"));
    assert_eq!(find("notexample.com"), None);
    assert_eq!(find("a.b.tracker.net").as_deref(), Some("*.tracker.net config"));
    assert_eq!(find("tracker.net"), None);
    assert_eq!(find("x.abcz.org").as_deref(), Some("*.a*z.org config"));
    assert_eq!(find("xn--bcher-kva.example").as_deref(), Some("xn--bcher-kva.example config"));
    assert_eq!(find("port.org").as_deref(), Some("port.org config"));
    assert_eq!(find("ads.example.org").as_deref(), Some("ads.example.org /home/u/.hermes/shared.txt"));
    let policy = UrlPolicy { blocklist, ..UrlPolicy::default() };
    assert_eq!(
        policy.parse("https://www.example.com/x").unwrap_err().to_string(),
        "Blocked by website policy: 'www.example.com' matched rule 'example.com' from config"
    );
}

proptest! {
    #[test]
    fn any_text_gets_a_verdict(text in any::<String>()) {
        let _ = UrlPolicy::default().parse(&text);
    }

    #[test]
    fn no_spelling_of_a_private_address_passes(last in any::<[u8; 3]>(), style in 0..6) {
        let [b, c, d] = last;
        let number = u32::from_be_bytes([10, b, c, d]);
        let host = match style {
            0 => format!("10.{b}.{c}.{d}"),
            1 => number.to_string(),
            2 => format!("{number:#x}"),
            3 => format!("012.{b:#o}.{c}.{d:#x}").replace("0o", "0"),
            4 => format!("[::ffff:10.{b}.{c}.{d}]"),
            _ => format!("[64:ff9b::{:x}:{:x}]", number >> 16, number & 0xffff),
        };
        prop_assert!(UrlPolicy::default().parse(&format!("http://{host}/")).is_err(), "{}", host);
    }
}
