-- A newer memory perhaps took the place of an older one: less probable than what supersedes it, and asked of nobody.
CREATE TABLE doubts (
  older   TEXT NOT NULL REFERENCES memories (id),
  newer   TEXT NOT NULL REFERENCES memories (id),
  chance  REAL NOT NULL,
  PRIMARY KEY (older, newer)
) STRICT, WITHOUT ROWID;
CREATE INDEX doubts_by_newer ON doubts (newer);
