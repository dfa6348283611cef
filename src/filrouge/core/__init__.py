"""Foundations used by every other package: errors, clock, paths, settings, text, scope and protocols.

In: environment variables, TOML files and plain values. Out: exceptions, ids, paths, resolved settings and the
interfaces that the packages above implement. Nothing here opens the database or starts a thread.

Invariant: every error that Filrouge raises on purpose is a `FilrougeError`, and time is always an argument.

Open `errors` for the exception tree, `guard` for what happens on failure, `clock` for time and ids, `paths` for the
files of a home, `settings` for configuration, `choices` for misspelt words, `protocols` for interfaces, `scope` for
project identity, `text` for control characters, `lazy_re` for regular expressions compiled on first use, `network` for
addresses and the circuit breaker, and `installation` for install commands.
"""
