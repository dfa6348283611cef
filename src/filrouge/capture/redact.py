"""Redaction of secrets and private passages, before text is sent or written anywhere.

What is cut becomes `[redacted:KIND]`. The passes, in order, repeated until nothing changes, at most `MAX_ROUNDS` times:

1. private material: text between `<private>` and `</private>` (to the end if it is never closed), private keys, and
   the values of Kubernetes secrets;
2. secrets with a recognisable shape (`secret_rules`);
3. values that a keyword in English, French or Spanish assigns (`DB_PASSWORD=…`, `mot de passe : …`);
4. secrets in sentences of any other form, found by a score.

A keyword alone is not enough: prose about passwords, code that names a variable, hashes and paths stay.

The hook runs this with the standard library's regex engine; the daemon runs `intake.redact_completely` afterwards. Any
text is accepted; nothing is raised.

Pure: no database, no file.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

from filrouge.capture.secret_rules import RULES, Rule

# Secrets in free sentences of any grammar: "when it prompts, answer fishstick_09".
#
# `redact_assignments` covers the forms that bind a value to a keyword. People use more forms than any list, so this pass
# scores whole sentences. It adds what the sentence is about (a password, a login, a code) and how much a word looks
# like a secret that someone chose or a machine made (letters, digits and signs mixed). A word is cut if the sum
# reaches `MIN_SCORE`. Words that mix letters and digits for other reasons (versions, files, hosts, identifiers,
# units) score 0. Standard library only. Sentences and words have a maximum length, so the time is linear.

# ruff: noqa: E501, S105 (a pattern is read best on one line, and names no password)


#: A word is a secret if the sum of its cue and shape scores reaches this.
MIN_SCORE: Final = 5.0


#: Longest sentence that is read; a longer run without an end is not prose.
_MAX_SENTENCE_CHARACTERS: Final = 600
_MAX_WORD_CHARACTERS: Final = 64
_SENTENCE_END: Final = r"(?:[.!?](?=\s+[A-ZÀ-Ý¿¡])|\n[ \t]*\n(?!\S{5,80}[ \t]*(?:\n|$)))"


#: Cues: what a sentence is about. The first group names a secret itself, the second a place where one is typed.
_SECRET_WORDS: Final = (
    r"pass ?(?:word|phrase|code|wd)s?|passw\w{2,4}|pw(?:d|s)?\b|mots? de passe?|mdp|phrases? (?:secr[eè]tes?|de passe)"
    r"|c?ontrase(?:ñ|n|ny)as?|ctrase(?:ñ|n)a|clave(?!s? (?:for[aá]nea|primaria))|frase (?:de (?:paso|luks)|secreta)|contra (?:del?|es)\b|creds?\b|credentials?"
    r"|identifiants?|credenciales|(?:api|access|secret|licen[cs]e|activation|encryption|signing|shared|hmac|master|private|recovery|product|wifi|wi-fi|app|applicative|registry|deploy)"
    r"[- ]?(?:secret )?(?:keys?|token)|cl[eé]s? (?:d['’]api|api|secr[eè]te|wi-?fi|hmac|partag[eé]e|de licence|d['’]activation|de chiffrement|applicative|de r[eé]cup\w+|ssh)"
    r"|llave|tokens?\b|jeton|secret(?:o|a)?\b|basic auth|community string|communaut[eé] snmp|comunidad snmp|session cookie|cookies? de ses+i[oó]n"
)

_LOGIN_WORDS: Final = (
    r"log(?:s|ged|ging)?[ -]?(?:in|on)\b|sign(?:ed)?[ -]?in\b|sudo|root\b|admin\b|prompts?\b|invite\b|unlock|acc[eè]s\b|acceso|account|compte|cuenta"
    r"|wifi|wi-fi|vpn|ftp|ssh|vnc|rdp|vault|coffre|caja fuerte|candado|padlock|keypad|clavier|teclado|router|pfsense|proxmox|kibana|grafana|mysql|postgres"
    r"|redis|mongo\w*|jenkins|gitlab|gitea|nextcloud|wordpress|synology|phpmyadmin|adminer|portainer|elastic|rabbitmq|ldap|samba|smb|imap|smtp|sftp|wireguard|openvpn|cpanel|plesk|firewall|nas\b|idrac|ilo|ipmi|bios|zabbix|sonarqube|nexus|artifactory|keycloak|minio|odoo|tomcat|connect\w*|conect\w*|entr(?:ar|ando|a)\b|panel|cam[eé]ra|c[aá]mara|cl[eé]\b|key\b|digicode|protect|decrypt|d[eé]chiffr|descifr|auth\w*|l[aâ]chera|ouvre|abre|bota|sesi[oó]n"
)


#: Cues for a code of digits: words for what it opens or confirms.
_CODE_CUE_WORDS: Final = (
    r"pin\b|puk\b|pass ?codes?|one[- ]time|2fa|mfa\b|otp\b|totp|digicode|(?:door|gate|alarm|access|entry|keypad|meeting|security|verification|recovery|backup|unlock|zoom|safe|lock|garage) codes?"
    r"|codes?|c[oó]digos?|combinaci[oó]n|combination|combinaison|candado|padlock|cadenas|keypad|clavier|teclado|caja fuerte|coffre|safe\b|digicode|cl[eé] (?:web|wep)|patr[oó]n|port[oó]n"
    r"|(?:ouvre|opens?|unlocks?|abre|entra|d[eé]verrouille|desbloquea) (?:with|avec|con|by)\b|d[ií]gitos|digits|chiffres|contrase(?:ñ|n)a|password|mot de passe|mdp|clave"
)


#: Codes that are no secret, recognised by the words around them.
_OTHER_CODE: Final = (
    r"(?:error|status|exit|return|response|http|https|zip|post(?:al|code)?|country|area|dial\w*|source|product|bar|qr|colou?r|discount|promo|coupon|hex|sku|order|customer|article|item|invoice|region|currency|language|airport|iata|naf|ape|insee|naics|cups|cpt|icd|estado|error|salida|retour|erreur|sortie|statut|produit|postal|pays|pa[ií]s|producto|postal|barras?|descuento|promo|client|commande|pedido|cliente)"
    r"[ -]?(?:codes?|c[oó]digos?)|(?:codes?|c[oó]digos?)[ -]?(?:(?:de|d['’]|of|du) ?)?(?:error|erreur|status|estado|statut|retour|sortie|salida|postal|produit|producto|barras?|pays|pa[ií]s|promo\w*|r[eé]duction|descuento|commande|pedido|client\w*|article|civil|p[eé]nal|laboral|review|base|source|fuente|coverage|http|exit|region|NAF|APE|INSEE|QR|couleur|color|vestimentaire|travail|route|la route|conduct|conducta|bloqu\w+|block|line|lines|generat\w+)"
)


#: Words right before a candidate that bind it to the cue.
_BINDING_WORD_BEFORE: Final = (
    r"(?:[:=→]|=>|->|–|—|\bis|\bwas|'s|\bare|\bto|\bfrom|\bdesde|\bde|\bvaut|\bvale|\bc['’]est|\best|\bet (?:le|la) \w+|\bes|\bson|\bera|\ba|\bà|\ben|\bpar|\bpor|\bwith|\bavec|\bcon|\buse|\buses?d?|\banswer|\btype|\benter"
    r"|\bsend|\bput|\btapes?|\bcon|\bmets?|\bmetes?|\bescribe|\bteclea|\br[eé]ponds?|\benvoie|\bmanda|\bentre|\bpuse|\bpassword|\bpw|\bpwd|\bpass|\bmdp|\bpasse|\bcontrase(?:ñ|n)a|\bclave|\bpin|\bcode|\bc[oó]digo|\bpuk|\bpassphrase|\bcode[:,]?)[ \t]*(?:bien|just|always|toujours|siempre|actually|en fait|sólo|only|still)?[ \t]*[\"'`«“(*]{0,3}$"
)


#: Words right before a candidate that say to type it.
_TYPING_VERB_BEFORE: Final = r"\b(?:answers?|types?|type in|enter|send|tu tapes|tapes?|r[eé]ponds?|envoie|mets|metes?|escribe|teclea|manda|responde)[ \t]*[\"'`«“(*]{0,3}$"


#: A user name right before a candidate: "root / …", "admin puis …".
_USER_NAME_BEFORE: Final = r"(?:\b[\w.@-]{2,40},?[ ]{1,2}(?:/|·|\||\+|or|ou|o|(?:(?:and|et|y)[ ])?(?:then|puis|ensuite|luego|despu[eé]s)|and|et|y|with|avec|con)|\b(?:uso|usa|utilise|admin|root))[ ]{1,2}[\"'`«“(*]{0,3}$"
_PASSWORDS: Final = r"pass ?word|pw\b|pwd|mot de passe|mdp|contrase(?:ñ|n)a|clave|passphrase|password|secret"


#: The sentence calls the candidate the secret afterwards: "X is still the root password", "ce X … c'est le vrai mot de
#: passe".
_CALLED_SECRET_AFTER: Final = (
    r"^[\"'`»”)*]{0,3}[ ,]{1,3}(?:[\w'’ ]{0,40}?\b(?:is|was|est|es|era|as|comme|como|c['’]est)[ ]{1,2}|(?:la|le|the)[ ]{1,2})(?:[\w'’]{1,14}[ ]{1,2}){0,4}"
    rf"(?:{_PASSWORDS})"
)


#: The same without words between, for candidates without a digit or sign.
_CALLED_SECRET_DIRECTLY: Final = (
    r"^[\"'`»”)*]{0,3}[ ]{1,2}(?:is|was|est|es|era)?(?:[ ]{0,2}(?:still|toujours|bien|really|actually))?[ ]{0,2}(?:the|le|la|my|notre|nuestra|our)[ ]{1,2}(?:[\w'’]{1,10}[ ]{1,2}){0,2}"
    rf"(?:{_PASSWORDS})"
)


#: Words shortly before a candidate that make it identify something else.
_OTHER_NOUN_BEFORE: Final = r"(?:\b(?:commit|hash|sha\d*|checksum|digest|id|ids|uuid|trace|span|build|version|v|ticket|issue|pr|mr|ref|rev|order|commande|pedido|tracking|suivi|seguimiento|invoice|facture|factura|siret|serial|s[eé]rie|sku|isbn|iban|model|mod[eè]le|modelo|branch|branche|rama|tag|file|fichier|archivo|fichero|host|server|serveur|servidor|user|username|utilisateur|usuario|login|ssid|port|puerto|line|ligne|l[ií]nea|row|room|salle|sala|error|erreur|status|function|fonction|funci[oó]n|class|method|variable|table|tabla|column|package|paquet|paquete|image|container|algorithm|algo\w*|cipher|regex|pattern|format|called|named|nomm[eé]e?|llamad[oa]|vs)|#|@)[ \t]*[\"'`«“(]?$"


#: Keys that are no secret.
_PUBLIC_KEY_BEFORE: Final = (
    r"(?:public|cache|primary|foreign|sort|partition|idempotency|ssh)[- ](?:key|rsa|ed25519)[^\n]{0,30}$"
)
_FILE_OR_CODE: Final = r"(?i)(?:[\w@.-]*\.(?:pyi?|[jt]sx?|json[cl5]?|ya?ml|toml|md|rst|txt|sh|env|conf|cfg|ini|xml|html?|s?css|sql|log|csv|tsv|pdf|zip|t?gz|tar|java|rb|go|rs|php|cpp|hpp|exe|pem|key|crt|cer|lock|db|sqlite3?|com|org|net|io|fr|es|mx|ar|dev|local|lan|internal|test|example|app|tf|vue|kt|swift|ipynb|png|jpe?g|gif|svg|mp[34]|docx?|xlsx?|pptx?|service|target|socket)|\.?/.*|~/.*|.*/.*|.*\\.*|https?:.*|.*::.*|.*\(.*|.*[<>{}\[\]|].*|--?\w.*|\$.*|%.*|[\w.]+=.*|[\w.-]+:[\d.]+|#[0-9a-f]{3,8})$"


#: Words with digits that are no secret: units, ordinals, versions, dates, hours, algorithms, machines, identifiers.
_ORDINARY_WITH_DIGITS: Final = (
    r"(?i)(?:1password|[a-z+]+\d+\.\d+|c\+\+\d*|[a-z]{2}-[a-z]+-\d|(?:ctrl|alt|shift|cmd|super|meta)\+.*|[a-z]+-\d|[a-z-]+-\d+(?:px|em|rem|pt|ms|mb)|[~<>±+-]?\d[\d.,:/x-]*(?:[a-zµ°%€$£]{0,6})?|\d+[a-z]?-[a-z]+|[a-z]\.\d+|[a-z]\d{4}|(?:\d+[hms]){2,3}|v?\d+(?:\.\d+)+[\w.-]*|\d{1,2}h\d{0,2}|\d{4}-\d\d(?:-\d\d)?\S*|[tq]\d|h\d|[a-z]{1,2}\d{1,3}"
    r"|(?:user|test|tests|host|server|serv|srv|web|db|node|step|line|port|ticket|issue|task|case|version|build|prod|dev|stage|staging|box|app|api|vm|rack|room|page|site|client|team|level|layer|phase|part|sprint|worker|agent|pod|disk|eth|wlan|gpu|cpu|lot|item|file|img|image|table|col|row|field|param|arg|var|foo|bar|tab|slide|chapter|week|day|month|year|q|version|tier|type|mode|slot|zone|region|cluster|shard|replica|bucket|env|python|py|php|java|mysql|pg|postgres|redis|ubuntu|debian|centos|win|windows|macos|ios|android|node|npm|vue|angular|react|django|rails|laravel|symfony|spring|k|s|ec|sha|md|hs|rs|es|aes|utf|base|oauth|argon|bcrypt|pbkdf|scrypt|iso|rfc|http|tls|ssl|ipv|wpa|ssh|rsa|ed|x|hmac|crc|mp|h|utilisateur|usuario|serveur|servidor|prueba|essai|salle|sala|piso|poste|puesto|fase|etapa|lote|equipo|cliente|raspi|rpi|esp|covid|web|log|cam|camera|switch|router|printer|nas|kb|mb|gb|tb)[_-]?\d{1,5}[a-z]?(?:[_-]\w{1,12}){0,2}"
    r"|rtx\d+|[a-z]+\d?[-_](?:v\d|id|ids|url|key|hash|token|field|file|name|type|count|len|length|policy|reset|expiry|ttl|env|enabled|test|tests|prod|dev|staging|db|api|server|service|client|user|admin|config)\d?)$"
)

_WORDS_ONLY: Final = r"(?i)[a-zà-ÿñ]+(?:['’_./+=-][a-zà-ÿñ]+)*['’]?$"
_CONSTANT: Final = r"[A-Z][A-Z0-9]*(?:[_-][A-Z0-9]+)+$|[A-Z]{2,6}-?\d{1,6}$"


#: Words joined by a sign; a secret only if the sentence says so.
_JOINED_WORDS: Final = r"[a-zA-Zà-ÿ]{3,20}(?:[-_.][a-zA-Zà-ÿ]{2,20}){1,3}(?<!-ce)(?<!-moi)(?<!-toi)(?<!-vous)(?<!-nous)(?<!-elle)(?<!-les)(?<!-lui)$"
_APP_PASSWORD: Final = r"(?:[a-z]{4}[- ]){3}[a-z]{4}$"


#: `color.brand.500`, `InputType27`.
_PROSE_DOTTED: Final = r"[a-z]+(?:\.[a-z0-9_-]{1,20})+$"
_CAMEL: Final = r"[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\d{0,2}$"
_KEY_GROUPS: Final = r"(?=(?:[\w]*\d[\w]*-[\w-]*){2})(?=.*\d)(?:[A-Za-z0-9]{3,8}-){2,7}[A-Za-z0-9]{3,8}$"
_NUMBERED_WORDS: Final = r"[A-Za-z]{3,16}(?:[-_.][A-Za-z]{2,16}){1,4}[-_.]?\d{1,4}$"
_HEX: Final = r"[0-9a-f]{16,128}$"
_PROSE_SIGNS: Final = frozenset("!@#$^&*+=~?%")


#: Characters that mix with letters in a secret, and words that introduce one made of letters only.
_SECRET_CHARACTERS: Final = tuple("0123456789@#$^&*+=~%")
_PROSE_KEYWORD_STARTS: Final = ("pass", "mdp", "contrase", "clave", "phrase", "frase", "pw", "secret")
_CODE_NUMBER: Final = r"(?<![\w.,:/#@$€£+-])(\d{4,9}|\d{3}[ -]\d{3}|\d{2}(?:-\d{2}){2,3}|\d{4}#)(?![\w%€$£/:@]|[.,-]\d|[ ]?(?:ms|s|px|kb|mb|gb|km|kg|m|eur|euros?|dollars?|usd|requests?|rows?|users?|lines?|lignes|l[ií]neas|times|fois|veces|caracteres|caract[eè]res|characters|chars|combinations|iterations|rounds|bytes|octets|personnes|people|points?|ports?|minutes?|seconds?|secondes?|segundos|hours|jours|d[ií]as|days)\b)"
_PHRASE_CUE: Final = r"(?:pass ?phrase|phrase (?:secr[eè]te|de passe)|frase (?:de paso|secreta|de luks))"


class Cue(NamedTuple):
    """The position of a cue in a sentence, and its score."""

    start: int
    end: int
    score: float


def redact_prose(text: str, mark_of: Callable[[str], str]) -> str:
    """Return the text without the secrets in its sentences; `mark_of` makes the mark of a kind."""
    return _replace_secrets(text, find_in_prose(text), mark_of)


def _replace_secrets(text: str, secrets: Iterable[tuple[int, int, str]], mark_of: Callable[[str], str]) -> str:
    """Return the text with each secret (start, end, kind) replaced by its mark; one that starts inside another is skipped."""
    parts, last_end = list[str](), 0
    for start, end, kind in secrets:
        if start >= last_end:
            parts += [text[last_end:start], mark_of(kind)]
            last_end = end
    return "".join([*parts, text[last_end:]])


def find_in_prose(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and mark kind of each secret, in order."""
    folded = lower_keeping_length(text)
    if not _may_hold_prose_secret(folded) or not _compiled(_ANY_CUE).search(folded):
        return
    for start, end in _sentences(text):
        yield from sorted(_find_in_sentence(text, folded, start, end))


