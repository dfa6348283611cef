"""Heuristics: extraction of statements from a prompt by patterns, without a model.

Only the user's own words count (RULE-3); replies, tool output and summaries never become memories here. Each sentence
is read for its mood and its kind. Neighbouring sentences that complete each other become one statement (a rule and its
reason, a move and the new command, a decision and "forget the old one"), because a memory has to stand alone.

Pure: no database, no file.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.core import lazy_re as re
from filrouge.extraction import kinds
from filrouge.extraction.kinds import claim_statements
from filrouge.extraction.own_words import is_own_prompt, own_words
from filrouge.extraction.profile import subject
from filrouge.extraction.reading import (
    JOKE,
    QUESTION,
    Clause,
    ClauseKind,
    find_correction,
    is_bare,
    is_past,
    is_request,
    is_status,
    old_values,
    parse_retraction,
    read_clause,
    silent_mood,
)
from filrouge.extraction.sentences import Sentence, blank_masks, split, without_masked
from filrouge.extraction.vocabulary import content
from filrouge.memories.models import Span, Statement

#: Maximum statements of one prompt; a prompt with more is a pasted document.
MAX_STATEMENTS: Final = 25
_MAX_TEXT_CHARS: Final = 600

_FIRST_PERSON: Final = re.compile(r"(?:[,;](?:\s+(?:and|et|y))?|\s(?:and|et|y))\s+(?=(?:i|i'm|i'd|je|j'|my|mon|me)\b)")
_CLAUSE_BREAK: Final = re.compile(r"[,;]\s+(?:and |but |et |mais |car |since |because |as )?|\s-\s+|:\s+")
_SUBJECT_FIRST: Final = re.compile(
    r"(?:the|our|we|on|le|la|les|l'|nos|notre|all|every|tous|toutes|prod|production|staging|never|always|jamais|toujours|el|los|las)\b"
)
#: Openings of a sentence that gives the reason or the consequence of the one before.
_REASON: Final = re.compile(
    r"(?:because|otherwise|since|so that|that's (?:why|because)|it|its|this|that|they|these|those"
    r"|the reason|reason|sinon|car|parce que|ca|cela|c'est|il|elle|ils|elles|comme ca"
    r"|la raison|raison|why ?:|only|the (?:only )?exception|exception|sauf|except|both|porque|si no)\b"
)
_ORDER: Final = re.compile(
    r"(?:please |you |we )?(?:always|never|don't|do not|must|use|no |toujours|jamais|ne |n'|il (?:ne )?faut|utilise"
    r"|siempre|nunca)"
)
_POINTS_BACK: Final = re.compile(r"\b(?:it|them|ones?|there|both|celui-ci|celle-ci|ca|y|en|that|this)\b")
_CONSEQUENCE: Final = re.compile(
    r"\b(?:breaks?|fails?|rejects?|crash(?:es)?|blocks?|casse(?:nt)?|plante(?:nt)?|echoue(?:nt)?|refuse(?:nt)?|bloque(?:nt)?|overwrites?|ecrase(?:nt)?)\b"
)


class _SentenceReading(Struct, frozen=True):
    """A sentence with the statement that it makes by itself.

    Attributes:
        clause: the part of the sentence that states something.
        kind: the kind of statement; None if the sentence states nothing by itself.
        is_silent: whether its mood keeps it from stating or completing anything.
    """

    sentence: Sentence
    clause: Clause
    kind: ClauseKind | None
    is_silent: bool


#: Texts of at most this length are read once, as long as they are among the last ones.
_MAX_CACHED_CHARS: Final = 2000


def extract(turn: Turn, *, with_claims: bool = True) -> tuple[Statement, ...]:
    """Return the statements of a turn, in the order of the text; without `with_claims`, no claims made in passing."""
    return statements_of(turn.text, with_claims=with_claims) if is_own_prompt(turn) else ()


def statements_of(text: str, *, with_claims: bool = True) -> tuple[Statement, ...]:
    """Return the statements of a text in its author's own words; quoted and pasted text states nothing."""
    return (_cached_statements if len(text) <= _MAX_CACHED_CHARS else _statements)(text, with_claims)


def _statements(text: str, with_claims: bool) -> tuple[Statement, ...]:
    readings = [reading for sentence in split(own_words(blank_masks(text))) for reading in _read_sentence(sentence)]
    statements: list[Statement] = []
    index = 0
    while index < len(readings) and len(statements) < MAX_STATEMENTS:
        if _is_only_a_value(readings[index]):
            index += 1
            continue
        last = _find_group_end(readings, index)
        group = readings[index : last + 1]
        index = last + 1
        taken_back = index < len(readings) and _is_joke_marker(group[-1], readings[index])
        if taken_back:
            continue
        if any(reading.kind for reading in group):
            statements.append(_statement(text, group))
        elif with_claims and not JOKE.search(group[0].sentence.plain):
            before = _sentence_before(readings, index - len(group))
            statements.extend(claim_statements(group[0].sentence, before))
    return without_masked(statements[:MAX_STATEMENTS], text)


