"""The analyser: one token string for every full-text index, and FTS5 expressions from the words of a question."""

from __future__ import annotations

import unicodedata
from binascii import crc32
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from threading import Lock
from typing import Any

from filrouge.core import text as re
from filrouge.core.errors import BadConfig

# Folding: the plain form under which words are compared, whatever accents, case, width or marks they were typed in.
#
# Latin, Greek and Arabic lose their marks; Cyrillic keeps й, and kana keep their voicing, because there the mark
# makes another letter. Vowel signs of Indic and Thai script go as well, since no backend agrees on whether they
# belong to a word. Emoji become words (`u1f44d`), since every backend takes symbols for punctuation.

_VOICING = "\u3099\u309a"


class _Seen(dict[int, int | str | None]):
    """What becomes of each character, found out when it is first met."""

    def __missing__(self, code: int) -> int | str | None:
        kind = unicodedata.category(chr(code))
        seen: int | str | None = code
        if kind == "Cs" or code == 0:
            seen = " "  # a lone surrogate cannot be encoded, and NUL ends a C string
        elif (kind[0] == "M" and chr(code) not in _VOICING) or kind == "Cf":
            seen = None  # marks, soft hyphens, joiners: they stand within words and are no part of them
        self[code] = seen
        return seen


#: Letters that Unicode does not take apart, and people who lack the key do.
_LIGATURES = {"œ": "oe", "Œ": "Oe", "æ": "ae", "Æ": "Ae"}
_STROKES = {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"}
_SEEN = _Seen({ord(letter): spelt for letter, spelt in (_LIGATURES | _STROKES).items()})

_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
_PICTURE = "[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
EMOJI = re.compile(f"{_FLAG}|{_PICTURE}")

#: Scripts that set no spaces between words, and Hangul, whose words carry their particles.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)

_UNSPACED = re.compile(f"[{UNSPACED}]")


def unspaced(word: str) -> bool:
    """True if a character of the word belongs to a script that sets no spaces between words."""
    return not word.isascii() and _UNSPACED.search(word) is not None


def plain(text: str) -> str:
    """The text without marks, ligatures, widths and what cannot be seen; its case is kept."""
    if text.isascii():
        return text.replace("\x00", " ")
    apart = unicodedata.normalize("NFKD", text)
    if "\u0306" in apart:
        apart = apart.replace("и\u0306", "й").replace("И\u0306", "Й")
    # Syllables of Korean and voiced kana came apart; what is put together again may hold new marks only by accident.
    return unicodedata.normalize("NFC", apart.translate(_SEEN))


def fold(text: str) -> str:
    """Lower case without accents or width: the form under which words are compared."""
    folded = plain(text)
    if folded.isascii():
        return folded.lower()
    # Some capitals fold into a letter and a mark (İ), and some marks are letters' case (ͅ).
    return plain(folded.casefold())


def emoji_word(emoji: str) -> str:
    """The word that stands for an emoji."""
    return "".join(f"u{ord(char):x}" for char in emoji)


# Stems: what the forms of a word have in common.
#
# The stemmers of several languages run one after the other over the same word, so a word has one stem whatever
# language it stands in, and no guess at the language of a text is ever needed: `reports` and `rapports` both lose
# their plural, `manger`, `mangé` and `mangez` meet. That joins a few words that are strangers; ranking by the whole
# word as well puts them behind. Scripts of one language (Cyrillic, Greek, Arabic) have their own stemmer at no cost
# to the others.

_SHORTEST, _LONGEST = 3, 40
#: First and last letter of a script, and the stemmer it has to itself.
_SCRIPTS = (("\u0370", "\u03ff", "greek"), ("\u0400", "\u04ff", "russian"), ("\u0600", "\u06ff", "arabic"))


class Stems:
    """Snowball stemmers in a row. One object may serve several threads."""

    def __init__(self, languages: Sequence[str]) -> None:
        # PyStemmer has no type stubs; its whole surface here is `algorithms`, `version` and `stemWord`.
        snowball: Any = import_module("Stemmer")
        unknown = sorted(set(languages) - set(snowball.algorithms()))
        if unknown:
            raise BadConfig(f"There is no stemmer for {', '.join(unknown)}.")
        self.release: str = snowball.version()
        self._latin: list[Callable[[str], str]] = [snowball.Stemmer(language).stemWord for language in languages]
        self._scripts: list[tuple[str, str, Callable[[str], str]]] = [
            (first, last, snowball.Stemmer(language).stemWord) for first, last, language in _SCRIPTS
        ]
        self._lock = Lock()  # a Stemmer object may not be used by two threads at the same time

    def of(self, word: str) -> str:
        """The stem of a folded word; the word itself where it is too short, too long, or not of letters alone."""
        if not _SHORTEST <= len(word) <= _LONGEST or not word.isalpha():
            return word
        with self._lock:
            for first, last, stem in self._scripts:
                if first <= word[0] <= last:
                    return stem(word) or word
            if word[0] > "\u024f":
                return word
            stem = word
            for language in self._latin:
                stem = language(stem)
        return stem or word


# Stop words, English and French, folded: indexed like all others, asked for only where a question has nothing else.
#
# They keep their place and their low weight in the index, so "to be or not to be" is found; they are left out of
# other questions because a full-text index pays for every match, and half of all texts match "the".

STOP_WORDS = frozenset(
    # English
    "a an and any are as at be been but by can could did do does doing for from had has have having he her him his"
    " how i if in into is it its just let like may me might more most my no nor not of off on or our out please shall"
    " she should so some such than that the their them then there these they this those to too up us use used using"
    " was we were what when where which while who whom why will with would you your again also about all am because"
    " s t d ll m re ve don doesn didn isn won"
    # French
    " ai as au aux avec avoir ce ces cet cette ceci cela chez comme comment dans de des donc du elle elles en est et"
    " etait etre eu eux fait faire faut il ils je la le les leur leurs lui ma mais me mes moi mon ne nos notre nous on"
    " ont ou par pas peut plus pour pourquoi puis qu quand que quel quelle quelles quels qui quoi sa sans se sera ses"
    " si son sont sous suis sur ta te tes toi ton tous tout toute toutes tu un une va vas vers vos votre vous y a"
    " c l n j estce peutetre".split()
)


# The analyser: one token string for every full-text backend.
#
# It runs once per text, in Python; FTS5 (and any later backend) only splits its output at the spaces. So the same
# things are found everywhere, and the stock sqlite3 can still read the index. A word is folded (accents, case, width)
# and stands beside its stem where the two differ; elisions are opened (`l'export` → `export`); identifiers, paths,
# versions, numbers and hashes are indexed whole and in parts (`export_report`, `camelCase`, `3.11`, `1,000`,
# `dd58ae3`); scripts without spaces become pairs of characters; emoji become words. Every token is letters and
# digits, so no text can be taken for a backend's syntax.

__all__ = ["TextAnalyser", "fold"]

#: Grows with every change of the rules below.
_RULES = 2
#: French first: what English leaves of a French word, French takes too much from (`étudiant` would meet `étude`).
LANGUAGES = ("french", "english")

_APOSTROPHE = re.compile("['’ʼ‘]")
_ELISION = re.compile(r"\b(?:[cdjlmnst]|(?:jus|lors|puis|quoi|pres|quel)?qu|entr)['’ʼ‘](?=[^\W\d])", re.IGNORECASE)
_CLITIC = re.compile(r"(?<=[^\W\d_])['’ʼ](?:s|t|d|m|ll|re|ve)\b", re.IGNORECASE)
#: Digits in groups of three, and what may follow them: 1,000 · 1 000,50 · 1.234,56 · 10_000.
_GROUPED = r"(?<![\w.,])\d{1,3}(?:(?:[ ,'’_]\d{3})+(?:[.,]\d+)?|(?:\.\d{3})+,\d+)(?![\w'’]|[.,]\d)"
#: A word with its inner joints: `src/report.py`, `export_report`, `3.11`, `edge-runtime`, `fly.io`, `me@fly.io`.
_JOINED = r"[^\W_]+(?:[_.\-/\\:@+#~=][^\W_]+)*(?:\+\+|#)?"
_CHUNK = re.compile(rf"({_GROUPED})|({EMOJI.pattern})|({_JOINED})")
_PART = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_DOTTED = re.compile(r"(?<!\d)\d+(?:\.\d+)+(?!\d)")
_DECIMAL_COMMA = re.compile(r"(?<![\w,.])(\d+),(\d{1,2}|\d{4,})(?![\w,])")
_CAMEL = re.compile(
    r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])"
)
#: A commit, a digest, an id: hexadecimal, with letters and digits both. Seven are what people quote.
_HASH = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}", re.IGNORECASE)
_QUOTED_OF_HASH = 7
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MANY_PIECES = 5
_RUN = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
_HANGUL = ("\uac00", "\ud7a3")
_SIGNED = {"++": "plusplus", "#": "sharp"}
_LONGEST_WORD = 64
#: Characters of a text that is cut into its words at once.
_LONG = 20_000

