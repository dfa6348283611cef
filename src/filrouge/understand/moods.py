# ruff: noqa: E501 (a pattern is read best on one line)
"""What kind of speech a sentence is: only a plain statement can become a memory.

Questions, requests for work, hypotheses, undecided matters, the reported past, other people's words, jokes, small
talk and reports on the state of the moment say nothing that should be true tomorrow. All patterns read folded text.
"""

from __future__ import annotations

from typing import Final, Literal

from filrouge import lazy_re as re

Mood = Literal[
    "statement",
    "question",
    "request",
    "hypothesis",
    "undecided",
    "past",
    "reported",
    "joke",
    "smalltalk",
    "status",
    "momentary",
]


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


QUESTION: Final = _any(
    r"\?[\s\"')]*$",
    r"^(?:and |so |but |et |mais |alors )?(?:which|why|who|whose|how|pourquoi|comment|combien|quels?|quelles?|lequel|laquelle)\b(?! about)",
    r"^(?:what|where|when)(?:'s| is| are| was| were| do| does| did| would| should| can| will| port| version| about)\b",
    r"^(?:is|are|was|were|do|does|did|can|could|would|should|will|shall|has|have) (?:it|we|you|i|they|he|she|there|the|this|that|these|our|your|my|any|someone)\b",
    r"^(?:est-ce|qu'est-ce|c'est quoi|ou (?:est|sont|se)|que (?:fait|faire|penses)|a-t-on|y a-t-il|peut-on|faut-il|doit-on|sais-tu|tu (?:sais|te souviens|te rappelles))\b",
    r"^(?:any idea|do you (?:know|remember)|remind me|tell me|rappelle-moi|dis-moi|je me demande|i wonder|wondering)\b",
    r"^(?:¿|cual|cuando|donde esta|por que|como se)\b",
)
HYPOTHESIS: Final = _any(
    r"^(?:what if|and if|imagine|suppose|supposing|let's say|say we|assuming|admettons|imaginons|supposons|mettons que)\b",
    r"\bif (?:we|i|you|they|it|the \w+|he|she) (?:\w+ed|went|had|were|ran|used|moved|switched|could|would)\b",
    r"\bsi (?:on|nous|je|tu|l'on) \w+(?:ait|ions|ais|iez)\b",
    r"\b(?:would|could|might|may want|should we|we should|you could|maybe|perhaps|possibly|someday|at some point|eventually)\b(?! rather| never| always)",
    r"\b(?:peut-etre|on pourrait|on devrait|il faudrait|pourrait|serait|ce serait|un jour|eventuellement|quiza|tal vez|podriamos)\b",
    r"\b(?:i'm|i am|we're|we are) (?:thinking|considering|wondering|looking at|evaluating)\b|\b(?:je pense|on pense|on reflechit|on envisage|j'envisage|je songe) a\b",
    r"^(?:i think|i guess|i suppose|i believe|je crois|je pense|il me semble|i suspect|je suppose)\b",
)
UNDECIDED: Final = _any(
    r"\b(?:not|n't|never|hardly|haven't|hasn't) (?:\w+ ){0,2}(?:decided|settled|agreed|chosen|sure|certain|final|confirmed)\b",
    r"\b(?:undecided|to be decided|tbd|tbc|up in the air|no decision|nothing (?:is )?(?:decided|settled)|still (?:deciding|hesitating|open))\b",
    r"\b(?:rien n'est|pas|n'a rien|jamais) (?:\w+ ){0,2}(?:decide|tranche|choisi|certain|fixe|arrete|valide)\b(?! que)",
    # folded, "sûr" is also the preposition "sur": it ends here, or goes on with "de" or "que"
    r"\b(?:pas|jamais|rien n'est) (?:\w+ ){0,2}sur(?= *(?:[.,;!?)]|$)| (?:de|que|qu')\b)",
    r"\bon (?:hesite|verra|ne sait pas)\b|\bj'hesite\b|\ba voir\b|\bi (?:don't|do not) (?:know|remember|think)\b|\bje ne (?:sais|crois|pense|me souviens)\b|\bno idea\b|\baucune idee\b",
    r"\bno (?:hemos|esta) decidido\b|\btodavia no\b",
)
PAST: Final = _any(
    r"\b(?:last|previous) (?:year|decade|summer|winter)\b|\b(?:years?|decades?) ago\b|\bused to\b|\bback (?:in (?:the|\d)|then|at my)\b",
    r"\b(?:in|at) my (?:previous|last|old|former) (?:job|company|team|project|place)\b|\bat the time\b|\b(?:previously|formerly|originally|once),? we\b",
    r"\bil y a (?:\w+ ){1,2}(?:ans?|annees?)\b|\bl'an(?:nee)? (?:dernier|derniere|passee?)\b|\ba l'epoque\b|^avant,? (?:on|nous|je|il|la|le|c')|\bauparavant\b|\bjadis\b",
    r"\b(?:mon|ma) (?:ancien|ancienne|precedente?) \w+\b|\bhace (?:\w+ )?anos?\b|^antes\b",
)
REPORTED: Final = _any(
    r"\b(?:says?|(?<!i )(?<!we )said|claims?|claimed|suggests?|suggested|thinks|wrote|mentions?|recommends?|tells|told me|argues|wants us)\b(?! yes)",
    r"\b(?:according to|apparently|supposedly|i (?:heard|read) (?:that|somewhere|about|in)|rumou?r|selon|d'apres|il parait|apparemment|j'ai (?:lu|entendu))\b",
    r"\b(?:dit|disent|a dit|pense|pensent|propose|proposent|suggere|conseille|recommande|voudrait|aimerait) (?:que|qu'|de|d')|\bdice que\b",
)
JOKE: Final = _any(
    r"\b(?:just )?(?:kidding|joking)\b|\bj/?k\b|\blol\b|\blmao\b|\brofl\b|\bha(?:ha)+\b|\bmdr+\b|\bptdr\b|\bxd\b|\bfunny\b|\bfor fun\b|\bje (?:plaisante|rigole|deconne)\b|\bblague\b|\bjaja\b",
    r"[\U0001F602\U0001F923\U0001F61C\U0001F92A]|;-?\)|:-?[pP]\b",
)
SMALLTALK: Final = _any(
    r"^(?:hi|hello|hey|yo|good (?:morning|afternoon|evening|night)|salut|bonjour|bonsoir|coucou|hola|buenos dias)\b[^:]{0,40}$",
    r"^(?:thanks?|thank you|thx|ty|merci|gracias|cheers|bravo|congrats|well done|nice|great|perfect|awesome|cool|super|parfait|genial|excellent|top|nickel)\b[^:]{0,50}$",
    r"\b(?:going for (?:a |lunch|dinner)|back in (?:a|an|\d)|be right back|brb|see you|talk (?:later|soon)|have a (?:good|nice)|good weekend|sleep well|bien dormi|bon cafe|prendre un cafe|a demain|a plus|a tout|bonne (?:soiree|journee|nuit)|bon (?:week-end|appetit)|hasta|coffee break|week-?end|lunch)\b",
    r"\b(?:i'm|i am|je suis|estoy) (?:\w+ ){0,2}(?:tired|hungry|back|late|sick|happy|glad|sorry|afraid|fatigue\w*|creve\w*|content\w*|desole\w*|de retour|malade|en retard)\b",
    r"^(?:i|je|j')\s?(?:really )?(?:hate|love|like|deteste|aime|adore|hais) (?:the |les? )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:lun|mar|mercre|jeu|vendre|same)dis?|dimanches?|winter|summer|rain|hiver|pluie)[ .!]*$",
    r"\b(?:the weather|il pleut|it's raining|j'espere|i hope|hope you)\b|^(?:no|pas de) (?:problem|worries|rush|idea|need|thanks|souci|probleme|stress)\b|\bnever ?mind\b|\blaisse tomber\b$",
)
#: "for this experiment only", "pour cet appel": over when the task is.
MOMENTARY: Final = _any(
    r"\bfor this (?:call|request|answer|reply|response|experiment|task|run|session|demo|exercise|question|prompt|message|spike|prototype)\b",
    r"\bpour (?:cet|cette|ce) (?:appel|requete|reponse|experience|essai|tache|seance|session|exercice|question|message|demo|prototype)\b",
    r"\b(?:just|only) (?:this once|this time)\b|\bjuste (?:cette fois|pour cette fois)\b",
)
#: The state of the moment: broken, green, running now; narration of what was just done.
STATUS: Final = _any(
    r"\b(?:is|are|it's|was|were|seems?|looks?|still|keeps?|got|went|est|sont|reste) (?:\w+ ){0,2}(?:broken|failing|red|green|down|up|slow|stuck(?! (?:on|with))|flaky|blank|empty|weird|wrong|ready|done(?! with| by| via| from| in)|finished|fixed|changed|merged|crashing|hanging|passing|casse\w*|rouges?|verte?s?|lente?s?|bloque\w*|vides?|pret\w*|fini\w*|termine\w*|change\w*|growing)\b(?! (?:when|until|by|in) )",
    r"^(?:still|encore|again|same|toujours)\b|\b(?:still|again|encore|toujours) (?:fails?|failing|crashes|breaks|hangs|shows?|blank|la meme|le meme|pas\b|rouge|en cours|casse)",
    r"\b(?:doesn't|does not|don't|do not|didn't|isn't|won't|ne) (?:seem to |repond\w*|marche\w*|fonctionne\w*|compile\w*|demarre\w*)?(?:work|respond|compile|start|load|answer|plus|pas)\b(?= *(?:[.,;!]|$|any|anymore|because|car|sur|on|with|avec|for))",
    r"\b(?:ne |n')(?:s'|se )?(?:affiche|passe|charge|ouvre|demarre|marche|fonctionne|repond|apparait|trouve|envoie)\w* (?:plus |pas )(?!par\b)",
    r"\b(?:fails?|crashes|hangs|times out|freezes|echoue\w*|plante\w*|rame\w*|takes (?:forever|ages|too long)|rien ne change|the same error|la meme erreur)\b(?! (?:ci|the build|le build|when|quand|si|if|otherwise))",
    r"^(?:i|we) (?:just|have just|already|only|'ve just|finally|also)? ?(?:ran|tried|pushed|merged|opened|checked|looked|restarted|reran|reverted|started|read|saw|see|got|noticed|tested|updated|installed|finished)\b",
    r"^(?:i've|we've|i'll|i'm|i am|j'ai|je viens|je vais|on vient|he|ejecute)\b (?!chosen|decided|moved|switched|picked|opted|renamed|changed|migrated|dropped|replaced|upgraded|abandoned|settled|agreed|adopted|remplace|abandonne|migre|choisi|decide|opte|deplace|renomme|change|tranche)(?:\w+)",
    r"\b(?:is|are) (?!running (?:on|in|at)|using|listening|moving|going with|sticking|being|hosting|living|missing)\w+ing\b(?! (?:on|from) \w+ (?:until|since))",
    r"\bright now\b|\btoday\b|\bthis (?:morning|afternoon)\b|\baujourd'hui\b|\bce matin\b|\bcet apres-midi\b|\ben ce moment\b|\byesterday\b|\bhier\b",
)
_POLITE: Final = r"^(?:(?:please|now|then|next|and|so|also|first|ok|just|quickly|maintenant|ensuite|puis|et|alors|aussi|d'abord|merci de|por favor|ahora),? )*"
_DO_EN: Final = (
    "add adapt adjust analyse analyze apply append ask attach audit benchmark build bump call change check clean clone close"
    " commit compare compute configure continue convert copy correct create debug define delete demonstrate deploy describe"
    " design diagnose diff display document download draft drop dump edit enable ensure estimate examine execute expand explain"
    " explore export extend extract fetch figure fill find finish fix format generate get give go grep handle help"
    " hide highlight implement import improve include increase inline insert inspect install integrate investigate"
    " kill launch link list load look make map measure merge migrate mock model modify move name normalize open optimise"
    " optimize optimise outline output parse paste patch pick ping plot point port prepare print profile propose prove publish"
    " pull push put read rebase rebuild recompute record redo reduce refactor reformat regenerate release remove rename reorder"
    " replace reproduce rerun reset resolve restart restore retry return revert review rewrite rollback run save scaffold scan"
    " search see send set setup ship show simplify sketch sort split start stop submit suggest sum summarise summarize swap switch"
    " sync tag take tell test throw tidy trace train translate trim try turn tweak undo uninstall unskip update upgrade upload use"
    " validate verify view wait walk wire wrap write commence proceed resume have keep raise lower turn double"
)
_DO_FR: Final = (
    "ajoute ajuste aide analyse applique arrete attends augmente baisse calcule cherche change choisis clone commence compare"
    " complete compte configure continue convertis copie corrige cree deploie decoupe decris deplace demande demarre diminue"
    " documente donne ecris edite efface enleve enregistre envoie essaie etends execute explique exporte extrais fais ferme finis"
    " formate genere implemente importe indique insere installe integre jette lance liste lis livre mesure mets migre modifie montre"
    " nettoie optimise ouvre passe peux prends prepare propose publie range recommence redemarre redige reduis refactorise refais"
    " regarde relance relis remplace remets renomme reponds repare reprends resume retire reviens sauvegarde simplifie sors supprime"
    " teste traduis transforme trouve utilise valide verifie vire va vas demandes implementez ajoutez corrigez faites mettez lancez ecrivez"
)
_DO_ES: Final = "anade agrega arregla borra busca cambia comprueba corrige crea ejecuta elimina escribe explica genera haz lanza mira muestra pon prueba quita revisa renombra"
#: "Test files live in", "Deploy command is": a noun first, so not an order.
_NOUN_FIRST: Final = (
    r"(?! (?:(?!the |an? |which |what |if |that |how |why |where |when |whether |my |our |all |le |la |les |un |une |des |ce |cette )[\w-]+ ){0,2}"
    r"(?:is|are|was|were|lives?|goes|go to|runs|starts|expires|takes|uses|lands?|sits?|belongs|must|should|needs?|est|sont|doit|doivent)\b)"
)
IMPERATIVE: Final = re.compile(
    _POLITE + rf"(?:{'|'.join(f'{_DO_EN} {_DO_FR} {_DO_ES}'.split())})\b(?!-toi|s\b|:)" + _NOUN_FIRST
)
REQUEST: Final = _any(
    IMPERATIVE.pattern,
    _POLITE
    + r"(?:can|could|would|will) you\b|\b(?:peux|pourrais|veux)-tu\b|^tu (?:peux|pourrais)\b|\bpodrias\b|\bpuedes\b",
    r"^(?:i want|i need|i'd like|i would like|we need|you need|you have|je veux|je voudrais|j'aimerais|il faut|il faudra|on doit|tu dois|quiero|necesito) (?:you |to |a |an |the |some |that |que |qu'|un |une |le |la |les |des |de )",
    r"^let's (?!go with|use\b|keep\b|stick|adopt|standardi[sz]e|drop)|^(?:on|allez,? on) (?:attaque|commence|continue|regarde|passe a (?:la|autre|l'etape)|y va|reprend)\b|^allons-y\b",
    # "Please note it in docs/decisions.md", which is not "Note that the port is 8080"
    _POLITE + r"(?:note|jot|mark|note[zs]?)[ -](?:it|this|them|le|la|les|ca)\b(?! ?:)",
    r"\b(?:s'il te plait|stp|svp|please)[.! ]*$",
)

_SILENT: Final[tuple[tuple[Mood, re.Pattern[str]], ...]] = (
    ("question", QUESTION),
    ("joke", JOKE),
    ("undecided", UNDECIDED),
    ("hypothesis", HYPOTHESIS),
    ("reported", REPORTED),
    ("smalltalk", SMALLTALK),
    ("momentary", MOMENTARY),
)


def silent_mood(plain: str) -> Mood | None:
    """The mood that forbids any memory at all, if the sentence is in one."""
    return next((mood for mood, pattern in _SILENT if pattern.search(plain)), None)


def is_request(plain: str) -> bool:
    """True when the sentence asks for work now."""
    return REQUEST.search(plain) is not None


def is_imperative(plain: str) -> bool:
    """True when the sentence opens with the verb of a task."""
    return IMPERATIVE.match(plain) is not None


def is_past(plain: str) -> bool:
    """True when it tells of a former time."""
    return PAST.search(plain) is not None


def is_status(plain: str) -> bool:
    """True when it reports the state of the moment."""
    return STATUS.search(plain) is not None
