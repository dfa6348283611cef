# ruff: noqa: E501 (a pattern is read best on one line)
"""Which turns are not worth analysing, and why (CAP-5).

A filtered turn is still stored verbatim and can be found; it only skips extraction and threads. Short turns are
kept when they say something after all: "The port is 9443 now" is 20 characters and worth more than most pages.
"""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.extraction.heuristics import statements_of, written_by_host
from filrouge.extraction.values import values
from filrouge.extraction.vocabulary import fold
from filrouge.model.turn import SourceType

SHORTEST: Final = 50
#: Only people and agents are polite; a tool that prints "done" is merely short.
_CONVERSATION: Final = frozenset({"prompt", "reply"})
_LONGEST_SMALL_TALK: Final = 90

_ACKNOWLEDGED: Final = (
    r"ok(?:ay|ey)?|k|kk|oui|non|si|yes|yep|yeah|yup|no|nope|nah|d'accord|dac|entendu|compris|bien|tres bien|bon|merci(?: beaucoup| bien| encore| a toi)?|thanks?(?: you)?(?: so much| a lot| again| anyway)?"
    r"|thx|ty|gracias|muchas gracias|de nada|vale|claro|perfecto|genial|super|parfait|nickel|top|cool|nice|great|good|perfect|awesome|excellent|done|fine|sure|right|exactly|indeed|voila|exact|exactement"
    r"|continue[sz]?|go on|go ahead|proceed|next|suivant|vas-y|allez|allons-y|lol|haha|mdr|hi|hello|hey|salut|bonjour|bonsoir|coucou|hola|bye|ciao|a plus|a demain|adios|hasta luego|see you|see you later|good (?:morning|night|evening|afternoon|job|work)"
    r"|bonne (?:nuit|journee|soiree)|well done|nice work|bravo|never ?mind|np|no problem|no worries|pas de (?:souci|probleme)|de rien|stop|wait|attends|please|stp|svp|s'il te plait|it works|ca marche|c'est bon|c'est parfait|that's (?:perfect|great|it|all)|works|approved|lgtm|ship it"
    r"|very|much|too|anyway|beaucoup|alors|donc|so|and|et|y|to(?:o|day)?|me|you|toi|all|now|it|is|that|this|for|the|help|work|job|mate|man|really|again|tout|le monde"
)
_SMALL_TALK: Final = re.compile(rf"(?:(?:{_ACKNOWLEDGED})(?:[\s,.!;:)(-]+|$))+")
_CHAT: Final = re.compile(
    r"\b(?:did you sleep|sleep well|bien dormi|going for (?:a |lunch|dinner)|prendre un cafe|coffee|back in (?:a|an)|brb|bon (?:week-end|appetit|cafe)|have a (?:nice|good)|see you)\b"
)
_TOOL_NOISE: Final = re.compile(
    r'^\s*[\[{].*"(?:filePath|newTodos|oldTodos|continue|tool_use_id|toolUseResult|interrupted|suppressOutput|structuredPatch)"\s*:',
    re.DOTALL,
)
_WORDS: Final = re.compile(r"[^\W_]")
#: What makes a short turn worth reading (RULINGS 23): rules, corrections, decisions, names, preferences, facts.
_SAYS_SOMETHING: Final = re.compile(
    r"\b(?:always|never|must|don't|do not|only|prefer|avoid|rule|remember|forget|from now on|instead|not|no longer|any ?more|actually|correction|moved|switched|renamed|replaced|dropped|migrated|decided|chose|picked|went with|going with|use|uses|settled|agreed|back to"
    r"|my name|call me|i'm|i am|i prefer|i like|i hate|answer|reply|because|caused|fixed|owns|maintains|no \w+ (?:in|without)"
    r"|toujours|jamais|doit|ne|pas de|prefere|evite|regle|rappelle|souviens|oublie|desormais|dorenavant|plutot|au lieu|plus|en fait|finalement|on (?:passe|garde|part|prend|utilise|abandonne|revient|a)|choisi|decide|tranche|utilise|je m'appelle|appelle-moi|je suis|j'aime|je deteste|reponds|tutoie|vouvoie|a cause|corrige"
    r"|siempre|nunca|recuerda|olvida|usa|usamos|prefiero|me llamo|ya no|ahora|decidido)\b"
)


def skip_reason(text: str, source: SourceType) -> str:
    """Why extraction passes a turn over; empty when the turn is to be analysed."""
    if not _WORDS.search(text):
        return "punctuation only" if text.strip() else "empty"
    if written_by_host(text):
        return "written by the host"
    if _TOOL_NOISE.match(text[:4000]):
        return "tool noise"
    plain = " ".join(fold(text[:400]).split())
    if source in _CONVERSATION and len(text) <= _LONGEST_SMALL_TALK and _small_talk(plain):
        return "small talk"
    if len(text.strip()) < SHORTEST and not _says_something(text.strip(), plain):
        return "too short"
    return ""


def _small_talk(plain: str) -> bool:
    """True when nothing but acknowledgements and courtesies is said."""
    said = plain.strip(" .!?:;,-()'\"")
    return _SMALL_TALK.fullmatch(said) is not None or (
        _CHAT.search(plain) is not None and not _SAYS_SOMETHING.search(plain)
    )


def _says_something(text: str, plain: str) -> bool:
    """True for a short turn that holds a value, or words of ruling, choosing, correcting or naming."""
    return _SAYS_SOMETHING.search(plain) is not None or bool(values(text) or statements_of(text))