Forms = tuple[str, ...]
_Chunk = tuple[str, str, str]
"""A number in groups, an emoji, or a word with its joints; two of the three are empty."""


class TextAnalyser:
    """English and French at once, as developers mix them; other languages of Latin script by choice.

    Args:
        languages: Snowball's names of the languages whose words are stemmed, in the order of their stemming.

    Raises:
        BadConfig: there is no stemmer of that name.
    """

    def __init__(self, languages: Sequence[str] = LANGUAGES) -> None:
        self._stems = Stems(languages)
        #: Grows with the rules, and differs where other stems would be found: for other languages, and after another
        #: release of the stemmers.
        self.version = _RULES * 1_000_000 + crc32(f"{self._stems.release} {languages}".encode()) % 1_000_000
        self._known = lru_cache(maxsize=20_000)(self._words_of_part)
        self._plain = lru_cache(maxsize=20_000)(self._tokens_of)

    def tokens(self, text: str) -> str:
        """The token string to index."""
        # Nearly all that is written are plain words, and mostly the same ones: what they become is looked up.
        found = [
            self._plain(chunk) if chunk[2].isalpha() else self._tokens_of(chunk)
            for block in _blocks(text)
            for chunk in _chunks(block)
        ]
        return " ".join([tokens for tokens in found if tokens])

    def _tokens_of(self, chunk: _Chunk) -> str:
        return " ".join([form for forms, _ in self._words_of(chunk, asked=False) for form in forms])

    def terms(self, text: str) -> tuple[Forms, ...]:
        """The meaningful words of a query with their forms, each word once; all words if none is meaningful.

        The folded word itself is its first form. Words in capitals mean something: AI is no French verb.
        """
        words = dict[Forms, bool]()
        for chunk in _chunks(text):
            for forms, meant in self._words_of(chunk, asked=True):
                words[forms] = words.get(forms, False) or meant
        shouted = text.isupper()
        return tuple(
            forms for forms, capital in words.items() if forms[0] not in STOP_WORDS or (capital and not shouted)
        ) or tuple(words)

    def _words_of(self, chunk: _Chunk, *, asked: bool) -> Iterator[tuple[Forms, bool]]:
        """The words of a chunk, each with its forms and whether it is written in capitals.

        A text is indexed under the beginnings of its versions and hashes too; a question for one means that very one.
        """
        grouped, emoji, found = chunk
        if emoji:
            yield (emoji_word(emoji),), False
        elif grouped:
            yield from (((form,), False) for form in _grouped(grouped, asked=asked))
        elif found.isalnum() and len(words := self._known(found, asked)) == 1 and not _HASH.fullmatch(found):
            yield words[0], len(found) > 1 and found.isupper()
        else:
            for run in _RUN.findall(found) if unspaced(found) else (found,):
                yield from ((forms, False) for forms in self._joined(run, asked=asked))

    def _joined(self, chunk: str, *, asked: bool) -> Iterator[Forms]:
        """A word with joints or digits inside, whole and in parts."""
        if _UUID.fullmatch(chunk):
            yield from self._hash(chunk.replace("-", ""), asked=asked)
            return
        pieces, rest = 0, chunk
        for number in _DOTTED.findall(chunk):
            numbers = _dotted(number)
            yield from [(numbers[-1],)] if asked else [(form,) for form in numbers]
            rest = rest.replace(number, " ", 1)
            pieces += 1
        for part in _PART.findall(rest):
            if _HASH.fullmatch(part):
                yield from self._hash(part, asked=asked)
                pieces += 1
            else:
                words = self._known(part, asked)
                yield from words
                pieces += len(words)
        sign = next((spoken for sign, spoken in _SIGNED.items() if chunk.endswith(sign)), "")
        if (pieces > 1 and rest.strip()) or sign:
            yield from self._whole(chunk, sign)

    def _whole(self, chunk: str, sign: str) -> Iterator[Forms]:
        """A compound without its joints, and of a path its last name too; what nobody types in full is left out."""
        name = chunk.replace("\\", "/").rpartition("/")[2] if "/" in chunk or "\\" in chunk else chunk
        for one in dict.fromkeys((name, chunk)):
            parts = _PART.findall(fold(one))
            whole = "".join(parts) + sign
            if len(whole) <= _LONGEST_WORD and (len(parts) > 1 or one is chunk) and not unspaced(whole):
                yield (whole,)

    def _hash(self, part: str, *, asked: bool) -> Iterator[Forms]:
        whole = part.lower()
        start = whole[:_QUOTED_OF_HASH]
        if asked:
            yield tuple(dict.fromkeys((whole, start)))
        else:
            yield from ((form,) for form in dict.fromkeys((start, whole)))

    def _words_of_part(self, part: str, asked: bool) -> tuple[Forms, ...]:
        """The words of what has no joints: camelCase and digits taken apart, each word with its stem."""
        pieces = [part] if part.islower() and part.isalpha() else _CAMEL.split(part)
        if len(pieces) > _MANY_PIECES and sum(piece.isdecimal() for piece in pieces) > 1:
            pieces = [part]  # a random id: its pieces are no words
        words: list[Forms] = []
        for piece in pieces:
            for word in _PART.findall(fold(piece)):
                words.extend(self._forms(word, asked=asked))
        if len(pieces) > 2 and not part.isalpha():
            names = [name for name in _LETTERS.findall(part) if len(_CAMEL.split(name)) > 1]  # iPhone15 is an iPhone
            words.extend((fold(name),) for name in names)
        return tuple(words)

    def _forms(self, word: str, *, asked: bool) -> Iterator[Forms]:
        if unspaced(word):
            yield from ((pair,) for pair in _pairs(word, asked))
            return
        word = word[:_LONGEST_WORD]
        stem = word if word in STOP_WORDS else self._stems.of(word)
        yield (word,) if stem == word else (word, stem)


