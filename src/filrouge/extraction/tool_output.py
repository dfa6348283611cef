"""Tool output: how informative it is, and a short extract of it (CAP-6, CAP-7).

A task's answer comes wrapped in JSON, and most command output is progress and lists. `extract_answer` extracts the answer.
`judge_by_rules` scores it from 0 to 1 and cuts it to an extract that replaces it in fact extraction. The score starts from
the specification's rule: text over 100 characters that is not bare JSON is worth reading. Causes, conclusions,
failures and prose raise it; progress bars, listings and repetitions lower it.

Pure: no database, no file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, cast

from msgspec import Struct

from filrouge.core import lazy_re as re
from filrouge.core.protocols import Prompts
from filrouge.extraction.model_answers import RequestGenerator, ask_model, wrap_in_tags
from filrouge.extraction.models import InformativeShape, read_answer
from filrouge.extraction.sentences import MASK
from filrouge.extraction.vocabulary import content, fold

# Scoring by rules.

# ruff: noqa: E501 (a pattern is read best on one line)


#: Maximum characters of output that are read, and of the extract that is kept.
MAX_INPUT_CHARS: Final = 2000
MAX_SUMMARY_CHARS: Final = 500
KEEP_THRESHOLD: Final = 0.5
#: Shorter text in a task's answer counts as no answer.
MIN_ANSWER_CHARS: Final = 50
#: Longer output is not decoded as JSON.
_MAX_JSON_CHARS: Final = 2_000_000
_MIN_CHARS: Final = 100
_MAX_DEPTH: Final = 20
#: The fields of a task's answer, in order of preference, and fields that never hold it.
_ANSWERS: Final = ("content", "output", "result", "text", "message")
_NO_ANSWERS: Final = frozenset({"retrieval_status", "status", "type"})
_CAUSE: Final = re.compile(
    r"\b(?:because|caused by|due to|root cause|therefore|conclusion|in summary|summary|found|discovered|turns out|fixed|the fix|solution|recommend\w*|decided|should|must|instead"
    r"|parce que|cause|a cause|donc|conclusion|en resume|resume|trouve|decouvert|corrige|correctif|recommand\w*|decide|il faut|au lieu|porque|causado|encontrado|solucion)\b"
)
_FAILURE: Final = re.compile(
    r"\b(?:error|errors|exception|failed|failure|fatal|traceback|panic|denied|refused|not found|deprecated|warning|timed? ?out|erreur|echec|refuse|introuvable|fallo)\b|\b\w+(?:error|exception)\b"
)
_PROGRESS: Final = re.compile(
    r"\d{1,3} ?%|[#=█▏▎▍▌▋▊▉>-]{6,}|\b(?:downloading|fetching|installing|compiling|building|progress|eta|unpacking|resolving|telechargement)\b|\b\d+/\d+\b|^\s*(?:npm|pip|cargo) (?:warn|info)\b"
)
_LISTING: Final = re.compile(
    r"^\s*(?:[-dl][rwx-]{9}|total \d+|[\w.@-]+(?:/[\w.@-]*)*|[MADRCU?]{1,2}\s+\S+|[\d.,]+[kKMG]?B?)\s*$|^\s*[-dl][rwx-]{9}\s"
)
_PROSE_SENTENCE: Final = re.compile(r"(?:^|[.!?:]\s+|\n\s*)[A-ZÀ-Ý][^.!?\n]{20,}[.!?](?=\s|$)")


class Judgement(Struct, frozen=True, kw_only=True):
    """The judgement of a tool's output.

    Attributes:
        score: how informative it is, in [0, 1].
        summary: an extract of at most `MAX_SUMMARY_CHARS` characters; empty below the threshold.
        made_by: `heuristic`, or the model that judged.
    """

    score: float
    summary: str
    made_by: str = "heuristic"

    @property
    def is_kept(self) -> bool:
        """Whether the output is worth reading."""
        return self.score >= KEEP_THRESHOLD


def extract_answer(output: str) -> str:
    """Return the answer inside a task's JSON output, or the text itself; empty if it is too short."""
    text = output.strip()
    if len(text) > _MAX_JSON_CHARS:
        return text[:_MAX_JSON_CHARS]
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text if len(text) > MIN_ANSWER_CHARS else ""
    return answer_of(value)


def answer_of(value: object) -> str:
    """Return the answer in a decoded task result, or an empty string."""
    if isinstance(value, str):
        return value.strip() if len(value.strip()) > MIN_ANSWER_CHARS else ""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for name in _ANSWERS:
            text = _text_of(fields.get(name))
            if len(text) > MIN_ANSWER_CHARS:
                return text
    longest = max(_strings(cast("object", value)), key=len, default="").strip()
    return longest if len(longest) > MIN_ANSWER_CHARS else ""


