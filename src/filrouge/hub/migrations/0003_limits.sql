-- Run by the owner. {serving} is the role that serves.

-- The secret of the installation's processes, of which its SHA-256 is kept. A server proves with it that it may say who
-- somebody is, and a worker that it may work in every tenant. The login of the serving role alone opens none.
ALTER TABLE hub.installation ADD COLUMN process_hash bytea;

CREATE FUNCTION hub.require_process(secret text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM hub.installation WHERE process_hash = sha256(convert_to(require_process.secret, 'UTF8')))
  THEN
    RAISE insufficient_privilege USING MESSAGE = 'this is not the secret of the installation';
  END IF;
END $$;
REVOKE ALL ON FUNCTION hub.require_process(text) FROM PUBLIC;

-- Identity providers. The serving role has no right to this table: it is read by the functions below alone.

CREATE TABLE hub.providers (
  tenant    text PRIMARY KEY REFERENCES hub.tenants,
  issuer    text NOT NULL,
  audience  text NOT NULL,
  admins    text[] NOT NULL DEFAULT '{}',
  UNIQUE (issuer, audience)
);

-- A subject is unique within its issuer. A removed member keeps theirs, so they do not come back as a new member.
ALTER TABLE hub.members ADD COLUMN issuer text, ADD COLUMN subject text;
CREATE UNIQUE INDEX members_by_subject ON hub.members (tenant, issuer, subject) WHERE subject IS NOT NULL;

CREATE FUNCTION hub.knows_issuer(secret text, issuer text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
BEGIN
  PERFORM hub.require_process(secret);
  RETURN EXISTS (SELECT 1 FROM hub.providers WHERE providers.issuer = knows_issuer.issuer);
END $$;
REVOKE ALL ON FUNCTION hub.knows_issuer(text, text) FROM PUBLIC;

-- Seals the tenant of a person whom the serving process has authenticated. At first sight the person becomes the member
-- `new_member`. No row if no tenant, or more than one, takes tokens of this issuer for these audiences, or if the
-- member was removed.
CREATE FUNCTION hub.enter_person(
  secret text, person_issuer text, audiences text[], person_subject text, person_name text, email text,
  person_scopes text[], new_member text
)
RETURNS TABLE (tenant text, tenant_name text, member text, member_name text, token text, scopes text[], is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  provider hub.providers;
  found_member hub.members;
  free_name text := person_name;
  number integer := 1;
BEGIN
  PERFORM hub.require_process(secret);
  SELECT p.* INTO provider FROM hub.providers AS p WHERE p.issuer = person_issuer AND p.audience = ANY (audiences);
  IF NOT FOUND OR (SELECT count(*) FROM hub.providers AS p
                   WHERE p.issuer = person_issuer AND p.audience = ANY (audiences)) > 1 THEN
    RETURN;
  END IF;
  SELECT m.* INTO found_member FROM hub.members AS m
    WHERE m.tenant = provider.tenant AND m.issuer = person_issuer AND m.subject = person_subject;
  IF NOT FOUND THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('members ' || provider.tenant, 0));
    WHILE EXISTS (SELECT 1 FROM hub.members AS m WHERE m.tenant = provider.tenant
                  AND lower(m.name) = lower(free_name) AND m.removed_at IS NULL) LOOP
      number := number + 1;
      free_name := person_name || ' (' || number || ')';
    END LOOP;
    INSERT INTO hub.members (tenant, member, name, issuer, subject)
      VALUES (provider.tenant, new_member, free_name, person_issuer, person_subject)
      ON CONFLICT (tenant, issuer, subject) WHERE subject IS NOT NULL DO NOTHING;
    SELECT m.* INTO found_member FROM hub.members AS m
      WHERE m.tenant = provider.tenant AND m.issuer = person_issuer AND m.subject = person_subject;
  END IF;
  IF found_member.removed_at IS NOT NULL THEN
    RETURN;
  END IF;
  PERFORM set_config('hub.pass', hub.seal(provider.tenant), true);
  RETURN QUERY
    SELECT t.tenant, t.name, found_member.member, found_member.name, ''::text,
      coalesce(person_scopes, ARRAY['read', 'share', 'forget']
        || CASE WHEN lower(email) = ANY (provider.admins) THEN ARRAY['admin'] ELSE '{}' END),
      found_member.member = new_member
    FROM hub.tenants AS t WHERE t.tenant = provider.tenant;
END $$;
REVOKE ALL ON FUNCTION hub.enter_person(text, text, text[], text, text, text, text[], text) FROM PUBLIC;

-- Limits of a tenant: requests and pushed versions a minute, live memories, and bytes of all versions.
ALTER TABLE hub.tenants
  ADD COLUMN max_requests integer NOT NULL DEFAULT 20000 CHECK (max_requests > 0),
  ADD COLUMN max_versions integer NOT NULL DEFAULT 50000 CHECK (max_versions > 0),
  ADD COLUMN max_memories bigint NOT NULL DEFAULT 1000000 CHECK (max_memories > 0),
  ADD COLUMN max_bytes bigint NOT NULL DEFAULT 10000000000 CHECK (max_bytes > 0);

-- What a tenant used in the minute that began with its first request after the minute before. Two rows for each tenant,
-- so a push that is still open does not hold up requests. Not logged: after a crash, a minute begins anew.
CREATE UNLOGGED TABLE hub.usage (
  tenant  text NOT NULL REFERENCES hub.tenants,
  kind    text NOT NULL CHECK (kind IN ('requests', 'versions')),
  began   timestamptz NOT NULL DEFAULT now(),
  used    integer NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, kind)
);

