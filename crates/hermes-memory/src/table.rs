//! The tools of each service: what the model and people read about them.
// table: exempt from the length limit

/// A tool of a service.
pub(crate) struct ServiceToolText {
    /// The service that has it.
    pub(crate) engine: &'static str,
    pub(crate) name: &'static str,
    pub(crate) toolset: &'static str,
    /// What it does, for people.
    pub(crate) summary: &'static str,
    pub(crate) condition: &'static str,
    /// What the model reads.
    pub(crate) description: &'static str,
    pub(crate) parameters: &'static str,
}

const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;
const QUERY: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"What to look for"},"limit":{"type":"integer","minimum":1,"maximum":50}},"required":["query"]}"#;
const CONTENT: &str = r#"{"type":"object","properties":{"content":{"type":"string","description":"One fact, in a sentence that can be understood alone"}},"required":["content"]}"#;
const ID: &str = r#"{"type":"object","properties":{"memory_id":{"type":"string","description":"The id in brackets of a search result"}},"required":["memory_id"]}"#;

const fn honcho(
    name: &'static str,
    summary: &'static str,
    description: &'static str,
    parameters: &'static str,
) -> ServiceToolText {
    let condition = "while Honcho is the memory service and recallMode is not `context`";
    ServiceToolText { engine: "honcho", name, toolset: "honcho", summary, condition, description, parameters }
}

const fn other(
    engine: &'static str,
    condition: &'static str,
    name: &'static str,
    summary: &'static str,
    description: &'static str,
    parameters: &'static str,
) -> ServiceToolText {
    ServiceToolText { engine, name, toolset: "memory_service", summary, condition, description, parameters }
}

const MEM0: &str = "while `memory.provider` is `mem0`";
const HINDSIGHT: &str = "while `memory.provider` is `hindsight`";
const SUPERMEMORY: &str = "while `memory.provider` is `supermemory`";
const RETAINDB: &str = "while `memory.provider` is `retaindb`";
const OPENVIKING: &str = "while `memory.provider` is `openviking`";
const BYTEROVER: &str = "while `memory.provider` is `byterover`";

pub(crate) static SERVICE_TOOL_TEXTS: [ServiceToolText; 27] = TEXTS;

