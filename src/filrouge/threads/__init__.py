"""Threads: topics that live across sessions, bridges between them, and the state of the work in each.

In: stored turns with their vectors, session events, and manual changes. Out: the thread of each turn, bridges,
syntheses, topics and the timeline. Invariant: a turn is in at most one thread, and everything else about a thread,
except what the user set, is derived from its turns.

- `models`: value types. `repository`: the database rows. `upkeep`: derived data, names, lifecycle, questions.
- `placing`: background jobs that place prompts. `assignment`: the scoring behind them.
- `service`: manual changes. `reports`: lists, details, search, topics and the timeline.
- `bridges`, `bridge_service`: detecting, storing and drawing bridges.
- `synthesis`, `synthesis_service`: the state of the work, by rules and by a model.
"""
