"""The one process that owns a home's memory, and the way to reach it."""
