"""Pattern finders per kind of statement: facts, decisions, rules, preferences, bugs, claims.

Each `find_...` function reads one clause and returns a `ClauseKind` or None. `find_claims` reads a whole sentence.

Pure: no database, no file.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from filrouge.core import lazy_re as re
from filrouge.extraction.profile import subject
from filrouge.extraction.reading import Clause, ClauseKind, Measure, is_imperative, measures
from filrouge.extraction.sentences import Part, Sentence, asks, complement, parts, states
from filrouge.extraction.vocabulary import CATEGORY, content, fold
from filrouge.memories.models import Kind, Span, Statement

# Facts: how things are in this project, in the present tense and with at least one specific value.

# ruff: noqa: E501 (a pattern is read best on one line)


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
_WEAK_VALUE_KINDS: Final = frozenset({"number"})
_PAST_TENSE: Final = re.compile(
    r"^(?:the |our |my |le |la |les )?[\w-]+ (?:was|were|did|had|went|took|failed|worked|got|came|a ete|etait|ont|avait)\b"
)


#: "the server reboots every Sunday": with a recurrence, any verb describes a lasting state.
_RECURRING: Final = re.compile(
    r"\b(?:every|each|chaque|cada) (?:\w+ )?(?:day|night|week|month|hour|year|morning|evening|\w+day|jour|nuit|semaine|mois|heure|annee|matin|soir|dia|noche|\w+di)s?\b"
    r"|\b(?:nightly|daily|weekly|monthly|hourly)\b|\b(?:tous|toutes) les (?:\w+ )?(?:jours|nuits|semaines|mois|heures|matins|soirs|\w+dis)\b"
)
#: "Remember that the fixtures are shared": the user asks to remember it, so no specific value is needed.
_REMEMBER_REQUEST: Final = re.compile(
    r"\b(?:remember|note|keep in mind|bear in mind|be aware|don't forget|rappelle-toi|souviens-toi|retiens|note|sache|n'oublie pas|garde en tete|recuerda|ten en cuenta)\b[^.]*$"
)


def find_facts(clause: Clause) -> ClauseKind | None:
    """Return the fact that the clause states, or None."""
    plain = clause.plain
    if _ME.search(plain) or _PRONOUN_SUBJECT.search(plain) or _PAST_TENSE.search(plain):
        return None
    if _REMEMBER_REQUEST.search(clause.opening) and len(plain.split()) >= 3:
        return ClauseKind(kind="fact", confidence=0.85)
    anchors = [value for value in clause.values if value.kind not in _WEAK_VALUE_KINDS]
    if not anchors:
        anchors = [value for value in clause.values if len(value.text) > 1] if _WE.search(plain) else []
    if not anchors or len(plain.split()) < 3:
        return None
    if _LABELLED.match(plain) and not _NOT_LABEL.match(plain) and len(plain.split()) <= 16:
        return ClauseKind(kind="fact", confidence=0.75)
    described = any(_has_subject(plain[: verb.start()]) for verb in _STATE.finditer(plain))
    return (
        ClauseKind(kind="fact", confidence=0.8) if described or _WE.search(plain) or _RECURRING.search(plain) else None
    )


def _has_subject(before: str) -> bool:
    """Return whether the words before the verb hold more than function words."""
    return (
        re.search(
            r"[a-z][\w.-]{1,}",
            re.sub(r"\b(?:the|a|an|our|le|la|les|un|une|des|notre|nos|el|los|de|and|et|to)\b", " ", before),
        )
        is not None
    )


def is_anaphoric(plain: str) -> bool:
    """Return whether a sentence refers to something named earlier: "It listens on 9443", "The command is now …"."""
    return _PRONOUN_SUBJECT.search(plain) is not None or _BARE.match(plain) is not None


_BARE: Final = re.compile(
    r"^(?:the|le|la|les|l'|el) ?(?:new |nouvelle |nouveau |only |other )?(?:command|port|url|address|path|host|name|version|region|branch|key|bucket|login|user|fix|reason|cause|limit|deadline|date|rest"
    r"|commande|adresse|chemin|hote|nom|branche|cle|raison|limite|solution|correctif|comando|puerto)\b(?: (?:is|are|was|est|sont|etait|devient|becomes|es|runs|stays|reste|now|changes))"
)


# Decisions: a choice that was made, between things with a name.

# ruff: noqa: E501 (a pattern is read best on one line)


_DECISION_LABEL: Final = re.compile(r"\b(?:decision|decide|decided|tranche|acte|choix)\b[^:,]*[:,.!]\s*$")
#: Explicit verbs of choice; they need no named value.
_CHOSEN: Final = re.compile(
    "|".join(
        (
            # we decided on Drizzle; it was decided to; the team agreed to drop IE11
            r"\b(?:we|i|team|they|everyone|has|have|had|we've|i've|was|were|been|it's|is) (?:\w+ ){0,2}?(?:decided|agreed|chose|chosen|picked|opted|settled|selected|standardi[sz]ed|adopted|voted|elected|went)\b(?: (?:to|on|for|with|that|against|in)\b| \w+)",
            r"\b(?:we|i) go with\b|\b(?:i'm|we're|i am|we are) (?:choosing|picking|selecting|opting|settling)\b|\b(?:end|ended) up (?:with|choosing|using|picking|going)\b|\b(?:we're|we are|i'm|we'll|we will|let's|i'll) (?:going|go|sticking|stick|staying|stay) (?:with|on)\b|\b(?:we're|we are) (?:adopting|standardi[sz]ing on|dropping|keeping)\b",
            r"\b(?:our|the|my) (?:choice|decision|pick) (?:is|was|fell)\b|\bdecision ?: |\bthe verdict\b",
            # on a choisi Typst; nous avons retenu NATS; c'est décidé, on garde
            r"\b(?:on|nous|j'|je|equipe) ?(?:l')?(?:a|avons|ai)(?: \w+)? (?:choisi|decide|retenu|tranche|opte|convenu|valide|acte|adopte|prefere|arrete)\b|\b(?:a|ont|avons) (?:ete )?(?:choisi|decide|retenu|tranche|valide|acte|adopte|convenu)e?s?\b",
            r"\bc'est (?:decide|acte|tranche|valide)\b|\ble choix (?:s'est porte|est|c'est)\b",
            r"\b(?:hemos|se ha|han|he) (?:decidido|elegido|optado|acordado)\b|\b(?:decidimos|elegimos|optamos|vamos con)\b",
        )
    )
)
#: Verbs such as "let's use" or "we'll keep": a decision only if the clause has a named value.
_GOING: Final = re.compile(
    r"\b(?:let's|we'll|we will|we're going to) (?:use|keep|adopt|drop|standardi[sz]e on|stick to|build (?:it )?(?:with|on))\b"
    r"|\b(?:on|nous) (?:part|partons|reste|restons|garde|gardons|prend|prenons|mise|opte|choisit|adopte|va utiliser|va partir|utilisera|passera par|bascule)\b"
    r"|\b(?:on va|nous allons|vamos a) (?:utiliser|partir sur|passer|garder|prendre|migrer|rester|basculer|adopter|usar|migrar)\b"
    r"|\b(?:sera|seront|passera|passeront) (?:en|sur|par|avec|chez)\b|\bwill (?:be (?:written in|built with|hosted on)|run on|use|live (?:in|on))\b"
)
_EMPTY_WORDS: Final = """
option one approach solution idea choice version way first second third fine lunch pizza premiere deuxieme
"""
_EMPTY: Final = frozenset(_EMPTY_WORDS.split())


def find_decisions(clause: Clause) -> ClauseKind | None:
    """Return the decision that the clause states, or None."""
    plain = clause.plain
    chosen = _CHOSEN.search(plain) is not None or _DECISION_LABEL.search(clause.opening) is not None
    going = _GOING.search(plain) is not None and bool(clause.values)
    if not chosen and not going:
        return None
    what = [word for word in content(clause.text) if word not in _EMPTY]
    if len(what) < 3 and all(value.kind == "number" for value in clause.values):
        return None
    return ClauseKind(kind="decision", confidence=0.9 if chosen else 0.75)


# Rules and constraints: what must always, never, or by default be done or hold (RULE-1). An imperative alone is a task
# for now ("run the tests"). It is a rule if it is marked as lasting: "always", "never", a prohibition, a preference
# between two tools, or a recurring condition.

# ruff: noqa: E501 (a pattern is read best on one line)


_RULE_LABEL: Final = re.compile(
    r"\b(?:rules?|regles?|reglas?|convention|consigne|policy|guidelines?|conventions|consignes)\b[^:]*:\s*$"
)
_LASTING: Final = re.compile(
    r"\b(?:from now on|(?:in|for) this (?:repo(?:sitory)?|project|codebase|code base)|every ?time|each time|whenever|^by default|by default[.!]?$|going forward|at all times"
    r"|^(?:here|ici),? (?=we|on|nous)|(?:dans|pour) ce (?:depot|projet|repo)|a partir de maintenant|a chaque|chaque fois|dorenavant|desormais|^par defaut|par defaut[.!]?$|systematiquement"
    r"|a partir de ahora|en este (?:proyecto|repo)|cada vez|por defecto)\b"
)
#: "in this repo use uv", "Dans ce dépôt, utilise pnpm": an imperative with a scope that lasts.
_IMPERATIVE: Final = re.compile(
    r"(?:^|[,:;] |\b(?:repo|repository|project|codebase|depot|projet|on|maintenant|ahora|tu|you|and|et) )"
    r"(?:please )?(?:use|run|write|keep|put|add|ask|check|prefer|avoid|commit|name|store|open|create|start|stick|follow|include|update|sort|wrap|test|log|format|answer|make|do|let"
    r"|utilise[rsz]?|lance[rsz]?|ecri[st]|mets|met|garde[sz]?|demande[sz]?|verifie[sz]?|prefere[sz]?|evite[sz]?|fais|nomme[sz]?|range[sz]?|ouvre[sz]?|teste[sz]?|ajoute[sz]?|regenere[sz]?|relance[sz]?"
    r"|usa|ejecuta|escribe|evita)\b"
)
#: "in this project we write tests first", "pour ce projet : pas de classes"
_ORDER_OR_HABIT: Final = re.compile(
    _IMPERATIVE.pattern
    + r"|\b(?:we|nous|on) (?:\w+ )?(?:write|name|keep|put|test|commit|format|document|review|squash|rebase|follow|prefer|avoid|sort|wrap"
    r"|ecri\w+|nomm\w+|met|mettons|test\w+|commit\w*|document\w*|suit|suivons|prefer\w*|evit\w+)\b|\b(?:no|pas de|aucune?|only|uniquement|seulement)\b"
)
_RULE_PATTERNS: Final[tuple[tuple[float, str], ...]] = (
    # Always use British spelling. Never push to main. You must never run the seed.
    (
        0.9,
        r"^(?:please |you (?:must |should )?|we (?:must |should )?|to |in \w+ |for \w+ )?(?:always|never) (?!mind|seen|had|been|knew|tried|understood)\w+",
    ),
    (
        0.9,
        r"(?:[,;:] |\b(?:and|but|or|we|you|must|should|please) )(?:always|never)(?: ever)? (?!mind|seen|had|been|did|gets?)\w+",
    ),
    # All dates are stored in UTC, never in local time. Prices always include tax.
    (0.85, r"\b(?:is|are|be) (?:always|never)\b|^(?!it |this |that |i |he |she )[\w' -]{3,40}\b(?:always|never) \w+"),
    # Don't use any ORM. Do not touch legacy/. Please don't commit secrets.
    (
        0.85,
        r"^(?:please |and |also )?(?:do not|don't|dont)(?: ever| you ever)? (?!worry|know|think|bother|understand|see|remember|mind|want|need|get|care|like|forget|have|feel)\w+",
    ),
    (
        0.85,
        r"[,;] (?:do not|don't)(?: ever)? (?:use|touch|edit|commit|push|modify|delete|run|add|write|put|change|log|call|import|mock)\b",
    ),
    # Don't forget to update the changelog. Remember to regenerate the client.
    (
        0.8,
        r"^(?:please )?(?:don't forget|do not forget|remember) to\b|^(?:n'oublie[zs]? (?:pas|jamais) |pense[sz]? (?:bien )?a |no olvides )(?:de |d')?\w+",
    ),
    # Use tabs, not spaces. Use uv, never pip. Prefer composition over inheritance.
    (
        0.85,
        r"^(?:please )?(?:use|write|store|run|name|keep|put|deploy|commit|sign|pick)\b[^.]{1,80}?(?:,? (?:never|and never|not|and not|instead of|rather than)\b)",
    ),
    (0.8, r"^(?:please )?(?:prefer|avoid|stick (?:to|with)|only \w+|refrain from) (?!asking)\w+"),
    # Let's not use Docker for the dev setup. N'utilisons pas Docker ici.
    (
        0.82,
        r"^(?:let's (?:not|never|avoid)|n'|ne |evitons (?:de |d')) ?(?:use|using|add|adding|commit|mock|store|mix|import|touch|depend|utiliser|ajouter|(?:utilisons|ajoutons|mettons) (?:pas|jamais))\b(?! (?:that|this|it)\b)",
    ),
    # No new dependencies without asking. No default exports.
    (
        0.8,
        r"^no (?:more |new )?(?!problem|worries|rush|idea|need|thanks|one\b|it\b|i\b|that\b|big|luck|error|clue|doubt|longer)[\w-]+(?: [\w-]+)? (?:without|in|on|before|after|unless|outside|allowed|at|from)\b",
    ),
    (
        0.75,
        r"^no (?:more |new )?[\w-]+ (?:comments?|exports?|dependenc\w+|commits?|mocks?|globals?|emojis?|prints?|imports?)\b",
    ),
    # Toujours lancer les tests. Ne modifie jamais vendor/. Il ne faut jamais logguer.
    (
        0.9,
        r"^(?:\w+[, ]+){0,5}?toujours \w+(?:er|ir|re|oir)\b|^toujours\b|\b(?:sont|est|soient) toujours (?!pas|en cours|la\b|le\b|les\b|aussi|rouge|lent|casse|bloque)",
    ),
    (
        0.9,
        r"\b(?:on|nous|tu|vous|vouloir) (?:ne |n')?\w+ toujours (?!pas|en cours|la meme|le meme)|^\w+[zs]?(?:-moi)? toujours (?!pas)",
    ),
    (
        0.9,
        r"(?:^|[,;:] |\b(?:on|tu|nous|il|vous|et|mais|donc) )(?:ne |n')(?:[\w'-]+ ){1,3}?jamais\b(?! vu| eu| compris| su)|(?:,| et| mais| ou) jamais\b|^jamais\b|^(?!je |j'|ca |il )[\w' ]{3,40} ne [\w']+ jamais\b",
    ),
    (
        0.85,
        r"^(?:s'il te plait |stp )?(?:ne|n')\s?(?!t'inquiet|vous inquiet|marche|fonctionne|comprend)(?:[\w'-]+ )pas\b",
    ),
    # Ne jamais pousser sur main. Ne pas toucher à legacy/, et ne plus utiliser Moment.
    (
        0.9,
        r"(?:^|[,;:] |\b(?:et|mais|donc|de) )(?:ne|n') ?(?:jamais|pas|plus) (?:les? |la |l'|y |en )?\w+(?:er|ir|re|oir)\b",
    ),
    (
        0.9,
        r"\bil ne faut (?:pas|jamais|surtout pas)\b|\bil faut (?:toujours|imperativement|systematiquement)\b|\binterdi(?:t|ction)s? (?:de|d')\b|\bne (?:doit|doivent|dois|devons|doivent) (?:pas|jamais)\b|\bsurtout pas\b",
    ),
    (
        0.8,
        r"^(?:evite|evitez|privilegie|prefere|preferez|privilegiez) (?!tu|vous)|^(?:pas de|aucun|aucune|jamais de) (?!souci|probleme|mal|idee|besoin|quoi|panique|chance|nouvelle|reponse|erreur)\w+ (?:\w+ )?(?:dans|sans|sur|en|avant|apres|ici|directement|hors|par|pour)\b",
    ),
    (
        0.85,
        r"^(?:utilise|utilisez|ecris|lance|mets|prends)\b[^.]{1,80}?(?:,? (?:et )?(?:jamais|pas|et non|plutot que|au lieu de|non)\b)",
    ),
    # We test everything, always. Ask me before you delete. Before any commit, run the linter.
    (0.9, r",? (?:always|toujours|siempre)[ .!]*$"),
    (
        0.85,
        r"\b(?:ask|check with|warn|consult) me (?:\w+ )?(?:before|first)\b|\b(?:demande|previens|consulte|avertis)[sz]?-moi (?:\w+ )?(?:avant|d'abord)\b|\bwithout asking(?: me)?\b|\bsans (?:me |m')?(?:demander|consulter|prevenir)\b",
    ),
    (
        0.85,
        r"^(?:before|after|on|for|with|avant|apres|pour|a|antes de|en) (?:any|each|every|all|chaque|tout|toute|tous|toutes|cada|cualquier) [^,]{2,50}, \w+",
    ),
    (
        0.85,
        r"^no (?:[\w-]+ ){1,4}(?:is|are) (?:allowed|permitted|accepted|tolerated)\b|^(?:aucune?|pas de) (?:[\w-]+ ){1,4}n'est (?:permise?|autorisee?|acceptee?)\b",
    ),
    # For every new table add created_at. New endpoints go behind a flag.
    (
        0.85,
        r"^(?:for|on|in|with|pour|dans|sur) (?:every|each|any|all|chaque|tout|toute|tous les|toutes les) (?:[\w-]+ ){1,4}?(?:add|use|write|run|create|include|put|update|set|keep|check|make|ajoute|utilise|ecris|mets|lance|cree|verifie)\b",
    ),
    (0.8, r"^(?:the |new |all |our )*[\w-]+s (?:\w+ )?go (?:behind|in|into|under|next to|through|before|after|with)\b"),
    # Use snake_case for column names. Stop adding comments to obvious code.
    (
        0.82,
        r"^(?:please )?(?:use|utilise[zr]?) (?!the |this |that |these |it |an? |port |le |la |les |un |une |ce |cette )[`\w.-]+(?: [`\w.-]+)? (?:for|pour) (?!this|that|now|ce|cette)(?:[\w-]+ ){0,3}[\w-]+s\b",
    ),
    (
        0.82,
        r"^(?:please )?stop (?:adding|using|writing|putting|creating|committing|importing|mocking)\b|^arrete[sz]? (?:de |d')(?:mettre|ajouter|utiliser|ecrire|creer)\b",
    ),
    # Le client exige que les données restent en France.
    (0.8, r"\b(?:exige(?:nt)?|impose(?:nt)?|requires?|demands?|insists?|mandates?) (?:que|qu'|that)\b"),
    # Siempre ejecuta las pruebas. Nunca se borran usuarios.
    (0.85, r"^(?:siempre|nunca|jamas)\b|\b(?:siempre|nunca) (?:se )?(?:usa|ejecuta|borra|haz|escribe)\w*"),
    # When you touch the parser, run the fuzz target.
    (
        0.85,
        r"^(?:when(?:ever)?|every ?time|each time|quand|lorsque|chaque fois que|cuando|a chaque fois que) (?:you|tu|vous|we|on|nous|a |an |the |une? )(?!(?:'re|are|'ve|have|as|es|auras|seras) )[^,]{2,80}, (?:please )?\w+",
    ),
    (
        0.85,
        r"^when(?:ever)? you (?:run|write|add|touch|change|create|edit|commit|deploy|test|build|need|open|update)\b[^,]{2,60} (?:use|run|always|check|ask|add|keep)\b",
    ),
    # We must support Python 3.9. The bundle must stay under 250 KB. Public functions need a docstring.
    (
        0.8,
        r"^(?!(?:it|this|that|i) )(?:[\w`./'()-]+ ){1,6}?(?:must|has to|have to|may not|must not|mustn't|should never|shall|(?:is|are) (?:required to|forbidden|not allowed|prohibited|mandatory))\b(?! (?:have|be (?:a |an |the |because|some)|fix|do|go)\b)",
    ),
    (
        0.8,
        r"\b(?:we|you) (?:can't|cannot|can not|may not|must not|aren't allowed to|are not allowed to) (?:use|store|have|add|ship|break|drop|exceed|share|log|deploy|change|depend|rely|import|touch|send|install|publish|expose|keep|run|write|merge|push)\b",
    ),
    (
        0.8,
        r"^(?:we|the \w+(?: \w+)?) (?:need|needs) to (?:support|stay|remain|keep|comply|work with|run on|be compatible)\b",
    ),
    (
        0.75,
        r"^(?!(?:it|this|that|i|we|you) )(?:(?:all|every|each|any|the) )?(?:[\w`./'()-]+ ){0,3}?(?:[\w-]+s|every [\w -]+|each [\w -]+) (?:should (?!be (?:fixed|looked)|work)|needs? (?:a|an|at least|their|its) (?!running|fix))\w+",
    ),
    (
        0.8,
        r"\b(?:doit|doivent|devons|on doit|il doit) (?:toujours |imperativement |absolument )?(?:rester|etre|supporter|tenir|respecter|passer|repondre|fonctionner|garder|contenir|suivre|commencer|avoir|utiliser)\b",
    ),
    (
        0.75,
        r"\b(?:all|every|each) [\w -]{2,40} (?:go|goes|get|gets|live|lives|use|uses|start|starts|end|ends|have|has) \w+|\btests? (?:go|live|sit) (?:next|in|beside|under)\b",
    ),
    (0.8, r"\b(?:one|un|une|un seul|une seule) [\w-]+ (?:per|par) [\w-]+\b"),
)
_COMPILED_RULES: Final = tuple((confidence, re.compile(pattern)) for confidence, pattern in _RULE_PATTERNS)
#: Patterns up to this confidence also match tasks: "Refactor it so that each route has its own file".
WEAK: Final = 0.8
_NOW_ONLY: Final = re.compile(
    r"\b(?:yet|for now|for the moment|this time|right now|pour l'instant|pour le moment|cette fois|anything else|rien d'autre|tout de suite|por ahora)\b"
    r"|\bwhen (?:you're|you are|it's|it is) (?:done|finished|ready)\b|\bquand (?:tu as fini|c'est fini|tu es pret)"
)
_PROBLEM: Final = re.compile(
    r"\b(?:always|never|toujours|jamais) (?:\w+ ){0,1}(?:fails?|failing|breaks?|crash\w*|hangs?|times? out|returns?|gets?|shows?|works?|worked|works|happens?|answers?|finish\w*|loads?|starts?|echoue\w*|plante\w*|marche\w*|la meme)\b"
    r"|\bj'ai (?:toujours|jamais)\b|\bje n'ai jamais\b|\b(?:i|it|he|she)(?:'ve|'s| have| has)? (?:always|never) (?:been|had|seen|\w+ed)\b|\bi(?:'ve| have) never\b|\bca (?:ne |n')?\w+ (?:toujours|jamais)\b"
)
_NOTHING_LASTING: Final = re.compile(
    "|".join(
        (
            # Write a story where the hero must never lie. Écris un test qui ne plante jamais.
            r"^(?:please )?(?:write|generate|make|create|tell|invent|imagine|compose|draft|ecris|raconte|genere|invente|redige|cree|fais)(?:-moi| me)? (?:an? |une? |some |the |des )(?:[\w'-]+ ){1,4}?(?:where|in which|whose|who|that|ou|dans (?:la|le)quelle?|qui|dont)\b",
            # Please never do that again. Ne refais jamais ça !
            r"^(?:please )?(?:don't|do not|never|ne|n')(?: ever)? (?:\w+ ){1,2}?(?:plus |jamais |pas )*(?:that|this|it|ca|cela)(?: ever)?(?: again| any ?more)[ .!]*$|^(?:s'il te plait )?ne (?:re)?fais (?:plus |jamais |pas )+(?:ca|cela)\b",
            # Tu oublies toujours de lancer les tests ! You always forget the tests.
            r"\b(?:tu|vous) (?:te |t'|vous )?(?:oubli|rat|tromp|plant)\w+ (?:toujours|encore|tout le temps)\b|\byou (?:always|constantly|keep) (?:forget\w*|miss\w*|mess\w*|ruin\w*|get)\b",
            # Il ne faut jamais dire jamais. Better late than never. On ne sait jamais.
            r"\bnever say never\b|\bjamais dire jamais\b|\b(?:late|now) (?:than|or) never\b|\btard que jamais\b|\byou never know\b|\bne sait jamais\b|\bjamais deux sans trois\b",
            # Only answer with yes or no. Réponds uniquement par oui ou non.
            r"^(?:please )?(?:only|just) (?:answer|reply|respond|output|return|print|say) (?:with|by|yes|no|the|an?|one)\b|^(?:ne )?reponds? (?:uniquement |seulement |juste |que )+(?:par|avec)\b",
        )
    )
)
_ORDER: Final = re.compile(r"(?:please )?(?:always|never|toujours|jamais|siempre|nunca)\b")
_HARD: Final = re.compile(
    r"\b(?:must|has to|have to|can't|cannot|not allowed|need to|needs to|doit|doivent|devons|forbidden|may not)\b"
)
_USER_WIDE: Final = re.compile(
    r"\b(?:your (?:answers?|replies|reply|responses?|explanations?|messages|summaries|tone)|tes (?:reponses?|explications?|messages?)|vos reponses)\b"
    r"|(?:^|[,;:] |\b(?:always|please|toujours|never|you|tu) )(?:answer|reply|respond|reponds|repondez|speak|talk|parle)(?:-moi| me| to me)?\b[^.]{0,30}\b(?:in|en) (?:english|french|spanish|german|italian|francais|anglais|espagnol|allemand|ingles)"
    r"|(?:^|[,;:] |\b(?:always|please|toujours|never|you|tu) )(?:reponds|answer|reply)-?(?:moi| me| to me)?\b|\btutoie|\bvouvoie|\bemojis? (?:in|dans) (?:your|tes)\b"
    r"|\b(?:whatever|whichever) the project\b|\b(?:in|for|across) (?:all|any|every) (?:of )?(?:my |our )?projects?\b|\bquel que soit le projet\b|\b(?:dans|pour) tous (?:mes|les) projets\b"
)


def find_rules(clause: Clause) -> ClauseKind | None:
    """Return the rule or constraint that the clause states, or None."""
    plain = clause.plain
    if _NOW_ONLY.search(plain) or (_PROBLEM.search(plain) and not _ORDER.match(plain)):
        return None
    labelled = is_labelled(clause)
    if not labelled and _NOTHING_LASTING.search(plain):
        return None
    lasting = _LASTING.search(plain) is not None and _ORDER_OR_HABIT.search(plain) is not None
    confidence = 0.95 if labelled else 0.9 if lasting else _match_confidence(plain)
    if confidence is None:
        return None
    hard = _HARD.search(plain) is not None and not re.search(
        r"\b(?:always|never|toujours|jamais)\b|\byou\b|\btu\b", plain
    )
    scope = "user" if _USER_WIDE.search(plain) else "project"
    return ClauseKind(kind="constraint" if hard and not labelled else "rule", confidence=confidence, scope=scope)


def is_labelled(clause: Clause) -> bool:
    """Return whether the user labels the clause as a rule: "House rule:", "Convention :"."""
    return _RULE_LABEL.search(clause.opening) is not None


def _match_confidence(plain: str) -> float | None:
    task = is_imperative(plain)
    return next(
        (
            confidence
            for confidence, pattern in _COMPILED_RULES
            if pattern.search(plain) and not (task and confidence <= WEAK)
        ),
        None,
    )


# Facts about the user and their preferences; these apply in every project (RULINGS 19).

# ruff: noqa: E501 (a pattern is read best on one line)


_NAME_INTRO: Final = re.compile(
    r"\b(?:my name is|my name's|call me|je m'appelle|appelle[sz]?-moi|mon nom est|mon prenom est|moi,? c'est|me llamo|mi nombre es|llamame)\s+"
)
_I_AM: Final = re.compile(r"^(?:i'm|i am|this is|je suis|ici|soy|moi)\s+")
_FULL_NAME: Final = re.compile(
    r"(?!I\b|The\b)[A-ZÀ-Ý][\w'’-]+(?: (?:(?:de|van|von|da|del|el|ben|la|le|di|du|Mc|O'|D')\s?)?[A-ZÀ-Ý][\w'’-]+){0,3}"
)
_NOT_A_NAME_WORDS: Final = """
french english american spanish german francais francaise anglais back devops ok done here sure ready new on
using windows linux macos mac ubuntu vscode product senior junior java python
tired lost stuck happy busy sorry free glad confused curious afraid late early good great aware
pret prete content contente fatigue fatiguee desole desolee bloque bloquee perdu perdue occupe occupee libre
curieux curieuse nouveau nouvelle ravi ravie certain certaine pressee presse
"""
_NOT_A_NAME: Final = frozenset(_NOT_A_NAME_WORDS.split())
_ROLE: Final = re.compile(
    r"^(?:i'm|i am|i work as|je suis|je bosse comme|je travaille comme|soy)\s+(?:an? |the |une? |le |la |un )?(?P<role>(?:[\w/-]+ ){0,3}?"
    r"(?:developer|dev|engineer|designer|student|manager|freelancer?|architect|lead|admin|analyst|scientist|maintainer|founder|cto|ceo|sre|teacher|researcher|beginner"
    r"|developpeu\w+|ingenieur\w*|etudiante?|graphiste|comptable|independante?|chef|cheffe|architecte|enseignante?|chercheu\w+|debutante?|desarrollador\w*|ingenier\w+)\b.*)$"
)
#: Core facts about the user: key, and a pattern with a group `value`.
_TRAITS: Final = tuple(
    (key, re.compile(pattern))
    for key, pattern in (
        (
            "user_timezone",
            r"\b(?:my time ?zone is|i'm in the(?= [\w/+:-]+ time ?zone)|mon fuseau(?: horaire)? est|mi zona horaria es)\s+(?P<value>[\w/+:-]+)",
        ),
        (
            "user_email",
            r"\b(?:my e-?mail(?: address)? is|mon (?:e-?mail|mail|adresse(?: mail)?) est)\s+(?P<value>\S+@\S+\w)",
        ),
        (
            "user_handle",
            r"\b(?:my (?:github|gitlab|slack) (?:handle|username|user|login) is|mon (?:pseudo|login|compte)(?: github| gitlab)? est)\s+(?P<value>\S+\w)",
        ),
        (
            "user_company",
            r"^(?:i work(?: (?:on|in) the [\w -]+? (?:team|squad))? (?:at|for)|je (?:travaille|bosse)(?: dans l'equipe [\w -]+?)? (?:chez|pour)|trabajo (?:en|para))\s+(?P<value>[\w.& -]+)",
        ),
        (
            "user_team",
            r"^(?:(?:i work|i'm|i am) (?:on|in) the (?P<value>[\w -]+?) (?:team|squad)|je (?:travaille|bosse|suis) dans l'equipe (?P<value2>[\w -]+))\b",
        ),
        (
            "user_location",
            r"^(?:i live in|i'm based in|i am based in|j'habite (?:a|en|au)|je vis (?:a|en|au)|vivo en)\s+(?P<value>[\w' -]+)",
        ),
        (
            "user_editor",
            r"^(?:my (?:favou?rite |preferred )?editor is|mon editeur(?: prefere)? est)\s+(?P<value>[\w ]+)",
        ),
        ("user_pronouns", r"^(?:my pronouns are|mes pronoms sont)\s+(?P<value>[\w/ ]+)"),
    )
)
#: "My manager is called Bob", "My favourite colour is blue": facts about the user in every project.
_POSSESSION: Final = re.compile(
    r"^(?:my|mon|ma|mes|mi|mis) (?:(?:favou?rite|preferred) (?:[\w-]+ ){1,3}?|[\w-]+ (?:prefere|favori)\w* |(?:[\w-]+ )?"
    r"(?:managers?|boss|teammates?|colleagues?|mentor|wife|husband|partner|kids?|dog|cat|birthday|keyboard(?: layout)?|shell|operating system|os|native language|mother tongue"
    r"|chef|cheffe|patron|patronne|collegues?|femme|mari|chien|chat|anniversaire|clavier|systeme|langue maternelle|jefe|jefa) )"
    r"(?:is|are|est|sont|s'appelle\w*|es|son|se llama)\b (?!not |pas |here|la\b|away|off\b|sick|angry|waiting|asking)[\w`]"
)
#: "J'utilise zsh", "I use Neovim on macOS": tools of the user, not of the project.
_USES: Final = re.compile(
    r"^(?:i (?:always |mostly |mainly |usually )?(?:use|work (?:with|on|in)|code in)|j'utilise|je (?:travaille|code|bosse) (?:sous|avec|sur|dans)|uso) (?P<what>[\w.+ -]+?)"
    r"(?: (?:as|for|on|comme|sur|sous|pour|at|a) [\w' -]+)?[ .!]*$"
)
_TOOL_KEYS: Final = {"shell": "user_shell", "editor": "user_editor"}
_SYSTEMS: Final = frozenset("macos linux windows ubuntu debian fedora arch nixos wsl tmux".split())
_LIKES: Final = re.compile(
    r"^(?:personally,? |perso,? |moi,? )?(?:i (?:really |always |much |strongly )?(?:prefer|like|love|enjoy|favou?r)|i'd (?:rather|prefer)|i would (?:rather|prefer)|my preference is|i want (?:short|concise|brief|detailed|direct|simple)"
    r"|je (?:prefere(?:rais)?|privilegie)|j'(?:aime|adore|apprecie)|ma preference|je veux (?:des |que tes |que les )|prefiero|me gustan?)\b"
)
_DISLIKES: Final = re.compile(
    r"^(?:i (?:really )?(?:hate|dislike|can't stand|don't like|do not like|don't want)|je (?:deteste|n'aime pas|ne veux pas|ne supporte pas|hais)|odio|no me gustan?)\b"
)
_ABOUT_NOW: Final = re.compile(
    r"^(?:i|j'|je)\s?[\w']+(?: [\w']+)? (?:it|this|that|the idea|the way you|how you|what you|your (?:idea|solution|approach|work)|ca|cette|cet|ce|l'idee|ta|ton|ta solution|to see|the (?:second|first|new|last))\b"
    r"|\bi'd like\b|\bi want you to\b(?! always| never)|\bprefer(?:e)? (?:that|the (?:first|second|other)|this)\b|^je veux que tu\b(?! toujours)|^je ne veux pas que tu \w+ (?:ca|ce)"
)
_ANSWER_STYLE: Final = re.compile(
    r"^(?:please |toujours |always )?(?:keep|make|garde|fais) (?:your|tes|vos|the) (?:answers?|replies|responses?|explanations?|summaries|messages|reponses?|explications?)\b"
    r"|^(?:please )?(?:be|sois|soyez|se) (?:more |plus |very |tres )?(?:brief|concise|direct|short|terse|blunt|honest|bref|breve|concis|concise|directe?|franc|franche|conciso)\b"
    r"|^(?:please |always |toujours )?(?:answer|reply|respond|speak|talk|reponds|repondez|parle|parlez|responde|habla)(?:-moi|-nous| me| to me)?(?: \w+){0,2}? (?:in|en) (?:english|french|spanish|german|italian|francais|anglais|espagnol|allemand|ingles|espanol)\b"
    r"|^(?:on se |tu peux me |please )?(?:tutoie|vouvoie|tutoyer|vouvoyer)(?:-moi|-nous)?\b|\b(?:your|tes|vos) (?:answers?|replies|responses?|explanations?|reponses|explications) (?:should|must|doivent|should always)\b"
    r"|^(?:please )?(?:short|brief|concise|detailed|direct|simple) (?:answers?|replies|responses?|explanations?)\b|^(?:des )?(?:reponses?|explications?) (?:courtes?|breves?|concises?|simples?|directes?|detaillees?)\b|^no (?:emojis?|jargon|fluff|small talk)\b|^pas d'emojis?\b"
)
#: "Always answer me in French, whatever the project.": an instruction that stays in force.
_STANDING_ORDER: Final = re.compile(
    r"^(?:always|never|toujours|jamais|siempre|nunca)\b.*(?:\b(?:whatever|whichever) the project\b|\b(?:all|any|every) (?:of )?(?:my |our )?projects?\b|\bquel que soit le projet\b|\btous (?:mes|les) projets\b)"
)
_HERE: Final = re.compile(
    r"\b(?:in this (?:repo(?:sitory)?|project|codebase)|here|dans ce (?:depot|projet|repo)|ici|for this project|pour ce projet|en este proyecto)\b"
)
_LANGUAGE: Final = re.compile(
    r"\b(?:in|en) (english|french|spanish|german|italian|francais|anglais|espagnol|allemand|ingles|espanol)\b"
)
_LANGUAGE_CODE: Final = {
    "english": "en",
    "anglais": "en",
    "ingles": "en",
    "french": "fr",
    "francais": "fr",
    "spanish": "es",
    "espagnol": "es",
    "espanol": "es",
    "german": "de",
    "allemand": "de",
    "italian": "it",
}


def find_preferences(clause: Clause) -> ClauseKind | None:
    """Return the user's name, trait or preference that the clause states, or None."""
    return _find_name(clause) or _find_trait(clause) or _find_taste(clause)


