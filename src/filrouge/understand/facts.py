# ruff: noqa: E501 (a pattern is read best on one line)
"""Facts: how things are in this project, said in the present with at least one specific value."""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.reading import Clause, Found

#: Verbs that describe a lasting state. Progressive and past forms are narration.
_STATE: Final = re.compile(
    r"(?<![\w-])(?:is|are|'s|'re|runs?|lives?|listens?|uses?|sits?|resides?|points? (?:to|at)|requires?|needs?|depends? on|expires?|starts?|ends?|begins?|ships?|goes|go (?:out|to|in|into|through|under|live|via)|keeps?|kept"
    r"|maintains?|owns?|manages?|handles?|leads?|contains?|holds?|reads?|writes?|connects?|talks? to|belongs? to|supports?|targets?|serves?|exposes?|sends?|publish(?:es)?|uploads?|deploys?|builds?|stores?"
    r"|returns|defaults? to|allows?|accepts?|lasts?|has|have|rel(?:y|ies) on|comes? from|happens?|takes place|falls on|land in|lands in|consists?|follows?|means?|stands for|costs?|caps?|retains?|log to|logs to|works with|work with"
    r"|est|sont|tourne(?:nt)?|utilise(?:nt)?|utilisons|vit|vivent|ecoute(?:nt)?|se trouve(?:nt)?|s'appelle(?:nt)?|expire(?:nt)?|demarre(?:nt)?|commence(?:nt)?|necessite(?:nt)?|requiert|requierent|depende(?:nt)? d|heberge(?:nt)?|contient|contiennent|stocke(?:nt|ons)?"
    r"|conserve(?:nt)?|parte(?:nt)?|appartiennent|appartient|gere(?:nt)?|gere|s'occupe(?:nt)?|maintient|valide(?:nt)?|pointe(?:nt)?|passe(?:nt)? par|se fait|se font|se lance(?:nt)?|se deploie(?:nt)?|arrive(?:nt)?|livre(?:nt)?|livrons|envoie(?:nt)?|publie(?:nt)?|exige(?:nt)?|deploie|deployons|heberge"
    r"|se termine(?:nt)?|sort(?:ent)?|finit|ouvre|ferme|launches|opens|closes|rotates|syncs|mirrors|wraps|generates|emits|consumes|produces|calls|imports|exports|vont dans|va dans|a pour|ont pour|tient|dure|utilise|lance|signifie|designe|correspond|date|ecrit|lit|lisent|accepte|limite|supporte|cible|garde|fait|sert"
    r"|esta|estan|es|son|corre|usa|usamos|se llama|vive|escucha|requiere|caduca|tiene)(?![\w'-])"
)
_WE: Final = re.compile(
    r"\b(?:we|our team|on|nous) (?:(?:all|also|only|currently|mostly|still|always) )?(?:use|run|deploy|store|host|keep|build|test|target|support|ship|rely|log|send|publish|release|tag|pin|work|have|serve|write|call|cache|back up|monitor|track"
    r"|utilise|utilisons|deploie|stocke|heberge|lance|construit|garde|livre|publie|cible|supporte|ecrit|teste|appelle|suit|envoie|travaille|compile|sauvegarde|met|fait)\b"
)
#: `Prod port: 9443`, `Stack: FastAPI + Postgres`
_LABELLED: Final = re.compile(r"^(?:the |our |le |la |les |notre |nos )?[a-z][\w' /.-]{1,40}?\s?(?::|->|=>|→)\s?\S")
_NOT_LABEL: Final = re.compile(
    r"^(?:here|voici|error|erreur|warning|info|output|log|logs|result|traceback|example|exemple|note|todo|fixme|question|step|etape|task|tache|issue|ticket|see|voir|ps|fyi|got|the (?:error|log|output|message|trace|result|command fails)|l'erreur|il me dit|i get|i see|it says|this)\b"
)
_ME: Final = re.compile(
    r"^(?:i|i'm|i've|i'll|i'd|je|j'|j'ai|my (?:machine|laptop|terminal|screen|branch)|mon (?:terminal|ecran|poste)|ma machine|yo)\b"
)
_PRONOUN_SUBJECT: Final = re.compile(
    r"^(?:it|it's|this|that|that's|these|those|they|they're|he|she|there|ca|cela|c'est|c'etait|ce|il|elle|ils|elles|il y a|there's|here|here's|voici|voila|what|some|something|someone|quelqu'un|eso|esto)\b"
)
_SHALLOW: Final = frozenset({"number"})
_PAST_TENSE: Final = re.compile(
    r"^(?:the |our |my |le |la |les )?[\w-]+ (?:was|were|did|had|went|took|failed|worked|got|came|a ete|etait|ont|avait)\b"
)


