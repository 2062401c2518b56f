//! Which service a configuration means, and with which settings.

use std::path::Path;
use std::sync::Arc;

use hermes_config::{Env, Home};
use hermes_exec::ProgramRunner;
use hermes_types::{Cancel, Secret};
use serde_json::Value;

use crate::byterover::ByteRover;
use crate::client::EngineAccess;
use crate::engine::MemoryEngine;
use crate::hindsight::{Hindsight, HindsightOptions, MemoryUse};
use crate::honcho::{Honcho, HonchoFile};
use crate::mem0::{Mem0, Mem0Options};
use crate::openviking::{OpenViking, OpenVikingOptions};
use crate::retaindb::{RetainDb, RetainDbOptions};
use crate::supermemory::{Supermemory, SupermemoryOptions};

/// A service that a configuration may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownEngine {
    /// The value of `memory.provider`.
    pub name: &'static str,
    pub label: &'static str,
    /// The variable of the key; empty where there is none.
    pub key: &'static str,
    /// The variable of an address of one's own; empty where there is none.
    pub address: &'static str,
    /// Whether it works without a key.
    pub needs_key: bool,
}

/// The services, in the order in which people see them.
pub const KNOWN_ENGINES: [KnownEngine; 7] = [
    engine("honcho", "Honcho", "HONCHO_API_KEY", "HONCHO_BASE_URL", false),
    engine("mem0", "Mem0", "MEM0_API_KEY", "MEM0_HOST", false),
    engine("hindsight", "Hindsight", "HINDSIGHT_API_KEY", "HINDSIGHT_API_URL", false),
    engine("supermemory", "Supermemory", "SUPERMEMORY_API_KEY", "SUPERMEMORY_BASE_URL", true),
    engine("retaindb", "RetainDB", "RETAINDB_API_KEY", "RETAINDB_BASE_URL", false),
    engine("openviking", "OpenViking", "OPENVIKING_API_KEY", "OPENVIKING_URL", false),
    engine("byterover", "ByteRover", "", "", false),
];

const fn engine(
    name: &'static str,
    label: &'static str,
    key: &'static str,
    address: &'static str,
    needs_key: bool,
) -> KnownEngine {
    KnownEngine { name, label, key, address, needs_key }
}

/// Where the settings of a service come from.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct EngineInputs<'a> {
    pub home: &'a Home,
    pub user_home: &'a Path,
    pub env: &'a Env,
    /// The name of the profile, for names that hold it.
    pub profile: &'a str,
    pub access: EngineAccess,
    /// Starts programs of services that are programs.
    pub programs: ProgramRunner,
    pub cancel: Cancel,
}

/// Opens a service. Makes no request. The error says why the service cannot be used, and what to do.
pub fn open_engine(name: &str, from: &EngineInputs<'_>) -> Result<Arc<dyn MemoryEngine>, String> {
    let opened = match name {
        "honcho" => honcho(from),
        "mem0" => mem0(from),
        "hindsight" => hindsight(from),
        "supermemory" => supermemory(from),
        "retaindb" => retaindb(from),
        "openviking" => openviking(from),
        "byterover" => byterover(from),
        "holographic" => {
            Err("is not supported by this release: the format of its database is not documented".to_owned())
        }
        _ => {
            let names: Vec<&str> = KNOWN_ENGINES.iter().map(|known| known.name).collect();
            Err(format!("is not known; use one of builtin, none, {}", names.join(", ")))
        }
    };
    opened.map_err(|reason| format!("memory.provider: {name} {reason}"))
}

type Opened = Result<Arc<dyn MemoryEngine>, String>;

fn honcho(from: &EngineInputs<'_>) -> Opened {
    let file = HonchoFile::load(from.home, from.user_home);
    if let Some(problem) = &file.problem {
        return Err(format!("cannot be used: {problem}"));
    }
    let settings = file.settings(from.env);
    if !settings.is_enabled {
        return Err(format!("is switched off in {}", file.path.display()));
    }
    if !settings.is_active() {
        return Err(
            "needs a key or an address: set HONCHO_API_KEY or HONCHO_BASE_URL, or run `hermes honcho setup`"
                .to_owned(),
        );
    }
    Ok(Arc::new(Honcho::new(settings, &from.access)?))
}

fn mem0(from: &EngineInputs<'_>) -> Opened {
    let file = SettingsFile::load(&from.home.path().join("mem0.json"))?;
    if file.text("mode").as_deref() == Some("oss") {
        return Err(
            "in the mode `oss` runs inside a Python program and is not supported by this release: use the platform, or set `host` to a Mem0 server".to_owned(),
        );
    }
    let key = file.text("api_key").or_else(|| from.variable("MEM0_API_KEY"));
    let host = file.text("host").or_else(|| from.variable("MEM0_HOST"));
    if key.is_none() && host.is_none() {
        return Err(needs("MEM0_API_KEY"));
    }
    let options = Mem0Options {
        key: key.map(Secret::new),
        host,
        user_id: file.text("user_id").unwrap_or_else(|| "hermes-user".to_owned()),
        agent_id: file.text("agent_id").unwrap_or_else(|| "hermes".to_owned()),
        rerank: file.flag("rerank", false),
    };
    Ok(Arc::new(Mem0::new(options, &from.access)?))
}

