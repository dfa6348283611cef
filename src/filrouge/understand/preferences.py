# ruff: noqa: E501 (a pattern is read best on one line)
"""Who the user is and what they like: the statements that follow them into every project (RULINGS 19)."""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.reading import Clause, Found
from filrouge.understand.tools import CATEGORY
from filrouge.understand.words import fold

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
#: key, pattern with `value`: core facts about the user.
_PROFILE: Final = tuple(
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
#: "My manager is called Bob", "My favourite colour is blue": theirs wherever they work.
_MINE: Final = re.compile(
    r"^(?:my|mon|ma|mes|mi|mis) (?:(?:favou?rite|preferred) (?:[\w-]+ ){1,3}?|[\w-]+ (?:prefere|favori)\w* |(?:[\w-]+ )?"
    r"(?:managers?|boss|teammates?|colleagues?|mentor|wife|husband|partner|kids?|dog|cat|birthday|keyboard(?: layout)?|shell|operating system|os|native language|mother tongue"
    r"|chef|cheffe|patron|patronne|collegues?|femme|mari|chien|chat|anniversaire|clavier|systeme|langue maternelle|jefe|jefa) )"
    r"(?:is|are|est|sont|s'appelle\w*|es|son|se llama)\b (?!not |pas |here|la\b|away|off\b|sick|angry|waiting|asking)[\w`]"
)
#: "J'utilise zsh", "I use Neovim on macOS": tools of the person, not of the project.
_USES: Final = re.compile(
    r"^(?:i (?:always |mostly |mainly |usually )?(?:use|work (?:with|on|in)|code in)|j'utilise|je (?:travaille|code|bosse) (?:sous|avec|sur|dans)|uso) (?P<what>[\w.+ -]+?)"
    r"(?: (?:as|for|on|comme|sur|sous|pour|at|a) [\w' -]+)?[ .!]*$"
)
_OWN_TOOLS: Final = {"shell": "user_shell", "editor": "user_editor"}
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
#: "Always answer me in French, whatever the project.": an order, and for good.
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


def find(clause: Clause) -> Found | None:
    """The name, trait or preference of the user that the clause states."""
    return _identity(clause) or _profile(clause) or _taste(clause)


def _identity(clause: Clause) -> Found | None:
    """My name is Tom Okafor; I'm Jonas Weber, backend developer; Appelle-moi Nico."""
    intro = _NAME_INTRO.search(clause.plain)
    match = intro or _I_AM.match(clause.plain)
    name = _FULL_NAME.match(clause.text, match.end()) if match else None
    if name is None or fold(name.group().split(" ")[0]) in _NOT_A_NAME:
        return None
    after = clause.plain[name.end() :]
    if not intro and not re.match(r"\s*(?:$|[.,!;(-]|(?:and|et|y|from|de|du|chez|at)\b)", after):
        return None
    return Found(kind="fact", confidence=0.95, scope="user", key="user_name", value=name.group())


def _profile(clause: Clause) -> Found | None:
    """My timezone is Europe/Zurich; je travaille chez Acme; I'm a backend developer."""
    for key, pattern in _PROFILE:
        match = pattern.search(clause.plain)
        if match:
            start, end = match.span(match.lastgroup or "value")
            return Found(kind="fact", confidence=0.9, scope="user", key=key, value=clause.text[start:end].strip(" ."))
    if _MINE.match(clause.plain):
        return Found(kind="fact", confidence=0.85, scope="user")
    used = _own_tools(clause.plain)
    if used:
        return used
    role = _ROLE.match(clause.plain.rstrip(". !"))
    if role and not re.search(r"\b(?:who|trying|looking|stuck|waiting)\b", clause.plain):
        start, end = role.span("role")
        return Found(kind="fact", confidence=0.85, scope="user", key="user_role", value=clause.text[start:end].strip())
    return None


def _own_tools(plain: str) -> Found | None:
    """I use zsh; j'utilise Neovim; I work on Ubuntu."""
    match = _USES.match(plain)
    if match is None:
        return None
    tools = re.split(r",? (?:and|et|y) |, | ", match["what"])
    keys = {tool: _OWN_TOOLS.get(CATEGORY.get(tool, "")) for tool in tools}
    if not all(key or tool in _SYSTEMS for tool, key in keys.items()):
        return None
    key = keys[tools[0]] if len(tools) == 1 else None
    return Found(kind="fact", confidence=0.85, scope="user", key=key, value=tools[0] if key else None)


def _taste(clause: Clause) -> Found | None:
    """I prefer concise answers; je déteste les acronymes; answer in English."""
    plain = clause.plain
    disliked = _DISLIKES.search(plain) is not None
    style = _ANSWER_STYLE.search(plain) is not None
    if not (style or disliked or _LIKES.search(plain)) or _ABOUT_NOW.search(plain):
        return None
    if not style and len(plain.split()) < 3:
        return None
    language = _LANGUAGE.search(plain) if style else None
    only_language = language is not None and len(plain.split()) <= 9
    return Found(
        kind="rule" if style and _STANDING_ORDER.search(plain) else "preference",
        confidence=0.85,
        scope="project" if _HERE.search(plain) and not style else "user",
        key="answer_language" if only_language else None,
        value=_LANGUAGE_CODE[language.group(1)] if language and only_language else None,
        sentiment="negative" if disliked else "positive",
        timeframe="standing",
    )
