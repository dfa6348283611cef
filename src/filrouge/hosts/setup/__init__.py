"""Adds Filrouge to the settings files of agents and removes it again.

The files belong to other programs, and users write comments into them. A change is an insertion into the text; the file
is never regenerated. If nobody edited a file since, removal restores its original bytes; otherwise it removes only
Filrouge's entries.

Open `plan` to preview and apply changes, `entries` for the agents and their entries, `files` for editing JSON and TOML
text and for the manifest of originals.
"""
