"""Cutting text into sentences, clauses and units with exact positions; redaction masks.

`split` gives the sentences of a text without code, logs and host blocks; `own_words` is applied to prompts before. A
clause (`parts`) states, asks, wishes or worries. A unit (`units`) is what the statement model judges: a sentence of the
user's own words, or a part of a long one.

Pure: no database, no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.core import lazy_re as re
from filrouge.core.errors import BadInput
from filrouge.extraction.own_words import own_words
from filrouge.extraction.vocabulary import fold
from filrouge.memories.models import Statement

# Sentences. Code fences, quoted lines, logs, diffs, tables, JSON and host blocks are not sentences; they are cut away
# and end the sentence before them. The rest is split at the ends of sentences, never inside a version (`3.11`), a
# file name, a host (`Fly.io`), an abbreviation or inline code. A list item keeps the heading above it, because a
# heading such as "Rules for this repo:" makes its items rules.

# ruff: noqa: E501 (a pattern is read best on one line)


#: Maximum characters of a sentence; longer text is a paste.
MAX_SENTENCE_CHARS: Final = 700
#: A prompt of up to twice this length is read in full; of a longer one, this many characters at each end.
MAX_END_CHARS: Final = 60_000
#: Maximum number of sentences; of more, half are taken from each end.
MAX_SENTENCES: Final = 400


class Sentence(Struct, frozen=True):
    """Characters `start` to `end` of the prompt: the text there, and the same text folded.

    Attributes:
        block: the number of the paragraph; only sentences of one paragraph can complete each other.
        heading: the start of this list item's heading, and its folded words.
    """

    start: int
    end: int
    text: str
    plain: str
    block: int
    heading: tuple[int, str] | None = None


_HOST_TAGS: Final = (
    r"task-notification|system-reminder|environment_context|local-command-[a-z]+|command-[a-z]+|user_instructions"
    r"|user-prompt-submit-hook|ide_[a-z_]+|turn_aborted|function_results|tool_result|private"
    r"|permissions instructions|skills_instructions|hook_prompt|subagent_notification|bash-(?:input|stdout|stderr)|filrouge[\w-]*"
)
#: The start of a fence or of a host's block.
_CUT: Final = re.compile(
    rf"^[ \t]{{0,3}}(?P<fence>```|~~~)|<(?P<tag>{_HOST_TAGS})\b[^>]{{0,300}}>", re.IGNORECASE | re.MULTILINE
)
_FENCE_END: Final = {mark: re.compile(rf"^[ \t]*{mark}[^\n]*$", re.MULTILINE) for mark in ("```", "~~~")}

#: Lines that a program wrote: quotes, shell, logs, stacks, diffs, tables, JSON, markup, code.
_NOISE: Final = re.compile(
    r"""^\s*(?:
        >                                              # > quoted in a mail or a review
      | [$%]\s\S | \w+@[\w.-]+[:~]\S*[$\#]             # $ docker ps        ana@host:~$
      | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d | \[?\d\d:\d\d:\d\d | \[\w+\]\s  # 2026-03-01 10:22 ERROR
      | (?:error|warning|warn|info|debug|fatal|trace|panic|notice)\b\s*[:\[]  # error: listen EADDRINUSE
      | (?:\w+\.)*[A-Z]\w*(?:Error|Exception|Warning)\b:?     # ImportError: ...
      | Traceback\s | File\s" | at\s\S+\s?\( | at\s\S+:\d+    # stacks
      | diff\s--git | @@\s | [-+]{3}\s[ab]/ | [+-][\w ]+=  | index\s[0-9a-f]{7}  # diffs
      | \|.*\| | [{}\[\]()<]  | [\w"']+\s*[:=]\s*[\[{]        # tables, JSON, markup
      | (?:def|class|import|from\s\w+\simport|const|let|var|function|return|export|async|public|private|func|fn|elif
           |else:|try:|except|SELECT|INSERT|UPDATE|DELETE\sFROM|CREATE\sTABLE)\b(?=.*[(={:;*])
      | \#\s*[a-z!] | // | /\*                         # comments
      | [\w.]+\(.*\);?\s*$ | .*[;{}]\s*$ | \w+\s=\s\S+\s*$    # call();   x = 1
    )""",
    re.VERBOSE,
)
_INDENTED_CODE: Final = re.compile(r"^(?: {4}|\t)\S")
_BULLET: Final = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_ENDS_IN_COLON: Final = re.compile(r":\s*$")
_TITLE: Final = re.compile(r"^\s{0,3}#{1,6}\s+(?=[A-ZÀ-Ý])")
_END: Final = re.compile(r"(?:[.!?…]+[\"'”»)]*|[?!…]|[\U0001F300-\U0001FAFF]\ufe0f?)(?=\s|$)")
_UNSPLITTABLE: Final = re.compile(r"`[^`\n]{1,200}`|https?://\S+(?=\s+[a-z])")
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|p\.ex|ex|approx|no|resp|incl|min|max|mr|mrs|ms|dr|mme|st|env|[a-z])\.$"
)


def split(text: str) -> list[Sentence]:
    """Return the sentences of `text` that the user may have written, in order; of a huge paste, those at both ends."""
    if len(text) <= 2 * MAX_END_CHARS:
        found = _split(text)
    else:
        shift = len(text) - MAX_END_CHARS
        found = [
            *_split(text[:MAX_END_CHARS]),
            *(_shift_sentence(sentence, shift) for sentence in _split(text[shift:])),
        ]
    return found if len(found) <= MAX_SENTENCES else found[: MAX_SENTENCES // 2] + found[-MAX_SENTENCES // 2 :]


def _shift_sentence(sentence: Sentence, shift: int) -> Sentence:
    """Return the sentence shifted by `shift` characters, with a paragraph number of its own."""
    heading = (sentence.heading[0] + shift, sentence.heading[1]) if sentence.heading else None
    return replace(
        sentence, start=sentence.start + shift, end=sentence.end + shift, block=-1 - sentence.block, heading=heading
    )


def _split(text: str) -> list[Sentence]:
    found: list[Sentence] = []
    block, heading = 0, None
    for start, end, new_block in _paragraph_lines(text):
        line = text[start:end]
        bullet = _BULLET.match(line) or _TITLE.match(line)
        if new_block or bullet:
            block += 1
        if not bullet and new_block:
            heading = None
        begin = start + (bullet.end() if bullet else 0)
        if not bullet and _ENDS_IN_COLON.search(line) and len(line) < 90:
            *before, last = list(_sentences(text, begin, end, block, None)) or [None]
            if last is None:
                continue
            found.extend(sentence for sentence in before if sentence)
            heading = (last.start, last.plain)
            continue
        found.extend(_sentences(text, begin, end, block, heading if bullet else None))
    return found


def _paragraph_lines(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield runs of the user's lines as (start, end, starts a new paragraph); soft-wrapped lines are one run."""
    run: tuple[int, int, bool] | None = None
    fresh = True
    for start, end in _own_lines(text):
        line = text[start:end]
        if start == end or not line.strip() or _NOISE.match(line) or _INDENTED_CODE.match(line):
            if run:
                yield run
            run, fresh = None, True
            continue
        wrapped = run and not _BULLET.match(line) and _continues(text[run[0] : run[1]], line)
        if run and wrapped:
            run = (run[0], end, run[2])
            continue
        if run:
            yield run
        run, fresh = (start, end, fresh), False
    if run:
        yield run


def _continues(before: str, line: str) -> bool:
    """Return whether `line` continues a wrapped sentence."""
    first = line.lstrip()[:1]
    return before.rstrip()[-1:] not in ".!?:;…" and first.islower() and len(before) - before.rfind("\n") > 40


def _own_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield the lines outside fences and host blocks; an empty span marks each blank line and each cut."""
    position = 0
    while position < len(text):
        cut = _next_cut(text, position)
        stop = cut[0] if cut else len(text)
        for match in re.finditer(r"[^\n\r]+|\r?\n", text[position:stop]):
            if match.group()[0] not in "\r\n":
                yield position + match.start(), position + match.end()
            elif match.start() and text[position + match.start() - 1] in "\n\r":
                yield position + match.start(), position + match.start()
        if cut is None:
            return
        yield cut[0], cut[0]
        position = cut[1]


def _next_cut(text: str, position: int) -> tuple[int, int] | None:
    """Return the span of the next fence or host block from `position` on; an unclosed one ends with the text."""
    opening = _CUT.search(text, position)
    if opening is None:
        return None
    if opening["fence"]:
        close = _FENCE_END[opening["fence"]].search(text, opening.end())
        return opening.start(), close.end() if close else len(text)
    closing = text.find(f"</{opening['tag']}>", opening.end())
    return opening.start(), closing + len(opening["tag"]) + 3 if closing >= 0 else len(text)


def _sentences(text: str, start: int, end: int, block: int, heading: tuple[int, str] | None) -> Iterator[Sentence]:
    begin = start
    for stop in [*_ends(text, start, end), end]:
        while begin < stop and text[begin].isspace():
            begin += 1
        last = stop
        while last > begin and text[last - 1].isspace():
            last -= 1
        if begin < last and last - begin <= MAX_SENTENCE_CHARS:
            words = text[begin:last]
            yield Sentence(begin, last, words, fold(words), block, heading)
        begin = stop


def _ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the ends of sentences between `start` and `end`, outside inline code and addresses."""
    codes = [(m.start(), m.end()) for m in _UNSPLITTABLE.finditer(text[start:end])]
    index = 0
    for match in _END.finditer(text[start:end]):
        position = match.start()
        while index < len(codes) and codes[index][1] <= position:
            index += 1
        if index < len(codes) and codes[index][0] <= position:
            continue
        if match.group() == "." and _ABBREVIATION.search(
            fold(text[max(start, start + position - 8) : start + position + 1])
        ):
            continue
        yield start + match.end()


# Clauses. Prompts chain sentences with commas: "I'm worried about my lease, it ends on May 3, can I leave?". The words
# that open a clause show what it does. The object of a wish or worry is the subject (`matter`) of the next clause.

# ruff: noqa: E501 (a pattern is read best on one line)


_ASKS: Final = (
    r"(?:can|could|would|will|should|shall|do|does|did|is|are|was|were|have|has|how|what|what's|when|where|why|who|who's|which|any (?:idea|tips|advice|suggestions?|recommendations?)"
    r"|got any|please|peux|pouvez|pourrais|pourriez|peut|est-ce|qu'est-ce|comment|pourquoi|quels?|quelles?|combien|que|dois|faut|as|avez|puis|puedes|podrias|como|cual|cuando|donde)"
)
_SUBJECT_WORDS: Final = r"(?:i'm|i've|i'd|i'll|i|we're|we've|we'd|we'll|we|my|our|it's|it|that's|this|he's|he|she's|she|they're|they|there's|je|j'|j'ai|on|nous|mon|ma|mes|notre|nos|c'est|ca|il|elle|mi|mis|yo)"
#: After "which", these words open a relative clause rather than a question.
_RELATIVE: Final = r"is|are|was|were|has|have|had|i|we|my|typically|usually|currently|now|recently|takes?|costs?|includes?|covers?|[a-z]+ed|[a-z]+s"
#: Boundaries between clauses. A comma inside a date or a list is not a boundary.
_BOUNDARY: Final = re.compile(
    rf",\s+(?=which (?:{_RELATIVE})\b)|,?\s+(?:how|why|that|remind me that|the fact that|now that|remember (?:when|how)|the one where|like)\s+(?=(?:it|it's|i've|i|we've|my|our|his|her|their|the)\s)"
    rf"|,\s+(?:(?:and|but|so|or|because|since|mais|et|donc|car|alors|pero|y)\s+)?(?=(?:{_ASKS}|{_SUBJECT_WORDS})(?:[\s']|$))"
    rf"|\s+(?:so|but|because|and|mais|donc|et|car|pero|y)\s+(?=(?:{_SUBJECT_WORDS}|can|could|how|what|should|do you|would|peux|pouvez|comment|est-ce|puedes|como)(?:[\s']|$))"
    rf"|,?\s+(?:considering(?: that)?|given(?: that)?|especially(?: since)?|since|as|sachant que|vu que|etant donne que|puisque)\s+(?={_SUBJECT_WORDS}\b)"
    r"|,\s+(?=(?:tu|vous) (?:peux|pouvez|pourrais|sais|connais)\b|(?:des|une) (?:conseils?|idees?)\b|any (?:idea|tips|advice)\b)"
    r"|\s+(?=(?:can|could|would) you\b|do you (?:have|think|know)\b|(?:peux|pourrais)-tu\b)"
    rf"|\s-{{1,2}}\s(?=(?:and |but |so )?(?:{_ASKS}|{_SUBJECT_WORDS})[\s'])"
    r"|[;—]\s*|:\s+(?=i\b)|\?\s+"
)
_LEAD: Final = re.compile(
    r"(?:(?:and|but|so|or|because|since|as|like|oh|ah|um|uh|hmm|well|yeah|yes|no|ok|okay|hi|hey|thanks|also|actually|anyway|honestly|by the way|btw|speaking of which|you know|in fact|i mean|for (?:context|reference|info)"
    r"|considering(?: that)?|given(?: that)?|especially(?: since)?|now that|mais|et|donc|car|alors|au fait|d'ailleurs|en fait|du coup|bon|sachant que|por cierto|ademas)\b[\s,:]*)+"
)
_ASKING: Final = re.compile(rf"{_ASKS}(?:[\s'-]|$)")
#: The opening of a wish or a worry. Its complement is not a fact, but names the subject of the sentence.
_FRAME: Final = re.compile(
    r"^(?:i|we|je|j'|on|nous)(?:'m| am|'ve been| have been| was|'re| are|'d like| would like| want| need| hope| plan| suis| veux| voudrais|aimerais| cherche| essaie)?\b(?: (?:kinda|kind of|sorta|sort of|a bit|a little|really|so|just|also|currently|actually|still|very|super|now|un peu|vraiment|assez))*"
    r" ?(?:worried|concerned|nervous|anxious|stressed|excited|scared|afraid|struggling|stuck|confused|trying|thinking|looking|planning|hoping|aiming|having (?:trouble|issues|problems|a hard time)|considering|inquiet|inquiete|stresse|stressee|essaie|pense|cherche)?"
    r" ?(?:about|to|of|on|with|for|that|forward to|de|d'|a|pour|que)\b"
)
_SPEAKING: Final = re.compile(
    r"(?:speaking of|talking about|as for|regarding|concerning|about|when it comes to|en parlant de|quant a|pour ce qui est de|concernant)\b"
)
_AIM: Final = re.compile(
    r"^(?:i|we|je|j'|on|nous)(?:'m|'re| am| are|'d| would|'ve been| have been| suis| essaie| cherche| pense| voudrais|aimerais)? ?(?:\w+ ){0,2}?(?:trying|thinking|looking|hoping|considering|aiming|like|want|need|wondering|wonder|hope|wish|essaie|cherche|pense|veux|voudrais|aimerais|quiero)\b"
)
_WORRY: Final = re.compile(
    r"^(?:i|we|je|on|nous)(?:'m|'re| am| are| was| suis| feel)? ?(?:feeling )?(?:\w+ ){0,3}?(?:worried|concerned|nervous|anxious|stressed|excited|scared|afraid|struggling|stuck|confused|having|inquiete?|stressee?)\b"
)
_SUBJECT: Final = re.compile(
    r"^(?:i|i'm|i've|i'd|we|we're|we've|my|our|je|j'|j'ai|on|nous|mon|ma|mes|notre|nos|it|it's|he|he's|she|she's|they|they've|they're|there's|there are|there is|il|elle|c'est|yo|mi|mis|the|this|le|la|les|which|who)\b|^j'|^[a-z]+'s\b"
)
_WHICH: Final = re.compile(rf"which (?:{_RELATIVE})\b")
_FEARED: Final = re.compile(r"\b(?:won't|will|'ll|going to|gonna|may|might|would|n'aurai|ne vais)\b")


class Part(Struct, frozen=True):
    """One clause: characters `start` to `end` of a sentence.

    Attributes:
        plain: its folded words.
        asks: whether it is a question or request, or continues one.
        relative: whether it begins with "which" and describes the noun before.
        wishes: whether it opens a wish or a worry.
        feared: whether it says what the preceding worry is about.
        matter: the object of the preceding wish, worry or question: its start and end in the sentence.
    """

    start: int
    end: int
    plain: str
    asks: bool
    relative: bool
    wishes: bool
    feared: bool
    matter: tuple[int, int] | None


def parts(sentence: Sentence) -> list[Part]:
    """Return the clauses of a sentence, in order."""
    found: list[Part] = []
    asking = False
    matter: tuple[int, int] | None = None
    for start, end in _clause_spans(sentence.plain):
        plain = sentence.plain[start:end]
        relative = start > 0 and _WHICH.match(plain) is not None
        opens = not relative and asks(plain)
        asking = opens or (asking and not relative and not states(plain))
        wishes = _AIM.match(plain) is not None or _WORRY.match(plain) is not None
        worried = bool(found) and _WORRY.match(found[-1].plain) is not None
        feared = worried and _FEARED.search(plain) is not None
        found.append(Part(start, end, plain, asking, relative, wishes, feared, matter))
        matter = complement(sentence.plain, start, end) or (matter if opens else None)
    return found


def asks(plain: str) -> bool:
    """Return whether folded words open a question or a request."""
    return _ASKING.match(plain) is not None


def states(plain: str) -> bool:
    """Return whether folded words open with a subject."""
    return _SUBJECT.match(plain) is not None


def complement(plain: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the range of what a clause wishes for, worries about or turns to, or None."""
    clause = plain[start:end]
    frame = _SPEAKING.match(clause)
    if not frame and (_AIM.match(clause) or _WORRY.match(clause)):
        frame = _FRAME.match(clause)
    if not frame:
        return None
    begin = start + frame.end()
    begin += len(plain[begin:end]) - len(plain[begin:end].lstrip())
    return (begin, end) if begin < end else None


def _clause_spans(plain: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    position = 0
    for match in [*_BOUNDARY.finditer(plain), None]:
        end = match.start() if match else len(plain)
        lead = _LEAD.match(plain, position)
        start = lead.end() if lead else position
        while end > start and plain[end - 1] in " .!?,;:":
            end -= 1
        if start < end:
            spans.append((start, end))
        position = match.end() if match else end
    return spans


# Redaction masks. A sentence such as "the Slack token is [redacted:secret], keep it" is worthless without its value,
# and a memory of it would displace useful ones. Statements extracted from turns are dropped if they are masked; a
# statement made by hand is refused with a message. Every way in calls one of these functions.

MASK: Final = re.compile(r"\[redacted:[\w-]+\]")


def blank_masks(text: str) -> str:
    """Return the text with masks replaced by blanks; positions stay."""
    return MASK.sub(lambda mask: " " * len(mask[0]), text)


def without_masked(statements: Iterable[Statement], text: str) -> tuple[Statement, ...]:
    """Return the statements that hold no mask, neither in their text nor in the sentences that they were read from."""
    masks = [mask.span() for mask in MASK.finditer(text)]
    sentences = [(item.start, item.end) for item in split(blank_masks(text))] if masks else []

    def is_masked(item: Statement) -> bool:
        if MASK.search(item.text):
            return True
        read = [span for span in sentences if span[0] < item.span.end and item.span.start < span[1]]
        read.append((item.span.start, item.span.end))
        return any(start < last and first < end for start, end in read for first, last in masks)

    return tuple(item for item in statements if not is_masked(item))


def require_no_secret(text: str) -> str:
    """Return the redacted text of a statement made by hand, unchanged.

    Raises:
        BadInput: the text holds a masked secret.
    """
    if MASK.search(text):
        raise BadInput(
            "The text contains a secret; Filrouge does not store secrets.",
            remedy="Leave out the value; say where the secret is kept instead.",
        )
    return text


# Units. A long sentence is cut where a new thought begins ("..., but we ...", "... du coup on ..."), because people
# chain statements and requests. The list of joints only says where to cut; the model learns which units matter.

#: Maximum words of a sentence that stays one unit.
_MAX_UNIT_WORDS: Final = 14
#: Minimum words before and after a joint at which a sentence is cut.
_MIN_WORDS_BEFORE, _MIN_WORDS_AFTER = 5, 4
_UNIT_BREAK: Final = re.compile(
    r"(?:;|,|\s[-–—]+|:)\s+(?=(?:and|but|so|because|cause|also|plus|then|et|mais|donc|car|parce|du coup|alors|puis"
    r"|aussi|y|pero|así que|asi que|porque|entonces|además|ademas|we|i|on|je|nous|yo|the|le|la|les|el|los|las)\b)"
    r"|\s+(?=(?:and (?:we|i|the|it|then|also|that|please|can)|but (?:we|i|the)|so (?:we|i|the|that|it)|because"
    r"|du coup|et (?:on|je|le|la|il|puis)|mais (?:on|je|le|la)|parce que|y (?:que|el|la|los|se|no)|pero|porque"
    r"|así que|asi que|um|euh|okay|ok|bueno|pues)\b)",
    re.IGNORECASE,
)
_EDGE: Final = " ,;:-–—"


class Unit(Struct, frozen=True, kw_only=True):
    """Characters `start` to `end` of a prompt.

    Attributes:
        before, after: the text of the neighbouring units, empty at the ends of the prompt.
        index: its position among the units of the prompt.
        count: how many units the prompt has.
    """

    start: int
    end: int
    text: str
    before: str = ""
    after: str = ""
    index: int = 0
    count: int = 1

    def shared(self, start: int, end: int) -> int:
        """Return how many characters the unit shares with the range `start` to `end` of the prompt."""
        return max(0, min(self.end, end) - max(self.start, start))


def units(prompt: str) -> list[Unit]:
    """Return the units of a prompt, in order, without quoted or pasted text."""
    spans = [
        span for sentence in split(own_words(blank_masks(prompt))) for span in _cut_unit(sentence.text, sentence.start)
    ]
    texts = [prompt[start:end] for start, end in spans]
    return [
        Unit(
            start=start,
            end=end,
            text=text,
            before=texts[index - 1] if index else "",
            after=texts[index + 1] if index + 1 < len(texts) else "",
            index=index,
            count=len(texts),
        )
        for index, ((start, end), text) in enumerate(zip(spans, texts, strict=True))
    ]


def _cut_unit(sentence: str, start: int) -> list[tuple[int, int]]:
    """Return the positions in the prompt of a sentence's units."""
    if len(sentence.split()) <= _MAX_UNIT_WORDS:
        return [(start, start + len(sentence))]
    cuts = [0]
    for joint in _UNIT_BREAK.finditer(sentence):
        before, after = sentence[cuts[-1] : joint.start()], sentence[joint.end() :]
        if len(before.split()) >= _MIN_WORDS_BEFORE and len(after.split()) >= _MIN_WORDS_AFTER:
            cuts.append(joint.end())
    pieces = [(a, sentence[a:b].rstrip(_EDGE)) for a, b in zip(cuts, [*cuts[1:], len(sentence)], strict=True)]
    return [(start + a, start + a + len(words)) for a, words in pieces]
