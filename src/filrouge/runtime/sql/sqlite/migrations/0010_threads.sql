-- Threads: topics that live across sessions, which turn is in which and why, what ties them together, and where the
-- work in them stood. Vectors and bridges made by rules are derived; names given and turns moved by hand are not.

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

-- What was said of a thread in one session: derived as well.
CREATE TABLE thread_parts (
  thread_id  TEXT NOT NULL REFERENCES threads (id),
  space_id   TEXT NOT NULL REFERENCES spaces (id),
  place      INTEGER NOT NULL,
  session    TEXT NOT NULL,
  vector     BLOB,
  topics     TEXT NOT NULL,
  PRIMARY KEY (thread_id, space_id, place)
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
  removed_at     TEXT -- by the user: it is not made again
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX bridges_once ON bridges (min(source_id, target_id), max(source_id, target_id), kind);
CREATE INDEX bridges_by_source ON bridges (source_id);
CREATE INDEX bridges_by_target ON bridges (target_id);

-- Bridges fade in days on which the project is worked on.
CREATE TABLE active_days (
  tenant      TEXT NOT NULL DEFAULT 'local',
  project_id  TEXT NOT NULL DEFAULT '',
  day         TEXT NOT NULL,
  PRIMARY KEY (tenant, project_id, day)
) STRICT, WITHOUT ROWID;

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

-- A rule that the user switched off stays, and is in no block.
ALTER TABLE memories ADD COLUMN disabled INTEGER NOT NULL DEFAULT 0;

-- What binds the work is read at every prompt, by its kind.
CREATE INDEX memories_by_kind ON memories (tenant, state, kind, project_id);
