"""Own words and material: separates the user's own words from quoted or pasted text in a prompt.

Only the user's own words teach anything (RULE-3). A pasted page, an e-mail, a diff, a chat, a text to translate or
reported speech is material: it may hold any sentence, so none of it becomes a memory. A prompt is read in four steps:

1. Delimited regions: fences, tags, rulers, BEGIN and END, long quotations.
2. Lines whose shape shows a program or a document: shell, logs, diffs, data, headers, headings, speakers.
3. Sentences that hand over text: a task on a text, a lead-in, a question about the text before or after.
4. Sentences that report the words of others.

In doubt, text is material: a missed rule can be stated again, but a rule planted by a page would be obeyed. Offsets
never change: `own_words` replaces material with blanks of the same length.

Pure: no database, no file.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from msgspec import Struct

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.core import lazy_re
from filrouge.extraction.vocabulary import fold

# ruff: noqa: E501 (a pattern is read best on one line)


#: From this number of words on, a quotation is text rather than a name or a value.
_MIN_QUOTE_WORDS: Final = 5
#: Maximum words of a title line, and of a label before a colon.
_MAX_TITLE_WORDS: Final = 9
_MAX_LABEL_WORDS: Final = 5
#: Of a very long prompt, only this many characters at each end are read.
_MAX_END_CHARS: Final = 60_000
#: Texts of up to this many characters are kept with their spans in large numbers: a project's prompts are read again
#: whenever its threads are.
_MAX_SHORT_CHARS: Final = 2000
#: From this many characters and paragraphs on, a text without a lead-in is a paste; nobody types that much.
_MIN_PASTE_CHARS: Final = 1500
_MIN_PASTE_PARAGRAPHS: Final = 5


class Part(Struct, frozen=True):
    """Characters `start` to `end` of a prompt; `is_own` if they are the user's own words."""

    start: int
    end: int
    is_own: bool


def parts(text: str) -> tuple[Part, ...]:
    """Return the whole text, in order, as alternating parts of own words and material."""
    found: list[Part] = []
    position = 0
    for start, end in _material(text):
        if position < start:
            found.append(Part(position, start, is_own=True))
        found.append(Part(start, end, is_own=False))
        position = end
    if position < len(text):
        found.append(Part(position, len(text), is_own=True))
    return tuple(found)


def own_words(text: str) -> str:
    """Return the text with material replaced by blanks; line breaks and offsets stay."""
    return "".join(
        text[part.start : part.end] if part.is_own else _NO_BREAK.sub(" ", text[part.start : part.end])
        for part in parts(text)
    )


def material(text: str) -> tuple[str, ...]:
    """Return the pieces of the text that are not the user's own words."""
    return tuple(text[part.start : part.end] for part in parts(text) if not part.is_own)


_NO_BREAK: Final = lazy_re.compile(r"[^\n\r]")

# --- 1. Delimited regions --------------------------------------------------------------------------------------------

_FENCE: Final = lazy_re.compile(r"^[ \t>*-]{0,6}(?P<mark>`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_TRIPLE: Final = lazy_re.compile(r'"""|\'\'\'')
_CODE: Final = lazy_re.compile(r"`[^`\n]{1,200}`")
_TAG: Final = lazy_re.compile(
    r"(?<![\w`])(?:<|&lt;)(?P<close>/?)(?P<name>[^\W\d][\w:.-]{0,60})(?P<rest>(?:\s[^<>]{0,300}?)?)(?P<self>/?)(?:>|&gt;)"
)
_INLINE_TAGS: Final = frozenset(
    "b i u s em strong code kbd samp var mark small sub sup br hr img wbr input meta link".split()
)
_VOID_TAGS: Final = frozenset("br hr img wbr input meta link".split())
_COMMENT: Final = lazy_re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_SQUARE: Final = lazy_re.compile(
    r"\[(?P<name>quote|code|spoiler|inst|sys|system|document|file|page|email)\b[^\]\n]{0,80}\]", re.IGNORECASE
)
_RULER: Final = lazy_re.compile(
    r"^[ \t]*(?P<mark>[-=*_~+<>─═━—–#|/\\%@^•])(?:[ \t]?(?P=mark)){2,}[ \t]*(?P<label>\S[^\n]{0,80})?$", re.MULTILINE
)
_BEGIN: Final = lazy_re.compile(
    r"^[^\w\n]{0,10}(?:BEGIN|START|D[ÉE]BUT|INICIO|COMIENZO|ANFANG)\b[^a-z\n]{0,60}$", re.MULTILINE
)
_FINISH: Final = lazy_re.compile(r"^[^\w\n]{0,10}(?:END|FIN|STOP|EOF|FINAL|ENDE)\b[^a-z\n]{0,60}$", re.MULTILINE)
#: Quotation marks that open and close, over any number of lines.
_PAIRS: Final = (("“", "”"), ("«", "»"), ("„", "“"), ("„", "”"))
_QUOTES: Final = (
    lazy_re.compile(r'(?<![\w"])"[^"\n]{1,4000}"(?!\w)'),
    lazy_re.compile(r'(?:^|:)[ \t]{0,4}(?:\n[ \t]{0,4})?"[^"]{1,20000}"(?=[\s.,;:!?)\]]|\Z)', re.MULTILINE),
    lazy_re.compile(r"(?<![\w'’])'[^'\n]{1,2000}'(?![\w'’])"),
    lazy_re.compile(r"(?<![\w‘])‘[^’\n]{1,2000}’(?!\w)"),
    _CODE,
)
#: Characters that occur in commands, paths and settings but not in sentences.
_CODELIKE: Final = lazy_re.compile(r"(?:^|\s)--?[a-z]|[/\\_=<>{}$|&@#]|\w\.\w|\(\)")


def _fence_regions(text: str) -> Iterator[tuple[int, int]]:
    position = 0
    while opening := _FENCE.search(text, position):
        mark = opening["mark"][:3]
        close = re.compile(rf"^[ \t>]*{re.escape(mark)}[^\n]*$", re.MULTILINE).search(text, opening.end())
        position = close.end() if close else len(text)
        yield opening.start(), position


def _tag_regions(text: str) -> Iterator[tuple[int, int]]:
    low = text.lower()
    yield from ((match.start(), match.end()) for match in _COMMENT.finditer(text))
    codes = [match.span() for match in _CODE.finditer(text)]
    position, index = 0, 0
    while opening := _TAG.search(text, position):
        position = opening.end()
        while index < len(codes) and codes[index][1] <= opening.start():
            index += 1
        if index < len(codes) and codes[index][0] < opening.start():
            continue
        name, starts_line = opening["name"].lower(), _at_line_start(text, opening.start())
        if name in _VOID_TAGS or (opening["self"] and not starts_line):
            yield opening.span()
            continue
        if opening["close"]:
            if starts_line or not text[position : position + 1].strip():
                yield 0, position
            continue
        closers = [
            low.find(f"{mark}/{name}", position) if name in _INLINE_TAGS else low.rfind(f"{mark}/{name}", position)
            for mark in ("<", "&lt;")
        ]
        closing = max(closers)
        if closing >= 0:
            end = re.compile(r">|&gt;").search(text, closing)
            position = end.end() if end else len(text)
            yield opening.start(), position
        elif starts_line or opening["rest"].strip() or re.match(r"\s+[^\Wa-zà-ÿ\d]", text[position : position + 8]):
            yield opening.start(), len(text)  # unclosed
            return


def _bracket_regions(text: str) -> Iterator[tuple[int, int]]:
    low, position = text.lower(), 0
    while opening := _SQUARE.search(text, position):
        closing = low.rfind(f"[/{opening['name'].lower()}", opening.end())
        after = low.find("]", closing) + 1 if closing >= 0 else 0
        position = len(text) if opening["name"].lower() in ("inst", "sys", "system") else after or len(text)
        yield opening.start(), position


def _delimited_regions(text: str) -> Iterator[tuple[int, int]]:
    """Yield the regions between rulers, between BEGIN and END, and between triple quotes."""
    first = _BEGIN.search(text)
    ends = list(_FINISH.finditer(text))
    if first:
        yield first.start(), max((match.end() for match in ends if match.start() > first.start()), default=len(text))
    marks = list(_TRIPLE.finditer(text))
    for opening, closing in zip(marks[::2], [*marks[1::2], None], strict=False):
        yield opening.start(), closing.end() if closing else len(text)
    rulers = [
        match
        for match in _RULER.finditer(text)
        if not (
            match["label"] and match["mark"] in "#|/@<>-*+•" and len(match.group().strip()) - len(match["label"]) < 4
        )
    ]
    if not rulers:
        return
    before, after = text[: rulers[0].start()], text[rulers[-1].end() :]
    closed = len(rulers) % 2 == 0 and len(_paragraphs(after)) <= 1
    yield rulers[0].start(), rulers[-1].end() if closed else len(text)
    if len(_paragraphs(before)) > 1 or (len(rulers) == 1 and not _asks(before)):
        yield 0, rulers[0].start()


def _at_line_start(text: str, position: int) -> bool:
    return not text[text.rfind("\n", 0, position) + 1 : position].strip(" \t>*-")


