-- The index becomes the only copy of the analyser's tokens: FTS5 keeps them without their text (contentless), and what
-- a row is indexed under is read back from the index itself when the row goes (`*_places`). So forgetting is exact
-- whatever analyser made the tokens, and the token string, once stored beside every text, is gone.
-- `contentless_delete` would not do: it only marks what is deleted, and the words stay in the file.

DROP TRIGGER turns_indexed;
DROP TRIGGER turns_unindexed;
DROP TRIGGER turns_reindexed;
DROP TRIGGER memories_indexed;
DROP TRIGGER memories_unindexed;
DROP TRIGGER memories_reindexed;
DROP TABLE memories_words;
DROP TABLE memories_fts;
DROP TABLE messages_fts;

CREATE VIRTUAL TABLE messages_fts USING fts5 (
  tokens, content = '', tokenize = 'unicode61 remove_diacritics 0'
);
INSERT INTO messages_fts (messages_fts, rank) VALUES ('secure-delete', 1);
INSERT INTO messages_fts (rowid, tokens) SELECT seq, tokens FROM turns WHERE tokens <> '';

CREATE VIRTUAL TABLE memories_fts USING fts5 (
  tokens, content = '', tokenize = 'unicode61 remove_diacritics 0'
);
INSERT INTO memories_fts (memories_fts, rank) VALUES ('secure-delete', 1);
INSERT INTO memories_fts (rowid, tokens) SELECT seq, tokens FROM memories WHERE tokens <> '';

-- How many rows have a word, and where each word stands.
CREATE VIRTUAL TABLE messages_words USING fts5vocab ('messages_fts', 'row');
CREATE VIRTUAL TABLE memories_words USING fts5vocab ('memories_fts', 'row');
CREATE VIRTUAL TABLE messages_places USING fts5vocab ('messages_fts', 'instance');
CREATE VIRTUAL TABLE memories_places USING fts5vocab ('memories_fts', 'instance');

ALTER TABLE turns DROP COLUMN tokens;
ALTER TABLE memories DROP COLUMN tokens;

-- Which rows another analyser indexed.
CREATE INDEX turns_by_analyser ON turns (analyser);
CREATE INDEX memories_by_analyser ON memories (analyser);

-- A row that goes takes its words along. Each such deletion reads the index once; to delete many, unindex them first.
CREATE TRIGGER turns_unindexed BEFORE DELETE ON turns
WHEN EXISTS (SELECT 1 FROM messages_fts_docsize WHERE id = old.seq) BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, tokens)
  SELECT 'delete', old.seq, group_concat(term, ' ') FROM messages_places WHERE doc = old.seq;
END;

CREATE TRIGGER memories_unindexed BEFORE DELETE ON memories
WHEN EXISTS (SELECT 1 FROM memories_fts_docsize WHERE id = old.seq) BEGIN
  INSERT INTO memories_fts (memories_fts, rowid, tokens)
  SELECT 'delete', old.seq, group_concat(term, ' ') FROM memories_places WHERE doc = old.seq;
END;
