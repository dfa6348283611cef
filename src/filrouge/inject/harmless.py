"""Harmless text: stored text that a model reads as nothing but quoted words.

Stored text may be hostile. It loses control, bidirectional, zero-width and tag characters and spans no lines; it
cannot close the block it stands in, cannot open a tag that a host or a model gives meaning to, in whatever width, with
whatever marks, entities or look-alike letters it is written, cannot begin with the name of a speaker, and makes no
client fetch a picture or follow a link. Letters that are not hostile stay. Most texts hold nothing of the kind, so each
step is taken only where its sign is there.
"""

from __future__ import annotations

import unicodedata
from html import unescape
from typing import Final

from filrouge import lazy_re as re

#: Tags and words that hosts, models and Filrouge itself give meaning to, and elements that fetch something.
_RESERVED: Final = re.compile(
    r"\s*[/!?]?\s*(?:system|assistant|human|user|developer|tool|function|antml|private|recalled|memory|filrouge"
    r"|command|local-command|task-notification|environment|instruction|context|hook|persisted"
    r"|think|thought|reasoning|reflection|scratchpad|analysis|inner|answer|response|prompt|message|role|turn|conversation"
    r"|im_|im-|begin|start_of|end_of|bos\b|eos\b|document|search|result|rule|polic|priority|important|override|admin|root"
    r"|systeme|sistema|utilisat|usuari|asistente|benutzer|consigne|instruccion|anweisung"
    r"|img\b|image|picture|iframe|frame|script|link\b|style|object|embed|video|audio|source|track|svg|base\b|meta\b|form\b|body\b|html\b"
    r"|invoke|parameter|\||sys\s*>)"
)
#: `[INST]` and `[/INST]`, between which some models read their user.
_BRACKET: Final = re.compile(r"[\[［﹇](?=(.{0,40}))")
_INSTRUCTION: Final = re.compile(r"\s*/?\s*inst\b")
#: What may open a tag, with what follows it: models read a full-width, small or struck `<` as one.
#: Also where it is spelt as an entity or an escape, which a client or a model may undo.
_OPENER: Final = re.compile(
    r"(?:[<＜﹤≮]|&(?:amp;){0,9}(?:lt|#0{0,9}60|#x0{0,9}3c);?|\\{1,4}(?:u00|x)3c|%3c)(?=(.{0,90}))", re.IGNORECASE
)
#: Markdown that a client turns into a picture, which it fetches, or into a link.
_IMAGE: Final = re.compile(r"!(?=\[)")
_LINK: Final = re.compile(r"\](?=\(\s{0,20}<?\s{0,20}(?:[a-z][a-z0-9+.-]{1,20}:|//|\\\\))", re.IGNORECASE)
#: What may name a speaker, where a line begins or began before it was joined to the one before.
_SPEAKER: Final = re.compile(r"(^|(?<= / ))(\W{0,20})([^\s:：]{4,90})\s*[:：﹕︓]")
#: Roles of a conversation in the languages of hosts and users, as `_skeleton` writes them.
_SPEAKERS: Final = frozenset(
    """
    system systemprompt assistant human user developer tool function chatgpt claude copilot gemini
    systeme utilisateur utilisatrice humain assistante developpeur developpeuse outil
    sistema usuario usuaria humano humana asistente desarrollador desarrolladora herramienta
    benutzer benutzerin nutzer nutzerin mensch assistent assistentin entwickler werkzeug
    utente assistente umano sviluppatore strumento desenvolvedor ferramenta gebruiker anvandare bruker uzytkownik
    """.split()
)
#: More marks on one letter than any script writes: what hides a name from who looks for it.
_HEAPED: Final = re.compile(
    "([\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3})[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
_LINE_BREAKS: Final = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+\s*")
_PLAIN: Final = re.compile(r"[\x20-\x7e]*\Z")
#: Letters and marks that are not shown though no category says so: fillers, joiners, variation selectors.
_IGNORABLE: Final = (
    frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
    | {chr(n) for n in range(0x180B, 0x1810)}
    | {chr(n) for n in range(0xFE00, 0xFE10)}
    | {chr(n) for n in range(0xE0100, 0xE01F0)}
)
#: Cc control, Cf bidi, zero-width and tags, Co private, Cs surrogate, Cn unassigned.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
#: Cyrillic and Greek letters that look like a Latin one of a reserved name.
_LOOK_ALIKE: Final = str.maketrans("аеорсухіѕјһԁгмтнкνοαιρυτ", "aeopcyxisjhdrmtnkvoaiput")
_MOST_REMEMBERED: Final = 20_000


class _Visible(dict[int, int | None]):
    """What each character becomes, asked of Unicode once: itself, a space for a tab, or nothing."""

    def __missing__(self, code: int) -> int | None:
        char = chr(code)
        if len(self) > _MOST_REMEMBERED:
            self.clear()
        hidden = char in _IGNORABLE or unicodedata.category(char) in _UNSEEN
        self[code] = 32 if char == "\t" else None if hidden else code
        return self[code]


_VISIBLE: Final = _Visible()


def neutral(text: str) -> str:
    """Text that is only text: one line, visible characters, no tag that means something to a host."""
    text = text.strip()
    if not _PLAIN.match(text):
        text = _LINE_BREAKS.sub(" / ", text).translate(_VISIBLE)
        text = _HEAPED.sub(r"\1", unicodedata.normalize("NFC", text))
    text = _OPENER.sub(_unless_reserved, text)
    text = _BRACKET.sub(_unless_instruction, text)
    text = _LINK.sub("] ", _IMAGE.sub("! ", text))
    return _SPEAKER.sub(_unless_speaker, text).strip()


def _unless_reserved(opener: re.Match[str]) -> str:
    """The opener, or a mark that opens nothing where a reserved name follows, however it is written."""
    return "‹" if _RESERVED.match(_skeleton(opener[1])) else opener[0]


def _unless_instruction(bracket: re.Match[str]) -> str:
    """The bracket, or a parenthesis where it would open an instruction."""
    return "(" if _INSTRUCTION.match(_skeleton(bracket[1])) else bracket[0]


def _unless_speaker(named: re.Match[str]) -> str:
    """What stood there, or the name and a dash where it is a speaker's."""
    name = re.sub(r"\W", "", _skeleton(named[3]))
    return f"{named[1]}{named[2]}{named[3]} -" if name in _SPEAKERS else named[0]


def _skeleton(name: str) -> str:
    """What a name looks like: plain width, without marks, in small Latin letters."""
    if "&" in name:
        name = unescape(name)
    if name.isascii():
        return name.lower()
    bare = "".join(char for char in unicodedata.normalize("NFKD", name) if unicodedata.category(char)[0] != "M")
    return bare.casefold().translate(_LOOK_ALIKE)
