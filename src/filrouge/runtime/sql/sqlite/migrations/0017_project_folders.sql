-- Folders whose `.filrouge.toml` chose a project's name, by the names that each folder has by itself. A name is open to
-- the folder that had it first and to those that the user agreed to ('agreed'); the others wait, known by their path.
CREATE TABLE project_folders (
  name   TEXT NOT NULL,
  alias  TEXT NOT NULL,
  state  TEXT NOT NULL CHECK (state IN ('agreed', 'waiting')),
  at     TEXT NOT NULL,
  PRIMARY KEY (name, alias)
) STRICT, WITHOUT ROWID;

-- What was joined before there was this table stays joined.
INSERT INTO project_folders (name, alias, state, at)
SELECT chosen.value, folder.value, 'agreed', min(events.received_at)
FROM events
JOIN json_each(iif(json_valid(events.payload), events.payload, '{}'), '$.project') AS chosen
  ON chosen.key = 0 AND chosen.value LIKE 'name:%'
JOIN json_each(iif(json_valid(events.payload), events.payload, '{}'), '$.project') AS folder ON folder.key > 0
GROUP BY chosen.value, folder.value;
