"""Prompts about memory itself: what was discussed, or going back to earlier work; in English, French and Spanish.

`asked_period` recognises "what did we talk about last week?". Such a prompt wants the timeline, not single memories.
The whole prompt must be such a question, optionally with a time. "What did we discuss about the cache?" names a
subject and is left to recall. Everyday verbs (do, work, say) count only together with a time.
`is_resuming` recognises "let's get back to the importer". Only such a prompt needs to know where the work stood.

Pure: no database, no file.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from filrouge.core import lazy_re as re
from filrouge.core.clock import Language
from filrouge.extraction.vocabulary import fold

# ruff: noqa: E501 (a pattern is read best on one line)


Period = Literal["today", "yesterday", "week", "last_week", "month", "last_month", "recently", "all"]

_LONGEST: Final = 200
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
_TIMES: Final[tuple[tuple[Period, str], ...]] = (
    ("last_week", r"(?:over |during |in )?(?:last week|the week before)|(?:pendant |durant )?la semaine (?:derniere|passee)|la semana pasada"),
    ("last_month", r"(?:over |during |in )?last month|le mois (?:dernier|passe)|el mes pasado"),
    ("week", r"(?:over |during |in |for )?(?:this week|the (?:past|last) (?:week|7 days|seven days|few days|couple of days)|these (?:past|last) (?:few )?days)|(?:au cours de |pendant )?(?:cette semaine|ces derniers jours|ces jours-ci|les derniers jours|les 7 derniers jours|l'autre jour)|the other day|esta semana|estos (?:ultimos )?dias|el otro dia|los ultimos dias"),
    ("month", r"(?:over |during |in )?(?:this month|the (?:past|last) (?:month|30 days|few weeks))|ce mois(?:-ci)?|ces dernieres semaines|este mes|las ultimas semanas"),
    ("today", r"(?:earlier )?(?:today|this morning|this afternoon|tonight|this evening)|aujourd'hui|ce matin|cet apres-midi|ce soir|(?:hoy|esta manana|esta tarde)"),
    ("yesterday", r"yesterday(?: (?:morning|afternoon|evening))?|last night|hier(?: (?:matin|soir|apres-midi))?|ayer(?: por la (?:manana|tarde|noche))?|anoche"),
    ("recently", r"recently|lately|of late|these days|(?:the )?last time|previously|earlier|recemment|dernierement|ces derniers temps|la derniere fois|precedemment|recientemente|ultimamente|la ultima vez|antes"),
)  # fmt: skip
_ASKED: Final = tuple(
    (re.compile(rf"\b(?:{pattern})(?!\w)"), strong)
    for strong, group in ((True, _EXPLICIT), (False, _NEEDS_TIME))
    for pattern in group
)
_TIME: Final[tuple[tuple[Period, re.Pattern[str]], ...]] = tuple(
    (period, re.compile(rf"\b(?:{pattern})(?!\w)")) for period, pattern in _TIMES
)
_FILLER: Final = frozenset(
    "hi hello hey ok please can could you do tell me remind remember recall know so far together again here with each"
    " other the a in of on and then about for is was it that this us up to list summarize summarise show give recap quick summary what just"
    " conversation conversations session sessions project exactly already still"
    " salut bonjour dis moi rappelle resume liste peux tu te vous souviens souvenez stp svp s il plait ensemble deja"
    " dans ce cette projet la le les de du des au en et nous deux est que sais session conversations fais un bref exactement encore toi"
    " hola por favor juntos proyecto puedes decirme recuerdame recuerdas dime resumen resume lista el los las hazme y tu".split()
)
_WHEN: Final[dict[Language, dict[Period, str]]] = {
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
    if len(prompt) > _LONGEST:
        return None
    plain = " ".join(fold(prompt).split())
    found = next(((match, strong) for pattern, strong in _ASKED if (match := pattern.search(plain))), None)
    if found is None:
        return None
    match, strong = found
    rest = f"{plain[: match.start()]} {plain[match.end() :]}"
    period: Period | None = None
    for named, time in _TIME:
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
    return _WHEN[language][period]


# ruff: noqa: E501 (a pattern is read best on one line)


#: Longer prompts contain what they need themselves.
_RESUMING_LONGEST: Final = 400
_RESUMES: Final = re.compile(
    r"\b(?:(?:let's|let us|can we|shall we|we|i'd like to|i want to|time to|ready to) (?:now )?(?:continue|carry on|go on|keep going|resume|pick (?:this|it|that|things|the \w+)? ?(?:back )?up|go back|get back|return)"
    r"|(?:continue|carry on|go on|keep going|resume|proceed) (?:with|on|from|working|where)|(?:go|get|come|going|getting|coming) back (?:to|on)|^(?:ok(?:ay)?,? |so |right,? |now )*(?:back (?:to|on)|continue|resume)\b|pick(?:ing)? up (?:where|from|the)"
    r"|where (?:were we|was i|did (?:we|i) (?:stop|leave off|get to))|left off|what was (?:left|next)|what is still open"
    r"|^(?:bon,? |et |passons a )*la suite|(?:on|nous|je) (?:reprend(?:s|ons)?|continue(?:ons|s)?|poursui(?:t|vons)|revien[ts]|retourne)|reprenons|continuons|poursuivons|revenons|reprends? (?:la|le|les|l'|ou|notre)|retour (?:a|au|aux|sur)|(?:on (?:en )?etait|j'en etais|ou en (?:etait|est|etions|sommes))|qu'est-ce qu'il reste|que reste-t-il"
    r"|retom(?:emos|amos|o)|sigamos|seguimos con|sigue con|continu(?:emos|amos)|volvamos|volvemos|volviendo a|donde (?:nos )?(?:quedamos|estabamos|ibamos)|en que (?:quedamos|estabamos|ibamos)|que (?:falta|quedaba|queda) por)\b"
)


def is_resuming(prompt: str) -> bool:
    """True if the prompt goes back to earlier work."""
    return len(prompt) <= _RESUMING_LONGEST and _RESUMES.search(" ".join(fold(prompt).split())) is not None
