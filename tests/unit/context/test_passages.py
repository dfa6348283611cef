"""Passages: what lies together shares a line, and what is shown fits, says nothing twice, and is worth its room."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.context.candidates import MAX_GAP, ChosenPassages, PassageItem, excerpt
from filrouge.context.candidates import choose as chosen
from tests.support.tiers import examples

MARK = 30


def told(
    id_: str,
    place: int = 0,
    *,
    text: str = "",
    chance: float = 0.5,
    conversation: str = "c",
    opens: bool = True,
    answers: tuple[str, str] | None = None,
    words: str = "",
) -> PassageItem:
    """A candidate that says its own id unless told otherwise."""
    return PassageItem(
        id=id_,
        conversation=conversation,
        position=place,
        text=text or f"User: {id_}",
        probability=chance,
        may_open_line=opens,
        answered_prompt=answers,
        words=frozenset(words.split()),
    )


def choose(*candidates: PassageItem, room: int = 1500, most: int = 4) -> ChosenPassages:
    """The passages of these candidates."""
    return chosen(candidates, max_characters=room, max_lines=most, max_line=500, prefix=MARK)


def texts(choice: ChosenPassages) -> list[str]:
    """The text of each line."""
    return [passage.text for passage in choice.passages]


def test_neighbours_share_a_line_in_the_order_in_which_they_were_said() -> None:
    assert texts(choose(told("b", 1, chance=0.9), told("a", 0), told("c", 2))) == ["User: a\nUser: b\nUser: c"]


def test_what_is_left_out_between_two_turns_is_marked() -> None:
    assert texts(choose(told("a", 0), told("b", MAX_GAP))) == ["User: a\n…\nUser: b"]


def test_turns_that_are_far_apart_or_of_two_conversations_share_no_line() -> None:
    assert len(choose(told("a", 0), told("b", MAX_GAP + 1)).passages) == 2
    assert len(choose(told("a", 0), told("b", 1, conversation="other")).passages) == 2


def test_a_line_never_grows_beyond_its_limit() -> None:
    long = "x" * 300
    assert [len(one) for one in texts(choose(told("a", 0, text=long), told("b", 1, text=long)))] == [300, 300]


def test_of_two_equally_probable_ones_the_shorter_is_shown_where_one_fits() -> None:
    choice = choose(told("long", text="x" * 200), told("short", text="y" * 50, conversation="d"), room=220)
    assert texts(choice) == ["y" * 50]
    assert choice.omissions == {"long": "over the budget"}


def test_what_is_not_worth_a_line_of_its_own_may_join_one() -> None:
    strong, weak = told("a", 0, chance=0.8), told("b", 1, chance=0.01, opens=False)
    assert texts(choose(strong, weak)) == ["User: a\nUser: b"]
    assert choose(weak).omissions == {"b": "below the threshold"}


def test_what_repeats_a_line_is_shown_once() -> None:
    first, again = (
        told(name, chance=chance, conversation=name, words="port 9443 production caddy")
        for name, chance in (("a", 0.9), ("b", 0.4))
    )
    choice = choose(first, again)
    assert texts(choice) == ["User: a"]
    assert choice.omissions == {"b": "repeats a shown item"}


def test_a_reply_brings_what_it_answers_unless_that_stands_beside_it() -> None:
    prompt = told("p", 0, text="User: which port is it?")
    reply = told("r", 1, text="Assistant: 9443.", answers=("p", "User: which port…"))
    assert texts(choose(reply)) == ["User: which port…\nAssistant: 9443."]
    assert texts(choose(prompt, reply)) == ["User: which port is it?\nAssistant: 9443."]


def test_at_most_so_many_lines_are_shown_the_most_probable_first() -> None:
    choice = choose(*(told(str(n), conversation=str(n), chance=n / 10) for n in range(1, 7)), most=4)
    assert texts(choice) == ["User: 6", "User: 5", "User: 4", "User: 3"]
    assert choice.omissions == {"1": "beyond the limit", "2": "beyond the limit"}


CANDIDATES = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from("xyz"),
        st.text(st.sampled_from("ab "), min_size=1, max_size=400),
        st.floats(0, 1),
        st.booleans(),
    ),
    max_size=25,
    unique_by=lambda one: (one[0], one[1]),
)


@given(candidates=CANDIDATES, room=st.integers(0, 2000), most=st.integers(1, 5))
@settings(max_examples=examples(60))
def test_every_candidate_is_in_exactly_one_line_or_refused_and_all_lines_fit(
    candidates: list[tuple[int, str, str, float, bool]], room: int, most: int
) -> None:
    offered = [
        told(f"{conversation}{place}", place, text=text, chance=chance, conversation=conversation, opens=opens)
        for place, conversation, text, chance, opens in candidates
    ]
    choice = choose(*offered, room=room, most=most)
    shown = [one.id for passage in choice.passages for one in passage.items]
    written = [" / ".join(passage.text.split("\n")) for passage in choice.passages]
    assert sorted([*shown, *choice.omissions]) == sorted(one.id for one in offered)
    assert len(written) <= most
    assert all(len(line) <= 500 for line in written)
    assert sum(len(line) + MARK for line in written) <= room or not written
    assert all(sorted(one.position for one in p.items) == [one.position for one in p.items] for p in choice.passages)


def test_a_short_turn_is_shown_whole_on_one_line() -> None:
    assert excerpt("One.\n\n  Two. ", len) == "One. Two."


def test_a_long_turn_is_cut_at_sentences_to_the_part_that_bears_on_the_question() -> None:
    filler = "Here is another thing that was looked at on the way and turned out well. "
    text = f"{filler * 6}The port is 9443 now. {filler * 6}"
    cut = excerpt(text, lambda sentence: sentence.count("port"), max_uncut=200, max_excerpt=120)
    assert "The port is 9443 now." in cut
    assert cut.startswith(("… Here", "… The"))
    assert cut.endswith(" …")
    assert len(cut) <= 120


@given(text=st.text(st.sampled_from("ab. !\n"), max_size=600), cut=st.integers(20, 150))
def test_what_is_cut_is_never_longer_than_allowed(text: str, cut: int) -> None:
    shown = excerpt(text, len, max_uncut=cut, max_excerpt=cut)
    assert len(shown) <= cut
    assert "\n" not in shown
