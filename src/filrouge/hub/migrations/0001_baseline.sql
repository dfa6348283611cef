-- Run by the owner. {serving} is the role that serves; it owns nothing and cannot bypass row security.

-- One row. The secret seals the tenant of a transaction; the epoch grows when a dump is restored into a server whose
-- transaction ids are lower than the stored ones. Only the owner reads this table.
CREATE TABLE hub.installation (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  secret  bytea NOT NULL,
  epoch   integer NOT NULL DEFAULT 1,
  schema  integer NOT NULL
);

CREATE SEQUENCE hub.positions;

CREATE FUNCTION hub.current_epoch() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = hub, pg_temp
AS $$ SELECT epoch FROM hub.installation $$;

CREATE FUNCTION hub.seal(tenant text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
  SELECT seal.tenant || ':' || encode(sha256(secret || convert_to(seal.tenant, 'UTF8') || secret), 'hex')
  FROM hub.installation
$$;
REVOKE ALL ON FUNCTION hub.seal(text) FROM PUBLIC;

-- The tenant of this transaction; NULL, so no row at all, unless `enter` sealed one. A setting alone can be forged.
CREATE FUNCTION hub.tenant() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
  SELECT split_part(pass, ':', 1) FROM (SELECT current_setting('hub.pass', true) AS pass) AS given
  WHERE pass = hub.seal(split_part(pass, ':', 1))
$$;

CREATE TABLE hub.tenants (
  tenant      text PRIMARY KEY,
  name        text NOT NULL UNIQUE,
  created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE hub.members (
  tenant      text NOT NULL REFERENCES hub.tenants,
  member      text NOT NULL,
  name        text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  removed_at  timestamptz,
  PRIMARY KEY (tenant, member)
);
CREATE UNIQUE INDEX members_by_name ON hub.members (tenant, lower(name)) WHERE removed_at IS NULL;

-- Only the SHA-256 of a secret is stored: its 256 random bits cannot be guessed.
CREATE TABLE hub.tokens (
  tenant        text NOT NULL,
  token         text NOT NULL,
  member        text NOT NULL,
  name          text NOT NULL,
  hash          bytea NOT NULL UNIQUE,
  scopes        text[] NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT now(),
  expires_at    timestamptz,
  revoked_at    timestamptz,
  last_used_at  timestamptz,
  PRIMARY KEY (tenant, token),
  FOREIGN KEY (tenant, member) REFERENCES hub.members
);

-- `epoch`, `xid` and `seq` are the position up to which the device has applied all changes.
CREATE TABLE hub.devices (
  tenant     text NOT NULL,
  device     text NOT NULL,
  member     text NOT NULL,
  name       text NOT NULL,
  joined_at  timestamptz NOT NULL DEFAULT now(),
  seen_at    timestamptz NOT NULL DEFAULT now(),
  epoch      integer NOT NULL DEFAULT 0,
  xid        xid8 NOT NULL DEFAULT '0',
  seq        bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, device),
  FOREIGN KEY (tenant, member) REFERENCES hub.members
);

-- Every version of every shared memory. A version is never changed, but `is_latest` moves on. A forgotten memory has
-- one row left, its tombstone, without any content.
CREATE TABLE hub.versions (
  tenant       text NOT NULL,
  memory       text NOT NULL,
  version      integer NOT NULL CHECK (version > 0),
  author       text NOT NULL,
  state        text NOT NULL CHECK (state IN ('live', 'ended', 'forgotten')),
  is_latest    boolean NOT NULL DEFAULT true,
  host         text NOT NULL DEFAULT '',
  project      text NOT NULL DEFAULT '',
  kind         text NOT NULL DEFAULT '',
  text         text NOT NULL DEFAULT '',
  language     text NOT NULL DEFAULT '',
  evidence     text NOT NULL DEFAULT '',
  confidence   double precision NOT NULL DEFAULT 0,
  valid_from   timestamptz,
  valid_to     timestamptz,
  supersedes   text,
  space        text NOT NULL DEFAULT '',
  vector       halfvec,
  digest       bytea NOT NULL,
  received_at  timestamptz NOT NULL DEFAULT now(),
  epoch        integer NOT NULL DEFAULT hub.current_epoch(),
  xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq          bigint NOT NULL DEFAULT nextval('hub.positions'),
  PRIMARY KEY (tenant, memory, version),
  FOREIGN KEY (tenant, author) REFERENCES hub.members (tenant, member)
);
CREATE UNIQUE INDEX versions_latest ON hub.versions (tenant, memory) WHERE is_latest;
CREATE INDEX versions_by_position ON hub.versions (tenant, epoch, xid, seq);
CREATE INDEX versions_by_predecessor ON hub.versions (tenant, supersedes) WHERE is_latest AND supersedes IS NOT NULL;
CREATE INDEX versions_by_project ON hub.versions (tenant, project) WHERE is_latest AND state = 'live';

-- Two members superseded the same memory. Both newer ones stay until a member says which one holds. A settled conflict
-- moves to a new position, so every device hears of it.
CREATE TABLE hub.conflicts (
  tenant      text NOT NULL,
  conflict    text NOT NULL,
  memory      text NOT NULL,
  first       text NOT NULL,
  second      text NOT NULL,
  opened_at   timestamptz NOT NULL DEFAULT now(),
  settled_at  timestamptz,
  settled_by  text,
  keep        text CHECK (keep IN ('first', 'second', 'both')),
  epoch       integer NOT NULL DEFAULT hub.current_epoch(),
  xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq         bigint NOT NULL DEFAULT nextval('hub.positions'),
  PRIMARY KEY (tenant, conflict),
  UNIQUE (tenant, first, second),
  FOREIGN KEY (tenant) REFERENCES hub.tenants
);
CREATE INDEX conflicts_by_position ON hub.conflicts (tenant, epoch, xid, seq);

-- What a device found of a forgotten memory after it applied the tombstone; 0 = nothing is left.
CREATE TABLE hub.receipts (
  tenant      text NOT NULL,
  memory      text NOT NULL,
  device      text NOT NULL,
  left_over   integer NOT NULL,
  at          timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, memory, device),
  FOREIGN KEY (tenant, device) REFERENCES hub.devices
);

