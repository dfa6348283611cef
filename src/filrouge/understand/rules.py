# ruff: noqa: E501 (a pattern is read best on one line)
"""Rules and constraints: what must always, never, or by default be done or hold (RULE-1).

An imperative alone is a request for now ("run the tests"); it is a rule when something says that it holds beyond
now: always, never, a prohibition, a preference between two tools, a condition that will come again.
"""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.moods import is_imperative
from filrouge.understand.reading import Clause, Found

_RULE_LABEL: Final = re.compile(
    r"\b(?:rules?|regles?|reglas?|convention|consigne|policy|guidelines?|conventions|consignes)\b[^:]*:\s*$"
)
_LASTING: Final = re.compile(
    r"\b(?:from now on|(?:in|for) this (?:repo(?:sitory)?|project|codebase|code base)|every ?time|each time|whenever|^by default|by default[.!]?$|going forward|at all times"
    r"|^(?:here|ici),? (?=we|on|nous)|(?:dans|pour) ce (?:depot|projet|repo)|a partir de maintenant|a chaque|chaque fois|dorenavant|desormais|^par defaut|par defaut[.!]?$|systematiquement"
    r"|a partir de ahora|en este (?:proyecto|repo)|cada vez|por defecto)\b"
)
#: "in this repo use uv", "Dans ce dépôt, utilise pnpm": a lasting frame around an imperative.
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
_TABLE: Final[tuple[tuple[float, str], ...]] = (
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
_COMPILED: Final = tuple((confidence, re.compile(pattern)) for confidence, pattern in _TABLE)
#: Up to here a pattern also occurs inside an order for now: "Refactor it so that each route has its own file".
WEAK: Final = 0.8
_NOW_ONLY: Final = re.compile(
    r"\b(?:yet|for now|for the moment|this time|right now|pour l'instant|pour le moment|cette fois|anything else|rien d'autre|tout de suite|por ahora)\b"
    r"|\bwhen (?:you're|you are|it's|it is) (?:done|finished|ready)\b|\bquand (?:tu as fini|c'est fini|tu es pret)"
)
_TROUBLE: Final = re.compile(
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
_ORDERS: Final = re.compile(r"(?:please )?(?:always|never|toujours|jamais|siempre|nunca)\b")
_HARD: Final = re.compile(
    r"\b(?:must|has to|have to|can't|cannot|not allowed|need to|needs to|doit|doivent|devons|forbidden|may not)\b"
)
_USER_WIDE: Final = re.compile(
    r"\b(?:your (?:answers?|replies|reply|responses?|explanations?|messages|summaries|tone)|tes (?:reponses?|explications?|messages?)|vos reponses)\b"
    r"|(?:^|[,;:] |\b(?:always|please|toujours|never|you|tu) )(?:answer|reply|respond|reponds|repondez|speak|talk|parle)(?:-moi| me| to me)?\b[^.]{0,30}\b(?:in|en) (?:english|french|spanish|german|italian|francais|anglais|espagnol|allemand|ingles)"
    r"|(?:^|[,;:] |\b(?:always|please|toujours|never|you|tu) )(?:reponds|answer|reply)-?(?:moi| me| to me)?\b|\btutoie|\bvouvoie|\bemojis? (?:in|dans) (?:your|tes)\b"
    r"|\b(?:whatever|whichever) the project\b|\b(?:in|for|across) (?:all|any|every) (?:of )?(?:my |our )?projects?\b|\bquel que soit le projet\b|\b(?:dans|pour) tous (?:mes|les) projets\b"
)


def find(clause: Clause) -> Found | None:
    """The rule or constraint that the clause states."""
    plain = clause.plain
    if _NOW_ONLY.search(plain) or (_TROUBLE.search(plain) and not _ORDERS.match(plain)):
        return None
    labelled = is_labelled(clause)
    if not labelled and _NOTHING_LASTING.search(plain):
        return None
    lasting = _LASTING.search(plain) is not None and _ORDER_OR_HABIT.search(plain) is not None
    confidence = 0.95 if labelled else 0.9 if lasting else _match(plain)
    if confidence is None:
        return None
    hard = _HARD.search(plain) is not None and not re.search(
        r"\b(?:always|never|toujours|jamais)\b|\byou\b|\btu\b", plain
    )
    scope = "user" if _USER_WIDE.search(plain) else "project"
    return Found(kind="constraint" if hard and not labelled else "rule", confidence=confidence, scope=scope)


def is_labelled(clause: Clause) -> bool:
    """True when the user called it a rule: "House rule:", "Convention :"."""
    return _RULE_LABEL.search(clause.opening) is not None


def _match(plain: str) -> float | None:
    task = is_imperative(plain)
    return next(
        (
            confidence
            for confidence, pattern in _COMPILED
            if pattern.search(plain) and not (task and confidence <= WEAK)
        ),
        None,
    )