#: "the server reboots every Sunday": any verb describes when it recurs.
_RECURRING: Final = re.compile(
    r"\b(?:every|each|chaque|cada) (?:\w+ )?(?:day|night|week|month|hour|year|morning|evening|\w+day|jour|nuit|semaine|mois|heure|annee|matin|soir|dia|noche|\w+di)s?\b"
    r"|\b(?:nightly|daily|weekly|monthly|hourly)\b|\b(?:tous|toutes) les (?:\w+ )?(?:jours|nuits|semaines|mois|heures|matins|soirs|\w+dis)\b"
)
#: "Remember that the fixtures are shared": the user says that it is worth keeping.
_TOLD: Final = re.compile(
    r"\b(?:remember|note|keep in mind|bear in mind|be aware|don't forget|rappelle-toi|souviens-toi|retiens|note|sache|n'oublie pas|garde en tete|recuerda|ten en cuenta)\b[^.]*$"
)


def find(clause: Clause) -> Found | None:
    """The fact that the clause states."""
    plain = clause.plain
    if _ME.search(plain) or _PRONOUN_SUBJECT.search(plain) or _PAST_TENSE.search(plain):
        return None
    if _TOLD.search(clause.opening) and len(plain.split()) >= 3:
        return Found(kind="fact", confidence=0.85)
    anchors = [value for value in clause.values if value.kind not in _SHALLOW]
    if not anchors:
        anchors = [value for value in clause.values if len(value.text) > 1] if _WE.search(plain) else []
    if not anchors or len(plain.split()) < 3:
        return None
    if _LABELLED.match(plain) and not _NOT_LABEL.match(plain) and len(plain.split()) <= 16:
        return Found(kind="fact", confidence=0.75)
    described = any(_subject_names_something(plain[: verb.start()]) for verb in _STATE.finditer(plain))
    return Found(kind="fact", confidence=0.8) if described or _WE.search(plain) or _RECURRING.search(plain) else None


def _subject_names_something(before: str) -> bool:
    """True when the words before the verb hold more than small words."""
    return (
        re.search(
            r"[a-z][\w.-]{1,}",
            re.sub(r"\b(?:the|a|an|our|le|la|les|un|une|des|notre|nos|el|los|de|and|et|to)\b", " ", before),
        )
        is not None
    )


def is_anaphoric(plain: str) -> bool:
    """True for a sentence that speaks of something named before: "It listens on 9443", "The command is now …"."""
    return _PRONOUN_SUBJECT.search(plain) is not None or _BARE.match(plain) is not None


_BARE: Final = re.compile(
    r"^(?:the|le|la|les|l'|el) ?(?:new |nouvelle |nouveau |only |other )?(?:command|port|url|address|path|host|name|version|region|branch|key|bucket|login|user|fix|reason|cause|limit|deadline|date|rest"
    r"|commande|adresse|chemin|hote|nom|branche|cle|raison|limite|solution|correctif|comando|puerto)\b(?: (?:is|are|was|est|sont|etait|devient|becomes|es|runs|stays|reste|now|changes))"
)
