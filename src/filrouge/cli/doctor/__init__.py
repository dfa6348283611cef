"""The checks of `filrouge doctor`.

In: a `Scene` (home, environment, working directory, machine, daemon). Out: one `Finding` per check, with a state, a
cause and a remedy, and optionally a report as a ZIP file.

A check is a function with `@check(name, group)` above it, and `mend=` with the function that `--fix` calls. The
decorator adds it to the `CHECKS` of its module, so the findings have the order of the functions. A check changes
nothing, and needs neither a daemon nor an intact home: what cannot be determined becomes a note.

`scene` defines checks and their input. `homes`, `daemons`, `models` and `agents` have the checks by subject, with what
`probes` asks of files, servers and programs. `report` puts all checks in order, runs them, and writes the report.
"""