def _paragraphs(text: str) -> list[str]:
    return [paragraph for paragraph in re.split(r"\n[ \t]*\r?\n", text) if paragraph.strip()]


# --- 2. Lines ----------------------------------------------------------------------------------------------------------

#: A line written by a program; the rest of its paragraph is then program output too.
_MACHINE: Final = lazy_re.compile(
    r"""^\s*(?:
        >                                                             # quoted in a mail or a review
      | \|                                                            # quoted, or a table
      | [$%]\s\S | [\w.-]+@[\w.-]+[:~ ]\S*[$\#>] | PS\s[A-Z]:\\.*>      # a shell's prompt
      | [\[(]?\d{4}-\d\d-\d\d[T ]\d\d:\d\d | [\[(]?\d\d:\d\d:\d\d | [A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d\s     # logs
      | \[\w+\]\s | (?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|TRACE|PANIC|NOTICE)\b
      | (?:error|warning|warn|info|debug|fatal|trace|panic|notice)\s*[:\[]
      | (?:\w+\.)*[A-Z]\w*(?:Error|Exception|Warning)\b:? | Traceback\s | File\s" | at\s\S+\s?\( | at\s\S+:\d+ | thread\s'
      | \+\s?[^\W\d] | [\w.-]{1,24}>\s\S | @?[\w.-]{1,24}(?:\s[\w.-]{1,24})?\s[\[(]\d{1,2}[:h]\d\d    # added lines, chats
      | @[\w.-]+\s?:\s
      | diff\s--git | @@\s | [-+]{3}\s\S | index\s[0-9a-f]{7} | Index:\s | commit\s[0-9a-f]{7} | [0-9a-f]{7,40}\s\S
      | (?:Signed-off-by|Co-authored-by|Reviewed-by|Author|Change-Id)\s?:
      | (?:feat|fix|chore|docs|refactor|style|perf|build|ci|revert|test)(?:\([^)\n]{1,40}\))?!?:\s
      | (?:PASS|FAIL|PASSED|FAILED|OK)\b\s | [✓✗✔✘×●○]\s
      | (?:Feature|Scenario|Given|When|Then|Background|Examples|Fonctionnalité|Scénario|Étant\sdonné|Alors|Característica|Escenario|Dado|Cuando|Entonces)(?:\s?:|\s(?=\S.*\n\s*(?:Then|And|Alors|Et|Entonces|Y)\b))
      | [{}\[\]()](?!\s?[xX ]?\])  | ["']?[\w-]+["']?\s*[:=]\s*[\[{]  # JSON, markup
      | ["'][^"'\n]*["']\s*(?:,|:|\]|$)
      | [\w.-]+\s?=\s?["'] | (?:[\w-]+=["'][^"'\n]*["']\s*){1,}$
      | (?:self\.)?assert\w*[\s(]
      | (?:def|class|import|from\s\w+\simport|const|let|var|function|return|export|async|public|private|func|fn|elif
           |else:|try:|except|SELECT|INSERT|UPDATE|DELETE\sFROM|CREATE\sTABLE)\b(?=.*[(={:;*])
    )""",
    re.VERBOSE,
)
#: A line of code or a comment; its neighbours are judged separately.
_CODE_LINE: Final = lazy_re.compile(
    r"^\s*(?:\#\s*[a-z!]|//|/\*|--\s|[\w.]+\(.*\);?\s*$|.*[{}]\s*$|[\w.]+\s=\s\S+\s*$|[^\s-][^.!?\n]*[\w)\]\"'];\s*$)"
)
#: Two short fields without spaces, and a third.
_FIELDS: Final = lazy_re.compile(r"^\s*[^\s,;|]{1,40}([,;|])[^\s,;|]{0,40}\1\S")
_INDENTED: Final = lazy_re.compile(r"^(?: {4}|\t)\s*\S")
_BULLET: Final = lazy_re.compile(r"^\s*(?:[-*•–]|\d{1,2}[.)]|[a-z]\))\s+")
_HEADING: Final = lazy_re.compile(r"^\s{0,3}#{1,6}\s+\S")
#: A ticket: "#142 opened by ana", "PROJ-142: …".
_NUMBERED_ITEM: Final = lazy_re.compile(r"^\s*(?:#\d+\b|[A-Z][A-Z\d]{1,9}-\d+\s?:)")
_URL_LINE: Final = lazy_re.compile(r"^\s*<?https?://\S+>?\s*$")
_FILE_LINE: Final = lazy_re.compile(
    r"^\s*[*_`]{0,3}[\w./-]+\.(?:md|txt|rst|adoc|py|js|ts|ya?ml|json|toml|html?|cfg|ini|csv|docx?|pdf)[*_`]{0,3}\s*:?\s*$",
    re.IGNORECASE,
)
_WROTE: Final = lazy_re.compile(
    r"^(?:on|le|el|am|op|em|il)\b.{4,120}\b(?:wrote|a ecrit|escribio|schrieb|escreveu|ha scritto)\s?:\s*$"
)
_HEADER: Final = lazy_re.compile(
    r"^(?:from|to|cc|bcc|subject|sent|date|reply-to|de|a|objet|envoye|para|asunto|enviado|fecha|von|an|betreff|gesendet)\s?:\s*\S"
)
_LABEL: Final = lazy_re.compile(r"^[^\w\n]{0,6}(?P<label>[^\W_][^:\n]{0,48}?)[*_]{0,2}\s?:(?:[*_]{0,2})(?=\s|$)")
_STAMPED: Final = lazy_re.compile(
    r"^[^\w\n]{0,3}(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4},?\s*)?\d{1,2}[:h.]\d\d(?::\d\d)?\s?(?:[ap]\.?m\.?)?[\])]?\s*[-–|>,]?\s*[@<*]{0,2}[^\W\d][^:\n]{0,40}\s?[:>]\s"
)
_NAME_AND_TIME: Final = lazy_re.compile(
    r"^[^\w\n]{0,3}[^\W\d][\w .'’-]{0,40}[^\w\n]{0,4}\s*[,\[(—–-]?[^.!?\n]{0,24}\d{1,2}[:h]\d\d\s?(?:[ap]\.?m\.?)?[)\]*]{0,3}\s*$",
    re.IGNORECASE,
)
_ROLES: Final = lazy_re.compile(
    r"^[^\w\n]{0,6}(?:human|assistant|user|system|ai|bot|tool|developer|model|chatgpt|gpt|claude|utilisateur|utilisatrice|assistante?|systeme|usuari[oa]|asistente|sistema|benutzer|assistent|ia)[*_\]]{0,2}\s?(?:\(.{0,30}\))?\s?[:>]"
)
_GREETING: Final = lazy_re.compile(
    r"^(?:(?:hi|hello|dear|hey|bonjour|chers?|cheres?|salut|hola|buenos dias|estimad\w+|querid\w+|liebe\w*|hallo)\b[^.!?\n]{0,50}[,:]\s*$)"
)
_CLOSING: Final = lazy_re.compile(
    r"^(?:(?:kind|best|warm)?\s?regards|best(?: wishes)?|cheers|yours\b.{0,20}|sincerely|many thanks|thanks|bien (?:a vous|cordialement)|cordialement|amities|veuillez agreer.{0,80}|(?:un )?(?:cordial )?saludos?|atentamente|un abrazo|mit freundlichen.{0,20}|-- ?),?\s*$"
)
#: Labels with which users introduce their own statements.
_OWN_LABEL: Final = lazy_re.compile(
    r"\b(?:rules?|note|notes|remember|reminder|remind|decisions?|decided|context|important|todo|ps|p\.s|nb|n\.b|fyi|btw|update|from now on|going forward|always|never|correction|convention|conventions|policy|guidelines?|preferences?|my|our|we|i|i'm|you|please|by default|for this (?:repo|project)|in this (?:repo|project)|constraints?|facts?|setup|stack|info|reason|because|why|raison|car|parce que|motivo|porque|heads up|answer|question|"
    r"regles?|retiens|rappel|rappelle-toi|souviens-toi|contexte|a noter|a partir de maintenant|desormais|dorenavant|toujours|jamais|mes|mon|ma|nos|notre|nous|on|je|tu|te|par defaut|consignes?|contraintes?|infos?|au fait|attention|"
    r"reglas?|recuerda|nota|notas|contexto|importante|a partir de ahora|siempre|nunca|mis?|nuestr[oa]s?|nosotros|yo|por defecto|decision|decidido|ojo|restricciones|preferencias)\b"
)

#: Labels of records: minutes, an agenda, a ticket.
_RECORD_LABEL: Final = lazy_re.compile(
    r"^[^\w\n]{0,6}(?:present|attendees|participants?|absent|apologies|agenda|minutes|action items|actions|decisions taken|stand-?up|retro\w*|sync|transcript|slide"
    r"|presents|participants|absents|ordre du jour|compte[- ]rendu|proces-verbal|releve de decisions|diapo\w*"
    r"|presentes|asistentes|participantes|ausentes|orden del dia|acta|acuerdos|diapositiva)\b[^.!?\n]{0,50}(?::|$|\d)"
)

_LINE: Final = lazy_re.compile(r"[^\n\r]+")


