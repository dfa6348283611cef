-- Statements that wait for a person: each is a memory that is not served, and what keeps it from that.
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

-- What was quarantined before there was a queue.
INSERT INTO reviews (memory_id, kind, reason, outcome, at)
SELECT id, 'quarantine', 'its words are not in the turn', 'open', created_at FROM memories WHERE state = 'quarantined';

-- Which memories an entry of the journal speaks of: its subject, and every other that it changed or rested on.
CREATE TABLE journal_touches (
  seq        INTEGER NOT NULL,
  memory_id  TEXT NOT NULL,
  PRIMARY KEY (seq, memory_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX journal_touches_by_memory ON journal_touches (memory_id, seq);
INSERT INTO journal_touches (seq, memory_id)
SELECT seq, subject_id FROM journal
UNION SELECT seq, value FROM journal, json_each(iif(json_valid(payload), payload, '{}'), '$.closed');
DROP INDEX journal_by_subject;

-- A memory's chain is followed both ways.
CREATE INDEX memories_by_predecessor ON memories (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX memories_by_successor ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
