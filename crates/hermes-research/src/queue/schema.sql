CREATE SCHEMA IF NOT EXISTS hermes_batch;
CREATE TABLE IF NOT EXISTS hermes_batch.runs (
    name text PRIMARY KEY,
    config text NOT NULL,
    registry_hash text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS hermes_batch.items (
    run text NOT NULL REFERENCES hermes_batch.runs (name) ON DELETE CASCADE,
    idx bigint NOT NULL,
    key text NOT NULL,
    prompt_hash text NOT NULL,
    payload text NOT NULL,
    state text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'leased', 'done', 'discarded', 'dead')),
    owner text,
    lease_until timestamptz,
    fence bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    PRIMARY KEY (run, key)
);
CREATE INDEX IF NOT EXISTS items_open ON hermes_batch.items (run, idx) WHERE state IN ('ready', 'leased');
CREATE TABLE IF NOT EXISTS hermes_batch.results (
    run text NOT NULL REFERENCES hermes_batch.runs (name) ON DELETE CASCADE,
    key text NOT NULL,
    idx bigint NOT NULL,
    fence bigint NOT NULL,
    record text NOT NULL,
    tool_stats text NOT NULL,
    reasoning_stats text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, key)
);