# What arrives late is compared with what was said later, as the turn of each said it.
_cached_statements = lru_cache(maxsize=1024)(_statements)


def _sentence_before(readings: list[_SentenceReading], index: int) -> str:
    """Return the sentence before this one in its paragraph, or an empty string."""
    same = index > 0 and readings[index - 1].sentence.block == readings[index].sentence.block
    return readings[index - 1].sentence.text if same else ""


def _read_sentence(sentence: Sentence) -> list[_SentenceReading]:
    """Return the sentence as one reading, or as two if its first half is a fact about the user."""
    heading = sentence.heading[1] + " " if sentence.heading else ""
    for cut in itertools.islice(_FIRST_PERSON.finditer(sentence.plain), 4):
        head = read_clause(sentence.text[: cut.start()], sentence.start, heading)
        kind = kinds.find_preferences(head)
        if kind and kind.key and silent_mood(head.plain) is None and not QUESTION.search(sentence.plain):
            rest, plain = sentence.start + cut.end(), sentence.plain[cut.end() :]
            tail = replace(sentence, start=rest, text=sentence.text[cut.end() :], plain=plain)
            return [_SentenceReading(sentence, head, kind, False), *_read_sentence(tail)]
    clause = read_clause(sentence.text, sentence.start, heading)
    kind, silent = _classify(clause)
    if kind is None and (is_request(clause.plain) and not QUESTION.search(clause.plain)):
        inner = _find_inner_statement(clause)
        if inner:
            return [_SentenceReading(sentence, *inner, False)]
    if kind is None and sentence.heading and not silent and not silent_mood(sentence.heading[1]):
        joined = read_clause(f"{sentence.heading[1]} {sentence.text}", sentence.heading[0])
        kind = kinds.find_facts(joined)
    return [_SentenceReading(sentence, clause, kind, silent)]


def _classify(clause: Clause) -> tuple[ClauseKind | None, bool]:
    """Return the statement of a clause, and whether its mood keeps it from stating or completing anything."""
    if silent_mood(clause.plain) is not None:
        return None, True
    if is_bare(clause):
        old = old_values(clause.plain)
        replaces = any(value.text not in old for value in clause.values)
        return ClauseKind(kind="fact", confidence=0.85, corrects=old, is_correction=replaces), False
    kind = (
        kinds.find_preferences(clause)
        or _find_retraction(clause)
        or _find_bug(clause)
        or _find_rule(clause)
        or kinds.find_bugs(clause)
    )
    if kind:
        return kind, False
    if is_request(clause.plain):
        return None, True
    change, chosen = find_correction(clause), kinds.find_decisions(clause)
    past = is_past(clause.plain)
    if chosen and (change or not past):
        return _mark_correction(chosen, change), False
    if is_status(clause.plain):
        return None, True
    if change or past:
        return change, change is None
    return kinds.find_facts(clause), False


def _find_retraction(clause: Clause) -> ClauseKind | None:
    return find_correction(clause) if parse_retraction(clause.plain) is not None else None


def _find_bug(clause: Clause) -> ClauseKind | None:
    """Return a cause or a fix that is reported, not ordered: "listeners that were never removed" is not a rule."""
    return None if _ORDER.match(clause.plain) or kinds.is_labelled(clause) else kinds.find_bugs(clause)


def _find_rule(clause: Clause) -> ClauseKind | None:
    rule = kinds.find_rules(clause)
    if is_past(clause.plain) or (rule and rule.confidence <= kinds.WEAK and kinds.find_decisions(clause)):
        return None
    return _mark_correction(rule, find_correction(clause)) if rule else None


def _mark_correction(found: ClauseKind, change: ClauseKind | None) -> ClauseKind:
    """Return the statement, marked as a correction if `change` is one."""
    return replace(found, is_correction=True, corrects=change.corrects) if change else found


def _find_inner_statement(clause: Clause) -> tuple[Clause, ClauseKind] | None:
    """Return the statement after a request: "Update the compose file, the broker now listens on 5673"."""
    for match in _CLAUSE_BREAK.finditer(clause.plain):
        plain = clause.plain[match.end() :]
        if not _SUBJECT_FIRST.match(plain) or is_request(plain):
            continue
        inner = read_clause(clause.text[match.end() :], clause.start + match.end(), clause.opening)
        kind, _ = _classify(inner)
        if kind:
            return inner, kind
    return None


