-- Vectors of messages, created with the first one. Sessions are numbered, because a search looks at each vector.
CREATE TABLE IF NOT EXISTS hx_vector_sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS hx_vectors (
    message_id INTEGER PRIMARY KEY REFERENCES messages(id) ON DELETE CASCADE,
    session INTEGER NOT NULL,
    scale REAL NOT NULL,
    numbers BLOB NOT NULL
);
-- The signs of the numbers of up to 256 vectors, for a first look. A name is a message (8 bytes) and the number of its session (4).
CREATE TABLE IF NOT EXISTS hx_vector_blocks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    names BLOB NOT NULL,
    sketches BLOB NOT NULL
);
