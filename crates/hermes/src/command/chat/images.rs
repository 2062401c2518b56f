//! Pictures for messages: found by their path or in the clipboard, and read for the model.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_agent::{Agent, TurnInput};
use hermes_config::{Env, Home, expand_tilde};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_tui::ImageSource;
use hermes_types::{BoxFuture, Cancel, Clock, ContentPart, MessageContent};

use crate::context::{local_time, now};
use crate::wiring::child_variables;

/// The largest picture that is sent; providers refuse larger ones.
const MAX_BYTES: u64 = 20 * 1024 * 1024;
const CLIPBOARD_LIMIT: Duration = Duration::from_secs(10);
/// The question of a message that is nothing but pictures.
const BARE_QUESTION: &str = "What do you see in this image?";

/// The programs that write the picture in the clipboard to standard output, and the variable without which they cannot work.
const CLIPBOARD_PROGRAMS: [(&str, &str, &str); 4] = [
    ("wl-paste", "WAYLAND_DISPLAY", "exec wl-paste --no-newline --type image/png"),
    ("xclip", "DISPLAY", "exec xclip -selection clipboard -t image/png -o"),
    ("pngpaste", "", "exec pngpaste -"),
    (
        "powershell.exe",
        "WSL_DISTRO_NAME",
        "powershell.exe -NoProfile -NonInteractive -Command 'Add-Type -AssemblyName System.Windows.Forms; $i = \
         [Windows.Forms.Clipboard]::GetImage(); if ($i) { $s = New-Object IO.MemoryStream; $i.Save($s, \
         [Drawing.Imaging.ImageFormat]::Png); [Convert]::ToBase64String($s.ToArray()) }' | base64 -d -i",
    ),
];

/// Finds pictures for the messages of a chat.
pub(crate) struct ChatImages {
    home: Home,
    env: Env,
    /// The folder that relative paths start from.
    folder: PathBuf,
    programs: Arc<ProgramRunner>,
}

impl ChatImages {
    pub(crate) fn new(home: Home, env: Env, folder: PathBuf, clock: Arc<dyn Clock>) -> Self {
        let programs = Arc::new(ProgramRunner::new(child_variables(&env, &[]), clock));
        Self { home, env, folder, programs }
    }

    /// Returns the picture at a path as a person types or a terminal inserts it.
    pub(crate) fn resolve(&self, typed: &str) -> Result<PathBuf, String> {
        let path = self.path(typed);
        read(&path).map(|_| path)
    }

    fn path(&self, typed: &str) -> PathBuf {
        let text = typed.trim();
        let quoted = ['"', '\''].iter().find_map(|sign| text.strip_prefix(*sign)?.strip_suffix(*sign));
        let path = match (quoted, text.strip_prefix("file://")) {
            (Some(path), _) => path.to_owned(),
            (None, Some(url)) => decode_percent(url),
            // A terminal escapes blanks and signs in the path of a dropped file.
            (None, None) => text.replace('\\', ""),
        };
        let path = expand_tilde(&path, &self.env).unwrap_or_else(|_| path.into());
        self.folder.join(path)
    }
}

impl ImageSource for ChatImages {
    fn find(&self, pasted: &str) -> Option<PathBuf> {
        self.resolve(pasted).ok()
    }

    fn clipboard(&self) -> BoxFuture<'static, Result<PathBuf, String>> {
        let (env, programs, home) = (self.env.clone(), self.programs.clone(), self.home.clone());
        Box::pin(async move { from_clipboard(&env, &programs, &home).await })
    }
}

/// Stores the picture in the clipboard in the folder `images` of the home.
async fn from_clipboard(env: &Env, programs: &ProgramRunner, home: &Home) -> Result<PathBuf, String> {
    let usable = |(name, variable, _): &&(&str, &str, &str)| {
        (variable.is_empty() || env.is_set(variable)) && programs.find(name).is_some()
    };
    let folder = home.folder("images").map_err(|error| error.to_string())?;
    let mut asked = false;
    for (_, _, script) in CLIPBOARD_PROGRAMS.iter().filter(usable) {
        asked = true;
        let path = unused_path(&folder);
        let arguments = ["-c", &format!("umask 077; {{ {script}; }} > \"$1\""), "sh"].map(Into::into);
        let program = Program {
            name: "sh",
            arguments: arguments.into_iter().chain([path.clone().into_os_string()]).collect(),
            directory: &folder,
            limit: CLIPBOARD_LIMIT,
            stderr: StderrMode::Merge,
        };
        let ran = programs.output(program, &Cancel::new()).await;
        if matches!(ran, Ok((_, ProgramExit::Exited(0)))) && read(&path).is_ok() {
            return Ok(path);
        }
        // There may be no file.
        let _ = fs::remove_file(&path);
    }
    Err(if asked {
        "There is no picture in the clipboard.".to_owned()
    } else {
        "The clipboard cannot be read here (wl-paste, xclip or pngpaste is needed); /image PATH attaches a file."
            .to_owned()
    })
}

