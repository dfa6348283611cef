"""Analysis of a session without a model: summary, entities, concepts, open questions and more.

`analyse` is the entry point. It is incremental: it reads only the new turns and takes the former analysis as input.
Only what the user writes in prompts counts as the user's words (`own_words`), and only replies count as the agent's.
Tool output, text written by the host and redacted text have no speaker.

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, Protocol

from msgspec import Struct, field

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.core import lazy_re as re
from filrouge.extraction import kinds, reading
from filrouge.extraction.heuristics import extract
from filrouge.extraction.models import EMPTY_ANALYSIS, Analysis, Entity, EntityType, Intent, Point, PointKind, Quote
from filrouge.extraction.own_words import own_words, written_by_host
from filrouge.extraction.reading import old_values, read_clause, values
from filrouge.extraction.sentences import MASK, Sentence, blank_masks, split
from filrouge.extraction.statement_model import subject_score
from filrouge.extraction.vocabulary import (
    AMBIGUOUS,
    CATEGORY,
    GENERIC,
    PLAIN_WORDS,
    SMALL_WORDS,
    STOP,
    Language,
    canonical,
    content,
    detect_language,
    fold,
    subject_of,
)
from filrouge.memories.models import Kind, Span

# Sentences with their speaker. The host's own summary of a conversation has the speaker "told".

Speaker = Literal["user", "agent", "told"]
#: Skip reasons of turns that say nothing about the topic of a session.
_NOTHING_SAID: Final = frozenset({"small talk", "punctuation only", "empty", "tool noise", "written by the host"})


class SpokenSentence(Struct, frozen=True):
    """One sentence with its speaker.

    Attributes:
        turn_index: the index of its turn among the given turns.
        sentence: the sentence, with its position in the turn's text.
    """

    turn: Turn
    turn_index: int
    speaker: Speaker
    sentence: Sentence

    @property
    def text(self) -> str:
        """The sentence's text on one line."""
        return " ".join(self.sentence.text.split())


def speaker_of(turn: Turn) -> Speaker | None:
    """Return the speaker of a turn, or None if its words have no speaker."""
    if turn.skipped in _NOTHING_SAID:
        return None
    if turn.source == "summary":
        return "told"
    if turn.role == "user" and turn.source == "prompt" and turn.trust >= TRUST_PROMPT:
        return None if written_by_host(turn.text) else "user"
    return "agent" if turn.role == "assistant" and turn.source == "reply" else None


def sentences_with_speaker(turns: Sequence[Turn]) -> list[SpokenSentence]:
    """Return the sentences of these turns in order, without those that hold a redaction mask."""
    found: list[SpokenSentence] = []
    for turn_index, turn in enumerate(turns):
        speaker = speaker_of(turn)
        if speaker:
            masks = [mask.start() for mask in MASK.finditer(turn.text)]
            text = blank_masks(turn.text)
            sentences = split(own_words(text) if speaker == "user" else text)
            unredacted = [part for part in sentences if not any(part.start <= start < part.end for start in masks)]
            found.extend(SpokenSentence(turn, turn_index, speaker, sentence) for sentence in unredacted)
    return found


# Titles: the subject of a prompt. Greetings and courtesies are removed. The rest is cut at the end of a clause; if no
# clause is short enough, the cut is before a function word, so that no phrase is split.

# ruff: noqa: E501 (a pattern is read best on one line)


MAX_TITLE_CHARS: Final = 64
#: Characters at the beginning of a prompt in which a title is looked for.
MAX_TITLE_SOURCE_CHARS: Final = 4000
_FENCED: Final = re.compile(r"```.*?(?:```|\Z)|<([a-z][\w-]*)\b[^>]*>.*?</\1>|https?://\S+", re.DOTALL)
_MARKS: Final = re.compile(r"^\s*(?:[#>*+-]+|\d+[.)])\s+", re.MULTILINE)
_SENTENCE: Final = re.compile(r"(?<=[.!?;…])\s+|\s*\n+\s*|\s+[—–]\s+")
#: Openings without content, matched on folded text until none is left.
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
#: The end of a clause; the word that opens the next clause is dropped.
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
    """Return the subject of a prompt in at most `MAX_TITLE_CHARS` characters, or an empty string if it has none."""
    plain = _MARKS.sub("", _FENCED.sub(" ", prompt[:MAX_TITLE_SOURCE_CHARS]))
    sentences = [
        rest
        for sentence in _SENTENCE.split(plain)
        if sentence and (rest := _strip_openings(" ".join(sentence.split())))
    ]
    subject = next((sentence for sentence in sentences if len(sentence.split()) > 1), sentences[0] if sentences else "")
    short = _shorten(subject_of(subject.replace("`", "")).strip(_EDGES))
    return short[:1].upper() + short[1:] if short[:1].islower() and short[1:2].islower() else short


def _strip_openings(sentence: str) -> str:
    """Return a sentence without its greetings and courtesies."""
    rest = sentence.strip(_EDGES)
    while (opening := _OPENING.match(fold(rest))) and len(rest) > opening.end():
        rest = rest[opening.end() :].strip(_EDGES)
    return "" if _OPENING.fullmatch(f"{fold(rest)} ") else rest


def _shorten(subject: str) -> str:
    if len(subject) <= MAX_TITLE_CHARS:
        return subject
    ends = [end.start() for end in _CLAUSE.finditer(fold(subject)) if end.start() <= MAX_TITLE_CHARS]
    clauses = [subject[:end] for end in ends if len(subject[:end].split()) > 2]
    if clauses:
        return clauses[-1].strip(_EDGES)
    words = subject[: MAX_TITLE_CHARS + 1].rpartition(" ")[0].split() or [subject[:MAX_TITLE_CHARS]]
    small = [index for index, word in enumerate(words) if index > 2 and fold(word) in _SMALL]
    # Cut before the last function word: the phrase it opens may be incomplete.
    return " ".join(words[: small[-1]] if small else words).strip(_EDGES)


# Cleaning topics (EXT-9): labels added by programs are removed, text is lower-cased, and topics that are no subject
# (generic words, fragments, numbers) are dropped. The order stays, duplicates go. Cleaning is idempotent.

