"""The analyser: the token string for every full-text index, and FTS5 expressions for questions.

It runs once per text, in Python; the full-text backends only split its output at spaces. So all backends find the same
rows, and the stock sqlite3 can still read the index.

A word is folded (accents, case, width) and indexed together with its stem, if that differs. Elisions are removed
(`l'export` → `export`). Identifiers, paths, versions, numbers and hashes are indexed whole and in parts
(`export_report`, `camelCase`, `3.11`, `1,000`, `dd58ae3`). Scripts without spaces become pairs of characters, and emoji
become words. Every token consists of letters and digits, so no text can be read as query syntax.
"""

from __future__ import annotations

import unicodedata
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from threading import Lock
from typing import Any

from msgspec import Struct

from filrouge.core import lazy_re as re
from filrouge.core.errors import BadConfig

# Folding: the normal form in which words are compared, without accents, case, width or marks. Latin, Greek and Arabic
# lose their marks. Cyrillic keeps й, and kana keep their voicing, because there the mark makes another letter. Vowel
# signs of Indic and Thai scripts are removed too, because backends disagree on whether they belong to a word. Emoji
# become words (`u1f44d`), because every backend treats symbols as punctuation.

_VOICING = "\u3099\u309a"


class _CharacterTable(dict[int, int | str | None]):
    """Translation table that computes each character's replacement on first use."""

    def __missing__(self, code: int) -> int | str | None:
        kind = unicodedata.category(chr(code))
        replacement: int | str | None = code
        if kind == "Cs" or code == 0:
            replacement = " "  # a lone surrogate cannot be encoded, and NUL ends a C string
        elif (kind[0] == "M" and chr(code) not in _VOICING) or kind == "Cf":
            replacement = None  # marks, soft hyphens and joiners occur inside words but are not part of them
        self[code] = replacement
        return replacement


