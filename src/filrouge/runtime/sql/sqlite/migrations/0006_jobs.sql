-- What understands a conversation goes before what makes vectors, and a death is remembered with the work in hand.
ALTER TABLE jobs ADD COLUMN place INTEGER NOT NULL DEFAULT 1;
ALTER TABLE jobs ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET place = 0 WHERE kind IN ('read_turns', 'analyse', 'reconcile', 'brief');
DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (state, place, run_at);
