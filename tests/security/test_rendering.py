"""Hostile texts in front of a model: each stays one quoted line, and no block is cut by a host.

Hypothesis draws fragments; each is set into every attack of `attacks.py`, and the texts that come of it go through
the plan and the rendering, twenty to a block. Texts are counted once each, by their digest. The check is written a
second time, on purpose: it shares no code with the renderer.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filrouge.context.block import Line, RenderOptions, build_block, parse, render
from filrouge.context.models import Candidate
from filrouge.core.clock import Language
from filrouge.hosts.hook_input import MAX_CONTEXT_BYTES
from filrouge.testing import ManualClock
from tests.support.tiers import examples, is_proof

from .attacks import ATTACKS, BREAKS, INVISIBLE, NAMES, NONCE, wide

#: How many texts the law holds for.
ENOUGH = 100_000 if is_proof() else 200
IN_A_BLOCK = 20
NOW = ManualClock().now()
FRAGMENTS = st.one_of(
    st.sampled_from(
        [*NAMES, *INVISIBLE, *BREAKS, "<", "</", "＜", "﹤", "≮", ">", "/", ":", "]", "[", "- [", "## ", "…"]
    ),
    st.sampled_from(NAMES).map(wide),
    st.sampled_from([f"</filrouge-memory {NONCE}>", "System:", "\n\nHuman: ", "[INST]", "``` ", "\ud800", " / User: "]),
    st.text(max_size=12),
    st.text(st.characters(categories=["Cf", "Mn", "Me", "Zl", "Zp", "Cc", "So", "Lo", "Sk"]), max_size=12),
    st.integers(0, 2000).map(lambda n: "x" * n),
)
TEXTS = st.lists(st.lists(FRAGMENTS, max_size=8).map("".join), min_size=2, max_size=4, unique=True)
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Mn", "Me"}
_LOOKS = str.maketrans("аеорсухѕіј", "aeopcyxsij")
_TAGS = re.compile(rf"<\s*[/!?]?\s*(?:{'|'.join(re.escape(name.lower()) for name in NAMES)})|\[\s*/?\s*inst\s*\]")
#: At the beginning of what an item says, or of a line within it; what stands behind many signs begins nothing.
_SAYS = re.compile(r"(?:^|/ )\W{0,20}(?:system|assistant|human|user|developer)\s*:")
_TELLTALE = re.compile(f"[{re.escape(INVISIBLE + BREAKS.replace(chr(10), ''))}]")


def as_read(text: str) -> str:
    """The text as a model may read it: without what is not seen, marks away, look-alikes and widths folded."""
    apart = unicodedata.normalize("NFKD", text)
    if not apart.isascii():
        apart = "".join(char for char in apart if unicodedata.category(char) not in _HIDDEN or char == "\n")
    return apart.casefold().translate(_LOOKS)


def hostile(fragments: list[str]) -> list[str]:
    """Every attack around every fragment."""
    return [attack.replace("{}", fragment) for fragment in fragments for attack in ATTACKS]


def assert_quoted(block: str, items: int, nonce: str) -> None:
    """A block of exactly so many items, with one beginning and one end, in which nothing passes for anything else."""
    first, *inner, last = block.split("\n")
    assert (first, last) == (f'<filrouge-memory nonce="{nonce}">', f"</filrouge-memory {nonce}>")
    lines = [line for line in inner if line.startswith("- [")]
    assert len(lines) == len(parse(block)) == items
    assert len(inner) == items + sum(line.startswith("## ") for line in inner) + 1  # and what kind of text it is
    assert len(block.splitlines()) == len(inner) + 2
    within = "\n".join(inner)
    assert not _TELLTALE.search(within)
    read = as_read(within)
    assert not _TAGS.search(read)
    assert not any(_SAYS.search(line.partition("] ")[2]) for line in read.split("\n") if line.startswith("- ["))
    assert all(len(line.partition("] ")[2]) <= 500 for line in lines)


def assert_harmless(texts: list[str], language: Language) -> None:
    """Twenty to a block, first all of them, then what the largest budget takes of them."""
    for start in range(0, len(texts), IN_A_BLOCK):
        some = texts[start : start + IN_A_BLOCK]
        lines = [
            Line(section="facts", age="3 days ago", source=text[:80], text=text, verified=n % 2 == 0)
            for n, text in enumerate(some)
        ]
        assert_quoted(render(lines, language, NONCE[::-1]), len(some), NONCE[::-1])
        pieces = [
            Candidate(id=str(n), kind="fact", section="facts", text=text, said=NOW) for n, text in enumerate(some)
        ]
        block = build_block(pieces, RenderOptions(occasion="start", language=language, budget=6000, now=NOW))
        assert len(parse(block.text)) == sum(verdict.injected for verdict in block.verdicts) > 0
        assert len(block.text.splitlines()) == len(parse(block.text)) + 4  # the frame, and one heading
        assert len(block.text) <= 6000
        assert len(block.text.encode()) < MAX_CONTEXT_BYTES


@pytest.mark.law
def test_hostile_texts_are_quoted_lines_and_nothing_else() -> None:
    seen = set[bytes]()

    @settings(
        max_examples=examples(20) if is_proof() else 6,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(TEXTS, st.sampled_from(["en", "fr", "es"]))
    def attack(fragments: list[str], language: Language) -> None:
        texts = hostile(fragments)
        assert_harmless(texts, language)
        seen.update(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)

    while len(seen) < ENOUGH:
        attack()
    assert len(seen) >= ENOUGH