_GENERIC: Final = """
message contenu analyse fichier file code json response result data type value function class method variable parameter
"""
#: Generic words; a topic of only these words is dropped.
GENERIC_TOPICS: Final = frozenset(_GENERIC.split())
MIN_TOPIC_CHARS: Final = 3
_MESSAGE_LABEL: Final = re.compile(r"\s*(?:message|contenu|fichier)\s*:\s*", re.IGNORECASE)
_TOPIC_WORD: Final = re.compile(r"[^\W_]+")
_TOPIC_EDGES: Final = " \t\r\n,.;:!?¿¡…\"'“”«»()[]{}*`"


def clean_topics(topics: Iterable[str]) -> list[str]:
    """Return the topics that are subjects, lower-cased and without duplicates."""
    return list(dict.fromkeys(topic for topic in map(clean_topic, topics) if topic))


def clean_topic(topic: str) -> str:
    """Return a topic without labels, in lower case, or an empty string if it is not a subject."""
    plain = " ".join(topic.lower().split())
    while True:
        label = _MESSAGE_LABEL.match(fold(plain))
        bare = plain[label.end() if label else 0 :].strip(_TOPIC_EDGES)
        if bare == plain:
            break
        plain = bare
    return plain if _is_subject(plain) else ""


def _is_subject(plain: str) -> bool:
    if len(plain) < MIN_TOPIC_CHARS or not any(char.isalpha() for char in plain):
        return False
    return any(fold(word) not in GENERIC_TOPICS for word in _TOPIC_WORD.findall(plain))


def without_label(text: str) -> str:
    """Return the text without the label that some hosts put before it: `MESSAGE:`, `CONTENU:`, `FICHIER:`."""
    label = _MESSAGE_LABEL.match(text)
    return text[label.end() :] if label else text


# Entities and their types, by rules. URLs and files are found by their shape, tools by a table, persons by cue words
# ("Karim maintains", "ask Lena", "demande à Inès"), organisations by their suffix or the word before, places by a table
# or cues such as "based in". Any other name gets the type `other` and must occur twice. The words of the user and the
# agent are read in full; of tool output only files and URLs, because logs are full of capitalised words.

# ruff: noqa: E501 (a pattern is read best on one line)


MAX_ENTITIES: Final = 30
_MAX_ENTITY_CHARS: Final = 200
_MAX_OUTPUT_CHARS: Final = 4000

_CAPITALISED: Final = r"[A-ZÀ-ÖØ-Þ][\w-]*[a-zß-öø-ÿ][\w-]*"
_FULL: Final = rf"{_CAPITALISED}(?: (?:(?:de|du|da|von|van|le|el) )?{_CAPITALISED})?"
_PERSON: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b(?:[Mm]y name is|[Cc]all me|[Jj]e m[’']appelle|[Aa]ppelle-moi|[Mm]e llamo)\s+(?P<name>{_FULL})",
        rf"\b(?:Mr|Mrs|Ms|Dr|Mme|Mlle|Monsieur|Madame|M|Sr|Sra)\.? (?P<name>{_FULL})",
        rf"(?<!\w)(?P<name>{_FULL}) (?:now |also |only |has |a )?(?:owns?|maintains?|manages?|leads?|left|quit|approves?|reviews?|reviewed|joined|asked|said|says|told|thinks|wants|wrote|proposed|suggested|s[’']occupe|gère|maintient|valide|dirige|remplace|pense|veut|propose|demande|a dit|a demandé|a proposé)\b",
        rf"\b(?:[Aa]sk|[Tt]ell|[Pp]ing|[Cc]c|[Tt]hank|[Ee]mail|[Dd]emande à|[Dd]is à|[Pp]révien[ts]|[Pp]regunta a) (?P<name>{_FULL})",
        rf"\b(?:colleague|teammate|manager|boss|co-?worker|collègue|chef|associée?|cliente?|compañer[oa]) (?P<name>{_FULL})",
        rf"\b(?:according to|selon|d[’']après|según) (?P<name>{_FULL})",
    )
)
_ORGANISATION: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?<!\w)(?P<name>{_CAPITALISED}(?: {_CAPITALISED}){{0,2}} (?:Inc|Ltd|LLC|GmbH|AG|SARL|SAS|SA|Corp|Labs|Group|Groupe|Foundation|Fondation|University|Université|Bank|Banque))\b\.?",
        rf"\b(?:company|startup|employer|agency|vendor|customer|client|[Ll][’']entreprise|entreprise|société|agence|fournisseur|empresa) (?:called |named |nommée? )?(?P<name>{_CAPITALISED})",
        rf"\b(?:work(?:s|ing)? (?:at|for)|travaille (?:chez|pour)|trabajo en) (?P<name>{_CAPITALISED}(?: {_CAPITALISED})?)",
    )
)
_PROJECT: Final = re.compile(
    r"\b(?:[Pp]roject|[Rr]epo(?:sitory)?|[Pp]rojet|[Dd]épôt|[Pp]royecto) (?:called |named |nommé |appelé )?(?P<name>[A-Z][\w-]+|[a-z0-9]+(?:-[a-z0-9]+)+|`[\w./-]+`)"
)
_PLACE: Final = re.compile(
    rf"\b(?:based|located|hosted|lives?|living|office|offices|meet(?:ing)?|travel(?:ling)?|basée?s?|située?s?|habite|bureaux?|hébergée?s?|vive|sede) (?:in|at|to|near|à|en|au|aux|près de) (?P<name>{_CAPITALISED}(?: {_CAPITALISED})?)"
)
_PLACES_WORDS: Final = """
amsterdam athens barcelona berlin berne bern bordeaux boston brussels bruxelles budapest chicago copenhagen dublin
edinburgh frankfurt geneva geneve genève hamburg helsinki istanbul lausanne lille lisbon lisbonne london londres lyon
madrid marseille milan montreal montréal munich nantes nice oslo paris porto prague québec quebec rome san-francisco
seattle seoul singapore stockholm strasbourg sydney tokyo toronto toulouse vienna vienne warsaw varsovie zurich zürich
austria autriche belgium belgique brazil brésil canada china chine denmark danemark england angleterre europe finland
finlande france germany allemagne greece grèce india inde ireland irlande italy italie japan japon luxembourg mexico mexique
netherlands pays-bas norway norvège poland pologne portugal romania roumanie scotland écosse spain espagne sweden suède
switzerland suisse turkey turquie ukraine africa afrique asia asie
"""
_PLACES: Final = frozenset(fold(word) for word in _PLACES_WORDS.split())
#: Capitalised words that are not names.
_NO_NAMES_WORDS: Final = """
i we you he she they it the a an this that these those our your my his her their its and but or so if when where what
why how who which yes no ok please thanks also then now here there not for from with je tu il elle on nous vous ils elles
le la les un une des ce cette ces mon ma mes notre nos votre et mais ou donc si quand quoi comment pourquoi qui oui non
merci monday tuesday wednesday thursday friday saturday sunday lundi mardi mercredi jeudi vendredi samedi dimanche january
february march april may june july august september october november december janvier février fevrier mars avril mai juin
juillet août aout septembre octobre novembre décembre decembre everyone someone nobody anyone todo fixme note error warning
claude codex gpt agent user assistant el los las una pero como
"""
_NO_NAMES: Final = frozenset(fold(word) for word in _NO_NAMES_WORDS.split())
_URL: Final = re.compile(r"\bhttps?://[^\s<>\"'`)\]}]+")
_EXTENSION: Final = r"(?:py|pyi|ts|tsx|js|jsx|mjs|json|ya?ml|toml|md|txt|sql|css|scss|html|sh|lock|cfg|ini|go|rs|rb|php|java|kt|vue|svelte|tex|typ|csv|xml|proto|tf|log|db|sqlite|pdf|svg|png|conf|ipynb|graphql|prisma)"
_FILE: Final = re.compile(
    rf"(?<![\w/:.@-])(?:~?/|\.{{1,2}}/)?[\w.@-]+(?:/[\w.@-]+)*\.{_EXTENSION}\b(?![\w(/])|(?<![\w/:.@-])(?:Dockerfile|Makefile|README|LICENSE)\b"
)

