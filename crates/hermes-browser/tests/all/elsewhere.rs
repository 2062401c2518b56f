//! Browsers that Hermes did not start: at an address, and rented from a service.

use std::process::{Child, Command, Stdio};

use hermes_browser::{BrowserError, BrowserPlace, BrowserbaseOptions, CloudService};
use hermes_testkit::{WEB_SERVICE_KEY, WebServiceFault, WebServices};
use hermes_types::{Cancel, Secret};
use serde_json::json;

use super::support::{BrowserFixture, reference, text};

/// A browser that a user started, for which names of the public web are this machine.
struct UsersBrowser {
    child: Child,
    /// The address of its port.
    address: String,
    /// The address of its socket.
    socket: String,
    _profile: tempfile::TempDir,
}

impl UsersBrowser {
    #[expect(clippy::disallowed_methods, reason = "a test starts the browser of a user")]
    fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let child = Command::new("chromium")
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--remote-debugging-port=0",
            ])
            .arg("--host-resolver-rules=MAP *.example 127.0.0.1")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port_file = profile.path().join("DevToolsActivePort");
        let said = loop {
            match std::fs::read_to_string(&port_file) {
                Ok(said) if said.lines().count() == 2 => break said,
                _ => std::thread::yield_now(),
            }
        };
        let (port, path) = said.split_once('\n').unwrap();
        let address = format!("127.0.0.1:{port}");
        let socket = format!("ws://{address}{}", path.trim());
        Self { child, address, socket, _profile: profile }
    }
}

impl Drop for UsersBrowser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn peer_chromium_of_a_user_is_used_at_its_address_and_left_running() {
    let Some(mut fixture) = BrowserFixture::new() else { return };
    let browser = UsersBrowser::start();
    for address in
        [format!("http://{}", browser.address), format!("ws://{}", browser.address), browser.socket.clone()]
    {
        fixture.options.place = BrowserPlace::Address(address);
        let mut use_of = fixture.at("/links").await;
        let page = text(&mut use_of).await;
        let session = use_of.session().unwrap();
        assert_eq!(session.take_features().unwrap().names, ["cdp_override"]);
        session.click(&reference(&page, "link \"New tab\"")).await.unwrap();
        assert_eq!(session.arrival().await.unwrap().title, "Sign in");
        // Requests of all pages are judged, and files stay where the browser is.
        let error = session.navigate(&fixture.site.url("/leads-inside")).await.unwrap_err();
        assert!(matches!(error, BrowserError::DeniedRedirect(_)), "{error}");
        session.navigate(&fixture.site.url("/inside")).await.unwrap();
        let mut shown = text(&mut use_of).await.text;
        while shown.contains("fetched waiting")
            || shown.contains("text: waiting") && !shown.contains("fetched")
        {
            shown = text(&mut use_of).await.text;
        }
        assert!(shown.contains("fetched refused") && !shown.contains("the secret"), "{shown}");
        drop(use_of);
        fixture.pool.close_all().await;
    }
    assert!(!fixture.site.visits().contains(&"/secret".to_owned()));
    fixture.options.place = BrowserPlace::Nowhere("nothing is configured".to_owned());
    assert!(!fixture.pool.is_usable(&fixture.options));
    fixture.pool.connect(&browser.address, &fixture.options).await.unwrap();
    assert!(fixture.pool.is_usable(&fixture.options));
    fixture.at("/login").await;
    let nobody = fixture.pool.connect("127.0.0.1:9", &fixture.options).await.unwrap_err();
    assert!(nobody.to_string().contains("no browser answers at 127.0.0.1"), "{nobody}");
    assert_eq!(fixture.pool.disconnect().await.as_deref(), Some(browser.address.as_str()));
    let none = fixture.pool.session(&"t".into(), &fixture.options, &Cancel::new()).await.unwrap_err();
    assert_eq!(none.to_string(), "nothing is configured");
}

fn browserbase(services: &WebServices, key: &str) -> CloudService {
    CloudService::Browserbase(BrowserbaseOptions {
        key: Secret::new(key),
        project: "project-1".to_owned(),
        keep_alive: true,
        proxies: true,
        advanced_stealth: true,
        timeout: Some(60_000),
        base: services.base("browserbase"),
    })
}

#[tokio::test]
async fn peer_chromium_rented_from_a_service_is_given_back() {
    let Some(mut fixture) = BrowserFixture::new() else { return };
    let browser = UsersBrowser::start();
    let services = WebServices::start().unwrap();
    services.set_browser(&browser.socket);
    fixture.options.place = BrowserPlace::Cloud(browserbase(&services, WEB_SERVICE_KEY));
    // The plan includes neither long sessions nor proxies.
    let unpaid = || WebServiceFault::Refuse { status: 402, retry_after: None, body: "{}".to_owned() };
    services.fail_next(unpaid());
    services.fail_next(unpaid());
    let mut use_of = fixture.at("/login").await;
    let features = use_of.session().unwrap().take_features().unwrap();
    assert_eq!(features.names, ["browserbase", "advanced_stealth"]);
    assert!(features.warning.unwrap().contains("proxies"));
    drop(use_of);
    fixture.pool.close_all().await;
    let bodies: Vec<_> = services.requests().into_iter().map(|request| request.body).collect();
    let rest =
        json!({"projectId": "project-1", "timeout": 60_000, "browserSettings": {"advancedStealth": true}});
    let with = |more: serde_json::Value| {
        let mut body = rest.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    assert_eq!(
        bodies[..3],
        [with(json!({"keepAlive": true, "proxies": true})), with(json!({"proxies": true})), rest.clone()]
    );
    assert_eq!(bodies[3], json!({"projectId": "project-1", "status": "REQUEST_RELEASE"}));

    let key = Secret::new(WEB_SERVICE_KEY);
    fixture.options.place =
        BrowserPlace::Cloud(CloudService::BrowserUse { key, base: services.base("browser-use") });
    drop(fixture.at("/login").await);
    fixture.pool.close_all().await;
    let last = services.requests().pop().unwrap();
    assert_eq!(
        (last.target.as_str(), &last.body),
        ("/browser-use/browsers/rented-2", &json!({"action": "stop"}))
    );
}

#[tokio::test]
async fn a_service_that_rents_nothing_says_why_and_what_it_rented_is_given_back() {
    let mut fixture = BrowserFixture::without_browser();
    let services = WebServices::start().unwrap();
    fixture.options.place = BrowserPlace::Cloud(browserbase(&services, "wrong-key-0123456789"));
    let refused = fixture.refusal().await;
    assert!(
        refused.contains("HTTP 401") && refused.contains("Check the key") && !refused.contains("0123456789"),
        "{refused}"
    );
    // The browser that it names does not answer.
    services.set_browser("ws://127.0.0.1:9/devtools/browser/x?key=hidden");
    fixture.options.place = BrowserPlace::Cloud(browserbase(&services, WEB_SERVICE_KEY));
    let unreachable = fixture.refusal().await;
    assert!(unreachable.contains("cannot be reached") && !unreachable.contains("hidden"), "{unreachable}");
    assert_eq!(services.requests().pop().unwrap().body["status"], "REQUEST_RELEASE");
    for (status, attempts, hint) in [(402, 3, "plan"), (429, 1, "limit of sessions")] {
        for _ in 0..attempts {
            let body = r#"{"message": "No"}"#.to_owned();
            services.fail_next(WebServiceFault::Refuse { status, retry_after: None, body });
        }
        let refused = fixture.refusal().await;
        assert!(refused.contains(hint) && refused.contains("No"), "{refused}");
    }
    assert_eq!(fixture.pool.open_sessions(), 0);
}
