"""Units: the pieces of a prompt of which each is asked whether it states something.

A unit is a sentence in the user's own words. A long one is cut further where a new thought begins ("..., but we ...",
"... du coup on ..."), because people chain what they tell and what they ask for. Lists of these joints are data, not
knowledge of what matters: that is learned. What redaction masked teaches nothing.

Pure: no database, no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from filrouge.core import text as re
from filrouge.core.errors import BadInput
from filrouge.extraction.own_words import own_words
from filrouge.extraction.vocabulary import fold
from filrouge.memories.models import Statement

# Sentences and clauses of a text, with their exact positions, leaving out what nobody said.
#
# Pure: no database, no file.

# Cut a text into sentences with exact positions, leaving out what nobody said.
#
# Code fences, quoted lines, logs, diffs, tables, JSON and blocks that a host wrote are no sentences: they are cut
# away and also end the sentence before them. Of a prompt, `own_words` takes out the rest of what the user only quotes
# or pastes, before it comes here. What remains is split at the end of sentences, never inside a version (`3.11`), a
# file name, a host (`Fly.io`), an abbreviation or inline code. A list item knows the heading above it, because "Rules
# for this repo:" is what makes its items rules.

# ruff: noqa: E501 (a pattern is read best on one line)


#: Longer than this it is a paste, not a sentence.
LONGEST: Final = 700
#: A prompt is read to its end up to twice this; of a longer one, this much at the start and at the end.
END: Final = 60_000
#: A prompt with more sentences than this is read at both ends only.
MOST: Final = 400


@dataclass(frozen=True, slots=True)
class Sentence:
    """Characters `start` to `end` of the prompt, the words there, and the same words folded.

    Attributes:
        block: sentences of one paragraph share it; only they can complete each other.
        heading: where the heading of this list item starts, and its folded words.
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
#: Where a fence or a host's block opens.
_CUT: Final = re.compile(
    rf"^[ \t]{{0,3}}(?P<fence>```|~~~)|<(?P<tag>{_HOST_TAGS})\b[^>]{{0,300}}>", re.IGNORECASE | re.MULTILINE
)
_FENCE_END: Final = {mark: re.compile(rf"^[ \t]*{mark}[^\n]*$", re.MULTILINE) for mark in ("```", "~~~")}

#: Lines that a program wrote: quote, shell, log, stack, diff, table, JSON, markup, code.
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
_HEADING: Final = re.compile(r":\s*$")
_TITLE: Final = re.compile(r"^\s{0,3}#{1,6}\s+(?=[A-ZÀ-Ý])")
_END: Final = re.compile(r"(?:[.!?…]+[\"'”»)]*|[?!…]|[\U0001F300-\U0001FAFF]\ufe0f?)(?=\s|$)")
_WHOLE: Final = re.compile(r"`[^`\n]{1,200}`|https?://\S+(?=\s+[a-z])")
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|p\.ex|ex|approx|no|resp|incl|min|max|mr|mrs|ms|dr|mme|st|env|[a-z])\.$"
)


