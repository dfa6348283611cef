"""Extraction: from captured turns to decided statements, and from sessions to their analyses.

Input: turns from `capture`. Output: statements with a decision (add, update, delete, noop, conflict), applied to
`memories`; and session analyses (summary, concepts, entities). Invariant: a statement is kept only with a span of the
turn that supports it, and only the user's own words make rules, preferences, intents or constraints.

Rules: `heuristics`, `kinds`, `reading`, `own_words`, `sentences`, `vocabulary`. Learned models: `reader`,
`statement_model`, `replacing`. Language models: `model_answers`, `tool_output`. Decisions: `decide`, `profile`.
Storage and jobs: `understanding` (one turn), `service` (model reading, immediate extraction), `sessions` and
`summaries` (analyses), `repository`. `intents` says what a prompt asks for: kinds of work, reminders, the timeline.
"""
