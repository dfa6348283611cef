"""The daemon process of a home, and how clients reach and start it.

In: requests from hooks, commands and programs. Out: replies, or a `DaemonUnavailable`. Clients connect over the home's
unix socket, or over HTTP with `FILROUGE_URL`.

Invariant: at most one process owns a home. The lock file decides which one; pid and runtime files are only information.

Open `client` for requests, long answers and starting a daemon, `handover` for what most hooks do, `starting` for the
start lock and the new process, `process` for the daemon's own lock, socket and log and for waiting until it is up,
`remote` for a daemon elsewhere, and `reply` for answers and errors.
"""
