-- The team of this home. `cursor` is the last change of the hub that was applied, `entry` the last journal entry whose
-- memories were considered for sharing. The member's token is in a file of its own, which no backup holds.
CREATE TABLE team (
  one          INTEGER PRIMARY KEY CHECK (one = 1),
  url          TEXT NOT NULL,
  name         TEXT NOT NULL,
  member       TEXT NOT NULL,
  member_name  TEXT NOT NULL,
  device       TEXT NOT NULL,
  device_name  TEXT NOT NULL,
  joined_at    TEXT NOT NULL,
  is_admin     INTEGER NOT NULL DEFAULT 0,
  cursor       TEXT NOT NULL DEFAULT '',
  entry        INTEGER NOT NULL
) STRICT;
-- What is shared of a project. `cursor` is how far the team's earlier memories of it were read; NULL = all of them.
CREATE TABLE team_projects (
  project_id     TEXT PRIMARY KEY,
  policy         TEXT NOT NULL CHECK (policy IN ('off', 'ask', 'rules-and-decisions', 'all-memories')),
  with_evidence  INTEGER NOT NULL DEFAULT 0,
  cursor         TEXT
) STRICT, WITHOUT ROWID;
-- The outbox, and what became of what was sent. `version` is the last number that was used for a memory, `digest` the
-- content that the hub has, `mark` grows with each decision.
CREATE TABLE team_shared (
  memory_id  TEXT PRIMARY KEY,
  state      TEXT NOT NULL CHECK (state IN
               ('candidate', 'queued', 'shared', 'leaving', 'withdrawn', 'declined', 'refused')),
  version    INTEGER NOT NULL DEFAULT 0,
  digest     BLOB,
  mark       INTEGER NOT NULL DEFAULT 0,
  reason     TEXT NOT NULL DEFAULT '',
  at         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX team_shared_by_state ON team_shared (state, at);
-- What colleagues share, by its id on the hub; the text is in `memories`. `memory_id` is empty where there is none.
CREATE TABLE team_received (
  hub_id      TEXT PRIMARY KEY,
  memory_id   TEXT NOT NULL DEFAULT '',
  author      TEXT NOT NULL,
  version     INTEGER NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('held', 'known', 'ended', 'forgetting', 'forgotten', 'confirmed')),
  supersedes  TEXT NOT NULL DEFAULT '',
  left_over   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX team_received_by_memory ON team_received (memory_id) WHERE memory_id <> '';
CREATE INDEX team_received_by_state ON team_received (state) WHERE state IN ('forgetting', 'forgotten');
