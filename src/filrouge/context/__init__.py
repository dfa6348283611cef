"""Context: builds the block of text that is put before a prompt or a session start.

In: a hook event. Out: one block of quoted items within a budget, and a recall log row that explains every candidate.
Invariants: stored text can never leave its block or pass for instructions; without anything relevant nothing is
injected before a prompt; a source that fails does not stop the others.
Open `service` for the entry points, `candidates` for memories and passages of conversations, `sources` for everything
else that is offered, `block` for selection and text, `log` for the recall log, and `hook_files` for the settings and
briefs that hooks read.
"""