#: Letters that Unicode does not decompose, but that people without the key type as plain letters.
_LIGATURES = {"œ": "oe", "Œ": "Oe", "æ": "ae", "Æ": "Ae"}
_STROKES = {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"}
_CHARACTERS = _CharacterTable({ord(letter): spelling for letter, spelling in (_LIGATURES | _STROKES).items()})

_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
_PICTURE = "[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
EMOJI = re.compile(f"{_FLAG}|{_PICTURE}")

#: Scripts without spaces between words, and Hangul, whose words include their particles.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)

_UNSPACED = re.compile(f"[{UNSPACED}]")


def is_unspaced(word: str) -> bool:
    """Return True if a character of the word belongs to a script without spaces between words."""
    return not word.isascii() and _UNSPACED.search(word) is not None


def plain(text: str) -> str:
    """Return the text without marks, ligatures, width variants and invisible characters; case is kept."""
    if text.isascii():
        return text.replace("\x00", " ")
    decomposed = unicodedata.normalize("NFKD", text)
    if "\u0306" in decomposed:
        decomposed = decomposed.replace("и\u0306", "й").replace("И\u0306", "Й")
    # Recompose Korean syllables and voiced kana, which NFKD decomposed.
    return unicodedata.normalize("NFC", decomposed.translate(_CHARACTERS))


def fold(text: str) -> str:
    """Return the text in lower case without accents or width variants: the form in which words are compared."""
    folded = plain(text)
    if folded.isascii():
        return folded.lower()
    # Some capitals casefold into a letter and a mark (İ), and some marks casefold into letters (ͅ).
    return plain(folded.casefold())


def emoji_word(emoji: str) -> str:
    """Return the word that stands for an emoji."""
    return "".join(f"u{ord(char):x}" for char in emoji)


# Stemming. The stemmers of several languages run one after another over the same word. A word therefore has the same
# stem in every text, and the language of a text need not be detected: `reports` and `rapports` both lose their plural;
# `manger`, `mangé` and `mangez` share a stem. A few unrelated words share a stem too; ranking by the whole word as well
# moves those down. Scripts of a single language (Cyrillic, Greek, Arabic) have their own stemmer, which does not affect
# other languages.

_MIN_STEMMED, _MAX_STEMMED = 3, 40
#: First and last letter of a script, and its stemmer.
_SCRIPTS = (("\u0370", "\u03ff", "greek"), ("\u0400", "\u04ff", "russian"), ("\u0600", "\u06ff", "arabic"))


class Stems:
    """Snowball stemmers run in sequence. One object may serve several threads."""

    def __init__(self, languages: Sequence[str]) -> None:
        # PyStemmer has no type stubs; only `algorithms`, `version` and `stemWord` are used here.
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
        """Return the stem of a folded word; the word itself if it is too short, too long, or not only letters."""
        if not _MIN_STEMMED <= len(word) <= _MAX_STEMMED or not word.isalpha():
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


# Stop words, English and French, folded. They are indexed with their positions and their low weight, so "to be or not
# to be" is found. A query contains them only if it has no other words, because a full-text index pays for every match,
# and half of all texts match "the".

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

__all__ = ["TextAnalyser", "fold"]

#: Increment this when the rules below change.
_RULES = 2
#: French first: applied to a word left by the English stemmer, the French one removes too much (`étudiant` and `étude`
#: would get the same stem).
LANGUAGES = ("french", "english")

_APOSTROPHE = re.compile("['’ʼ‘]")
_ELISION = re.compile(r"\b(?:[cdjlmnst]|(?:jus|lors|puis|quoi|pres|quel)?qu|entr)['’ʼ‘](?=[^\W\d])", re.IGNORECASE)
_CLITIC = re.compile(r"(?<=[^\W\d_])['’ʼ](?:s|t|d|m|ll|re|ve)\b", re.IGNORECASE)
#: Digits in groups of three, with an optional decimal part: 1,000 · 1 000,50 · 1.234,56 · 10_000.
_GROUPED = r"(?<![\w.,])\d{1,3}(?:(?:[ ,'’_]\d{3})+(?:[.,]\d+)?|(?:\.\d{3})+,\d+)(?![\w'’]|[.,]\d)"
#: A word with inner separators: `src/report.py`, `export_report`, `3.11`, `edge-runtime`, `fly.io`, `me@fly.io`.
_JOINED = r"[^\W_]+(?:[_.\-/\\:@+#~=][^\W_]+)*(?:\+\+|#)?"
_CHUNK = re.compile(rf"({_GROUPED})|({EMOJI.pattern})|({_JOINED})")
_PART = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_DOTTED = re.compile(r"(?<!\d)\d+(?:\.\d+)+(?!\d)")
_DECIMAL_COMMA = re.compile(r"(?<![\w,.])(\d+),(\d{1,2}|\d{4,})(?![\w,])")
_CAMEL = re.compile(
    r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])"
)
#: A commit, a digest or an id: hexadecimal, with both letters and digits. People usually quote seven characters.
_HASH = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}", re.IGNORECASE)
_QUOTED_OF_HASH = 7
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MAX_PIECES = 5
_RUN = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
_HANGUL = ("\uac00", "\ud7a3")
_SIGNED = {"++": "plusplus", "#": "sharp"}
_MAX_WORD = 64
#: Size, in characters, of the blocks in which a long text is split into words.
_BLOCK_SIZE = 20_000

Forms = tuple[str, ...]
_Chunk = tuple[str, str, str]
"""A number in groups, an emoji, or a word with its joints; two of the three are empty."""


