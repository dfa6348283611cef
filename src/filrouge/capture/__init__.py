"""Capture: from what a host reports to stored events and turns.

Input is events from hooks, the spool and programs, transcript lines, and imported messages. Output is rows of `events`
and `turns`, and the queued jobs that process them. Invariants: every text is redacted and cleaned of injected memory
before it is stored, and a message is stored once, however often it arrives.

Open `service` for storing events and reading spool and transcripts, `events` for an event, its size limits and injected
blocks, `intake` for complete redaction and the turns of an event, `redact` for secrets, `repository` for the tables,
`inbox` for the spool and for events that could not be kept, and `programs` for conversations that programs deliver.
"""
