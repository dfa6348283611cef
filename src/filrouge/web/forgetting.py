"""Forgetting for good: a preview, the confirmation, and the signed receipts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from filrouge.web.client import ApiProblem
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit, address

pages = Pages()

_STALE: Final = 409
#: Texts that a preview shows; the counts include all of them.
_MAX_TEXTS: Final = 200
#: The tables whose rows a person knows by their words.
_WITH_WORDS: Final = ("memories", "turns", "threads", "vault_chunks")
#: What a table's rows are counted as; `other` if it is not listed.
_KINDS: Final[Mapping[str, str]] = {
    "memories": "memories",
    "turns": "messages",
    "events": "events",
    "threads": "threads",
    "vault_notes": "notes",
    "vault_chunks": "notes",
    "bridges": "bridges",
    "syntheses": "summaries",
    "session_analyses": "summaries",
    "analysis_cache": "summaries",
    "memory_retrievals": "injections",
    "journal": "decisions",
    "thread_decisions": "decisions",
    "reviews": "decisions",
    "vectors": "index",
    "thread_vectors": "index",
}
_EFFECTS: Final = ("erased", "emptied", "rebuilt", "unlinked")


@pages.page("/forget", "forget.html")
async def forget_preview(visit: Visit) -> Mapping[str, Any]:
    """What would be erased for an id or for words; without either, a form that asks for words.

    Everything that is stored is searched for it, which takes seconds in a large memory. The page is there before: it
    fetches the answer from its own address with `now`.
    """
    id_, words = visit.query.get("id", ""), visit.query.get("text", "").strip()
    asked = {"id": id_} if id_ else {"text": words} if words else {}
    is_pending = bool(asked) and not visit.query.get("now")
    preview = None
    if asked and not is_pending:
        preview = await visit.api.send("POST", "/api/memory/forget", asked | {"dry_run": True})
    return {
        "pending": address(f"{ROOT}/forget", asked, back=_back(visit), now=1) if is_pending else "",
        "id": id_,
        "words": words,
        "preview": preview,
        "kinds": _by_kind(preview["counts"]) if preview else [],
        "texts": _texts(preview["rows"]) if preview else [],
        "back": _back(visit),
    }


@pages.action("/forget")
async def forget_confirmed(visit: Visit) -> Next:
    """Forget what the preview listed; if something changed since, show a new preview."""
    asked = {name: value for name in ("id", "text") if (value := visit.field(name))}
    try:
        receipt = await visit.api.send("POST", "/api/memory/forget", asked | {"token": visit.field("token")})
    except ApiProblem as problem:
        if problem.status != _STALE:
            raise
        text = visit.text("Nothing was erased: %(reason)s Look at the new preview.", reason=problem.detail)
        return Next(to=address(f"{ROOT}/forget", asked, back=visit.back, now=1), message=Message(text=text))
    to = address(f"{ROOT}/receipts/{receipt['receipt']}", {}, back=visit.back)
    return Next(to=to, message=Message(text=visit.text("Forgotten. This is the receipt.")))


@pages.page("/receipts", "receipts.html")
async def receipts(visit: Visit) -> Mapping[str, Any]:
    """The receipts of what was forgotten, newest first."""
    listing = await visit.api.listing("/api/memory/receipts", limit=50, cursor=visit.query.get("cursor"))
    return {"receipts": [_receipt(one) for one in listing.rows], "next": listing.next, "receipt": None, "back": ""}


@pages.page("/receipts/{receipt_id}", "receipts.html")
async def one_receipt(visit: Visit) -> Mapping[str, Any]:
    """One receipt: what was erased, where, and what a search found afterwards."""
    id_ = quote(visit.parameter("receipt_id"), safe="")
    found = _receipt(await visit.api.get(f"/api/memory/receipts/{id_}"))
    return {"receipts": [], "next": "", "receipt": found, "back": _back(visit)}


def _receipt(receipt: dict[str, Any]) -> dict[str, Any]:
    """Return a receipt with its counts by kind, and with what a search for the forgotten words still found."""
    searched: dict[str, Any] | None = receipt.get("searched")
    left: dict[str, Any] = searched["left"] if searched else {}
    return receipt | {
        "kinds": _by_kind(receipt["counts"]),
        "left_files": left.get("files", []),
        "left_rows": sum(n for table, n in left.items() if table != "files"),
        "is_done": searched is not None,
    }


def _by_kind(counts: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Add up counts of tables to counts of what a person knows, in a fixed order; the rest is `other`."""
    sums = defaultdict[str, dict[str, int]](lambda: dict.fromkeys(_EFFECTS, 0))
    for table, effects in counts.items():
        for effect, n in effects.items():
            sums[_KINDS.get(table, "other")][effect] += n
    return [{"kind": kind} | sums[kind] for kind in dict.fromkeys([*_KINDS.values(), "other"]) if kind in sums]


def _texts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the beginnings of the texts that are affected, by why they are: the words, the meaning, a dependency."""
    with_words = [row for row in rows if row["table"] in _WITH_WORDS and row["excerpt"] and row["deed"] == "erased"]
    shown = [(how, [row for row in with_words if row["how"] == how]) for how in ("exact", "related", "tied")]
    return [{"how": how, "rows": found[:_MAX_TEXTS], "count": len(found)} for how, found in shown if found]


def _back(visit: Visit) -> str:
    """Return the page to go back to, if it is one of the dashboard."""
    back = visit.query.get("back", "")
    return back if back == ROOT or back.startswith((ROOT + "/", ROOT + "?")) else ""
