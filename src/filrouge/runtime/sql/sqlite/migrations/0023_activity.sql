-- What happened on each day is counted from these indexes alone.
CREATE INDEX memories_by_day ON memories (valid_from, kind, state);
CREATE INDEX events_by_day ON events (kind, at);
CREATE INDEX recalls_by_day ON memory_retrievals (created_at, outcome, total_tokens_added);
