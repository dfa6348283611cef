-- A space's calibration is measured where it is not shipped, so it is data (JSON, null until measured). `state` says
-- which space recall reads (one is current), which is being built beside it, and which is to be cleared away.
-- `embedder` is the registered name that made it. Until now there was one default, and no space had a state: the one
-- with the most vectors is what recall reads.
ALTER TABLE spaces DROP COLUMN median;
ALTER TABLE spaces DROP COLUMN question_median;
ALTER TABLE spaces ADD COLUMN calibration TEXT;
ALTER TABLE spaces ADD COLUMN embedder TEXT NOT NULL DEFAULT '';
ALTER TABLE spaces ADD COLUMN state TEXT NOT NULL DEFAULT 'retired' CHECK (state IN ('current', 'building', 'retired'));
CREATE UNIQUE INDEX one_current_space ON spaces (state) WHERE state = 'current';
CREATE UNIQUE INDEX one_space_in_building ON spaces (state) WHERE state = 'building';
UPDATE spaces SET embedder = iif(model = 'stable-hash', 'hashing', 'e5');
UPDATE spaces SET state = 'current'
WHERE id = (SELECT space_id FROM vectors GROUP BY space_id ORDER BY count(*) DESC, space_id LIMIT 1);
