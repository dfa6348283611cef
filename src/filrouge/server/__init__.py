"""The HTTP server of the daemon.

In: requests on the Unix socket and on TCP, from hooks, the command line, the SDK, browsers and MCP clients. Out: JSON,
problem documents (RFC 9457) and the live WebSocket feed. Invariant: every TCP request passes `auth` before anything
reads its body. Routes translate between HTTP and the services; the services make the decisions.

Open `serving` for start and shutdown, `front` for hooks before FastAPI is loaded, `api` for the application and its
list of routers, `auth` for tokens and limits, `routes` for the endpoints, `responses` for the helpers and base models
that they share, `openapi` for the API document, `live` for the feed and hook events, `mcp` for the MCP endpoint.
"""
