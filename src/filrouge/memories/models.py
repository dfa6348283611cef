"""Value types for memories, and pure helpers: filters, decisions, reviews, undo plans, text matching.

- `Statement` is what the extractor proposes; `Memory` is what is stored. The text of a memory is never overwritten: an
  update closes its validity, and a new memory links back to it.
- `Decision` (`Add`, `Update`, `Delete`, `Noop`, `Conflict`) says what happens to a statement; `Review` waits for the
  user.
- `Filters` restricts queries; `UndoPlan` describes an undo before it is applied.
- `matcher` and `contains_any` find a text in any spelling; `checked_path` validates the path of a memory file.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal

from msgspec import Struct

from filrouge.capture.models import Role
from filrouge.core.clock import to_text
from filrouge.core.errors import BadInput
from filrouge.core.scope import Scope, ScopeName

# Filters.

#: The kind that stands for turns, in addition to the kinds of memories.
TURN = "turn"


class Filters(Struct, frozen=True, kw_only=True):
    """Conditions on memories and turns; unset fields match everything.

    Filters are exact: filtered rows are neither returned nor counted, as if the store held only the other rows. `as_of`
    selects by a moment in time: a memory counts while it was valid, whatever happened to it later; a turn counts once
    it was said.

    Attributes:
        agent: who learned it: the agent's id, or its channel if it has no id.
        channel: the host through which it was said.
        kinds: kinds of memories, or `turn`; empty = all.
        since, until: when it was said; `since` is inclusive, `until` is exclusive.
        as_of: only memories that were valid at this moment.
        trust: minimum trust, 0 to 3.
        role: the speaker; memories have no role and never match.
        branch: full name of the git branch that was checked out.
        thread: id of a thread; matches its turns, and memories with evidence in one of them.
        language: of the text; turns have none and never match.

    A new field also needs a condition in `queries.sql`, and an entry in `server.routes.memories`,
    `cli.commands.search` and the SDK; and in `search.filters` if only one of the two tables has it.
    """

    user: str | None = None
    agent: str | None = None
    channel: str | None = None
    kinds: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    trust: int = 0
    role: Role | None = None
    thread: str | None = None
    branch: str | None = None
    language: str | None = None

    @property
    def narrow(self) -> bool:
        """Return True if any condition is set."""
        return self != NO_FILTERS


#: No conditions.
NO_FILTERS = Filters()


# Memories.

Kind = Literal["fact", "decision", "preference", "intent", "constraint", "episode", "concept", "note", "rule"]
MIN_CONFIDENCE_INJECT = 0.6
"""Minimum confidence of a memory that is injected automatically."""
MIN_CONFIDENCE_KEEP = 0.3
"""Minimum confidence of a statement that is stored; below `MIN_CONFIDENCE_INJECT` it is found but never injected."""
#: Kinds that summarise sessions. They repeat other memories and turns, so nothing automatic reads them.
SUMS: tuple[Kind, ...] = ("episode", "concept")
State = Literal["live", "superseded", "binned", "quarantined"]
Sentiment = Literal["positive", "neutral", "negative"]


class Span(Struct, frozen=True, kw_only=True):
    """Characters `start` to `end` (exclusive) of a turn's text."""

    start: int
    end: int


class Evidence(Struct, frozen=True, kw_only=True):
    """The words of one turn that support a memory."""

    turn_id: str
    span: Span


class Statement(Struct, frozen=True, kw_only=True):
    """A proposed memory: what extraction read in one turn.

    Attributes:
        subject: what it is about, in a few normalised words (`production port`), so that a newer value of the same
            subject is recognised without a model.
        key, value: set for a core fact (`user_name`, `Ana Beltran`).
        corrects: words for the old value that this statement declares invalid (`8443`, `Typst`).
        is_correction: the sentence itself says that something changed.
        only_replaces: it is too unsure to be remembered unless it replaces a memory.
    """

    kind: Kind
    text: str
    span: Span
    scope: ScopeName = "project"
    subject: str = ""
    key: str | None = None
    value: str | None = None
    corrects: tuple[str, ...] = ()
    is_correction: bool = False
    confidence: float = 0.8
    sentiment: Sentiment = "neutral"
    timeframe: str = ""
    only_replaces: bool = False