pub(crate) const TEXTS: [ServiceToolText; 27] = [
    honcho(
        "honcho_profile",
        "Reads what Honcho knows of the user",
        "Returns the list of facts that Honcho keeps about the user. Fast; asks no model.",
        NO_PARAMETERS,
    ),
    honcho(
        "honcho_search",
        "Searches what Honcho concluded about the user",
        "Searches what was concluded about the user in past conversations. Returns excerpts, not an answer.",
        r#"{"type":"object","properties":{"query":{"type":"string"},"max_tokens":{"type":"integer","minimum":1,"maximum":2000,"description":"Limit of the result; 800 when absent"}},"required":["query"]}"#,
    ),
    honcho(
        "honcho_context",
        "Asks Honcho a question about the user or the agent",
        "Asks Honcho a question about the user (or about you, with peer `ai`) and returns its answer. Slow: a model reasons over past conversations.",
        r#"{"type":"object","properties":{"query":{"type":"string"},"peer":{"type":"string","enum":["user","ai"]}},"required":["query"]}"#,
    ),
    honcho(
        "honcho_conclude",
        "Stores a conclusion about the user in Honcho",
        "Stores a lasting fact about the user in Honcho: a preference, a correction, something about their projects.",
        r#"{"type":"object","properties":{"conclusion":{"type":"string"}},"required":["conclusion"]}"#,
    ),
    other(
        "mem0",
        MEM0,
        "mem0_search",
        "Searches memories in Mem0",
        "Searches memories about the user by meaning. Returns them with their ids.",
        QUERY,
    ),
    other(
        "mem0",
        MEM0,
        "mem0_add",
        "Stores a fact in Mem0",
        "Stores a fact about the user word for word.",
        CONTENT,
    ),
    other(
        "mem0",
        MEM0,
        "mem0_update",
        "Changes a memory in Mem0",
        "Replaces the text of a memory.",
        r#"{"type":"object","properties":{"memory_id":{"type":"string"},"text":{"type":"string"}},"required":["memory_id","text"]}"#,
    ),
    other("mem0", MEM0, "mem0_delete", "Deletes a memory in Mem0", "Deletes a memory.", ID),
    other(
        "hindsight",
        HINDSIGHT,
        "hindsight_retain",
        "Stores a fact in Hindsight",
        "Stores something to remember; entities and relations are extracted from it.",
        r#"{"type":"object","properties":{"content":{"type":"string"},"context":{"type":"string","description":"Where it comes from, in a few words"},"tags":{"type":"array","items":{"type":"string"}}},"required":["content"]}"#,
    ),
    other(
        "hindsight",
        HINDSIGHT,
        "hindsight_recall",
        "Searches memories in Hindsight",
        "Searches memories by meaning, words, relations and time.",
        r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}"#,
    ),
    other(
        "hindsight",
        HINDSIGHT,
        "hindsight_reflect",
        "Has Hindsight answer from memories",
        "Answers a question from all memories. Slow: a model reasons over them.",
        r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}"#,
    ),
    other(
        "supermemory",
        SUPERMEMORY,
        "supermemory_store",
        "Stores a memory in Supermemory",
        "Stores something to remember.",
        CONTENT,
    ),
    other(
        "supermemory",
        SUPERMEMORY,
        "supermemory_search",
        "Searches memories in Supermemory",
        "Searches memories by meaning. Returns them with their ids.",
        QUERY,
    ),
    other(
        "supermemory",
        SUPERMEMORY,
        "supermemory_forget",
        "Forgets a memory in Supermemory",
        "Forgets a memory by its id, or the one whose exact text is given.",
        r#"{"type":"object","properties":{"id":{"type":"string"},"content":{"type":"string"}}}"#,
    ),
    other(
        "supermemory",
        SUPERMEMORY,
        "supermemory_profile",
        "Reads the profile in Supermemory",
        "Returns the lasting and the recent facts about the user.",
        NO_PARAMETERS,
    ),
    other(
        "retaindb",
        RETAINDB,
        "retaindb_profile",
        "Reads the profile in RetainDB",
        "Returns what is stored about the user.",
        NO_PARAMETERS,
    ),
    other(
        "retaindb",
        RETAINDB,
        "retaindb_search",
        "Searches memories in RetainDB",
        "Searches memories by meaning and words. Returns them with their ids.",
        QUERY,
    ),
    other(
        "retaindb",
        RETAINDB,
        "retaindb_context",
        "Reads what RetainDB holds for a task",
        "Returns what is known for a task, packed as one text.",
        r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}"#,
    ),
    other(
        "retaindb",
        RETAINDB,
        "retaindb_remember",
        "Stores a memory in RetainDB",
        "Stores something to remember.",
        r#"{"type":"object","properties":{"content":{"type":"string"},"memory_type":{"type":"string","enum":["factual","preference","decision","constraint","instruction","goal","event"]}},"required":["content"]}"#,
    ),
    other("retaindb", RETAINDB, "retaindb_forget", "Deletes a memory in RetainDB", "Deletes a memory.", ID),
    other(
        "openviking",
        OPENVIKING,
        "viking_search",
        "Searches in OpenViking",
        "Searches memories and resources by meaning. Returns viking:// addresses with abstracts.",
        QUERY,
    ),
    other(
        "openviking",
        OPENVIKING,
        "viking_read",
        "Reads an entry of OpenViking",
        "Reads a viking:// address: its abstract, its overview, or all of it.",
        r#"{"type":"object","properties":{"uri":{"type":"string"},"level":{"type":"string","enum":["abstract","overview","full"]}},"required":["uri"]}"#,
    ),
    other(
        "openviking",
        OPENVIKING,
        "viking_browse",
        "Lists a folder of OpenViking",
        "Lists what is below a viking:// address.",
        r#"{"type":"object","properties":{"uri":{"type":"string"}}}"#,
    ),
    other(
        "openviking",
        OPENVIKING,
        "viking_remember",
        "Stores a fact in OpenViking",
        "Stores something to remember.",
        CONTENT,
    ),
    other(
        "byterover",
        BYTEROVER,
        "brv_query",
        "Searches the tree of ByteRover",
        "Searches the knowledge that was curated. May take a while.",
        r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}"#,
    ),
    other(
        "byterover",
        BYTEROVER,
        "brv_curate",
        "Stores knowledge in ByteRover",
        "Stores a fact, a decision or a pattern in the tree of knowledge.",
        CONTENT,
    ),
    other(
        "byterover",
        BYTEROVER,
        "brv_status",
        "Shows the state of ByteRover",
        "Shows the version and the state of the tree of knowledge.",
        NO_PARAMETERS,
    ),
];