class TextAnalyser:
    """Analyses English and French together, as developers mix them; other Latin-script languages are optional.

    Args:
        languages: Snowball names of the languages whose words are stemmed, in stemming order.

    Raises:
        BadConfig: a language has no stemmer.
    """

    def __init__(self, languages: Sequence[str] = LANGUAGES) -> None:
        self._stems = Stems(languages)
        #: Grows with the rules, and also differs for other languages and for another release of the stemmers, because
        #: stems differ then.
        self.version = _RULES * 1_000_000 + crc32(f"{self._stems.release} {languages}".encode()) % 1_000_000
        self._cached_words = lru_cache(maxsize=20_000)(self._words_of_part)
        self._cached_tokens = lru_cache(maxsize=20_000)(self._tokens_of)

    def tokens(self, text: str) -> str:
        """Return the token string to index."""
        # Nearly all text consists of plain words, mostly the same ones, so their tokens are cached.
        found = [
            self._cached_tokens(chunk) if chunk[2].isalpha() else self._tokens_of(chunk)
            for block in _blocks(text)
            for chunk in _chunks(block)
        ]
        return " ".join([tokens for tokens in found if tokens])

    def _tokens_of(self, chunk: _Chunk) -> str:
        return " ".join([form for forms, _ in self._words_of(chunk, asked=False) for form in forms])

    def terms(self, text: str) -> tuple[Forms, ...]:
        """Return the meaningful words of a query with their forms, each word once; all words if none is meaningful.

        The first form is the folded word itself. A stop word in capitals counts as meaningful (AI is not the French
        verb), unless the whole text is in capitals.
        """
        words = dict[Forms, bool]()
        for chunk in _chunks(text):
            for forms, is_capital in self._words_of(chunk, asked=True):
                words[forms] = words.get(forms, False) or is_capital
        all_capitals = text.isupper()
        return tuple(
            forms
            for forms, is_capital in words.items()
            if forms[0] not in STOP_WORDS or (is_capital and not all_capitals)
        ) or tuple(words)

    def _words_of(self, chunk: _Chunk, *, asked: bool) -> Iterator[tuple[Forms, bool]]:
        """Yield the words of a chunk, each with its forms and whether it is written in capitals.

        A text is also indexed under the prefixes of its versions and hashes; a query for one matches that value only.
        """
        grouped, emoji, found = chunk
        if emoji:
            yield (emoji_word(emoji),), False
        elif grouped:
            yield from (((form,), False) for form in _grouped(grouped, asked=asked))
        elif found.isalnum() and len(words := self._cached_words(found, asked)) == 1 and not _HASH.fullmatch(found):
            yield words[0], len(found) > 1 and found.isupper()
        else:
            for run in _RUN.findall(found) if is_unspaced(found) else (found,):
                yield from ((forms, False) for forms in self._joined(run, asked=asked))

    def _joined(self, chunk: str, *, asked: bool) -> Iterator[Forms]:
        """Yield a word with separators or digits inside, whole and in parts."""
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
                words = self._cached_words(part, asked)
                yield from words
                pieces += len(words)
        sign = next((spoken for sign, spoken in _SIGNED.items() if chunk.endswith(sign)), "")
        if (pieces > 1 and rest.strip()) or sign:
            yield from self._compound(chunk, sign)

    def _compound(self, chunk: str, sign: str) -> Iterator[Forms]:
        """Yield a compound without separators, and the last name of a path; skip forms too long to be typed."""
        name = chunk.replace("\\", "/").rpartition("/")[2] if "/" in chunk or "\\" in chunk else chunk
        for compound in dict.fromkeys((name, chunk)):
            parts = _PART.findall(fold(compound))
            joined = "".join(parts) + sign
            if len(joined) <= _MAX_WORD and (len(parts) > 1 or compound is chunk) and not is_unspaced(joined):
                yield (joined,)

    def _hash(self, part: str, *, asked: bool) -> Iterator[Forms]:
        digest = part.lower()
        start = digest[:_QUOTED_OF_HASH]
        if asked:
            yield tuple(dict.fromkeys((digest, start)))
        else:
            yield from ((form,) for form in dict.fromkeys((start, digest)))

    def _words_of_part(self, part: str, asked: bool) -> tuple[Forms, ...]:
        """Return the words of a part without separators: camelCase and digits are split, each word has its stem."""
        pieces = [part] if part.islower() and part.isalpha() else _CAMEL.split(part)
        if len(pieces) > _MAX_PIECES and sum(piece.isdecimal() for piece in pieces) > 1:
            pieces = [part]  # a random id: its pieces are not words
        words: list[Forms] = []
        for piece in pieces:
            for word in _PART.findall(fold(piece)):
                words.extend(self._forms(word, asked=asked))
        if len(pieces) > 2 and not part.isalpha():
            names = [name for name in _LETTERS.findall(part) if len(_CAMEL.split(name)) > 1]  # iPhone15 gives iPhone
            words.extend((fold(name),) for name in names)
        return tuple(words)

    def _forms(self, word: str, *, asked: bool) -> Iterator[Forms]:
        if is_unspaced(word):
            yield from ((pair,) for pair in _pairs(word, asked))
            return
        word = word[:_MAX_WORD]
        stem = word if word in STOP_WORDS else self._stems.of(word)
        yield (word,) if stem == word else (word, stem)


def _blocks(text: str) -> Iterator[str]:
    """Yield the text, or a very long one in blocks of whole lines, because its chunks take thirty times its size."""
    if len(text) <= _BLOCK_SIZE:
        yield text
        return
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin + _BLOCK_SIZE) + 1 or len(text)
        yield text[begin:end]
        begin = end