class Memory(Struct, frozen=True, kw_only=True):
    """One stored statement with its state and history.

    It is self-contained and usually has evidence. A standing instruction is a memory of kind `rule`.

    Attributes:
        disabled: a rule that the user switched off: it is kept, but shown to no model.
        uses: how often it was added to a prompt because it was relevant.
        language: of the text, by its small words (en, fr, es); empty if it was stored before this was recorded.
    """

    id: str
    scope: Scope
    scope_name: ScopeName
    kind: Kind
    text: str
    trust: int
    created_at: datetime
    valid_from: datetime
    valid_to: datetime | None = None
    state: State = "live"
    subject: str = ""
    key: str | None = None
    value: str | None = None
    confidence: float = 0.8
    sentiment: Sentiment = "neutral"
    timeframe: str = ""
    evidence: tuple[Evidence, ...] = ()
    supersedes: str | None = None
    superseded_by: str | None = None
    previous_text: str | None = None
    pinned: bool = False
    disabled: bool = False
    mention_count: int = 1
    last_mention: datetime | None = None
    uses: int = 0
    last_used: datetime | None = None
    made_by: str = "heuristic"
    prompt_version: str = ""
    language: str = ""


#: `made_by` of what a colleague shared.
COLLEAGUE: Final = "team"
#: The fields that are one column, and have one name and one value in rows, answers and exports.
PLAIN_FIELDS: Final = tuple(
    name for name in Memory.__struct_fields__ if name not in ("scope", "scope_name", "evidence")
)


def plain_values(memory: Memory) -> dict[str, Any]:
    """Return the plain fields of a memory by name, times in their stored form."""
    values = {name: getattr(memory, name) for name in PLAIN_FIELDS}
    return {name: to_text(value) if isinstance(value, datetime) else value for name, value in values.items()}


# Decisions about a statement: a closed union, consumed with `match`. The ids name memories that were shown to the
# rules or the model that decided. They are checked again when the decision is applied, because models invent ids.


class Add(Struct, frozen=True, kw_only=True):
    """Store the statement; nothing similar is known."""

    statement: Statement
    reason: str


class Update(Struct, frozen=True, kw_only=True):
    """Replace `old_ids`: the new memory continues the first, and the others end with it."""

    statement: Statement
    old_ids: tuple[str, ...]
    reason: str


class Delete(Struct, frozen=True, kw_only=True):
    """End `old_ids`; the statement only says that they no longer hold."""

    statement: Statement
    old_ids: tuple[str, ...]
    reason: str


class Noop(Struct, frozen=True, kw_only=True):
    """Do not store the statement; it is already known.

    Attributes:
        existing_id: the memory that says the same; it gains a mention.
    """

    statement: Statement
    existing_id: str
    reason: str


class Conflict(Struct, frozen=True, kw_only=True):
    """The statement contradicts `existing_id`, and it is unclear which holds; the user decides."""

    statement: Statement
    existing_id: str
    reason: str


Decision = Add | Update | Delete | Noop | Conflict


class Neighbour(Struct, frozen=True, kw_only=True):
    """A stored memory similar to a statement.

    Attributes:
        similarity: calibrated, 0 = unrelated, 1 = same text (see `EmbeddingSpace.calibrated`).
    """

    memory: Memory
    similarity: float


# Reviews: statements that wait for the user, because they contradict a pinned or undecided memory, or lack evidence.

ReviewKind = Literal["conflict", "quarantine"]
ReviewOutcome = Literal["open", "old", "new", "both", "accept", "dismiss", "undone"]
"""`open` waits; `undone`: the decision that opened it was reverted; the others say how it was settled."""
Settlement = Literal["old", "new", "both", "accept", "dismiss"]
"""For a conflict: keep the old memory, replace it with the new one, keep both. For a quarantine: accept, dismiss."""


class Review(Struct, frozen=True, kw_only=True):
    """One entry of the review queue. The memory of its statement is not served until the review is settled.

    Attributes:
        against: the memory that the statement contradicts; None for a quarantine, or if that memory was erased.
    """

    memory: Memory
    kind: ReviewKind
    against: Memory | None
    reason: str
    outcome: ReviewOutcome
    at: datetime
    settled_at: datetime | None

    @property
    def id(self) -> str:
        """Return the id of the statement's memory, which is also the id of the review."""
        return self.memory.id


