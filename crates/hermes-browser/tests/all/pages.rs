//! What a session does with real pages in a real browser.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use hermes_browser::{
    BrowserError, ClearMessages, DownloadReport, KeyEffect, RecordingOptions, ScreenshotMarks,
    ScrollDirection, SnapshotDetail,
};
use hermes_exec::ProgramRunner;
use hermes_types::{Cancel, CivilTime};

use super::support::{BrowserFixture, files, reference, text};

#[tokio::test]
async fn peer_chromium_fills_in_a_form_and_goes_back() {
    let Some(fixture) = BrowserFixture::new() else { return };
    let mut use_of = fixture.session("t").await;
    let session = use_of.session().unwrap();
    let arrival = session.navigate(&fixture.site.url("/moved")).await.unwrap();
    assert_eq!((arrival.url, arrival.title.as_str()), (fixture.site.url("/login"), "Sign in"));
    let page = text(&mut use_of).await;
    assert!(page.text.contains("- heading \"Sign in\" [level=1]"), "{}", page.text);
    let session = use_of.session().unwrap();
    session.fill(&reference(&page, "textbox \"User name\""), "wrong").await.unwrap();
    session.fill(&reference(&page, "textbox \"User name\""), "Ada").await.unwrap();
    session.fill(&reference(&page, "textbox \"Password\""), "p w&x").await.unwrap();
    session.fill(&reference(&page, "combobox \"Team\""), "beta").await.unwrap();
    session.fill(&reference(&page, "date \"Birthday\""), "2001-02-03").await.unwrap();
    session.click(&reference(&page, "checkbox")).await.unwrap();
    let filled = text(&mut use_of).await;
    assert!(filled.text.contains("User name\" [required, ref=e1]: Ada"), "{}", filled.text);
    assert!(!filled.text.contains("p w&x"), "a password is not shown: {}", filled.text);
    let session = use_of.session().unwrap();
    assert_eq!(session.click(&reference(&page, "button \"Sign in\"")).await.unwrap(), None);
    let welcome = text(&mut use_of).await;
    assert!(welcome.text.contains("Hello Ada"), "{}", welcome.text);
    assert!(welcome.text.contains("password p w&x, team b, stay on, day 2001-02-03"), "{}", welcome.text);
    let session = use_of.session().unwrap();
    let stale = session.click(&reference(&page, "button \"Sign in\"")).await.unwrap_err();
    assert!(stale.to_string().contains("browser_snapshot"), "{stale}");
    assert_eq!(session.back().await.unwrap().title, "Sign in");
    let nothing = session.back().await.unwrap_err();
    assert!(nothing.to_string().contains("no page to go back to"), "{nothing}");
    drop(use_of);
    assert!(fixture.pool.close(&"t".into()).await.is_some());
    assert!(fixture.pool.close(&"t".into()).await.is_none());
    assert_eq!(files(fixture.folder.path()), ["downloads"], "the profile is gone");
}

#[tokio::test]
async fn peer_chromium_reads_and_uses_frames_and_shadows() {
    let Some(fixture) = BrowserFixture::new() else { return };
    let mut use_of = fixture.at("/frames").await;
    let page = text(&mut use_of).await;
    assert_eq!(page.text.matches("button \"Send the word\"").count(), 2, "{}", page.text);
    let (same, other) = page.text.split_once("iframe \"other site\"").unwrap();
    let in_part = |part: &str, what: &str| {
        let line = part.lines().find(|line| line.contains(what)).unwrap();
        format!("@{}", line.split_once("ref=").unwrap().1.split([',', ']']).next().unwrap())
    };
    for (part, word) in [(same, "one"), (other, "two")] {
        let session = use_of.session().unwrap();
        session.fill(&in_part(part, "textbox"), word).await.unwrap();
        session.click(&in_part(part, "Send the word")).await.unwrap();
    }
    let session = use_of.session().unwrap();
    session.click(&reference(&page, "button \"In the shadow\"")).await.unwrap();
    let after = text(&mut use_of).await;
    for expected in ["Got one", "Got two", "Shadow clicked"] {
        assert!(after.text.contains(expected), "{expected}: {}", after.text);
    }
    drop(use_of);
    fixture.pool.close_all().await;
}

