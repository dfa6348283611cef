-- Memories of which a newer one perhaps took the place, where that is not probable enough to end them.
CREATE TABLE doubts (
  older  TEXT NOT NULL REFERENCES memories (id),
  newer  TEXT NOT NULL REFERENCES memories (id),
  PRIMARY KEY (older, newer)
) STRICT, WITHOUT ROWID;
CREATE INDEX doubts_by_newer ON doubts (newer);