class _Line(Struct):
    """A line of the prompt.

    Attributes:
        plain: its folded text.
        first: whether it begins a paragraph.
        taken: whether all of it is already material.
    """

    start: int
    end: int
    text: str
    plain: str
    first: bool
    taken: bool


def _lines(text: str, taken: bytearray) -> list[_Line]:
    """Return the non-blank lines."""
    found: list[_Line] = []
    folded, previous = fold(text), 0
    blank = True
    for match in _LINE.finditer(text):
        start, end = match.span()
        words = match.group()
        visible = words.strip()
        blank = blank or text.count("\n", previous, start) > 1
        previous = end
        if not visible:
            blank = True
            continue
        visible_start = start + len(words) - len(words.lstrip())
        is_taken = taken.count(1, visible_start, visible_start + len(visible)) == len(visible)
        found.append(_Line(start, end, words, folded[start:end], blank, is_taken))
        blank = False
    return found


def _document_regions(text: str, lines: list[_Line]) -> Iterator[tuple[int, int]]:
    """Yield the lines and paragraphs whose shape shows a program or a document."""
    open_lines = [line for line in lines if not line.taken]
    if not open_lines:
        return
    start = _find_document_start(open_lines)
    if start is not None:
        yield start, len(text)
    previous: _Line | None = None
    machine = in_list = False
    strong: list[_Line] = []
    for line, kind in zip(open_lines, _kinds(open_lines), strict=True):
        if line.first:
            machine = False
        if kind == "machine":
            machine = True
        if machine:
            strong.append(line)
        bullet = _BULLET.match(line.text) is not None
        if machine or kind == "code" or (kind == "indented" and not bullet):
            yield line.start, line.end
        elif bullet and not in_list and previous is not None and not _leads_a_list(previous):
            yield line.start, len(text)
        in_list = bullet or (in_list and line.text[:1].isspace())
        previous = line
    if strong:
        yield strong[0].start, strong[-1].end


def _kinds(lines: list[_Line]) -> list[str]:
    """Return the kind of each line: "machine", "code", "indented" or "plain"."""
    kinds = [
        "machine"
        if _MACHINE.match(line.text)
        else "indented"
        if _INDENTED.match(line.text)
        else "code"
        if _CODE_LINE.match(line.text)
        else "plain"
        for line in lines
    ]
    paragraphs: list[list[int]] = []
    for number, line in enumerate(lines):
        if line.first or not paragraphs:
            paragraphs.append([])
        paragraphs[-1].append(number)
    for numbers in paragraphs:
        paragraph = [lines[number] for number in numbers]
        signs = {line.text.lstrip()[:1] for line in paragraph if line.text.lstrip()[:1] in "+-"}
        removed = len(paragraph) > 1 and all(re.match(r"-[^\W\d]", line.text) for line in paragraph[:2])
        if signs == {"+", "-"} or removed or _is_table(paragraph) or _is_mapping(paragraph):
            for number in numbers:
                kinds[number] = "machine"
    return kinds


def _is_mapping(lines: list[_Line]) -> bool:
    """Return whether a key precedes an indented list or indented text, as in YAML."""
    return any(
        re.match(r"[^\s:]{1,30}\s?:\s?[>|]?[-+]?\s*$", key.text)
        and (re.match(r"\s+-\s", value.text) or (re.search(r"[>|][-+]?\s*$", key.text) and value.text[:1].isspace()))
        and key.text[:1].islower()
        for key, value in itertools.pairwise(lines)
    )


def _is_table(lines: list[_Line]) -> bool:
    """Return whether every line has the same separators."""
    if len(lines) < 2:
        return False
    if all(_FIELDS.match(line.text) for line in lines):
        return True
    for mark, least in (("\t", 1), (";", 2), (",", 2), ("|", 1)):
        counts = {line.text.count(mark) for line in lines}
        if len(counts) == 1 and min(counts) >= least and not (mark == "," and all(", " in line.text for line in lines)):
            return True
    return False


def _find_document_start(lines: list[_Line]) -> int | None:
    """Return the start of a mail, chat, page, ticket or other document that runs to the end of the text, or None."""
    signed = max((number for number, line in enumerate(lines) if _CLOSING.match(line.plain.strip())), default=-1)
    for number, line in enumerate(lines):
        plain = line.plain.strip()
        if (
            _HEADING.match(line.text)
            or _NUMBERED_ITEM.match(line.text)
            or _URL_LINE.match(line.text)
            or (_FILE_LINE.match(line.text) and number + 1 < len(lines))
            or _WROTE.match(plain)
            or _ROLES.match(plain)
            or _STAMPED.match(line.text)
            or (_RECORD_LABEL.match(plain) and number + 1 < len(lines))
        ):
            return line.start
        if number < signed and _GREETING.match(plain):
            return line.start
        if number + 1 < len(lines) and _HEADER.match(plain) and _HEADER.match(lines[number + 1].plain.strip()):
            return line.start
    stamps = [
        line
        for number, line in enumerate(lines[:-1])
        if _NAME_AND_TIME.match(line.text) and not lines[number + 1].first and len(line.text.split()) <= 8
    ]
    if len(stamps) >= 2 or (stamps and stamps[0] is lines[0]):
        return stamps[0].start
    labelled = [line for line in lines if _is_foreign_label(line)]
    fields = [line for line in lines if _LABEL.match(line.plain)]
    if len(labelled) >= 2 or (labelled and len(fields) >= 3):
        title = lines[0] if _is_title(lines) else labelled[0]
        return min(title.start, labelled[0].start, _first_of_fields(lines, labelled[0]))
    if labelled and len(fields) == len(lines) > 1:
        return lines[0].start
    if _is_title(lines):
        return lines[0].start
    paragraphs = sum(line.first for line in lines)
    if paragraphs >= _MIN_PASTE_PARAGRAPHS and lines[-1].end - lines[0].start > _MIN_PASTE_CHARS:
        return lines[0].start
    return None


def _first_of_fields(lines: list[_Line], field: _Line) -> int:
    """Return the start of the block of labelled fields that ends with this field."""
    number = lines.index(field)
    while number and not lines[number].first and _LABEL.match(lines[number - 1].plain):
        number -= 1
    return lines[number].start


def _is_foreign_label(line: _Line) -> bool:
    """Return whether a line has a label such as "Bob: …" or "status: …" that users do not put before own statements."""
    found = _LABEL.match(_BULLET.sub("", line.plain))
    if found is None or len(found["label"].split()) > _MAX_LABEL_WORDS:
        return False
    return _OWN_LABEL.search(found["label"]) is None


def _is_title(lines: list[_Line]) -> bool:
    """Return whether the first line is the title of the following text."""
    first = lines[0]
    if len(lines) < 2 or len(first.text.split()) > _MAX_TITLE_WORDS or _BULLET.match(first.text):
        return False
    words = first.text.strip()
    if _GENRE.match(first.plain.strip()) and words[-1] not in ".?!,;…:" and len(words.split()) <= 7:
        return True
    if words[-1] in ".?!,;:…" or not (words[0].isupper() or words[0] in "*_[("):
        return False
    return (
        not _SPEECH.search(first.plain)
        and not _asks(first.text)
        and (lines[1].first or _BULLET.match(lines[1].text) is not None or "|" in words or _is_foreign_label(lines[1]))
    )


def _leads_a_list(line: _Line) -> bool:
    """Return whether a line introduces the user's own list."""
    plain = line.plain.strip()
    return plain.endswith(":") or (_SPEECH.search(plain) is not None and not plain.endswith("?"))


# --- 3. Text that is handed over -----------------------------------------------------------------------------------------