def _may_hold_prose_secret(folded: str) -> bool:
    """Return False for most texts before any pattern is compiled.

    Compiling would cost the hook more than the rest of this pass.
    """
    return any(map(folded.__contains__, _SECRET_CHARACTERS)) or any(map(folded.__contains__, _PROSE_KEYWORD_STARTS))


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield sentences; a cue and its value may be on two lines, or in two consecutive short sentences."""
    sentence_start = 0
    for found in _compiled(_SENTENCE_END).finditer(text):
        if found.start() - sentence_start > 24 or "\n" in found[0]:
            yield sentence_start, found.end()
            sentence_start = found.end()
    yield sentence_start, len(text)


def _find_in_sentence(text: str, folded: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    if end - start > _MAX_SENTENCE_CHARACTERS or not _compiled(_ANY_CUE).search(folded, start, end):
        return
    cues = _find_cues(folded, start, end)
    for first, last, word in _find_words(text, start, end):
        score = _shape_score(word)
        before, after = text[max(start, first - 40) : first], text[last : min(end, last + 90)].lower()
        if score <= 0 and not (_is_joined(word) and _compiled(_CALLED_SECRET_DIRECTLY).match(after)):
            continue
        score += max((_cue_score(cue, first, last) for cue in cues), default=0.0)
        lowered = before.lower()
        if _compiled(_TYPING_VERB_BEFORE).search(lowered):
            score += 1.5
        elif _compiled(_BINDING_WORD_BEFORE).search(lowered) or _compiled(_USER_NAME_BEFORE).search(lowered):
            score += 1.0
        if _compiled(_CALLED_SECRET_AFTER).match(after):
            score += 2.0
        if _compiled(_OTHER_NOUN_BEFORE).search(lowered):
            score -= 2.5
        if _compiled(_PUBLIC_KEY_BEFORE).search(lowered) or _compiled(_SECRET_CUE).search(word.lower()):
            score -= 3.0
        if score >= MIN_SCORE:
            yield first, last, "password"
    yield from _find_codes(text, folded, start, end)
    yield from _find_phrases(text, folded, start, end)


def _find_cues(folded: str, start: int, end: int) -> list[Cue]:
    found = [Cue(match.start(), match.end(), 3.0) for match in _compiled(_SECRET_CUE).finditer(folded, start, end)]
    return found + [
        Cue(match.start(), match.end(), 1.5) for match in _compiled(_LOGIN_CUE).finditer(folded, start, end)
    ]


def _cue_score(cue: Cue, first: int, last: int) -> float:
    """Return the score of a cue for a word; it is lower at a distance."""
    distance = max(first - cue.end, cue.start - last, 0)
    return cue.score if distance <= 90 else cue.score - 1.0 if distance <= 200 else 0.0


def _find_words(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield candidates: words without surrounding quotes and marks; of `user:value` only the value."""
    for found in _compiled(_PROSE_WORD).finditer(text, start, end):
        first, last = found.span()
        while first < last and text[first] in "\"'`«“(*¿¡":
            first += 1
        while last > first and text[last - 1] in "\"'`».,;:)”*]?…":
            last -= 1
        word = text[first:last]
        pair = _compiled(_USER_BEFORE_VALUE).match(word)
        if pair:
            first += pair.end()
            word = text[first:last]
        if 5 <= last - first <= 160:
            yield first, last, word


def _shape_score(word: str) -> float:
    """Return how much a word looks like a secret; 0 for ordinary words, files, addresses and identifiers."""
    if is_placeholder(word) or word.startswith("[redacted"):
        return 0.0
    if _compiled(_APP_PASSWORD).match(word):
        return 3.5
    if names_algorithm(word) or _compiled(_PROSE_DOTTED).match(word) or _compiled(_CAMEL).match(word):
        return 0.0
    if (
        len(word) > _MAX_WORD_CHARACTERS
        or _compiled(_UUID).match(word)
        or _compiled(_FILE_OR_CODE).match(word)
        or _compiled(_ORDINARY_WITH_DIGITS).match(word)
    ):
        return 0.0
    if _compiled(_HEX).match(word):
        return 2.0
    letters, digits = sum(map(str.isalpha, word)), sum(map(str.isdigit, word))
    signs = sum(character in _PROSE_SIGNS for character in word[:-1]) + (word[-1] in "!#$*+=~")
    if letters and _compiled(_KEY_GROUPS).match(word):
        return 3.0
    if not letters or (not digits and not signs) or _compiled(_CONSTANT).match(word) or _is_address(word):
        return 0.0
    if not digits and ((word[-1] == "!" and signs == 1) or _compiled(_WORDS_ONLY).match(word) or letters < 5):
        return 0.0
    score = 1.0 if digits else 0.5
    upper, lower = any(map(str.isupper, word)), any(map(str.islower, word))
    score += 0.5 * (upper and lower) + min(signs, 2) * 1.0
    alternations = sum(character.isdigit() != other.isdigit() for character, other in pairwise(word))
    score += 1.0 * (alternations >= 2) + 0.5 * (digits >= 2) + 0.5 * (len(word) >= 8)
    score += 0.5 * any(character in "_-." for character in word[1:-1]) + 0.5 * (
        _compiled(_NUMBERED_WORDS).match(word) is not None
    )
    return score + 1.0 * (len(word) >= 14 and alternations >= 3)


