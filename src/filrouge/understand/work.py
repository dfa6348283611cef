# ruff: noqa: E501 (a pattern is read best on one line)
"""Which kind of work a rule speaks of, and a prompt asks for: so that "install httpx" meets "use uv, never pip".

Neither shares a word with the other, nor is near in meaning; what joins them is the kind of work. There are few kinds
that a rule can be about, and each has its verbs, its things and its tools, in English, French and Spanish. A rule that
says when it holds ("before you deploy, run the tests") is about that alone. Nearly every prompt to a coding agent gives
work that is `code`, so that kind says little by itself (`SPECIFIC`).
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from filrouge import lazy_re as re
from filrouge.understand.moods import is_request
from filrouge.understand.own_words import own_words
from filrouge.understand.sentences import split
from filrouge.understand.words import fold

Work = Literal["dependencies", "tests", "history", "release", "schema", "style", "documents", "code"]

SPECIFIC: Final[frozenset[Work]] = frozenset(get_args(Work)) - {"code"}
"""Kinds that a prompt is of seldom enough for a rule about it to be meant."""

_PATTERNS: Final[dict[Work, str]] = {
    "dependencies": r"\b(?:un|re|de|des)?install?(?!ations? (?:guide|page))\w*|\b(?:pip3?|pipx|pipenv|uv|conda|npm|pnpm|yarn|nuget)\b(?! (?:run|test|build|start|exec)\b)"
    r"|\b(?:bun|cargo|gem|bundle|composer|brew|apt|apt-get|poetry|go) (?:add|install|get|update|upgrade|remove)\b"
    r"|\b(?:dependenc(?:y|ies)|dependances?|dependencias?|third-party (?:packages?|librar\w+)|new (?:packages?|librar(?:y|ies))|nouvel(?:le)?s? (?:paquets?|librairies?|bibliotheques?)|nuev[oa]s? (?:paquetes?|librerias?|bibliotecas?)|requirements\.txt|package\.json|lock ?files?)\b"
    r"|\b(?:add|bump|upgrade|update|pin|remove|pull in|ajoute\w*|mets a jour|met a jour|mettre a jour|epingle\w*|retire\w*|anade|agrega|actualiza|quita)\b[^.;]{0,40}\b(?:packages?|paquets?|paquetes?|librar(?:y|ies)|librairies?|bibliotheques?|librerias?|bibliotecas?)\b",
    "tests": r"\b(?:tests?|testing|pytest|jest|vitest|rspec|junit|mocha|phpunit|unittest|tox|playwright|cypress|pruebas?)\b",
    "history": r"\bcommit\w*|\bsquash\w*|\brebas\w+|\bcherry-pick\w*|\b(?:pull|merge) requests?\b|\bopen (?:a|the) pr\b|\bouvre (?:une|la) pr\b|\bgit push\b|\bforce-?push\w*|\bpush(?:ed|ing)? (?:(?:it|this|that|them|everything|my \w+|your \w+|the (?:branch|changes?|commits?|fix|work)|changes) )?(?:to|sur|vers) \w+|\bpouss\w+ (?:\w+ )?(?:sur|vers) \w+|\bbranch(?:es)? names?\b|\bnoms? de branches?\b",
    "release": r"\b(?:re)?deploy\w*|\b(?:re)?deploi\w+|\bdespl[ie]+g\w+|\broll(?:ing)?[ -]?(?:back|out)\b|\bgo(?:ing)? live\b|\b(?:cut|tag|make|publish|prepare|do) (?:a |the |new |next |v?[\d.]+ )*(?:release|version)\b|\b(?:new|next|every|each|all|our) releases?\b|^releases\b|\breleas(?:e|ing) (?:to|version|v?\d|(?:a|the) (?:new|next|app|api|package|site))\b|\bship (?:it |this |the \w+ )?to (?:staging|prod\w*)"
    r"|\b(?:mise|mets|met|mettons|mettre|mettez|passe|passer) (?:\w+ ){0,2}en (?:prod\w*|ligne|preprod\w*)\b|\bpubli(?:e|er|ez) (?:une |la )(?:nouvelle |prochaine )?version\b|\b(?:pon|poner|sube|subir) (?:\w+ )?(?:en|a) produccion\b|\bpublica\w* (?:una |la )(?:nueva )?version\b",
    "schema": r"\b(?:database |db |schema |de la base )?(?:migrations?|migraciones|migracion)\b|\b(?:db|database|sql|table) schema\b|\bschema (?:changes?|of the database|de (?:la )?base)\b|\balter table\b"
    r"|\b(?:add|drop|rename|create|remove|ajoute\w*|supprime\w*|renomme\w*|cree[rsz]?|anade|elimina|crea|new|nouvelles?|nueva)\b[^.;]{0,30}\b(?:columns?|colonnes?|columnas?|db tables?|database tables?|table (?:in|to|dans|sql)|foreign keys?)\b",
    "style": r"\blint\w*|\b(?:eslint|prettier|ruff|black|mypy|pyright|rubocop|clang-format|gofmt)\b|\b(?:re)?format(?:e[rsz]?|te?[rsz]?|ting|ted|ea|eer)? (?:the |all |le |du |el |ce |tout le )*(?:code|files?|fichiers?|codigo|sources?)\b|\btype[ -]?check\w*",
    "documents": r"\b(?:changelog|readme|docstrings?|documentation|documentacion|docs)\b|\b(?:document|documente[rsz]?|documenta)\b",
    "code": r"\bimplement\w*|\bimplante[rz]?\b|\bdevelop(?:s|ing|pe[rsz]?)?\b|\brefactor\w*|\bcod(?:ing|e[rz])\b|\b(?:writ(?:e|ing)|chang(?:e|ing)|touch(?:ing)?|edit(?:ing)?|ecri\w+|modifi\w+|touche[rz]?|escrib\w+) (?:any |the |some |du |le |de |un |una |el )*(?:code|codigo|files?|fichiers?)\b|\bnew features?\b|\bnouvelles? fonctionnalites?\b|\b(?:mak|start)(?:e|ing) (?:any |a )?changes?\b"
    r"|\bnueva funcionalidad\b|\bprogramar\b",
}
_COMPILED: Final[dict[Work, re.Pattern[str]]] = {work: re.compile(pattern) for work, pattern in _PATTERNS.items()}
#: "Add a dark mode", "build the export": work on the code though no word says so; of a request alone.
_MAKES: Final = re.compile(
    r"^(?:(?:please|now|then|ok|also|s'il te plait|stp|maintenant|ensuite|por favor|ahora),? )*(?:(?:can|could|will|would) you |(?:peux|pourrais)-tu |tu peux |puedes )?(?:please )?"
    r"(?:add|build|create|make|write|extend|integrate|rework|rewrite|wire|port|support|fix|ajoute[rz]?|construi\w+|cree[rz]?|ecri\w+|etend\w*|integre[rz]?|reecri\w+|branche[rz]?|corrige[rz]?|anade|construye|crea|escribe|integra|arregla)\b"
)
#: Orders that are seldom given about anything else, and that the moods of prompts in general leave out.
_ORDERS: Final = re.compile(
    r"^(?:(?:please|now|then|and|ok|maintenant|puis|et|ahora|luego),? )*(?:r?e?instala|desinstala|corre|ejecuta|cut|open|commite[rz]?|redeploie[rz]?|reinstalle[rz]?|(?:npm|pnpm|yarn|pip3?|uv|cargo|brew|apt|poetry|composer) (?:add|i|install|update|upgrade|remove)|squash|rebase|push|force-push|pousse[rz]?|despliega|deploie|deployez|roll back|cherry-pick|bump|lint|reformate?[rz]?|documenta|formatea|publica|sube|haz)\b"
)
#: Asks to be told something, not that anything be done.
_EXPLAINS: Final = re.compile(
    r"\b(?:explain|describe|show me how|tell me|how (?:to|do|does|can|could|would)|explique|decris|montre-moi comment|dis-moi|comment (?:faire|on|je)|explica|describe|dime|como se)\b"
)
#: When a rule holds.
_TRIGGER: Final = re.compile(
    r"\b(?:before|after|when(?:ever)?|while|each time|every ?time|if you|avant (?:de |d'|chaque |tout\w* )?|apres|quand|lorsqu[e']|chaque fois qu[e']|a chaque|antes de|despues de|cuando|cada vez que|si tu)(?=[ '\w])(?P<what>[^,;:.!?]{3,60})"
)


def of_rule(text: str) -> frozenset[Work]:
    """The kinds of work that a rule is about: those of its condition, or where that names none, of all its words."""
    plain = fold(text)
    conditions: set[Work] = {work for found in _TRIGGER.finditer(plain) for work in _kinds(found["what"])}
    return frozenset(conditions) or _kinds(plain)


def of_prompt(text: str) -> frozenset[Work]:
    """The kinds of work that a prompt asks for; none where it asks for no work."""
    found: set[Work] = set()
    for sentence in split(own_words(text)):
        if _EXPLAINS.search(sentence.plain):
            continue
        if is_request(sentence.plain) or _ORDERS.match(sentence.plain):
            found |= _kinds(sentence.plain)
            if _MAKES.match(sentence.plain):
                found.add("code")
    return frozenset(found)


def _kinds(plain: str) -> frozenset[Work]:
    return frozenset(work for work, pattern in _COMPILED.items() if pattern.search(plain))