fn unused_path(folder: &Path) -> PathBuf {
    let at = local_time(now());
    let time =
        format!("{:04}{:02}{:02}_{:02}{:02}{:02}", at.year, at.month, at.day, at.hour, at.minute, at.second);
    let paths = (1..).map(|number: u32| folder.join(format!("clip_{time}_{number}.png")));
    paths.into_iter().find(|path| !path.exists()).unwrap_or_else(|| folder.join(format!("clip_{time}.png")))
}

/// Adds pictures to the input of a turn. Fails with a sentence if one cannot be sent, or the model can see none.
pub(crate) fn add_images(said: &mut TurnInput, images: &[PathBuf], agent: &Agent) -> Result<(), String> {
    if images.is_empty() {
        return Ok(());
    }
    if agent.models().provider == "offline" {
        return Err(
            "The offline model cannot see pictures; choose a model with /model or `hermes model`".to_owned()
        );
    }
    said.content = with_images(&said.content.text(), images)?;
    Ok(())
}

/// Adds pictures to a message. Fails with a sentence that names the picture that cannot be sent.
fn with_images(text: &str, images: &[PathBuf]) -> Result<MessageContent, String> {
    let question = if text.trim().is_empty() { BARE_QUESTION } else { text };
    let paths: Vec<String> =
        images.iter().map(|path| format!("[attached image: {}]", path.display())).collect();
    // With the path, tools can work on the file.
    let mut parts = vec![ContentPart::Text(format!("{question}\n\n{}", paths.join("\n")))];
    for path in images {
        parts.push(read(path)?);
    }
    Ok(MessageContent::Parts(parts))
}

/// Reads a picture as a part of a message.
fn read(path: &Path) -> Result<ContentPart, String> {
    let fails = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{}: no such file", path.display()),
        _ => format!("{}: {error}", path.display()),
    };
    let file = fs::File::open(path).map_err(fails)?;
    let data = file.metadata().map_err(fails)?;
    if !data.is_file() {
        return Err(format!("{}: not a file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(fails)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{}: larger than 20 MB", path.display()));
    }
    let Some(kind) = media_type(&bytes) else {
        return Err(format!("{}: not a PNG, JPEG, GIF or WebP picture", path.display()));
    };
    let url = format!("data:{kind};base64,{}", data_encoding::BASE64.encode(&bytes));
    Ok(ContentPart::Image { url })
}

/// Tells the kind of a picture from its first bytes.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Decodes `%20` and the like; what is no such sequence stays.
fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|_| *first == b'%');
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

    #[test]
    fn a_dropped_path_is_found_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a shot (1).png");
        fs::write(&path, PNG).unwrap();
        let images = ChatImages::new(
            Home::new(folder.path()),
            Env::default(),
            folder.path().to_owned(),
            Arc::new(hermes_task::SystemClock::new()),
        );
        let whole = path.display().to_string();
        for typed in [
            whole.clone(),
            format!("'{whole}'"),
            format!("{} ", whole.replace(' ', "\\ ").replace('(', "\\(").replace(')', "\\)")),
            format!("file://{}", whole.replace(' ', "%20")),
            "a shot (1).png".to_owned(),
        ] {
            assert_eq!(images.find(&typed), Some(path.clone()), "{typed}");
        }
        fs::write(folder.path().join("text.png"), "no picture").unwrap();
        for (typed, words) in
            [("text.png", "not a PNG"), ("no-such.png", "no such file"), (".", "not a file")]
        {
            let reason = images.resolve(typed).unwrap_err();
            assert!(reason.contains(words), "{typed}: {reason}");
        }
    }
}
