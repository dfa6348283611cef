-- What sessions came to: the last analysis of each and how far it reached, a small cache, who spoke of which concept,
-- and what tool output is worth. All of it is derived; forgetting takes it with the turns it was made of.

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

CREATE TABLE concept_mentions (
  memory_id   TEXT NOT NULL REFERENCES memories (id),
  host        TEXT NOT NULL,
  session_id  TEXT NOT NULL,
  first_at    TEXT NOT NULL,
  last_at     TEXT NOT NULL,
  PRIMARY KEY (memory_id, host, session_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX concept_mentions_by_session ON concept_mentions (host, session_id);

CREATE TABLE informed_outputs (
  content_hash  TEXT PRIMARY KEY,
  score         REAL NOT NULL,
  summary       TEXT NOT NULL,
  made_by       TEXT NOT NULL,
  created_at    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A concept is one memory however often it is said.
CREATE UNIQUE INDEX memories_one_concept ON memories (tenant, user_id, ifnull(project_id, ''), subject)
  WHERE kind = 'concept' AND state = 'live';

-- A session by its id alone, and its turns in the order in which they were stored.
CREATE INDEX turns_by_session ON turns (tenant, session_id, seq);