_SPEECH: Final = lazy_re.compile(
    r"\b(?:i|i'm|i've|i'd|we|we're|we've|my|our|us|me|you|your|let's|please|je|j'|j'ai|nous|on|mon|ma|mes|notre|nos|tu|te|toi|vous|yo|mi|mis|nuestr[oa]s?|nosotros|tengo|tenemos|vamos|from now on|a partir de)\b|\b(?:j|t)'"
)
_TEXT_NOUN: Final = (
    r"(?:texts?|paragraphs?|passages?|sentences?|wording|e-?mails?|mails?|messages?|letters?|memos?|notes?|notices?|(?:web ?)?pages?|website|site|articles?|blog ?posts?|posts?|threads?|tweets?|comments?|reviews?|feedback|docs?|documents?|documentation|readme(?:\.md)?|specs?|specifications?|tickets?|issues?|bug reports?|reports?|complaints?|proposals?|drafts?|contracts?|agreements?|handbooks?|guides?|manuals?|leaflets?|brochures?|posters?|signs?|flyers?|minutes|transcripts?|conversations?|chats?|excerpts?|quotes?|quotations?|snippets?|diffs?|patch(?:es)?|commit messages?|changelogs?|logs?|outputs?|stack ?traces?|tracebacks?|errors?|json|yaml|csv|tables?|slides?|announcements?|newsletters?|prompts?|descriptions?|summary|abstracts?|essays?|story|poems?|cover letter|recipes?|forms?|grammar|spelling|tone|phrasing|typos?|translation|paste|code|file|quote|advert|ad|instructions"
    r"|textes?|paragraphes?|phrases?|courriels?|courriers?|lettres?|billets?|fil|commentaires?|avis|documents?|fiches?|rapports?|plaintes?|reclamations?|brouillons?|contrats?|bail|reglement|guides?|manuels?|affiches?|panneaux?|panneau|compte[s-]?[ -]rendus?|proces-verba\w+|pv|transcriptions?|discussions?|extraits?|citations?|journal|journaux|sorties?|erreurs?|tableaux?|annonces?|descriptions?|histoires?|recettes?|formulaires?|grammaire|orthographe|ton|traduction|cahier des charges"
    r"|textos?|parrafos?|frases?|correos?|mensajes?|cartas?|notas?|paginas?|sitio|web|articulos?|entradas?|hilos?|comentarios?|documentos?|documentacion|fichas?|incidencias?|informes?|quejas?|reclamacion(?:es)?|borrador(?:es)?|contratos?|reglamento|normas|guias?|folletos?|cartel(?:es)?|avisos?|actas?|conversacion(?:es)?|extractos?|citas?|codigo|registros?|salidas?|tablas?|anuncios?|descripcion(?:es)?|resumen|historias?|recetas?|formularios?|gramatica|ortografia|tono|traduccion)"
)
_POINTER: Final = r"(?:this|these|the following|following|below|above|ceci|cela|ca|(?:cet?|cette|ces)(?! qu)|suivante?s?|ci-dessous|ci-dessus|ci-joint\w*|esto|(?<!que )(?<!ahi )est[eao]s?(?= \w+(?!:))|(?:lo |el |la |los |las )?siguientes?|(?:de )?abajo|(?:de )?arriba)"
_POINTED: Final = lazy_re.compile(rf"\b{_POINTER}\b")
_POINTED_NOUN: Final = lazy_re.compile(
    rf"\b(?:{_POINTER}|(?:the|le|la|el) (?=(?:text|paragraph|passage|sentence|texte|paragraphe|phrase|texto|parrafo|frase)\b)|(?:their|his|her|leur|son|sa|su) )\s?(?:\w+ ){{0,3}}?{_TEXT_NOUN}\b|\b{_TEXT_NOUN} (?:below|above|ci-dessous|ci-dessus|suivante?s?|siguientes?|de abajo|de arriba)\b"
)
_NOUN: Final = lazy_re.compile(rf"\b{_TEXT_NOUN}\b")
#: A title that names a kind of text: "transcript of the call", "AGENTS.md from the other repo -".
_GENRE: Final = lazy_re.compile(
    rf"(?:(?:the|an?|some|one|le|la|les|un|une|des|el|los|las|una|unos|unas) )?(?:(?:[\w'’-]+['’]s|their|his|her|leurs?|su|sus) )?(?:{_TEXT_NOUN}|[\w-]+\.(?:md|txt|rst|ya?ml|json|toml))(?=$| (?:of|from|by|for|on|in|at|du|de|des|depuis|par|pour|sur|del|para|por|desde|\d|-|–)|d')"
)
#: Verbs whose object is always a text.
_TEXT_VERB: Final = lazy_re.compile(
    r"\b(?:translat(?:e|ing)|summari[sz]e|sum up|tl;?dr|paraphrase|proof-?read|rephrase|reword|rewrite|shorten|condense|transcribe|spell-?check|copy-?edit"
    r"|tradui(?:s|t|re|sez)|resum(?:e[rsz]?|ez)|reformule[rsz]?|relis(?:ez)?|relire|reecri(?:s|re|vez)|raccourci(?:s|r|ssez)|condense[rz]?|synthetise[rz]?|retranscri\w+"
    r"|tradu(?:ce|cir|zca|ceme|cemelo)|resum(?:e|ir|eme|elo)|reformula\w*|reescrib\w+|acorta\w*|parafrasea\w*|transcrib\w+)\b"
)
#: Verbs whose object can be a text; they count if the sentence points to one.
_WORK_VERB: Final = lazy_re.compile(
    r"\b(?:review|explain|fix|correct|check|analy[sz]e|reply|respond|answer|comment|compare|extract|classify|parse|read|look at|improve|edit|polish|format|convert|turn|make|evaluate|grade|rate|assess|describe|annotate|count|find|spot|interpret|critique|verify|validate|estimate|close|process|digest|see|tell me|help me|clean|tidy"
    r"|explique\w*|corrige\w*|verifie\w*|analyse\w*|repond\w*|commente\w*|compare\w*|extrai\w*|classe\w*|lis|lire|regarde\w*|ameliore\w*|converti\w*|transforme\w*|rends|evalue\w*|decri\w*|annote\w*|compte\w*|trouve\w*|interprete\w*|critique\w*|valide\w*|estime\w*|dis-moi|aide-moi|jette"
    r"|explica\w*|corrige\w*|corregir|revisa\w*|analiza\w*|responde\w*|contesta\w*|comenta\w*|compara\w*|extrae\w*|clasifica\w*|lee\w*|mira|mejora\w*|convierte\w*|haz|evalua\w*|describe\w*|cuenta\w*|encuentra\w*|interpreta\w*|valida\w*|estima\w*|dime|ayudame|echa)\b"
)
#: "Here is", "voici", "I got this": somebody else wrote the following text.
_PRESENTS: Final = lazy_re.compile(
    r"(?:^|[,;:] )(?:(?:ok|so|hey|look|hi|oye|tiens|bon|well|and) ?,? ?)*(?:here(?:'s| is| are| was| comes?)|this is (?:what|how|the)|these are|below (?:is|are)|following is|(?:i|we|just|he|she|they)?\s?(?:'ve )?(?:got|received|found|copied|pasted|saw|read|sent me) (?:this|that|these|it|an?|the)\b|(?:i'm |am )?(?:pasting|copying|quoting|forwarding)|copy-?paste|paste of"
    r"|voici|voila|ci-dessous|(?:j'ai |on a |je viens de |viens de )?(?:recu|recevoir|trouve|trouver|copie|lu|lire|vu|voir) (?:ca|ceci|cela|cet?|cette|un|une)|je (?:colle|copie|cite|transfere)|copie-colle"
    r"|aqui (?:esta|estan|tienes|va|van|te)|esto es lo que|est[ao]s? (?:es|son) (?:el|la|los|las)|(?:he )?(?:recib\w+|encontr\w+|copi\w+|vi|lei|visto|leido) (?:esto|est[ea]|un|una)|te? ?(?:paso|pego|copio|reenvio)|pego|copio)(?=\W|$)"
)
#: A reference to somebody else's text without a noun: "what …".
_WHAT: Final = lazy_re.compile(r"\b(?:what|ce qu\w*|lo que)\b")
_AUTHOR: Final = lazy_re.compile(r"\b(?:authors?|writers?|auteure?s?|autor(?:a|es|as)?)\b")
_MINE: Final = lazy_re.compile(
    r"\b(?:my|our|mes|mon|ma|nos|notre|mis?|nuestr[oa]s?)\b (?:\w+ ){0,2}?(?:rules?|preferences?|conventions?|constraints?|decisions?|stack|setup|regles?|preferences?|consignes?|contraintes?|choix|reglas?|preferencias|restricciones|decisiones)\b"
)
_KEEP: Final = lazy_re.compile(
    r"\b(?:remember|note|keep|retain|memori[sz]e|follow|apply|respect|obey|learn|save|store|don't forget|retiens|note[zr]?|garde|applique|respecte|suis|souviens-toi|rappelle-toi|memorise|recuerda|guarda|anota|sigue|aplica|respeta|ten en cuenta)\b"
)
#: Points to where or how the work is to be done, rather than to the text after the colon.
_ELSEWHERE: Final = lazy_re.compile(
    r"\b(?:this way|like this|for this|in this(?! (?:text|paragraph|passage|sentence|line|e-?mail|message|comment)\b)"
    r"|comme ca|dans ce(?! (?:texte|paragraphe|passage|mail|message|commentaire)\b)|pour ce"
    r"|en este(?! (?:texto|parrafo|pasaje|correo|mensaje|comentario)\b)|para este)\b"
)
#: Maximum words of a lead-in before a colon.
_MAX_LEAD_WORDS: Final = 10
#: The clauses before the one with the colon.
_LAST_CLAUSE: Final = lazy_re.compile(r"^.*[;](?=\s)")
#: A text of the project, named with an article only: "le rapport : on le rend le 5 juin".
_OWN_TEXT: Final = lazy_re.compile(r"^(?:the|le|la|les|l'|el|los|las) ?\w+$")
#: Texts and utterances that belong to somebody else or come from elsewhere.
_SAYING: Final = r"(?:rules?|polic(?:y|ies)|advice|tips?|opinion|view|take|answers?|style ?guide|guidelines?|conventions?|remarks?|mottos?|messages?|comments?|words|claims?|rumou?rs?|stickers?|signs?|headlines?|notes?|(?:first|last) lines?|regles?|politique|conseils?|avis|opinion|reponses?|remarques?|devise|consignes?|mots|rumeurs?|panneau|affiche|reglas?|politica|consejos?|opinion|respuestas?|comentarios?|lema|aviso|cartel|palabras|rumor)"
_FOREIGN: Final = lazy_re.compile(
    rf"^(?!(?:\w+ )*(?:it|that|let|there|here|what|who|he|she|today|tomorrow)['’]s)(?:\w+ ){{0,2}}\w+['’]s (?:\w+ ){{0,2}}(?:{_SAYING}|{_TEXT_NOUN}|[\w-]+\.\w{{2,4}})$"
    rf"|\b(?:their|his|her|leurs?) (?:\w+ ){{0,2}}(?:{_SAYING}|{_TEXT_NOUN})$|^(?:su|sus) (?:\w+ ){{0,1}}{_SAYING}$|^(?:from|via|source|depuis|(?:tire|extrait|vu) (?:de|du|sur)|de la wiki|sacado de|visto en) ?(?:\w+ ){{0,3}}\w+$"
    rf"|\b[\w-]+\.(?:md|txt|rst|ya?ml|json|toml)\b(?: (?:of|from|de|du|d'|del) ?.{{1,40}})?$|^\w+ (?:\w+ ){{0,2}}(?:answers?|reply|replies)$|^(?:reponses?|respuestas?) (?:de |du |d')?\w+(?: \w+){{0,2}}$"
    rf"|^(?:la|le|les|l'|el|los|las) ?{_SAYING} (?:du|de la|de l'|des|d'|de|del) ?(?!ce |este |la casa|l'equipe|el equipo)(?:\w+ ){{0,2}}\w+$"
)
#: "her message was …", "the advice from the forum is …", "the opinion of Kim is that …".
_SAYING_IS: Final = lazy_re.compile(
    rf"(?:\b(?!(?:it|that|let|there|here|what|who|he|she|today)['’])\w+['’]s (?:\w+ )?{_SAYING}|\b(?:his|her|their|leurs?|su|sus) (?:\w+ )?{_SAYING}|\b(?:the|a|an|le|la|les|l'|un|une|el|los|las|una) ?(?:\w+ )?{_SAYING} (?:\w+ ){{0,4}}?(?:from|of|in|on|at|by|du|de|des|d'\w+|en|dans|sur|del|chez|affichee?) ?(?!(?:this|our|ce|notre|este|nuestr[oa])\b)(?:\w+ ){{0,5}}?\w+),? (?:is|was|were|are|goes|est|etait|c'est|es|era|fue)\b|\b(?:with|under|avec|con) (?:the|les|las) (?:words|mots|palabras)\b"
)
#: Phrases with which users introduce their own statements.
_TEACHING: Final = lazy_re.compile(
    r"^(?:and |so |ok |et |y |please )*(?:(?:a|one|the|our|my|another|new|important|quick|general|une|un|la|le|nos|notre|autre|nouvelle|petite|una|otra|nueva|el|las) )*(?:rules?|note|notes|nb|n\.b|ps|p\.s|fyi|btw|by the way|reminder|decisions?|decided|conventions?|guidelines?|preferences?|prefs|constraints?|context|background|important|info|facts?|heads up|update|correction|todo|answer|question|setup|stack|config|policy|requirements?|goal|plan|reason|actually|edit|warning|caution|caveat|"
    r"regles?|rappel|retiens|contexte|consignes?|contraintes?|decisions?|important|infos?|au fait|attention|precision|objectif|raison|en fait|a noter|remarque|"
    r"reglas?|nota|recordatorio|contexto|importante|decision(?:es)?|convencion(?:es)?|preferencias?|restricciones|ojo|por cierto|objetivo|motivo|aviso importante|aclaracion|correccion)\b"
    r"|\b(?:remember|remind|keep in mind|from now on|going forward|always|never|by default|for (?:this|the|our) (?:repo|project|team)|in this (?:repo|project)|for the record|rule of thumb|rules? (?:for|here)|conventions? (?:for|here)|note that|know that|souviens-toi|rappelle-toi|sache|retiens|note que|a partir de maintenant|desormais|dorenavant|toujours|jamais|par defaut|pour ce (?:projet|depot)|dans ce (?:projet|depot)|recuerda|acuerdate|ten en cuenta|a partir de ahora|de ahora en adelante|en adelante|siempre|nunca|por defecto|para este (?:repo|proyecto)|en este (?:repo|proyecto))\b"
)
#: Tasks on the project rather than on a text: the words after the colon are the user's own.
_BUILD_VERB: Final = lazy_re.compile(
    r"^(?:(?:please|can you|could you|now|ok|so|and|then|next|also|let's|lets|i want you to|stp|peux-tu|tu peux|ensuite|maintenant|puis|ahora|luego|puedes|por favor),? )*(?:add|implement|create|build|set ?up|configure|deploy|rename|install|update|upgrade|remove|delete|drop|move|run|start|stop|use|try|keep|go with|make sure|ensure|refactor|migrate|change|switch|wire|test|debug|bump|merge|push|commit|do"
    r"|ajoute\w*|implemente\w*|cree\w*|construis|configure\w*|deploie\w*|renomme\w*|installe\w*|supprime\w*|enleve\w*|deplace\w*|lance\w*|utilise\w*|change\w*|migre\w*|passe\w*|teste\w*|fais en sorte"
    r"|anade\w*|agrega\w*|implementa\w*|crea\w*|construye\w*|configura\w*|despliega\w*|renombra\w*|instala\w*|elimina\w*|quita\w*|borra\w*|mueve\w*|ejecuta\w*|usa\w*|cambia\w*|migra\w*|prueba\w*)\b"
)
_LANGUAGES: Final = r"(?:german|french|english|spanish|italian|portuguese|dutch|chinese|japanese|latin|russian|arabic|allemand|francais|anglais|espagnol|italien|portugais|neerlandais|chinois|japonais|russe|arabe|aleman|frances|ingles|espanol|castellano|italiano|portugues|holandes|chino|japones|ruso)"
_FORMATS: Final = r"(?:json|toml|ya?ml|xml|csv|tsv|html|markdown|latex|bullets?|bullet points?|table|haiku|snake_?case|camel_?case|kebab-?case|upper ?case|lower ?case|caps|capitals|majuscules?|minuscules?|mayusculas?|minusculas?|tableau|liste|tabla|lista|puces|vinetas)"
#: Words of users about themselves or about the project.
_ABOUT_USER: Final = lazy_re.compile(
    r"\b(?:we|we're|we've|i'm|i've|i'd|our|always|never|must|nous|notre|nos|toujours|jamais|il faut|nosotros|nuestr[oa]s?|siempre|nunca)\b"
)
#: Only a language, a format or a quality: "german", "as json", "en inglés porfa", "more formal", "in 10 words".
_TARGET: Final = lazy_re.compile(
    rf"^(?:(?:same|this|it|now|and|but|the same|pareil|la meme|mais|et|lo mismo|pero|y|ahora|maintenant),? )*(?:(?:back |convert(?:ed)? )?(?:in|into|to|as|from|en|al|a|hacia|vers)(?: an?| une?| un| una)? )?(?:(?:{_LANGUAGES}|{_FORMATS}|\d+ (?:words|lines|sentences|mots|lignes|phrases|palabras|lineas|frases))(?: (?:translation|version|comment|list))?"
    r"|(?:a bit |much |un peu |beaucoup |un poco |mucho )?(?:more|less|plus|moins|mas|menos) \w+|shorter|longer|simpler|nicer|better|clearer|eli5|tl;?dr)(?: (?:of|for|de|pour|para|please|pls|plz|stp|svp|s'il te plait|porfa|por favor|with .{0,20}))?$"
)
#: Properties that only texts have.
_TEXT_PROPERTY: Final = lazy_re.compile(
    r"\b(?:(?:how many|count(?: the)?|number of|number) (?:words|lines|vowels|letters|characters|sentences|syllables|them|these)|(?:passive|active) voice|(?:past|present|future) tense|what tense|main idea|key points?|gist|take-?aways?|sentiment|slogans?|tag-?lines?|headlines?|motto|subject line|alphabetical(?:ly)?|rhymes?|fill in the blanks?|fact[- ]?check|true or false|spam|legit|passive[- ]agg?ress?ive|contradict\w*|typos?|placeholder|lorem ipsum|dummy text|sample text|seed data|alt text|tool-?tip|string to|error message|test name|caption|lyrics|(?:linkedin|twitter|author)? ?bio|job ad|exam question|regex that|opinion or fact|fact or opinion|paragraphs?|punctuation|commas|grammar|spelling|wording"
    r"|voix (?:passive|active)|au (?:passe|present|futur|pluriel|feminin)|idee principale|points cles|sentiment|accroches?|orthographe|grammaire|ponctuation|fautes|vrai ou faux|arnaque|par ordre alphabetique|texte d'exemple|maquette|message d'erreur|paroles|offre d'emploi|au propre|qui rime|compte\w* les (?:mots|lignes|lettres)|combien de (?:mots|lignes|lettres|phrases)"
    r"|voz (?:pasiva|activa)|en (?:pasado|presente|futuro|plural)|idea principal|puntos clave|sentimiento|esloganes|eslogan|ortografia|gramatica|puntuacion|errores|verdadero o falso|estafa|orden alfabetico|texto de ejemplo|maqueta|mensaje de error|letra|oferta de (?:trabajo|empleo)|que rime|cuenta las (?:palabras|lineas|letras)|cuantas (?:palabras|lineas|letras|frases))\b"
)
#: An imperative that needs a text: its object is a pronoun, a form or something derived from a text.
_TEXT_TASK: Final = lazy_re.compile(
    rf"^(?:(?:please|pls|now|then|ok|so|and|can you|could you|would you|stp|ensuite|puis|maintenant|peux-tu|tu peux|tu pourrais|ahora|luego|puedes|podrias|me) )*(?:"
    rf"(?:convert|turn|put|make|change|rewrite|transform|say|write|type|sort|rank|group|order|number|plot|chart|draw|label|tag|classify|rate|score|grade|simplify|expand|continue|complete|finish|decode|encode|escape|anonymi[sz]e|redact|capitali[sz]e|embed|render|format|quote|highlight|split|merge|list|repeat|render|remove|strip|replace)(?: (?:each|every|the|all) (?:sentence|line|word|comma|letter)s?)? ?(?:(?:it|this|these|them|that|those|all|everything|both|each)\b(?! (?:work|run|pass|configurable|optional|faster|fail|build|compile))|(?:(?:in|on)?to|as|from|in) (?:an? )?(?:{_FORMATS}|{_LANGUAGES}|\w+ (?:list|table|voice|tense))\b)"
    rf"|(?:give|write|make|suggest|generate|propose|find)(?: me| us)? (?:\d+|two|three|five|ten|some|a few|another|an?) (?:\w+ )?(?:variants?|variations?|alternatives?|synonyms?|titles?|names?|versions?|examples?|reply|replies|answer|response|summary|tweet|headline|haiku|poem|title)\b"
    rf"|(?:continue|finish|complete|label|classify|guess|identify|plot|score|count) (?:the|each|every|all)\b|give me (?:the )?(?:gist|idea|summary|main|essence)|ask me"
    rf"|(?:mets?|mettez|transforme\w*|converti\w*|passe|trie|range|classe\w*|numerote\w*|simplifie\w*|developpe\w*|continue\w*|complete\w*|finis|ecris|redige|dessine|trace)(?:[- ](?:les?|la|moi|nous|ca|cela|ceci|tout|le tout))+\b|(?:mets?|transforme\w*|passe) (?:en|au|a la)\b|fais[- ](?:en|m'en|moi)?[- ]?(?:une?|la|le) (?:\w+ )?(?:liste|resume|synthese|tableau|version|traduction|correction|reponse|haiku|poeme|tweet)|donne[- ]?(?:moi|nous)? (?:\d+|une?|des|l'|la|le|les) ?(?:\w+ )?(?:variantes?|alternatives?|synonymes?|titres?|versions?|exemples?|idee|resume|essentiel)|continue le|genere \d+|(?:classe|corrige|continue) (?:le|la|les|l')"
    rf"|(?:pon(?:lo|la|los|las)?|convierte(?:lo|la|los)?|pasa(?:lo|la|los)?|ordena(?:lo|la|los)?|clasifica(?:lo|la|los)?|numera(?:lo|la|los)?|simplifica(?:lo|la)?|dibuja(?:lo)?|grafica(?:lo)?) (?:en|a|al|como|bonito|por|todo|esto|est[ao]s)\b|haz(?:me)? (?:un|una) (?:\w+ )?(?:resumen|lista|sintesis|tabla|version|traduccion|respuesta|haiku|poema|tuit)|dame (?:\d+|un|una|unas|unos|la|el|las|los) (?:\w+ )?(?:variantes?|alternativas?|sinonimos?|titulos?|versiones|ejemplos?|idea|resumen|esencia)|(?:continua|clasifica|corrige|completa) (?:el|la|los|las)\b|genera \d+"
    rf")"
)
#: A question whose subject is the text.
_TEXT_QUESTION: Final = lazy_re.compile(
    r"^(?:so |and |et |y )?(?:"
    r"(?:is|are|was|were|does|do) (?:it|this|that|these|those|they|any of (?:this|these|those))\b(?! (?:clear|ok|okay|possible|done|working|ready|deployed|enough|merged|fixed|work|make sense))|which (?:one|ones|of|are|is|line|sentence|statement)\b|who(?:'s| is|s) (?:right|wrong|correct|speaking)|what(?:'s|s| is) (?:wrong|odd|missing|the (?:point|meaning|tone|mistake|error|difference|translation))|what (?:language|tense|tone|style)|what do you (?:think|make) of (?:these|this|those|them|it)|what was (?:removed|added|changed)|what does (?:this|it|that) mean|(?:any|some) (?:errors?|mistakes?|thoughts|issues with)|how (?:does|do) (?:this|it|that|these) (?:sound|read|look)|tone check|true or false|thoughts|opinions?"
    r"|qui a (?:raison|tort)|(?:lequel|laquelle|lesquels|lesquelles)\b|(?:tu en|t'en|qu'en|vous en) pens\w+|y ?a[- ](?:t-il )?des (?:fautes|erreurs)|c'est (?:bien|mal|correct\w*) (?:ecrit|dit|formule|redige)|quelle? (?:langue|temps|ton)\b|qu'est-ce qui (?:cloche|manque)|ca veut dire quoi|ca sonne\b|c'est (?:du|de la|un|une) (?:spam|arnaque|phishing|pub)"
    r"|quien tiene (?:la )?razon|cual(?:es)?\b(?! es (?:el|la|los|las) (?:puerto|url|comando))|que (?:te )?(?:parecen?|opinas|piensas)|hay (?:errores|faltas|fallos)|(?:esta|es) (?:bien|mal|correcto)(?: (?:escrito|dicho))?$|que idioma|que significa|como suena|es (?:spam|una estafa)"
    r")"
)
_SOLE_QUESTION: Final = lazy_re.compile(r"\?[\s\"'»”)*_]*$")
_ABOUT_THE_TEXT: Final = lazy_re.compile(
    rf"^(?:thoughts|opinions?|comments?|any good|ideas|feedback|what do you think|tu en penses quoi|qu'en penses-tu|ton avis|des avis|que opinas|que te parece|opiniones)\b.{{0,30}}\?|\b{_POINTER}\b"
)
_DIRECTED: Final = lazy_re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass) (?:all |any |every )?(?:of )?(?:the |your |these |those |my )?(?:previous|prior|above|earlier|preceding|other|existing|system)?\s?(?:instructions|prompts?|guidelines|directives)\b"
    r"|\b(?:ignore[rz]?|oublie[rz]?|neglige[rz]?) (?:toutes? )?(?:les |tes |vos |ces )?(?:instructions|directives|consignes)\b|\b(?:ignora|olvida|desobedece|omite) (?:todas? )?(?:las |tus |estas )?(?:instrucciones|directivas|indicaciones)\b"
    r"|\b(?:dear|note to|attention|message (?:to|for)) (?:any |all |the |every )?(?:ai|llm|assistant|agent|model|bot|language model)s?\b|\b(?:ai|llm|assistant|agent|model|ia|asistente)s? (?:reading|processing|qui li\w+|que lea\w*|lisant)\b|\b(?:cher|chere|querid[oa]|estimad[oa]) (?:assistante?|asistente|ia|agente?)\b|\b(?:system prompt|prompt systeme|(?:message|consigne|instruction)s? (?:systeme|de sistema)|(?:mensaje|prompt|instruccion) (?:de |del )?sistema)\b|\byou are now (?:an?|the|in)\b"
)
_SENTENCE_END: Final = lazy_re.compile(r"(?:[.!?…]+[\"'”»)]*)(?=\s|$)")
_SHORTENED: Final = lazy_re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|p\.ex|ex|no|n|mr|mrs|ms|dr|mme|m|st|[a-z])\.$")