-- A hash chain for each tenant, as in `runtime.journal`. Payloads have no text of memories.
CREATE TABLE hub.journal (
  tenant        text NOT NULL REFERENCES hub.tenants,
  number        bigint NOT NULL,
  at            text NOT NULL,
  actor         text NOT NULL,
  action        text NOT NULL,
  subject       text NOT NULL,
  payload       text NOT NULL,
  payload_key   bytea NOT NULL,
  payload_hash  bytea NOT NULL,
  hash          bytea NOT NULL,
  PRIMARY KEY (tenant, number)
);

-- Identifies a token by the hash of its secret, and seals its tenant into this transaction.
CREATE FUNCTION hub.enter(token_hash bytea)
RETURNS TABLE (tenant text, tenant_name text, member text, member_name text, token text, scopes text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT tokens.tenant, tenants.name, tokens.member, members.name, tokens.token, tokens.scopes
    FROM hub.tokens JOIN hub.members USING (tenant, member) JOIN hub.tenants USING (tenant)
    WHERE tokens.hash = token_hash AND tokens.revoked_at IS NULL AND members.removed_at IS NULL
      AND (tokens.expires_at IS NULL OR tokens.expires_at > now());
  IF FOUND THEN
    PERFORM set_config('hub.pass', hub.seal((SELECT t.tenant FROM hub.tokens AS t WHERE t.hash = token_hash)), true);
    -- Where another transaction notes the same, this one does not wait for it.
    UPDATE hub.tokens SET last_used_at = now() WHERE hash IN (
      SELECT t.hash FROM hub.tokens AS t
      WHERE t.hash = token_hash AND (t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 hour')
      FOR UPDATE SKIP LOCKED);
  END IF;
END $$;
REVOKE ALL ON FUNCTION hub.enter(bytea) FROM PUBLIC;

-- Whether stored transaction ids are ahead of the server's, as after the restore of a dump; `init` begins an epoch then.
CREATE FUNCTION hub.needs_epoch() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = hub, pg_temp
AS $$
  SELECT EXISTS (SELECT 1 FROM hub.versions WHERE epoch = hub.current_epoch()
                 AND xid >= pg_snapshot_xmax(pg_current_snapshot()))
$$;

DO $$
DECLARE name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['tenants', 'members', 'tokens', 'devices', 'versions', 'conflicts', 'receipts', 'journal']
  LOOP
    EXECUTE format('ALTER TABLE hub.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE hub.%I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY of_tenant ON hub.%I USING (tenant = (SELECT hub.tenant()))', name);
    EXECUTE format('CREATE POLICY of_owner ON hub.%I TO CURRENT_USER USING (true) WITH CHECK (true)', name);
  END LOOP;
END $$;

GRANT USAGE ON SCHEMA hub TO {serving};
GRANT EXECUTE ON FUNCTION hub.enter(bytea), hub.tenant(), hub.current_epoch(), hub.needs_epoch() TO {serving};
GRANT USAGE ON SEQUENCE hub.positions TO {serving};
GRANT SELECT ON hub.tenants TO {serving};
GRANT SELECT, INSERT, UPDATE ON hub.members, hub.tokens, hub.devices, hub.conflicts, hub.receipts TO {serving};
GRANT SELECT, INSERT, UPDATE, DELETE ON hub.versions TO {serving};
GRANT SELECT, INSERT ON hub.journal TO {serving};
