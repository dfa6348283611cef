-- Full text over the analyser's token string, so that every backend finds the same things. The text itself
-- stays in its own table (external content); secure-delete makes a deleted token leave the index at once.

CREATE VIRTUAL TABLE messages_fts USING fts5 (
  tokens, content = 'turns', content_rowid = 'seq', tokenize = 'unicode61 remove_diacritics 0'
);
INSERT INTO messages_fts (messages_fts, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER turns_indexed AFTER INSERT ON turns BEGIN
  INSERT INTO messages_fts (rowid, tokens) VALUES (new.seq, new.tokens);
END;

CREATE TRIGGER turns_unindexed AFTER DELETE ON turns BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, tokens) VALUES ('delete', old.seq, old.tokens);
END;

CREATE TRIGGER turns_reindexed AFTER UPDATE OF tokens ON turns BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, tokens) VALUES ('delete', old.seq, old.tokens);
  INSERT INTO messages_fts (rowid, tokens) VALUES (new.seq, new.tokens);
END;

CREATE VIRTUAL TABLE memories_fts USING fts5 (
  tokens, content = 'memories', content_rowid = 'seq', tokenize = 'unicode61 remove_diacritics 0'
);
INSERT INTO memories_fts (memories_fts, rank) VALUES ('secure-delete', 1);

-- How many memories have a word: what a rare word is.
CREATE VIRTUAL TABLE memories_words USING fts5vocab ('memories_fts', 'row');

CREATE TRIGGER memories_indexed AFTER INSERT ON memories BEGIN
  INSERT INTO memories_fts (rowid, tokens) VALUES (new.seq, new.tokens);
END;

CREATE TRIGGER memories_unindexed AFTER DELETE ON memories BEGIN
  INSERT INTO memories_fts (memories_fts, rowid, tokens) VALUES ('delete', old.seq, old.tokens);
END;

CREATE TRIGGER memories_reindexed AFTER UPDATE OF tokens ON memories BEGIN
  INSERT INTO memories_fts (memories_fts, rowid, tokens) VALUES ('delete', old.seq, old.tokens);
  INSERT INTO memories_fts (rowid, tokens) VALUES (new.seq, new.tokens);
END;

INSERT INTO messages_fts (messages_fts) VALUES ('rebuild');
INSERT INTO memories_fts (memories_fts) VALUES ('rebuild');
