"""The MCP endpoint of the daemon, on the official SDK.

In: MCP messages on `POST /mcp`. Out: tool results as structured values with a readable text. Invariant: arguments are
validated against the tool's schema, the caller's scope is checked, and every returned text is quoted data.

Open `mount` for the route, which imports the SDK on the first request; `endpoint` for the server, the checks and the
errors; `tools` for what the six tools do. Their names and schemas are in `filrouge.mcp.offered`.
"""