_CUES: Final[tuple[tuple[EntityType, re.Pattern[str]], ...]] = (
    ("project", _PROJECT),
    *(("organisation", pattern) for pattern in _ORGANISATION),
    ("place", _PLACE),
    *(("person", pattern) for pattern in _PERSON),
)


def entities(
    turns: Sequence[Turn], *, projects: Sequence[str] = (), former: Sequence[Entity] = ()
) -> tuple[Entity, ...]:
    """Return the entities that these turns name, most mentioned first.

    Args:
        turns: the new turns of a session.
        projects: the short names of known projects.
        former: the entities of earlier turns, whose counts continue.
    """
    found = _EntityCounter(former)
    projects_by_name = {fold(name): name for name in projects if len(name) > 2}
    for spoken in sentences_with_speaker(turns):
        for name, type_ in _find_entities(spoken.sentence, projects_by_name):
            found.add(name, type_)
    for turn in turns:
        if turn.role == "tool" and not turn.skipped:
            output = blank_masks(turn.text[:_MAX_OUTPUT_CHARS])
            for name, type_ in _find_urls_and_files(output):
                found.add(name, type_)
    return found.best()


class _EntityCounter:
    """Counts entities, keyed by their folded name."""

    def __init__(self, former: Sequence[Entity]) -> None:
        self._names = {fold(entity.name): entity.name for entity in former}
        self._types: dict[str, EntityType] = {fold(entity.name): entity.type for entity in former}
        self._counts = {fold(entity.name): entity.mentions for entity in former}

    def add(self, name: str, type_: EntityType) -> None:
        key = fold(name)
        self._names.setdefault(key, name)
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._types.get(key, "other") == "other":
            self._types[key] = type_

    def best(self) -> tuple[Entity, ...]:
        parts = {
            part for key, type_ in self._types.items() if type_ in ("person", "organisation") for part in key.split()
        }
        found = [
            Entity(name=self._names[key], type=type_, mentions=self._counts[key])
            for key, type_ in self._types.items()
            if type_ != "other" or (self._counts[key] > 1 and key not in parts)
        ]
        return tuple(sorted(found, key=lambda entity: (-entity.mentions, fold(entity.name)))[:MAX_ENTITIES])


def _find_entities(sentence: Sentence, projects: dict[str, str]) -> Iterator[tuple[str, EntityType]]:
    """Yield the entities of a sentence; entities do not overlap."""
    text = sentence.text
    taken = bytearray(len(text))

    def claim(start: int, end: int) -> bool:
        if start >= end or any(taken[start:end]):
            return False
        taken[start:end] = b"\x01" * (end - start)
        return True

    for type_, start, end in _shapes(text):
        if claim(start, end):
            yield text[start:end], type_
    for type_, pattern in _CUES:
        for match in pattern.finditer(text):
            start, end = match.span("name")
            name = text[start:end].strip("`")
            if not _is_not_a_name(name) and (type_ == "project" or fold(name) not in CATEGORY) and claim(start, end):
                yield name, ("place" if type_ == "person" and fold(name) in _PLACES else type_)
    for value in values(text):
        name = text[value.start : value.end].strip("`")
        if value.kind == "name" and value.text not in _NO_NAMES and claim(value.start, value.end):
            yield name, _type_of(value.text, name, projects)


def _type_of(plain: str, name: str, projects: dict[str, str]) -> EntityType:
    if plain in projects:
        return "project"
    if plain in CATEGORY and (plain not in AMBIGUOUS or name[:1].isupper()):
        return "tool"
    return "place" if plain in _PLACES else "other"


def _is_not_a_name(name: str) -> bool:
    first = fold(name.split()[0])
    return first in _NO_NAMES or (first in CATEGORY and first not in AMBIGUOUS and " " in name)


def _find_urls_and_files(text: str) -> Iterator[tuple[str, EntityType]]:
    """Yield the URLs and files of a text."""
    end_of_last = 0
    for type_, start, end in sorted(_shapes(text), key=lambda shape: shape[1]):
        if start >= end_of_last:
            yield text[start:end], type_
            end_of_last = end


