-- What became of a recall: delivered, late (ready after the agent had gone on), or empty. Of recalls logged before this
-- it is not known which were late. `omitted`: how many candidates the row does not list, by reason, as JSON.
ALTER TABLE memory_retrievals ADD COLUMN outcome TEXT NOT NULL DEFAULT 'delivered';
ALTER TABLE memory_retrievals ADD COLUMN omitted TEXT NOT NULL DEFAULT '{}';
UPDATE memory_retrievals SET outcome = 'empty' WHERE total_tokens_added = 0;
