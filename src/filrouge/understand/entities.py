# ruff: noqa: E501 (a pattern is read best on one line)
"""Entities: what was named in a conversation, and what kind of thing it is.

By rules: an address and a file have their shape, a tool its name in the table of tools, a person the words around
them ("Karim maintains", "ask Lena", "demande à Inès"), an organisation its suffix or the word before it, a place its
name or "based in". A name that nothing tells apart is `other`, where it was said twice. The user's words and the agent's
count; of tool output only files and addresses, since a log is full of capitals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from filrouge import lazy_re as re
from filrouge.model.analysis import Entity, EntityType
from filrouge.model.turn import Turn
from filrouge.understand.masked import blanked
from filrouge.understand.said import said
from filrouge.understand.sentences import Sentence
from filrouge.understand.tools import AMBIGUOUS, CATEGORY
from filrouge.understand.values import values
from filrouge.understand.words import fold

MOST: Final = 30
_LONGEST: Final = 200
_LONGEST_OUTPUT: Final = 4000

_NAME: Final = r"[A-ZÀ-ÖØ-Þ][\w-]*[a-zß-öø-ÿ][\w-]*"
_FULL: Final = rf"{_NAME}(?: (?:(?:de|du|da|von|van|le|el) )?{_NAME})?"
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
        rf"(?<!\w)(?P<name>{_NAME}(?: {_NAME}){{0,2}} (?:Inc|Ltd|LLC|GmbH|AG|SARL|SAS|SA|Corp|Labs|Group|Groupe|Foundation|Fondation|University|Université|Bank|Banque))\b\.?",
        rf"\b(?:company|startup|employer|agency|vendor|customer|client|[Ll][’']entreprise|entreprise|société|agence|fournisseur|empresa) (?:called |named |nommée? )?(?P<name>{_NAME})",
        rf"\b(?:work(?:s|ing)? (?:at|for)|travaille (?:chez|pour)|trabajo en) (?P<name>{_NAME}(?: {_NAME})?)",
    )
)
_PROJECT: Final = re.compile(
    r"\b(?:[Pp]roject|[Rr]epo(?:sitory)?|[Pp]rojet|[Dd]épôt|[Pp]royecto) (?:called |named |nommé |appelé )?(?P<name>[A-Z][\w-]+|[a-z0-9]+(?:-[a-z0-9]+)+|`[\w./-]+`)"
)
_PLACE: Final = re.compile(
    rf"\b(?:based|located|hosted|lives?|living|office|offices|meet(?:ing)?|travel(?:ling)?|basée?s?|située?s?|habite|bureaux?|hébergée?s?|vive|sede) (?:in|at|to|near|à|en|au|aux|près de) (?P<name>{_NAME}(?: {_NAME})?)"
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
#: Capitalised words that are nobody's name.
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
    """What these turns name, the most named first.

    Args:
        projects: the short names of projects that are known.
        former: those of the turns before these, which count on.
    """
    found = _Found(former)
    known = {fold(name): name for name in projects if len(name) > 2}
    for one in said(turns):
        for name, type_ in _named(one.sentence, known):
            found.add(name, type_)
    for turn in turns:
        if turn.role == "tool" and not turn.skipped:
            output = blanked(turn.text[:_LONGEST_OUTPUT])
            for name, type_ in _shaped(output):
                found.add(name, type_)
    return found.best()


class _Found:
    """Entities while they are counted, by their folded name."""

    def __init__(self, former: Sequence[Entity]) -> None:
        self._names = {fold(one.name): one.name for one in former}
        self._types: dict[str, EntityType] = {fold(one.name): one.type for one in former}
        self._counts = {fold(one.name): one.mentions for one in former}

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
        kept = [
            Entity(name=self._names[key], type=type_, mentions=self._counts[key])
            for key, type_ in self._types.items()
            if type_ != "other" or (self._counts[key] > 1 and key not in parts)
        ]
        return tuple(sorted(kept, key=lambda one: (-one.mentions, fold(one.name)))[:MOST])


def _named(sentence: Sentence, projects: dict[str, str]) -> Iterator[tuple[str, EntityType]]:
    """The entities of a sentence, each stretch of it read once."""
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
            if not _is_nobody(name) and (type_ == "project" or fold(name) not in CATEGORY) and claim(start, end):
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


def _is_nobody(name: str) -> bool:
    first = fold(name.split()[0])
    return first in _NO_NAMES or (first in CATEGORY and first not in AMBIGUOUS and " " in name)


def _shaped(text: str) -> Iterator[tuple[str, EntityType]]:
    """Addresses and files of any text."""
    end_of_last = 0
    for type_, start, end in sorted(_shapes(text), key=lambda shape: shape[1]):
        if start >= end_of_last:
            yield text[start:end], type_
            end_of_last = end


def _shapes(text: str) -> Iterator[tuple[EntityType, int, int]]:
    for match in _URL.finditer(text):
        end = match.start() + len(match.group().rstrip(".,;:!?"))
        if end - match.start() <= _LONGEST:
            yield "url", match.start(), end
    for match in _FILE.finditer(text):
        if len(match.group()) <= _LONGEST:
            yield "file", match.start(), match.end()