# --- 4. The words of others ----------------------------------------------------------------------------------------------

#: Verbs of saying, in the third person.
_REPORTS: Final = lazy_re.compile(
    r"\b(?:says?|said|states|stated|claims?|claimed|writes|wrote|mentions?|mentioned|asserts?|asserted|argues?|argued|tells?|told|suggests?|suggested|recommends?|recommended|advises?|advised|warns?|warned|announced|commented|thinks|believes|repeats|reckons|keeps (?:saying|telling|repeating)|posted|quoted|verifies|checks|insists?|insisted|according to|rumou?r"
    r"|dit|disent|disait|disaient|a ecrit|ont ecrit|ecrivent|repetent?|pense(?:nt)?|croit|croient|m'ecrit|(?:affirm|indiqu|stipul|mentionn|racont|recommand|conseill|sugger|comment|insist|precis|annonc)(?:e|ent|ait|aient)|a (?:affirme|indique|precise|annonce|mentionne|recommande|conseille|suggere|commente|insiste|raconte)|pretend(?:ent|ait)?|verifie|selon|d'apres"
    r"|dicen?|dijo|dijeron|dicho|escribio|escribe|escribieron|(?:afirm|indic|senal|mencion|asegur|coment|aconsej|anunci|explic)(?:an?|o|aron|aba)|sostienen?|recomiendan?|recomendo|sugieren?|sugirio|comprueban?|insisten?|insistio|repiten?|piensan?|creen?|opinan?|segun)\b"
)
#: Verbs that report words only if the words follow directly: "the sign reads: …".
_READS: Final = lazy_re.compile(
    r"\b(?:reads|goes|ran|says|expects|displays|shows|affiche|attend|muestra|pone|espera)(?: as follows| like this| comme suit| asi)?\s?(?:[:\"“«]|$)"
)
#: Before an imperative ("check that …", "indique le port") there is no subject, so nobody is reported.
_NO_SUBJECT: Final = lazy_re.compile(
    r"(?:^|[,;:.(!?-]|\b(?:and|then|so|also|please|to|et|donc|puis|alors|aussi|de|d'|y|luego|a|para|por favor))\s*$"
)
_SELF_SAYS: Final = lazy_re.compile(
    r"\b(?:i|i've|we|we've|you|as i|je|j'ai|j'|t'ai|nous|nous avons|on a|on|tu|he|hemos|te|yo) (?:\w+ )?(?:say|said|state|stated|told|tell|wrote|write|mention\w*|recommend\w*|suggest\w*|warn\w*|dit|ecrit|dicho|dije|escrito|escribi|recomiendo|recommande|conseille|suggere)\b|\b(?:have|has) (?:been )?(?:told|said)\b"
)
#: What follows a verb of saying if it introduces the words of others.
_REPORTED_WORDS: Final = lazy_re.compile(
    r"\s*(?:$|[^.!?\n:]{0,40}:(?=\s|$)|(?:\S+ ){0,2}?(?:that|(?<!ce )(?<!lo )que|qu'\w+|(?:not |de ne |no )?to|de|d'\w+)\b(?! qu)|[^.!?\n]{0,30}[\"“«]|(?:\S+ ){0,3}?(?:always|never|toujours|jamais|siempre|nunca|we|they|everyone|nobody|on|nous|people)\b)"
)
_ACCORDING: Final = lazy_re.compile(r"\b(?:according to|selon|d'apres|segun|rumou?r)\b")


