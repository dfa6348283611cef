-- The canonical tables: what Filrouge knows, and how it came to know it. Everything else can be rebuilt.
-- Every row of truth carries a tenant, and a keyed hash of its content: destroying the key makes the
-- hash meaningless, which is what lets a forgotten row leave the chained journal verifiable.

CREATE TABLE projects (
  id          TEXT PRIMARY KEY,
  tenant      TEXT NOT NULL DEFAULT 'local',
  name        TEXT NOT NULL,
  created_at  TEXT NOT NULL
) STRICT;

CREATE TABLE project_aliases (
  alias       TEXT PRIMARY KEY,
  project_id  TEXT NOT NULL REFERENCES projects (id)
) STRICT, WITHOUT ROWID;

CREATE INDEX project_aliases_by_project ON project_aliases (project_id);

CREATE TABLE events (
  seq          INTEGER PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,
  tenant       TEXT NOT NULL DEFAULT 'local',
  key          TEXT NOT NULL,
  host         TEXT NOT NULL,
  session_id   TEXT NOT NULL,
  kind         TEXT NOT NULL,
  project_id   TEXT REFERENCES projects (id),
  at           TEXT NOT NULL,
  received_at  TEXT NOT NULL,
  payload      TEXT NOT NULL,
  state        TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'done', 'skipped', 'dead', 'forgotten')),
  reason       TEXT NOT NULL DEFAULT '',
  row_key      BLOB NOT NULL,
  row_hash     BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_once ON events (tenant, host, session_id, key);
CREATE INDEX events_by_state ON events (state);

CREATE TABLE turns (
  seq          INTEGER PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,
  tenant       TEXT NOT NULL DEFAULT 'local',
  key          TEXT NOT NULL,
  transcript_key TEXT,
  event_id     TEXT REFERENCES events (id),
  host         TEXT NOT NULL,
  session_id   TEXT NOT NULL,
  user_id      TEXT NOT NULL DEFAULT 'local',
  project_id   TEXT REFERENCES projects (id),
  agent        TEXT NOT NULL DEFAULT '',
  channel      TEXT NOT NULL DEFAULT 'unknown',
  role         TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
  source       TEXT NOT NULL,
  text         TEXT NOT NULL,
  tokens       TEXT NOT NULL,
  text_hash    TEXT NOT NULL,
  analyser     INTEGER NOT NULL,
  trust        INTEGER NOT NULL CHECK (trust BETWEEN 0 AND 3),
  at           TEXT NOT NULL,
  skipped      TEXT NOT NULL DEFAULT '',
  row_key      BLOB NOT NULL,
  row_hash     BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX turns_once ON turns (tenant, host, session_id, key);
CREATE UNIQUE INDEX turns_once_by_transcript ON turns (tenant, host, transcript_key)
  WHERE transcript_key IS NOT NULL;
CREATE INDEX turns_by_text ON turns (tenant, host, session_id, role, text_hash);
CREATE INDEX turns_by_prompt ON turns (tenant, project_id, text_hash, at) WHERE role = 'user';
CREATE INDEX turns_of_users ON turns (tenant, project_id, seq) WHERE role = 'user';
CREATE INDEX turns_by_event ON turns (event_id);

CREATE TABLE transcripts (
  path         TEXT PRIMARY KEY,
  host         TEXT NOT NULL,
  session_id   TEXT NOT NULL,
  byte_offset  INTEGER NOT NULL DEFAULT 0,
  skipped_long INTEGER NOT NULL DEFAULT 0,
  read_at      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE memories (
  seq            INTEGER PRIMARY KEY,
  id             TEXT NOT NULL UNIQUE,
  tenant         TEXT NOT NULL DEFAULT 'local',
  user_id        TEXT NOT NULL DEFAULT 'local',
  scope          TEXT NOT NULL CHECK (scope IN ('user', 'project')),
  project_id     TEXT REFERENCES projects (id),
  agent          TEXT NOT NULL DEFAULT '',
  channel        TEXT NOT NULL DEFAULT 'unknown',
  session_id     TEXT NOT NULL DEFAULT '',
  kind           TEXT NOT NULL,
  text           TEXT NOT NULL,
  tokens         TEXT NOT NULL,
  analyser       INTEGER NOT NULL,
  subject        TEXT NOT NULL DEFAULT '',
  key            TEXT,
  value          TEXT,
  confidence     REAL NOT NULL,
  sentiment      TEXT NOT NULL DEFAULT 'neutral',
  timeframe      TEXT NOT NULL DEFAULT '',
  trust          INTEGER NOT NULL CHECK (trust BETWEEN 0 AND 3),
  state          TEXT NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'superseded', 'binned', 'quarantined')),
  created_at     TEXT NOT NULL,
  valid_from     TEXT NOT NULL,
  valid_to       TEXT,
  supersedes     TEXT REFERENCES memories (id),
  superseded_by  TEXT REFERENCES memories (id) DEFERRABLE INITIALLY DEFERRED,
  previous_text  TEXT,
  pinned         INTEGER NOT NULL DEFAULT 0,
  strength       REAL NOT NULL DEFAULT 1.0,
  mention_count  INTEGER NOT NULL DEFAULT 1,
  first_mention  TEXT NOT NULL,
  last_mention   TEXT NOT NULL,
  made_by        TEXT NOT NULL,
  prompt_version TEXT NOT NULL DEFAULT '',
  row_key        BLOB NOT NULL,
  row_hash       BLOB NOT NULL
) STRICT;

