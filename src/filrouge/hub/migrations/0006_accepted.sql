-- The admin who accepted a rule for everybody in the tenant; empty = each reader decides. The version moves to a new
-- position then, so every device hears of it. A later version with other words is not accepted.
ALTER TABLE hub.versions ADD COLUMN accepted_by text NOT NULL DEFAULT '';