def _find_name(clause: Clause) -> ClauseKind | None:
    """Match a name: "My name is Tom Okafor", "I'm Jonas Weber, backend developer", "Appelle-moi Nico"."""
    intro = _NAME_INTRO.search(clause.plain)
    match = intro or _I_AM.match(clause.plain)
    name = _FULL_NAME.match(clause.text, match.end()) if match else None
    if name is None or fold(name.group().split(" ")[0]) in _NOT_A_NAME:
        return None
    after = clause.plain[name.end() :]
    if not intro and not re.match(r"\s*(?:$|[.,!;(-]|(?:and|et|y|from|de|du|chez|at)\b)", after):
        return None
    return ClauseKind(kind="fact", confidence=0.95, scope="user", key="user_name", value=name.group())


def _find_trait(clause: Clause) -> ClauseKind | None:
    """Match a trait: "My timezone is Europe/Zurich", "je travaille chez Acme", "I'm a backend developer"."""
    for key, pattern in _TRAITS:
        match = pattern.search(clause.plain)
        if match:
            start, end = match.span(match.lastgroup or "value")
            return ClauseKind(
                kind="fact", confidence=0.9, scope="user", key=key, value=clause.text[start:end].strip(" .")
            )
    if _POSSESSION.match(clause.plain):
        return ClauseKind(kind="fact", confidence=0.85, scope="user")
    used = _find_tools(clause.plain)
    if used:
        return used
    role = _ROLE.match(clause.plain.rstrip(". !"))
    if role and not re.search(r"\b(?:who|trying|looking|stuck|waiting)\b", clause.plain):
        start, end = role.span("role")
        return ClauseKind(
            kind="fact", confidence=0.85, scope="user", key="user_role", value=clause.text[start:end].strip()
        )
    return None


