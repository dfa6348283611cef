-- Which texts have vectors is read from this index, which is a sixteenth of the vectors' size.
CREATE INDEX vectors_by_space ON vectors (space_id, owner_kind, owner_id) WHERE part = 0;
-- With the project and the number of memories, the costs of a month are counted from the index alone.
DROP INDEX recalls_by_day;
CREATE INDEX recalls_by_day
  ON memory_retrievals (created_at, outcome, total_tokens_added, project_id, memories_injected);
