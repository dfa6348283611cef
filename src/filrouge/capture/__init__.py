"""From what a host hands over to what may be kept: spool, transcripts, redaction and guard."""