# Undo plans: what an undo would revert and change, printable before it is applied.


class TakenBack(Struct, frozen=True, kw_only=True):
    """One decision to revert.

    Attributes:
        entry: the number of its journal entry.
    """

    entry: int
    at: datetime
    actor: str
    action: str
    memory_id: str
    reason: str


class Effect(Struct, frozen=True, kw_only=True):
    """The effect of an undo on one memory.

    Attributes:
        memory_id, text: the memory's id and statement.
        before, after: its state before and after the undo.
        pinned: whether it is pinned, before and after.
        disabled: whether it is switched off, before and after.
        waits: it waits for review again.
    """

    memory_id: str
    text: str
    before: State
    after: State
    pinned: tuple[bool, bool]
    disabled: tuple[bool, bool] = (False, False)
    waits: bool = False

    @property
    def what(self) -> str:
        """Return the effect in a few words."""
        if self.before != self.after:
            words = {"live": "live again", "binned": "to the bin", "superseded": "superseded again"}
            return words.get(self.after, "to be reviewed")
        if self.pinned[0] != self.pinned[1]:
            return "pinned" if self.pinned[1] else "not pinned"
        if self.disabled[0] != self.disabled[1]:
            return "switched off" if self.disabled[1] else "switched on"
        return "one mention less"


class UndoPlan(Struct, frozen=True, kw_only=True):
    """An undo with everything it affects.

    Attributes:
        decisions: the decisions to revert, newest first; the last one is the decision that the caller named, the others
            depend on it.
        effects: the effect on each memory, ordered by id.
    """

    decisions: tuple[TakenBack, ...]
    effects: tuple[Effect, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the plan, one line at a time."""
        *later, named = self.decisions
        yield f"Takes back {_decision_line(named)}"
        if later:
            yield "and these later decisions that depend on it:"
            yield from (f"  {_decision_line(decision)}" for decision in later)
        yield "Then:"
        yield from (f"  {effect.what}: {effect.memory_id} {effect.text}" for effect in self.effects)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {
            "entry": self.decisions[-1].entry,
            "decisions": [
                {
                    "entry": decision.entry,
                    "at": to_text(decision.at),
                    "actor": decision.actor,
                    "action": decision.action,
                    "memory_id": decision.memory_id,
                    "reason": decision.reason,
                }
                for decision in self.decisions
            ],
            "changes": [
                {
                    "id": effect.memory_id,
                    "text": effect.text,
                    "what": effect.what,
                    "before": effect.before,
                    "after": effect.after,
                }
                for effect in self.effects
            ],
        }


def _decision_line(decision: TakenBack) -> str:
    reason = f" ({decision.reason})" if decision.reason else ""
    return f"entry {decision.entry}, {decision.action} of {decision.memory_id}{reason}"


# Text matching, for erasure.

_ESCAPED = re.compile(r"\\u[0-9a-fA-F]{4}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\[nrtbf\"/\\]")
_PLAIN = {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": " ", '"': '"', "/": "/", "\\": "\\"}
#: Levels of JSON inside JSON, e.g. a tool's output that is itself a document.
_MAX_NESTING = 2
_NO_LETTER_BEFORE, _NO_LETTER_AFTER = r"(?<![^\W_])", r"(?![^\W_])"


def normalised(text: str) -> str:
    """Return the canonical form of a text: NFC, case-folded, white space collapsed."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def unescaped(text: str) -> str:
    """Return a JSON text with its escapes resolved."""
    return _ESCAPED.sub(_decoded, text)


@lru_cache(maxsize=64)
def matcher(words: tuple[str, ...]) -> Callable[[str], bool]:
    """Return a predicate: does a text contain one of these, as whole words? Empty entries never match.

    Case, composed and decomposed accents, and white space do not matter. A text inside another as JSON (a payload, a
    tool's output) is unescaped first. Only whole words match: `cat` does not match `concatenate`, but matches
    `cat_food`.
    """
    phrases = tuple(dict.fromkeys(phrase for text in words if (phrase := normalised(text))))
    patterns = [re.compile(_whole_words(phrase)) for phrase in phrases]

    def contains(text: str) -> bool:
        forms = [normalised(text)]
        for _ in range(_MAX_NESTING):
            if "\\" not in text:
                break
            text = unescaped(text)
            forms.append(normalised(text))
        return any(
            phrase in form and pattern.search(form)
            for form in forms
            for phrase, pattern in zip(phrases, patterns, strict=True)
        )

    return contains


def contains_any(text: str, words: Sequence[str]) -> bool:
    """Return True if a text contains one of these, as whole words."""
    return matcher(tuple(words))(text)


def longest_ascii_run(text: str) -> str:
    """Return the longest run of unaccented letters and digits in a text, which every spelling of it shares."""
    return max(re.findall(r"[a-z0-9]+", normalised(text)), key=len, default="")


def _whole_words(phrase: str) -> str:
    before = _NO_LETTER_BEFORE if phrase[0].isalnum() else ""
    return before + re.escape(phrase) + (_NO_LETTER_AFTER if phrase[-1].isalnum() else "")


def _decoded(found: re.Match[str]) -> str:
    escape = found[0]
    if escape[1] != "u":
        return _PLAIN[escape[1]]
    units = b"".join(int(code, 16).to_bytes(2, "little") for code in escape.split("\\u")[1:])
    return units.decode("utf-16-le", "replace")


# Paths of memory files.

ROOT: Final = "/memories"
MAX_PATH_CHARS: Final = 500
MAX_NAME_BYTES: Final = 200
MAX_DEPTH: Final = 10

#: Device names on Windows, with any extension.
_DEVICES: Final = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)})
#: Escapes that a careless reader would decode.
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}|%u[0-9A-Fa-f]{4}|&#")
_FORBIDDEN: Final = frozenset('\\:*?"<>|')
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
#: Characters that look like a separator or a dot, in any normal form.
_LOOK_ALIKE: Final = frozenset("∕⁄／⧸╱⟋＼⧵﹨∖․‥…。．｡﹒")


