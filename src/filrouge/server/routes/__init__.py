"""The HTTP routes, one module for each area, with the models of their requests and answers.

In: validated requests. Out: JSON that matches the route's model. Invariant: nothing blocks the event loop; reads run on
the reader pool, and other blocking work runs in a worker thread. The services make the decisions.

Open `memories` for facts, rules, search and reviews; `threads` for threads, bridges and topics; `context` for hooks and
injection; `turns` for messages of programs; `providers` for models, embedding and usage; `maintenance` for
consolidation, backups, jobs and metrics; `daemon` for status and health; the other modules are named after their area.
"""
