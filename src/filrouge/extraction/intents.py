"""What a prompt wants: a kind of work, a reminder, the timeline, going back to earlier work, or nothing stated.

"Install httpx" and "use uv, never pip" share no word and are not near in meaning; the kind of work connects them.
There are few kinds that a rule can be about. Each has its verbs, objects and tools in English, French and Spanish. A
rule with a condition ("before you deploy, run the tests") is about the condition's kind alone. Nearly every prompt to
a coding agent is of the kind `code`, so that kind says little by itself (`SPECIFIC_KINDS`).

`asked_period` recognises "what did we talk about last week?". Such a prompt wants the timeline, not single memories.
The whole prompt must be such a question, optionally with a time. "What did we discuss about the cache?" names a
subject and is left to recall. Everyday verbs (do, work, say) count only together with a time.
`is_resuming` recognises "let's get back to the importer". Only such a prompt needs to know where the work stood.

Pure: no database, no file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from filrouge.core import lazy_re as re
from filrouge.core.clock import Language
from filrouge.extraction import reading
from filrouge.extraction.models import REMINDERS, Reminder
from filrouge.extraction.own_words import own_words, written_by_host
from filrouge.extraction.reading import is_request, silent_mood
from filrouge.extraction.sentences import split
from filrouge.extraction.vocabulary import fold

# Kinds of work.

# ruff: noqa: E501 (a pattern is read best on one line)


Work = Literal["dependencies", "tests", "history", "release", "schema", "style", "documents", "code"]

SPECIFIC_KINDS: Final[frozenset[Work]] = frozenset(get_args(Work)) - {"code"}
"""Kinds that are rare enough among prompts for a rule about them to apply."""

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
#: "Add a dark mode", "build the export": work on the code without a word for it. Applies to requests only.
_MAKES: Final = re.compile(
    r"^(?:(?:please|now|then|ok|also|s'il te plait|stp|maintenant|ensuite|por favor|ahora),? )*(?:(?:can|could|will|would) you |(?:peux|pourrais)-tu |tu peux |puedes )?(?:please )?"
    r"(?:add|build|create|make|write|extend|integrate|rework|rewrite|wire|port|support|fix|ajoute[rz]?|construi\w+|cree[rz]?|ecri\w+|etend\w*|integre[rz]?|reecri\w+|branche[rz]?|corrige[rz]?|anade|construye|crea|escribe|integra|arregla)\b"
)
#: Imperatives that are almost always about these kinds and that `is_request` does not cover.
_ORDERS: Final = re.compile(
    r"^(?:(?:please|now|then|and|ok|maintenant|puis|et|ahora|luego),? )*(?:r?e?instala|desinstala|corre|ejecuta|cut|open|commite[rz]?|redeploie[rz]?|reinstalle[rz]?|(?:npm|pnpm|yarn|pip3?|uv|cargo|brew|apt|poetry|composer) (?:add|i|install|update|upgrade|remove)|squash|rebase|push|force-push|pousse[rz]?|despliega|deploie|deployez|roll back|cherry-pick|bump|lint|reformate?[rz]?|documenta|formatea|publica|sube|haz)\b"
)
#: Phrases that ask for an explanation, not for work.
_EXPLAINS: Final = re.compile(
    r"\b(?:explain|describe|show me how|tell me|how (?:to|do|does|can|could|would)|explique|decris|montre-moi comment|dis-moi|comment (?:faire|on|je)|explica|describe|dime|como se)\b"
)
#: The condition of a rule.
_TRIGGER: Final = re.compile(
    r"\b(?:before|after|when(?:ever)?|while|each time|every ?time|if you|avant (?:de |d'|chaque |tout\w* )?|apres|quand|lorsqu[e']|chaque fois qu[e']|a chaque|antes de|despues de|cuando|cada vez que|si tu)(?=[ '\w])(?P<what>[^,;:.!?]{3,60})"
)


def kinds_of_rule(text: str) -> frozenset[Work]:
    """Return the kinds of work that a rule is about: those of its condition, or of all its words if it has none."""
    plain = fold(text)
    conditions: set[Work] = {work for found in _TRIGGER.finditer(plain) for work in _find_kinds(found["what"])}
    return frozenset(conditions) or _find_kinds(plain)


def kinds_of_prompt(text: str) -> frozenset[Work]:
    """Return the kinds of work that a prompt asks for."""
    found: set[Work] = set()
    for sentence in split(own_words(text)):
        if _EXPLAINS.search(sentence.plain):
            continue
        if is_request(sentence.plain) or _ORDERS.match(sentence.plain):
            found |= _find_kinds(sentence.plain)
            if _MAKES.match(sentence.plain):
                found.add("code")
    return frozenset(found)


def _find_kinds(plain: str) -> frozenset[Work]:
    return frozenset(work for work, pattern in _COMPILED.items() if pattern.search(plain))


# Reminders of how to work, for prompts that ask for the kind of work they concern (RULE-2). They change what an agent
# does, so each is off by default, and an enabled one is only added if the prompt calls for it. Their texts are fixed
# and never contain words of the prompt.

# ruff: noqa: E501 (a pattern is read best on one line)


REMINDER_TEXTS: Final[Mapping[Reminder, Mapping[Language, str]]] = {
    "plan_mode_required": {
        "en": "The user wants a plan before any change of this size: propose it, and wait for their agreement.",
        "fr": "L'utilisateur veut un plan avant tout changement de cette taille : le proposer, et attendre son accord.",
        "es": "El usuario quiere un plan antes de un cambio de este tamaño: proponerlo y esperar su acuerdo.",
    },
    "no_quick_solutions": {
        "en": "The user wants the cause found before anything is changed: no quick fix that only hides the symptom.",
        "fr": "L'utilisateur veut que la cause soit trouvée avant tout changement : pas de rustine qui cache le symptôme.",
        "es": "El usuario quiere que se encuentre la causa antes de cambiar nada: sin parches que escondan el síntoma.",
    },
    "present_all_choices": {
        "en": "The user wants to see all reasonable choices with what speaks for and against each, before one is picked.",
        "fr": "L'utilisateur veut voir tous les choix raisonnables, avec le pour et le contre, avant qu'un seul soit retenu.",
        "es": "El usuario quiere ver todas las opciones razonables, con lo que habla a favor y en contra, antes de elegir.",
    },
}
_TRIGGERS: Final[Mapping[Reminder, re.Pattern[str]]] = {
    "plan_mode_required": re.compile(
        r"\b(?:implement|build|refactor|redesign|rewrite|migrate|port|integrate|restructure|overhaul|introduce|develop)\b"
        r"|\b(?:add|create|write|set ?up) (?:an? |the |some )?(?:[\w-]+ ){0,3}(?:feature|module|service|endpoint|api|page|screen|system|support|integration|pipeline|schema|migration)\b"
        r"|\b(?:implemente[rsz]?|developpe[rsz]?|construi[st]|refactorise[rsz]?|reecri[sv]\w*|migre[rsz]?|integre[rsz]?|restructure[rsz]?|refonds|refais)\b"
        r"|\b(?:ajoute[rsz]?|cree[rsz]?|ecri[st]) (?:une? |le |la |les |des )?(?:[\w'-]+ ){0,3}(?:fonctionnalites?|modules?|services?|api|pages?|ecrans?|systeme|integration|schema|migration)\b"
        r"|\b(?:implementa[r]?|desarrolla[r]?|construye|construir|refactoriza[r]?|reescrib\w+|migra[r]?|integra[r]?)\b"
    ),
    "no_quick_solutions": re.compile(
        r"\b(?:fix|debug|solve|repair|patch|work ?around|quick(?:ly)? (?:fix|hack)|hack|silence|suppress)\b|\b(?:get rid of|make) .{0,40}\b(?:errors?|warnings?|pass|go away)\b"
        r"|\b(?:corrige[rsz]?|repare[rsz]?|debogue[rsz]?|depanne[rsz]?|contourne[rsz]?|resou[st]|resoudre|rustine)\b|\bfais (?:taire|disparaitre|passer)\b"
        r"|\b(?:arregla[r]?|corrige|corregir|repara[r]?|depura[r]?|soluciona[r]?|parche)\b"
    ),
    "present_all_choices": re.compile(
        r"\b(?:which|what) (?:[\w-]+ ){0,4}(?:should|would|do you (?:recommend|suggest|prefer)|is (?:the )?(?:best|better))\b|\bshould (?:we|i) (?:use|choose|go|pick|take|keep|switch|prefer)\b|\b(?:best|better) (?:way|option|choice|approach|tool|library)\b|\b(?:choose|pick|decide) (?:between|a|an|the|one)\b|\b(?:pros and cons|trade-?offs?|options|alternatives)\b| (?:vs\.?|versus) "
        r"|\bquel(?:le)?s? (?:[\w'-]+ ){0,4}(?:choisir|prendre|utiliser|recommand\w+|conseill\w+|prefer\w+)\b|\b(?:faut-il|doit-on|vaut-il mieux|on devrait) (?:plutot )?(?:utiliser|choisir|prendre|garder|passer)\b|\bmeilleure?s? (?:\w+ )?(?:facon|maniere|choix|option|outil|approche|solution|bibliotheque)\b|\b(?:choisir|hesite|trancher) entre\b|\bavantages et (?:les )?inconvenients\b"
        r"|\bcual (?:[\w-]+ ){0,4}(?:elegir|usar|recomiendas|prefieres|es mejor)\b|\bmejor (?:manera|forma|opcion|herramienta)\b|\b(?:elegir|escoger) entre\b|\bventajas y desventajas\b"
    ),
}


def find_reminders(prompt: str, switched_on: Collection[Reminder]) -> tuple[Reminder, ...]:
    """Return the enabled reminders that a prompt calls for, in their fixed order."""
    enabled: list[Reminder] = [name for name in REMINDERS if name in switched_on]
    if not enabled or written_by_host(prompt):
        return ()
    sentences = [sentence.plain for sentence in split(own_words(prompt)) if not reading.JOKE.search(sentence.plain)]
    return tuple(name for name in enabled if any(_is_called_for(name, sentence) for sentence in sentences))


def _is_called_for(name: Reminder, plain: str) -> bool:
    """Return whether a folded sentence calls for a reminder.

    For choices any match counts. For work, the match must open the sentence or the sentence must be a request, because
    reports of work use the same words.
    """
    found = _TRIGGERS[name].search(plain)
    if found is None:
        return False
    return name == "present_all_choices" or found.start() == 0 or reading.is_request(plain)


# Prompts about memory itself: what was discussed, or going back to earlier work; in English, French and Spanish.

# ruff: noqa: E501 (a pattern is read best on one line)


Period = Literal["today", "yesterday", "week", "last_week", "month", "last_month", "recently", "all"]

_MAX_PERIOD_CHARS: Final = 200
_WE: Final = r"(?:we|i|you and i|us)"
_EXPLICIT: Final = (
    # English
    rf"what (?:all |topics |subjects |things |else )?(?:did|have|had|were|was|are) {_WE} (?:been |just |all )*(?:talk(?:ed|ing)?|spe?ak(?:ing)?|spoken|discuss(?:ed|ing)?|chat(?:ted|ting)?|cover(?:ed|ing)?)(?: about| over| on)?",
    rf"(?:what|everything|all|(?:the )?(?:topics|subjects|things))(?: that)? {_WE}(?:'ve|'d| have| had| were)? (?:been )?(?:talked|talking|spoke|spoken|discussed|discussing|chatted|covered)(?: about| over| on)?",
    r"(?:what were|summari[sz]e|list|show me|recap|what about) our (?:last |recent |latest |previous )?(?:conversations|discussions|topics)",
    r"(?:which|what) (?:topics|subjects) (?:came up|were discussed|were covered)",
    # French
    r"de quoi (?:est-ce (?:qu'on|que nous) )?(?:a-t-on|on a|on avait|avons-nous|nous avons|avions-nous|a|avons) ?(?:deja |bien )?(?:parle|discute|cause)",
    r"de quoi (?:est-ce qu')?(?:on |nous )?(?:parlait(?:-on)?|parlions(?:-nous)?|discutait(?:-on)?|discutions)",
    r"on (?:a (?:parle|discute|cause)|parlait|discutait) de quoi",
    r"(?:de )?quels? (?:sujets?|themes?) (?:est-ce qu'on a|a-t-on|avons-nous|on a|nous avons) (?:deja )?(?:abordes?|traites?|evoques?|discutes?|parle|vus?)",
    r"(?:ce dont|(?:les|tous les) sujets (?:dont|que|qu')) ?(?:on a|on avait|nous avons|avons) (?:parle|discute|abordes?|traites?|evoques?)",
    # Spanish
    r"(?:sobre|de) que (?:hablamos|hemos hablado|estuvimos hablando|estabamos hablando|conversamos|hemos conversado|discutimos)",
    r"(?:que|cuales) temas (?:hemos )?(?:tratamos|tratado|discutimos|discutido|vimos|visto|abordamos|abordado|hablamos|hablado)",
    r"(?:lo que|los temas (?:que|de los que)|todo lo que) (?:hablamos|hemos hablado|tratamos|hemos tratado|discutimos)",
)
_NEEDS_TIME: Final = (
    rf"what (?:did|have|were) {_WE} (?:been )?(?:do(?:ne|ing)?|work(?:ed|ing)?|say|said|say(?:ing)?|tackle[d]?)(?: on| at| about)?",
    rf"what {_WE}(?:'ve| have| were)? (?:been )?(?:did|done|doing|worked|working|said)(?: on| about)?",
    r"(?:qu'est-ce qu'on a|qu'est-ce que nous avons|qu'a-t-on|qu'avons-nous|ce qu'on a|on a) (?:fait|dit|vu)(?: quoi)?",
    r"sur quoi (?:est-ce qu'on a|a-t-on|on a|avons-nous|nous avons|travaillait-on|on travaillait) ?(?:travaille|bosse)?",
    r"(?:que (?:hicimos|hemos hecho|dijimos)|en que (?:trabajamos|hemos trabajado|estuvimos trabajando)|lo que hicimos)",
)
_TIME_PATTERNS: Final[tuple[tuple[Period, str], ...]] = (
    ("last_week", r"(?:over |during |in )?(?:last week|the week before)|(?:pendant |durant )?la semaine (?:derniere|passee)|la semana pasada"),
    ("last_month", r"(?:over |during |in )?last month|le mois (?:dernier|passe)|el mes pasado"),
    ("week", r"(?:over |during |in |for )?(?:this week|the (?:past|last) (?:week|7 days|seven days|few days|couple of days)|these (?:past|last) (?:few )?days)|(?:au cours de |pendant )?(?:cette semaine|ces derniers jours|ces jours-ci|les derniers jours|les 7 derniers jours|l'autre jour)|the other day|esta semana|estos (?:ultimos )?dias|el otro dia|los ultimos dias"),
    ("month", r"(?:over |during |in )?(?:this month|the (?:past|last) (?:month|30 days|few weeks))|ce mois(?:-ci)?|ces dernieres semaines|este mes|las ultimas semanas"),
    ("today", r"(?:earlier )?(?:today|this morning|this afternoon|tonight|this evening)|aujourd'hui|ce matin|cet apres-midi|ce soir|(?:hoy|esta manana|esta tarde)"),
    ("yesterday", r"yesterday(?: (?:morning|afternoon|evening))?|last night|hier(?: (?:matin|soir|apres-midi))?|ayer(?: por la (?:manana|tarde|noche))?|anoche"),
    ("recently", r"recently|lately|of late|these days|(?:the )?last time|previously|earlier|recemment|dernierement|ces derniers temps|la derniere fois|precedemment|recientemente|ultimamente|la ultima vez|antes"),
)  # fmt: skip
_COMPILED_QUESTIONS: Final = tuple(
    (re.compile(rf"\b(?:{pattern})(?!\w)"), strong)
    for strong, group in ((True, _EXPLICIT), (False, _NEEDS_TIME))
    for pattern in group
)
_COMPILED_TIMES: Final[tuple[tuple[Period, re.Pattern[str]], ...]] = tuple(
    (period, re.compile(rf"\b(?:{pattern})(?!\w)")) for period, pattern in _TIME_PATTERNS
)
_FILLER: Final = frozenset(
    "hi hello hey ok please can could you do tell me remind remember recall know so far together again here with each"
    " other the a in of on and then about for is was it that this us up to list summarize summarise show give recap quick summary what just"
    " conversation conversations session sessions project exactly already still"
    " salut bonjour dis moi rappelle resume liste peux tu te vous souviens souvenez stp svp s il plait ensemble deja"
    " dans ce cette projet la le les de du des au en et nous deux est que sais session conversations fais un bref exactement encore toi"
    " hola por favor juntos proyecto puedes decirme recuerdame recuerdas dime resumen resume lista el los las hazme y tu".split()
)
_PERIOD_WORDS: Final[dict[Language, dict[Period, str]]] = {
    "en": {
        "today": "today", "yesterday": "yesterday", "week": "this week", "last_week": "last week", "month": "this month",
        "last_month": "last month", "recently": "recently", "all": "",
    },
    "fr": {
        "today": "aujourd’hui", "yesterday": "hier", "week": "cette semaine", "last_week": "la semaine dernière",
        "month": "ce mois-ci", "last_month": "le mois dernier", "recently": "récemment", "all": "",
    },
    "es": {
        "today": "hoy", "yesterday": "ayer", "week": "esta semana", "last_week": "la semana pasada", "month": "este mes",
        "last_month": "el mes pasado", "recently": "recientemente", "all": "",
    },
}  # fmt: skip


def asked_period(prompt: str) -> Period | None:
    """The period whose topics a prompt asks for, `all` if it names none; None if it asks something else."""
    if len(prompt) > _MAX_PERIOD_CHARS:
        return None
    plain = " ".join(fold(prompt).split())
    found = next(((match, strong) for pattern, strong in _COMPILED_QUESTIONS if (match := pattern.search(plain))), None)
    if found is None:
        return None
    match, strong = found
    rest = f"{plain[: match.start()]} {plain[match.end() :]}"
    period: Period | None = None
    for named, time in _COMPILED_TIMES:
        if time.search(rest):
            rest, period = time.sub(" ", rest), period or named
    if set(re.findall(r"\w+", rest)) - _FILLER or (period is None and not strong):
        return None
    return period or "all"


def period_bounds(period: Period, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Start and end of a period; None = open. Days begin at midnight in the time zone of `now`."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    spans: dict[Period, tuple[datetime | None, datetime | None]] = {
        "today": (midnight, None),
        "yesterday": (midnight - timedelta(days=1), midnight),
        "week": (now - timedelta(days=7), None),
        # Covers both readings of "last week": the calendar week, and the days around seven days ago.
        "last_week": (now - timedelta(days=14), midnight - timedelta(days=now.weekday())),
        "month": (now - timedelta(days=30), None),
        "last_month": (now - timedelta(days=62), midnight.replace(day=1)),
        "recently": (now - timedelta(days=30), None),
        "all": (None, None),
    }
    return spans[period]


def period_words(period: Period, language: Language) -> str:
    """The period in words; empty for `all`."""
    return _PERIOD_WORDS[language][period]


# ruff: noqa: E501 (a pattern is read best on one line)


#: Longer prompts contain what they need themselves.
_MAX_RESUMING_CHARS: Final = 400
_RESUMES: Final = re.compile(
    r"\b(?:(?:let's|let us|can we|shall we|we|i'd like to|i want to|time to|ready to) (?:now )?(?:continue|carry on|go on|keep going|resume|pick (?:this|it|that|things|the \w+)? ?(?:back )?up|go back|get back|return)"
    r"|(?:continue|carry on|go on|keep going|resume|proceed) (?:with|on|from|working|where)|(?:go|get|come|going|getting|coming) back (?:to|on)|^(?:ok(?:ay)?,? |so |right,? |now )*(?:back (?:to|on)|continue|resume)\b|pick(?:ing)? up (?:where|from|the)"
    r"|where (?:were we|was i|did (?:we|i) (?:stop|leave off|get to))|left off|what was (?:left|next)|what is still open"
    r"|^(?:bon,? |et |passons a )*la suite|(?:on|nous|je) (?:reprend(?:s|ons)?|continue(?:ons|s)?|poursui(?:t|vons)|revien[ts]|retourne)|reprenons|continuons|poursuivons|revenons|reprends? (?:la|le|les|l'|ou|notre)|retour (?:a|au|aux|sur)|(?:on (?:en )?etait|j'en etais|ou en (?:etait|est|etions|sommes))|qu'est-ce qu'il reste|que reste-t-il"
    r"|retom(?:emos|amos|o)|sigamos|seguimos con|sigue con|continu(?:emos|amos)|volvamos|volvemos|volviendo a|donde (?:nos )?(?:quedamos|estabamos|ibamos)|en que (?:quedamos|estabamos|ibamos)|que (?:falta|quedaba|queda) por)\b"
)


def is_resuming(prompt: str) -> bool:
    """True if the prompt goes back to earlier work."""
    return len(prompt) <= _MAX_RESUMING_CHARS and _RESUMES.search(" ".join(fold(prompt).split())) is not None


_STATES_NOTHING = frozenset({"question", "smalltalk", "joke"})


def states_anything(text: str) -> bool:
    """Return whether any sentence of the prompt states something."""
    return any(
        silent_mood(sentence.plain) not in _STATES_NOTHING and not is_request(sentence.plain)
        for sentence in split(text)
    )
