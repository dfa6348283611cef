-- The language of a memory's text (en, fr, es); empty in rows that were stored before.
ALTER TABLE memories ADD COLUMN language TEXT NOT NULL DEFAULT '';
