//! `hermes logs`: shows the log files, merged by time.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cli::LogsArguments;
use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;

const NAMES: [&str; 4] = ["errors", "gateway", "agent", "gateway.error"];
/// How much of the end of a file is looked at.
const MAX_TAIL: u64 = 16 * 1024 * 1024;
/// The time between two looks at a file that is followed.
const LOOK: Duration = Duration::from_millis(250);

pub(crate) fn run(arguments: &LogsArguments, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let filter = LineFilter::of(arguments)?;
    context.set_time_zone(&context.config(output));
    let names = match arguments.name.trim_end_matches(".log") {
        // What is in the errors' log is in the gateway's too.
        "all" => NAMES.to_vec(),
        name => match NAMES.iter().find(|known| **known == name) {
            Some(name) => vec![*name],
            None => bail!("there is no log '{name}'; there are: {}, all", NAMES.join(", ")),
        },
    };
    let mut files: Vec<FollowedFile> =
        names.iter().map(|name| FollowedFile::new(context.home.logs().join(format!("{name}.log")))).collect();
    if files.iter().all(|file| !file.path.exists()) {
        output.notice(&format!("No log yet in {}", context.home.logs().display()));
        if !arguments.follow {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for file in &mut files {
        lines.extend(file.read_end()?.into_iter().filter(|line| filter.accepts(line)));
    }
    // Each line begins with its time.
    lines.sort();
    lines.dedup();
    for line in lines.iter().skip(lines.len().saturating_sub(arguments.lines)) {
        output.line(line);
    }
    if !arguments.follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        std::thread::sleep(LOOK);
        for file in &mut files {
            for line in file.read_new()?.into_iter().filter(|line| filter.accepts(line)) {
                output.line(&line);
            }
        }
    }
}

/// Says which lines are shown.
struct LineFilter {
    levels: Vec<&'static str>,
    session: Option<String>,
    component: Option<String>,
    /// The time from which on, as lines begin with it.
    since: Option<String>,
}

impl LineFilter {
    fn of(arguments: &LogsArguments) -> Result<Self> {
        const LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];
        let levels = match arguments.level.as_deref().map(str::to_uppercase) {
            None => LEVELS.to_vec(),
            Some(name) => {
                let name = if name == "WARNING" { "WARN" } else { name.as_str() };
                let Some(at) = LEVELS.iter().position(|level| *level == name) else {
                    bail!("`{name}` is no level; there are: debug, info, warning, error");
                };
                LEVELS.iter().skip(at).copied().collect()
            }
        };
        let since = arguments.since.as_deref().map(super::age::parse).transpose()?;
        let since = since.map(|age| {
            let at = now().minus(age);
            local_time(at).to_string().replace('T', " ")
        });
        Ok(Self { levels, session: arguments.session.clone(), component: arguments.component.clone(), since })
    }

    fn accepts(&self, line: &str) -> bool {
        // `DATE TIME LEVEL TARGET: TEXT`
        let mut words = line.split(' ');
        let (Some(date), Some(time), Some(level), target) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return false;
        };
        let target = target.unwrap_or_default();
        // Logs of other releases have other forms; they are shown unless a filter needs what they lack.
        self.levels.iter().any(|known| *known == level || level.starts_with(known) || self.levels.len() == 5)
            && self.session.as_ref().is_none_or(|session| line.contains(session.as_str()))
            && self.component.as_ref().is_none_or(|component| target.contains(component.as_str()))
            && self.since.as_ref().is_none_or(|since| format!("{date} {time}") >= *since)
    }
}

/// A file that grows, and is sometimes replaced by a new one.
struct FollowedFile {
    path: PathBuf,
    at: u64,
}

impl FollowedFile {
    fn new(path: PathBuf) -> Self {
        Self { path, at: 0 }
    }

    fn read_end(&mut self) -> Result<Vec<String>> {
        let length = std::fs::metadata(&self.path).map_or(0, |data| data.len());
        self.at = length.saturating_sub(MAX_TAIL);
        let cut = self.at > 0;
        let mut lines = self.read_new()?;
        if cut && !lines.is_empty() {
            lines.remove(0);
        }
        Ok(lines)
    }

    /// Returns the whole lines since the last look.
    fn read_new(&mut self) -> Result<Vec<String>> {
        let Ok(mut file) = File::open(&self.path) else { return Ok(Vec::new()) };
        if file.metadata()?.len() < self.at {
            // A new file has taken its place.
            self.at = 0;
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        file.take(MAX_TAIL).read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.at += whole as u64;
        bytes.truncate(whole);
        Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
    }
}
