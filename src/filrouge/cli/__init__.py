"""The command line.

In: the arguments, stdin and the environment. Out: text or JSON on stdout, errors on stderr, and an exit code.
Most commands send requests to the daemon; `doctor`, `restore`, `repair` and `init --reset` also open the home's files.

`main` is the entry point and dispatches without heavy imports. `hook` and `mcp` are the fast paths that agents start.
`commands` has the Typer commands, `doctor` the checks of `filrouge doctor`. All output of commands passes through
`output`, which makes control characters visible. `client` sends the requests and starts the daemon if needed.
"""