def _find_tools(plain: str) -> ClauseKind | None:
    """Match the user's own tools: "I use zsh", "j'utilise Neovim", "I work on Ubuntu"."""
    match = _USES.match(plain)
    if match is None:
        return None
    tools = re.split(r",? (?:and|et|y) |, | ", match["what"])
    keys = {tool: _TOOL_KEYS.get(CATEGORY.get(tool, "")) for tool in tools}
    if not all(key or tool in _SYSTEMS for tool, key in keys.items()):
        return None
    key = keys[tools[0]] if len(tools) == 1 else None
    return ClauseKind(kind="fact", confidence=0.85, scope="user", key=key, value=tools[0] if key else None)


def _find_taste(clause: Clause) -> ClauseKind | None:
    """Match a preference: "I prefer concise answers", "je déteste les acronymes", "answer in English"."""
    plain = clause.plain
    disliked = _DISLIKES.search(plain) is not None
    style = _ANSWER_STYLE.search(plain) is not None
    if not (style or disliked or _LIKES.search(plain)) or _ABOUT_NOW.search(plain):
        return None
    if not style and len(plain.split()) < 3:
        return None
    language = _LANGUAGE.search(plain) if style else None
    only_language = language is not None and len(plain.split()) <= 9
    return ClauseKind(
        kind="rule" if style and _STANDING_ORDER.search(plain) else "preference",
        confidence=0.85,
        scope="project" if _HERE.search(plain) and not style else "user",
        key="answer_language" if only_language else None,
        value=_LANGUAGE_CODE[language.group(1)] if language and only_language else None,
        sentiment="negative" if disliked else "positive",
        timeframe="standing",
    )


