-- Search: the words and the vector of each live memory. Run by the owner, as 0001.

-- The first space that a member pushes becomes the tenant's; vectors of another space are not stored.
ALTER TABLE hub.tenants ADD COLUMN space text NOT NULL DEFAULT '', ADD COLUMN dimension integer NOT NULL DEFAULT 0;
GRANT UPDATE (space, dimension) ON hub.tenants TO {serving};

UPDATE hub.tenants SET (space, dimension) = (
  SELECT space, vector_dims(vector) FROM hub.versions WHERE versions.tenant = tenants.tenant AND vector IS NOT NULL
  ORDER BY epoch, xid, seq LIMIT 1)
WHERE EXISTS (SELECT 1 FROM hub.versions WHERE versions.tenant = tenants.tenant AND vector IS NOT NULL);
UPDATE hub.versions SET space = '', vector = NULL FROM hub.tenants
WHERE tenants.tenant = versions.tenant AND vector IS NOT NULL
  AND (versions.space, vector_dims(vector)) <> (tenants.space, tenants.dimension);

-- The tokens of the analyser with their positions, and the version of the analyser; 0 = not analysed.
ALTER TABLE hub.versions ADD COLUMN words tsvector, ADD COLUMN analyser integer NOT NULL DEFAULT 0;

-- Every filter of a search is in this index, so rows that do not pass are not read.
CREATE INDEX versions_by_filter ON hub.versions (tenant, project, kind, author, valid_from, valid_to)
  WHERE is_latest AND state = 'live';
DROP INDEX hub.versions_by_project;

-- Words are indexed and counted as hashes of tenant and word. A plain index of words reads the rows of all tenants for
-- a word, and keeps the word itself as a key after its last memory was forgotten.
CREATE FUNCTION hub.word_key(tenant text, word text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT pg_catalog.hashtextextended(tenant || ' ' || word, 0) $$;

CREATE FUNCTION hub.word_keys(tenant text, words tsvector) RETURNS bigint[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
AS $$
  SELECT array_agg(pg_catalog.hashtextextended(tenant || ' ' || word, 0))
  FROM unnest(pg_catalog.tsvector_to_array(words)) AS word
$$;

CREATE INDEX versions_by_word ON hub.versions USING gin (hub.word_keys(tenant, words)) WITH (fastupdate = off)
  WHERE is_latest AND state = 'live';

-- In how many live memories of the tenant each word occurs; the empty word counts all that are analysed.
CREATE TABLE hub.word_counts (
  tenant    text NOT NULL REFERENCES hub.tenants,
  key       bigint NOT NULL,
  memories  integer NOT NULL,
  PRIMARY KEY (tenant, key)
);
ALTER TABLE hub.word_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE hub.word_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON hub.word_counts USING (tenant = (SELECT hub.tenant()));
CREATE POLICY of_owner ON hub.word_counts TO CURRENT_USER USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON hub.word_counts TO {serving};

-- Counts the words of a row that became findable (`step` 1), or no longer is (-1). Keys are sorted, so that two
-- transactions lock them in one order.
CREATE FUNCTION hub.count_words(tenant text, words tsvector, step integer) RETURNS void
LANGUAGE sql
AS $$
  INSERT INTO hub.word_counts (tenant, key, memories)
  SELECT count_words.tenant, key, step
  FROM unnest(hub.word_keys(tenant, words) || hub.word_key(tenant, '')) AS key ORDER BY key
  ON CONFLICT (tenant, key) DO UPDATE SET memories = word_counts.memories + excluded.memories;
  DELETE FROM hub.word_counts WHERE step < 0 AND word_counts.tenant = count_words.tenant AND memories <= 0
    AND key = ANY (hub.word_keys(count_words.tenant, words) || hub.word_key(count_words.tenant, ''));
$$;

CREATE FUNCTION hub.follow_words() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  IF TG_OP <> 'INSERT' AND OLD.is_latest AND OLD.state = 'live' AND OLD.words IS NOT NULL THEN
    PERFORM hub.count_words(OLD.tenant, OLD.words, -1);
  END IF;
  IF TG_OP <> 'DELETE' AND NEW.is_latest AND NEW.state = 'live' AND NEW.words IS NOT NULL THEN
    PERFORM hub.count_words(NEW.tenant, NEW.words, 1);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER count_words AFTER INSERT OR DELETE ON hub.versions FOR EACH ROW EXECUTE FUNCTION hub.follow_words();
CREATE TRIGGER recount_words AFTER UPDATE ON hub.versions FOR EACH ROW
  WHEN (OLD.is_latest IS DISTINCT FROM NEW.is_latest OR OLD.state IS DISTINCT FROM NEW.state
        OR OLD.words IS DISTINCT FROM NEW.words)
  EXECUTE FUNCTION hub.follow_words();

-- The best `top` memories of this transaction's tenant by the sum of the weights of the probes that find them, among
-- those that pass the filters (NULL = any). A probe is a word, or several that must all occur, and finds at most `cap`.
-- It runs as the owner, because row security keeps a query from using an index on words: its operator is not leakproof.
-- It returns ids alone, of the sealed tenant alone. A key of a word has the tenant in it; were the tenant also looked up
-- in an index, as `v.tenant = own` allows, each probe would read the entries of all its memories.
CREATE FUNCTION hub.match_words(
  probes text[], weights double precision[], projects text[], kinds text[], authors text[], since timestamptz,
  until timestamptz, lasting timestamptz, cap integer, top integer) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = hub, pg_temp SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_variable
DECLARE own text := hub.tenant();
BEGIN
  RETURN QUERY
  SELECT matching.memory
  FROM unnest(probes, weights) AS probe (words, weight)
  CROSS JOIN LATERAL (
    SELECT v.memory FROM hub.versions AS v
    WHERE v.tenant || '' = own AND v.is_latest AND v.state = 'live'
      AND hub.word_keys(v.tenant, v.words)
        @> ARRAY(SELECT hub.word_key(own, word) FROM unnest(string_to_array(probe.words, ' ')) AS word)
      AND (projects IS NULL OR v.project = ANY (projects)) AND (kinds IS NULL OR v.kind = ANY (kinds))
      AND (authors IS NULL OR v.author = ANY (authors))
      AND (since IS NULL OR v.valid_from >= since) AND (until IS NULL OR v.valid_from < until)
      AND (v.valid_to IS NULL OR v.valid_to > lasting)
    LIMIT cap
  ) AS matching
  GROUP BY matching.memory ORDER BY sum(probe.weight) DESC, matching.memory LIMIT top;
END $$;
REVOKE ALL ON FUNCTION hub.match_words FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hub.match_words TO {serving};

-- An index of vectors has one dimension. Tenants whose model has another are searched exactly.
DO $$
DECLARE dimension integer;
BEGIN
  FOREACH dimension IN ARRAY ARRAY[384, 768, 1024, 1536, 3072] LOOP
    EXECUTE format(
      'CREATE INDEX versions_by_vector_%1$s ON hub.versions USING hnsw ((vector::halfvec(%1$s)) halfvec_cosine_ops)'
      ' WHERE is_latest AND state = ''live'' AND vector_dims(vector) = %1$s', dimension);
  END LOOP;
END $$;
