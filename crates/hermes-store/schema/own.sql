-- Our own tables: the durable steps of a turn. Other programs ignore them, so nothing they need is only here.

CREATE TABLE IF NOT EXISTS hx_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The newest sessions of one source, without sorting all of them.
CREATE INDEX IF NOT EXISTS hx_sessions_by_source ON sessions(source, started_at DESC);

-- What a message carries beyond the columns above: its origin where the role does not tell, and unknown fields.
CREATE TABLE IF NOT EXISTS hx_message_notes (
    message_id INTEGER PRIMARY KEY REFERENCES messages(id) ON DELETE CASCADE,
    provenance TEXT,
    extra TEXT
);

-- What newer releases keep in columns of `sessions` that this file may lack.
CREATE TABLE IF NOT EXISTS hx_session_notes (
    session_id TEXT PRIMARY KEY REFERENCES sessions(id) ON DELETE CASCADE,
    cwd TEXT,
    git_branch TEXT,
    archived INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS hx_inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL,
    platform_key TEXT NOT NULL,
    conversation TEXT NOT NULL,
    envelope TEXT NOT NULL,
    state TEXT NOT NULL,
    received_at REAL NOT NULL,
    closed_at REAL,
    note TEXT,
    -- The turn that answers it, from the moment that turn began.
    turn_id TEXT,
    UNIQUE (platform, platform_key)
);
CREATE INDEX IF NOT EXISTS hx_inbox_closed ON hx_inbox(closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS hx_inbox_waiting ON hx_inbox(conversation, id) WHERE state = 'waiting';

-- Which session a chat is at. `entry` is what other programs know about it, as they write it.
CREATE TABLE IF NOT EXISTS hx_conversations (
    key TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    entry TEXT NOT NULL,
    updated_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS hx_conversations_session ON hx_conversations(session_id);

-- Every session a chat ever had: what was said in a group may be recalled in that group.
CREATE TABLE IF NOT EXISTS hx_chat_sessions (
    platform TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (platform, chat_id, session_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS hx_chat_sessions_session ON hx_chat_sessions(session_id);

-- Who said a message, in sessions that several people share.
CREATE TABLE IF NOT EXISTS hx_speakers (
    message_id INTEGER PRIMARY KEY REFERENCES messages(id) ON DELETE CASCADE,
    session_id TEXT NOT NULL,
    user_id TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS hx_speakers_session ON hx_speakers(session_id, message_id);

CREATE TABLE IF NOT EXISTS hx_turns (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    inbox_id INTEGER,
    state TEXT NOT NULL,
    started_at REAL NOT NULL,
    deadline_at REAL,
    cap_micro_usd INTEGER,
    cap_tokens INTEGER,
    cut_offs INTEGER NOT NULL DEFAULT 0,
    prefix_hash TEXT,
    holder TEXT,
    closed_at REAL,
    note TEXT
);
CREATE INDEX IF NOT EXISTS hx_turns_running ON hx_turns(started_at) WHERE state = 'running';
CREATE INDEX IF NOT EXISTS hx_turns_session ON hx_turns(session_id);

CREATE TABLE IF NOT EXISTS hx_tool_calls (
    turn_id TEXT NOT NULL REFERENCES hx_turns(id) ON DELETE CASCADE,
    call_id TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    verdict TEXT,
    started_at REAL NOT NULL,
    ended_at REAL,
    status TEXT,
    handle TEXT,
    PRIMARY KEY (turn_id, call_id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS hx_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    idempotency_key TEXT NOT NULL UNIQUE,
    platform TEXT NOT NULL,
    conversation TEXT NOT NULL,
    reply TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    not_before REAL NOT NULL,
    closed_at REAL,
    receipt TEXT,
    note TEXT
);
CREATE INDEX IF NOT EXISTS hx_outbox_closed ON hx_outbox(closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS hx_outbox_open ON hx_outbox(not_before, id) WHERE state IN ('waiting', 'sending');

-- One row per instant at which a scheduled job was due, whatever became of it.
CREATE TABLE IF NOT EXISTS hx_job_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    due_at REAL NOT NULL,
    state TEXT NOT NULL,
    holder TEXT,
    attempts INTEGER NOT NULL DEFAULT 1,
    claimed_at REAL NOT NULL,
    started_at REAL,
    ended_at REAL,
    error TEXT,
    -- Whether the user knows of it, as far as there is something to tell.
    told INTEGER NOT NULL DEFAULT 0,
    -- Whether the list of jobs knows of it.
    recorded INTEGER NOT NULL DEFAULT 0,
    UNIQUE (job, due_at)
);
CREATE INDEX IF NOT EXISTS hx_job_runs_open ON hx_job_runs(id) WHERE state IN ('claimed', 'running');
CREATE INDEX IF NOT EXISTS hx_job_runs_loose ON hx_job_runs(id) WHERE told = 0 OR recorded = 0;

-- One row per request of the API that its client gave a key, with the turn that answers it.
CREATE TABLE IF NOT EXISTS hx_requests (
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    began_at REAL NOT NULL,
    ended_at REAL,
    answer TEXT,
    UNIQUE (path, key)
);
CREATE INDEX IF NOT EXISTS hx_requests_turn ON hx_requests(turn_id);
CREATE INDEX IF NOT EXISTS hx_requests_ended ON hx_requests(ended_at);

-- One holder per conversation, whichever process it lives in.
CREATE TABLE IF NOT EXISTS hx_leases (
    conversation TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    taken_at REAL NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;

-- One row per model call. It has no foreign key: what was spent stays spent when a session is deleted.
CREATE TABLE IF NOT EXISTS hx_usage (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT,
    root_turn_id TEXT,
    job TEXT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    micro_usd INTEGER,
    cost_status TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS hx_usage_at ON hx_usage(at);
CREATE INDEX IF NOT EXISTS hx_usage_root ON hx_usage(root_turn_id) WHERE root_turn_id IS NOT NULL;

-- The goal a conversation works towards, as its agent writes it. It moves along when the conversation continues in a new session.
CREATE TABLE IF NOT EXISTS hx_goals (
    session_id TEXT PRIMARY KEY,
    goal TEXT NOT NULL,
    updated_at REAL NOT NULL
) WITHOUT ROWID;