# Bugs with their cause or their fix. A bug without either is only a report and is not kept.

# ruff: noqa: E501 (a pattern is read best on one line)


_BUG_NOUN: Final = (
    r"(?:bugs?|issue|problem|crash\w*|leak\w*|error\w*|errors|failure\w*|outage|incident|deadlock\w*|slowness|slowdown|latency|timeouts?|regression|hang|freeze"
    r"|flak\w+|race|corruption|\d0\ds?|panic|stall|spike|probleme|panne|plantage|fuite|lenteur|erreurs?|incident|blocage|regression|souci|echec|fallo)"
)
_CAUSE: Final = re.compile(
    "|".join(
        (
            # the bug was WAL starvation caused by …; the 502s came from …; le bug venait de …
            rf"\b{_BUG_NOUN}\b.{{0,80}}?\b(?:caused by|due to|because|came from|comes from|stemmed from|triggered by|traced (?:back )?to|venait|vient|viennent|venaient|etait du|etait due|etaient dus|cause par|causee? par|provoque\w* par|du a|due a|a cause|parce que|lie a|liee a|se debia|por culpa)\b",
            rf"\b(?:the|this|that|le|la|ce|cette) (?:\w+ ){{0,3}}{_BUG_NOUN} (?:was|etait|turned out|s'est avere)\b",
            # the root cause was …; la cause : …
            r"\b(?:root cause|the cause|the culprit|the reason|cause racine|la cause|le coupable|la causa|l'origine)\b[^.]{0,60}?(?: (?:was|is|turned out|etait|est|era|venait)\b|\s?:)",
            # bug trouvé : …
            r"\b(?:bug|probleme|cause|issue|problem|culprit) (?:trouvee?|identifiee?|found|identified|located)\s?:|\bd'ou (?:le|la|les)\b",
            # j'ai compris le souci : …; images were blurry because …
            rf"\b(?:compris|trouve|found|got|see) (?:le |la |l'|the )?{_BUG_NOUN}\s?:",
            r"\b(?:was|were|etait|etaient) (?:\w+ ){1,2}(?:because|parce qu|a cause)",
            # the deadlock happened because …; X was slow because …
            r"\b(?:happened|occurred|failed|crashed|was (?:slow|failing|broken|flaky)|were (?:slow|failing|broken|flaky|red)|leaked|broke|hung|plantait|echouait|etait lente?|survenait|arrivait) (?:because|since|when|parce|car|quand|a cause)",
            # la lenteur était due à un index manquant
            r"\b(?:etait|etaient|est|venait) (?:due?s? (?:a|au|aux)|cause\w* par|provoque\w* par)\b|\bwas (?:due to|caused by)\b|\bwere (?:due to|caused by)\b",
        )
    )
)
_FIX: Final = re.compile(
    r"\b(?:fixed|solved|resolved|cured|worked around|patched)\b(?: (?:it|this|that|the \w+))?(?: by| with| in| after|$|[.,;])|\b(?:the|la|le) (?:fix|solution|workaround|remede|correctif|correction) (?:was|is|etait|est|consist\w+)\b|\b(?:fix|solution|workaround) ?: "
    r"|\b\w+ing (?:\w+ ){1,6}(?:fixed|solved|resolved|cured) (?:it|this|that|the)\b"
    r"|\b(?:corrige|regle|resolu|repare)\w*(?: \w+)? (?:en|par|avec|grace)\b|\b(?:a|ont) (?:corrige|regle|resolu) (?:le|la|ca|l')|\b(?:arreglado|solucionado|resuelto) (?:con|cerrando|por)\b"
)
_OPEN: Final = re.compile(
    r"\b(?:not fixed|still|no idea|unknown|pas encore|inconnue|don't know|investigat\w+|must be|might|maybe|probably|sans doute|probablement|je crois)\b"
)


