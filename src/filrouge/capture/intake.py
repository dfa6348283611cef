"""Intake: cleaning an event, splitting it into turns, and filtering turns that extraction skips.

Every event is cleaned again in the daemon (complete redaction, injected blocks removed, size limits), because events
also come from programs that do not use the hook. A filtered turn is still stored verbatim and can be found; it only
skips extraction and threads. A short turn is read if it has a value or a telling word, such as "The port is 9443 now".

Pure: no database, no file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs, reportMissingImports]
from msgspec import Struct

from filrouge.capture.events import (
    MARK_TOLERANCE,
    MAX_VALUES,
    Event,
    Pruner,
    TextCutter,
    strip_injected_blocks,
    tool_calls,
)
from filrouge.capture.models import (
    TRUST_AGENT,
    TRUST_PROMPT,
    TRUST_TOOL,
    TRUST_TYPED,
    Role,
    SourceType,
    Turn,
    is_own_tool,
    source_of_tool,
)
from filrouge.capture.redact import (
    HINTS,
    MARK,
    Match,
    apply_until_stable,
    build_substitution,
    map_texts,
    mark,
    names_algorithm,
    redact_assignments,
    redact_prose,
    without_private_material,
)
from filrouge.capture.secret_rules import RULES
from filrouge.core import lazy_re as re
from filrouge.core.clock import from_epoch, new_id
from filrouge.core.lazy_re import lazy_pattern
from filrouge.core.protocols import Redactor
from filrouge.core.scope import LOCAL_USER, Scope
from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.own_words import written_by_host
from filrouge.extraction.reading import values
from filrouge.extraction.tool_output import answer_of, extract_answer
from filrouge.extraction.vocabulary import fold

# ruff: noqa: E501 (a pattern is read best on one line)


MIN_TURN_CHARS: Final = 50
_WORD_CHARACTER: Final = re.compile(r"[^\W_]")
#: Sources checked for small talk; a tool that prints "done" is merely short.
_CONVERSATION: Final = frozenset({"prompt", "reply"})
_MAX_SMALL_TALK_CHARACTERS: Final = 90

_ACKNOWLEDGEMENTS: Final = (
    r"ok(?:ay|ey)?|k|kk|oui|non|si|yes|yep|yeah|yup|no|nope|nah|d'accord|dac|entendu|compris|bien|tres bien|bon|merci(?: beaucoup| bien| encore| a toi)?|thanks?(?: you)?(?: so much| a lot| again| anyway)?"
    r"|thx|ty|gracias|muchas gracias|de nada|vale|claro|perfecto|genial|super|parfait|nickel|top|cool|nice|great|good|perfect|awesome|excellent|done|fine|sure|right|exactly|indeed|voila|exact|exactement"
    r"|continue[sz]?|go on|go ahead|proceed|next|suivant|vas-y|allez|allons-y|lol|haha|mdr|hi|hello|hey|salut|bonjour|bonsoir|coucou|hola|bye|ciao|a plus|a demain|adios|hasta luego|see you|see you later|good (?:morning|night|evening|afternoon|job|work)"
    r"|bonne (?:nuit|journee|soiree)|well done|nice work|bravo|never ?mind|np|no problem|no worries|pas de (?:souci|probleme)|de rien|stop|wait|attends|please|stp|svp|s'il te plait|it works|ca marche|c'est bon|c'est parfait|that's (?:perfect|great|it|all)|works|approved|lgtm|ship it"
    r"|very|much|too|anyway|beaucoup|alors|donc|so|and|et|y|to(?:o|day)?|me|you|toi|all|now|it|is|that|this|for|the|help|work|job|mate|man|really|again|tout|le monde"
)
_SMALL_TALK: Final = re.compile(rf"(?:(?:{_ACKNOWLEDGEMENTS})(?:[\s,.!;:)(-]+|$))+")
_CHAT: Final = re.compile(
    r"\b(?:did you sleep|sleep well|bien dormi|going for (?:a |lunch|dinner)|prendre un cafe|coffee|back in (?:a|an)|brb|bon (?:week-end|appetit|cafe)|have a (?:nice|good)|see you)\b"
)
_TOOL_NOISE: Final = re.compile(
    r'^\s*[\[{].*"(?:filePath|newTodos|oldTodos|continue|tool_use_id|toolUseResult|interrupted|suppressOutput|structuredPatch)"\s*:',
    re.DOTALL,
)
#: Words that make a short turn worth reading: rules, corrections, decisions, names, preferences, facts.
_SIGNIFICANT: Final = re.compile(
    r"\b(?:always|never|must|don't|do not|only|prefer|avoid|rule|remember|forget|from now on|instead|not|no longer|any ?more|actually|correction|moved|switched|renamed|replaced|dropped|migrated|decided|chose|picked|went with|going with|use|uses|settled|agreed|back to"
    r"|my name|call me|i'm|i am|i prefer|i like|i hate|answer|reply|because|caused|fixed|owns|maintains|no \w+ (?:in|without)"
    r"|toujours|jamais|doit|ne|pas de|prefere|evite|regle|rappelle|souviens|oublie|desormais|dorenavant|plutot|au lieu|plus|en fait|finalement|on (?:passe|garde|part|prend|utilise|abandonne|revient|a)|choisi|decide|tranche|utilise|je m'appelle|appelle-moi|je suis|j'aime|je deteste|reponds|tutoie|vouvoie|a cause|corrige"
    r"|siempre|nunca|recuerda|olvida|usa|usamos|prefiero|me llamo|ya no|ahora|decidido)\b"
)


def skip_reason(text: str, source: SourceType) -> str:
    """Return why extraction skips a turn; empty if it reads the turn."""
    if not _WORD_CHARACTER.search(text):
        return "punctuation only" if text.strip() else "empty"
    if written_by_host(text):
        return "written by the host"
    if _TOOL_NOISE.match(text[:4000]):
        return "tool noise"
    plain = " ".join(fold(text[:400]).split())
    if source in _CONVERSATION and len(text) <= _MAX_SMALL_TALK_CHARACTERS and _is_small_talk(plain):
        return "small talk"
    if len(text.strip()) < MIN_TURN_CHARS and not _is_worth_reading(text.strip(), plain):
        return "too short"
    return ""


def _is_small_talk(plain: str) -> bool:
    """Return True if the text contains only acknowledgements and courtesies."""
    words = plain.strip(" .!?:;,-()'\"")
    return _SMALL_TALK.fullmatch(words) is not None or (
        _CHAT.search(plain) is not None and not _SIGNIFICANT.search(plain)
    )


def _is_worth_reading(text: str, plain: str) -> bool:
    """Return True for a short turn with a value, or with words of ruling, choosing, correcting or naming."""
    return _SIGNIFICANT.search(plain) is not None or bool(values(text) or statements_of(text))


# From one event to its turns.

#: A longer word without a space is an encoded image, not text.
_MAX_WORD_CHARACTERS: Final = 2000


class CutCounts(Struct):
    """Counts of what was cut from events because of their size.

    Attributes:
        events: events of which anything was cut.
        characters: characters cut from their texts.
        values: list items and object fields that were cut.
    """

    events: int = 0
    characters: int = 0
    values: int = 0


def clean_event(event: Event, redact: Redactor, counts: CutCounts | None = None) -> Event:
    """Return the event without secrets and injected blocks, truncated to the size limits of the hook.

    Args:
        counts: is updated with what was truncated.
    """
    # Slightly more than the hook allows, so that the hook's own marks are not cut.
    pruner = Pruner(MAX_VALUES + MARK_TOLERANCE)
    texts = TextCutter()
    pruned = cast("dict[str, Any]", pruner.prune(event.data))
    data = map_texts(pruned, lambda text: texts.clean_and_cut(text, lambda part: redact(strip_injected_blocks(part))))
    if counts is not None and (texts.characters_cut or pruner.values_cut):
        counts.events += 1
        counts.characters += texts.characters_cut
        counts.values += pruner.values_cut
    return event._replace(data=data)


def turns_from_event(event: Event, project: str) -> list[Turn]:
    """Return the messages of an event, in order; none for events that only mark a moment."""
    match event.kind:
        case "prompt":
            return _message_turns(event, project, role="user", source="prompt", trust=TRUST_PROMPT)
        case "note":
            return _message_turns(event, project, role="user", source="prompt", trust=TRUST_TYPED)
        case "reply":
            return _message_turns(event, project, role="assistant", source="reply", trust=TRUST_AGENT)
        case "subagent":
            return _message_turns(event, project, role="assistant", source="task", trust=TRUST_AGENT)
        case "summary":
            return _message_turns(event, project, role="assistant", source="summary", trust=TRUST_AGENT)
        case "tools":
            return [turn for call in tool_calls(event) for turn in _tool_turns(event, project, call)]
        case "session_start" | "pre_compact" | "session_end":
            return []


def scope_of(event: Event, project: str) -> Scope:
    """Return the scope in which the event happened."""
    return Scope(
        user=event.user or LOCAL_USER,
        project=project or None,
        agent=event.agent,
        channel=event.host,
        session=event.session,
        branch=event.branch,
    )


def _message_turns(event: Event, project: str, *, role: Role, source: SourceType, trust: int) -> list[Turn]:
    text = event.data.get("text")
    if not isinstance(text, str) or not text.strip():
        return []
    return [_turn(event, project, key=event.key or event.id, text=text, role=role, source=source, trust=trust)]


def _tool_turns(event: Event, project: str, call: Mapping[str, Any]) -> list[Turn]:
    name = str(call.get("name") or "tool")
    if is_own_tool(name):
        return []
    source = source_of_tool(name)
    content = " ".join(filter(None, [_plain_text(call.get("input")), _output(call.get("output"), source)]))
    if not content.strip():
        return []
    call_id = str(call.get("id") or "")
    key = f"tool:{call_id}" if call_id else f"{event.key or event.id}:{name}"
    text = f"{name}: {content}"
    return [_turn(event, project, key=key, text=text, role="tool", source=source, trust=TRUST_TOOL)]


def _turn(event: Event, project: str, *, key: str, text: str, role: Role, source: SourceType, trust: int) -> Turn:
    return build_turn(
        key=key,
        scope=scope_of(event, project),
        role=role,
        source=source,
        text=text,
        at=from_epoch(event.at),
        trust=trust,
        event_id=event.id,
    )


def build_turn(
    *,
    key: str,
    scope: Scope,
    role: Role,
    source: SourceType,
    text: str,
    at: datetime,
    trust: int,
    event_id: str = "",
) -> Turn:
    """Return a new turn of the scope's channel, with the reason why extraction skips it, if there is one."""
    return Turn(
        id=new_id(at),
        key=key,
        event_id=event_id,
        at=at,
        scope=scope,
        host=scope.channel,
        role=role,
        source=source,
        trust=trust,
        text=text,
        skipped=skip_reason(text, source),
    )


