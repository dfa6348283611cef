"""The graph of threads and their bridges, as the API answers it and the command line draws it."""

from __future__ import annotations

from typing import Any

from filrouge.app.bridge_verbs import bridges
from filrouge.app.parts import Parts
from filrouge.app.report import names_of
from filrouge.clock import to_text
from filrouge.model.scope import LOCAL_USER
from filrouge.ports import Tx
from filrouge.store.bridges import Place, SeenThreads


def graph(parts: Parts, tx: Tx, *, project: str | None, everywhere: bool, limit: int) -> dict[str, Any]:
    """`threads` (those active last) and the live `bridges` between them, of a project or of all."""
    place, names = Place(user=LOCAL_USER, project=project), names_of(tx)
    threads = SeenThreads(tx).beside(place, "", everywhere=everywhere)[:limit]
    there = {one.id for one in threads}
    return {
        "project": project,
        "project_name": names.get(project or "", ""),
        "threads": [
            {
                "id": one.id,
                "title": one.title,
                "state": one.state,
                "topics": list(one.topics),
                "project": one.place.project,
                "project_name": names.get(one.place.project or "", ""),
                "last_active": to_text(one.last_active),
            }
            for one in threads
        ],
        "bridges": [
            one
            for one in bridges(parts, tx, project=project, everywhere=everywhere)
            if {one["source"], one["target"]} <= there
        ],
    }