def find_bugs(clause: Clause) -> ClauseKind | None:
    """Return the cause or fix of a bug that the clause states, or None."""
    plain = clause.plain
    if _OPEN.search(plain) or len(plain.split()) < 5:
        return None
    cause, fix = _CAUSE.search(plain) is not None, _FIX.search(plain) is not None
    if not cause and not fix:
        return None
    if fix and not cause and re.match(r"(?:i|we|j'ai|on a|it|that|this|ca)\b", plain) and not clause.values:
        return None
    return ClauseKind(kind="fact", confidence=0.9 if cause and fix else 0.8)


# Claims: facts that a prompt mentions while it asks for something.
#
# "I'm worried about my essay, is a 71% mark enough to pass?" asks, but also states that the mark is 71%. People state
# most facts about themselves like this: before the question, in passing ("By the way, I've been …"), or as a
# presupposition of the question ("my 12-page essay"). A sentence is split into clauses. A clause that states something
# is a claim as a whole; of a clause that asks, only the noun phrase that holds a measure. A claim needs a measure, a
# first-person event with a name, or "never"; anything else is chatter. Claims get a lower confidence than statements.

# ruff: noqa: E501 (a pattern is read best on one line)


STATED_CONFIDENCE: Final = 0.7
PRESUPPOSED_CONFIDENCE: Final = 0.6
_MAX_CLAIM_CHARS: Final = 320
_LIGHT_WORDS: Final = """
just think got get reached reach completed complete finished finish now actually around close about currently started
already really kinda guess believe
"""
_LIGHT: Final = frozenset(_LIGHT_WORDS.split())
_UNSURE: Final = re.compile(
    r"\b(?:wondering|not sure|unsure|don't know|curious|je me demande|pas sure?|ne sais pas) (?:if|whether|how|what|which|when|where|why|about|si|comment|quoi|quel\w*)\b"
    r"|\b(?:if|whether|unless|suppose|imagine|let's say|what if|maybe|perhaps|might|would be|could be|si je|si on|peut-etre)\b"
)
_NEVER: Final = re.compile(
    r"\b(?:never|haven't ever|have not ever|n'ai jamais|jamais|nunca he|nunca)\b|\b(?:i|we) (?:haven't|have not|didn't|did not|don't|do not) (?:actually )?(?:yet )?(?!know|think|want|need|understand|see|like|have (?:a|any|much|the) (?:clue|idea|time))\w+"
)
_FIRST_PERSON: Final = re.compile(
    r"\b(?:i|i'm|i've|i'd|i'll|my|mine|we|we're|we've|our|je|j'|j'ai|mon|ma|mes|notre|nos|nous|yo|mi|mis|he|tengo)\b|\bj'"
)
#: Short desk tasks, and the current state of a program.
_WORK: Final = re.compile(
    r"\b(?:reran|pushed|merged|restarted|rebooted|committed|deployed|installed|reinstalled|compiled|rebuilt|debugged|refactored|reverted|cloned|pulled|clicked|typed|pasted|logged|fails?|failed|failing|failures?|crash(?:es|ed|ing)|hangs?|hung|timed? ?out|timeouts?|warnings?|exceptions?|stack ?trace|broken|flaky|retr(?:y|ies|ied)|builds?"
    r"|relance|pousse|fusionne|redemarre|echoue\w*|erreurs?|echecs?|casse\w*)\b|\b(?:i|we)(?:'ve| have)?(?: just)? ran\b|\b(?:a|ca|il|elle|qui|ont) plant(?:e|ait|ent)\b|\berror (?:message|code|log|in|on|when)|\b(?:an|the|this) error\b"
)
_MODAL: Final = re.compile(
    r"^(?:\S+ ){1,3}?(?:can|could|should|would|might|may|shall|must|need to|have to|peux|pourrais|devrais|dois)\b"
)
_DID: Final = re.compile(
    r"^(?:i|we|i've|we've|i'd|j'ai|on a|nous avons)(?: have| had|'ve)?(?: (?:just|recently|already|also|actually|finally|only|once|first|recemment|deja|enfin))* (?P<verb>[a-z]+(?:ed|en)|met|went|got|bought|took|made|saw|read|won|lost|sold|found|began|built|wrote|taught|learnt|learned|left|gave|had|did|ran|sent|spent|caught|kept|felt|rejected|rencontre|achete|vu|lu|pris|fait|visite|commence|fini|termine|perdu|gagne|rejoint|refuse|accepte|paye)\b"
)
_HABIT: Final = re.compile(
    r"^(?:i|we|je|j'|on|nous)(?:'ve| have)? ?(?:been |always |usually |often |currently |now |also )*(?:\w+ing|interview|attend|visit|play|work|live|own|drive|teach|study|practice|practise|train|take|wear|use|have|keep|joue|travaille|habite|vais|fais|prends|porte|pratique)\b"
)
_NAMED: Final = re.compile(r"(?<![.!?:] )(?<!^)(?<![\"“])\b(?!I\b|I'|English|French)[A-ZÀ-Ý][a-zà-ÿ]{2,}")
#: The start of a noun phrase; used to find the last one of the clause before.
_NOUN: Final = re.compile(r"\b(?:my|our|his|her|their|the|an?|[a-z]+'s) (?=[a-z$\d])")
_PLANNED: Final = re.compile(
    r"^(?:i|we)(?:'m|'re| am| are)? ?(?:also |now )?(?:planning|plan|going|gonna|intend\w*|will|aiming|hoping)\b|^(?:i'll|we'll)\b|^(?:je|on|nous) (?:compte|prevoi\w*|vais|va|allons)\b"
)
_GOAL: Final = re.compile(
    r"\b(?:goals?|targets?|targeting|budget|limit|deadline|aim\w*|per (?:day|week|month|year)|a (?:day|week|month)|objectifs?|echeance)\b"
)
#: "I've got a question", "I have a feeling": no event happened.
_NO_EVENT: Final = re.compile(
    r"^(?:i|we)(?:'ve| have)? (?:got|had) (?:a|an|some|no|the) (?:\w+ )?(?:question|questions|feeling|idea|problem|issue|trouble|lot|bunch|couple|few|doubt|hard time)\b"
)
_ANAPHORIC: Final = re.compile(
    r"^(?:it|it's|that|that's|this|he|she|they|which|who|ca|c'est|il|elle|cela)\b|\b(?:it|it's) (?:was|is|has|had|got)\b"
)
#: The words at which a noun phrase with a measure begins and ends.
_LEFT_STOP: Final = re.compile(
    r"(?:^|\b)(?:a|an|the|my|our|his|her|their|your|its|this|that|these|those|some|un|une|le|la|les|mon|ma|mes|notre|nos|son|sa|ses|l'|mi|su|el)(?=[\s'])|\b[a-z]+'s(?=\s)"
)
_RIGHT_STOP: Final = re.compile(
    r"[;?!]|[,:](?!\d)|\.(?=\s|$)|\s(?:will|would|is|are|was|were|be|been|good|enough|mean|means|and|but|so|or|that|which|who|when|if|because|while|considering|can|could|should|do|does|did|how|what|to (?!the\b|my\b|our\b|\d)|est|sont|et|mais|qui|que|si)\b"
)
_PREPOSITION: Final = re.compile(r"\b(?:of|at|by|on|for|with|from|in|is|was|de|d'|a|pour|est|sur)\s*$")
_POSSESSED: Final = re.compile(r"(?:his|her|their|[a-z]+'s|son|sa|ses|leurs?|su|sus)\b")
#: "the first 8 terms": only a part of a larger number.
_PART: Final = re.compile(r"\b(?:first|last|next|top|premiers?|premieres?|dernier\w*) $")
_DETERMINED: Final = re.compile(
    r"^(?:my|our|his|her|their|its|the (?:new|current|latest|updated|recent|first|final|next|previous|extended|expanded|\$?\d)|the|this|a (?=\d)|mon|ma|mes|notre|nos|son|sa|ses|[a-z]+'s)\b"
)
#: Maximum words of the preceding sentence that serve as the subject of a short claim.
_MAX_CONTEXT_WORDS: Final = 12


