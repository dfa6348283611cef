"""Memories and what happens to them: statements, decisions, reviews, undo, filters, and when two texts say the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal

from filrouge.capture.models import Role
from filrouge.core.clock import to_text
from filrouge.core.errors import BadInput
from filrouge.core.scope import Scope, ScopeName

# Filters: which memories and turns an explicit question is about.
#
# A filter narrows exactly: what does not pass it is neither found nor counted, so the answer is that of a store which
# holds nothing else. `as_of` asks what was believed at a moment: a memory counts while its validity lasts, whatever
# became of it since, and a turn once it was said.

#: The kind under which turns are asked for, beside the kinds of memories.
TURN = "turn"


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """What a memory or a turn must be; whatever is not said does not matter.

    Attributes:
        agent: who learned it: an agent's own id, or for one without an id its channel.
        channel: the host it was said through.
        kinds: kinds of memories, or `turn`; none = all.
        since, until: when it was said, from `since` on and before `until`.
        as_of: a moment; memories that were believed then.
        trust: at least this much, 0 to 3.
        role: who spoke; memories have no role and pass no such filter.
        branch: the git branch that was checked out then, in full.
        thread: the id of a thread; turns that are in it, and memories that rest on one of these.
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

    @property
    def narrow(self) -> bool:
        """True if anything is said."""
        return self != EVERYTHING


#: Nothing is narrowed.
EVERYTHING = Filters()


# A memory: one atomic statement that stands on its own, with the words that prove it.
#
# `Statement` is what the extractor proposes, before anyone decided anything; `Memory` is what is stored. A memory is
# never overwritten: an update closes its validity and a new memory links back to it. A standing instruction is a
# memory of kind `rule`.

