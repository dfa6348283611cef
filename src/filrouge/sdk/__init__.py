"""The SDK for programs: `Memory`, `BlockingMemory`, and the values that their methods return.

A method call comes in; one request goes out to the HTTP routes that every other client uses; a frozen value comes
back. A call therefore means the same with an own daemon, a remote daemon and an embedded home.

Open `client` for the methods, with and without an event loop, and the HTTP transports, `values` for the results,
`embedded` for the transport without a daemon, and `spooling` for messages while no daemon answers.
"""