class Claim(Struct, frozen=True):
    """Characters `start` to `end` of a sentence, and the kind of memory they become.

    Attributes:
        about: start and end of the preceding words that name the subject: "I'm worried about *the lease*, is the 5% …".
    """

    start: int
    end: int
    kind: Kind
    confidence: float
    about: tuple[int, int] | None = None


def claim_statements(sentence: Sentence, before: str) -> list[Statement]:
    """Return the claims of a sentence as statements.

    The sentence before, `before`, gives the subject of a claim with few words of its own.
    """
    return [_statement(sentence, claim, before) for claim in find_claims(sentence)]


def find_claims(sentence: Sentence) -> list[Claim]:
    """Return the claims of one sentence of the user, in order, without overlaps."""
    personal = _FIRST_PERSON.search(sentence.plain) is not None
    found: list[Claim] = []
    before: Part | None = None
    for part in parts(sentence):
        begin = _find_start(sentence, part, before, found) if personal and _states_something(sentence, part) else None
        if begin is not None:
            found = [claim for claim in found if claim.end <= begin]
            found.append(Claim(begin, part.end, _claim_kind(sentence, part), STATED_CONFIDENCE))
        elif begin is None and not (personal and _states_something(sentence, part)):
            taken = _find_presupposed(sentence, part)
            found.extend(claim for claim in taken if personal or _POSSESSED.match(sentence.plain, claim.start))
        before = part
    return [claim for claim in found if not _is_work(sentence, claim)]


