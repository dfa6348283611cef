-- A space's calibration is measured where it is not shipped, so it is data (JSON, null until measured). `state` says
-- which space recall reads (one is current), which is being built beside it, and which is to be cleared away.
ALTER TABLE spaces DROP COLUMN median;
ALTER TABLE spaces DROP COLUMN question_median;
ALTER TABLE spaces ADD COLUMN calibration TEXT;
ALTER TABLE spaces ADD COLUMN state TEXT NOT NULL DEFAULT 'retired' CHECK (state IN ('current', 'building', 'retired'));
CREATE UNIQUE INDEX one_current_space ON spaces (state) WHERE state = 'current';
CREATE UNIQUE INDEX one_space_in_building ON spaces (state) WHERE state = 'building';
