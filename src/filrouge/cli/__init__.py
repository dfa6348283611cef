"""The command line: the hook's fast path, and everything a person types."""