fn hindsight(from: &EngineInputs<'_>) -> Opened {
    let file = SettingsFile::load(&from.home.path().join("hindsight/config.json"))?;
    let is_local = file.text("mode").is_some_and(|mode| mode.starts_with("local"));
    let url = file.text("api_url").or_else(|| from.variable("HINDSIGHT_API_URL"));
    let key = file.text("api_key").or_else(|| from.variable("HINDSIGHT_API_KEY"));
    if key.is_none() && url.is_none() && !is_local {
        return Err(needs("HINDSIGHT_API_KEY"));
    }
    let text = |name: &str, default: &str| file.text(name).unwrap_or_else(|| default.to_owned());
    let options = HindsightOptions {
        key: key.map(Secret::new),
        url: url.unwrap_or_else(|| {
            if is_local { Hindsight::LOCAL.to_owned() } else { Hindsight::CLOUD.to_owned() }
        }),
        bank: text("bank_id", "hermes"),
        budget: text("recall_budget", "mid"),
        memory_use: MemoryUse::parse(file.text("memory_mode").as_deref()),
        auto_retain: file.flag("auto_retain", true),
        auto_recall: file.flag("auto_recall", true),
        retain_async: file.flag("retain_async", true),
        retain_context: text("retain_context", "conversation between Hermes Agent and the User"),
        retain_tags: file.list("retain_tags"),
        recall_tags: file.list("recall_tags"),
        retain_source: file.text("retain_source"),
        user_prefix: text("retain_user_prefix", "User"),
        assistant_prefix: text("retain_assistant_prefix", "Assistant"),
    };
    Ok(Arc::new(Hindsight::new(options, &from.access)?))
}

fn supermemory(from: &EngineInputs<'_>) -> Opened {
    let file = SettingsFile::load(&from.home.path().join("supermemory.json"))?;
    let key = from.variable("SUPERMEMORY_API_KEY").ok_or_else(|| needs("SUPERMEMORY_API_KEY"))?;
    let url = file.text("base_url").or_else(|| from.variable("SUPERMEMORY_BASE_URL"));
    let container = from.variable("SUPERMEMORY_CONTAINER_TAG").or_else(|| file.text("container_tag"));
    let container = container.unwrap_or_else(|| "hermes".to_owned()).replace("{identity}", from.profile);
    let options = SupermemoryOptions {
        key: Secret::new(key),
        url: url.unwrap_or_else(|| Supermemory::CLOUD.to_owned()),
        container,
        auto_recall: file.flag("auto_recall", true),
        auto_capture: file.flag("auto_capture", true),
        captures_everything: file.text("capture_mode").as_deref() == Some("everything"),
        max_results: file.number("max_recall_results").unwrap_or(10).clamp(1, 50),
        profile_every: file.number("profile_frequency").unwrap_or(50),
        search_mode: match file.text("search_mode").as_deref() {
            Some(mode @ ("memories" | "documents")) => mode.to_owned(),
            _ => "hybrid".to_owned(),
        },
    };
    Ok(Arc::new(Supermemory::new(options, &from.access)?))
}

fn retaindb(from: &EngineInputs<'_>) -> Opened {
    let (key, url) = (from.variable("RETAINDB_API_KEY"), from.variable("RETAINDB_BASE_URL"));
    if key.is_none() && url.is_none() {
        return Err(needs("RETAINDB_API_KEY"));
    }
    let options = RetainDbOptions {
        key: key.map(Secret::new),
        url: url.unwrap_or_else(|| RetainDb::CLOUD.to_owned()),
        project: from.variable("RETAINDB_PROJECT").unwrap_or_else(|| from.profile.to_owned()),
    };
    Ok(Arc::new(RetainDb::new(options, &from.access)?))
}

fn openviking(from: &EngineInputs<'_>) -> Opened {
    let either = |name: &str, older: &str| from.variable(name).or_else(|| from.variable(older));
    let options = OpenVikingOptions {
        key: from.variable("OPENVIKING_API_KEY").map(Secret::new),
        url: either("OPENVIKING_URL", "OPENVIKING_ENDPOINT").unwrap_or_else(|| OpenViking::LOCAL.to_owned()),
        account: from.variable("OPENVIKING_ACCOUNT"),
        user: from.variable("OPENVIKING_USER"),
        peer: either("OPENVIKING_ACTOR_PEER_ID", "OPENVIKING_AGENT"),
    };
    Ok(Arc::new(OpenViking::new(options, &from.access)?))
}

fn byterover(from: &EngineInputs<'_>) -> Opened {
    let folder = from.home.path().join("byterover");
    let opened = ByteRover::new(from.programs.clone(), folder, from.cancel.clone());
    Ok(Arc::new(opened.map_err(|reason| format!("cannot be used: {reason}"))?))
}

fn needs(variable: &str) -> String {
    format!("needs a key: set {variable} with `hermes memory setup`")
}

impl EngineInputs<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        let text = self.env.get(name)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// The file with the settings of a service.
struct SettingsFile(Value);

impl SettingsFile {
    fn load(path: &Path) -> Result<Self, String> {
        match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self(Value::Null)),
            Err(error) => Err(format!("cannot be used: {}: {error}", path.display())),
            Ok(text) => match serde_json::from_str(&text) {
                Ok(value @ Value::Object(_)) => Ok(Self(value)),
                _ => Err(format!("cannot be used: {} is not a JSON object", path.display())),
            },
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        let text = self.0.get(name)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    fn list(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(Value::String(text)) => {
                text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    }
}
