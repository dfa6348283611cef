"""Team: sharing the memories of a project with colleagues, through a hub, and keeping a copy of theirs.

In: decisions of this home's journal, and the hub's changes. Out: versions that are pushed to the hub, and memories of
colleagues in this home's store, where recall finds them like any other. Nothing here runs while a prompt waits: one
periodic task talks to the hub, and the store is all that a prompt reads.

- `models`: value types. `repository`: the database rows.
- `sharing`: which memories leave this home, and in what form. `receiving`: what becomes of those that arrive.
- `service`: join, leave, policies, status, and the task that follows the hub.

Invariant: only what a policy of its project allows, or the user chose by hand, leaves this home; redacted once more,
without turns, tool output or threads, and never a memory of the user's own scope.
"""