CREATE INDEX memories_by_scope ON memories (tenant, state, scope, project_id);
CREATE UNIQUE INDEX memories_one_core_fact ON memories (tenant, user_id, scope, ifnull(project_id, ''), key)
  WHERE key IS NOT NULL AND state = 'live';

CREATE TABLE evidence (
  memory_id  TEXT NOT NULL REFERENCES memories (id),
  turn_id    TEXT NOT NULL REFERENCES turns (id),
  start      INTEGER NOT NULL,
  stop       INTEGER NOT NULL,
  PRIMARY KEY (memory_id, turn_id, start, stop)
) STRICT, WITHOUT ROWID;

CREATE INDEX evidence_by_turn ON evidence (turn_id);

-- One table is both history and audit. `payload` may be destroyed, with its key, when the user forgets;
-- the chain holds only the keyed hash of it, so it still verifies.
CREATE TABLE journal (
  seq           INTEGER PRIMARY KEY,
  tenant        TEXT NOT NULL DEFAULT 'local',
  at            TEXT NOT NULL,
  actor         TEXT NOT NULL,
  action        TEXT NOT NULL,
  subject_id    TEXT NOT NULL,
  payload       TEXT,
  payload_key   BLOB,
  payload_hash  BLOB NOT NULL,
  hash          BLOB NOT NULL
) STRICT;

CREATE INDEX journal_by_subject ON journal (subject_id, seq);

-- `seq` is the order in which the work came up: what was said first is understood first.
CREATE TABLE jobs (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  id           TEXT NOT NULL UNIQUE,
  kind         TEXT NOT NULL,
  dedupe_key   TEXT NOT NULL UNIQUE,
  payload      TEXT NOT NULL,
  state        TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'dead')),
  attempts     INTEGER NOT NULL DEFAULT 0,
  created_at   TEXT NOT NULL,
  run_at       TEXT NOT NULL,
  lease_until  TEXT,
  worker       TEXT,
  error        TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX jobs_due ON jobs (state, run_at);

CREATE TABLE memory_settings (
  key         TEXT PRIMARY KEY,
  value       TEXT NOT NULL,
  updated_at  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_retrievals (
  id                       TEXT PRIMARY KEY,
  tenant                   TEXT NOT NULL DEFAULT 'local',
  channel                  TEXT NOT NULL,
  session_id               TEXT NOT NULL,
  project_id               TEXT,
  user_message_preview     TEXT NOT NULL,
  memories_injected        INTEGER NOT NULL,
  obsidian_notes_injected  INTEGER NOT NULL DEFAULT 0,
  total_tokens_added       INTEGER NOT NULL,
  items                    TEXT NOT NULL,
  notices                  TEXT NOT NULL DEFAULT '[]',
  nonce                    TEXT NOT NULL DEFAULT '',
  latency_ms               REAL NOT NULL,
  created_at               TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE spaces (
  id        TEXT PRIMARY KEY,
  model     TEXT NOT NULL,
  revision  TEXT NOT NULL,
  dimension INTEGER NOT NULL,
  pooling   TEXT NOT NULL,
  prefix    TEXT NOT NULL,
  median    REAL NOT NULL,
  question_median REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Vectors are half-precision, little-endian, unit length. `part` counts the windows of a long text.
CREATE TABLE vectors (
  owner_kind  TEXT NOT NULL CHECK (owner_kind IN ('turn', 'memory')),
  owner_id    TEXT NOT NULL,
  space_id    TEXT NOT NULL REFERENCES spaces (id),
  part        INTEGER NOT NULL DEFAULT 0,
  vector      BLOB NOT NULL,
  PRIMARY KEY (owner_kind, owner_id, space_id, part)
) STRICT, WITHOUT ROWID;
