-- The git branch that was checked out when something was said; empty where there was none, or nobody knew.
ALTER TABLE turns ADD COLUMN branch TEXT NOT NULL DEFAULT '';
ALTER TABLE memories ADD COLUMN branch TEXT NOT NULL DEFAULT '';
