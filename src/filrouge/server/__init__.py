"""The HTTP server of the daemon.

In: requests on the Unix socket and on TCP, from hooks, the command line, the SDK, browsers and MCP clients. Out: JSON,
problem documents (RFC 9457) and the live WebSocket feed. Invariant: every TCP request passes `admission` before
anything reads its body. Routes translate between HTTP and the services; the services make the decisions.

Open `serving` for start, shutdown, and hooks on the Unix socket, `api` for the application and its list of
routers, `admission` for tokens and limits, `middleware` for idempotency and validation, `routes` for the endpoints,
`responses` and `queries` for what they share, `openapi` for the API document, and `live` for the feed.
"""
