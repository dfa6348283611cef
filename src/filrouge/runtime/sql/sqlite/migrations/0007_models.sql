-- What models cost, how far they have read each conversation, and what they answered that nobody can read.

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

CREATE TABLE readings (
  tenant      TEXT NOT NULL DEFAULT 'local',
  host        TEXT NOT NULL,
  session_id  TEXT NOT NULL,
  seq         INTEGER NOT NULL,
  at          TEXT NOT NULL,
  PRIMARY KEY (tenant, host, session_id)
) STRICT, WITHOUT ROWID;

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

ALTER TABLE jobs ADD COLUMN leased_at TEXT;
