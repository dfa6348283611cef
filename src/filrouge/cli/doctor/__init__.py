"""The checks of `filrouge doctor`.

In: a `Scene` (home, environment, working directory, machine, daemon). Out: one `Finding` per check, with a state, a
cause and a remedy, and optionally a report as a ZIP file.

A check is a function and a row of `CHECKS` in its module: name, group, function, and what `--fix` may do. It only
looks, and needs neither a daemon nor an intact home: what cannot be determined becomes a note.

`scene` defines checks and their input. `homes`, `daemons`, `models` and `agents` have the checks by subject, with what
`probes` asks of files, servers and programs. `report` puts all checks in order, runs them, and writes the report.
"""
