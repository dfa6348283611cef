"""The runtime: SQLite, jobs, journal, live feed, metrics, and the services that the other rooms run on.

Invariants: one thread writes (`executors`); a job is queued in the transaction that causes it (`jobs`); every
decision is appended to a hash-chained journal (`journal`).
Open `wiring` to see how everything is built and started, and which handler runs which job; `services` for what an
operation receives; `sqlite` for queries, migrations and connections; `jobs` for the queue and its workers; `feed`
for live messages; `repository` for tokens, idempotency and short ids; `soundness` and `disk` for health;
`library` for use inside another program.
"""