def _sentences(text: str, line: _Line) -> Iterator[tuple[int, int]]:
    begin = line.start
    for match in _SENTENCE_END.finditer(text, line.start, line.end):
        if match.group() == "." and _SHORTENED.search(fold(text[max(line.start, match.start() - 6) : match.end()])):
            continue
        yield begin, match.end()
        begin = match.end()
    if text[begin : line.end].strip():
        yield begin, line.end


def _asks(text: str) -> bool:
    """Return whether the text ends with a question or colon, gives a task on a text, or presents one."""
    plain = fold(text).strip()
    return bool(
        _SOLE_QUESTION.search(plain)
        or plain.endswith(":")
        or _TEXT_VERB.search(plain)
        or _PRESENTS.search(plain)
        or (_WORK_VERB.match(plain) and _POINTED.search(plain))
    )


def _spans_handed_over(text: str, lines: list[_Line], source: str) -> Iterator[tuple[int, int]]:
    """Yield the material that sentences hand over or report.

    Args:
        text: the prompt with the known material blanked.
        lines: its lines.
        source: the prompt itself.
    """
    spoken = [line for line in lines if not line.taken]
    line_index = {line.start: index for index, line in enumerate(lines)}
    for number, line in enumerate(spoken):
        nothing_below = line is lines[-1]
        below = lines[line_index[line.start] + 1] if not nothing_below else None
        spans = list(_sentences(text, line))
        for index, (start, end) in enumerate(spans):
            plain = line.plain[start - line.start : end - line.start]
            closes_line = index + 1 == len(spans)
            begin = _find_handover(plain, closes_line=closes_line, nothing_below=nothing_below)
            ends_here = begin is not None and (begin < 0 or (closes_line and not plain[begin:].strip()))
            if ends_here and _is_fence(source, below):
                begin = None  # the fence right below is the text, and it has its own end
            elif begin is not None and _BELOW.search(plain) and not plain[begin:].strip():
                block = _block_below(lines, line)
                if block is not None:
                    begin = None  # the request's paragraph is the user's own words, up to the block below
                    yield block.start, block.start if _FENCE.match(source, block.start) else len(text)
            if begin is not None:
                yield (line.end if begin < 0 else start + begin), _own_paragraph_start(spoken, number, len(text))
                return
            reported = _find_report(plain)
            if reported is None:
                continue
            if ":" not in plain[reported:]:
                yield start, end
                continue
            yield start, line.end
            if plain.strip().endswith(":") and not nothing_below:
                yield end, _own_paragraph_start(spoken, number, len(text))
                return
            break
    yield from _text_before_task(text, spoken)


