//! Downloads a speech model from Hugging Face: each file is checked against the size and the sum that its repository lists.
//!
//! A file is written beside its place and moved there when it is complete. What a broken connection left is continued by the next
//! download. Two downloads of one model do not run at the same time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use hermes_net::{HttpRequest, header};
use hermes_types::{Cancel, Clock, Deadline};
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::web::LazyHttpClient;

/// What a model consists of, the largest last.
pub(super) const MODEL_FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];
/// The models by name, with their repositories.
const MODELS: [(&str, &str); 12] = [
    ("tiny", "openai/whisper-tiny"),
    ("tiny.en", "openai/whisper-tiny.en"),
    ("base", "openai/whisper-base"),
    ("base.en", "openai/whisper-base.en"),
    ("small", "openai/whisper-small"),
    ("small.en", "openai/whisper-small.en"),
    ("medium", "openai/whisper-medium"),
    ("medium.en", "openai/whisper-medium.en"),
    ("large", "openai/whisper-large-v3"),
    ("large-v3", "openai/whisper-large-v3"),
    ("turbo", "openai/whisper-large-v3-turbo"),
    ("large-v3-turbo", "openai/whisper-large-v3-turbo"),
];
const LONGEST_LIST: usize = 4 * 1024 * 1024;
/// The largest model has three gigabytes.
const LARGEST: u64 = 8 * 1024 * 1024 * 1024;
const LONGEST: Duration = Duration::from_hours(3);
const MOST_REDIRECTS: usize = 5;
const MEGABYTE: u64 = 1_000_000;

/// One download.
pub(super) struct ModelDownload<'d> {
    pub(super) http: &'d LazyHttpClient,
    pub(super) clock: &'d Arc<dyn Clock>,
    /// The address of Hugging Face.
    pub(super) hub: &'d str,
    pub(super) folder: &'d Path,
    /// Told now and then how far it is.
    pub(super) progress: &'d (dyn Fn(&str) + Send + Sync),
}

/// A file as its repository lists it.
#[derive(Debug, Deserialize)]
struct ListedFile {
    path: String,
    size: u64,
    /// The sum of the object in git.
    oid: String,
    /// Large files are stored elsewhere; their sum is that of their content.
    lfs: Option<LargeFile>,
}

#[derive(Debug, Deserialize)]
struct LargeFile {
    oid: String,
    size: u64,
}

impl ListedFile {
    fn size(&self) -> u64 {
        self.lfs.as_ref().map_or(self.size, |large| large.size)
    }

    /// Tells whether a content is this file.
    fn matches(&self, file: &mut File) -> io::Result<bool> {
        file.rewind()?;
        let mut content = Vec::new();
        let Some(large) = &self.lfs else {
            file.take(self.size + 1).read_to_end(&mut content)?;
            let mut sum = Sha1::new();
            sum.update(format!("blob {}\0", content.len()));
            sum.update(&content);
            return Ok(HEXLOWER.encode(&sum.finalize()) == self.oid);
        };
        let (mut sum, mut piece) = (Sha256::new(), vec![0; 1024 * 1024]);
        loop {
            let read = file.read(&mut piece)?;
            if read == 0 {
                return Ok(HEXLOWER.encode(&sum.finalize()) == large.oid);
            }
            sum.update(piece.get(..read).unwrap_or_default());
        }
    }
}