def _is_work(sentence: Sentence, claim: Claim) -> bool:
    start = claim.about[0] if claim.about else claim.start
    return _WORK.search(sentence.plain, start, claim.end) is not None


def _states_something(sentence: Sentence, part: Part) -> bool:
    """Return whether a clause states something worth keeping."""
    plain, text = part.plain, sentence.text[part.start : part.end]
    if part.asks or not (states(plain) or part.relative) or _UNSURE.search(plain) or _MODAL.match(plain):
        return False
    if _NEVER.search(plain):
        least = 2 if "never" in plain or "jamais" in plain or "nunca" in plain else 3
        return len(content(text)) >= least and _FIRST_PERSON.search(plain) is not None
    if part.wishes or part.feared:
        return False
    return bool(measures(text)) or (
        (_reports_event(plain) or _HABIT.match(plain) is not None)
        and _NAMED.search(text) is not None
        and len(content(text)) >= 3
    )


def _reports_event(plain: str) -> bool:
    return _DID.match(plain) is not None and _NO_EVENT.match(plain) is None


def _claim_kind(sentence: Sentence, part: Part) -> Kind:
    if _NEVER.search(part.plain):
        return "fact"
    if _reports_event(part.plain) and not measures(sentence.text[part.start : part.end]):
        return "episode"
    return "intent" if _PLANNED.match(part.plain) else "fact"


