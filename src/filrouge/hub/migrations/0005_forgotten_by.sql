-- Who forgot a memory: the device on which its author said it erases it too if that was the author.
ALTER TABLE hub.versions ADD COLUMN forgotten_by text NOT NULL DEFAULT '';