def _blocks(text: str) -> Iterator[str]:
    """A text, or the parts of a very long one, whole lines each: its chunks take thirty times its size."""
    if len(text) <= _LONG:
        yield text
        return
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin + _LONG) + 1 or len(text)
        yield text[begin:end]
        begin = end


def _chunks(text: str) -> list[_Chunk]:
    """What a text consists of, elisions opened."""
    text = plain(text)
    if _APOSTROPHE.search(text):
        text = _CLITIC.sub(" ", _ELISION.sub(" ", text))
    found: list[_Chunk] = _CHUNK.findall(_DECIMAL_COMMA.sub(r"\1.\2", text))
    return found


def _pairs(run: str, asked: bool) -> list[str]:
    """Every two neighbours; in a text the last character too, so that one character finds each by its beginning."""
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    return pairs if pairs and (asked or _HANGUL[0] <= run[-1] <= _HANGUL[1]) else [*pairs, run[-1]]


def _dotted(number: str) -> list[str]:
    """A version or a decimal number and what it begins with: 3.11.7 → 3, 3d11, 3d11d7. The dot is a letter here."""
    parts = number.split(".")
    return ["d".join(parts[: count + 1])[:_LONGEST_WORD] for count in range(len(parts))]


def _grouped(number: str, *, asked: bool) -> list[str]:
    """A number written in groups of three, as one; and its groups, since `80 443` are two ports."""
    groups, marks = re.findall(r"\d+", number), re.findall(r"\D", number)
    has_decimals = marks[-1] == "." or (marks[-1] == "," and len(marks) > 1 and "," not in marks[:-1])
    integer = "".join(groups[:-1]) if has_decimals else "".join(groups)
    whole = f"{integer}d{groups[-1]}" if has_decimals else integer
    forms = [whole] if asked and " " not in number else [whole, integer, *groups]
    return [form[:_LONGEST_WORD] for form in dict.fromkeys(forms)]


