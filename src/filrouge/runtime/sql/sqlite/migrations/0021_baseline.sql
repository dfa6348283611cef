-- The schema of number 21, the oldest that Filrouge opens. It never changes: a change is a migration with the next
-- number.

-- Projects and the names that each is known by.
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

-- Folders whose `.filrouge.toml` chose a project's name, by the names that each folder has by itself. A name is open to
-- the folder that had it first and to those that the user agreed to ('agreed'); the others wait, known by their path.
CREATE TABLE project_folders (
  name   TEXT NOT NULL,
  alias  TEXT NOT NULL,
  state  TEXT NOT NULL CHECK (state IN ('agreed', 'waiting')),
  at     TEXT NOT NULL,
  PRIMARY KEY (name, alias)
) STRICT, WITHOUT ROWID;

-- What hosts sent, and what became of it.
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

-- What was said. `branch` is the git branch that was checked out then; empty if there was none or it is unknown.
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
  row_hash     BLOB NOT NULL,
  branch       TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE UNIQUE INDEX turns_once ON turns (tenant, host, session_id, key);
CREATE UNIQUE INDEX turns_once_by_transcript ON turns (tenant, host, transcript_key)
  WHERE transcript_key IS NOT NULL;
CREATE INDEX turns_by_text ON turns (tenant, host, session_id, role, text_hash);
CREATE INDEX turns_by_prompt ON turns (tenant, project_id, text_hash, at) WHERE role = 'user';
CREATE INDEX turns_of_users ON turns (tenant, project_id, seq) WHERE role = 'user';
CREATE INDEX turns_by_event ON turns (event_id);
CREATE INDEX turns_by_analyser ON turns (analyser);
CREATE INDEX turns_in_session ON turns (tenant, host, session_id, at, seq) WHERE role <> 'tool';
CREATE INDEX turns_by_session ON turns (tenant, session_id, seq);
CREATE INDEX turns_passing ON turns (at, id) WHERE role = 'tool' OR skipped <> '';