def _is_address(word: str) -> bool:
    return _compiled(_ADDRESS).match(word) is not None


def _is_joined(word: str) -> bool:
    return _compiled(_JOINED_WORDS).match(word) is not None and not _compiled(_ANY_CUE).search(word.lower())


def _find_codes(text: str, folded: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield codes of digits that stand close to a cue for a code."""
    cues = [
        cue_match
        for cue_match in _compiled(_CODE_CUE).finditer(folded, start, end)
        if not _is_other_code(folded, cue_match)
    ]
    if not cues:
        return
    for number in _compiled(_CODE_NUMBER).finditer(text, start, end):
        if _compiled(_YEAR).match(number[1]):
            continue
        for cue in cues:
            between = (
                folded[cue.end() : number.start()]
                if cue.end() <= number.start()
                else folded[number.end() : cue.start()]
            )
            is_after_cue = cue.end() <= number.start()
            if len(between) > (70 if is_after_cue else 60) or _compiled(_UNRELATED_BETWEEN).search(between):
                continue
            yield number.start(1), number.end(1), "code"
            break


def _is_other_code(folded: str, cue: re.Match[str]) -> bool:
    around = folded[max(0, cue.start() - 14) : cue.end() + 18]
    return cue[0].startswith(("code", "cód", "cod")) and _compiled(_OTHER_CODE).search(around) is not None


def _find_phrases(text: str, folded: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield pass phrases: four to seven lower-case words without function words."""
    for cue in _compiled(_PHRASE_FORM).finditer(folded, start, end):
        phrase_start = cue.start(cue.lastindex or 0)
        phrase_end, word_count = phrase_start, 0
        for word in _compiled(r"[a-zà-ÿñ]{3,16}(?=[ ,.;\"'`»\n]|$)").finditer(
            text, phrase_start, min(phrase_start + 110, end)
        ):
            if (
                word.start() > phrase_end + 1
                or (word.start() > phrase_end and text[phrase_end] != " ")
                or word[0] in _FUNCTION_WORDS
            ):
                break
            phrase_end, word_count = word.end(), word_count + 1
        if 4 <= word_count <= 7 and _compiled(_PHRASE_END).match(text, phrase_end):
            yield phrase_start, phrase_end, "password"


_SECRET_CUE: Final = rf"\b(?:{_SECRET_WORDS})"
_LOGIN_CUE: Final = rf"\b(?:{_LOGIN_WORDS})"
_CODE_CUE: Final = rf"\b(?:{_CODE_CUE_WORDS})"
_ANY_CUE: Final = rf"\b(?:{_SECRET_WORDS}|{_LOGIN_WORDS}|{_CODE_CUE_WORDS})"
_PROSE_WORD: Final = r"[^\s,;]{5,170}"
_USER_BEFORE_VALUE: Final = r"[a-z][a-z0-9._-]{1,30}:(?=[^\s/:=]{6,})"
_ADDRESS: Final = r"(?i)[\w.+-]{2,}@[\w-]+(?:\.[\w-]+)*$"
_YEAR: Final = r"(?:19[5-9]\d|20[0-4]\d)$"


#: Words between a cue and a number that start another clause, or say that the number counts or names something.
_UNRELATED_BETWEEN: Final = r"[;\n]|\b(?:port|line|ligne|l[ií]nea|error|status|http|year|version|id|ticket|issue|order|room|returns?|renvoie|devuelve|in|limit|after|every|max|min|than|step|art[ií]c(?:ulo|le)s?|art)\b"

_PHRASE_FORM: Final = (
    rf"(?:{_PHRASE_CUE}|{_PASSWORDS})(?:,|(?: [\w'’]{{1,14}}){{0,5}}?(?::| (?:is|was|be|c['’]est|est|es|=)))[ ]{{1,2}}[\"'`«]?(?=([a-zà-ÿñ ]{{12,100}}))"
    rf"|{_PHRASE_CUE}[ ]{{1,2}}[\"'`«]?(?=([a-zà-ÿñ ]{{12,100}}))"
)

_PHRASE_END: Final = r"[\"'`»]|[,.;\n]|$|[ ](?:and|et|y|then|puis|please|but|pero|mais)\b"

_FUNCTION_WORDS: Final = frozenset(
    "the a an is are was be been not no too very never always still so and but or if when which that this these those it its we you they i in on at by with for from to of as than"
    " then stored saved used required needed kept sent shown hashed reset here there only must should can could would will please make add use check the"
    " le la les un une des du de est sont pas trop très toujours jamais et mais ou si quand qui que ce cette ces cet il elle on nous vous je tu au aux en dans par pour sur avec doit peut faut"
    " el los las uno una unos del al ese esa eso esos muy siempre nunca pero cuando este esta esto estos lo se te me con por para sobre como debe puede hay obligatoire requis guardada obligatoria".split()
)


# Secrets that a keyword names: `DB_PASSWORD=…`, `--token …`, `le mot de passe du serveur est …`.
#
# A scan finds keywords. At each one it tries the forms in which English, French, Spanish, code and configuration give
# a value: a sign (`=`, `:`, `→`), a verb ("is", "est", "was changed to"), a flag, markup, a YAML block, or the value
# before the keyword ("… is the password for", "use … as the password"). A word that can hardly be anything but a
# secret (`Sun926!`, an irregular mix of cases) is cut anywhere in the sentence of a keyword.
#
# Finding a keyword proves little; most of this section recognises values that are not secrets. A password may be any
# text, so a value is cut if the form leaves no doubt (`NAME=value`, quotes) or if it looks like a password (a digit
# or a sign among letters). Keys and tokens are made by machines, so a value without a digit is not a token.
# Placeholders (`changeme`, `<your-token>`) and references (`$TOKEN`, `settings.api_key`) stay.
#
# Every match starts at a fixed position, and values have a maximum length, so the time is linear in the text.

Family = Literal["password", "made", "code", "login"]

# --- keywords, in folded text -----------------------------------------------------------------------------------------

# Each alternative begins with a letter, so that the engine can skip to it; its surroundings are checked afterwards.
_PASSWORD_KEYWORDS: Final = (
    r"pass(?:word|wd|phrase|code|(?![a-z]))|pass?w(?:or|ro|r|o)d(?![a-z])|pswd?(?![a-z])|pwd?(?![a-z])|psk(?![a-z])"
    r"|mots?[ _-]?de[ _-]?passe?(?![a-z])|mdps?(?![a-z])|phrase[ _-](?:secr[eè]te|de[ _-]passe)|passe(?=\s{0,2}[:=])"
    r"|contrase(?:ñ|n|ny|ni)a|(?<=la )contra(?![a-z])|frase[ _-]de[ _-](?:paso|contraseña)"
    r"|clave(?!s?[ _-](?:de[ _-])?(?:api|licencia))"
    r"|identified by(?= [\"'])|code[ _-]wi-?fi"
)
_MACHINE_KEYWORDS: Final = (
    r"secret(?:os?(?![a-z]))?|token|credentials?|key|shared[_-]?access[_-]?signature|jeton|_auth(?=[ \"':=])"
    r"|cl[eé]f?[ _-](?:secr[eè]te|wi-?fi|wpa|(?:d[e'’u ]{1,3})?(?:api|acc[eè]s|licence|chiffrement|signature|wi-?fi))"
    r"|clave[ _-](?:de[ _-])?(?:api|licencia)|llave (?:secreta|maestra|(?:de (?:la )?|del )(?:api|acceso"
    r"|cifrado|wi-?fi))"
)
_CODE_KEYWORDS: Final = r"codes?|c[oó]digos?|pin|digicode"
_LOGIN_KEYWORDS: Final = (
    r"(?:log|sign)(?:ged|ged-| |-)?in|connecte(?:r|s|z|z-vous|-toi)?(?![a-z])|connect as|identifiants?|creds"
    r"|credenciales|inicia(?:r)? sesi[oó]n|acc[eè]so?s?|con[eé]cta(?:te|s|r|rse)?(?![a-z])|identif[ií]ca(?:te"
    r"|rse)|identifie(?:-toi|r|z-vous)"
    r"|connect(?= (?:with|using))|get in(?= (?:with|using))|entrar?|account|compte|cuenta|user(?:name)?(?=[: ])|usuario"
    r"|utilisateur"
)
_KEYWORD: Final = rf"(?P<password>{_PASSWORD_KEYWORDS})|(?P<code>{_CODE_KEYWORDS})|(?P<made>{_MACHINE_KEYWORDS})|(?P<login>{_LOGIN_KEYWORDS})"
#: Every text with a password or token keyword contains one of these. A login or code keyword also needs a digit or
#: mixed case in the text.
HINTS: Final = (
    "pass", "pw", "psk", "phrase", "frase", "identified", "mdp", "secr", "contrase", "clave", "token", "credential",
    "key", "clé", "cle", "llave", "jeton", "_auth", "shared", "wifi", "wi-fi", "la contra", "pasw", "psw", "motde",
)  # fmt: skip
_HINTS_OF_DIGITS: Final = (
    "pin", "code", "código", "codigo", "log", "sign", "connect", "identif", "cred", "sesi", "acces", "accès", "conect",
    "conéct", "get in", "entra", "account", "compte", "cuenta", "user", "usuario", "utilisateur",
)  # fmt: skip
#: Short keywords that are often part of a longer word; no letter may stand before them.
_NO_LETTER_BEFORE: Final = frozenset({"pw", "psw", "pswd", "psk", "passe", "clave", "_auth", "pin", "identified by"})
#: What must stand before `key`, before `code`, or after `code`, to make it a keyword.
_BEFORE_KEY: Final = (
    r"(?:api|account|shared[_-]?access|access|private|encryption|signing|master|auth|service|licen[sc]e|deploy"
    r"|subscription"
    r"|functions|secret|client|registry)[ _-]?$"
)
_BEFORE_CODE: Final = (
    r"(?:access|entry|entrance|door|gate|alarm|garage|safe|vault|(?:un|pad|comb)?lock|lock[ -]?box|locker|key[ -]?box"
    r"|building|elevator|lift|keypad|intercom|recovery|backup|rescue|reset|security|verification|activation|pairing"
    r"|invitation|authentication|2fa|mfa|otp|one-time|voicemail|phone|sim|secret)[ -]$"
)
_AFTER_CODE: Final = (
    r" (?:pin|secret|secreto"
    r"|(?:for|to|of) (?:the |my |our )?(?:safe|door|garage|gate|alarm|lock|lockbox|locker|building|vault|elevator|lift"
    r"|phone|house|office)|para (?:entrar|abrir|la puerta|la alarma)"
    r"|d['’](?:acc[eè]s|entr[eé]e|activation)|(?:de |du )(?:la |l['’])?(?:porte|portail|portillon|cadenas|bo[iî]te"
    r"|verrou|casier|interphone|ascenseur|tel|mobile|carte|cl[eé]s?|alarme|r[eé]cup(?:[eé]ration)?|secours"
    r"|s[eé]curit[eé]|v[eé]rification|d[eé]verrouillage|d[eé]blocage|connexion|box"
    r"|coffre|garage|parking|b[aâ]timent|t[eé]l[eé]phone|local|immeuble|entr[eé]e|cave|voiture)"
    r"|(?:de |del )(?:la |el )?(?:puerta|port[aó]l|port[oó]n|alarma|acceso|entrada|recuperaci[oó]n"
    r"|candado|tel[eé]fono|m[oó]vil|tarjeta|taquilla|ascensor|casillero|oficina|respaldo|seguridad"
    r"|verificaci[oó]n|desbloqueo|caja|casa|edificio|garaje|parking|wifi))(?![a-zà-ÿ])"
)
#: Word starts that make a trailing `pass` a keyword: `dbpass`, but not `compass`.
_KEYWORD_PREFIXES: Final = (
    r"(?:^|[^a-z])(?:db|usr|user|my|mysql|pg|root|admin|smtp|ftp|mail|require|store|key|sudo|login|bind|master"
    r"|redis|proxy)$"
)

# --- what stands between a keyword and its value ----------------------------------------------------------------------

#: The rest of the name, and closing quotes and brackets.
_REST_OF_NAME: Final = r"[A-Za-z0-9_.-]{0,40}(?:\\{0,3}[\"'`*]){0,3}[\])]?"
_SIGN: Final = (
    r"[ \t]{0,40}(=>|:=|={1,3}|:(?![:)])|→|-{1,2}>|⇒)[ \t]{0,8}(?:(?:\r?\n|\\n)[ \t]{0,12})?\*{0,2}[ \t]{0,2}"
)
#: `- name: DB_PASSWORD\n  value: …`, `"name": "X", "value": "…"`, `<add key="ApiKey" value="…"/>`.
_NAMED_VALUE: Final = r"(?:,\s{0,12}|\s{1,24})\\{0,3}[\"']?value\\{0,3}[\"']?\s{0,4}[:=]\s{0,4}"
#: `define('DB_PASSWORD', '…')`, `setToken("…")`, `variable "db_password" { default = "…" }`; the value is quoted.
_ARGUMENT: Final = r"\s{0,2}(?:[,(]\s{0,4}|\{[^{}]{0,200}?default\s{0,8}=\s{0,8})(?=[\"'\\])"
#: `<password>…</password>`, `<entry key="password">…</entry>`, `<key>Token</key><string>…</string>`.
_ELEMENT: Final = r"(?:[^<>\n]{0,60}>|</key>)\s{0,8}(?:<string>\s{0,8})?([^<>\s][^<>\n]{2,400})</"
_BLOCK: Final = r"[ \t]{0,4}:[ \t]{1,4}[|>][0-9+-]{0,2}[ \t]{0,4}(\r?\n|\\n)([ \t]{1,40})"
#: `password: str = "…"`: the type is skipped.
_TYPE_ANNOTATION: Final = r"[A-Za-z_][\w.\[\]|? ]{0,40}=[ ]{0,4}(?=[\"'])"
_WORD: Final = r"(?:\([^()\n]{1,40}\)|(?:[^\s:=.,;!?(){}\[\]<>|\"→\\]|[.,:](?=[^\s\"'])){1,40})"
_LINK_VERBS: Final = (
    r"is|are|was|were|be|been|becomes?|became|remains?|stays|has|reads|equals|est|sont|était|sera|serait|été|vaut"
    r"|c['’]est|reste|devient|devenu|es|son|era|fue|ser|será|sería|sea|sigue|queda|quedó|pasa|pasó|cambió"
)
_CHANGE_PREPOSITIONS: Final = r"to|into|à|en|por|par|a"
_FILLERS: Final = (
    r"now|still|currently|again|going|set|changed|reset|updated|rotated|switched|become|to|be|the following"
    r"|simply|just|maintenant|toujours"
    r"|désormais"
    r"|bien|changée?|remplacée?|renouvelée?|devenue?|passée?|mise?|été|en|par|à|ahora|siempre|todavía|siendo"
    r"|ser|a|cambiado|por"
)
#: `… of the shared box is`, `… (prod) :`, `…, c'est`: some words, and the link that ends them.
_STATED: Final = (
    rf"((?:[ ]{{1,3}}{_WORD}){{0,8}}?)(?:[ ]{{0,3}}(?P<sign>:(?!:)|=|→|-{{1,2}}>|⇒)"
    rf"|,?[ ]{{1,3}}(?:{_LINK_VERBS})(?:[ ]{{1,2}}(?:{_FILLERS})){{0,4}})(?=[ ]|:)[ ]{{0,2}}:?[ ]{{0,3}}"
)
#: `… of the box to`, after a word of change.
_CHANGED_TO: Final = rf"((?:[ ]{{1,3}}{_WORD}){{0,6}}?)[ ]{{1,3}}(?:{_CHANGE_PREPOSITIONS})[ ]{{1,3}}"
#: `mdp redis …`: one or two words, and the value at the end of the clause.
_VALUE_AT_CLAUSE_END: Final = r"(?:[ ]{1,2}[^\W\d_][\w-]{0,20}){1,2}[ ]{1,2}(?=([^\s,;]{8,100})(?:[.,;]?(?:\s|$)))"
#: "… and the one for prod is", "… et celui de la prod est", "… y la de producción es".
_FOLLOWING_VALUE: Final = (
    rf"[,;]?[ ]{{1,2}}(?:(?:and|et|y)[ ]{{1,2}})?(?:the one|that|celui|celle|la|el)((?:[ ]{{1,3}}{_WORD}){{1,6}}?)"
    rf"(?:[ ]{{0,3}}:|[ ]{{1,3}}(?:is|est|es|c['’]est))[ ]{{1,3}}"
)
#: "… with ana / …", "…: ana:…", "as ana with …".
_USER_AND_VALUE: Final = (
    r"(?:[ ]{1,3}[\w'’-]{1,20}){0,3}?(?:[ ]{0,2}[:=]|[ ]{1,3}(?:with|as|avec|con|comme|en|como|is|are|est|sont|es"
    r"|son))?[ ]{1,3}"
    r"[\"'`]?[\w.@+-]{1,64}[\"'`]?(?:[ ]{0,2}[/|:][ ]{0,2}|[ ]{1,2}(?:with|avec|con)[ ]{1,2}"
    r"|(?P<loose>[ ]{0,2}[,;&+][ ]{0,2}|[ ]{1,2}(?:-{1,2}|–|—|→)[ ]{1,2}|,?[ ]{1,2}(?:and|et|y|e|plus|then|puis"
    r"|luego|using)"
    r"(?:[ ]{1,2}(?:then|puis|luego|with|avec|con|ensuite|después))?[ ]{1,2}))(?!/)"
)
#: Nouns for a user with a password; after any other login word, a loose pair needs a stronger value.
_CREDENTIALS: Final = r"identifiants?|creds|credenciales|credentials?|login|acc[eè]so?s?$"
_CHANGE_VERBS: Final = (
    r"\b(?:set|reset|chang|updat|rotat|replac|switch|put|mis|mets?|remis|modifi|remplac|pass[eé]|camb|puse|pon"
    r"|puest|actualiz|reemplaz|swap|moved the|mov[ií]|bascul|renouvel|renov|restablec|r[eé]initialis)"
)
#: Before a keyword: "… is the", "… est notre", "… as the root", "… como".
_INVERTED: Final = (
    r"[,:]?[ ]{1,2}(?P<link>is|was|it's|that's|est|c['’]est|es|era|as|for|comme|en|como|de)"
    r"(?:[ ]{1,2}(?P<det>the|my|our|your|a|le|la|mon|ma|notre|votre|mi|nuestra|su|el))?"
    r"(?:[ ]{1,2}[\w-]{1,20}){0,2}[ ]{1,2}$"
)
_INVERTERS: Final = (
    " is ",
    " was ",
    "'s ",
    " est ",
    "c'est ",
    "c’est ",
    " es ",
    " as ",
    " for ",
    " comme ",
    " como ",
    " en ",
    " de ",
)
#: After a keyword whose value came before it.
_AFTER_INVERTED: Final = (
    r"(?:[ ]{1,2}(?:for|of|on|to|in|at|du|de|des|del|pour|sur|para|en|and|et|y|from|everywhere|please|now|here|root"
    r"|admin)\b|[ ]{0,2}(?:[.,;:!?)]|$|\r?\n))"
)

# --- values -----------------------------------------------------------------------------------------------------------

_QUOTED: Final = (
    r"\"\"\"\s{0,4}([^\"\\]{1,400})|\\{1,3}[\"']([^\"'\\\n]{1,400})|\"((?:[^\"\\\n]|\\.){1,400})\""
    r"|'((?:[^'\\\n]|\\.){1,400})'"
    r"|`([^`\n]{1,400})`|«\s?([^»\n]{1,400}?)\s?»|“([^”\n]{1,400})”"
)
#: A bare value of configuration: up to the next blank, without the start of another setting.
_SETTING: Final = r"(?:[^\s\"'`\\;&]{1,100}|;(?!\s|$|[\w ]{1,40}=)|&(?![\w.-]{1,40}=)|\\(?![nrt\"'\\u])){1,8}"
_BARE: Final = r"[^\s\"'`,;<>(){}|&\\]{3,400}"
#: A bare value in a sentence: up to the next blank.
_PROSE_VALUE: Final = r"[^\s\"`]{3,200}"

#: Words that make a sentence describe the keyword instead of giving a value.
_DESCRIBING_WORDS: Final = (
    r"(?i)\b(?:algorithms?|algo|hash(?:ed|er|ing|es)?|types?|formats?|encod\w+|encrypt\w+|polic\w+|rules?|lengths?"
    r"|size|fingerprint"
    r"|files?|path|urls?|endpoints?|headers?|version|ids?|names?|limits?|counts?|fields?|columns?|errors?|issues?|fix"
    r"|bugs?|tickets?|commits?|modules?|checks?|expir\w+|since|until|line|cost|rounds|usage|budget|window|manager"
    r"|reset)\b"
)
#: Numbers with a unit, dates, versions, file names, addresses, names of algorithms: they mix letters and digits too.
_ORDINARY_VALUE: Final = (
    r"(?i)(?:[~<>]?\d[\d.,:]*[a-z%µ/]{0,8}|\d{4}-\d\d-\d\d\S*|v?\d+(?:\.\d+)+\S*|[\w./-]+\.[a-z]{1,5}(?::\d+)*|\S*::\S*"
    r"|https?:.*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?:sha|md|hs|rs|es|aes|utf|base|oauth|argon|bcrypt|pbkdf|test|iso|rfc|http|ipv|llama|gpt)-?_?\d{1,4}"
    r"(?:[_-]\w{1,12}){0,3}"
    r"|[\w-]+\.\w+\(.*|\w+\(.*|#\S*|\S*\]\(\S*)$"
)
_UUID: Final = r"(?i)[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$"
#: A short word with one or two digits: `step2`, `user12`. It may be a password, but is often an identifier.
_SHORT_NUMBERED_WORD: Final = r"(?:[A-Z]?[a-z]{0,12}|[A-Z]{1,8})[_-]?\d{1,2}$"
#: `user_12`, `user:12`: an identifier.
_NUMBERED_IDENTIFIER: Final = r"[a-z]{2,12}[:_]\d{1,4}$"
#: Endings of names that describe a secret without holding it.
_METADATA_ENDINGS: Final = (
    r"(?i)(?:hash(?:ed)?|digest|file|path|dir|url|uri|name|id|ids|type|len|length|count|limit|policy|hint|field"
    r"|class|stdin"
    r"|label|expiry|expires|expiration|ttl|age|format|regex|pattern|prefix|version|usage|used|required|enabled"
    r"|index|map"
    r"|reset|manager|store|provider|protected|size|rounds|salt|text|list|error|message|placeholder|ref|mgmt|owner"
    r"|window)$"
)
#: Values that stand for a secret or for no value, such as the `changeme` of documentation.
_PLACEHOLDER: Final = (
    r"(?i)[<\[(*]*(?:true|false|yes|no|on|off|null|none|nil|aucune?|ningun[oa]|undefined|optional|required|str|string|text|bytes"
    r"|int|any|todo|tbd|unknown"
    r"|missing|empty|(?:my|your|the|some|new|old|a|user|db|admin|test)?[ _-]?(?:passw(?:or)?d|passphrase|pass"
    r"|secret|token|key|api[_-]?key|credentials?)"
    r"|pwd|mdp|object|boolean|number|bearer|basic|digest|x+|\*+|•+|\.+|-+|_+|…+|change[_-]?me|changeit"
    r"|replace[_-]?me|fixme"
    r"|(?:your|my|insert|enter|paste|put|some|example|sample|dummy|fake)[_ -].*|.*[_ -](?:here|example|placeholder)"
    r"|example|sample|dummy|fake"
    r"|placeholder|redacted|hidden|masked|removed|secret[_-]?(?:key|value)|default|value|input|self|this|inherit"
    r"|email|username|user"
    r"|(?:is )?(?:invalid|incorrect|wrong|expired|valid|disabled|unchanged|obligatoire|requise?|invalide|incorrecte"
    r"|manquante?|expirée?"
    r"|obligatori[oa]|inv[aá]lid[oa]|incorrect[oa]|requerid[oa]|caducad[oa]))[>\])*]*$"
)
#: A reference, or the start of an expression.
_REFERENCES: Final = (
    "[redacted:",
    "$",
    "<",
    "{",
    "%(",
    "%{",
    "%env",
    "!Ref",
    "!Sub",
    "!Get",
    "!vault",
    "!secret",
    "@{",
    "***",
    "•",
)
_CODE_EXPRESSION: Final = r"(?:[A-Za-z_]\w*(?:(?:\.|::|->|\?\.)[A-Za-z_]\w*)+|[A-Za-z_]+)$"
_CALL: Final = r"[A-Za-z_][\w.:>-]*(?:\(|\[|<[A-Z])"
_PATH: Final = r"(?:~|\.{1,2})?/[\w.@~-]*(?:/[\w.@~-]*)*$"
_SLASHED: Final = r"[\w.-]*(?:/[\w.-]*){1,9}$"
#: `color.brand.500`
_DOTTED: Final = r"[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]{1,20})+$"
#: Words of a label or a message, which no pass phrase contains.
_LABEL_WORDS: Final = (
    r"(?i)\b(?:is|are|was|be|must|should|your|you|the|an?(?= \w\w)|of|for|min|max|minimum|maximum|characters?"
    r"|caract[eè]res|caracteres|chars|digits|to|with|and|or|not|no|at|least|in|on|this|that|enter|forgot|please|new"
    r"|confirm"
    r"|le|la|les|un|une|de|du|des|et|ou|votre|vos|est|doit|pour|el|los|su|tu|es|debe|para|con|y|pass\w*|token|key"
    r"|secret|contraseña|clave)\b|[.?!:…]$"
)
_TOKEN_SHAPE: Final = r"[A-Za-z0-9+/=_.:~!@#%^*-]{8,}$"
_DIGITS: Final = r"\d{4,10}$|(?=[A-Z\d-]*\d)[A-Z\d]{3,8}(?:-[A-Z\d]{3,8}){1,7}$|(?=\w*\d)[A-Za-z\d#*]{4,8}$"
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_MAX_NAME_CHARACTERS: Final = 40
#: Longest value in a sentence; longer keys have a form of their own.
_MAX_TOKEN_CHARACTERS: Final = 160


#: A word of a sentence that may be a secret; trailing `.`, `-` and `_` are removed later.
_CANDIDATE: Final = r"[A-Za-z0-9][A-Za-z0-9!@#$%^&*?+~_.-]{5,59}"
_SECRET_SIGNS: Final = frozenset("!@#$%^&*?~")
#: Package versions, tickets, users of hosts, units, key combinations, percent encoding, algorithms.
_ORDINARY_WITH_SIGNS: Final = (
    r"(?i)(?:[\w./-]+@[\^~]?v?\d[\w.+-]*|[a-z][\w.-]*@[a-z][\w.-]*|[a-z_-]+#\d+|\d[\d.]*[a-z]*[!?+%*]*|.*%[\da-f]{2}.*"
    r"|[a-z]*\d{0,2}[!?+*~]+|[a-z+]{1,2}\d{1,4}[!?]*)$"
)
_ALGORITHM: Final = (
    r"(?i)(?:sha|md|rsa|hmac|pbkdf|aes|ecdsa|ed25519|bcrypt|scrypt|argon|base(?=64|32)|utf)-?\d|hmac|pbkdf|withrsa"
)
_SEGMENT: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
_CONSONANTS: Final = r"(?i)[b-df-hj-np-tv-xz]{4}"
#: A word next to one of these is part of something longer.
_JOINING_SIGNS: Final = tuple("/\\=:<>{}[]")
#: Maximum characters between a keyword and a value after it, and before it.
_MAX_CHARACTERS_AHEAD: Final = 110
_MAX_CHARACTERS_BEHIND: Final = 80
#: Words between a keyword and a value that make the value identify something else.
_OTHER_VALUE: Final = (
    r"(?i)\b(?:hash\w*|digest|ids?|fingerprint|checksum|commit|versions?|class|types? (?:is|of|was)"
    r"|algorithm\w*|function|method|called"
    r"|named|using|uses|file|branch|package|librar\w+|calls?)\b"
)
#: Words that describe a password without giving it: participles and adjectives by their endings, then others.
_ADJECTIVE_OR_PARTICIPLE: Final = (
    r"(?:.*(?:ed|ing|able|ible|ful|less|ive|ous|ory|ary|ent|ant|ical|ional|ically|ally|ably|ibly|ently|antly"
    r"|ively|ously|edly|ully|ised|ized|proof"
    r"|[éèi]e?s?|ue?s?|oires?|ifs?|eux|euses?|elles?|els?|aires?|iques?"
    r"|ad[oa]s?|id[oa]s?|bles?|ori[oa]s?|ntes?|ales?|iv[oa]s?|os[oa]s?|ic[oa]s?|ari[oa]s?)"
    r"|plaintext|cleartext|early|daily|weekly|monthly|likely|unlikely|friendly|broken|forgotten|stolen|hidden"
    r"|written|given|taken|chosen|shown|known|unknown|wrong|invalid|valid|correct|strong"
    r"|short|longer|shorter|secure|insecure|safe|unsafe|secret|blank|empty|missing|private|simple|complex"
    r"|unique|default"
    r"|numeric|random|static|stale|obsolete|legacy|global|local|above|below|there|elsewhere|nowhere|somewhere|again"
    r"|already|enough|never|always|today|tomorrow|yesterday|better|worse|stronger|weaker|easier|harder"
    r"|different|similar"
    r"|identical|equal|complete|correct|incorrect|exact|intact|public|visible|plain|perfect|great|terrible|awful|absent"
    r"|requis\w*|mauvais\w*|inconnue?|faible|longue?|court\w*|facile|difficile|simple|ancien\w*|nouve\w+|fausse"
    r"|bonne|s[uû]re?|public\w*|secr[eè]t\w*|dehors|dedans|partout|ailleurs|toujours|jamais|demain|aujourd|compris\w*"
    r"|promis|perdue?|transmis\w*|admis\w*|omis\w*|remis\w*|soumis\w*|ouvert\w*|offert\w*|masque|claire?|vierge"
    r"|unique|pareil\w*"
    r"|correct[oa]?s?|incorrect[oa]|secret[oa]|segur[oa]|insegur[oa]|nuev[oa]|viej[oa]|antigu[oa]|cort[oa]|larg[oa]"
    r"|escrit[oa]|puest[oa]|abiert[oa]|cubiert[oa]|expuest[oa]|distint[oa]|incierto|fals[oa]|vac[ií][oa]"
    r"|d[eé]bil|f[aá]cil"
    r"|dif[ií]cil|in[uú]til|[uú]til|fuerte|mejor|peor|simple|inv[aá]lid[oa]|v[aá]lid[oa]|siempre|nunca|ma[nñ]ana|ahora"
    r"|tambi[eé]n|nuestr[oa]|vuestr[oa]|suficiente|complej[oa]|absurd[oa]|err[oó]ne[oa]|ajen[oa]|compartid[oa])$"
)
#: A word at the end of its clause.
_CLAUSE_END: Final = r"([a-zñ]{6,24})(?=[ ]{0,2}(?:[,;]|[.!](?:\s|$)|\n|\r|$))"
_STRONG_WORDS: Final = r"pass?w|passphrase|mdp|mot|phrase|contrase|frase"
#: A link of `_STATED` after which a single word may be the value.
_COPULA: Final = (
    r"(?:is|was|remains|est|était|c['’]est|reste|es|era|siendo|sigue siendo|still|toujours)[ ]{0,2}:?[ ]{0,3}$"
)
_CONTRACTED_IS: Final = rf"['’]s(?:[ ]{{1,2}}(?:{_FILLERS})){{0,3}}[ ]{{1,2}}"


class Assigned(NamedTuple):
    """The position and kind of an assigned secret in a text."""

    start: int
    end: int
    kind: str


class _Keyword(NamedTuple):
    start: int
    end: int
    family: Family
    word: str


class _Value(NamedTuple):
    start: int
    end: int
    quoted: bool


def redact_assignments(text: str, mark_of: Callable[[str], str]) -> str:
    """Return the text with every assigned secret replaced by `mark_of(kind)`."""
    folded = lower_keeping_length(text)
    return _replace_secrets(text, find_assigned(text, folded), mark_of) if _may_hold_assigned(text, folded) else text


def find_assigned(text: str, folded: str) -> Iterator[Assigned]:
    """Yield every assigned secret in `text`, in order; `folded` is `lower_keeping_length(text)`."""
    keyword_pattern, last_end = _compiled(_KEYWORD), 0
    candidates: list[tuple[int, int]] | None = None
    match = keyword_pattern.search(folded)
    while match is not None:
        position = match.end()
        keyword = _read_keyword(folded, match)
        for secret in _find_for_keyword(text, folded, keyword) if keyword is not None else ():
            if secret.start >= last_end:
                yield secret
                last_end = secret.end
                position = max(position, last_end)
        if keyword is not None and _stands_alone(text, folded, keyword):
            candidates = _find_candidates(text) if candidates is None else candidates
            for secret in _find_nearby(text, keyword, last_end, candidates) if candidates else ():
                yield secret
                last_end = secret.end
                position = max(position, last_end)
        match = keyword_pattern.search(folded, position)


def _may_hold_assigned(text: str, folded: str) -> bool:
    if any(hint in folded for hint in HINTS):
        return True
    return any(hint in folded for hint in _HINTS_OF_DIGITS) and _compiled(r"\d|[a-z][A-Z]").search(text) is not None


def lower_keeping_length(text: str) -> str:
    """Return the text in lower case, with the same length."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def kind_of(name: str) -> str:
    """Return the kind of secret that a field with this name holds."""
    return "password" if _compiled(_PASSWORD_KEYWORDS).search(lower_keeping_length(name)) else "secret"


def is_secret_field(name: str, value: str) -> bool:
    """Return True if a field with this name (a JSON key, a flag) makes `value` a secret."""
    folded = lower_keeping_length(name)
    if not _may_hold_assigned(value, folded):
        return False
    keywords = [_read_keyword(folded, match) for match in _compiled(_KEYWORD).finditer(folded)]
    last_keyword = [keyword for keyword in keywords if keyword is not None and keyword.family != "login"][-1:]
    if not last_keyword or _names_no_secret(name, folded, last_keyword[0]):
        return False
    family, value = last_keyword[0].family, value.strip()
    if last_keyword[0].word in ("pass", "clave", "pin") or family == "code":
        return _looks_like_secret(value, family)
    return _must_be_cut(value, family, quoted=True)


def is_placeholder(value: str) -> bool:
    """Return True for a placeholder: a reference, a mask, an example value from documentation."""
    return value.startswith(_REFERENCES) or _compiled(_PLACEHOLDER).match(value) is not None


def is_uuid(value: str) -> bool:
    """Return True for a UUID."""
    return _compiled(_UUID).match(value) is not None


def names_algorithm(value: str) -> bool:
    """Return True for a name such as `PBKDF2WithHmacSHA256`."""
    return _compiled(_ALGORITHM).search(value) is not None and value.isalnum() and len(value) <= 40


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at first use; compiling all of them would cost the hook more than all its other work."""
    return re.compile(pattern)


def _read_keyword(folded: str, found: re.Match[str]) -> _Keyword | None:
    """Return the keyword of a match, with the words that make a code secret; None if the match is another word."""
    start, end, word = found.start(), found.end(), found[0]
    before = folded[start - 1 : start]
    if found.lastgroup == "password":
        return None if word in _NO_LETTER_BEFORE and before.isalpha() else _Keyword(start, end, "password", word)
    if found.lastgroup == "made":
        if word == "key" and _compiled(_BEFORE_KEY).search(folded, max(0, start - 15), start) is None:
            return None
        return None if word in _NO_LETTER_BEFORE and before.isalpha() else _Keyword(start, end, "made", word)
    if before.isalpha():
        return None
    if found.lastgroup == "login":
        return _Keyword(start, end, "login", word)
    if word in ("pin", "digicode") or _compiled(_BEFORE_CODE).search(folded, max(0, start - 16), start):
        return _Keyword(start, end, "code", word)
    after = _compiled(_AFTER_CODE).match(folded, end)
    return _Keyword(start, after.end(), "code", word) if after else None


def _names_no_secret(text: str, folded: str, keyword: _Keyword) -> bool:
    """Return True if the keyword is part of another word (`tokenizer`), or of a name of something not secret."""
    end = keyword.end
    text_after = text[end : end + 1]
    if text_after.isalpha() and not (text_after.isupper() and text[end - 1].islower()):
        plural = _compiled(r"(?:s|es)(?![a-z])").match(folded, end)
        if plural is None:
            return True
    text_before = text[max(0, keyword.start - 10) : keyword.start]
    is_camel = text[keyword.start].isupper() and text_before[-1:].islower()
    if keyword.word == "pass" and text_before[-1:].isalpha() and not is_camel:
        return _compiled(_KEYWORD_PREFIXES).search(lower_keeping_length(text_before)) is None
    rest_of_name = _compiled(_REST_OF_NAME).match(text, end)
    return (
        rest_of_name is not None
        and _compiled(_METADATA_ENDINGS).search(rest_of_name[0].rstrip("\"'`\\)]*.")) is not None
    )


def _find_for_keyword(text: str, folded: str, keyword: _Keyword) -> Iterator[Assigned]:
    """Yield the secrets that this keyword names."""
    family = keyword.family
    rest = _compiled(_REST_OF_NAME).match(text, keyword.end)
    if rest is None:
        return
    position = rest.end()
    if family == "login":
        value = _find_value_of_pair(text, keyword, position)
    elif _names_no_secret(text, folded, keyword):
        return
    else:
        value = _find_value_before(text, folded, keyword, family) or _find_bound_value(text, keyword, family, position)
        value = value or _find_stated_value(text, folded, keyword, family, position)
        if value is None and keyword.word.startswith("credential"):
            value = _find_value_of_pair(text, keyword, position)
    if family == "made" and value is not None and text[keyword.end : keyword.end + 1] in ("s", "S"):
        value = value if _is_machine_made(text[value.start : value.end]) else None
    kind = "password" if family in ("password", "login") else "code" if family == "code" else "secret"
    while value is not None:
        yield Assigned(value.start, value.end, kind)
        following = _compiled(_FOLLOWING_VALUE).match(text, value.end)
        value = _match_in_prose(text, following.end(), family) if following else None


# --- the forms --------------------------------------------------------------------------------------------------------


def _find_bound_value(text: str, keyword: _Keyword, family: Family, position: int) -> _Value | None:
    """Return the value that a sign, a flag, markup or a block binds directly to the name."""
    sign = _compiled(_SIGN).match(text, position)
    if sign is not None:
        start = _name_start(text, keyword.start)
        if text[max(0, start - 2) : start] == "${":
            return _find_default_value(text, position, family)
        block = _find_block_value(text, position, start)
        if block is not None:
            return block
        annotation = _compiled(_TYPE_ANNOTATION).match(text, sign.end())
        value = _match_quoted(text, annotation.end() if annotation else sign.end())
        if value is not None:
            return _accept_value(text, value, family)
        return _find_setting_value(text, keyword, sign, family, start)
    value = _find_markup_value(text, family, position)
    if value is not None:
        return value
    return (
        _find_value_after_blank(text, keyword, family, position)
        if text[position : position + 1] in (" ", "\t")
        else None
    )


def _find_markup_value(text: str, family: Family, position: int) -> _Value | None:
    """Return the value that another field, an argument or an element gives to the name."""
    character = text[position : position + 1]
    if character in ("\n", "\r", ",", " ", "\t"):
        named = _compiled(_NAMED_VALUE).match(text, position)
        if named is not None:
            return _accept_value(
                text, _match_quoted(text, named.end()) or _match_bare(text, named.end(), _BARE), family
            )
    if character in (",", "(", " ", "{"):
        argument = _compiled(_ARGUMENT).match(text, position)
        if argument is not None:
            value = _match_quoted(text, argument.end())
            return value if value is not None and _looks_like_secret(text[value.start : value.end], family) else None
    if character in (">", "<", " ") or text[position - 1 : position] in ("'", '"'):
        element = _compiled(_ELEMENT).match(text, position)
        if element is not None:
            return _accept_value(text, _Value(*element.span(1), quoted=True), family)
    return None


def _find_setting_value(text: str, keyword: _Keyword, sign: re.Match[str], family: Family, start: int) -> _Value | None:
    """Return a bare value after a sign; `NAME=value` is trusted more than `name: value`, which may be prose."""
    has_no_spaces = sign[1] in ("=", ":=") and sign[0] == sign[1]
    starts_setting = _compiled(
        r"(?:^|[\n;?&'\"]|\\n|\b(?:export|env|set|ARG|ENV|-e|--env|Environment=\"?|--[\w-]+)[ =])[ \t-]*$"
    ).search(text, max(0, start - 20), start)
    is_line = has_no_spaces and (
        starts_setting is not None or text[start : keyword.start + 4].isupper() or text[start : start + 1] == "-"
    )
    value = _match_bare(text, sign.end(), _SETTING if is_line else _BARE)
    if value is None or (is_line and _compiled(_CALL).match(text, value.start, value.end)):
        return None
    word = text[value.start : value.end]
    if keyword.word == "pass" and start == keyword.start and word.isdigit():
        return None
    if (not is_line and text[value.end : value.end + 1] in ("(", "[", "{")) or is_placeholder(word):
        return None
    if family == "code" or (keyword.word in ("pass", "passe", "pw", "clave") and not has_no_spaces):
        prose_value = _match_in_prose(text, sign.end(), family)
        return prose_value if prose_value is not None else None
    if family == "made":
        return value if _may_be_token(word, strict=has_no_spaces) else None
    if is_line and sign[1] == "=" and not _compiled(_CODE_EXPRESSION).match(word):
        return value
    if _compiled(_CODE_EXPRESSION).match(word):
        alone = is_line or _compiled(r"(?:^|\n)[ \t-]*$").search(text, max(0, start - 12), start) is not None
        return value if alone and _ends_line(text, value.end) and _may_be_lone_password(word) else None
    if _looks_like_secret(word, "password") or (has_no_spaces and not _compiled(_SHORT_NUMBERED_WORD).match(word)):
        return value
    return _match_in_prose(text, sign.end(), family)


def _find_default_value(text: str, position: int, family: Family) -> _Value | None:
    """Return the default in `${NAME:-value}`; the reference itself holds no secret."""
    value = _compiled(r":?[-=]([^}\s]{3,200})\}").match(text, position)
    if value is None or not _looks_like_secret(value[1], family):
        return None
    return _Value(*value.span(1), quoted=False)


def _find_block_value(text: str, position: int, start: int) -> _Value | None:
    """Return the lines of a YAML block scalar: all that are indented further than their key."""
    block = _compiled(_BLOCK).match(text, position)
    if block is None:
        return None
    line = max(text.rfind("\n", max(0, start - 80), start), text.rfind("\\n", max(0, start - 80), start) + 1)
    if len(block[2]) <= len(text[line + 1 : start]) - len(text[line + 1 : start].lstrip(" ")):
        return None
    end = block.end()
    next_line = _compiled(
        re.escape(block[1]) + r"(?:" + re.escape(block[2]) + r"|[ \t]*(?=" + re.escape(block[1]) + r"))"
    )
    while end < len(text):
        line_end = text.find(block[1], end)
        line_end = line_end if line_end >= 0 else len(text)
        end = line_end
        next_match = next_line.match(text, end)
        if next_match is None or line_end - block.end() > 20_000:
            break
        end = next_match.end()
    value = text[block.end() : end].rstrip("\"'} \t\r\n")
    if not value.strip() or is_placeholder(value.strip()):
        return None
    return _Value(block.end(), block.end() + len(value), quoted=True)


def _find_value_after_blank(text: str, keyword: _Keyword, family: Family, position: int) -> _Value | None:
    """Return the value after a blank: `--token …`, `PASSWORD '…'`, `ENV NAME …`, `login ana password …`."""
    blank = _compiled(r"[ \t]{1,20}(?:(?:=|:)[ \t])?").match(text, position)
    if blank is None:
        return None
    start = _name_start(text, keyword.start)
    is_flag = text[start : start + 1] == "-"
    value = _match_quoted(text, blank.end())
    if value is not None:
        word = text[value.start : value.end]
        if is_flag or text[keyword.start : keyword.end].isupper() or keyword.word == "identified by":
            return _accept_value(text, value, family)
        return value if _looks_like_secret(word, family) or (" " in word and _is_phrase(word, family)) else None
    value = _match_bare(text, blank.end(), _SETTING if is_flag else _PROSE_VALUE)
    if value is None:
        return None
    word = text[value.start : value.end]
    if is_flag:
        has_other_characters = not word.replace("_", "").replace("-", "").isalpha()
        return (
            value
            if has_other_characters and not word.startswith("-") and _must_be_cut(word, family, quoted=False)
            else None
        )
    if _compiled(r"(?:^|\n)[ \t]{0,8}ENV[ \t]{1,8}$").search(text, max(0, start - 20), start):
        return value if _must_be_cut(word, family, quoted=False) or _is_certainly_secret(word) else None
    if text[start : keyword.end].isupper() and "_" in text[start:position]:
        return value if _looks_like_secret(word, family) else None
    if family == "made":
        return value if _is_machine_made(word) else None
    return value if _looks_like_secret(word, family) and not _compiled(_SHORT_NUMBERED_WORD).match(word) else None


def _find_stated_value(text: str, folded: str, keyword: _Keyword, family: Family, position: int) -> _Value | None:
    """Return the value in a sentence: "the password for the staging box is …", "mdp prod : …"."""
    sentence = _compiled(_STATED).match(folded, position)
    if sentence is not None and not _compiled(_DESCRIBING_WORDS).search(sentence[1]):
        is_bare_pass = sentence["sign"] and keyword.word == "pass" and not sentence[1]
        value = None if is_bare_pass else _match_in_prose(text, sentence.end(), family)
        if value is not None:
            return value
        if family == "password" and not sentence["sign"] and _compiled(_STRONG_WORDS).match(keyword.word):
            word = _find_plain_word(text, sentence)
            if word is not None:
                return word
    contracted = _compiled(_CONTRACTED_IS).match(folded, keyword.end)
    if contracted is not None:
        return _match_in_prose(text, contracted.end(), family)
    change = _compiled(_CHANGED_TO).match(folded, position)
    if change is not None:
        before = folded[max(0, keyword.start - 50) : keyword.start]
        if _compiled(_CHANGE_VERBS).search(before) or _compiled(_CHANGE_VERBS).search(change[0]):
            return _match_in_prose(text, change.end(), family)
    clause = _compiled(_VALUE_AT_CLAUSE_END).match(text, position) if family == "password" else None
    if clause is None or _compiled(_DESCRIBING_WORDS).search(clause[0]) or not _is_strong_password(clause[1]):
        return None
    return _match_in_prose(text, clause.end(), family)


def _find_plain_word(text: str, sentence: re.Match[str]) -> _Value | None:
    """Return the lower-case word in "the password is swordfish", unless it is an adjective or a participle."""
    if _compiled(_COPULA).search(sentence[0]) is None:
        return None
    word = _compiled(_CLAUSE_END).match(text, sentence.end())
    if word is None or _compiled(_ADJECTIVE_OR_PARTICIPLE).match(word[1]) or _compiled(_KEYWORD).search(word[1]):
        return None
    return None if is_placeholder(word[1]) else _Value(*word.span(1), quoted=False)


def _find_value_of_pair(text: str, keyword: _Keyword, position: int) -> _Value | None:
    """Return the password in "log in with ana / …"."""
    pair = _compiled(_USER_AND_VALUE).match(text, position)
    if pair is None:
        return None
    value = _match_in_prose(text, pair.end(), "password")
    if value is None or not _looks_like_secret(text[value.start : value.end], "password"):
        return None
    if pair["loose"] and not _is_certainly_secret(text[value.start : value.end]):
        named = _compiled(_CREDENTIALS).match(keyword.word)
        if named is None or _compiled(_SHORT_NUMBERED_WORD).match(text, value.start, value.end):
            return None
    return None if "/" in text[value.start : value.end] and not value.quoted else value


def _find_value_before(text: str, folded: str, keyword: _Keyword, family: Family) -> _Value | None:
    """Return the value before its keyword: "… is the password for the nas", "use … as the password"."""
    start = keyword.start
    window = folded[max(0, start - 60) : start]
    if family == "code" or not window.endswith(" ") or not any(inverter in window for inverter in _INVERTERS):
        return None
    inversion = _compiled(_INVERTED).search(window)
    if inversion is None or (
        inversion["link"] in ("is", "was", "est", "es", "era", "en", "de", "for")
        and not _inverts(inversion, folded, keyword)
    ):
        return None
    value_end = start - len(window) + inversion.start()
    closing_quote = text[value_end - 1 : value_end]
    if closing_quote in ("'", '"', "`"):
        value_start, value_end = text.rfind(closing_quote, max(0, value_end - 200), value_end - 1) + 1, value_end - 1
        value = _Value(value_start, value_end, quoted=True) if value_start else None
    else:
        value_start = (
            max(
                text.rfind(" ", max(0, value_end - 200), value_end),
                text.rfind("\n", max(0, value_end - 200), value_end),
            )
            + 1
        )
        value = _Value(value_start, value_end, quoted=False)
    if value is None or not _looks_like_secret(text[value.start : value.end], family):
        return None
    if family == "made" and not _is_machine_made(text[value.start : value.end]):
        return None
    return value


def _inverts(inversion: re.Match[str], folded: str, keyword: _Keyword) -> bool:
    """Return True if the rest of the sentence fits a value that comes before its keyword."""
    if inversion["link"] in ("en", "de"):
        return (
            _compiled(r"\b(?:use|usa|utilise|mets?|mettre|pon|puse|tape)\b").search(
                folded, max(0, keyword.start - 120), keyword.start
            )
            is not None
        )
    if inversion["det"] is None and inversion["link"] != "for":
        return False
    return _compiled(_AFTER_INVERTED).match(folded, keyword.end) is not None


def _stands_alone(text: str, folded: str, keyword: _Keyword) -> bool:
    """Return True if the keyword is a word of a sentence, not part of a name or a path."""
    before, after = text[keyword.start - 1 : keyword.start], text[keyword.end : keyword.end + 2]
    if before and (before.isalnum() or before in "_-./$@"):
        return False
    if after[:1] in ("'", "’", "s"):
        return after[:1] != "s" or not after[1:].isalnum()
    if after[:1].isalnum() or after[:1] in ("_", "-", "/", "(", "[") or (after[:1] == "." and after[1:].isalnum()):
        return False
    return keyword.family == "login" or not _names_no_secret(text, folded, keyword)


def _find_candidates(text: str) -> list[tuple[int, int]]:
    """Return the positions of words that look like a secret in any context."""
    found: list[tuple[int, int]] = []
    for match in _compiled(_CANDIDATE).finditer(text):
        start, end = match.span()
        before, after = text[start - 1 : start], text[end : end + 1]
        if (
            before in _JOINING_SIGNS
            or after in _JOINING_SIGNS
            or after == "("
            or (before == "(" and text[start - 2 : start - 1] != " ")
        ):
            continue
        while text[end - 1] in ".-_":
            end -= 1
        if _is_certainly_secret(text[start:end]) or (
            text[end - 1] in "?!" and _is_certainly_secret(text[start : end - 1])
        ):
            found.append((start, end))
    return found


def _find_nearby(text: str, keyword: _Keyword, last_end: int, candidates: list[tuple[int, int]]) -> Iterator[Assigned]:
    """Yield the secret-like words of the keyword's sentence: those after it, or else the last one before it."""
    kind = "password" if keyword.family in ("password", "login") else "code" if keyword.family == "code" else "secret"
    first = bisect_left(candidates, (keyword.end, 0))
    has_value = last_end > keyword.start
    for start, end in (candidates[index] for index in range(first, len(candidates))):
        if start - keyword.end > _MAX_CHARACTERS_AHEAD:
            break
        between = text[keyword.end : start]
        if _crosses_sentence_end(between) or _compiled(_OTHER_VALUE).search(between):
            break
        if start >= last_end:
            has_value = True
            yield Assigned(start, end, kind)
    if has_value or not first or keyword.family == "login":
        return
    start, end = candidates[first - 1]
    if start < last_end or keyword.start - end > _MAX_CHARACTERS_BEHIND:
        return
    between = text[end : keyword.start]
    if not _crosses_sentence_end(between) and not _compiled(_OTHER_VALUE).search(between):
        yield Assigned(start, end, kind)


def _crosses_sentence_end(between: str) -> bool:
    """Return True if a sentence or a line ends in this text."""
    return "\n" in between or _compiled(r"[^.\s][.!] ").search(between) is not None


# --- values -----------------------------------------------------------------------------------------------------------


def _match_quoted(text: str, position: int) -> _Value | None:
    """Return the quoted value at a position, without its quotes."""
    found = _compiled(_QUOTED).match(text, position)
    return _Value(*found.span(found.lastindex or 0), quoted=True) if found else None


def _match_bare(text: str, position: int, pattern: str) -> _Value | None:
    """Return the bare value at a position, without the punctuation that ends the sentence."""
    found = _compiled(pattern).match(text, position)
    if found is None:
        return None
    start, end = found.span()
    if pattern == _PROSE_VALUE and "\\" in found[0]:
        escaped = _compiled(r"\\[nrtu\"'\\]").search(text, start, end)
        end = escaped.start() if escaped else end
    if end < start + 3:
        return None
    if text[end - 1] == "=" and text[end : end + 1] in ("'", '"'):
        return None
    if pattern != _SETTING:
        while end > start + 3 and text[end - 1] in ".,:;?)]}»”'":
            end -= 1
    elif text[end - 1] in ",)":
        end -= 1
    return _Value(start, end, quoted=False)


def _match_in_prose(text: str, position: int, family: Family) -> _Value | None:
    """Return the value in a sentence at a position, if it can be nothing else."""
    value = _match_quoted(text, position)
    if value is not None:
        word = text[value.start : value.end]
        return value if _looks_like_secret(word, family) or _is_phrase(word, family) else None
    value = _match_bare(text, position, _PROSE_VALUE)
    if value is None or not _looks_like_secret(text[value.start : value.end], family):
        return None
    return value


def _accept_value(text: str, value: _Value | None, family: Family) -> _Value | None:
    if value is None or not _must_be_cut(text[value.start : value.end].strip(), family, quoted=value.quoted):
        return None
    return value


def _must_be_cut(value: str, family: Family, *, quoted: bool) -> bool:
    """Return True if a value that its form binds to a name must be cut."""
    if len(value) < 3 or is_placeholder(value):
        return False
    if _compiled(_PATH).match(value) and not any(map(str.isdigit, value)):
        return False
    if family == "code":
        return _looks_like_secret(value, family)
    if family == "made":
        return _may_be_token(value, strict=True)
    if " " in value:
        is_plain = value.replace(" ", "").replace("'", "").isalpha()
        return _is_phrase(value, family) if is_plain else _compiled(_LABEL_WORDS).search(value) is None
    if not quoted:
        return not _compiled(_CODE_EXPRESSION).match(value) and not _compiled(_CALL).match(value)
    return not value.isalpha() or not _compiled(_KEYWORD).search(lower_keeping_length(value))


def _may_be_token(value: str, *, strict: bool) -> bool:
    """Return True if a machine may have made the value."""
    if not is_placeholder(value) and _is_certainly_secret(value):
        return True
    digits = any(map(str.isdigit, value))
    has_other_characters = digits or not value.replace("-", "").replace("_", "").isalpha()
    if (
        " " in value
        or value.replace(".", "").replace("_", "").isdigit()
        or not (digits or (strict and has_other_characters and len(value) >= 12))
    ):
        return False
    if (
        _is_ordinary_value(value)
        or _compiled(_DOTTED).match(value)
        or (not digits and _compiled(_CODE_EXPRESSION).match(value))
    ):
        return False
    if strict:
        return len(value) >= 6 and not _compiled(_SHORT_NUMBERED_WORD).match(value)
    return _compiled(_TOKEN_SHAPE).match(value) is not None and _compiled(_CODE_EXPRESSION).match(value) is None


def _looks_like_secret(value: str, family: Family) -> bool:
    """Return True if the value looks like a secret by itself."""
    if is_placeholder(value) or value.startswith("%"):
        return False
    if len(value) <= _MAX_TOKEN_CHARACTERS and _is_certainly_secret(value):
        return True
    if family == "code":
        return _compiled(_DIGITS).match(value) is not None
    if len(value) > _MAX_TOKEN_CHARACTERS:
        return False
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    is_typed = family != "made"
    marked = is_typed and any(c in "!@#$%^&*?+=~" for c in value.rstrip("?!=").lstrip("@#*"))
    if (
        len(value) < (5 if is_typed else 8)
        or not letters
        or not (digits or marked or value.endswith("!"))
        or " " in value
    ):
        return False
    if (
        _compiled(_NUMBERED_IDENTIFIER).match(value)
        or _is_ordinary_value(value)
        or (not digits and _compiled(_PASSWORD_KEYWORDS).search(lower_keeping_length(value)))
    ):
        return False
    return is_typed or (_compiled(_TOKEN_SHAPE).match(value) is not None and not _compiled(_DOTTED).match(value))


def _is_certainly_secret(value: str) -> bool:
    """Return True for a word that is almost certainly a secret: letters, digits and signs, or irregular letters."""
    if not 6 <= len(value) <= 60 or _compiled(_CANDIDATE).fullmatch(value) is None:
        return False
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdigit, value))
    if (letters and digits and any(character in _SECRET_SIGNS for character in value)) or (
        letters and digits > 2 and value[-1] == "+"
    ):
        if _compiled(_ORDINARY_WITH_SIGNS).match(value) or _is_ordinary_value(value.rstrip("!?+*")):
            return False
        is_sign_last_only = not any(character in _SECRET_SIGNS for character in value[:-1])
        return not is_sign_last_only or (digits >= 2 and letters >= 2 and not value[:letters].isupper())
    return value.isalnum() and _is_irregular(value, letters, digits)