def _chunks(text: str) -> list[_Chunk]:
    """Return the chunks of a text, without elisions."""
    text = plain(text)
    if _APOSTROPHE.search(text):
        text = _CLITIC.sub(" ", _ELISION.sub(" ", text))
    found: list[_Chunk] = _CHUNK.findall(_DECIMAL_COMMA.sub(r"\1.\2", text))
    return found


def _pairs(run: str, asked: bool) -> list[str]:
    """Return all pairs of adjacent characters; in an indexed text also the last one, for one-character queries."""
    pairs = [run[start : start + 2] for start in range(len(run) - 1)]
    return pairs if pairs and (asked or _HANGUL[0] <= run[-1] <= _HANGUL[1]) else [*pairs, run[-1]]


def _dotted(number: str) -> list[str]:
    """Return a version or decimal number with its prefixes: 3.11.7 → 3, 3d11, 3d11d7. A "d" replaces the dot."""
    parts = number.split(".")
    return ["d".join(parts[: count + 1])[:_MAX_WORD] for count in range(len(parts))]


def _grouped(number: str, *, asked: bool) -> list[str]:
    """Return a number in groups of three as one number, and its groups, because `80 443` are two ports."""
    groups, marks = re.findall(r"\d+", number), re.findall(r"\D", number)
    has_decimals = marks[-1] == "." or (marks[-1] == "," and len(marks) > 1 and "," not in marks[:-1])
    integer = "".join(groups[:-1]) if has_decimals else "".join(groups)
    value = f"{integer}d{groups[-1]}" if has_decimals else integer
    forms = [value] if asked and " " not in number else [value, integer, *groups]
    return [form[:_MAX_WORD] for form in dict.fromkeys(forms)]


# FTS5 match expressions from analysed terms. No user input can break the syntax, because no punctuation is left. FTS5's
# bm25() sums over all phrases of the expression, and the only way to weight a phrase is to repeat it. A word that is
# its own stem is therefore repeated, so that every word of a question has the same weight.

Terms = Sequence[Sequence[str]]
_PHRASES_OF_A_WORD = 2


class Phrase(Struct, frozen=True):
    """One phrase of a full-text query.

    Attributes:
        words: one token, or several consecutive ones.
        times: its weight, as the number of repetitions.
        is_start: match any token with this prefix.
    """

    words: tuple[str, ...]
    times: int = 1
    is_start: bool = False


def phrases(terms: Terms) -> list[Phrase]:
    """Return the phrases of a question.

    If it consists only of stop words ("to be or not to be"), the whole sequence is added as a phrase.
    """
    times = dict[str, int]()
    for forms in terms:
        for form in forms:
            times[form] = max(times.get(form, 0), _PHRASES_OF_A_WORD if len(forms) == 1 else 1)
    # A single character of a script without spaces is indexed as the beginning of a pair.
    found = [Phrase((form,), count, len(form) == 1 and is_unspaced(form)) for form, count in times.items()]
    if len(terms) > 1 and all(forms[0] in STOP_WORDS for forms in terms):
        found.insert(0, Phrase(tuple(forms[0] for forms in terms)))
    return found


def stems(terms: Terms) -> Terms:
    """Return each word by its last form alone, which all of its inflections are indexed under.

    It finds the same rows in half the time, but does not prefer those with the word as it was written.
    """
    return tuple(dict.fromkeys(forms[-1:] for forms in map(tuple, terms)))


def any_of(terms: Terms) -> str:
    """Return an FTS5 expression that matches if any form of any term occurs; empty for no terms.

    Its bm25(), times `common_times`, is that of the phrases with their repetitions.
    """
    common = common_times(terms)
    return " OR ".join(_fts5(phrase) for phrase in phrases(terms) for _ in range(phrase.times // common))


def common_times(terms: Terms) -> int:
    """Return how often each phrase would be repeated, if that is the same for all, else 1.

    FTS5 takes as long for a repetition as for another phrase.
    """
    times = {phrase.times for phrase in phrases(terms)}
    return times.pop() if len(times) == 1 else 1


def all_of(tokens: Iterable[str]) -> str:
    """Return an FTS5 expression that matches if every one of these tokens occurs."""
    return " AND ".join(_fts5(Phrase((token,))) for token in tokens)


def _fts5(phrase: Phrase) -> str:
    return f'"{" ".join(phrase.words)}"' + (" *" if phrase.is_start else "")
