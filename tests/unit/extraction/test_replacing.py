"""Which memory a new statement replaces, by signs that anybody can read off the two."""

from __future__ import annotations

import pytest

from filrouge.extraction.replacing import REPLACE_THRESHOLD, ComparedText, Relation, chance, rarities

OLD = "the demo is on Thursday at 10"
OTHERS = [
    "the kiosk runs Debian 12",
    "Lea owns the ledger",
    "invoices are kept in Postgres",
    "the almanac is printed in May",
]


def replaced(
    new: str,
    old: str = OLD,
    *,
    similarity: float = 0.93,
    need: float = 0.96,
    standard: float = 2.0,
    compared: int = 5,
    same_turn: bool = False,
) -> float:
    beside = Relation(
        similarity=similarity, standard=standard, rank=0, need_similarity=need, need_standard=standard, need_rank=0,
        compared_count=compared, same_turn=same_turn, same_session=same_turn,
    )  # fmt: skip
    return chance(
        ComparedText(text=new, kind="fact"), ComparedText(text=old, kind="fact"), beside, rarities([old, *OTHERS])
    )


def test_another_value_of_the_same_thing_replaces_it() -> None:
    assert replaced("the demo is now on Friday at 14") >= REPLACE_THRESHOLD


@pytest.mark.parametrize("new", ["the kiosk is painted green", "Marc joins the team on Monday"])
def test_another_thing_replaces_nothing(new: str) -> None:
    assert replaced(new, similarity=0.82, need=0.7, standard=1.2) < REPLACE_THRESHOLD


def test_what_a_prompt_would_not_need_together_is_less_likely_replaced() -> None:
    said = "the demo is now on Friday at 14"
    assert replaced(said, need=0.7) < replaced(said, need=0.96)


def test_to_stand_out_among_many_tells_less_than_to_stand_out_among_a_few() -> None:
    said = "the demo is now on Friday at 14"
    assert replaced(said, compared=20) < replaced(said, compared=3)


def test_two_values_in_one_breath_live_side_by_side() -> None:
    said = "the demo is now on Friday at 14"
    assert replaced(said, same_turn=True) < REPLACE_THRESHOLD <= replaced(said)
