"""What stands before a prompt where the embedder learned what prompts need: memories by that, and few turns."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
import pytest

from filrouge.core.protocols import Vector, Vectors
from filrouge.memories.changes import remember
from filrouge.providers.hashing import StableHash
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from tests.unit.context.test_before_prompts import ANSWER, ASKED, SHOP, exporter, reasons, shown, told

UNHEARD_OF = "quixotic zephyr"
#: By a word of the prompt the words of what it needs.
NEEDED = {
    "by the way": UNHEARD_OF,
    "basket": "free delivery from seventy five euros",
    "ledger": ANSWER,
    "wordmark": "the colour of the logo is teal callum approves tariff changes callum approves tariff changes",
    "logo": "the colour of the logo is teal callum approves tariff changes tariff changes callum",
}


class Learned(StableHash):
    """The stable hash, told for some prompts what they need."""

    need_revision = "learned"

    @property
    def no_need_vector(self) -> Vector:
        return np.asarray(self.query(UNHEARD_OF))

    def need_of_prompt(self, text: str) -> Vector:
        needed = [words for word, words in NEEDED.items() if word in text]
        return self.query(needed[0]) if needed else -np.asarray(self.query(text))

    def need_vectors(self, statements: Sequence[tuple[str, str]]) -> Vectors:
        return self.passages([text for _, text in statements])


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home"), embedding="learned", makers={"learned": Learned}) as parts:
        yield parts


def known(parts: Parts, *facts: str) -> None:
    for fact in facts:
        remember(parts, fact, names=SHOP, scope="project", host="cli")
    idle(parts)  # a job makes the vectors of what is remembered by hand


OTHERS = (
    "The staging database is Postgres thirteen.",
    "Callum approves tariff changes.",
    "Reminders go out three days before.",
    "The colour of the logo is teal.",
)


def test_a_memory_that_shares_no_word_with_the_prompt_is_shown_where_it_is_needed(parts: Parts) -> None:
    known(parts, "We offer free delivery from seventy five euros.", "The basket page adds costs in euros.", *OTHERS)
    assert any("free delivery" in line for line in shown(parts, "please add the costs to the basket page"))


def test_where_a_prompt_needs_nothing_nothing_is_shown_however_much_it_speaks_of_what_is_known(parts: Parts) -> None:
    known(parts, "We offer free delivery from seventy five euros.", *OTHERS)
    assert shown(parts, "by the way, what a lovely colour the logo is, teal!") == []


def test_what_an_agent_said_is_shown_where_the_same_is_asked_again_and_not_where_it_speaks_of_the_thing(
    parts: Parts,
) -> None:
    exporter(parts)
    known(parts, *OTHERS)
    assert any(ANSWER in line for line in shown(parts, ASKED))
    asked_else = reasons(parts, "what do we know of the flush of the invoice exporter in the night?")
    assert asked_else[f"Assistant: {ANSWER}"] == "below the threshold"
    assert f"Assistant: {ANSWER}" not in reasons(parts, "does the staging database flush before the nightly export?")


def test_a_chat_between_people_is_shown_as_they_spoke_though_memories_are_chosen_by_need(parts: Parts) -> None:
    told(
        parts,
        ("prompt", "Mira: We went to the lighthouse at Kermorvan on Sunday."),
        ("prompt", "Jonas: How was the lighthouse?"),
        ("prompt", "Mira: Windy, the keeper let us climb to the top."),
    )
    known(parts, *OTHERS)
    lines = shown(parts, "which keeper let Mira up, in all that weather and crowd of visitors?")
    assert any("Mira: Windy, the keeper let us climb to the top." in line for line in lines)


def test_beside_a_chat_between_people_a_memory_is_shown_only_where_something_is_known(parts: Parts) -> None:
    told(parts, ("prompt", "Mira: We stayed in Kermorvan on Sunday."), ("prompt", "Mira: The top was windy."))
    known(parts, "We offer free delivery from seventy five euros.", *OTHERS)
    assert shown(parts, "please add the missing costs of a whole journey to the basket page by Sunday") == []


def test_what_is_far_behind_the_best_is_not_shown_beside_it(parts: Parts) -> None:
    known(parts, "The colour of the logo is teal.", "Callum approves tariff changes.")
    assert len(shown(parts, "which colour has the logo, teal or red?")) == 1
    assert len(shown(parts, "which colour has the wordmark and logo, teal or red?")) == 2
