"""The checks of `filrouge doctor`.

In: a `Scene` (home, environment, working directory, machine, daemon). Out: one `Finding` per check, with a state, a
cause and a remedy, and optionally a report as a ZIP file.

A check only looks; what it can repair safely is done by its `mend` function under `--fix`. No check needs a daemon or
an intact home: what cannot be determined becomes a note.

`scene` defines checks and findings. `homes`, `daemons`, `models` and `agents` have the checks by subject. `report` has
the table of all checks, runs them, and writes the report.
"""