#[tokio::test]
async fn peer_chromium_answers_dialogs_saves_files_and_follows_tabs() {
    let Some(fixture) = BrowserFixture::new() else { return };
    let mut use_of = fixture.at("/links").await;
    let page = text(&mut use_of).await;
    let session = use_of.session().unwrap();
    session.click(&reference(&page, "button \"Save\"")).await.unwrap();
    assert_eq!(session.take_reports().dialogs, ["alert: Saved (accepted)"]);

    session.click(&reference(&page, "button \"Delete\"")).await.unwrap();
    assert_eq!(session.open_dialog().unwrap().message, "Delete it all?");
    let blocked = session.snapshot(SnapshotDetail::Compact).await.unwrap_err();
    assert!(blocked.to_string().contains("Enter for OK"), "{blocked}");
    assert_eq!(session.press("Enter").await.unwrap(), KeyEffect::AnsweredDialog);
    assert!(text(&mut use_of).await.text.contains("deleted: true"));

    let session = use_of.session().unwrap();
    session.click(&reference(&page, "button \"Rename\"")).await.unwrap();
    session.fill("@dialog", "Ada").await.unwrap();
    session.press("Enter").await.unwrap();
    assert!(text(&mut use_of).await.text.contains("name: Ada"));

    let session = use_of.session().unwrap();
    session.click(&reference(&page, "clickable \"Open the card\"")).await.unwrap();
    assert!(text(&mut use_of).await.text.contains("card opened"));

    let session = use_of.session().unwrap();
    session.click(&reference(&page, "textbox \"Keys\"")).await.unwrap();
    assert_eq!(session.press("ArrowDown").await.unwrap(), KeyEffect::Pressed);
    assert!(text(&mut use_of).await.text.contains("pressed ArrowDown"));

    let session = use_of.session().unwrap();
    session.click(&reference(&page, "link \"Download the report\"")).await.unwrap();
    let reports = session.take_reports();
    let [DownloadReport::Saved { path, bytes: 18 }] = reports.downloads.as_slice() else {
        panic!("{reports:?}")
    };
    assert_eq!(std::fs::read_to_string(path).unwrap(), "name,value\nboat,7\n");
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(path.to_string_lossy().ends_with("_report.csv"), "{path:?}");

    let images = session.images().await.unwrap().unwrap();
    assert_eq!((images.len(), images[0]["alt"].as_str()), (1, Some("a dot")));

    session.click(&reference(&page, "link \"New tab\"")).await.unwrap();
    assert_eq!(session.arrival().await.unwrap().title, "Sign in");
    assert_eq!(session.take_reports().new_tabs, [fixture.site.url("/login")]);
    assert_eq!(session.back().await.unwrap().title, "Other things", "the tab is closed");
    drop(use_of);
    fixture.pool.close_all().await;
}

#[tokio::test]
async fn peer_chromium_opens_no_private_address_for_anybody() {
    let Some(fixture) = BrowserFixture::new() else { return };
    let mut use_of = fixture.session("t").await;
    let session = use_of.session().unwrap();
    let private = fixture.site.url("/secret").replace("site.example", "127.0.0.1");
    for address in [
        private.as_str(),
        "http://inside.example/",
        "http://nowhere.example/",
        "file:///etc/passwd",
        "http://[::1]/",
    ] {
        let error = session.navigate(address).await.unwrap_err();
        assert!(matches!(error, BrowserError::Denied(_)), "{address}: {error}");
    }
    for path in ["/leads-inside", "/leads-to-metadata", "/jumps"] {
        let error = session.navigate(&fixture.site.url(path)).await.unwrap_err();
        assert!(matches!(error, BrowserError::DeniedRedirect(_)), "{path}: {error}");
        assert!(error.to_string().contains("redirect"), "{error}");
        assert_eq!(session.arrival().await.unwrap().url, "about:blank", "{path}");
    }
    session.navigate(&fixture.site.url("/inside")).await.unwrap();
    // The page tells when each of its attempts has failed.
    let mut page = text(&mut use_of).await.text;
    while page.contains("waiting") {
        page = text(&mut use_of).await.text;
    }
    for attempt in ["fetched refused", "socket refused", "worker refused"] {
        assert!(page.contains(attempt), "{attempt}: {page}");
    }
    assert!(!page.contains("the secret"), "{page}");
    let reports = use_of.session().unwrap().take_reports();
    assert!(reports.refused.iter().any(|report| report.contains("127.0.0.1")), "{reports:?}");
    assert!(!fixture.site.visits().iter().any(|path| path == "/secret" || path == "/socket"));
    drop(use_of);
    fixture.pool.close_all().await;
}

