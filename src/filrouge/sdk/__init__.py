"""The SDK for programs: `Memory`, `BlockingMemory`, and the values that their methods return.

A method call comes in; one request goes out to the HTTP routes that every other client uses; a frozen value comes
back. A call therefore means the same with an own daemon, a remote daemon and an embedded home.

Open `client` for the methods, `blocking` for the variant without an event loop, `values` for the results,
`transports` and `embedded` for how requests reach the routes, and `spooling` for messages while no daemon answers.
"""