-- The row of the sealed tenant, locked, in the minute that runs now.
CREATE FUNCTION hub.current_usage(which text) RETURNS hub.usage
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
DECLARE
  found_usage hub.usage;
BEGIN
  INSERT INTO hub.usage (tenant, kind) VALUES (hub.tenant(), which) ON CONFLICT DO NOTHING;
  SELECT * INTO found_usage FROM hub.usage WHERE tenant = hub.tenant() AND kind = which FOR UPDATE;
  IF found_usage.began <= now() - interval '1 minute' THEN
    found_usage.began := now();
    found_usage.used := 0;
  END IF;
  RETURN found_usage;
END $$;
REVOKE ALL ON FUNCTION hub.current_usage(text) FROM PUBLIC;

-- Reserves a hundredth of the requests of a minute, or what is left of them; `seconds` until the minute ends.
CREATE FUNCTION hub.reserve_requests() RETURNS TABLE (granted integer, seconds double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
DECLARE
  usage hub.usage;
  maximum integer := (SELECT max_requests FROM hub.tenants AS t WHERE t.tenant = hub.tenant());
BEGIN
  -- A refused request only reads: a lock would give it a transaction id.
  SELECT u.* INTO usage FROM hub.usage AS u
    WHERE u.tenant = hub.tenant() AND u.kind = 'requests' AND u.began > now() - interval '1 minute';
  IF NOT FOUND OR usage.used < maximum THEN
    usage := hub.current_usage('requests');
  END IF;
  granted := greatest(0, least(greatest(1, maximum / 100), maximum - usage.used));
  IF granted > 0 THEN
    UPDATE hub.usage AS u SET began = usage.began, used = usage.used + granted
      WHERE u.tenant = usage.tenant AND u.kind = 'requests';
  END IF;
  seconds := extract(epoch FROM usage.began + interval '1 minute' - now());
  RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION hub.reserve_requests() FROM PUBLIC;

-- Counts versions that are pushed: all of them or none. The first push of a minute is taken at any size, because one
-- that is larger than the limit would never be. `seconds` until the minute ends.
CREATE FUNCTION hub.spend_versions(wanted integer) RETURNS TABLE (granted boolean, seconds double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
DECLARE
  usage hub.usage := hub.current_usage('versions');
  maximum integer := (SELECT max_versions FROM hub.tenants AS t WHERE t.tenant = usage.tenant);
BEGIN
  granted := usage.used = 0 OR usage.used + wanted <= maximum;
  IF granted THEN
    UPDATE hub.usage AS u SET began = usage.began, used = usage.used + wanted
      WHERE u.tenant = usage.tenant AND u.kind = 'versions';
  END IF;
  seconds := extract(epoch FROM usage.began + interval '1 minute' - now());
  RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION hub.spend_versions(integer) FROM PUBLIC;

-- What a tenant stores: live memories, and bytes of all versions, as `limits.stored_bytes` counts them. Counting for each
-- push would read all of it. Only transactions that hold the tenant's lock write here.
CREATE TABLE hub.totals (
  tenant    text PRIMARY KEY REFERENCES hub.tenants,
  memories  bigint NOT NULL DEFAULT 0,
  bytes     bigint NOT NULL DEFAULT 0
);
INSERT INTO hub.totals
  SELECT tenant, count(*) FILTER (WHERE is_latest AND state = 'live'),
    sum(1000 + octet_length(text) + octet_length(evidence))
  FROM hub.versions WHERE state <> 'forgotten' GROUP BY tenant;

DO $$
DECLARE name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['providers', 'usage', 'totals']
  LOOP
    EXECUTE format('ALTER TABLE hub.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE hub.%I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY of_tenant ON hub.%I USING (tenant = (SELECT hub.tenant()))', name);
    EXECUTE format('CREATE POLICY of_owner ON hub.%I TO CURRENT_USER USING (true) WITH CHECK (true)', name);
  END LOOP;
END $$;

GRANT EXECUTE ON FUNCTION
  hub.knows_issuer(text, text), hub.enter_person(text, text, text[], text, text, text, text[], text),
  hub.reserve_requests(), hub.spend_versions(integer)
TO {serving};
GRANT SELECT ON hub.usage TO {serving};
GRANT SELECT, INSERT, UPDATE ON hub.totals TO {serving};
