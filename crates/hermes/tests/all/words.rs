//! Chat messages with a special meaning: skills, references, commands of the program.

use hermes_testkit::telegram::FakeTelegram;
use hermes_testkit::{ModelScript, ModelServer, TempHome};
use serde_json::json;

use super::life::{GatewayChild, TELEGRAM_TOKEN, start_gateway_of};
use super::support::{program, until, until_found};

const ANN: i64 = 7;

/// A gateway on Telegram that knows Ann, with a model that repeats its input.
struct TelegramChatFixture {
    telegram: FakeTelegram,
    server: ModelServer,
    home: TempHome,
    _gateway: GatewayChild,
}

impl TelegramChatFixture {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, |_| program())
    }

    /// Creates a fixture whose gateway is the program that `install` puts into the home.
    fn with(files: &[(&str, &str)], install: impl FnOnce(&TempHome) -> String) -> Self {
        let telegram = FakeTelegram::start(TELEGRAM_TOKEN).unwrap();
        let server = ModelServer::start_blocking(ModelScript::new().echo()).unwrap();
        let config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "m"},
            "platforms": {"telegram": {"extra": {"base_url": telegram.base_url()}}},
        });
        let env = format!(
            "TELEGRAM_BOT_TOKEN={TELEGRAM_TOKEN}\nTELEGRAM_ALLOWED_USERS={ANN}\nTELEGRAM_HOME_CHANNEL={ANN}\n"
        );
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
        std::fs::create_dir_all(home.join("user")).unwrap();
        for (name, text) in files {
            let path = home.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let gateway = start_gateway_of(&install(&home), &home);
        Self { telegram, server, home, _gateway: gateway }
    }

    fn says(&self, text: &str) {
        self.telegram.person(ANN, "Ann").says(ANN, text);
    }

    fn hears(&self, part: &str) -> String {
        let said = || self.telegram.messages(ANN).into_iter().map(|posted| posted.text);
        let what = || format!("{part}; there is {:#?}", said().collect::<Vec<_>>());
        until_found(what, || said().find(|text| text.contains(part)))
    }

    /// Returns the request whose question contains this text.
    fn asked(&self, part: &str) -> String {
        let what = || format!("a question with {part}");
        until_found(what, || {
            let requests = self.server.requests();
            requests.iter().map(|request| request.body_text().into_owned()).find(|body| body.contains(part))
        })
    }
}

#[test]
fn skills_are_called_by_name_and_a_plan_needs_none() {
    let chat = TelegramChatFixture::new(&[
        (
            "skills/media/cut-video/SKILL.md",
            "---\nname: Cut Video\ndescription: Cuts clips\n---\nUse ffmpeg.\n",
        ),
        ("skills/media/cut-video/references/formats.md", "mp4\n"),
    ]);
    chat.says("/help");
    assert!(chat.hears("/cut-video").contains("Cuts clips"));
    chat.says("/reload-mcp");
    chat.hears("No MCP servers are configured.");
    chat.says("/cut_video the first minute");
    let body = chat.asked("Use ffmpeg.");
    assert!(body.contains(r#"invoked the \"cut-video\" skill"#), "{body}");
    assert!(body.contains("references/formats.md") && body.contains("the first minute"), "{body}");
    chat.hears("Use ffmpeg.");
    chat.says("/plan Move the API to v2");
    let body = chat.asked(r#"invoked the \"plan\" skill"#);
    assert!(body.contains("-move-the-api-to-v2.md]"), "{body}");
    chat.hears("move-the-api");
}

#[test]
fn a_message_points_at_files_of_the_working_folder() {
    let chat = TelegramChatFixture::new(&[("user/notes.md", "one\ntwo\n"), ("user/.ssh/id_rsa", "hush\n")]);
    chat.says("read @file:notes.md:2 and @file:.ssh/id_rsa");
    let body = chat.asked("--- Attached Context ---");
    assert!(body.contains("```md\\ntwo\\n```") && !body.contains("hush"), "{body}");
    chat.hears("Attached Context");
    std::fs::write(chat.home.join("user/long.txt"), "word ".repeat(200_000)).unwrap();
    chat.says("and @file:long.txt");
    chat.hears("more than half of the model's window");
    let asks = |request: &hermes_testkit::RecordedRequest| request.body_text().contains("long.txt");
    assert!(!chat.server.requests().iter().any(asks), "the model is not asked");
}

/// Creates an installation in the home that updates itself from a folder with this release, or with one that differs by a
/// byte; returns its program.
fn installed(home: &TempHome, sum: Option<&str>) -> String {
    let (folder, release) = (home.join("code"), home.join("releases/main"));
    for made in [folder.join("bin"), folder.join("venv/bin"), release.clone()] {
        std::fs::create_dir_all(made).unwrap();
    }
    let record = format!(
        "home={}\nrelease=file://{}\nunsigned=--allow-unsigned\n",
        home.path().display(),
        home.join("releases").display()
    );
    std::fs::write(folder.join(".hermes-install"), record).unwrap();
    std::os::unix::fs::symlink("../../bin/hermes", folder.join("venv/bin/hermes")).unwrap();
    let named = format!("hermes-{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let offered = release.join(&named);
    std::fs::copy(program(), &offered).unwrap();
    // What follows the last section of a program is not read.
    std::io::Write::write_all(&mut std::fs::File::options().append(true).open(&offered).unwrap(), b"\n")
        .unwrap();
    let own = std::process::Command::new("sha256sum").arg(&offered).output().unwrap().stdout;
    let own = String::from_utf8(own).unwrap();
    std::fs::write(release.join(format!("{named}.sha256")), sum.unwrap_or(&own)).unwrap();
    let place = folder.join("bin/hermes");
    std::fs::copy(program(), &place).unwrap();
    place.to_str().unwrap().to_owned()
}

#[test]
fn an_update_asked_for_in_a_chat_is_made_and_told_there() {
    use std::os::unix::fs::MetadataExt as _;
    let chat = TelegramChatFixture::with(&[(".update_check", "{}")], |home| installed(home, None));
    let inode =
        |chat: &TelegramChatFixture| std::fs::metadata(chat.home.join("code/bin/hermes")).unwrap().ino();
    let before = inode(&chat);
    chat.says("hello");
    chat.hears("hello");
    chat.says("/update");
    chat.hears("Starting Hermes update");
    let told = chat.hears("Hermes update finished.");
    assert!(told.contains("Update complete!") && told.contains("restarts with the new program"), "{told}");
    assert_ne!(inode(&chat), before, "the program was replaced");
    for left in [".update_check", ".update_pending.json", ".update_pending.claimed.json", ".update_exit_code"]
    {
        until(left, || !chat.home.join(left).exists());
    }
    chat.says("are you there?");
    chat.hears("are you there?");
}

#[test]
fn an_update_that_fails_leaves_the_old_program_and_says_why() {
    let chat = TelegramChatFixture::with(&[], |home| installed(home, Some("0000  hermes\n")));
    chat.says("/update");
    let told = chat.hears("Hermes update failed");
    assert!(told.contains("is not what its checksum says"), "{told}");
    chat.says("still there?");
    chat.hears("still there?");
}

#[test]
fn a_program_that_was_not_installed_says_so() {
    let chat = TelegramChatFixture::new(&[]);
    chat.says("/update");
    chat.hears("was not installed by install.sh");
}
