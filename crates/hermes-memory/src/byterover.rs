//! ByteRover: a tree of knowledge in a folder, kept by the program `brv`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use hermes_config::make_private;
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_guard::strip_ansi;
use hermes_types::{BoxFuture, Cancel, MemoryWrite};
use serde_json::{Map, Value};

use crate::engine::{
    EngineError, EngineHealth, EngineResult, MemoryEngine, MemoryScope, SpokenMessage, required,
};

const PROGRAM: &str = "brv";
/// The longest time the program may take.
const LIMIT: Duration = Duration::from_secs(45);
/// The longest text given to the program.
const LONGEST_TEXT: usize = 16_000;

/// ByteRover as a memory.
pub(crate) struct ByteRover {
    programs: ProgramRunner,
    /// The folder of the trees, in the home.
    folder: PathBuf,
    cancel: Cancel,
}

impl ByteRover {
    pub(crate) fn new(programs: ProgramRunner, folder: PathBuf, cancel: Cancel) -> Result<Self, String> {
        if programs.find(PROGRAM).is_none() {
            return Err("the program `brv` is not on the PATH; install the ByteRover CLI".to_owned());
        }
        Ok(Self { programs, folder, cancel })
    }

    /// Returns the folder of a person's tree.
    fn tree(&self, scope: Option<&MemoryScope>) -> PathBuf {
        match scope.and_then(|scope| scope.person.key()) {
            Some(person) => self.folder.join("people").join(person),
            None => self.folder.clone(),
        }
    }

    async fn run(
        &self,
        scope: Option<&MemoryScope>,
        command: &str,
        text: Option<&str>,
    ) -> EngineResult<String> {
        let tree = self.tree(scope);
        make_private(&tree).map_err(|error| EngineError::Failed(error.to_string()))?;
        let mut arguments = vec![OsString::from(command)];
        // What follows is a text, even if it begins like an option.
        arguments.extend(text.map(|text| {
            let text = hermes_text::head(text, LONGEST_TEXT);
            OsString::from(if text.starts_with('-') { format!(" {text}") } else { text.to_owned() })
        }));
        let program =
            Program { name: PROGRAM, arguments, directory: &tree, limit: LIMIT, stderr: StderrMode::Discard };
        let ran = self.programs.output(program, &self.cancel).await;
        let (output, exit) =
            ran.map_err(|error| EngineError::Failed(format!("`brv` cannot be run: {error:?}")))?;
        let output = strip_ansi(&output).trim().to_owned();
        match exit {
            ProgramExit::Exited(0) => Ok(output),
            ProgramExit::Exited(code) => {
                Err(EngineError::Failed(format!("`brv {command}` failed with exit code {code}")))
            }
            ProgramExit::TimedOut => {
                Err(EngineError::Failed(format!("`brv {command}` did not end within {} s", LIMIT.as_secs())))
            }
            ProgramExit::Cancelled => Err(EngineError::Failed(format!("`brv {command}` was interrupted"))),
        }
    }
}

impl MemoryEngine for ByteRover {
    fn name(&self) -> &'static str {
        "byterover"
    }

    fn label(&self) -> &'static str {
        "ByteRover"
    }

    fn recall<'a>(
        &'a self,
        scope: &'a MemoryScope,
        query: &'a str,
    ) -> BoxFuture<'a, EngineResult<Vec<String>>> {
        Box::pin(async move {
            let answer = self.run(Some(scope), "query", Some(query)).await?;
            Ok(if answer.is_empty() { Vec::new() } else { vec![answer] })
        })
    }

    fn store_turn<'a>(
        &'a self,
        scope: &'a MemoryScope,
        turn: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            let text = transcript(turn);
            self.run(Some(scope), "curate", Some(&text)).await.map(drop)
        })
    }

    fn call<'a>(
        &'a self,
        scope: &'a MemoryScope,
        tool: &'a str,
        arguments: &'a Map<String, Value>,
    ) -> BoxFuture<'a, EngineResult<String>> {
        Box::pin(async move {
            match tool {
                "brv_query" => self.run(Some(scope), "query", Some(required(arguments, "query")?)).await,
                "brv_curate" => self.run(Some(scope), "curate", Some(required(arguments, "content")?)).await,
                _ => self.run(Some(scope), "status", None).await,
            }
        })
    }

    fn mirror<'a>(
        &'a self,
        scope: &'a MemoryScope,
        write: &'a MemoryWrite,
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            if write.action != "add" {
                return Ok(());
            }
            self.run(Some(scope), "curate", Some(&write.content)).await.map(drop)
        })
    }

    fn before_compression<'a>(
        &'a self,
        scope: &'a MemoryScope,
        messages: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            let text = transcript(messages);
            self.run(Some(scope), "curate", Some(&text)).await.map(drop)
        })
    }

    fn check(&self) -> BoxFuture<'_, EngineResult<EngineHealth>> {
        Box::pin(async move {
            self.run(None, "status", None).await?;
            Ok(EngineHealth { place: self.folder.display().to_string() })
        })
    }
}

fn transcript(said: &[SpokenMessage]) -> String {
    let line = |message: &SpokenMessage| {
        format!("{}: {}", if message.is_user { "User" } else { "Assistant" }, message.text)
    };
    said.iter().map(line).collect::<Vec<_>>().join("\n")
}
