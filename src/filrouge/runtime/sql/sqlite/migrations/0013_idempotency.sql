-- What was answered to a request that may come again, for a day, by hashes of its key and of what was asked.
-- Status 0: it is being carried out. Every forgetting empties `request` and `body`: an answer may hold what is forgotten.
CREATE TABLE answered (
  key      BLOB PRIMARY KEY,
  at       TEXT NOT NULL,
  request  BLOB,
  status   INTEGER NOT NULL DEFAULT 0,
  type     TEXT NOT NULL DEFAULT '',
  body     BLOB
) STRICT, WITHOUT ROWID;

CREATE INDEX answered_at ON answered (at);
