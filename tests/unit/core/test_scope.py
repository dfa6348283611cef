"""Which project a list of names stands for: clones and work trees are one, a reused path is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.scope import choose_project, display_name

SHOP = ("origin:forge.example/ana/shop", "root:abc", "path:/src/shop")


def after(*seen: tuple[str, ...]) -> dict[str, str]:
    """Every alias that is known once projects were seen under these names, one after the other."""
    known: dict[str, str] = {}
    for names in seen:
        choice = choose_project(names, known)
        assert choice is not None
        known |= dict.fromkeys(choice.new_aliases, choice.id)
    return known


def project(names: tuple[str, ...], known: dict[str, str]) -> str | None:
    choice = choose_project(names, known)
    return choice.id if choice else None


def test_no_name_is_no_project() -> None:
    assert choose_project((), after(SHOP)) is None


def test_an_unknown_project_takes_its_strongest_name_and_remembers_all() -> None:
    choice = choose_project(SHOP, {})
    assert choice is not None
    assert (choice.id, choice.name, choice.new_aliases) == (SHOP[0], "shop", SHOP)


def test_a_linked_work_tree_and_a_second_clone_are_the_same_project() -> None:
    known = after(SHOP)
    assert project((*SHOP[:2], "path:/src/shop-feature"), known) == SHOP[0]
    assert project((SHOP[0], "clone:77", "path:/elsewhere/shop"), known) == SHOP[0]


def test_a_changed_remote_is_one_more_alias() -> None:
    moved = ("origin:new.example/shop", *SHOP[1:])
    choice = choose_project(moved, after(SHOP))
    assert choice is not None
    assert (choice.id, choice.new_aliases) == (SHOP[0], ("origin:new.example/shop",))
    assert project(("origin:new.example/shop", "path:/c"), after(SHOP, moved)) == SHOP[0]


def test_another_repository_at_the_same_path_is_another_project_and_takes_the_path_over() -> None:
    other = ("origin:forge.example/ana/blog", "root:def", "path:/src/shop")
    choice = choose_project(other, after(SHOP))
    assert choice is not None
    assert (choice.id, choice.new_aliases) == (other[0], other)
    assert project(("path:/src/shop",), after(SHOP, other)) == other[0]


def test_a_folder_that_becomes_a_repository_stays_the_same_project() -> None:
    folder = ("path:/src/notes",)
    born = ("root:123", *folder)
    assert project(born, after(folder)) == folder[0]
    assert project(("origin:forge.example/notes", "root:123", "path:/moved"), after(folder, born)) == folder[0]


def test_a_name_given_by_hand_decides_alone() -> None:
    known = after(SHOP)
    assert project(("name:api", *SHOP), known) == "name:api"
    assert project(SHOP, after(SHOP, ("name:api", *SHOP))) == SHOP[0]


def test_one_repository_holds_several_projects_named_by_hand() -> None:
    known = after(("name:api", *SHOP), ("name:web", *SHOP))
    assert [project((name, *SHOP), known) for name in ("name:api", "name:web")] == ["name:api", "name:web"]
    assert project(SHOP, known) == SHOP[0]


def test_the_short_name_is_what_a_person_would_say() -> None:
    assert display_name(("name:the api", *SHOP)) == "the api"
    assert display_name(SHOP) == "shop"
    assert display_name(("origin:forge.example/ana/shop",)) == "shop"
    assert display_name(("path:/",)) == "/"


KINDS = ("origin", "root", "clone", "path")
NAMES = st.lists(st.sampled_from([f"{kind}:{name}" for kind in KINDS for name in "ab"]), min_size=1, max_size=4).map(
    lambda names: tuple(sorted(set(names), key=lambda name: KINDS.index(name.partition(":")[0])))
)


@given(st.lists(NAMES, max_size=6), NAMES)
def test_asked_twice_a_project_is_the_same_and_has_nothing_new(
    seen: list[tuple[str, ...]], names: tuple[str, ...]
) -> None:
    known = after(*seen)
    first = choose_project(names, known)
    assert first is not None
    again = choose_project(names, known | dict.fromkeys(first.new_aliases, first.id))
    assert again is not None
    assert again.id == first.id
