"""The hub: memories that a team shares, on PostgreSQL.

In: versions of memories that daemons push, tokens that say who pushes. Out: changes in an order in which none can be
missed, conflicts, tombstones, and what was recorded about each of them. `schema` creates the tables as their owner;
`database` serves as a role that cannot bypass row security; `oidc` takes the tokens of identity providers, and `limits`
what a tenant may use; `service` has the verbs that `server.hub` exposes.

Invariant: the tenant of a request comes from its token alone. The database seals it into the transaction, and every
table shows only the rows of the sealed tenant, whatever a query asks for.
"""
