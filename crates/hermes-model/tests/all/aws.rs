//! Keys for AWS: profiles, programs, sign-ins and roles, against services on the loopback interface.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::Config;
use hermes_model::client::{AwsKeys, CredentialProvider, PresentedCredential};
use hermes_model::credential::{CommandFailure, CommandRunner, KeySource, ProgramInvocation, aws};
use hermes_types::{BoxFuture, Cancel};
use serde_json::{Value, json};

use super::issuer_fixture::{IssuerFixture, current};

#[tokio::test]
async fn aws_profiles() {
    let stage = IssuerFixture::new("", &json!({}), &[("AWS_PROFILE", "work")]).await;
    let folder = stage.home.join(".aws");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("config"), "[profile work]\nregion = eu-north-1\n").unwrap();
    let config = hermes_config::Config::from_text(Path::new("config.yaml"), "", &stage.context.env);
    let source = aws::AwsCredentialSource::find(&config, &stage.context.env);
    assert_eq!((source.region(), source.is_bearer()), ("eu-north-1", false));
    let credentials = KeySource::Aws(source).credentials(&stage.context);
    let told = current(&*credentials).await.unwrap_err();
    assert!(told.contains("`work`") && told.contains("hermes model"), "{told}");
    std::fs::write(
        folder.join("credentials"),
        "[work]\naws_access_key_id = AK\naws_secret_access_key = hidden\n",
    )
    .unwrap();
    let shown = current(&*credentials).await.unwrap();
    assert!(shown.contains("AK") && shown.contains("eu-north-1") && !shown.contains("hidden"), "{shown}");
}

fn find(stage: &IssuerFixture) -> aws::AwsCredentialSource {
    let config = Config::from_text(Path::new("config.yaml"), "", &stage.context.env);
    aws::AwsCredentialSource::find(&config, &stage.context.env)
}

