"""Notes: the user's Markdown vault, read for search, and pages of memories written into it.

In: Markdown files of a folder, or of Obsidian through its REST plugin. Out: indexed chunks that search and prompts use,
and pages that show memories as list lines. Edits of these lines by the user correct the memories.

Invariants: Filrouge writes only into the one folder that the user names. Everything stored about a note is derived and
can be rebuilt from its file.

Open `service` to index and search the vault, `pages_service` to write pages and read back edits, `pages` for the
Markdown formats, `vault` for access to a vault, `repository` for the tables and vectors, `models` for the values.
"""