def _is_irregular(value: str, letters: int, digits: int) -> bool:
    """Return True if mixed-case letters (and digits) follow each other as in no name."""
    if value.islower() or value.isupper() or not letters or len(value) < (10 if digits else 8):
        return False
    if _compiled(_ALGORITHM).search(value):
        return False
    mean_segment = len(value) / len(_compiled(_SEGMENT).findall(value))
    if digits and mean_segment <= 2.45:
        return True
    return mean_segment <= 2.45 or (mean_segment <= 3.75 and _compiled(_CONSONANTS).search(value) is not None)


def _is_ordinary_value(value: str) -> bool:
    """Return True for mixed letters and digits that are no secret: numbers, paths, addresses, calls."""
    if _compiled(_SLASHED).match(value):
        return not (len(value) >= 16 and value.count("/") < 4 and _has_mixed_characters(value))
    return is_uuid(value) or (_compiled(_ORDINARY_VALUE).match(value) or _compiled(_CALL).match(value)) is not None


def _has_mixed_characters(value: str) -> bool:
    """Return True for a word with upper case, lower case and digits."""
    return any(map(str.isupper, value)) and any(map(str.islower, value)) and any(map(str.isdigit, value))


def _is_strong_password(value: str) -> bool:
    """Return True for a value that is a secret in any sentence with a password keyword."""
    digits = any(map(str.isdigit, value))
    marks = any(character in "!@#$%^&*+=~" for character in value)
    return (
        len(value) >= 8
        and digits
        and _looks_like_secret(value, "password")
        and (marks or _has_mixed_characters(value) or _count_alternations(value) >= 1)
    )