def _is_fence(source: str, line: _Line | None) -> bool:
    return line is not None and line.taken and _FENCE.match(source, line.start) is not None


def _block_below(lines: list[_Line], line: _Line) -> _Line | None:
    """Return the first line of the next paragraph if all of that line is already material."""
    found = next((other for other in lines if other.first and other.start > line.start), None)
    return found if found is not None and found.taken else None


_BELOW: Final = lazy_re.compile(r"\b(?:below|under|following|ci-dessous|suivant\w*|abajo|siguientes?)\b")


def _find_handover(plain: str, *, closes_line: bool, nothing_below: bool) -> int | None:
    """Return where the material begins that a sentence hands over: an offset in it, -1 for the next line, or None."""
    if _DIRECTED.search(plain):
        return 0
    colon = _colon(plain)
    if colon is not None and _hands_over(plain[:colon], inline=bool(plain[colon + 1 :].strip())):
        return colon + 1
    points = _points_to_text(plain)
    if points == "text" and not (closes_line and nothing_below):
        return len(plain)
    if not closes_line and _CHOICE.match(plain):
        return len(plain)
    return -1 if points and closes_line and not nothing_below else None


#: A question that asks to choose among the texts that follow.
_CHOICE: Final = lazy_re.compile(
    r"\W*(?:which (?:one|ones|of|is|are|line|sentence|statement|sounds|reads)|who is (?:right|wrong)|(?:lequel|laquelle|lesquel\w+)|cual(?:es)?)\b.*\?$"
)


def _own_paragraph_start(lines: list[_Line], number: int, end: int) -> int:
    """Return the start of the last paragraph if its opening marks it as the user's own, else the end of the text."""
    last = next((line for line in reversed(lines) if line.first), None)
    if last is not None and last in lines[number + 1 :] and _RETURNS.match(last.plain.strip()):
        return last.start
    return end


_RETURNS: Final = lazy_re.compile(
    r"(?:by the way|btw|ps|p\.s\.|au fait|por cierto|(?:also|and|aussi|et|ademas|y),? (?:for you|from now on|please remember|remember|a partir de maintenant|retiens|a partir de ahora|recuerda))\b"
)


def _colon(plain: str) -> int | None:
    """Return the first colon of a sentence that is not part of a time, a path or an address."""
    found = re.search(r"(?<=\S):(?=\s|$)|\s:(?=\s|$)", plain)
    return found.end() - 1 if found else None


def _hands_over(lead: str, *, inline: bool) -> bool:
    """Return whether the words before a colon hand over the text after it: they ask for work on it or name it.

    Args:
        lead: the words before the colon.
        inline: whether the text continues on the same line.
    """
    lead = _LAST_CLAUSE.sub("", lead).strip(" \t-*•–>\"'(")
    if _TEXT_VERB.search(lead) and len(lead) < 160 and not _MINE.search(lead):
        return True
    if _MINE.search(lead) or _KEEP.search(lead) or _teaches(lead):
        return False
    if _FOREIGN.search(lead) and len(lead.split()) <= _MAX_LEAD_WORDS:
        return True
    points, noun = _POINTED.search(lead), _NOUN.search(lead)
    if _PRESENTS.search(lead) and (points or noun or _WHAT.search(lead)):
        return True
    if re.match(
        r"\W*(?:please )?(?:do|fais|haz) (?:this|the following|ceci|ca|ce qui suit|esto|lo siguiente)\W*$", lead
    ):
        return False
    if _WORK_VERB.search(lead) and (points or (noun and _POINTED_NOUN.search(lead))):
        return not _ELSEWHERE.search(lead)
    if _asks_for_text_work(lead):
        return True
    if noun is None or _BUILD_VERB.match(lead):
        return False
    return not inline or (_GENRE.match(lead) is not None and not _OWN_TEXT.match(lead))


def _asks_for_text_work(clause: str) -> bool:
    """Return whether a short clause asks for work on a text, or a question about it, and names no other object."""
    clause = clause.strip(" \t.!?:^…¿¡")
    if len(clause.split()) > _MAX_LEAD_WORDS or _ABOUT_USER.search(clause) or _BUILD_VERB.match(clause):
        return False
    if _TEXT_PROPERTY.search(clause) or _TARGET.match(clause):
        return True
    return bool(_TEXT_TASK.match(clause) or _TEXT_QUESTION.match(clause))


def _teaches(lead: str) -> bool:
    """Return whether this is a label of a rule or fact from the user: "rule", "from now on", "for this repo"."""
    found = _TEACHING.search(lead)
    return found is not None and not re.search(
        r"(?:\b(?:their|his|her|leurs?|sus?)|['’]s) (?:\w+ )?$|\b(?:of|from|by) \S+$", lead[: found.start()]
    )


