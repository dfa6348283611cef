"""Memories: extracted and manual statements, with evidence, versions, reviews and undo.

In: decisions about statements, and manual changes by the user or an agent. Out: live memories for search and context,
reviews, and histories. Invariant: a memory's text is never overwritten. Each change is a journal entry that can be
undone, and an update links the new memory to the old one.

- `models`: value types, filters, text matching. `repository`: rows, decisions, reviews, journal entries.
- `changes`: what the user or an agent states directly, and pin, bin, restore, supersede.
- `service`: facts by key, rules, reviews, binning by topic, undo. `undo_repository`: dependencies between decisions.
- `files`: the files of the memory tool. `reports`: response bodies and the novelty check.
"""