def judge_by_rules(output: str) -> Judgement:
    """Return the judgement of an output by rules."""
    text = extract_answer(output[:MAX_INPUT_CHARS] if not _is_json(output) else output)[:MAX_INPUT_CHARS]
    score = informativeness(text)
    return Judgement(score=score, summary=extract_lines(text) if score >= KEEP_THRESHOLD else "")


def informativeness(text: str) -> float:
    """Return how informative a text is, from 0 to 1.

    The score is 0 for up to 100 characters and for bare JSON, otherwise 0.5, plus 0.15 each for a stated cause or
    conclusion, for a failure and for sentences. It falls by up to 0.5 for the share of lines that are progress or
    listing, and by up to 0.4 for repeated words.
    """
    plain = fold(text[:MAX_INPUT_CHARS].strip())
    if len(plain) <= _MIN_CHARS or _is_json(text[:MAX_INPUT_CHARS]):
        return 0.0
    lines = [line for line in plain.splitlines() if line.strip()]
    empty = sum(1 for line in lines if _PROGRESS.search(line) or _LISTING.match(line)) / len(lines)
    words = content(plain)
    fresh = len(set(words)) / len(words) if words else 0.0
    score = 0.5
    score += 0.15 * (_CAUSE.search(plain) is not None)
    score += 0.15 * (_FAILURE.search(plain) is not None)
    score += 0.15 * (_PROSE_SENTENCE.search(text[:MAX_INPUT_CHARS]) is not None)
    score -= 0.5 * empty + 0.4 * max(0.0, 0.5 - fresh) * 2
    return round(min(1.0, max(0.0, score)), 3)


def extract_lines(text: str) -> str:
    """Return the most informative lines, in order, in at most `MAX_SUMMARY_CHARS` characters, without redaction masks."""
    lines = [" ".join(MASK.sub(" ", line).split()) for line in text[:MAX_INPUT_CHARS].splitlines()]
    lines = list(dict.fromkeys(line for line in lines if line))
    ranked = sorted(range(len(lines)), key=lambda index: (-_line_score(lines[index]), index))
    chosen, remaining = list[int](), MAX_SUMMARY_CHARS
    for index in ranked:
        if len(lines[index]) + 1 <= remaining:
            chosen.append(index)
            remaining -= len(lines[index]) + 1
        elif not chosen:
            return lines[index][: MAX_SUMMARY_CHARS - 1].rpartition(" ")[0] + "…"
    return "\n".join(lines[index] for index in sorted(chosen))


def _line_score(line: str) -> float:
    plain = fold(line)
    worth = min(len(set(content(plain))), 20) / 20
    worth += 1.0 * (_CAUSE.search(plain) is not None) + 1.0 * (_FAILURE.search(plain) is not None)
    return worth - 1.0 * (_PROGRESS.search(plain) is not None or _LISTING.match(plain) is not None)


def _is_json(text: str) -> bool:
    """Return whether the text is a JSON object or list, or the beginning of one."""
    plain = text.strip()
    if plain[:1] not in ("{", "["):
        return False
    try:
        json.loads(plain)
    except (ValueError, RecursionError):
        return re.match(r'\s*(?:\{\s*"[^"\n]{1,80}"\s*:|\[\s*[\[{"\d])', plain) is not None
    return True


def _text_of(value: object) -> str:
    """Return a text, or the texts of content blocks joined by line breaks."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        blocks = cast("list[Any]", value)
        texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
        return "\n".join(text.strip() for text in texts if isinstance(text, str)).strip()
    return answer_of(cast("object", value)) if isinstance(value, dict) else ""


def _strings(value: object, depth: int = 0) -> Iterator[str]:
    """Yield all texts in a decoded JSON value, except in fields that never hold the answer."""
    if isinstance(value, str):
        yield value
    elif depth < _MAX_DEPTH and isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(item, depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            if name not in _NO_ANSWERS:
                yield from _strings(item, depth + 1)


# Judging by a model (CAP-7).

_TOKENS = 300


def judge_by_model(text: str, prompts: Prompts, language: str) -> RequestGenerator[Judgement]:
    """Return a model's judgement of the output."""
    answer, by = yield from ask_model(
        "inform", wrap_in_tags("output", extract_answer(text)[:MAX_INPUT_CHARS]), InformativeShape,
        partial(read_answer, InformativeShape), prompts=prompts, language=language, most_tokens=_TOKENS,
    )  # fmt: skip
    extract = answer.summary[:MAX_SUMMARY_CHARS] if answer.score >= KEEP_THRESHOLD else ""
    return Judgement(score=answer.score, summary=extract, made_by=f"{by.provider}:{by.model}")