#[tokio::test]
async fn peer_chromium_shows_errors_scrolls_and_takes_marked_pictures() {
    let Some(fixture) = BrowserFixture::new() else { return };
    let mut use_of = fixture.at("/errors").await;
    let session = use_of.session().unwrap();
    let messages = session.messages(ClearMessages::Yes);
    let lines: Vec<(&str, &str)> =
        messages.console.iter().map(|message| (message.kind.as_str(), message.text.as_str())).collect();
    assert!(lines.contains(&("log", "it begins 7 Object")), "{lines:?}");
    assert!(lines.contains(&("error", "something is wrong")), "{lines:?}");
    assert!(messages.exceptions.iter().any(|text| text.contains("undefinedFunction")), "{messages:?}");
    assert_eq!(session.messages(ClearMessages::No), hermes_browser::PageMessages::default());

    session.navigate(&fixture.site.url("/endless")).await.unwrap();
    let mut seen = 0.0;
    for _ in 0..5 {
        let position = session.scroll(ScrollDirection::Down).await.unwrap();
        assert!(position.moved && position.seen > seen, "{position:?}");
        seen = position.seen;
    }
    assert!(text(&mut use_of).await.text.contains("Row 60"), "scrolling adds rows");
    let session = use_of.session().unwrap();
    while session.scroll(ScrollDirection::Up).await.unwrap().moved {}

    session.navigate(&fixture.site.url("/login")).await.unwrap();
    let plain = session.screenshot(ScreenshotMarks::None).await.unwrap();
    let marked = session.screenshot(ScreenshotMarks::Numbered).await.unwrap();
    assert!(plain.png.starts_with(b"\x89PNG") && plain.marks.is_empty());
    let names: Vec<&str> = marked.marks.iter().map(|(_, element)| element.name.as_str()).collect();
    assert!(names.contains(&"User name") && names.contains(&"Sign in"), "{names:?}");
    assert_ne!(plain.png, marked.png, "the marks are in the picture");
    assert_eq!(session.screenshot(ScreenshotMarks::None).await.unwrap().png, plain.png, "and are gone again");
    let missing = session.navigate("http://site.example:1/").await.unwrap_err();
    assert!(missing.to_string().contains("could not be opened"), "{missing}");
    drop(use_of);
    fixture.pool.close_all().await;
}

#[tokio::test]
async fn peer_chromium_keeps_ten_sessions_apart() {
    let Some(fixture) = BrowserFixture::new() else { return };
    let visits = (0..10).map(|number| {
        let fixture = &fixture;
        async move {
            let mut use_of = fixture.session(&format!("task {number}")).await;
            let session = use_of.session().unwrap();
            session.navigate(&fixture.site.url("/login")).await.unwrap();
            let page = text(&mut use_of).await;
            let session = use_of.session().unwrap();
            session
                .fill(&reference(&page, "textbox \"User name\""), &format!("user {number}"))
                .await
                .unwrap();
            session.click(&reference(&page, "button \"Sign in\"")).await.unwrap();
            let welcome = text(&mut use_of).await.text;
            assert!(welcome.contains(&format!("Hello user {number}")), "{number}: {welcome}");
        }
    });
    futures_util::future::join_all(visits).await;
    assert_eq!(fixture.pool.open_sessions(), 10);
    fixture.pool.close_all().await;
    assert_eq!(fixture.pool.open_sessions(), 0);
    assert_eq!(files(fixture.folder.path()), ["downloads"]);
}

#[tokio::test]
async fn peer_chromium_is_closed_when_it_is_idle_and_not_before() {
    let Some(mut fixture) = BrowserFixture::new() else { return };
    fixture.options.idle_timeout = Duration::from_millis(300);
    let in_use = fixture.at("/login").await;
    let other = fixture.session("other").await;
    drop(other);
    while fixture.pool.open_sessions() > 1 {
        tokio::task::yield_now().await;
    }
    assert!(files(fixture.folder.path()).len() > 1, "the one that is used stays open");
    drop(in_use);
    while fixture.pool.open_sessions() > 0 || files(fixture.folder.path()).len() > 1 {
        tokio::task::yield_now().await;
    }
    let page = fixture.at("/welcome").await;
    drop(page);
    fixture.pool.close_all().await;
}