def _count_alternations(value: str) -> int:
    """Return how often letters and digits alternate."""
    return sum(character.isdigit() != following.isdigit() for character, following in pairwise(value))


def _is_machine_made(value: str) -> bool:
    """Return True for a value that only a machine can have made: long, with letters and digits mixed."""
    return len(value) >= 16 and _count_alternations(value) >= 3 and _looks_like_secret(value, "made")


def _is_phrase(value: str, family: Family) -> bool:
    """Return True for a pass phrase: three to ten words that form no sentence."""
    if family != "password" or is_placeholder(value) or not 3 <= len(value) <= 120:
        return False
    words = value.split()
    return 3 <= len(words) <= 10 and _compiled(_LABEL_WORDS).search(value) is None and value[0].islower()


def _may_be_lone_password(value: str) -> bool:
    """Return True for a lower-case word that may be a password if nothing else is on its line."""
    return len(value) >= 6 and value.islower() and value.isalpha() and not _compiled(_KEYWORD).search(value)


def _name_start(text: str, position: int) -> int:
    """Return where the name that contains a keyword starts."""
    minimum = max(0, position - _MAX_NAME_CHARACTERS)
    while position > minimum and text[position - 1] in _NAME_CHARACTERS:
        position -= 1
    return position


def _ends_line(text: str, end: int) -> bool:
    return not text[end : end + 40].split("\n", 1)[0].strip()


