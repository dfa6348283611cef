-- Background work. A worker connects with the serving role, and has the secret of the installation's processes.

-- `has_workers` says that a worker ever started, `queue` is the latest migration of the job tables.
ALTER TABLE hub.installation
  ADD COLUMN has_workers boolean NOT NULL DEFAULT false,
  ADD COLUMN queue text NOT NULL DEFAULT '';

-- A tenant has one space: that of its first vector.
ALTER TABLE hub.tenants
  ADD COLUMN IF NOT EXISTS space text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS dimension integer NOT NULL DEFAULT 0;
GRANT UPDATE (space, dimension) ON hub.tenants TO {serving};

-- Without workers nothing is put into the queue, where it would pile up.
CREATE FUNCTION hub.has_workers() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = hub, pg_temp
AS $$ SELECT has_workers FROM hub.installation $$;

CREATE FUNCTION hub.start_work(secret text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
BEGIN
  PERFORM hub.require_process(secret);
  UPDATE hub.installation SET has_workers = true WHERE NOT has_workers;
END $$;

-- Seals a tenant into this transaction, as `enter` does for a token.
CREATE FUNCTION hub.enter_work(secret text, tenant text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
BEGIN
  PERFORM hub.require_process(secret);
  PERFORM set_config('hub.pass', hub.seal(tenant), true);
END $$;

CREATE INDEX versions_without_vector ON hub.versions (tenant, memory)
  WHERE is_latest AND state = 'live' AND vector IS NULL;

-- Versions without a vector that a worker of this space can embed. Those of a tenant whose jobs are still in the queue
-- are not returned.
CREATE FUNCTION hub.waiting(secret text, wanted text, at_most integer) RETURNS TABLE (tenant text, memory text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  PERFORM hub.require_process(secret);
  RETURN QUERY
    SELECT v.tenant, v.memory FROM hub.versions AS v JOIN hub.tenants AS t USING (tenant)
    WHERE v.is_latest AND v.state = 'live' AND v.vector IS NULL AND t.space IN ('', wanted)
      AND NOT EXISTS (SELECT 1 FROM hub_jobs.procrastinate_jobs
                      WHERE task_name = 'embed' AND status IN ('todo', 'doing') AND args ->> 'tenant' = v.tenant)
    ORDER BY v.tenant, v.memory LIMIT at_most;
END $$;

-- The latest check of each journal; `broken_at` is NULL if nothing is wrong. `entries` and `head`, the hash of the last
-- of them, are of the latest check that found nothing wrong.
CREATE TABLE hub.journal_checks (
  tenant      text PRIMARY KEY REFERENCES hub.tenants,
  checked_at  timestamptz NOT NULL DEFAULT now(),
  entries     bigint NOT NULL DEFAULT 0,
  head        bytea,
  broken_at   bigint,
  reason      text NOT NULL DEFAULT ''
);
ALTER TABLE hub.journal_checks ENABLE ROW LEVEL SECURITY;
ALTER TABLE hub.journal_checks FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON hub.journal_checks USING (tenant = (SELECT hub.tenant()));
CREATE POLICY of_owner ON hub.journal_checks TO CURRENT_USER USING (true) WITH CHECK (true);

-- Tenants whose journal was not checked for a day, and whose check is not in the queue.
CREATE FUNCTION hub.unchecked(secret text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
BEGIN
  PERFORM hub.require_process(secret);
  RETURN QUERY
    SELECT t.tenant FROM hub.tenants AS t LEFT JOIN hub.journal_checks AS c USING (tenant)
    WHERE (c.checked_at IS NULL OR c.checked_at < now() - interval '1 day')
      AND NOT EXISTS (SELECT 1 FROM hub_jobs.procrastinate_jobs
                      WHERE task_name = 'verify' AND status IN ('todo', 'doing') AND args ->> 'tenant' = t.tenant)
    ORDER BY t.tenant;
END $$;

-- Deletes tokens that expired 30 days ago, and the receipts of devices whose member was removed.
CREATE FUNCTION hub.tidy(secret text, OUT tokens bigint, OUT receipts bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
BEGIN
  PERFORM hub.require_process(secret);
  DELETE FROM hub.tokens AS t WHERE t.expires_at < now() - interval '30 days';
  GET DIAGNOSTICS tokens = ROW_COUNT;
  DELETE FROM hub.receipts AS r USING hub.devices AS d, hub.members AS m
  WHERE d.tenant = r.tenant AND d.device = r.device
    AND m.tenant = d.tenant AND m.member = d.member AND m.removed_at IS NOT NULL;
  GET DIAGNOSTICS receipts = ROW_COUNT;
END $$;

REVOKE ALL ON FUNCTION hub.has_workers(), hub.start_work(text), hub.enter_work(text, text),
  hub.waiting(text, text, integer), hub.unchecked(text), hub.tidy(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hub.has_workers(), hub.start_work(text), hub.enter_work(text, text),
  hub.waiting(text, text, integer), hub.unchecked(text), hub.tidy(text) TO {serving};
GRANT SELECT, INSERT, UPDATE ON hub.journal_checks TO {serving};