def split(text: str) -> list[Sentence]:
    """Every sentence of `text` that the user may have said, in order; of a huge paste, those at both ends."""
    if len(text) <= 2 * END:
        found = _split(text)
    else:
        shift = len(text) - END
        found = [*_split(text[:END]), *(_moved(sentence, shift) for sentence in _split(text[shift:]))]
    return found if len(found) <= MOST else found[: MOST // 2] + found[-MOST // 2 :]


def _moved(sentence: Sentence, shift: int) -> Sentence:
    """The same sentence, `shift` characters further on and in a paragraph of its own."""
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
        if not bullet and _HEADING.search(line) and len(line) < 90:
            *before, last = list(_sentences(text, begin, end, block, None)) or [None]
            if last is None:
                continue
            found.extend(one for one in before if one)
            heading = (last.start, last.plain)
            continue
        found.extend(_sentences(text, begin, end, block, heading if bullet else None))
    return found


def _paragraph_lines(text: str) -> Iterator[tuple[int, int, bool]]:
    """Runs of the user's lines: (start, end, starts a new paragraph); soft-wrapped lines are one run."""
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
    """True when `line` is the rest of a wrapped sentence."""
    first = line.lstrip()[:1]
    return before.rstrip()[-1:] not in ".!?:;…" and first.islower() and len(before) - before.rfind("\n") > 40


def _own_lines(text: str) -> Iterator[tuple[int, int]]:
    """Lines outside fences and host blocks; an empty pair stands for what was cut."""
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
    """The next fence or host block from `position` on, to its end (or the end of the text when unclosed)."""
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
        if begin < last and last - begin <= LONGEST:
            words = text[begin:last]
            yield Sentence(begin, last, words, fold(words), block, heading)
        begin = stop


def _ends(text: str, start: int, end: int) -> Iterator[int]:
    """Where sentences end between `start` and `end`, outside inline code and addresses."""
    codes = [(m.start(), m.end()) for m in _WHOLE.finditer(text[start:end])]
    index = 0
    for match in _END.finditer(text[start:end]):
        at = match.start()
        while index < len(codes) and codes[index][1] <= at:
            index += 1
        if index < len(codes) and codes[index][0] <= at:
            continue
        if match.group() == "." and _ABBREVIATION.search(fold(text[max(start, start + at - 8) : start + at + 1])):
            continue
        yield start + match.end()


# The clauses of a sentence, and what each does: state, ask, wish or worry.
#
# A prompt runs several sentences together with commas: "I'm worried about my lease, it ends on May 3, can I leave?".
# Its clauses are told apart by the words that open them. What a wish or a worry is about names the matter of what
# follows.

# ruff: noqa: E501 (a pattern is read best on one line)


_ASKS: Final = (
    r"(?:can|could|would|will|should|shall|do|does|did|is|are|was|were|have|has|how|what|what's|when|where|why|who|who's|which|any (?:idea|tips|advice|suggestions?|recommendations?)"
    r"|got any|please|peux|pouvez|pourrais|pourriez|peut|est-ce|qu'est-ce|comment|pourquoi|quels?|quelles?|combien|que|dois|faut|as|avez|puis|puedes|podrias|como|cual|cuando|donde)"
)
_I: Final = r"(?:i'm|i've|i'd|i'll|i|we're|we've|we'd|we'll|we|my|our|it's|it|that's|this|he's|he|she's|she|they're|they|there's|je|j'|j'ai|on|nous|mon|ma|mes|notre|nos|c'est|ca|il|elle|mi|mis|yo)"
#: After "which", these tell rather than ask.
_RELATIVE: Final = r"is|are|was|were|has|have|had|i|we|my|typically|usually|currently|now|recently|takes?|costs?|includes?|covers?|[a-z]+ed|[a-z]+s"
#: Where one clause ends and another begins. A comma inside a date or a list is none.
_BOUNDARY: Final = re.compile(
    rf",\s+(?=which (?:{_RELATIVE})\b)|,?\s+(?:how|why|that|remind me that|the fact that|now that|remember (?:when|how)|the one where|like)\s+(?=(?:it|it's|i've|i|we've|my|our|his|her|their|the)\s)"
    rf"|,\s+(?:(?:and|but|so|or|because|since|mais|et|donc|car|alors|pero|y)\s+)?(?=(?:{_ASKS}|{_I})(?:[\s']|$))"
    rf"|\s+(?:so|but|because|and|mais|donc|et|car|pero|y)\s+(?=(?:{_I}|can|could|how|what|should|do you|would|peux|pouvez|comment|est-ce|puedes|como)(?:[\s']|$))"
    rf"|,?\s+(?:considering(?: that)?|given(?: that)?|especially(?: since)?|since|as|sachant que|vu que|etant donne que|puisque)\s+(?={_I}\b)"
    r"|,\s+(?=(?:tu|vous) (?:peux|pouvez|pourrais|sais|connais)\b|(?:des|une) (?:conseils?|idees?)\b|any (?:idea|tips|advice)\b)"
    r"|\s+(?=(?:can|could|would) you\b|do you (?:have|think|know)\b|(?:peux|pourrais)-tu\b)"
    rf"|\s-{{1,2}}\s(?=(?:and |but |so )?(?:{_ASKS}|{_I})[\s'])"
    r"|[;—]\s*|:\s+(?=i\b)|\?\s+"
)
_LEAD: Final = re.compile(
    r"(?:(?:and|but|so|or|because|since|as|like|oh|ah|um|uh|hmm|well|yeah|yes|no|ok|okay|hi|hey|thanks|also|actually|anyway|honestly|by the way|btw|speaking of which|you know|in fact|i mean|for (?:context|reference|info)"
    r"|considering(?: that)?|given(?: that)?|especially(?: since)?|now that|mais|et|donc|car|alors|au fait|d'ailleurs|en fait|du coup|bon|sachant que|por cierto|ademas)\b[\s,:]*)+"
)
_ASKING: Final = re.compile(rf"{_ASKS}(?:[\s'-]|$)")
#: The frame of a wish or a worry: its complement is no fact, but names what the sentence is about.
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


@dataclass(frozen=True, slots=True)
class Part:
    """Characters `start` to `end` of a sentence that are one clause.

    Attributes:
        plain: its words, folded.
        asks: it is a question or a request, or goes on with one.
        relative: it begins with "which" and tells something of the noun before.
        wishes: it opens a wish or a worry.
        feared: it says what the worry before it fears.
        matter: what the wish, worry or question before it is about, as characters of the sentence.
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
    """The clauses of a sentence, in order."""
    found: list[Part] = []
    asking = False
    matter: tuple[int, int] | None = None
    for start, end in _cut(sentence.plain):
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
    """True for folded words that open a question or a request."""
    return _ASKING.match(plain) is not None


def states(plain: str) -> bool:
    """True for folded words that open with a subject."""
    return _SUBJECT.match(plain) is not None


def complement(plain: str, start: int, end: int) -> tuple[int, int] | None:
    """What a clause wishes for, worries about or turns to, without its frame."""
    said = plain[start:end]
    frame = _SPEAKING.match(said)
    if not frame and (_AIM.match(said) or _WORRY.match(said)):
        frame = _FRAME.match(said)
    if not frame:
        return None
    begin = start + frame.end()
    begin += len(plain[begin:end]) - len(plain[begin:end].lstrip())
    return (begin, end) if begin < end else None


def _cut(plain: str) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    at = 0
    for match in [*_BOUNDARY.finditer(plain), None]:
        end = match.start() if match else len(plain)
        lead = _LEAD.match(plain, at)
        start = lead.end() if lead else at
        while end > start and plain[end - 1] in " .!?,;:":
            end -= 1
        if start < end:
            pieces.append((start, end))
        at = match.end() if match else end
    return pieces


# Masks: what redaction leaves in the place of a secret. A statement whose value is masked teaches nothing.
#
# A sentence such as "the Slack token is [redacted:secret], keep it" tells nothing without its value, and a memory of
# it would be shown in the place of things that help. Every way in asks here: statements that were read out of a turn
# are dropped, and what the user or an agent states by hand is refused with a message.

MASK: Final = re.compile(r"\[redacted:[\w-]+\]")


def blanked(text: str) -> str:
    """The text with blanks in the place of masks, so that every position stays."""
    return MASK.sub(lambda mask: " " * len(mask[0]), text)


def unmasked(statements: Iterable[Statement], text: str) -> tuple[Statement, ...]:
    """The statements without a mask in their own words or in the sentences of `text` that they were read from."""
    masks = [mask.span() for mask in MASK.finditer(text)]
    sentences = [(one.start, one.end) for one in split(blanked(text))] if masks else []

    def is_masked(one: Statement) -> bool:
        if MASK.search(one.text):
            return True
        read = [span for span in sentences if span[0] < one.span.end and one.span.start < span[1]]
        read.append((one.span.start, one.span.end))
        return any(start < last and first < end for start, end in read for first, last in masks)

    return tuple(one for one in statements if not is_masked(one))


def without_secret(text: str) -> str:
    """The redacted text of a statement made by hand, unchanged.

    Raises:
        BadInput: a secret was masked in it.
    """
    if MASK.search(text):
        raise BadInput(
            "This holds a secret, and Filrouge keeps no secrets.",
            remedy="Say it without the value, for example where the secret is kept.",
        )
    return text


# Units: the pieces of a prompt of which each is asked whether it states something.
#
# A unit is a sentence in the user's own words. A long one is cut further where a new thought begins ("..., but we
# ...", "... du coup on ..."), because people chain what they tell and what they ask for. Lists of these joints are
# data, not knowledge of what matters: that is learned.

#: A sentence of at most so many words is one unit.
_SHORT: Final = 14
#: What is cut has at least so many words before the joint, and after it.
_LEAST_BEFORE, _LEAST_AFTER = 5, 4
_JOINT: Final = re.compile(
    r"(?:;|,|\s[-–—]+|:)\s+(?=(?:and|but|so|because|cause|also|plus|then|et|mais|donc|car|parce|du coup|alors|puis"
    r"|aussi|y|pero|así que|asi que|porque|entonces|además|ademas|we|i|on|je|nous|yo|the|le|la|les|el|los|las)\b)"
    r"|\s+(?=(?:and (?:we|i|the|it|then|also|that|please|can)|but (?:we|i|the)|so (?:we|i|the|that|it)|because"
    r"|du coup|et (?:on|je|le|la|il|puis)|mais (?:on|je|le|la)|parce que|y (?:que|el|la|los|se|no)|pero|porque"
    r"|así que|asi que|um|euh|okay|ok|bueno|pues)\b)",
    re.IGNORECASE,
)
_EDGE: Final = " ,;:-–—"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """Characters `start` to `end` of a prompt.

    Attributes:
        before, after: the text of the units beside it, empty at the ends of the prompt.
        place: its number in the prompt, of `number`.
    """

    start: int
    end: int
    text: str
    before: str = ""
    after: str = ""
    place: int = 0
    number: int = 1

    @property
    def in_setting(self) -> str:
        """The unit behind the end of the one before it."""
        return f"{self.before[-160:]} {self.text}".strip()

    def shared(self, start: int, end: int) -> int:
        """How many characters of the prompt the unit shares with those from `start` to `end`."""
        return max(0, min(self.end, end) - max(self.start, start))


def units(prompt: str) -> list[Unit]:
    """The units of a prompt, in order; none of what it quotes or pastes."""
    spans = [span for one in split(own_words(blanked(prompt))) for span in _cut_unit(one.text, one.start)]
    texts = [prompt[start:end] for start, end in spans]
    return [
        Unit(
            start=start,
            end=end,
            text=text,
            before=texts[place - 1] if place else "",
            after=texts[place + 1] if place + 1 < len(texts) else "",
            place=place,
            number=len(texts),
        )
        for place, ((start, end), text) in enumerate(zip(spans, texts, strict=True))
    ]


def _cut_unit(sentence: str, start: int) -> list[tuple[int, int]]:
    """Where the units of a sentence stand in the prompt."""
    if len(sentence.split()) <= _SHORT:
        return [(start, start + len(sentence))]
    cuts = [0]
    for joint in _JOINT.finditer(sentence):
        before, after = sentence[cuts[-1] : joint.start()], sentence[joint.end() :]
        if len(before.split()) >= _LEAST_BEFORE and len(after.split()) >= _LEAST_AFTER:
            cuts.append(joint.end())
    pieces = [(a, sentence[a:b].rstrip(_EDGE)) for a, b in zip(cuts, [*cuts[1:], len(sentence)], strict=True)]
    return [(start + a, start + a + len(piece)) for a, piece in pieces]