Kind = Literal["fact", "decision", "preference", "intent", "constraint", "episode", "concept", "note", "rule"]
#: Kinds that sum sessions up. They repeat what other memories and turns say, so nothing automatic reads them.
LEAST_TO_INJECT = 0.6
"""Confidence from which on a memory is put in front of an agent unasked (EXT-7)."""
LEAST_TO_KEEP = 0.3
"""Confidence below which a statement is dropped; between the two it is kept and found, and never injected."""
SUMS: tuple[Kind, ...] = ("episode", "concept")
State = Literal["live", "superseded", "binned", "quarantined"]
Sentiment = Literal["positive", "neutral", "negative"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Characters `start` to `end` (exclusive) of a turn's text."""

    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """The words of one turn that prove a memory."""

    turn_id: str
    span: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A candidate memory: what the extractor read in one turn.

    Attributes:
        subject: what it is about, in a few normalised words (`production port`), so that a newer value
            of the same subject can be recognised without a model.
        key, value: set for a core fact (`user_name`, `Ana Beltran`).
        corrects: words for the old value that this statement says no longer holds (`8443`, `Typst`).
        is_correction: the sentence itself says that something changed.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """One stored statement with its whole life.

    Attributes:
        disabled: a rule that the user switched off: it is kept, and in front of no model.
        uses: how often it went in front of a prompt, because it bore on it.
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


# What becomes of a statement: Add, Update, Delete, Noop or Conflict (AUDN).
#
# A closed union, consumed with `match`. Ids name memories that were shown to the decider; whoever applies a decision
# checks them again, because a decider may be a model and models invent ids.


@dataclass(frozen=True, kw_only=True, slots=True)
class Add:
    """Nothing like it is known."""

    statement: Statement
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """It replaces `old_ids`: the first is the one it continues, the others end with it."""

    statement: Statement
    old_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Delete:
    """It only says that `old_ids` no longer hold."""

    statement: Statement
    old_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Noop:
    """It is already known as `existing_id`, which gains a mention."""

    statement: Statement
    existing_id: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """It contradicts `existing_id` and nobody said which holds: a person decides."""

    statement: Statement
    existing_id: str
    reason: str


Decision = Add | Update | Delete | Noop | Conflict


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """A stored memory near a statement.

    Attributes:
        similarity: calibrated, 0 = unrelated, 1 = same text (EMBEDDING: s = max(0, (cos - m0)/(1 - m0))).
    """

    memory: Memory
    similarity: float


# A review: a statement that waits for a person, because it contradicts what is pinned or undecided, or lacks proof.

ReviewKind = Literal["conflict", "quarantine"]
Outcome = Literal["open", "old", "new", "both", "accept", "dismiss", "undone"]
"""`open` waits; `undone` says that the decision which opened it was taken back; the others are how it was settled."""
Settlement = Literal["old", "new", "both", "accept", "dismiss"]
"""Of a conflict: keep the old, take the new in its place, keep both. Of a quarantine: accept, dismiss."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """One entry of the queue. Its id is that of the statement's memory, which is not served until it is settled.

    Attributes:
        against: the memory that the statement speaks against; None for a quarantine, or where it was erased.
    """

    memory: Memory
    kind: ReviewKind
    against: Memory | None
    reason: str
    outcome: Outcome
    at: datetime
    settled_at: datetime | None

    @property
    def id(self) -> str:
        """The id of the statement's memory."""
        return self.memory.id


# What an undo would take back and change, as a value that prints itself before anything is done.


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenBack:
    """One decision that is taken back: its number in the journal, and what it was."""

    entry: int
    at: datetime
    actor: str
    action: str
    memory_id: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """What becomes of one memory.

    Attributes:
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
        """In two words."""
        if self.before != self.after:
            words = {"live": "live again", "binned": "to the bin", "superseded": "superseded again"}
            return words.get(self.after, "to be reviewed")
        if self.pinned[0] != self.pinned[1]:
            return "pinned" if self.pinned[1] else "not pinned"
        if self.disabled[0] != self.disabled[1]:
            return "switched off" if self.disabled[1] else "switched on"
        return "once less said"


@dataclass(frozen=True, kw_only=True, slots=True)
class UndoPlan:
    """An undo with all that it takes along.

    Attributes:
        decisions: the one that was asked for, last; before it the later ones that stand on it, newest first.
        effects: what becomes of each memory, in the order of their ids.
    """

    decisions: tuple[TakenBack, ...]
    effects: tuple[Effect, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The plan, a line at a time."""
        *later, asked = self.decisions
        yield f"Takes back {_line(asked)}"
        if later:
            yield "and what was decided later on the same memories:"
            yield from (f"  {_line(one)}" for one in later)
        yield "Then:"
        yield from (f"  {one.what}: {one.memory_id} {one.text}" for one in self.effects)

    def to_json(self) -> dict[str, Any]:
        """The plan for programs."""
        return {
            "entry": self.decisions[-1].entry,
            "decisions": [
                {
                    "entry": one.entry,
                    "at": to_text(one.at),
                    "actor": one.actor,
                    "action": one.action,
                    "memory_id": one.memory_id,
                    "reason": one.reason,
                }
                for one in self.decisions
            ],
            "changes": [
                {"id": one.memory_id, "text": one.text, "what": one.what, "before": one.before, "after": one.after}
                for one in self.effects
            ],
        }


def _line(one: TakenBack) -> str:
    reason = f" ({one.reason})" if one.reason else ""
    return f"entry {one.entry}, {one.action} of {one.memory_id}{reason}"


# Sameness: when a text holds the words that somebody wants gone, however they are written there.
#
# Letters of any case are the same, composed and decomposed accents, any white space; a text that stands inside
# another as JSON (a payload, a tool's output) is read as what it says. Words are whole words: who forgets `cat` keeps
# `concatenate`, but `cat_food` says it.

_ESCAPED = re.compile(r"\\u[0-9a-fA-F]{4}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\[nrtbf\"/\\]")
_PLAIN = {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": " ", '"': '"', "/": "/", "\\": "\\"}
#: JSON inside of JSON: a tool's output that is itself a document.
_DEPTH = 2
_NO_LETTER_BEFORE, _NO_LETTER_BEHIND = r"(?<![^\W_])", r"(?![^\W_])"


def folded(text: str) -> str:
    """The one form of all texts that count as the same."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def unescaped(text: str) -> str:
    """A JSON text with what its escapes stand for."""
    return _ESCAPED.sub(_said, text)


@lru_cache(maxsize=64)
def sought(words: tuple[str, ...]) -> Callable[[str], bool]:
    """Says of a text whether it holds one of these, each as whole words; an empty one is nowhere."""
    plain = tuple(dict.fromkeys(one for text in words if (one := folded(text))))
    whole = [re.compile(_edged(one)) for one in plain]

    def holds(text: str) -> bool:
        forms = [folded(text)]
        for _ in range(_DEPTH):
            if "\\" not in text:
                break
            text = unescaped(text)
            forms.append(folded(text))
        return any(
            one in form and edged.search(form) for form in forms for one, edged in zip(plain, whole, strict=True)
        )

    return holds


def holds(text: str, words: Sequence[str]) -> bool:
    """True if a text holds one of these."""
    return sought(tuple(words))(text)


def telling_run(text: str) -> str:
    """The longest run of unaccented letters and digits in a text: what every writing of it has in common."""
    return max(re.findall(r"[a-z0-9]+", folded(text)), key=len, default="")


def _edged(one: str) -> str:
    before = _NO_LETTER_BEFORE if one[0].isalnum() else ""
    return before + re.escape(one) + (_NO_LETTER_BEHIND if one[-1].isalnum() else "")


def _said(found: re.Match[str]) -> str:
    written = found[0]
    if written[1] != "u":
        return _PLAIN[written[1]]
    units = b"".join(int(code, 16).to_bytes(2, "little") for code in written.split("\\u")[1:])
    return units.decode("utf-16-le", "replace")


# Paths of memory files: what a model may call a file under `/memories`, and nothing that could mean another place.
#
# The files are rows, so no path reaches a disk. They are held to names that stay where they are on any disk all the
# same: notes are exported, and a name that climbs out of its folder somewhere else is refused here.

ROOT: Final = "/memories"
LONGEST_PATH: Final = 500
LONGEST_NAME: Final = 200
DEEPEST: Final = 10

#: Names that are devices on Windows, whatever follows their dot.
_DEVICES: Final = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)})
#: What a careless reader would turn into another sign.
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}|%u[0-9A-Fa-f]{4}|&#")
_FORBIDDEN: Final = frozenset('\\:*?"<>|')
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
#: Signs that look like a separator or a dot, in whatever normal form.
_LOOK_ALIKE: Final = frozenset("∕⁄／⧸╱⟋＼⧵﹨∖․‥…。．｡﹒")


def checked_path(path: str) -> str:
    """The same path without a slash at its end.

    Raises:
        BadInput: it is not below `/memories`, or one of its names could mean another place.
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise BadInput(f"Path must start with {ROOT}, got: {_shown(path)}", remedy="")
    if len(path) > LONGEST_PATH:
        raise BadInput(f"The path has {len(path)} characters; it may have {LONGEST_PATH}.", remedy="")
    plain = path.removesuffix("/")
    names = plain.split("/")[2:]
    if len(names) > DEEPEST or not all(map(_stays, names)):
        raise BadInput(f"Path {_shown(path)} would escape {ROOT} directory", remedy="")
    return plain


def is_within(path: str, directory: str) -> bool:
    """Whether a file is in a directory, however deep."""
    return path.startswith(f"{directory}/")


def _stays(name: str) -> bool:
    """Whether a name is one file in its directory, wherever it is written."""
    if not name or len(name.encode("utf-8", "replace")) > LONGEST_NAME or name != name.strip() or name.endswith("."):
        return False
    if name.startswith(("~", "..")) or _FORBIDDEN & set(name) or _LOOK_ALIKE & set(name) or _ENCODED.search(name):
        return False
    if any(unicodedata.category(sign) in _UNSEEN for sign in name):
        return False
    folded = unicodedata.normalize("NFKC", name)
    if _FORBIDDEN & set(folded) or "/" in folded or ".." in folded.split("/") or not folded.strip(". "):
        return False
    return folded.partition(".")[0].strip().casefold() not in _DEVICES


def _shown(path: str) -> str:
    return "".join(sign if unicodedata.category(sign) not in _UNSEEN else "�" for sign in path[:LONGEST_NAME])
