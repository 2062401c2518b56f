//! A speech model in this process: its files, their download from an emulated hub, and what it hears.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hermes_config::settings::TranscriptionSettings;
use hermes_config::{Config, Env};
use hermes_exec::{ProgramRunner, Variables};
use hermes_net::{Config as NetConfig, HttpClient};
use hermes_testkit::{RealClock, SmallWhisperModel};
use hermes_tools::{LazyHttpClient, Transcriber};
use hermes_types::{Cancel, Clock};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

const REPOSITORY: &str = "openai/whisper-tiny";

/// What goes wrong with the next answer for the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
enum HubFault {
    /// The connection ends after so many bytes.
    CutOff(usize),
    /// As before, but the answer does not say how much is missing.
    Short(usize),
    /// A range is answered with the whole file.
    Whole,
    /// The last byte is another one.
    Damaged,
    /// After so many bytes, nothing more arrives.
    Stall(usize),
}

/// Hugging Face, as far as a download needs it.
struct ModelHub {
    address: String,
    faults: Arc<Mutex<Vec<HubFault>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ModelHub {
    fn start(files: BTreeMap<&'static str, Vec<u8>>, list: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let hub = Self { address, faults: Arc::default(), requests: Arc::default() };
        let (faults, requests) = (hub.faults.clone(), hub.requests.clone());
        std::thread::spawn(move || {
            // Kept open until the test ends.
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (path, range) = read_request(&stream);
                requests
                    .lock()
                    .unwrap()
                    .push(range.map_or(path.clone(), |from| format!("{path} from {from}")));
                if path == format!("/api/models/{REPOSITORY}/tree/main") {
                    answer(&mut stream, "200 OK", list.to_string().as_bytes(), usize::MAX);
                    continue;
                }
                let name = path.rsplit('/').next().unwrap();
                let Some(file) = files.get(name) else {
                    answer(&mut stream, "404 Not Found", b"", usize::MAX);
                    continue;
                };
                let is_weights = name == "model.safetensors";
                let fault = if is_weights { faults.lock().unwrap().pop() } else { None };
                let from = range.filter(|_| fault != Some(HubFault::Whole)).unwrap_or(0);
                let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
                let mut body = file[from..].to_vec();
                match fault {
                    Some(HubFault::Damaged) => *body.last_mut().unwrap() ^= 1,
                    Some(HubFault::Short(length)) => body.truncate(length),
                    _ => {}
                }
                match fault {
                    Some(HubFault::CutOff(length)) => answer(&mut stream, status, &body, length),
                    Some(HubFault::Stall(length)) => {
                        answer(&mut stream, status, &body, length);
                        open.push(stream);
                    }
                    _ => answer(&mut stream, status, &body, usize::MAX),
                }
            }
        });
        hub
    }

