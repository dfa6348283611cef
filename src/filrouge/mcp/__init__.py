"""The MCP declarations that the stdio shim and the daemon share.

In: nothing. Out: plain dictionaries: tool schemas, protocol versions, metadata keys and size limits. Invariant: the
room imports only the standard library, because the shim loads it at start-up, before a daemon runs.

Open `offered` for the declarations. The tools themselves are in `filrouge.server.mcp`.
"""
