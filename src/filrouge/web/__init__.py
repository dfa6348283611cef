"""The dashboard: pages for a person, over the same HTTP API that programs use.

A page asks the API inside the process (`client.Api`) with the visitor's own rights, and a Jinja2 template shows the
answer; the same address with `.json` returns what the template got. A form calls the API and leads back to its page,
so that every page works without JavaScript; with it, htmx replaces only what changed. `rendering` holds what all
pages share: languages, headers, form tokens. One module a group of screens holds their pages; no page decides
anything that the API does not.
"""
