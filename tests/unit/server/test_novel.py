"""Whether a text is new, over HTTP: what the route answers, and that the document says so."""

from __future__ import annotations

from filrouge.server.routes.novel import NovelAnswer

from .conftest import Api


def test_the_nearest_memory_is_named_with_its_similarity(api: Api) -> None:
    empty = api.ask("POST", "/memory/novel", {"text": "Production listens on port 9443."}).body
    assert NovelAnswer.model_validate(empty).model_dump() == {"novel": True, "nearest": None}
    [action] = api.remember("Production listens on port 9443.")
    known = api.ask("POST", "/memory/novel", {"text": "Production listens on port 9443."}).body
    nearest = {"id": action["id"], "content": "Production listens on port 9443.", "similarity": 0.9995}
    assert NovelAnswer.model_validate(known).model_dump() == {"novel": False, "nearest": nearest}
    assert api.ask("POST", "/memory/novel", {"text": " "}).status == 400
    assert api.ask("POST", "/memory/novel", {"text": "x", "threshold": 2}).status == 400