def _find_group_end(readings: list[_SentenceReading], start: int) -> int:
    """Return the index of the last reading that completes the one at `start`."""
    last = start
    while last + 1 < len(readings) and last - start < 3 and _completes(readings[start : last + 1], readings[last + 1]):
        last += 1
    return last


def _completes(group: list[_SentenceReading], after: _SentenceReading) -> bool:
    """Return whether `after` belongs to the statement of `group`."""
    first, before = group[0], group[-1]
    if after.is_silent or after.sentence.block != first.sentence.block or before.sentence is after.sentence:
        return False
    if after.sentence.end - first.clause.start > _MAX_TEXT_CHARS:
        return False
    stated = next((reading.kind for reading in group if reading.kind), None)
    if stated is None:
        return False
    if _is_only_a_value(after):
        return bool(before.clause.values) and stated.key is None and not stated.is_retraction
    if after.kind is None:
        return stated.scope == "project" and _explains(group, after)
    if stated.is_retraction or after.kind.is_retraction:
        return (
            stated.is_correction
            or stated.kind == "decision"
            or after.kind.kind == "decision"
            or after.kind.is_correction
        )
    if kinds.find_bugs(first.clause) and (
        kinds.find_bugs(after.clause) or re.match(r"(?:we|on|nous) (?:now|maintenant)?", after.clause.plain)
    ):
        return not kinds.find_rules(after.clause)
    return after.kind.kind not in {"rule", "preference"} and kinds.is_anaphoric(after.clause.plain)


def _is_only_a_value(reading: _SentenceReading) -> bool:
    """Return whether a reading such as "En fait non, 3001." is only a value; the sentence before names its subject."""
    return reading.sentence.heading is None and is_bare(reading.clause)


def _explains(group: list[_SentenceReading], after: _SentenceReading) -> bool:
    """Return whether a plain sentence gives the reason or consequence of the statement before it."""
    plain = after.clause.plain
    if (
        len(plain.split()) < 3
        or len(plain) > 200
        or re.match(r"(?:i|i'm|i've|i'll|je|j'ai|j')\b", plain)
        or is_request(plain)
    ):
        return False
    if _REASON.match(plain) or (_POINTS_BACK.search(plain) and len(plain.split()) <= 12):
        return True
    shared = {word for reading in group for word in content(reading.clause.text)} & set(content(after.clause.text))
    return bool(shared) or _CONSEQUENCE.search(plain) is not None


def _is_joke_marker(before: _SentenceReading, after: _SentenceReading) -> bool:
    """Return whether the next sentence is a joke marker such as "just kidding"."""
    return (
        after.sentence.block == before.sentence.block
        and len(after.clause.plain.split()) <= 5
        and (JOKE.search(after.clause.plain) is not None)
    )


def _statement(text: str, group: list[_SentenceReading]) -> Statement:
    first, last = group[0], group[-1]
    found = [reading.kind for reading in group if reading.kind]
    lead = next((kind for kind in found if not kind.is_retraction), found[0])
    start = first.clause.start
    clause_end = start + len(first.clause.text)
    end = clause_end if len(group) == 1 else last.sentence.end
    words = " ".join(text[start:end].split())
    if first.sentence.heading and kinds.find_facts(first.clause) == lead and not _is_complete(first):
        start, words = first.sentence.heading[0], _text_with_heading(text, first)
    is_retraction = lead.is_retraction
    old_words = dict.fromkeys(word for reading in group if reading.kind for word in reading.kind.corrects)
    return Statement(
        kind=lead.kind,
        text=words,
        span=Span(start=start, end=end),
        scope=lead.scope,
        subject=(lead.key or "").replace("_", " ")
        or (" ".join(content(lead.corrects[0])[:4]) if is_retraction else subject(words)),
        key=lead.key,
        value=lead.value,
        corrects=tuple(old_words),
        is_correction=any(reading.kind.is_correction for reading in group if reading.kind),
        confidence=lead.confidence,
        sentiment=lead.sentiment,
        timeframe=lead.timeframe,
    )


def _is_complete(reading: _SentenceReading) -> bool:
    return len(reading.clause.text.split()) > 4


def _text_with_heading(text: str, reading: _SentenceReading) -> str:
    assert reading.sentence.heading is not None
    start, heading = reading.sentence.heading
    return " ".join(f"{text[start : start + len(heading)].strip()} {reading.sentence.text}".split())


# Whether a prompt states anything. A later reader learns nothing from a prompt that only asks, greets or gives work:
# the reply answers "Which port is it?", and the result shows what came of "add a search bar". Alone, either would be
# mistaken for a known fact.