def _find_start(sentence: Sentence, part: Part, before: Part | None, found: list[Claim]) -> int | None:
    """Return the start of a clause's claim, including an earlier mention of its subject; None if it gets too long."""
    clause_measures = measures(sentence.text[part.start : part.end])
    begin = part.start
    if clause_measures and not _NEVER.search(part.plain):
        refers_back = part.relative or _ANAPHORIC.match(part.plain) is not None
        if part.matter and part.end - part.matter[0] <= _MAX_CLAIM_CHARS:
            begin = part.matter[0]
        elif before and (
            refers_back or len(_words_outside(sentence.text[part.start : part.end], clause_measures)) <= 2
        ):
            begin = _find_noun_before(sentence, part, before)
        for earlier in reversed(found):
            if begin >= earlier.end:
                break
            if earlier.about or not (refers_back or earlier.kind == "episode"):
                begin = part.start
                break
            begin = min(begin, earlier.start)
    return begin if part.end - begin <= _MAX_CLAIM_CHARS else None


def _find_noun_before(sentence: Sentence, part: Part, before: Part) -> int:
    """Return the start of the clause before, or of its last noun phrase if that clause asks a question."""
    if not asks(sentence.plain[before.start :]):
        return before.start
    nouns = _NOUN.finditer(sentence.plain, before.start, part.start)
    return max((match.start() for match in nouns), default=part.start)


def _words_outside(text: str, counted_measures: tuple[Measure, ...]) -> list[str]:
    """Return the content words of a clause outside its measures."""
    measure_ranges = [range(measure.start, measure.end) for measure in counted_measures]
    rest = "".join(" " if any(index in span for span in measure_ranges) else char for index, char in enumerate(text))
    return [word for word in content(rest) if word not in _LIGHT]


def _find_presupposed(sentence: Sentence, part: Part) -> list[Claim]:
    """Return the noun phrases around the measures of a clause that asks, wishes or worries.

    Without such a phrase, the object of a clause that names a goal with a measure is the claim.
    """
    found: list[Claim] = []
    for measure in measures(sentence.text[part.start : part.end]):
        phrase = _find_phrase(sentence.plain, part.start, part.end, measure)
        if phrase is None or (found and phrase[0] < found[-1].end):
            continue
        fits = part.matter and part.matter[1] <= phrase[0] and phrase[1] - part.matter[0] <= _MAX_CLAIM_CHARS
        found.append(Claim(*phrase, "fact", PRESUPPOSED_CONFIDENCE, part.matter if fits else None))
    goal = None if found else complement(sentence.plain, part.start, part.end)
    if goal and measures(sentence.text[goal[0] : goal[1]]) and _GOAL.search(sentence.plain, *goal):
        found.append(Claim(*goal, "intent", PRESUPPOSED_CONFIDENCE))
    return found


def _find_phrase(plain: str, start: int, end: int, measure: Measure) -> tuple[int, int] | None:
    measure_start, measure_end = start + measure.start, start + measure.end
    if _PART.search(plain, 0, measure_start):
        return None
    begin = max((match.start() for match in _LEFT_STOP.finditer(plain, start, measure_start)), default=None)
    if begin is None or len(plain[begin:measure_start].split()) > 10 or _RIGHT_STOP.search(plain, begin, measure_start):
        begin = None
    if begin is None:
        return None
    stop = _RIGHT_STOP.search(plain, measure_end, end)
    last = stop.start() if stop else end
    words = plain[measure_end:last].split()
    if len(words) > 12:
        last = measure_end + len(" ".join(words[:12])) + 1
    gap = plain[begin:measure_start]
    if not _DETERMINED.match(plain[begin:]) or (len(gap.split()) > 3 and not _PREPOSITION.search(gap)):
        return None
    return (begin, min(last, end)) if len(content(plain[begin:last])) >= 2 else None


def _statement(sentence: Sentence, claim: Claim, before: str) -> Statement:
    words, start = " ".join(sentence.text[claim.start : claim.end].split()), claim.start
    if claim.about:
        start = claim.about[0]
        words = f"{' '.join(sentence.text[slice(*claim.about)].split())}: {words}"
    text_measures = measures(words)
    is_short = len(_words_outside(words, text_measures)) <= 2
    day = next(
        (words[measure.start : measure.end] for measure in text_measures if measure.kind in {"date", "time"}), ""
    )
    return Statement(
        kind=claim.kind,
        text=words,
        span=Span(start=sentence.start + start, end=sentence.start + claim.end),
        subject=" ".join(dict.fromkeys(content(before)[:_MAX_CONTEXT_WORDS])) if is_short else subject(words),
        confidence=claim.confidence,
        timeframe=day if claim.kind == "intent" else "",
    )