def _output(value: object, source: SourceType) -> str:
    """Return the readable text of a tool's output; for a helper agent, the answer inside its JSON."""
    answer = "" if source != "task" else extract_answer(value) if isinstance(value, str) else answer_of(value)
    if answer:
        return answer
    if isinstance(value, dict) or _is_block_list(value) or (source == "file_read" and isinstance(value, list)):
        return "\n".join(_texts(cast("object", value)))
    return _plain_text(value)


def _is_block_list(value: object) -> bool:
    """Return True for a list of content blocks, as MCP tools answer: `[{"type": "text", "text": …}]`."""
    if not isinstance(value, list):
        return False
    return all(isinstance(block, dict) and "type" in block for block in cast("list[object]", value))


def _texts(value: object, name: str = "") -> Iterator[str]:
    """Yield the texts in a tool's answer at any depth, without type names and encoded images."""
    if isinstance(value, str):
        if value.strip() and name != "type" and not (len(value) > _MAX_WORD_CHARACTERS and len(value.split()) == 1):
            yield value
    elif isinstance(value, dict):
        for key, part in cast("dict[str, object]", value).items():
            yield from _texts(part, key)
    elif isinstance(value, list):
        for part in cast("list[object]", value):
            yield from _texts(part, name)


def _plain_text(value: object) -> str:
    """Return the readable text of a tool's input, or of an output without named parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        texts = [part for part in cast("dict[str, Any]", value).values() if isinstance(part, str) and part.strip()]
        return "\n".join(texts)
    return json.dumps(value, ensure_ascii=False) if value else ""


# Complete redaction in the daemon, before anything is stored.
#
# It applies the rules and marks of the hook on RE2, which runs in linear time on any text. It adds one rule that
# would be too slow in the hook: long random-looking words close to a keyword. Randomness alone proves nothing (hashes
# and ids are random too), so the keyword is required.


class _Pattern(Protocol):
    """A compiled RE2 pattern."""

    def sub(self, repl: Callable[[Any], str], text: str, /) -> str: ...


_RANDOM_NEAR_KEYWORD: Final = (
    r"(?i)\b(?:key|token|secret|credentials?|auth|password|passwd|passphrase|signature|cl[ée]|jeton"
    r"|mot de passe|contraseña|clave)\b[^\n]{0,24}?[ \t:=\"'`(]([A-Za-z0-9+/_=-]{20,200})"
)


#: Bits per character; English prose stays below 3, random base64 of twenty characters is above 3.8.
_MIN_ENTROPY_BITS = 3.6


def redact_completely(text: str) -> str:
    """Return the text without secrets and private passages: everything that `redact` cuts, and more."""
    return apply_until_stable(text, _redact_completely_once)


def _compile(pattern: str) -> _Pattern:
    return lazy_pattern(lambda: cast("_Pattern", re2.compile(pattern, _OPTIONS)))  # pyright: ignore[reportUnknownMemberType]


def _re2_options() -> Any:
    """Return RE2 options without its stderr message when a text exhausts the cache; RE2 just continues more slowly."""
    options: Any = re2.Options()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    options.log_errors = False
    options.max_mem = 32 << 20
    return options


_OPTIONS: Final = _re2_options()


#: Per rule: whether it ignores case, its hints, its pattern, and its substitution.
_COMPILED: Final = tuple(
    (rule.folded, rule.hint.split("|"), _compile(rule.pattern), build_substitution(rule)) for rule in RULES
)
_RANDOM_NEAR_KEYWORD_RE2: Final = _compile(_RANDOM_NEAR_KEYWORD)


def _redact_completely_once(text: str) -> str:
    text = without_private_material(text.encode("utf-8", "replace").decode("utf-8"))
    lowered = text.lower()
    for folded, hints, pattern, cut in _COMPILED:
        haystack = lowered if folded else text
        for hint in hints:
            if hint in haystack:
                text = pattern.sub(cut, text)
                break
    text = redact_prose(redact_assignments(text, mark), mark)
    has_keyword = any(hint in lowered for hint in (*HINTS, "auth", "signature"))
    return _RANDOM_NEAR_KEYWORD_RE2.sub(_cut_random, text) if has_keyword else text


def _cut_random(found: Match) -> str:
    (start, end), (first, last) = found.span(), found.span(1)
    word = found.string[first:last]
    if word.startswith(MARK) or not looks_random(word):
        return found.string[start:end]
    return found.string[start:first] + mark("secret") + found.string[last:end]


def looks_random(word: str) -> bool:
    """Return True for a word of mixed case with digits and high entropy; hashes, ids and paths are not random."""
    if names_algorithm(word):
        return False
    mixed = any(map(str.isupper, word)) and any(map(str.islower, word)) and any(map(str.isdigit, word))
    return mixed and word.count("/") < 3 and _entropy(word) >= _MIN_ENTROPY_BITS


def _entropy(word: str) -> float:
    shares = (word.count(character) / len(word) for character in set(word))
    return -sum(share * math.log2(share) for share in shares)