    fn fail(&self, fault: HubFault) {
        self.faults.lock().unwrap().push(fault);
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Returns the path of a request and where its range begins.
fn read_request(stream: &TcpStream) -> (String, Option<usize>) {
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let mut range = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some(from) = line.to_lowercase().strip_prefix("range: bytes=") {
            range = Some(from.trim_end_matches('-').parse().unwrap());
        }
    }
    (path, range)
}

/// Answers with a body, of which at most some bytes arrive.
fn answer(stream: &mut TcpStream, status: &str, body: &[u8], most: usize) {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let part = &body[..body.len().min(most)];
    // A client that has heard enough closes the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(part));
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

/// Returns the list of a repository as the hub gives it.
fn listed(files: &BTreeMap<&'static str, Vec<u8>>) -> Value {
    let entry = |(name, bytes): (&&str, &Vec<u8>)| {
        let blob = hex(&Sha1::digest([format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat()));
        let mut entry = json!({"type": "file", "path": name, "size": bytes.len(), "oid": blob});
        if *name == "model.safetensors" {
            entry["oid"] = json!("0123");
            entry["lfs"] =
                json!({"oid": hex(&Sha256::digest(bytes)), "size": bytes.len(), "pointerSize": 134});
        }
        entry
    };
    Value::Array(files.iter().map(entry).collect())
}

fn files() -> BTreeMap<&'static str, Vec<u8>> {
    let model = SmallWhisperModel::new().always_writes("Ġsails");
    BTreeMap::from([
        ("config.json", model.config.to_string().into_bytes()),
        ("tokenizer.json", model.tokenizer.to_string().into_bytes()),
        ("model.safetensors", model.weights()),
    ])
}

struct SpeechModel {
    folder: TempDir,
    hub: ModelHub,
    progress: Arc<Mutex<Vec<String>>>,
}

impl SpeechModel {
    fn new() -> Self {
        let files = files();
        let list = listed(&files);
        Self::with(files, list)
    }

    fn with(files: BTreeMap<&'static str, Vec<u8>>, list: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, hub: ModelHub::start(files, list), progress: Arc::default() }
    }

    fn models(&self) -> PathBuf {
        self.folder.path().join("models")
    }

    fn weights(&self) -> PathBuf {
        self.models().join("tiny/model.safetensors")
    }

    fn part(&self) -> PathBuf {
        self.models().join("tiny/model.safetensors.part")
    }

    fn transcriber(&self, yaml: &str, env: &[(&str, &str)]) -> Transcriber {
        let env = Env::from_pairs(env.iter().copied());
        let config = Config::from_text(Path::new("config.yaml"), yaml, &env);
        let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
        let net = NetConfig::new(clock.clone());
        let path = [("PATH", "/usr/bin:/bin")];
        let progress = self.progress.clone();
        Transcriber {
            settings: TranscriptionSettings::resolve(&config, &env).unwrap(),
            http: LazyHttpClient::new(move || {
                HttpClient::new(net.clone()).map_err(|error| error.to_string())
            }),
            programs: ProgramRunner::new(Variables::for_commands(path, &[], &[]), clock.clone()),
            clock,
            scratch: self.folder.path().join("scratch"),
            models: self.models(),
            model_hub: self.hub.address.clone(),
            progress: Arc::new(move |text| progress.lock().unwrap().push(text.to_owned())),
        }
    }

    /// Writes half a second of a tone and has it transcribed.
    async fn hear(&self, yaml: &str, env: &[(&str, &str)]) -> Result<String, String> {
        self.transcriber(yaml, env).transcribe(&self.tone(), &Cancel::new()).await
    }

    fn tone(&self) -> PathBuf {
        let path = self.folder.path().join("tone.wav");
        let samples: Vec<u8> = (0..8000_i16).flat_map(|at| (at % 40 * 400 - 8000).to_le_bytes()).collect();
        let mut file =
            b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data".to_vec();
        file.extend(u32::try_from(samples.len()).unwrap().to_le_bytes());
        file.extend(samples);
        std::fs::write(&path, file).unwrap();
        path
    }
}

const TINY: &str = "stt: {provider: local, local: {model: tiny}}";

#[tokio::test]
async fn a_missing_model_is_downloaded_once() {
    let speech = SpeechModel::new();
    assert_eq!(speech.hear(TINY, &[]).await.unwrap(), "sails");
    let requests = speech.hub.requests();
    assert_eq!(requests.len(), 4, "{requests:?}");
    assert_eq!(requests[0], format!("/api/models/{REPOSITORY}/tree/main"));
    assert_eq!(requests[3], format!("/{REPOSITORY}/resolve/main/model.safetensors"));
    assert_eq!(speech.hear(TINY, &[]).await.unwrap(), "sails");
    // A model that is here is the first choice.
    assert_eq!(speech.hear("stt: {local: {model: openai/whisper-tiny}}", &[]).await.unwrap(), "sails");
    assert_eq!(speech.hub.requests().len(), 4);
    assert!(!speech.part().exists());
}

#[tokio::test]
async fn a_broken_download_is_continued() {
    for fault in [HubFault::CutOff(1000), HubFault::Short(1000)] {
        let speech = SpeechModel::new();
        speech.hub.fail(fault);
        let error = speech.hear(TINY, &[]).await.unwrap_err();
        assert!(error.contains("the next attempt continues"), "{fault:?}: {error}");
        assert_eq!(std::fs::metadata(speech.part()).unwrap().len(), 1000, "{fault:?}");
        assert!(!speech.weights().exists());
        assert_eq!(speech.hear(TINY, &[]).await.unwrap(), "sails");
        assert!(speech.hub.requests().last().unwrap().ends_with("model.safetensors from 1000"));
    }
}

#[tokio::test]
async fn a_server_without_ranges_sends_all_again() {
    let speech = SpeechModel::new();
    speech.hub.fail(HubFault::Whole);
    speech.hub.fail(HubFault::CutOff(500));
    assert!(speech.hear(TINY, &[]).await.is_err());
    assert_eq!(speech.hear(TINY, &[]).await.unwrap(), "sails");
    // What is longer than the file belongs to another one.
    let other = SpeechModel::new();
    std::fs::create_dir_all(other.models().join("tiny")).unwrap();
    std::fs::write(other.part(), vec![0; 1_000_000]).unwrap();
    assert_eq!(other.hear(TINY, &[]).await.unwrap(), "sails");
}

#[tokio::test]
async fn a_wrong_checksum_is_not_accepted() {
    let speech = SpeechModel::new();
    speech.hub.fail(HubFault::Damaged);
    let error = speech.hear(TINY, &[]).await.unwrap_err();
    assert!(error.contains("another checksum"), "{error}");
    assert!(!speech.part().exists() && !speech.weights().exists());
    assert_eq!(speech.hear(TINY, &[]).await.unwrap(), "sails");
    let mut files = files();
    let list = listed(&files);
    files.insert("config.json", b"{}".to_vec());
    let other = SpeechModel::with(files, list);
    let error = other.hear(TINY, &[]).await.unwrap_err();
    assert!(error.contains("config.json ended after 2 of"), "{error}");
}

#[tokio::test]
async fn a_repository_that_is_not_complete_is_said() {
    let without = |name: &'static str| {
        let mut files = files();
        files.remove(name);
        SpeechModel::with(files.clone(), listed(&files))
    };
    let error = without("tokenizer.json").hear(TINY, &[]).await.unwrap_err();
    assert_eq!(error, "openai/whisper-tiny has no tokenizer.json");
    let speech = SpeechModel::with(BTreeMap::new(), listed(&files()));
    let error = speech.hear(TINY, &[]).await.unwrap_err();
    assert!(error.contains("HTTP 404") && error.contains("config.json"), "{error}");
    let mut empty = listed(&files());
    empty[0]["size"] = json!(0);
    let error = SpeechModel::with(files(), empty).hear(TINY, &[]).await.unwrap_err();
    assert!(error.contains("would have 0 bytes"), "{error}");
    let error = SpeechModel::with(files(), json!({"error": "no"})).hear(TINY, &[]).await.unwrap_err();
    assert!(error.contains("other fields"), "{error}");
}

#[tokio::test]
async fn a_download_can_be_interrupted_and_tells_how_far_it_is() {
    let mut files = files();
    let model = SmallWhisperModel::new().always_writes("Ġsails");
    // Large enough for a report: what a header says besides tensors is not read.
    let mut weights = model.weights();
    let length = u64::from_le_bytes(weights[..8].try_into().unwrap());
    let padding = vec![b' '; 3_000_000];
    weights.splice(..8, (length + padding.len() as u64).to_le_bytes());
    let end = 8 + usize::try_from(length).unwrap();
    weights.splice(end..end, padding);
    files.insert("model.safetensors", weights);
    let list = listed(&files);
    let speech = SpeechModel::with(files, list);
    speech.hub.fail(HubFault::Stall(1_600_000));
    let cancel = Cancel::new();
    let mut transcriber = speech.transcriber(TINY, &[]);
    let stop = cancel.clone();
    transcriber.progress = Arc::new(move |text| {
        if text.contains("50 %") {
            stop.cancel();
        }
    });
    let error = transcriber.transcribe(&speech.tone(), &cancel).await.unwrap_err();
    assert_eq!(error, "interrupted");
    assert!(std::fs::metadata(speech.part()).unwrap().len() >= 1_500_000);
    assert_eq!(speech.hear(TINY, &[]).await.unwrap(), "sails");
    let told = speech.progress.lock().unwrap().clone();
    assert_eq!(told[0], "Speech model tiny: 50 % of 3 MB", "{told:?}");
}

#[tokio::test]
async fn two_downloads_of_one_model_do_not_mix() {
    let speech = SpeechModel::new();
    std::fs::create_dir_all(speech.models().join("tiny")).unwrap();
    let lock = std::fs::File::create(speech.models().join("tiny/.lock")).unwrap();
    lock.lock().unwrap();
    let error = speech.hear(TINY, &[]).await.unwrap_err();
    assert!(error.contains("is being downloaded"), "{error}");
    assert!(speech.hub.requests().is_empty());
}

#[tokio::test]
async fn a_folder_with_a_model_is_used_as_it_is() {
    let speech = SpeechModel::new();
    let folder = speech.folder.path().join("own");
    let yaml = format!("stt: {{provider: local, local: {{model: {}}}}}", folder.display());
    let transcriber = speech.transcriber(&yaml, &[]);
    assert!(transcriber.check().unwrap_err().contains("lacks one of config.json"));
    SmallWhisperModel::new().always_writes("Ġsea").write(&folder).unwrap();
    transcriber.check().unwrap();
    assert_eq!(speech.hear(&yaml, &[]).await.unwrap(), "sea");
    let error = speech.hear(&yaml, &[("HERMES_LOCAL_STT_LANGUAGE", "xx")]).await.unwrap_err();
    assert_eq!(error, "HERMES_LOCAL_STT_LANGUAGE: the model knows no language 'xx'");
    assert_eq!(speech.hear(&yaml, &[("HERMES_LOCAL_STT_LANGUAGE", "auto")]).await.unwrap(), "sea");
    std::fs::write(folder.join("model.safetensors"), b"not weights").unwrap();
    let error = speech.hear(&yaml, &[]).await.unwrap_err();
    assert!(error.contains("own: model.safetensors is not usable"), "{error}");
    assert!(speech.hub.requests().is_empty());
}

#[tokio::test]
async fn an_unknown_model_is_said_and_a_command_comes_before_a_download() {
    let speech = SpeechModel::new();
    let error = speech.hear("stt: {provider: local, local: {model: parrot}}", &[]).await.unwrap_err();
    assert!(error.contains("'parrot' is no folder and none of tiny, tiny.en, base"), "{error}");
    let error = speech.hear("", &[]).await.unwrap_err();
    assert!(error.contains("set stt.provider to local"), "{error}");
    let command = [("HERMES_LOCAL_STT_COMMAND", "echo by command > {output_dir}/it.txt")];
    assert_eq!(speech.hear(TINY, &command).await.unwrap(), "by command");
    assert!(speech.hub.requests().is_empty());
    SmallWhisperModel::new().always_writes("Ġsea").write(&speech.models().join("tiny")).unwrap();
    assert_eq!(speech.hear(TINY, &command).await.unwrap(), "sea");
    let only_command = "stt: {provider: local_command, local: {model: tiny}}";
    assert_eq!(speech.hear(only_command, &command).await.unwrap(), "by command");
}

#[tokio::test]
async fn other_formats_go_through_ffmpeg() {
    use std::os::unix::fs::PermissionsExt as _;
    let speech = SpeechModel::new();
    SmallWhisperModel::new().always_writes("Ġsea").write(&speech.models().join("tiny")).unwrap();
    let mut transcriber = speech.transcriber(TINY, &[]);
    // A stand-in that converts every recording to the same tone, unless it is broken.
    let programs = speech.folder.path().join("bin");
    let program = programs.join("ffmpeg");
    let text = format!(
        "#!/bin/sh\n[ \"$5\" = '-ac' ] && grep -q OggS \"$4\" && cp {} \"${{11}}\"\n",
        speech.tone().display()
    );
    std::fs::create_dir_all(&programs).unwrap();
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let variables = Variables::for_commands([("PATH", path.as_str())], &[], &[]);
    transcriber.programs = ProgramRunner::new(variables, transcriber.clock.clone());
    let said = speech.folder.path().join("said.ogg");
    std::fs::write(&said, b"OggS").unwrap();
    assert_eq!(transcriber.transcribe(&said, &Cancel::new()).await.unwrap(), "sea");
    std::fs::write(&said, b"noise").unwrap();
    assert!(transcriber.transcribe(&said, &Cancel::new()).await.unwrap_err().contains("ffmpeg ended with 1"));
    let left = std::fs::read_dir(speech.folder.path().join("scratch")).unwrap().count();
    assert_eq!(left, 0);
}