impl ModelDownload<'_> {
    /// Returns the repository of a model.
    pub(super) fn repository(name: &str) -> Result<&'static str, String> {
        MODELS.iter().find(|(known, _)| *known == name).map(|(_, repository)| *repository).ok_or_else(|| {
            let names: Vec<&str> = MODELS.iter().map(|(name, _)| *name).collect();
            format!("stt.local.model: '{name}' is no folder and none of {}", names.join(", "))
        })
    }

    /// Downloads what is missing of a model.
    pub(super) async fn fetch(&self, name: &str, cancel: &Cancel) -> Result<(), String> {
        let repository = Self::repository(name)?;
        let at_folder = |error: io::Error| format!("{}: {error}", self.folder.display());
        fs::create_dir_all(self.folder).map_err(at_folder)?;
        let lock = File::create(self.folder.join(".lock")).map_err(at_folder)?;
        lock.try_lock()
            .map_err(|_| format!("the speech model {name} is being downloaded; try again later"))?;
        let listed = self.list(repository, cancel).await?;
        for file in MODEL_FILES {
            if !self.folder.join(file).is_file() {
                let listed = listed.iter().find(|listed| listed.path == file);
                let listed = listed.ok_or_else(|| format!("{repository} has no {file}"))?;
                self.fetch_file(name, repository, listed, cancel).await?;
            }
        }
        Ok(())
    }

    async fn list(&self, repository: &str, cancel: &Cancel) -> Result<Vec<ListedFile>, String> {
        let address = format!("{}/api/models/{repository}/tree/main", self.hub);
        let request = HttpRequest::get(&address).map_err(|error| error.to_string())?;
        let deadline = Deadline::after(&**self.clock, Duration::from_mins(2));
        let answer = self.http.get()?.send(request.follow_redirects(MOST_REDIRECTS), deadline, cancel).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if !answer.status().is_success() {
            return Err(format!("{address}: HTTP {}", answer.status().as_u16()));
        }
        answer.json(LONGEST_LIST).await.map_err(|error| error.to_string())
    }

    async fn fetch_file(
        &self,
        model: &str,
        repository: &str,
        listed: &ListedFile,
        cancel: &Cancel,
    ) -> Result<(), String> {
        let (name, size) = (&listed.path, listed.size());
        if size == 0 || size > LARGEST {
            return Err(format!("{name} of {repository} would have {size} bytes"));
        }
        let part = self.folder.join(format!("{name}.part"));
        let at_part = |error: io::Error| format!("{}: {error}", part.display());
        let mut file = open_part(&part).map_err(at_part)?;
        let mut have = file.seek(io::SeekFrom::End(0)).map_err(at_part)?;
        if have > size {
            file.set_len(0).and_then(|()| file.rewind()).map_err(at_part)?;
            have = 0;
        }
        if have < size {
            have = self.receive(model, repository, listed, &mut file, have, cancel).await?;
        }
        if have < size {
            return Err(format!(
                "{name} ended after {have} of {size} bytes; the next attempt continues there"
            ));
        }
        let is_right = listed.matches(&mut file).map_err(at_part)?;
        if !is_right {
            fs::remove_file(&part).map_err(at_part)?;
            return Err(format!("{name} of {repository} has another checksum than listed; it was removed"));
        }
        file.sync_all().map_err(at_part)?;
        fs::rename(&part, self.folder.join(name)).map_err(at_part)
    }

    /// Receives the rest of a file; returns how much of it there is then.
    async fn receive(
        &self,
        model: &str,
        repository: &str,
        listed: &ListedFile,
        file: &mut File,
        mut have: u64,
        cancel: &Cancel,
    ) -> Result<u64, String> {
        let (name, size) = (&listed.path, listed.size());
        let text = |error: hermes_net::Error| error.to_string();
        let address = format!("{}/{repository}/resolve/main/{name}", self.hub);
        let mut request = HttpRequest::get(&address)
            .and_then(|request| request.header(header::ACCEPT_ENCODING, "identity"))
            .map_err(text)?
            .follow_redirects(MOST_REDIRECTS)
            .body_limit(usize::try_from(size).unwrap_or(usize::MAX));
        if have > 0 {
            request = request.header(header::RANGE, &format!("bytes={have}-")).map_err(text)?;
        }
        let deadline = Deadline::after(&**self.clock, LONGEST);
        let mut answer = self.http.get()?.send(request, deadline, cancel).await.map_err(text)?;
        match answer.status().as_u16() {
            206 if have > 0 => {}
            200 => {
                file.set_len(0).and_then(|()| file.rewind()).map_err(|error| error.to_string())?;
                have = 0;
            }
            status => return Err(format!("{address}: HTTP {status}")),
        }
        let mut told = None;
        loop {
            let tenth = have * 10 / size;
            if size > MEGABYTE && told != Some(tenth) {
                let megabytes = (size + MEGABYTE / 2) / MEGABYTE;
                (self.progress)(&format!("Speech model {model}: {} % of {megabytes} MB", tenth * 10));
                told = Some(tenth);
            }
            match answer.next_chunk().await {
                Ok(Some(chunk)) => {
                    file.write_all(&chunk).map_err(|error| format!("{name}: {error}"))?;
                    have += chunk.len() as u64;
                }
                Ok(None) => return Ok(have),
                Err(error) if cancel.is_cancelled() => {
                    tracing::debug!(%error, "the download of a speech model was interrupted");
                    return Err("interrupted".to_owned());
                }
                Err(error) => return Err(format!("{error}; the next attempt continues after {have} bytes")),
            }
        }
    }
}

fn open_part(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(PathBuf::from(path))
}
