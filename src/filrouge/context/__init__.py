"""Context: builds the block of text that is put before a prompt or a session start.

In: a hook event. Out: one block of quoted items within a budget, and a recall log row that explains every candidate.
Invariants: stored text can never leave its block or pass for instructions; without anything relevant nothing is
injected before a prompt; a source that fails does not stop the others.
Open `service` for the entry points, `sources` and `memories` for what is offered, `turn_candidates` and `passages`
for conversations, `budget` for selection, `rendering` for text and sections, `log` for the recall log, `intents` for
prompts about memory itself, `hook_files` for the settings and briefs that hooks read.
"""
