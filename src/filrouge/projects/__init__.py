"""Projects: their names, joining a folder to a project, and merging two projects.

In: the names of a folder, as `hosts.project` reads them. Out: project listings, plans that can be shown before they are
applied, and the changes.

Invariant: a name in a `.filrouge.toml` gives a folder access to an existing project only if the user agreed to it on
this machine, or if the folder belongs to that project without the file.

Open `service` for the operations, `repository` for projects, their names and folders without consent, and `models` for
the plans. How names are matched to a project is in `core.scope`; the format of a folder's names is in `hosts.project`.
"""
