-- Who may come in over TCP: tokens of programs, links that sign a browser in once, and the sessions of browsers. Each is
-- 256 random bits, of which only the SHA-256 is kept: whoever reads this table cannot come in with it.

CREATE TABLE tokens (
  id            TEXT PRIMARY KEY,
  tenant        TEXT NOT NULL DEFAULT 'local',
  kind          TEXT NOT NULL CHECK (kind IN ('token', 'link', 'session')),
  name          TEXT NOT NULL,
  scope         TEXT NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
  hash          BLOB NOT NULL UNIQUE,
  created_at    TEXT NOT NULL,
  expires_at    TEXT,
  last_used_at  TEXT,
  revoked_at    TEXT
) STRICT, WITHOUT ROWID;