# All passes together: private passages, rules of shape, assigned values, sentences.

MARK = "[redacted:"
#: One cut can join text that forms another match; a few rounds settle it.
MAX_ROUNDS = 4

_PRIVATE = r"(?i)<\s{0,4}(/?)\s{0,4}private\s{0,4}>"
_PEM = r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
#: A Kubernetes manifest whose values are all secret, whatever their names; and where its values stand.
_MANIFEST = r"\bkind: {1,4}[\"']?Secret\b"
_SECRET_DATA = r"(?m)^([ \t]{0,40})(?:data|stringData):[ \t]{0,8}\r?\n((?:\1[ \t]+[^\n]*(?:\n|$))+)"
_SECRET_DATA_ENTRY = r"(?m)^([ \t]+(?:[\w.-]+:[ \t]*)?)([^\s:][^\n]*)$"
#: What may follow an opening PEM line that is never closed: line ends, headers and base64; then a short line.
_PEM_BODY = r"(?:\s|\\[nr]|[A-Za-z0-9+/=]{20,}|(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]{0,200})*"
_PEM_TAIL = r"[A-Za-z0-9+/=]{0,64}"


class Match(Protocol):
    """The interface that the matches of both engines share."""

    @property
    def string(self) -> str: ...  # noqa: D102 (as in `re.Match`)
    def span(self, group: int = 0, /) -> tuple[int, int]: ...  # noqa: D102 (as in `re.Match`)


