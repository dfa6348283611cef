"""Filrouge for programs: `Memory`, its blocking twin, and the values that their verbs give.

Embedded or remote, a verb is one request to the same routes that every other client asks, so that it cannot mean
something else in another place.
"""