def _shapes(text: str) -> Iterator[tuple[EntityType, int, int]]:
    for match in _URL.finditer(text):
        end = match.start() + len(match.group().rstrip(".,;:!?"))
        if end - match.start() <= _MAX_ENTITY_CHARS:
            yield "url", match.start(), end
    for match in _FILE.finditer(text):
        if len(match.group()) <= _MAX_ENTITY_CHARS:
            yield "file", match.start(), match.end()


# Concepts: three to five keyphrases, found by statistics. Candidates are runs of content words between function words
# and punctuation, as in RAKE (Rose et al. 2010, doi.org/10.1002/9780470689646.ch1), at most three words long. The
# weight of a word is its damped sentence count times its rarity elsewhere (TF·IDF) times its learned fitness to be a
# subject (`extraction.statement_model`). The weight of a phrase combines those of its words and grows with its
# frequency. A phrase that shares words with a better one is dropped, as are people and places.

MAX_CONCEPTS: Final = 5
_MAX_PHRASE_WORDS: Final = 3
_MAX_WORD_CHARS: Final = 40
#: Weights by speaker. The user's words decide the subject; agents write a lot, and summaries repeat what was said.
_SPEAKER_WEIGHT: Final = {"user": 2.0, "agent": 1.0, "told": 1.0}
_TOOL_FACTOR, _PLAIN_FACTOR = 1.3, 0.15
#: Exponents that damp the weight of a phrase by its length. A phrase that occurs once is less certain than a repeated
#: one; three words that occur together once are not a phrase.
_DAMPING_ONCE, _DAMPING_AGAIN = 0.6, 0.25
_WEAK_END_FACTOR: Final = 0.7
#: Words that name an action rather than a subject and are missing from the table of imperatives.
_NO_SUBJECT_WORDS: Final = """
maintains owns manages leads prefers wants needs thinks says uses breaks blocks fails works runs listens takes makes
shows gets goes comes looks seems happens stays becomes decided chose picked moved switched prefer working broken
found looked added created updated removed fixed changed replaced renamed migrated deployed enqueue depends agreed
settled maintient gere utilise casse bloque prefere prend ecoute tourne reste devient semble arrive choisi decide
retenu passe deplace bascule corrige ajoute cree supprime embarquee aider corriger ajouter creer verifie verifier
slow fast faster slower behind ahead lags disagree huge someone somebody appelle plutot rather instead prefiero usa
funciona rompe decidido elegido attaque attaquer quel quelle quels quelles lequel laquelle lesquels lesquelles combien
pourquoi comment cual cuales cuanto cuanta cuantos cuantas hier demain ayer manana hoy yesterday tomorrow tonight
"""
_NOT_SUBJECT_WORDS: Final = frozenset(_NO_SUBJECT_WORDS.split())
#: From this fitness on, an imperative verb is also a noun: "export", "import".
_MIN_NOUN_FITNESS: Final = 0.5
#: Slope of the logistic function over fitness, and the fitness below which a word alone is not a subject.
_STEEPNESS, _MIN_ALONE_FITNESS = 1.2, -1.0
_PUNCTUATION: Final = frozenset(',;:.!?()[]{}"«»…|*<>=`/\\')
Rarity = Callable[[str], float]
"""Rarity of a folded word in other conversations: 1 = unknown, higher = rarer."""


class _Phrase(Struct):
    """A candidate phrase with its counts."""

    words: tuple[str, ...]
    ends_weakly: bool = False
    weight: float = 0.0
    forms: Counter[str] = field(default_factory=Counter[str])