def redact(text: str) -> str:
    """Return the text without secrets and private passages."""
    return apply_until_stable(text, _redact_once)


def apply_until_stable(text: str, redact_once: Callable[[str], str]) -> str:
    """Apply `redact_once` until the text no longer changes, at most `MAX_ROUNDS` times."""
    for _ in range(MAX_ROUNDS):
        after = redact_once(text)
        if after == text:
            break
        text = after
    return text


def map_texts(value: Any, clean: Callable[[str], str]) -> Any:
    """Return the JSON value with `clean` applied to every text, and texts under a secret's key cut entirely."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_clean_argument(before, item, clean) for before, item in zip([None, *items], items, strict=False)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        given_name = next(
            (value_of_name for key in _NAME_FIELDS if isinstance(value_of_name := fields.get(key), str)), ""
        )
        return {
            key: _clean_field(given_name if given_name and key in _VALUE_FIELDS else key, item, clean)
            for key, item in fields.items()
        }
    return value


#: `{"name": "DB_PASSWORD", "value": "…"}`, as in lists of variables and headers.
_NAME_FIELDS: Final = ("name", "Name", "key", "Key", "variable", "header")
_VALUE_FIELDS: Final = ("value", "Value")


def _clean_argument(before: Any, item: Any, clean: Callable[[str], str]) -> Any:
    """Clean a list item: as the argument of the flag before it, or as an ordinary value."""
    if isinstance(before, str) and before.startswith("-") and "=" not in before:
        return _clean_field(before.lstrip("-"), item, clean)
    return map_texts(item, clean)


def _clean_field(key: str, value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str) and not value.startswith((MARK, "-")) and is_secret_field(key, value):
        return mark(kind_of(key))
    return map_texts(value, clean)


def mark(kind: str) -> str:
    """Return the mark that replaces a secret of that kind."""
    return f"{MARK}{kind}]"


def without_private_material(text: str) -> str:
    """Return the text without private passages, private keys, and the data of Kubernetes secrets."""
    if "private" in text.lower():
        text = _without_private_passages(text)
        if "-----BEGIN" in text:
            text = _without_private_keys(text)
    return _without_secret_manifests(text) if _compiled(_MANIFEST).search(text) else text


def can_match(rule: Rule, text: str, lowered: str) -> bool:
    """Return whether the text contains one of the rule's hints; without a hint, the rule cannot match."""
    haystack = lowered if rule.folded else text
    return any(hint in haystack for hint in rule.hint.split("|"))


