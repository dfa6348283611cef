-- The whole schema, as every migration together makes it. A test holds the two against each other.
-- Read this to know the tables; change them by adding a migration.

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

CREATE TABLE evidence (
  memory_id  TEXT NOT NULL REFERENCES memories (id),
  turn_id    TEXT NOT NULL REFERENCES turns (id),
  start      INTEGER NOT NULL,
  stop       INTEGER NOT NULL,
  PRIMARY KEY (memory_id, turn_id, start, stop)
) STRICT, WITHOUT ROWID;

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
, place INTEGER NOT NULL DEFAULT 1, deaths INTEGER NOT NULL DEFAULT 0) STRICT;

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

CREATE TABLE journal_touches (
  seq        INTEGER NOT NULL,
  memory_id  TEXT NOT NULL,
  PRIMARY KEY (seq, memory_id)
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

CREATE TABLE memory_settings (
  key         TEXT PRIMARY KEY,
  value       TEXT NOT NULL,
  updated_at  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE project_aliases (
  alias       TEXT PRIMARY KEY,
  project_id  TEXT NOT NULL REFERENCES projects (id)
) STRICT, WITHOUT ROWID;

CREATE TABLE projects (
  id          TEXT PRIMARY KEY,
  tenant      TEXT NOT NULL DEFAULT 'local',
  name        TEXT NOT NULL,
  created_at  TEXT NOT NULL
) STRICT;

CREATE TABLE reviews (
  memory_id   TEXT PRIMARY KEY REFERENCES memories (id),
  kind        TEXT NOT NULL CHECK (kind IN ('conflict', 'quarantine')),
  against     TEXT REFERENCES memories (id),
  reason      TEXT NOT NULL,
  outcome     TEXT NOT NULL CHECK (outcome IN ('open', 'old', 'new', 'both', 'accept', 'dismiss', 'undone')),
  at          TEXT NOT NULL,
  settled_at  TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE spaces (
  id        TEXT PRIMARY KEY,
  model     TEXT NOT NULL,
  revision  TEXT NOT NULL,
  dimension INTEGER NOT NULL,
  pooling   TEXT NOT NULL,
  prefix    TEXT NOT NULL, calibration TEXT, embedder TEXT NOT NULL DEFAULT '', state TEXT NOT NULL DEFAULT 'retired' CHECK (state IN ('current', 'building', 'retired'))) STRICT, WITHOUT ROWID;

CREATE TABLE transcripts (
  path         TEXT PRIMARY KEY,
  host         TEXT NOT NULL,
  session_id   TEXT NOT NULL,
  byte_offset  INTEGER NOT NULL DEFAULT 0,
  skipped_long INTEGER NOT NULL DEFAULT 0,
  read_at      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

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
  text_hash    TEXT NOT NULL,
  analyser     INTEGER NOT NULL,
  trust        INTEGER NOT NULL CHECK (trust BETWEEN 0 AND 3),
  at           TEXT NOT NULL,
  skipped      TEXT NOT NULL DEFAULT '',
  row_key      BLOB NOT NULL,
  row_hash     BLOB NOT NULL
) STRICT;

CREATE TABLE vectors (
  owner_kind  TEXT NOT NULL CHECK (owner_kind IN ('turn', 'memory')),
  owner_id    TEXT NOT NULL,
  space_id    TEXT NOT NULL REFERENCES spaces (id),
  part        INTEGER NOT NULL DEFAULT 0,
  vector      BLOB NOT NULL,
  PRIMARY KEY (owner_kind, owner_id, space_id, part)
) STRICT, WITHOUT ROWID;

CREATE VIRTUAL TABLE memories_fts USING fts5 (
  tokens, content = '', tokenize = 'unicode61 remove_diacritics 0'
);

CREATE VIRTUAL TABLE memories_places USING fts5vocab ('memories_fts', 'instance');

CREATE VIRTUAL TABLE memories_words USING fts5vocab ('memories_fts', 'row');

CREATE VIRTUAL TABLE messages_fts USING fts5 (
  tokens, content = '', tokenize = 'unicode61 remove_diacritics 0'
);

CREATE VIRTUAL TABLE messages_places USING fts5vocab ('messages_fts', 'instance');

CREATE VIRTUAL TABLE messages_words USING fts5vocab ('messages_fts', 'row');

CREATE INDEX events_by_state ON events (state);

CREATE INDEX evidence_by_turn ON evidence (turn_id);

CREATE INDEX jobs_due ON jobs (state, place, run_at);

CREATE INDEX journal_touches_by_memory ON journal_touches (memory_id, seq);

CREATE INDEX memories_by_analyser ON memories (analyser);

CREATE INDEX memories_by_scope ON memories (tenant, state, scope, project_id);

CREATE INDEX memories_by_predecessor ON memories (supersedes) WHERE supersedes IS NOT NULL;

CREATE INDEX memories_by_successor ON memories (superseded_by) WHERE superseded_by IS NOT NULL;

CREATE INDEX project_aliases_by_project ON project_aliases (project_id);

CREATE INDEX reviews_by_outcome ON reviews (outcome, at);

CREATE INDEX turns_by_analyser ON turns (analyser);

CREATE INDEX turns_by_event ON turns (event_id);

CREATE INDEX turns_by_prompt ON turns (tenant, project_id, text_hash, at) WHERE role = 'user';

CREATE INDEX turns_by_text ON turns (tenant, host, session_id, role, text_hash);

CREATE INDEX turns_in_session ON turns (tenant, host, session_id, at, seq) WHERE role <> 'tool';

CREATE INDEX turns_of_users ON turns (tenant, project_id, seq) WHERE role = 'user';

CREATE UNIQUE INDEX events_once ON events (tenant, host, session_id, key);

CREATE UNIQUE INDEX memories_one_core_fact ON memories (tenant, user_id, scope, ifnull(project_id, ''), key)
  WHERE key IS NOT NULL AND state = 'live';

CREATE UNIQUE INDEX one_current_space ON spaces (state) WHERE state = 'current';

CREATE UNIQUE INDEX one_space_in_building ON spaces (state) WHERE state = 'building';

CREATE UNIQUE INDEX turns_once ON turns (tenant, host, session_id, key);

CREATE UNIQUE INDEX turns_once_by_transcript ON turns (tenant, host, transcript_key)
  WHERE transcript_key IS NOT NULL;
