# ruff: noqa: E501 (a pattern is read best on one line)
"""Titles: what a conversation is about, in a few words of the user's first real prompt.

A title is a subject and never a sentence cut in the middle: the greeting, the courtesies and the "could you" go, the
rest is cut where a clause ends, and where no clause is short enough, in front of a small word.
"""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.tellings import subject_of
from filrouge.understand.words import fold

LONGEST: Final = 64
_FENCED: Final = re.compile(r"```.*?(?:```|\Z)|<([a-z][\w-]*)\b[^>]*>.*?</\1>|https?://\S+", re.DOTALL)
_MARKS: Final = re.compile(r"^\s*(?:[#>*+-]+|\d+[.)])\s+", re.MULTILINE)
_SENTENCE: Final = re.compile(r"(?<=[.!?;…])\s+|\s*\n+\s*|\s+[—–]\s+")
#: What a prompt begins with before it says anything; matched on folded text, again and again.
_OPENING: Final = re.compile(
    r"(?:"
    r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|salut|bonjour|bonsoir|coucou|hola|buenos dias|buenas)(?: (?:there|again|all|claude|codex|a tous))?"
    r"|(?:ok(?:ay)?|alright|right|so|now|then|well|first|next|also|and|but|alors|bon|bien|donc|d'accord|ensuite|maintenant|et|mais|bueno|vale|ahora|entonces)(?=[ ,])"
    r"|(?:please|pls|stp|svp|s'il te plait|s'il vous plait|por favor|thanks|thank you|merci|gracias)"
    r"|(?:can|could|would|will) (?:you|we)(?: please)?(?: help me(?: to)?)?"
    r"|(?:help me(?: to)?|i(?:'d| would) like (?:you |us )?to|i (?:want|need) (?:you |us )?to|we (?:need|want|have|should)(?: to)?|let's|let us|let me know)"
    r"|(?:do you know|do you remember|tell me|explain(?: to me)?|show me|remind me|i wonder|i was wondering)(?= (?:how|what|why|where|when|which|who|if|whether))"
    r"|(?:est-ce que )?(?:tu peux|peux-tu|tu pourrais|pourrais-tu|vous pouvez|pouvez-vous|pourriez-vous|on peut|peut-on|on pourrait)(?: (?:m'aider a|nous aider a|me|m'))?"
    r"|(?:j'aimerais|je voudrais|je veux|il faudrait|il faut|on doit|on devrait|aide-moi a|aidez-moi a)(?: (?:que tu|que vous|qu'on))?"
    r"|(?:dis-moi|explique-moi|montre-moi|rappelle-moi)(?= (?:comment|pourquoi|quel|quelle|ou|quand|si|ce))"
    r"|(?:puedes|podrias|podemos|quiero(?: que)?|quisiera|necesito(?: que)?|hay que|ayudame a|vamos a)"
    r"|(?:for the record|by the way|fyi|note|pour info|pour memoire|au fait|a noter|por cierto|para que conste)"
    r"|(?:heads[- ]up|(?:ground |new |standing )?rule(?: for you)?|reminder|correction|update|(?:nouvelle )?regle(?: pour toi| pour vous)?|rappel|precision|regla|aviso|correccion)(?=\s*[:,.])"
    r"|(?:actually|finally|in fact|finalement|en fait|au final|en realidad|al final)(?=[ ,])"
    r"|(?:(?:please )?(?:remember|keep in mind|note|don't forget)(?: that)?|(?:rappelle-toi|souviens-toi|retiens|note|n'oublie pas|rappelez-vous|notez)(?: bien)?(?: que| qu')?|(?:recuerda|no olvides|ten en cuenta)(?: que)?)(?= )"
    r")[\s,:!.]+"
)
#: Where a clause ends; the word that opens the next one is not kept.
_CLAUSE: Final = re.compile(
    r"\s*[,;:(]\s|\s+-\s|\s(?:because|since|so that|so|but|which|that|when|where|while|if|and then|and|as|without|before|after|until|unless"
    r"|parce que|car|puisque|afin|mais|qui|que|quand|lorsque|pendant|si|et|puis|sans|avant|apres"
    r"|porque|para que|pero|cuando|donde|mientras|y|sin|antes|despues)\s"
)
_SMALL: Final = frozenset(
    "a an the of to in on at for with from by into onto and or but is are was be my our your this that these those it its"
    " as un une le la les l d du de des a au aux dans sur pour avec par en et ou mais est ce cette ces mon ma mes notre"
    " nos son sa ses el los las del al con por una unos unas y o mi su sus que qui".split()
)
_EDGES: Final = " \t,.;:!?¿¡…-–—'\"“”«»()[]{}*_`>"


def title_of(prompt: str) -> str:
    """The subject of a prompt in at most `LONGEST` characters; empty where it has none."""
    plain = _MARKS.sub("", _FENCED.sub(" ", prompt[:4000]))
    sentences = [told for one in _SENTENCE.split(plain) if one and (told := _opened(" ".join(one.split())))]
    subject = next((one for one in sentences if len(one.split()) > 1), sentences[0] if sentences else "")
    short = _shortened(subject_of(subject.replace("`", "")).strip(_EDGES))
    return short[:1].upper() + short[1:] if short[:1].islower() and short[1:2].islower() else short


def _opened(sentence: str) -> str:
    """A sentence without its greetings and courtesies."""
    rest = sentence.strip(_EDGES)
    while (opening := _OPENING.match(fold(rest))) and len(rest) > opening.end():
        rest = rest[opening.end() :].strip(_EDGES)
    return "" if _OPENING.fullmatch(f"{fold(rest)} ") else rest


def _shortened(subject: str) -> str:
    if len(subject) <= LONGEST:
        return subject
    ends = [end.start() for end in _CLAUSE.finditer(fold(subject)) if end.start() <= LONGEST]
    whole = [subject[:end] for end in ends if len(subject[:end].split()) > 2]
    if whole:
        return whole[-1].strip(_EDGES)
    words = subject[: LONGEST + 1].rpartition(" ")[0].split() or [subject[:LONGEST]]
    small = [place for place, word in enumerate(words) if place > 2 and fold(word) in _SMALL]
    # Cut in front of the last small word: what stands behind it is a phrase that may go on.
    return " ".join(words[: small[-1]] if small else words).strip(_EDGES)