# FTS5 match expressions from analysed terms. Any punctuation a user types is legal, because none is left.
#
# FTS5's bm25() adds up every phrase of the expression and cannot weigh one against another, except by naming it
# twice: a word that is its own stem stands twice, so that every word of a question weighs the same.

Terms = Sequence[Sequence[str]]
_PHRASES_OF_A_WORD = 2


@dataclass(frozen=True, slots=True)
class Phrase:
    """A piece of a question as a full-text index is asked for it.

    Attributes:
        words: one token, or several that follow each other.
        times: how often it counts.
        is_start: any token that begins so will do.
    """

    words: tuple[str, ...]
    times: int = 1
    is_start: bool = False


def phrases(terms: Terms) -> list[Phrase]:
    """The pieces of a question.

    Where it is nothing but small words ("to be or not to be"), their sequence counts as a word more.
    """
    times = dict[str, int]()
    for forms in terms:
        for form in forms:
            times[form] = max(times.get(form, 0), _PHRASES_OF_A_WORD if len(forms) == 1 else 1)
    # One character of a script without spaces is indexed as the beginning of a pair.
    found = [Phrase((form,), count, len(form) == 1 and unspaced(form)) for form, count in times.items()]
    if len(terms) > 1 and all(forms[0] in STOP_WORDS for forms in terms):
        found.insert(0, Phrase(tuple(forms[0] for forms in terms)))
    return found


def any_of(terms: Terms) -> str:
    """An FTS5 expression that matches where any form of any term occurs; empty for no terms."""
    return " OR ".join(_fts5(phrase) for phrase in phrases(terms) for _ in range(phrase.times))


def _fts5(phrase: Phrase) -> str:
    return f'"{" ".join(phrase.words)}"' + (" *" if phrase.is_start else "")
