-- Under which vector a prompt finds the memory that it needs. Made again wherever it is missing or of another revision.
-- `turn_id` names the turn whose words were read before those of the memory.
CREATE TABLE need_vectors (
  memory_id  TEXT PRIMARY KEY REFERENCES memories (id),
  turn_id    TEXT REFERENCES turns (id),
  revision   TEXT NOT NULL,
  vector     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX need_vectors_by_turn ON need_vectors (turn_id);