#[tokio::test]
async fn peer_chromium_is_started_again_after_it_has_ended() {
    let Some(fixture) = BrowserFixture::new() else { return };
    let mut use_of = fixture.at("/login").await;
    let session = use_of.session().unwrap();
    let crash = session.navigate("chrome://crash").await.unwrap_err();
    assert!(matches!(crash, BrowserError::Denied(_)), "{crash}");
    drop(use_of);
    fixture.pool.close_all().await;
    let mut again = fixture.session("t").await;
    assert!(again.session().unwrap().is_open());
    let interrupted = Cancel::new();
    interrupted.cancel();
    let refused = fixture.pool.session(&"other".into(), &fixture.options, &interrupted).await.unwrap_err();
    assert_eq!(refused, BrowserError::Cancelled);
    drop(again);
    fixture.pool.close_all().await;
    let _ = &fixture.clock;
}

#[tokio::test]
async fn peer_chromium_gives_files_to_a_field_and_to_what_asks_for_one() {
    let Some(fixture) = BrowserFixture::new() else { return };
    let file = |name: &str, text: &str| {
        let path = fixture.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (first, second) = (file("tide.csv", "noon,2"), file("boat.csv", "seven"));
    let mut use_of = fixture.at("/files").await;
    let page = text(&mut use_of).await;
    let session = use_of.session().unwrap();
    let early = session.upload("@file", std::slice::from_ref(&first)).await.unwrap_err();
    assert!(early.to_string().contains("no page asks for a file"), "{early}");
    let field = reference(&page, "button \"Report");
    assert!(session.takes_files(&field).await.unwrap());
    assert!(!session.takes_files(&reference(&page, "button \"Attach\"")).await.unwrap());
    session.upload(&field, &[first.clone(), second]).await.unwrap();
    assert!(text(&mut use_of).await.text.contains("report: tide.csv=noon,2; boat.csv=seven"));
    let session = use_of.session().unwrap();
    session.click(&reference(&page, "button \"Attach\"")).await.unwrap();
    assert!(session.take_reports().file_chooser);
    session.upload("@file", &[first]).await.unwrap();
    assert!(text(&mut use_of).await.text.contains("hidden: tide.csv=noon,2"));
    drop(use_of);
    fixture.pool.close_all().await;
}

#[tokio::test]
async fn peer_chromium_goes_on_after_a_dialog_that_nobody_answers() {
    let Some(mut fixture) = BrowserFixture::new() else { return };
    fixture.options.dialogs.timeout = Duration::from_millis(200);
    let mut use_of = fixture.at("/links").await;
    let page = text(&mut use_of).await;
    let session = use_of.session().unwrap();
    session.click(&reference(&page, "button \"Delete\"")).await.unwrap();
    let clock = &*fixture.clock;
    for _ in 0..600 {
        if session.open_dialog().is_none() {
            break;
        }
        clock.sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(session.take_reports().dialogs, ["confirm: Delete it all? (dismissed after 0 s)"]);
    assert!(text(&mut use_of).await.text.contains("deleted: false"));
    drop(use_of);
    fixture.pool.close_all().await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test looks at the video with the system's program")]
async fn peer_chromium_is_recorded_where_the_user_wants_it() {
    let Some(mut fixture) = BrowserFixture::new() else { return };
    let folder = fixture.folder.path().join("browser_recordings");
    let variables = fixture.options.local.variables.clone();
    fixture.options.recordings = Some(RecordingOptions {
        folder: folder.clone(),
        programs: ProgramRunner::new(variables, fixture.clock.clone()),
        local_time: CivilTime::utc,
    });
    if !Path::new("/usr/bin/ffmpeg").exists() {
        return hermes_testkit::peer_is_missing("ffmpeg");
    }
    let mut use_of = fixture.at("/links").await;
    let session = use_of.session().unwrap();
    assert_eq!(session.take_features().unwrap().recording_problem, None);
    session.navigate(&fixture.site.url("/login")).await.unwrap();
    session.navigate(&fixture.site.url("/frames")).await.unwrap();
    drop(use_of);
    let closed = fixture.pool.close(&"t".into()).await.unwrap();
    let video = closed.recording.expect("a video");
    assert_eq!(files(&folder), [video.file_name().unwrap().to_string_lossy()]);
    let probed = std::process::Command::new("ffprobe")
        .args(["-v", "error", "-of", "csv=p=0", "-show_entries", "stream=codec_name,width"])
        .arg(&video)
        .output()
        .unwrap();
    let probed = String::from_utf8_lossy(&probed.stdout).into_owned();
    assert!(probed.starts_with("vp8,"), "{probed}");
    fixture.pool.close_all().await;
}