-- How far each transcript of a host has been read.
CREATE TABLE transcripts (
  path         TEXT PRIMARY KEY,
  host         TEXT NOT NULL,
  session_id   TEXT NOT NULL,
  byte_offset  INTEGER NOT NULL DEFAULT 0,
  skipped_long INTEGER NOT NULL DEFAULT 0,
  read_at      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What is known. `supersedes` and `superseded_by` chain the versions of a memory. `disabled` is a rule that the user
-- switched off. `uses` and `last_used` count how often a memory went in front of a prompt, and when last.
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
  mention_count  INTEGER NOT NULL DEFAULT 1,
  first_mention  TEXT NOT NULL,
  last_mention   TEXT NOT NULL,
  made_by        TEXT NOT NULL,
  prompt_version TEXT NOT NULL DEFAULT '',
  row_key        BLOB NOT NULL,
  row_hash       BLOB NOT NULL,
  disabled       INTEGER NOT NULL DEFAULT 0,
  uses           INTEGER NOT NULL DEFAULT 0,
  last_used      TEXT,
  branch         TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX memories_by_scope ON memories (tenant, state, scope, project_id);
CREATE UNIQUE INDEX memories_one_core_fact ON memories (tenant, user_id, scope, ifnull(project_id, ''), key)
  WHERE key IS NOT NULL AND state = 'live';
CREATE INDEX memories_by_analyser ON memories (analyser);
CREATE INDEX memories_by_predecessor ON memories (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX memories_by_successor ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE UNIQUE INDEX memories_one_concept ON memories (tenant, user_id, ifnull(project_id, ''), subject)
  WHERE kind = 'concept' AND state = 'live';
CREATE INDEX memories_by_kind ON memories (tenant, state, kind, project_id);

-- The characters of a turn that prove a memory.
CREATE TABLE evidence (
  memory_id  TEXT NOT NULL REFERENCES memories (id),
  turn_id    TEXT NOT NULL REFERENCES turns (id),
  start      INTEGER NOT NULL,
  stop       INTEGER NOT NULL,
  PRIMARY KEY (memory_id, turn_id, start, stop)
) STRICT, WITHOUT ROWID;

CREATE INDEX evidence_by_turn ON evidence (turn_id);

-- Memories that a newer one may have superseded, if that is not probable enough to end them.
CREATE TABLE doubts (
  older  TEXT NOT NULL REFERENCES memories (id),
  newer  TEXT NOT NULL REFERENCES memories (id),
  PRIMARY KEY (older, newer)
) STRICT, WITHOUT ROWID;

CREATE INDEX doubts_by_newer ON doubts (newer);

-- Statements that wait for a person: each is a memory that is not served, and the reason why.
CREATE TABLE reviews (
  memory_id   TEXT PRIMARY KEY REFERENCES memories (id),
  kind        TEXT NOT NULL CHECK (kind IN ('conflict', 'quarantine')),
  against     TEXT REFERENCES memories (id),
  reason      TEXT NOT NULL,
  outcome     TEXT NOT NULL CHECK (outcome IN ('open', 'old', 'new', 'both', 'accept', 'dismiss', 'undone')),
  at          TEXT NOT NULL,
  settled_at  TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX reviews_by_outcome ON reviews (outcome, at);

-- Which sessions speak of a concept.
CREATE TABLE concept_mentions (
  memory_id   TEXT NOT NULL REFERENCES memories (id),
  host        TEXT NOT NULL,
  session_id  TEXT NOT NULL,
  first_at    TEXT NOT NULL,
  last_at     TEXT NOT NULL,
  PRIMARY KEY (memory_id, host, session_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX concept_mentions_by_session ON concept_mentions (host, session_id);

-- History and audit in one table. `payload` may be destroyed, with its key, when the user forgets; the chain holds only
-- its keyed hash and still verifies.
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

-- The memories of a journal entry: its subject, and every other one that it changed or rested on.
CREATE TABLE journal_touches (
  seq        INTEGER NOT NULL,
  memory_id  TEXT NOT NULL,
  PRIMARY KEY (seq, memory_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX journal_touches_by_memory ON journal_touches (memory_id, seq);

-- Background work. `seq` is the order in which it came up; what has a smaller `place` goes first.
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
  error        TEXT NOT NULL DEFAULT '',
  place        INTEGER NOT NULL DEFAULT 1,
  deaths       INTEGER NOT NULL DEFAULT 0,
  leased_at    TEXT
) STRICT;

CREATE INDEX jobs_due ON jobs (state, place, run_at);

-- Stored settings.
CREATE TABLE memory_settings (
  key         TEXT PRIMARY KEY,
  value       TEXT NOT NULL,
  updated_at  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The recall log. `outcome` is delivered, late (ready after the agent had gone on) or empty. `omitted` counts the
-- candidates that the row does not list, by reason, as JSON.
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
  created_at               TEXT NOT NULL,
  outcome                  TEXT NOT NULL DEFAULT 'delivered',
  omitted                  TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;

-- Embedding spaces. Recall reads the current one; one may be built beside it; a retired one is cleared. `calibration`
-- is JSON, or null until it is measured. `embedder` is the registered name that made it.
CREATE TABLE spaces (
  id           TEXT PRIMARY KEY,
  model        TEXT NOT NULL,
  revision     TEXT NOT NULL,
  dimension    INTEGER NOT NULL,
  pooling      TEXT NOT NULL,
  prefix       TEXT NOT NULL,
  calibration  TEXT,
  embedder     TEXT NOT NULL DEFAULT '',
  state        TEXT NOT NULL DEFAULT 'retired' CHECK (state IN ('current', 'building', 'retired'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX one_current_space ON spaces (state) WHERE state = 'current';
CREATE UNIQUE INDEX one_space_in_building ON spaces (state) WHERE state = 'building';

-- Vectors are half-precision, little-endian, unit length. `part` counts the windows of a long text.
CREATE TABLE vectors (
  owner_kind  TEXT NOT NULL CHECK (owner_kind IN ('turn', 'memory')),
  owner_id    TEXT NOT NULL,
  space_id    TEXT NOT NULL REFERENCES spaces (id),
  part        INTEGER NOT NULL DEFAULT 0,
  vector      BLOB NOT NULL,
  PRIMARY KEY (owner_kind, owner_id, space_id, part)
) STRICT, WITHOUT ROWID;

-- The vector that matches a prompt to a memory it needs. Recomputed if it is missing or has another revision.
-- `turn_id` is the turn whose text was read before the memory's.
CREATE TABLE need_vectors (
  memory_id  TEXT PRIMARY KEY REFERENCES memories (id),
  turn_id    TEXT REFERENCES turns (id),
  revision   TEXT NOT NULL,
  vector     BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX need_vectors_by_turn ON need_vectors (turn_id);

-- Full text of turns and memories. The index is the only copy of the analyser's tokens: FTS5 keeps them without their
-- text (contentless). Secure deletion makes a deleted token leave the file at once; `contentless_delete` would only
-- mark it. `*_words` counts the rows that have a word, and `*_places` says where each word stands.
CREATE VIRTUAL TABLE messages_fts USING fts5 (
  tokens, content = '', tokenize = 'unicode61 remove_diacritics 0'
);
INSERT INTO messages_fts (messages_fts, rank) VALUES ('secure-delete', 1);

CREATE VIRTUAL TABLE messages_words USING fts5vocab ('messages_fts', 'row');
CREATE VIRTUAL TABLE messages_places USING fts5vocab ('messages_fts', 'instance');

CREATE VIRTUAL TABLE memories_fts USING fts5 (
  tokens, content = '', tokenize = 'unicode61 remove_diacritics 0'
);
INSERT INTO memories_fts (memories_fts, rank) VALUES ('secure-delete', 1);

CREATE VIRTUAL TABLE memories_words USING fts5vocab ('memories_fts', 'row');
CREATE VIRTUAL TABLE memories_places USING fts5vocab ('memories_fts', 'instance');

-- A deleted row takes its tokens along, which are read back from the index, so forgetting is exact with the tokens of
-- any analyser. Each such deletion reads the index once; to delete many rows, unindex them first.
CREATE TRIGGER turns_unindexed BEFORE DELETE ON turns
WHEN EXISTS (SELECT 1 FROM messages_fts_docsize WHERE id = old.seq) BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, tokens)
  SELECT 'delete', old.seq, group_concat(term, ' ') FROM messages_places WHERE doc = old.seq;
END;

CREATE TRIGGER memories_unindexed BEFORE DELETE ON memories
WHEN EXISTS (SELECT 1 FROM memories_fts_docsize WHERE id = old.seq) BEGIN
  INSERT INTO memories_fts (memories_fts, rowid, tokens)
  SELECT 'delete', old.seq, group_concat(term, ' ') FROM memories_places WHERE doc = old.seq;
END;

-- What models cost.
CREATE TABLE llm_usage (
  seq            INTEGER PRIMARY KEY,
  tenant         TEXT NOT NULL DEFAULT 'local',
  at             TEXT NOT NULL,
  day            TEXT NOT NULL,
  operation      TEXT NOT NULL,
  provider       TEXT NOT NULL,
  model          TEXT NOT NULL,
  calls          INTEGER NOT NULL,
  input_tokens   INTEGER NOT NULL,
  output_tokens  INTEGER NOT NULL,
  estimated      INTEGER NOT NULL,
  dollars        REAL
) STRICT;

CREATE INDEX llm_usage_by_day ON llm_usage (day);

-- How far models have read each session.
CREATE TABLE readings (
  tenant      TEXT NOT NULL DEFAULT 'local',
  host        TEXT NOT NULL,
  session_id  TEXT NOT NULL,
  seq         INTEGER NOT NULL,
  at          TEXT NOT NULL,
  PRIMARY KEY (tenant, host, session_id)
) STRICT, WITHOUT ROWID;

-- Answers of models that could not be parsed.
CREATE TABLE unread_answers (
  id              TEXT PRIMARY KEY,
  tenant          TEXT NOT NULL DEFAULT 'local',
  at              TEXT NOT NULL,
  host            TEXT NOT NULL,
  session_id      TEXT NOT NULL,
  operation       TEXT NOT NULL,
  prompt_version  TEXT NOT NULL,
  reason          TEXT NOT NULL,
  turns           TEXT NOT NULL,
  answer          TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The last analysis of each session and how far it reached, with a small cache. Derived.
CREATE TABLE session_analyses (
  tenant       TEXT NOT NULL DEFAULT 'local',
  host         TEXT NOT NULL,
  session_id   TEXT NOT NULL,
  until_seq    INTEGER NOT NULL,
  analysis     TEXT NOT NULL,
  episode_id   TEXT REFERENCES memories (id),
  analysed_at  TEXT NOT NULL,
  PRIMARY KEY (tenant, host, session_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE analysis_cache (
  seq           INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant        TEXT NOT NULL DEFAULT 'local',
  host          TEXT NOT NULL,
  session_id    TEXT NOT NULL,
  history_hash  TEXT NOT NULL,
  analysis      TEXT NOT NULL,
  created_at    TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX analysis_cache_once ON analysis_cache (tenant, host, session_id, history_hash);

-- How much a tool's output is worth. Derived.
CREATE TABLE informed_outputs (
  content_hash  TEXT PRIMARY KEY,
  score         REAL NOT NULL,
  summary       TEXT NOT NULL,
  made_by       TEXT NOT NULL,
  created_at    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Threads: topics that live across sessions, which turn is in which and why, what ties them together, and where the
-- work in them stood. Vectors and bridges made by rules are derived; names and turns changed by hand are not.
CREATE TABLE threads (
  seq           INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  tenant        TEXT NOT NULL DEFAULT 'local',
  user_id       TEXT NOT NULL DEFAULT 'local',
  project_id    TEXT REFERENCES projects (id),
  agent         TEXT NOT NULL DEFAULT '',
  channel       TEXT NOT NULL DEFAULT 'unknown',
  title         TEXT NOT NULL,
  title_by      TEXT NOT NULL DEFAULT 'rules' CHECK (title_by IN ('rules', 'model', 'user')),
  summary       TEXT NOT NULL DEFAULT '',
  topics        TEXT NOT NULL DEFAULT '[]',
  state         TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended', 'archived')),
  origin        TEXT NOT NULL DEFAULT 'prompt',
  parent_id     TEXT REFERENCES threads (id),
  merged_into   TEXT REFERENCES threads (id),
  weight        REAL NOT NULL DEFAULT 1.0,
  opened_at     TEXT NOT NULL,
  last_active   TEXT NOT NULL,
  suspended_at  TEXT,
  drifts        TEXT NOT NULL DEFAULT '[]'
) STRICT;

CREATE INDEX threads_by_place ON threads (tenant, user_id, project_id, state, last_active);

CREATE TABLE thread_turns (
  turn_id    TEXT PRIMARY KEY REFERENCES turns (id),
  thread_id  TEXT NOT NULL REFERENCES threads (id),
  at         TEXT NOT NULL,
  topics     TEXT NOT NULL DEFAULT '[]'
) STRICT, WITHOUT ROWID;

CREATE INDEX thread_turns_by_thread ON thread_turns (thread_id, at);

CREATE TABLE thread_decisions (
  seq         INTEGER PRIMARY KEY,
  turn_id     TEXT NOT NULL REFERENCES turns (id),
  at          TEXT NOT NULL,
  action      TEXT NOT NULL,
  thread_id   TEXT NOT NULL REFERENCES threads (id),
  parent_id   TEXT REFERENCES threads (id),
  similarity  REAL NOT NULL,
  reason      TEXT NOT NULL,
  borderline  INTEGER NOT NULL DEFAULT 0,
  model       TEXT NOT NULL DEFAULT '',
  actor       TEXT NOT NULL DEFAULT 'rules',
  weighed     TEXT NOT NULL DEFAULT '[]'
) STRICT;

CREATE INDEX thread_decisions_by_turn ON thread_decisions (turn_id, seq);

CREATE TABLE thread_vectors (
  thread_id  TEXT NOT NULL REFERENCES threads (id),
  space_id   TEXT NOT NULL REFERENCES spaces (id),
  vector     BLOB NOT NULL,
  PRIMARY KEY (thread_id, space_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE bridges (
  id             TEXT PRIMARY KEY,
  tenant         TEXT NOT NULL DEFAULT 'local',
  source_id      TEXT NOT NULL REFERENCES threads (id),
  target_id      TEXT NOT NULL REFERENCES threads (id) CHECK (target_id <> source_id),
  kind           TEXT NOT NULL,
  reason         TEXT NOT NULL,
  confidence     REAL NOT NULL CHECK (confidence BETWEEN 0.5 AND 1.0),
  depth          INTEGER NOT NULL DEFAULT 0,
  made_by        TEXT NOT NULL CHECK (made_by IN ('rules', 'gossip', 'model', 'user')),
  created_at     TEXT NOT NULL,
  reinforced_at  TEXT NOT NULL,
  removed_at     TEXT -- set if the user removed it; it is then not created again
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX bridges_once ON bridges (min(source_id, target_id), max(source_id, target_id), kind);
CREATE INDEX bridges_by_source ON bridges (source_id);
CREATE INDEX bridges_by_target ON bridges (target_id);

-- Days on which a project was worked on: bridges fade in such days.
CREATE TABLE active_days (
  tenant      TEXT NOT NULL DEFAULT 'local',
  project_id  TEXT NOT NULL DEFAULT '',
  day         TEXT NOT NULL,
  PRIMARY KEY (tenant, project_id, day)
) STRICT, WITHOUT ROWID;

-- Where the work of a session stood.
CREATE TABLE syntheses (
  id          TEXT PRIMARY KEY,
  tenant      TEXT NOT NULL DEFAULT 'local',
  user_id     TEXT NOT NULL DEFAULT 'local',
  project_id  TEXT REFERENCES projects (id),
  agent       TEXT NOT NULL DEFAULT '',
  channel     TEXT NOT NULL DEFAULT 'unknown',
  host        TEXT NOT NULL,
  session_id  TEXT NOT NULL,
  thread_id   TEXT REFERENCES threads (id),
  occasion    TEXT NOT NULL CHECK (occasion IN ('pre_compact', 'post_compact', 'session_end', 'quiet')),
  at          TEXT NOT NULL,
  until_seq   INTEGER NOT NULL,
  content     TEXT NOT NULL,
  made_by     TEXT NOT NULL DEFAULT 'rules'
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX syntheses_once ON syntheses (tenant, host, session_id, ifnull(thread_id, ''));
CREATE INDEX syntheses_by_project ON syntheses (tenant, user_id, project_id, at);

-- One run of consolidation: its plan (counts and ids, never words), its progress and its result. One runs at a time.
CREATE TABLE gardens (
  id          TEXT PRIMARY KEY,
  tenant      TEXT NOT NULL DEFAULT 'local',
  occasion    TEXT NOT NULL CHECK (occasion IN ('hand', 'idle', 'schedule')),
  state       TEXT NOT NULL CHECK (state IN ('running', 'completed', 'failed')),
  plan        TEXT NOT NULL,
  totals      TEXT NOT NULL DEFAULT '{}',
  started_at  TEXT NOT NULL,
  ended_at    TEXT,
  error       TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX gardens_one_at_a_time ON gardens (tenant) WHERE state = 'running';

-- The steps of a run in their order. A step that is done is not done again after an interruption.
CREATE TABLE garden_steps (
  garden_id  TEXT NOT NULL REFERENCES gardens (id),
  place      INTEGER NOT NULL,
  phase      TEXT NOT NULL,
  subject    TEXT NOT NULL, -- JSON: ids
  done_at    TEXT,
  result     TEXT NOT NULL DEFAULT '{}', -- JSON: counts
  PRIMARY KEY (garden_id, place)
) STRICT, WITHOUT ROWID;

-- What must not come back from a backup, a transcript or the spool: keyed hashes, never words.
CREATE TABLE tombstones (
  hash    BLOB PRIMARY KEY,
  kind    TEXT NOT NULL,
  at      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What a forgetting removed, in counts, signed; never what it was.
CREATE TABLE receipts (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL DEFAULT 'local',
  at         TEXT NOT NULL,
  actor      TEXT NOT NULL,
  content    TEXT NOT NULL,
  signature  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Who may come in over TCP: tokens of programs, links that sign a browser in once, and the sessions of browsers. Each
-- is 256 random bits, of which only the SHA-256 is kept: whoever reads this table cannot come in with it.
CREATE TABLE tokens (
  id            TEXT PRIMARY KEY,
  tenant        TEXT NOT NULL DEFAULT 'local',
  kind          TEXT NOT NULL CHECK (kind IN ('token', 'link', 'session')),
  name          TEXT NOT NULL,
  scope         TEXT NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
  hash          BLOB NOT NULL UNIQUE,
  created_at    TEXT NOT NULL,
  expires_at    TEXT,
  last_used_at  TEXT,
  revoked_at    TEXT
) STRICT, WITHOUT ROWID;

-- Answers to requests that may be repeated, kept for a day, by hashes of the key and of the request. Status 0: it is
-- being carried out. Every forgetting empties `request` and `body`, because an answer may hold what is forgotten.
CREATE TABLE answered (
  key      BLOB PRIMARY KEY,
  at       TEXT NOT NULL,
  request  BLOB,
  status   INTEGER NOT NULL DEFAULT 0,
  type     TEXT NOT NULL DEFAULT '',
  body     BLOB
) STRICT, WITHOUT ROWID;

CREATE INDEX answered_at ON answered (at);

-- Notes of the user's vault: derived from its files and recomputed from them. A note deleted in the vault is deleted
-- here. `hash` and `stamp` show whether a file must be read again; an empty `stamp` means that it must.
CREATE TABLE vault_notes (
  path     TEXT PRIMARY KEY,
  stamp    TEXT NOT NULL,
  hash     TEXT NOT NULL,
  changed  TEXT NOT NULL,
  tags     TEXT NOT NULL,
  trouble  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A vector belongs to one space; in another space the chunk is embedded again.
CREATE TABLE vault_chunks (
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  path      TEXT NOT NULL REFERENCES vault_notes (path),
  part      INTEGER NOT NULL,
  heading   TEXT NOT NULL,
  text      TEXT NOT NULL,
  space_id  TEXT,
  vector    BLOB,
  UNIQUE (path, part)
) STRICT;

CREATE INDEX vault_chunks_by_space ON vault_chunks (space_id);

-- Notes are written often, and secure deletion reads the whole index for every word: five seconds for a hundred
-- notes. Text that was removed from a file stays in the segments until they are merged, which every forgetting
-- requests (`vault.merge`).
CREATE VIRTUAL TABLE vault_fts USING fts5 (tokens, tokenize = 'unicode61 remove_diacritics 0');
CREATE VIRTUAL TABLE vault_words USING fts5vocab ('vault_fts', 'row');

-- Pages that Filrouge writes into the vault, one memory a line. `path` is empty for a page that its user removed.
CREATE TABLE vault_pages (
  key    TEXT PRIMARY KEY,
  place  TEXT NOT NULL,
  path   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Memories that have a line on a page; a line that is gone was removed by its user. `hash` is that of its words,
-- because the line of a forgotten memory must still be taken out; so there is no reference either. `is_left`: many
-- lines went at once, so the memory stays and is not written again.
CREATE TABLE vault_lines (
  memory_id  TEXT PRIMARY KEY,
  page       TEXT NOT NULL,
  hash       TEXT NOT NULL,
  is_left    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