def build_substitution(rule: Rule) -> Callable[[Match], str]:
    """Return the substitution of a rule: the group is cut, the rest of the match stays."""

    def cut(found: Match) -> str:
        start, end = found.span()
        group_span = _secret_span(found)
        secret = found.string[group_span[0] : group_span[1]]
        is_secret = not rule.checked or (any(c.isdigit() for c in secret) and not is_uuid(secret))
        if not is_secret or is_placeholder(secret.strip("\"'")):
            return found.string[start:end]
        return found.string[start : group_span[0]] + mark(rule.kind) + found.string[group_span[1] : end]

    return cut


def _secret_span(found: Match) -> tuple[int, int]:
    try:
        span = found.span(1)
    except (IndexError, re.error):
        return found.span()
    return span if span[0] >= 0 else found.span()


def _redact_once(text: str) -> str:
    text = without_private_material(text)
    lowered = text.lower()
    for rule in RULES:
        if can_match(rule, text, lowered):
            text = _compiled(rule.pattern).sub(build_substitution(rule), text)
    return redact_prose(redact_assignments(text, mark), mark)


def _without_private_passages(text: str) -> str:
    parts: list[str] = []
    start, depth = 0, 0
    for found in re.finditer(_PRIVATE, text):
        if found[1]:
            if depth == 1:
                start = found.end()
            depth = max(0, depth - 1)
        else:
            if depth == 0:
                parts += [text[start : found.start()], mark("private")]
            depth += 1
    return "".join([*parts, "" if depth else text[start:]])


def _without_private_keys(text: str) -> str:
    """Cut each private key up to its END line; one without an END line goes as far as it looks like a key."""
    parts: list[str] = []
    start, opened = 0, -1

    def close(end: int) -> None:
        nonlocal start
        parts.extend((text[start:opened], mark("private-key")))
        start = end

    body = 0
    for found in re.finditer(_PEM, text):
        if found[1] == "END" and opened >= 0:
            close(found.end())
            opened = -1
        elif found[1] == "BEGIN":
            if opened >= 0:
                close(_end_of_body(text, body))
            opened, body = found.start(), found.end()
    if opened >= 0:
        close(_end_of_body(text, body))
    return "".join([*parts, text[start:]])


def _without_secret_manifests(text: str) -> str:
    """Cut the values of secret manifests; a text may also contain other manifests."""

    def entry(found: re.Match[str]) -> str:
        is_kept = found[2].startswith(("|", ">")) or is_placeholder(found[2])
        return found[0] if is_kept else found[1] + mark("secret")

    def data(found: re.Match[str]) -> str:
        return found[0][: found.start(2) - found.start()] + _compiled(_SECRET_DATA_ENTRY).sub(entry, found[2])

    manifests = text.split("\n---")
    cleaned = [
        _compiled(_SECRET_DATA).sub(data, manifest) if _compiled(_MANIFEST).search(manifest) else manifest
        for manifest in manifests
    ]
    return "\n---".join(cleaned)


def _end_of_body(text: str, start: int) -> int:
    body = _compiled(_PEM_BODY).match(text, start)
    if body is None or not body[0].strip():
        return start
    tail = _compiled(_PEM_TAIL).match(text, body.end())
    return tail.end() if tail else body.end()
