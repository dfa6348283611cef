"""MCP: the declarations that the stdio shim and the daemon share, and the daemon's `/mcp` endpoint.

In: MCP messages on `POST /mcp`. Out: tool results as structured values with a readable text. Invariant: arguments are
validated against the tool's schema, the caller's scope is checked, and every returned text is quoted data.

Open `offered` for the declarations; it imports only the standard library, because the shim loads it before a daemon
runs. `mount` is the route, which imports the official SDK on the first request; `endpoint` has the server, the checks
and the errors; `tools` does what the seven tools do.
"""