def checked_path(path: str) -> str:
    """Return the path without a trailing slash.

    The path names a file that a model keeps under `/memories`. The files are database rows, so no path reaches a disk.
    The names are still restricted to those that are safe on any disk, because notes are exported.

    Raises:
        BadInput: it is not below `/memories`, is too long or too deep, or one of its names is unsafe.
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise BadInput(f"Path must start with {ROOT}, got: {_printable(path)}", remedy="")
    if len(path) > MAX_PATH_CHARS:
        raise BadInput(f"The path has {len(path)} characters; it may have {MAX_PATH_CHARS}.", remedy="")
    plain = path.removesuffix("/")
    names = plain.split("/")[2:]
    if ".." in names:
        raise BadInput(f"Path {_printable(path)} would escape {ROOT} directory", remedy="")
    if len(names) > MAX_DEPTH:
        raise BadInput(f"The path has {len(names)} levels; it may have {MAX_DEPTH}.", remedy="")
    if not all(map(_is_safe_name, names)):
        raise BadInput(f"Path {_printable(path)} contains an unsafe name", remedy="")
    return plain


def is_within(path: str, directory: str) -> bool:
    """Return whether a file is in a directory, at any depth."""
    return path.startswith(f"{directory}/")


def _is_safe_name(name: str) -> bool:
    """Return whether a name is a single safe file name on any file system."""
    if not name or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES or name != name.strip() or name.endswith("."):
        return False
    if name.startswith(("~", "..")) or _FORBIDDEN & set(name) or _LOOK_ALIKE & set(name) or _ENCODED.search(name):
        return False
    if any(unicodedata.category(char) in _UNPRINTABLE for char in name):
        return False
    folded = unicodedata.normalize("NFKC", name)
    if _FORBIDDEN & set(folded) or "/" in folded or ".." in folded.split("/") or not folded.strip(". "):
        return False
    return folded.partition(".")[0].strip().casefold() not in _DEVICES


def _printable(path: str) -> str:
    return "".join(char if unicodedata.category(char) not in _UNPRINTABLE else "�" for char in path[:MAX_NAME_BYTES])
