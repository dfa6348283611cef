-- Notes of the user's vault: derived from its files, and made again from them. A note that is gone from the vault is gone
-- here. `hash` and `stamp` tell whether a file must be read again; `stamp` is empty where it must.
CREATE TABLE vault_notes (
  path     TEXT PRIMARY KEY,
  stamp    TEXT NOT NULL,
  hash     TEXT NOT NULL,
  changed  TEXT NOT NULL,
  tags     TEXT NOT NULL,
  trouble  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A vector is that of one space; in another space the chunk is embedded again.
CREATE TABLE vault_chunks (
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  path      TEXT NOT NULL REFERENCES vault_notes (path),
  part      INTEGER NOT NULL,
  heading   TEXT NOT NULL,
  text      TEXT NOT NULL,
  space_id  TEXT,
  vector    BLOB,
  UNIQUE (path, part)
) STRICT;

CREATE INDEX vault_chunks_by_space ON vault_chunks (space_id);

-- Notes are written often, and secure deletion reads the whole index for every word: five seconds for a hundred notes.
-- What a file no longer says stays in its segments until they are merged, which every forgetting has done (`vault.merge`).
CREATE VIRTUAL TABLE vault_fts USING fts5 (tokens, tokenize = 'unicode61 remove_diacritics 0');
CREATE VIRTUAL TABLE vault_words USING fts5vocab ('vault_fts', 'row');