def _points_to_text(plain: str) -> str:
    """Return how a sentence without a colon points to a text: "text" for certain, "this" for possibly, "" for not."""
    if _KEEP.search(plain) and not _TEXT_VERB.search(plain):
        return ""
    pointed, noun = _POINTED.search(plain), _POINTED_NOUN.search(plain)
    if (_TEXT_VERB.search(plain) and (pointed or noun)) or (_WORK_VERB.search(plain) and _AUTHOR.search(plain)):
        return "text"
    if (
        _WORK_VERB.search(plain)
        and noun
        and re.search(r"\b(?:following|below|suivant\w*|ci-dessous|siguientes?|abajo)\b", plain)
    ):
        return "text"
    if _PRESENTS.search(plain.strip()) and (pointed or _NOUN.search(plain) or _WHAT.search(plain)):
        return "this"
    if _SOLE_QUESTION.search(plain) or (_WORK_VERB.match(plain.strip()) and (pointed or noun)):
        return "this"
    return "this" if _TEXT_VERB.search(plain) and _NOUN.search(plain) else ""


def _text_before_task(text: str, lines: list[_Line]) -> Iterator[tuple[int, int]]:
    """Yield the text before a last sentence that gives a task on it or asks about it."""
    if not lines:
        return
    last = lines[-1]
    spans = list(_sentences(text, last))
    if not spans:
        return
    start, end = spans[-1]
    plain = last.plain[start - last.start : end - last.start].strip()
    above = re.search(r"\b(?:above|previous|preceding|ci-dessus|precedent\w*|arriba|anterior\w*)\b", plain)
    works = _TEXT_VERB.search(plain) and _POINTED.search(plain)
    noun = (
        _POINTED_NOUN.search(plain)
        or re.search(
            r"\b(?:the|la|le|l'|el) ?(?:grammar|spelling|tone|wording|translation|grammaire|orthographe|ton|traduction|gramatica|ortografia|tono|traduccion)\b",
            plain,
        )
    ) and (_SOLE_QUESTION.search(plain) or _WORK_VERB.match(plain))
    alone = last.first and len(lines) > 1 and _ABOUT_THE_TEXT.search(plain) and _SOLE_QUESTION.search(plain)
    if above or works or noun or (alone and sum(line.first for line in lines) > 1):
        yield 0, start
    elif start == last.start and len(lines) > 1 and not _AGREES.search(plain) and not _opens_own_list(lines[0].plain):
        below_several = len(lines) > 2 or last.first or _TEXT_PROPERTY.search(plain)
        if plain.startswith("^") or (below_several and (_asks_for_text_work(plain) or _is_order_on_it(plain))):
            yield 0, start


def _opens_own_list(plain: str) -> bool:
    """Return whether a line such as "my rules:" introduces the user's own statements."""
    return plain.rstrip().endswith(":") and (_MINE.search(plain) is not None or _teaches(plain))


def _is_order_on_it(plain: str) -> bool:
    """Return whether a few words give a task on "this" or "these", and not on the project."""
    return (
        len(plain.split()) <= 5
        and re.match(r"\w+ (?:this|these|those|all of it|ca|ceci|esto)\b", plain) is not None
        and not (_BUILD_VERB.match(plain) or _KEEP.search(plain))
    )


#: Questions and remarks about the user's own statements.
_AGREES: Final = lazy_re.compile(
    r"\b(?:clear|ok|okay|understood|got it|agreed|d'accord|compris|vale|entendido|claro)\b"
)


def _find_report(plain: str) -> int | None:
    """Return where a sentence begins to report the words of others, or None."""
    reads = _READS.search(plain) or _SAYING_IS.search(plain)
    if reads:
        return reads.start()
    for found in _REPORTS.finditer(plain):
        if not _ACCORDING.match(found.group()) and _NO_SUBJECT.search(plain, 0, found.start()):
            continue
        if _SELF_SAYS.search(plain, max(0, found.start() - 16), found.end()):
            continue
        if _ACCORDING.match(found.group()) or _REPORTED_WORDS.match(plain[found.end() :]):
            return found.start()
    return None


def _long_quotations(text: str) -> Iterator[tuple[int, int]]:
    """Yield the quotations that are sentences rather than names and values."""
    spans = [match.span() for pattern in _QUOTES for match in pattern.finditer(text)]
    for opening, closing in _PAIRS:
        opening_start = text.find(opening)
        while opening_start >= 0:
            end = text.find(closing, opening_start + 1)
            spans.append((opening_start, end + 1 if end >= 0 else len(text)))
            opening_start = text.find(opening, end + 1) if end >= 0 else -1
    for start, end in spans:
        inner = text[start:end].strip(" \n:\"'“”«»„‘’`")
        words = len(inner.split())
        if words >= _MIN_QUOTE_WORDS and not ((words < 12 or text[start] == "`") and _CODELIKE.search(inner)):
            yield start, end


# --- Combining the steps ----------------------------------------------------------------------------------------------


def _material(text: str) -> tuple[tuple[int, int], ...]:
    """Return the spans of material, in order and disjoint; the middle of a very long text is always material."""
    return _spans_of_short_text(text) if len(text) <= _MAX_SHORT_CHARS else _spans_of_long_text(text)


@lru_cache(maxsize=1024)
def _spans_of_short_text(text: str) -> tuple[tuple[int, int], ...]:
    return _find_spans(text)


@lru_cache(maxsize=64)
def _spans_of_long_text(text: str) -> tuple[tuple[int, int], ...]:
    if len(text) <= 2 * _MAX_END_CHARS:
        return _find_spans(text)
    gap = "\n\n"
    shift = len(text) - 2 * _MAX_END_CHARS - len(gap)
    spans = _find_spans(text[:_MAX_END_CHARS] + gap + text[-_MAX_END_CHARS:])
    moved = [
        (start if start < _MAX_END_CHARS else start + shift, end if end <= _MAX_END_CHARS else end + shift)
        for start, end in spans
    ]
    return _merge_spans([*moved, (_MAX_END_CHARS, len(text) - _MAX_END_CHARS)])


def _merge_spans(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def _find_spans(text: str) -> tuple[tuple[int, int], ...]:
    taken = bytearray(len(text))
    _mark_taken(taken, _fence_regions(text))
    _mark_taken(taken, _tag_regions(_blank_taken(text, taken)))
    _mark_taken(taken, _bracket_regions(text))
    _mark_taken(taken, _delimited_regions(_blank_taken(text, taken)))
    lines = _lines(text, taken)
    _mark_taken(taken, _document_regions(text, lines))
    quotations = list(_long_quotations(_blank_taken(text, taken)))
    _mark_taken(taken, quotations)
    rest = _blank_taken(text, taken)
    lines = _lines(text, taken)
    masked = [
        _Line(
            line.start, line.end, rest[line.start : line.end], fold(rest[line.start : line.end]), line.first, line.taken
        )
        for line in lines
    ]
    _mark_taken(taken, _sentences_around(rest, masked, quotations))
    _mark_taken(taken, _spans_handed_over(rest, masked, text))
    return tuple(match.span() for match in re.finditer(rb"\x01+", bytes(taken)))


def _sentences_around(text: str, lines: list[_Line], quotations: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the sentences that hold a quotation; without the quotation they would say something else."""
    if not quotations:
        return
    for line in lines:
        for start, end in _sentences(text, line):
            if any(first < end and start < last for first, last in quotations):
                yield start, end


def _mark_taken(taken: bytearray, spans: Iterable[tuple[int, int]]) -> None:
    for start, end in spans:
        if end > start:
            taken[start:end] = b"\x01" * (end - start)


def _blank_taken(text: str, taken: bytearray) -> str:
    """Return the text with the taken characters blanked."""
    pieces: list[str] = []
    position = 0
    for match in re.finditer(rb"\x01+", bytes(taken)):
        pieces += [text[position : match.start()], _NO_BREAK.sub(" ", text[match.start() : match.end()])]
        position = match.end()
    return "".join([*pieces, text[position:]])


_WRITTEN_BY_HOST: Final = lazy_re.compile(
    r"\s*(?:<(?:task-notification|local-command-|command-name|command-message|environment_context|system-reminder|user_instructions"
    r"|permissions instructions|skills_instructions|hook_prompt|turn_aborted|subagent_notification"
    r"|bash-(?:input|stdout|stderr))"
    r"|caveat: the messages below|this session is being continued from a previous|another language model started"
    r"|\[request interrupted|/[a-z][\w:-]*\s*$|heartbeat\b|api error)",
    lazy_re.IGNORECASE,
)


def written_by_host(text: str) -> bool:
    """Return whether a host wrote the text in the user's place."""
    return _WRITTEN_BY_HOST.match(text) is not None


def is_own_prompt(turn: Turn) -> bool:
    """Return whether the user wrote the turn as a prompt, or typed it to be remembered."""
    is_prompt = turn.role == "user" and turn.source == "prompt" and turn.trust >= TRUST_PROMPT
    return is_prompt and not written_by_host(turn.text)
