"""The graph is valid whatever titles hold, the same each time, and no label covers another."""

from __future__ import annotations

import random
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.threads.bridges import (
    DOT_HEIGHT,
    MAX_LABEL_COLUMNS,
    MAX_LABEL_LINES,
    Edge,
    Graph,
    Node,
    box_size,
    columns_of,
    label_lines,
    layout,
    to_dot,
    to_svg,
)
from filrouge.threads.models import BRIDGE_KINDS
from tests.support.tiers import examples

_WORDS = "gateway port rollback migration invoice export certificate renewal session cache image release".split()
_SVG = "{http://www.w3.org/2000/svg}"


def drawn(number: int) -> Graph:
    draw = random.Random(number)
    nodes = tuple(
        Node(
            id=f"t{place}",
            title=" ".join(draw.choices(_WORDS, k=draw.randint(1, 7))),
            state=draw.choice(("active", "suspended", "archived")),
        )
        for place in range(number)
    )
    edges = [
        Edge(source=one.id, target=other.id, kind=draw.choice(BRIDGE_KINDS), strength=draw.random())
        for one, other in (draw.sample(nodes, 2) for _ in range(2 * number))
    ]
    return Graph(nodes=nodes, edges=tuple(edges))


@pytest.mark.parametrize("number", [2, 5, 30, 100])
def test_no_label_covers_another(number: int) -> None:
    graph = drawn(number)
    found = layout(graph)
    for one, other in combinations(found.positions, 2):
        (x, y), (wide, high) = found.positions[one], box_size(found.labels[one])
        (x2, y2), (wide2, high2) = found.positions[other], box_size(found.labels[other])
        beside = abs(x - x2) > (wide + wide2) / 2 - 1
        # The dot is in the upper part of its box.
        below = abs((y + high / 2) - (y2 + high2 / 2)) > (high + high2) / 2 - 1
        assert beside or below, (one, other)
    assert all(DOT_HEIGHT / 2 < y < found.height and 0 < x < found.width for x, y in found.positions.values())


def test_the_same_graph_gets_the_same_picture() -> None:
    assert to_svg(drawn(12)) == to_svg(drawn(12))


def test_a_bridge_to_a_thread_that_is_not_shown_is_left_out() -> None:
    node = Node(id="a", title="One", state="active")
    assert Graph(nodes=(node,), edges=(Edge(source="a", target="b", kind="extends", strength=1),)).edges == ()


def test_a_graph_of_nothing_is_still_a_document() -> None:
    nothing = Graph(nodes=(), edges=())
    assert ElementTree.fromstring(to_svg(nothing)).findtext(f"{_SVG}desc") == "0 threads and 0 bridges between them."
    assert to_dot(nothing) == "digraph threads {\n  node [shape=box, style=rounded];\n}\n"


def test_the_picture_is_told_in_words() -> None:
    root = ElementTree.fromstring(to_svg(drawn(5)))
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "name told")
    assert root.findtext(f"{_SVG}title") == "Threads"
    assert "5 threads and" in (root.findtext(f"{_SVG}desc") or "")


HOSTILE = st.text(max_size=80) | st.sampled_from(
    [
        '<script>alert("x")</script>',
        "</text></svg>",
        "]]>",
        '"];}\n digraph {',
        "a\\",
        "&#0;",
        "\u202eabc",
        "\ud800",
        "\x00",
    ]
)


@given(st.lists(HOSTILE, min_size=2, max_size=4), HOSTILE)
@settings(max_examples=examples(100), deadline=None)
def test_whatever_titles_hold_stays_text(titles: list[str], reason: str) -> None:
    nodes = tuple(Node(id=f"t{place}", title=title, state="active") for place, title in enumerate(titles))
    edge = Edge(source="t0", target="t1", kind="depends_on", strength=0.7, reason=reason)
    graph = Graph(nodes=nodes, edges=(edge,), name=titles[0])
    root = ElementTree.fromstring(to_svg(graph).encode("utf-8"))
    names = {element.tag.removeprefix(_SVG) for element in root.iter()}
    assert names <= {"svg", "title", "desc", "style", "marker", "path", "rect", "text", "g", "circle"}
    assert len(list(root.iter(f"{_SVG}circle"))) == len(titles) + 1
    bare = [line.replace("\\\\", "").replace('\\"', "") for line in to_dot(graph).splitlines()]
    assert all(line.count('"') % 2 == 0 and "\\" not in line for line in bare)
    assert len(to_dot(graph).splitlines()) == len(titles) + 4


@given(HOSTILE)
def test_a_label_is_two_short_lines(title: str) -> None:
    lines = label_lines(title)
    assert 1 <= len(lines) <= MAX_LABEL_LINES
    assert all(line and columns_of(line) <= MAX_LABEL_COLUMNS for line in lines)
