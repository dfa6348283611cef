-- Pages that Filrouge writes into the vault, one memory a line. `path` is empty for a page that its user removed.
CREATE TABLE vault_pages (
  key    TEXT PRIMARY KEY,
  place  TEXT NOT NULL,
  path   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Memories that have a line on a page: one that is gone there was removed by its user. The hash of its words, because of
-- a memory that is forgotten the line is still to be taken out; so there is no reference either. `is_left`: many lines
-- went at once; the memory stays, and is not written again.
CREATE TABLE vault_lines (
  memory_id  TEXT PRIMARY KEY,
  page       TEXT NOT NULL,
  hash       TEXT NOT NULL,
  is_left    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