def concepts(
    turns: Sequence[Turn],
    *,
    rarity: Rarity | None = None,
    former: Sequence[str] = (),
    excluded_names: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the concepts of a conversation, heaviest first; at most five.

    Args:
        turns: the new turns of a session.
        rarity: returns the rarity of a folded word in other conversations; None weighs all words alike.
        former: the concepts of earlier turns, which compete with the new ones.
        excluded_names: names of people and places, which are excluded.
    """
    sentences = sentences_with_speaker(turns)
    weights = _word_weights(sentences, rarity or _constant_rarity)
    phrases = _phrases(sentences)
    for rank, phrase in enumerate(former):
        words_of_phrase = tuple(canonical(fold(word)) for word in phrase.split())
        candidate = phrases.setdefault(words_of_phrase, _Phrase(words_of_phrase))
        candidate.forms[phrase] += 1
        candidate.weight += 4.0 - rank * 0.5
        for word in words_of_phrase:
            weights[word] = weights.get(word, 0.0) + 1.5
    scores = {phrase.words: _score(phrase, weights) for phrase in phrases.values()}
    best = sorted(filter(scores.get, scores), key=lambda words_of_phrase: (-scores[words_of_phrase], words_of_phrase))
    return tuple(
        _select_distinct(
            [phrases[words_of_phrase] for words_of_phrase in best],
            frozenset(word for name in excluded_names for word in fold(name).split()),
        )
    )


def asked_words(turns: Sequence[Turn]) -> frozenset[str]:
    """Return the folded words whose rarity `concepts` would ask for."""
    return frozenset(
        fold(word) for spoken in sentences_with_speaker(turns) for run in _runs(spoken.text) for word in run
    )


def _constant_rarity(word: str) -> float:
    del word
    return 1.0


def _word_weights(sentences: Sequence[SpokenSentence], rarity: Rarity) -> dict[str, float]:
    counts = Counter[str]()
    spelt = dict[str, str]()
    for spoken in sentences:
        plain = sorted({fold(word) for run in _runs(spoken.text) for word in run})
        for word in plain:
            spelt.setdefault(canonical(word), word)
        counts.update({canonical(word): _SPEAKER_WEIGHT[spoken.speaker] for word in plain})
    return {
        word: (1.0 + math.log1p(count)) * rarity(spelt[word]) * _word_factor(word, spelt[word])
        for word, count in counts.items()
    }


def _word_factor(word: str, spelt: str) -> float:
    if spelt in CATEGORY:
        return _TOOL_FACTOR
    if word in GENERIC or _is_not_a_subject(spelt):
        return _PLAIN_FACTOR
    return 1.0 / (1.0 + math.exp(-_STEEPNESS * subject_score(spelt)))


def _phrases(sentences: Sequence[SpokenSentence]) -> dict[tuple[str, ...], _Phrase]:
    found: dict[tuple[str, ...], _Phrase] = {}
    for spoken in sentences:
        seen = set[tuple[str, ...]]()
        for run in _runs(spoken.text):
            for start in range(len(run)):
                for length in range(1, min(_MAX_PHRASE_WORDS, len(run) - start) + 1):
                    surface = run[start : start + length]
                    words = tuple(canonical(fold(word)) for word in surface)
                    if words in seen or len(set(words)) < length or not _may_be_concept(surface):
                        continue
                    seen.add(words)
                    phrase = found.setdefault(words, _Phrase(words, _is_weak(fold(surface[-1]))))
                    phrase.weight += _SPEAKER_WEIGHT[spoken.speaker]
                    phrase.forms[" ".join(surface).lower()] += 1
    return found


@lru_cache(maxsize=4096)
def _runs(sentence: str) -> tuple[tuple[str, ...], ...]:
    """Return the runs of content words of a sentence, as they are spelt.

    A thread is named again whenever prompts come or go, from the same sentences.
    """
    return tuple(map(tuple, _split_into_runs(sentence)))


def _split_into_runs(sentence: str) -> Iterator[list[str]]:
    run: list[str] = []
    for raw in sentence.split():
        head = raw.lstrip("\"'“”«(¿¡*_`[{<")
        word = head.rstrip("\"'“”».,;:!?…)*_`]}>")
        bare = _without_article(word)
        cut = bare != word or head != raw
        if cut and run:
            yield run
            run = []
        plain = fold(bare)
        if _is_content(plain):
            run.append(bare)
        elif run:
            yield run
            run = []
        if head != word and head[len(word) : len(word) + 1] in _PUNCTUATION and run:
            yield run
            run = []
    if run:
        yield run


def _without_article(word: str) -> str:
    """Return a word without its elided article or possessive: `l'index` becomes `index`, `pool's` becomes `pool`."""
    plain = fold(word)
    for article in ("l'", "d'", "qu'", "s'", "n'", "c'", "j'", "m'", "t'"):
        if plain.startswith(article):
            return word[len(article) :]
    return word[:-2] if plain.endswith("'s") else word


@lru_cache(maxsize=8192)
def _is_content(plain: str) -> bool:
    if len(plain) < 2 or len(plain) > _MAX_WORD_CHARS or plain in STOP or plain in SMALL_WORDS or "'" in plain:
        return False
    return any(char.isalpha() for char in plain) and "://" not in plain and not plain.startswith(("/", "~", "-", "#"))


@lru_cache(maxsize=8192)
def _is_not_a_subject(plain: str) -> bool:
    return plain in _NOT_SUBJECT_WORDS or (subject_score(plain) < _MIN_NOUN_FITNESS and reading.is_imperative(plain))


def is_subject(word: str) -> bool:
    """Return whether a word can be a concept by itself."""
    return _is_content(fold(word)) and _may_be_concept([word])


def _may_be_concept(surface: Sequence[str]) -> bool:
    """Return whether a phrase can be a concept: no weak word except as the last of several, and not only generic."""
    plain = [fold(word) for word in surface]
    if any(_is_weak(word) for word in (plain if len(plain) == 1 else plain[:-1])):
        return False
    if plain[-1] in _NOT_SUBJECT_WORDS or all(word in GENERIC or word in AMBIGUOUS for word in plain):
        return False
    if len(plain) == 1 and plain[0].endswith("ed") and len(plain[0]) > 4:
        return False
    return bool(clean_topic(" ".join(surface)))


def _is_weak(plain: str) -> bool:
    """Return whether a word is rarely a subject by itself: unfit words and imperative verbs, except tool names."""
    return plain not in CATEGORY and (_is_not_a_subject(plain) or subject_score(plain) < _MIN_ALONE_FITNESS)


def _score(phrase: _Phrase, words: Mapping[str, float]) -> float:
    """Return the score of a phrase from the weights of its words, their number and its frequency; 0 = no phrase."""
    said_again = phrase.forms.total() > 1
    if not said_again and len(phrase.words) > 1 and (len(phrase.words) == _MAX_PHRASE_WORDS or phrase.ends_weakly):
        return 0.0
    damping = _DAMPING_AGAIN if said_again else _DAMPING_ONCE
    weights = [words.get(word, 0.0) for word in phrase.words]
    if phrase.ends_weakly and len(weights) > 1:  # "the invoice export": here the verb form is a noun
        weights[-1] = max(weights[-1], _WEAK_END_FACTOR * weights[-2])
    together = sum(weights) / len(weights) ** damping
    return together * (1.0 + math.log1p(phrase.weight))


def _select_distinct(best: Sequence[_Phrase], excluded_names: frozenset[str]) -> list[str]:
    """Return the best phrases that share no word with a better one and do not name a person or place."""
    taken: list[str] = []
    used: list[frozenset[str]] = []
    for phrase in best:
        words = frozenset(phrase.words)
        if not words or any(words & other for other in used):
            continue
        form = clean_topic(max(sorted(phrase.forms), key=lambda form: phrase.forms[form]))
        if form and form not in taken and excluded_names.isdisjoint(fold(form).split()):
            taken.append(form)
            used.append(words)
        if len(taken) == MAX_CONCEPTS:
            break
    return taken


# Open questions: questions of the user without an answer. The reply to a prompt that orders no work answers all its
# questions. Any other sentence of the agent answers a question if it shares one of its content words, or if the question
# has none. Counter-questions and "I don't know" are not answers.

# ruff: noqa: E501 (a pattern is read best on one line)


MAX_QUESTIONS: Final = 10
_MIN_QUESTION_WORDS: Final = 3
_ASKS: Final = re.compile(r"[?¿]")
_WORK: Final = re.compile(
    r"\b(?:(?:can|could|would|will) (?:you|we)|(?:peux|pourrais|veux|peut|pouvez|pourriez)-(?:tu|vous|on)|tu (?:peux|pourrais)|puedes|podrias) (?!you\b|tell|dire|decirme)"
)
_CHAT: Final = re.compile(r"\b(?:sleep|slept|dormi|dormido|how are you|ca va|comment vas|que tal)\b")
_UNKNOWING: Final = re.compile(
    r"\b(?:i (?:don't|do not|can't|cannot) (?:know|tell|say|find|determine)|(?:not|i'm not) (?:sure|certain)|no idea|unclear|unknown"
    r"|let me (?:check|look|see|find)|i'll (?:check|look|find out|get back)|need(?:s)? more (?:information|context|details)"
    r"|je ne sais pas|je ne (?:trouve|peux) pas|aucune idee|pas (?:sur|certaine?)|je (?:vais )?(?:verifie|verifier|regarde|regarder|cherche)"
    r"|no (?:lo )?se\b|no estoy segur[oa])"
)


def open_questions(turns: Sequence[Turn], *, former: Sequence[Quote] = ()) -> tuple[Quote, ...]:
    """Return the unanswered questions after these turns, in their order.

    Args:
        turns: the new turns of a session.
        former: the questions that were open before these turns.
    """
    sentences = sentences_with_speaker(turns)
    found = [quote for quote in former if not _is_answered(quote.text, -1, sentences)]
    for index, spoken in enumerate(sentences):
        if spoken.speaker != "user" or not _is_question(spoken):
            continue
        is_answered_at_once = _is_answered_at_once(spoken.turn_index, turns, sentences)
        if not is_answered_at_once and not _is_answered(spoken.text, index, sentences):
            span = Span(start=spoken.sentence.start, end=spoken.sentence.end)
            found.append(Quote(text=spoken.text, turn_id=spoken.turn.id, span=span))
    once = {distinctive_words(quote.text) or frozenset({quote.text}): quote for quote in found}
    return tuple(once.values())[-MAX_QUESTIONS:]


def _tells_something(spoken: SpokenSentence) -> bool:
    """Return whether this is a sentence of the agent that neither asks back nor says that it does not know."""
    return spoken.speaker == "agent" and not _ASKS.search(spoken.text) and not _UNKNOWING.search(spoken.sentence.plain)


def _is_question(spoken: SpokenSentence) -> bool:
    """Return whether the sentence asks for an answer rather than for work."""
    plain = spoken.sentence.plain
    if len(_TOPIC_WORD.findall(plain)) < _MIN_QUESTION_WORDS or _orders_work(plain):
        return False
    return (
        reading.QUESTION.search(plain) is not None and not reading.SMALLTALK.search(plain) and not _CHAT.search(plain)
    )


def _orders_work(plain: str) -> bool:
    return _WORK.search(plain) is not None or reading.is_imperative(plain)


def _is_answered_at_once(turn_index: int, turns: Sequence[Turn], sentences: Sequence[SpokenSentence]) -> bool:
    """Return whether a prompt that orders no work has a reply that tells something in more than a word.

    A reply without sentences, such as a command, does.
    """
    if any(spoken.turn_index == turn_index and _orders_work(spoken.sentence.plain) for spoken in sentences):
        return False
    speakers = ((index, speaker_of(turns[index])) for index in range(turn_index + 1, len(turns)))
    index, speaker = next(((index, speaker) for index, speaker in speakers if speaker), (-1, None))
    reply = [spoken for spoken in sentences if spoken.turn_index == index]
    tells = any(_tells_something(spoken) and len(spoken.text.split()) > 1 for spoken in reply)
    return speaker == "agent" and (tells or not reply)


def _is_answered(question: str, index: int, sentences: Sequence[SpokenSentence]) -> bool:
    """Return whether a reply after sentence number `index` answers the question; -1 = before all sentences."""
    question_words = distinctive_words(question)
    for spoken in sentences[index + 1 :]:
        if _tells_something(spoken) and (not question_words or question_words & frozenset(content(spoken.text))):
            return True
    return False


def distinctive_words(text: str) -> frozenset[str]:
    """Return the words of a text that most texts lack."""
    return frozenset(word for word in content(text) if word not in PLAIN_WORDS)


# Summaries: two or three sentences of the conversation, each with a label. Per kind, the most central sentence is
# taken: the one whose words occur in the most other sentences. The label ("Asked", "The agent reports") keeps an
# agent's claim from looking like the user's words.

# ruff: noqa: E501 (a pattern is read best on one line)


MAX_SUMMARY_SENTENCES: Final = 3
#: Points kept per session, to compare with the points of later turns.
MAX_POINTS: Final = 12
_MAX_POINT_CHARS: Final = 240
_POINT_LABELS: Final[Mapping[Language, Mapping[PointKind, str]]] = {
    "en": {
        "asked": "Asked: ", "decided": "Decided: ", "ruled": "Rule: ", "found": "Found: ", "noted": "Noted: ",
        "done": "The agent reports: ", "told": "Summarised: ",
    },
    "fr": {
        "asked": "Demandé : ", "decided": "Décidé : ", "ruled": "Règle : ", "found": "Trouvé : ", "noted": "Noté : ",
        "done": "L'agent rapporte : ", "told": "Résumé : ",
    },
    "es": {
        "asked": "Pedido: ", "decided": "Decidido: ", "ruled": "Regla: ", "found": "Encontrado: ", "noted": "Anotado: ",
        "done": "El agente informa: ", "told": "Resumido: ",
    },
}  # fmt: skip
#: The order of the kinds in a summary.
_POINT_ORDER: Final[tuple[PointKind, ...]] = ("asked", "decided", "found", "ruled", "done", "noted", "told")
_DONE: Final = re.compile(
    r"^(?:i|we|i've|we've|i have|j'ai|on a|nous avons|he|hemos)\b.{0,30}?\b(?:fixed|added|created|updated|removed|renamed|moved|implemented|refactored|wrote|rewrote|replaced|migrated|deployed|installed|configured|changed|merged|split|cleaned|tested|verified|found"
    r"|corrige|ajoute|cree|mis a jour|supprime|renomme|deplace|implemente|refactorise|ecrit|remplace|migre|deploye|installe|configure|change|fusionne|nettoye|teste|verifie|trouve|arreglado|anadido|creado|actualizado|eliminado|cambiado)\b"
    r"|^(?:fixed|added|created|updated|removed|implemented|done|corrige|ajoute|cree|supprime|termine|fait|hecho)\b"
    r"|\b(?:is|are|est|sont) (?:now|maintenant|desormais) \w+|\b(?:all )?tests? (?:now )?pass\b|\bles tests passent\b|\b(?:root cause|the cause|la cause|the fix|le correctif)\b"
)


def points(turns: Sequence[Turn], *, former: Sequence[Point] = ()) -> tuple[Point, ...]:
    """Return the candidate sentences for a summary of these turns, most central first."""
    sentences = sentences_with_speaker(turns)
    weights = _sentence_shares(sentences)
    found = dict[str, Point]()
    for point in [
        *former,
        *_find_requests(turns, weights),
        *_find_stated(turns, weights),
        *_find_reported(sentences, weights),
    ]:
        existing = found.get(point.text)
        if point.text and (existing is None or existing.weight < point.weight):
            found[point.text] = point
    return tuple(sorted(found.values(), key=lambda point: (-point.weight, point.text))[:MAX_POINTS])


def summary_of(points: Sequence[Point], language: Language) -> str:
    """Return up to three of these points as a text, ordered by kind; empty if there are no points."""
    taken: list[Point] = []
    for kind in _POINT_ORDER:
        best = next((point for point in points if point.kind == kind and _is_new(point, taken)), None)
        if best and len(taken) < MAX_SUMMARY_SENTENCES:
            taken.append(best)
    for point in points:
        if len(taken) < MAX_SUMMARY_SENTENCES - 1 and point not in taken and _is_new(point, taken):
            taken.append(point)
    ordered = sorted(taken, key=lambda point: _POINT_ORDER.index(point.kind))
    return " ".join(f"{_POINT_LABELS[language][point.kind]}{with_full_stop(point.text)}" for point in ordered)


def reports_work(plain: str) -> bool:
    """Return whether a folded sentence reports finished work."""
    return _DONE.search(plain) is not None


def _find_requests(turns: Sequence[Turn], weights: Mapping[str, float]) -> Iterator[Point]:
    """Yield the subject of each prompt's request; the first of these turns weighs more, since it sets the theme."""
    first = True
    for turn in turns:
        title = _request_title(turn) if speaker_of(turn) == "user" else ""
        if title:
            yield Point(kind="asked", text=title, weight=_centrality(title, weights) * (1.5 if first else 1.0))
            first = False


def _request_title(turn: Turn) -> str:
    """Return the subject of the first sentence that asks, or of the prompt if it neither asks nor states anything."""
    stated = [statement.span for statement in extract(turn)]
    for spoken in sentences_with_speaker([turn]):
        plain, start = spoken.sentence.plain, spoken.sentence.start
        if any(span.start < spoken.sentence.end and start < span.end for span in stated):
            continue
        if (reading.QUESTION.search(plain) or reading.is_request(plain)) and not reading.SMALLTALK.search(plain):
            title = title_of(spoken.text)
            return (
                f"{title}?" if title and spoken.text.endswith("?") and reading.QUESTION.search(fold(title)) else title
            )
    return "" if stated or MASK.search(turn.text) else title_of(turn.text)


def _find_stated(turns: Sequence[Turn], weights: Mapping[str, float]) -> Iterator[Point]:
    for turn in turns:
        for statement in extract(turn):
            text = _clip(statement.text)
            kind: PointKind = "noted"
            if statement.kind == "decision" or statement.is_correction:
                kind = "decided"
            elif statement.kind in ("rule", "constraint"):
                kind = "ruled"
            elif kinds.find_bugs(read_clause(statement.text, 0)):
                kind = "found"
            yield Point(kind=kind, text=text, weight=_centrality(text, weights) * statement.confidence)


def _find_reported(sentences: Sequence[SpokenSentence], weights: Mapping[str, float]) -> Iterator[Point]:
    for spoken in sentences:
        if spoken.speaker == "user" or len(spoken.text.split()) < 4 or spoken.text.endswith((":", "?")):
            continue
        if spoken.speaker == "told":
            yield Point(kind="told", text=_clip(spoken.text), weight=_centrality(spoken.text, weights))
        elif reports_work(spoken.sentence.plain):
            yield Point(kind="done", text=_clip(spoken.text), weight=_centrality(spoken.text, weights))


def _sentence_shares(sentences: Sequence[SpokenSentence]) -> dict[str, float]:
    """Return each word's sentence count as a share of the highest count, without everyday words."""
    counts = Counter[str]()
    for spoken in sentences:
        counts.update({word for word in content(spoken.text) if word not in PLAIN_WORDS})
    highest = max(counts.values(), default=1)
    return {word: count / highest for word, count in counts.items()}


def _centrality(text: str, weights: Mapping[str, float]) -> float:
    """Return the summed weight of a text's content words, damped by their number; usually in [0, 1]."""
    words = set(content(text))
    return round(sum(weights.get(word, 0.0) for word in words) / max(1, len(words)) ** 0.5, 4)


def _is_new(point: Point, taken: Sequence[Point]) -> bool:
    """Return whether no other point shares more than 60 % of its words."""
    words = set(content(point.text))
    return all(len(words & set(content(other.text))) <= 0.6 * max(1, len(words)) for other in taken)


def _clip(text: str) -> str:
    """Return the text on one line, cut before a word."""
    line = " ".join(text.split()).lstrip("#*->• ")
    return line if len(line) <= _MAX_POINT_CHARS else line[:_MAX_POINT_CHARS].rpartition(" ")[0].rstrip(",;: ") + "…"


def with_full_stop(text: str) -> str:
    """Return the text with a full stop, unless it ends with a mark already."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


# The analysis of a session. `analyse` can be replaced by an implementation that uses a model.

# ruff: noqa: E501 (a pattern is read best on one line)


_MAX_QUOTES: Final = 30
_MAX_IMPLICIT: Final = 8
_INTENTS: Final[tuple[tuple[Intent, re.Pattern[str]], ...]] = (
    ("fix", re.compile(r"\b(?:fix\w*|bugs?|errors?|crash\w*|broken|fail\w*|debug\w*|wrong|regression|corrige\w*|erreurs?|plante\w*|casse\w*|echoue\w*|repare\w*|panne|arregla\w*|fallo)\b")),
    ("build", re.compile(r"\b(?:add|build|create|implement\w*|write|generate|scaffold|new feature|set ?up|ajoute\w*|cree\w*|implemente\w*|ecris|genere\w*|construi\w*|anade|crea|escribe)\b")),
    ("change", re.compile(r"\b(?:refactor\w*|rename|move|migrat\w*|replace|upgrade|update|clean ?up|simplif\w*|optimi[sz]\w*|remove|renomme|deplace|migre\w*|remplace\w*|mets? a jour|nettoie|supprime|cambia|renombra|elimina)\b")),
    ("decide", re.compile(r"\b(?:decid\w*|choose|choice|which (?:one|of)|compare|trade-?offs?|pros and cons|should we|better|versus|vs|choisi\w*|choix|quel(?:le)? .{0,20}choisir|comparer?|elegir|decidi\w*)\b")),
    ("review", re.compile(r"\b(?:review|audit|proofread|feedback|check (?:this|my|the)|relis|relecture|verifie\w*|revue|revisa)\b")),
    ("understand", re.compile(r"^(?:how|why|what|where|when|who|which|explain|describe|comment|pourquoi|quoi|ou|quand|qui|quel\w*|explique\w*|como|por que|que|donde|explica)\b|\bhow (?:does|do|to|is)\b|\bc'est quoi\b")),
)  # fmt: skip


class Analyst(Protocol):
    """Analyses the new turns of a session. `analyse` is the implementation without a model."""

    def __call__(
        self, turns: Sequence[Turn], *, former: Analysis, rarity: Rarity | None, projects: Sequence[str]
    ) -> Analysis:
        """Return the analysis of the session including these turns."""
        ...


def analyse(
    turns: Sequence[Turn],
    *,
    former: Analysis = EMPTY_ANALYSIS,
    rarity: Callable[[str], float] | None = None,
    projects: Sequence[str] = (),
) -> Analysis:
    """Return the analysis of a session.

    Args:
        turns: the new turns of the session, in order.
        former: the analysis of the earlier turns.
        rarity: returns the rarity of a folded word in other conversations.
        projects: the short names of known projects.
    """
    sentences = sentences_with_speaker(turns)
    language = detect_language([turn.text for turn in turns if speaker_of(turn) == "user"], former.language)
    made = points(turns, former=former.points)
    quotes = _quotes(turns)
    summary = summary_of(made, language)
    named = entities(turns, projects=projects, former=former.entities)
    excluded_names = [entity.name for entity in named if entity.type in ("person", "place")]
    if not former.points and former.summary:
        summary = f"{former.summary} {summary}".strip()
    return Analysis(
        summary=summary,
        concepts=concepts(turns, rarity=rarity, former=former.concepts, excluded_names=excluded_names),
        entities=named,
        questions=open_questions(turns, former=former.questions),
        decisions=_merge_quotes(former.decisions, quotes("decision")),
        preferences=_merge_quotes(former.preferences, quotes("preference")),
        intents=_merge_quotes(former.intents, quotes("intent")),
        constraints=_merge_quotes(former.constraints, quotes("constraint", "rule")),
        implicit_context=_find_implicit(sentences, former.implicit_context),
        intent=_find_intent(sentences) or former.intent,
        language=language,
        points=made,
    )


def _quotes(turns: Sequence[Turn]) -> Callable[..., tuple[Quote, ...]]:
    stated = [(turn.id, statement) for turn in turns if not turn.skipped for statement in extract(turn)]

    def of(*kinds: Kind) -> tuple[Quote, ...]:
        return tuple(
            Quote(text=statement.text, turn_id=turn_id, span=statement.span)
            for turn_id, statement in stated
            if statement.kind in kinds
        )

    return of


def _merge_quotes(former: Sequence[Quote], fresh: Sequence[Quote]) -> tuple[Quote, ...]:
    """Return the quotes without duplicates, limited to the latest."""
    return tuple(dict.fromkeys([*former, *fresh]))[-_MAX_QUOTES:]


def _find_implicit(sentences: Sequence[SpokenSentence], former: Sequence[str]) -> tuple[str, ...]:
    """Return the tools that the user mentions, by category. People rarely say "our database is"; they just name it."""
    tools_by_category = dict(item.split(": ", 1) for item in former if ": " in item)
    others = tuple(item for item in former if ": " not in item)
    for spoken in sentences:
        if spoken.speaker != "user":
            continue
        # The rejected tool comes last ("Typst for invoices, no longer LaTeX"): the first per category counts.
        named_tools, rejected = dict[str, str](), old_values(spoken.sentence.plain)
        for word in re.findall(r"[a-z0-9][\w.+-]*[\w+]", spoken.sentence.plain):
            if _is_unmistakable(word, spoken) and word not in rejected:
                named_tools.setdefault(CATEGORY[word], word)
        tools_by_category |= named_tools
    return (*others, *(f"{category}: {word}" for category, word in tools_by_category.items()))[:_MAX_IMPLICIT]


def _is_unmistakable(word: str, spoken: SpokenSentence) -> bool:
    return word in CATEGORY and (
        word not in AMBIGUOUS or re.search(rf"\b{re.escape(word.title())}\b", spoken.text) is not None
    )


def _find_intent(sentences: Sequence[SpokenSentence]) -> Intent:
    """Return the intent that matches the most user sentences; ties take the first of the table; none is "inform"."""
    user_sentences = [spoken.sentence.plain for spoken in sentences if spoken.speaker == "user"]
    counts = {
        intent: sum(pattern.search(plain) is not None for plain in user_sentences) for intent, pattern in _INTENTS
    }
    best = max(counts.values(), default=0)
    if best:
        return next(intent for intent, _ in _INTENTS if counts[intent] == best)
    return "inform" if user_sentences else ""
