-- The garden: runs of consolidation, what was forgotten and must not come back, and the receipts of it.

-- One run: what it planned (counts and ids, never words), how far it is, what came of it. One runs at a time.
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

-- The steps of a run in their order; one that is done is not done again, whoever ends in between.
CREATE TABLE garden_steps (
  garden_id  TEXT NOT NULL REFERENCES gardens (id),
  place      INTEGER NOT NULL,
  phase      TEXT NOT NULL,
  subject    TEXT NOT NULL, -- JSON: ids
  done_at    TEXT,
  result     TEXT NOT NULL DEFAULT '{}', -- JSON: counts
  PRIMARY KEY (garden_id, place)
) STRICT, WITHOUT ROWID;

-- What must not come back, from a backup, a transcript or the spool: keyed hashes, never words.
CREATE TABLE tombstones (
  hash    BLOB PRIMARY KEY,
  kind    TEXT NOT NULL,
  at      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What forgetting took, in counts, signed; never what it was.
CREATE TABLE receipts (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL DEFAULT 'local',
  at         TEXT NOT NULL,
  actor      TEXT NOT NULL,
  content    TEXT NOT NULL,
  signature  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- How often a memory went in front of a prompt, and when last. Strength follows from that and its mentions.
ALTER TABLE memories ADD COLUMN uses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memories ADD COLUMN last_used TEXT;
ALTER TABLE memories DROP COLUMN strength;

-- What is old is found without reading what is kept.
CREATE INDEX turns_passing ON turns (at, id) WHERE role = 'tool' OR skipped <> '';