async fn keys(credentials: &dyn CredentialProvider) -> Result<AwsKeys, String> {
    match credentials.current(&Cancel::new()).await {
        Ok(PresentedCredential::Aws(keys)) => Ok(keys),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

fn granted(name: &str) -> Value {
    json!({"AccessKeyId": name, "SecretAccessKey": "hidden", "Token": "session", "Expiration": "2026-01-02T04:04:05Z"})
}

fn answer(when: &str, body: &str) -> String {
    format!("  - when: {{{when}}}\n    http: {{status: 200, body: {body}}}\n")
}

#[tokio::test]
async fn the_role_of_a_machine() {
    const ROLE: &str = "/metadata/latest/meta-data/iam/security-credentials/";
    let replies = answer("path: /metadata/latest/api/token, method: PUT", "'tok'")
        + &answer(&format!("path: {ROLE}, headers: {{x-aws-ec2-metadata-token: tok}}"), "'my-role'")
        + &answer(&format!("path: {ROLE}my-role"), &granted("M1").to_string())
        + &answer("path: /metadata/latest/api/token, method: PUT", "'tok'")
        + &answer(&format!("path: {ROLE}"), "'my-role'")
        + &answer(&format!("path: {ROLE}my-role"), &granted("M2").to_string());
    let stage = IssuerFixture::still(&replies, &[("AWS_REGION", "eu-west-1")]).await;
    let credentials = KeySource::Aws(find(&stage)).credentials(&stage.context);
    let first = keys(&*credentials).await.unwrap();
    assert_eq!((first.access_key.as_str(), first.region.as_str()), ("M1", "eu-west-1"));
    assert_eq!(first.session_token.as_ref().map(hermes_types::Secret::expose), Some("session"));
    // The keys are cached until shortly before they expire, and then renewed.
    assert_eq!(keys(&*credentials).await.unwrap().access_key, "M1");
    stage.server.assert_requests(3);
    stage.clock.advance(Duration::from_mins(56));
    assert_eq!(keys(&*credentials).await.unwrap().access_key, "M2");
}

#[tokio::test]
async fn no_role_is_said_in_words() {
    let stage = IssuerFixture::still("", &[]).await;
    let told = keys(&*KeySource::Aws(find(&stage)).credentials(&stage.context)).await.unwrap_err();
    assert!(told.contains("no role") && told.contains("AWS_PROFILE"), "{told}");
    // When the metadata service is disabled, no request is sent.
    let stage = IssuerFixture::still("", &[("AWS_EC2_METADATA_DISABLED", "true")]).await;
    let told = keys(&*KeySource::Aws(find(&stage)).credentials(&stage.context)).await.unwrap_err();
    assert!(told.contains("`default` holds no keys"), "{told}");
    stage.server.assert_requests(0);
}

#[tokio::test]
async fn the_role_of_a_container() {
    let when = "path: /container/v2/role, headers: {authorization: 'Basic x'}";
    let env = [
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/role"),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic x"),
    ];
    let stage = IssuerFixture::still(&answer(when, &granted("C1").to_string()), &env).await;
    assert!(aws::is_detectable(&stage.context.env));
    assert_eq!(
        keys(&*KeySource::Aws(find(&stage)).credentials(&stage.context)).await.unwrap().access_key,
        "C1"
    );
    // A full URL must be one that keys may be fetched from.
    let stage =
        IssuerFixture::still("", &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.test/role")]).await;
    let told = keys(&*KeySource::Aws(find(&stage)).credentials(&stage.context)).await.unwrap_err();
    assert!(told.contains("neither secure nor on this machine"), "{told}");
}

#[tokio::test]
async fn a_token_is_exchanged_for_a_role() {
    let xml = "<R><Credentials><AccessKeyId>W1</AccessKeyId><SecretAccessKey>hidden</SecretAccessKey><SessionToken>s</SessionToken><Expiration>2026-01-02T04:04:05Z</Expiration></Credentials></R>";
    let replies = answer("path: /sts-us-west-2/, body_contains: 'WebIdentityToken=jwt'", &format!("'{xml}'"));
    let mut stage = IssuerFixture::still(&replies, &[]).await;
    std::fs::write(stage.home.join("token"), "jwt\n").unwrap();
    let file = stage.home.join("token").to_string_lossy().into_owned();
    let env = [
        ("AWS_REGION", "us-west-2"),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &file),
    ];
    stage.context.env = hermes_config::Env::from_pairs(env);
    assert!(aws::is_detectable(&stage.context.env));
    let credentials = KeySource::Aws(find(&stage)).credentials(&stage.context);
    assert_eq!(keys(&*credentials).await.unwrap().access_key, "W1");
    let asked = stage.server.request(0).body_text().into_owned();
    assert!(asked.contains("Action=AssumeRoleWithWebIdentity") && asked.contains("role%2Fr"), "{asked}");
    assert!(!format!("{credentials:?}").contains("hidden"));
}

#[tokio::test]
async fn a_sign_in_of_awss_own_tools() {
    let body = json!({"roleCredentials": {"accessKeyId": "S1", "secretAccessKey": "hidden", "sessionToken": "s", "expiration": 1_767_326_645_000_u64}});
    let replies = answer(
        "path: /sso-eu-central-1/federation/credentials, headers: {x-amz-sso_bearer_token: sso-token}",
        &body.to_string(),
    );
    let stage = IssuerFixture::still(&replies, &[("AWS_PROFILE", "corp")]).await;
    let (folder, cache) = (stage.home.join(".aws"), stage.home.join(".aws/sso/cache"));
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::write(
        folder.join("config"),
        "[profile corp]\nsso_session = main\nsso_account_id = 123\nsso_role_name = dev\n[sso-session main]\nsso_start_url = https://corp.example/start\nsso_region = eu-central-1\n",
    )
    .unwrap();
    let credentials = KeySource::Aws(find(&stage)).credentials(&stage.context);
    let told = keys(&*credentials).await.unwrap_err();
    assert!(told.contains("aws sso login --profile corp"), "{told}");
    let sign_in = |token: &str, until: &str| {
        json!({"startUrl": "https://corp.example/start", "accessToken": token, "expiresAt": until})
            .to_string()
    };
    std::fs::write(cache.join("old.json"), sign_in("old", "2026-01-01T00:00:00Z")).unwrap();
    std::fs::write(cache.join("other.json"), "{}").unwrap();
    assert!(keys(&*credentials).await.is_err());
    std::fs::write(cache.join("new.json"), sign_in("sso-token", "2026-01-03T00:00:00Z")).unwrap();
    assert_eq!(keys(&*credentials).await.unwrap().access_key, "S1");
    assert_eq!(
        stage.server.request(0).target(),
        "/sso-eu-central-1/federation/credentials?role_name=dev&account_id=123"
    );
}

/// A runner that prints a scripted output and records the programs it ran.
#[derive(Debug, Default)]
struct ScriptedCommands {
    prints: String,
    ran: Mutex<Vec<ProgramInvocation>>,
}

impl CommandRunner for ScriptedCommands {
    fn output<'a>(
        &'a self,
        line: &'a ProgramInvocation,
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<Vec<u8>, CommandFailure>> {
        self.ran.lock().unwrap().push(line.clone());
        Box::pin(async { Ok(self.prints.clone().into_bytes()) })
    }
}

#[tokio::test]
async fn a_program_that_prints_keys() {
    let mut stage = IssuerFixture::still("", &[("AWS_PROFILE", "tool")]).await;
    std::fs::create_dir_all(stage.home.join(".aws")).unwrap();
    std::fs::write(
        stage.home.join(".aws/config"),
        "[profile tool]\ncredential_process = \"/opt/a b\" --json\n",
    )
    .unwrap();
    // Without a runner, the error says so.
    let told = keys(&*KeySource::Aws(find(&stage)).credentials(&stage.context)).await.unwrap_err();
    assert!(told.contains("credential_process") && told.contains("cannot be run here"), "{told}");
    let program =
        Arc::new(ScriptedCommands { prints: granted("P1").to_string(), ..ScriptedCommands::default() });
    stage.context = stage.context.clone().with_commands(program.clone());
    assert_eq!(
        keys(&*KeySource::Aws(find(&stage)).credentials(&stage.context)).await.unwrap().access_key,
        "P1"
    );
    assert_eq!(*program.ran.lock().unwrap(), [ProgramInvocation::new("/opt/a b", &["--json"])]);
    let silent = Arc::new(ScriptedCommands { prints: "hidden".to_owned(), ..ScriptedCommands::default() });
    stage.context = stage.context.clone().with_commands(silent);
    let told = keys(&*KeySource::Aws(find(&stage)).credentials(&stage.context)).await.unwrap_err();
    assert!(told.contains("printed no keys") && !told.contains("hidden"), "{told}");
}

#[tokio::test]
async fn the_token_of_githubs_own_program() {
    let mut stage = IssuerFixture::still("", &[]).await;
    let told = current(&*KeySource::Gh.credentials(&stage.context)).await.unwrap_err();
    assert!(told.contains("COPILOT_GITHUB_TOKEN"), "{told}");
    for (prints, expected) in
        [("gho_1234\n", Ok("gho_1234")), ("ghp_classic", Err("classic")), ("", Err("no token"))]
    {
        stage.context = stage.context.clone().with_commands(Arc::new(ScriptedCommands {
            prints: prints.to_owned(),
            ..ScriptedCommands::default()
        }));
        let shown = current(&*KeySource::Gh.credentials(&stage.context)).await;
        match expected {
            Ok(token) => assert_eq!(shown.as_deref(), Ok(token)),
            Err(word) => assert!(shown.unwrap_err().contains(word)),
        }
    }
}
