# ruff: noqa: E501, S105 (a pattern is read best on one line, and names no password)
"""Secrets in free sentences of any grammar: "when it prompts, answer fishstick_09".

`assignments` covers the forms that bind a value to a keyword. People use more forms than any list, so this pass scores
whole sentences. It adds what the sentence is about (a password, a login, a code) and how much a word looks like a
secret that someone chose or a machine made (letters, digits and signs mixed). A word is cut if the sum reaches
`MIN_SCORE`. Words that mix letters and digits for other reasons (versions, files, hosts, identifiers, units) score 0.
Standard library only; every pattern has bounded repetition, so the time is linear.

Pure: no database, no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from filrouge.capture import assignments

#: A word is a secret if the sum of its cue and shape scores reaches this.
MIN_SCORE: Final = 5.0
#: Longest sentence that is read; a longer run without an end is not prose.
_LONGEST: Final = 600
_LONGEST_WORD: Final = 64
_ENDS: Final = r"(?:[.!?](?=\s+[A-ZÀ-Ý¿¡])|\n[ \t]*\n(?!\S{5,80}[ \t]*(?:\n|$)))"

#: Cues: what a sentence is about. The first group names a secret itself, the second a place where one is typed.
_SECRET: Final = (
    r"pass ?(?:word|phrase|code|wd)s?|passw\w{2,4}|pw(?:d|s)?\b|mots? de passe?|mdp|phrases? (?:secr[eè]tes?|de passe)"
    r"|c?ontrase(?:ñ|n|ny)as?|ctrase(?:ñ|n)a|clave(?!s? (?:for[aá]nea|primaria))|frase (?:de (?:paso|luks)|secreta)|contra (?:del?|es)\b|creds?\b|credentials?"
    r"|identifiants?|credenciales|(?:api|access|secret|licen[cs]e|activation|encryption|signing|shared|hmac|master|private|recovery|product|wifi|wi-fi|app|applicative|registry|deploy)"
    r"[- ]?(?:secret )?(?:keys?|token)|cl[eé]s? (?:d['’]api|api|secr[eè]te|wi-?fi|hmac|partag[eé]e|de licence|d['’]activation|de chiffrement|applicative|de r[eé]cup\w+|ssh)"
    r"|llave|tokens?\b|jeton|secret(?:o|a)?\b|basic auth|community string|communaut[eé] snmp|comunidad snmp|session cookie|cookies? de ses+i[oó]n"
)
_PLACE: Final = (
    r"log(?:s|ged|ging)?[ -]?(?:in|on)\b|sign(?:ed)?[ -]?in\b|sudo|root\b|admin\b|prompts?\b|invite\b|unlock|acc[eè]s\b|acceso|account|compte|cuenta"
    r"|wifi|wi-fi|vpn|ftp|ssh|vnc|rdp|vault|coffre|caja fuerte|candado|padlock|keypad|clavier|teclado|router|pfsense|proxmox|kibana|grafana|mysql|postgres"
    r"|redis|mongo\w*|jenkins|gitlab|gitea|nextcloud|wordpress|synology|phpmyadmin|adminer|portainer|elastic|rabbitmq|ldap|samba|smb|imap|smtp|sftp|wireguard|openvpn|cpanel|plesk|firewall|nas\b|idrac|ilo|ipmi|bios|zabbix|sonarqube|nexus|artifactory|keycloak|minio|odoo|tomcat|connect\w*|conect\w*|entr(?:ar|ando|a)\b|panel|cam[eé]ra|c[aá]mara|cl[eé]\b|key\b|digicode|protect|decrypt|d[eé]chiffr|descifr|auth\w*|l[aâ]chera|ouvre|abre|bota|sesi[oó]n"
)
#: Cues for a code of digits: words for what it opens or confirms.
_CODE: Final = (
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
_BINDS: Final = (
    r"(?:[:=→]|=>|->|–|—|\bis|\bwas|'s|\bare|\bto|\bfrom|\bdesde|\bde|\bvaut|\bvale|\bc['’]est|\best|\bet (?:le|la) \w+|\bes|\bson|\bera|\ba|\bà|\ben|\bpar|\bpor|\bwith|\bavec|\bcon|\buse|\buses?d?|\banswer|\btype|\benter"
    r"|\bsend|\bput|\btapes?|\bcon|\bmets?|\bmetes?|\bescribe|\bteclea|\br[eé]ponds?|\benvoie|\bmanda|\bentre|\bpuse|\bpassword|\bpw|\bpwd|\bpass|\bmdp|\bpasse|\bcontrase(?:ñ|n)a|\bclave|\bpin|\bcode|\bc[oó]digo|\bpuk|\bpassphrase|\bcode[:,]?)[ \t]*(?:bien|just|always|toujours|siempre|actually|en fait|sólo|only|still)?[ \t]*[\"'`«“(*]{0,3}$"
)
#: Words right before a candidate that say to type it.
_ANSWERS: Final = r"\b(?:answers?|types?|type in|enter|send|tu tapes|tapes?|r[eé]ponds?|envoie|mets|metes?|escribe|teclea|manda|responde)[ \t]*[\"'`«“(*]{0,3}$"
#: A user name right before a candidate: "root / …", "admin puis …".
_SECOND: Final = r"(?:\b[\w.@-]{2,40},?[ ]{1,2}(?:/|·|\||\+|or|ou|o|(?:(?:and|et|y)[ ])?(?:then|puis|ensuite|luego|despu[eé]s)|and|et|y|with|avec|con)|\b(?:uso|usa|utilise|admin|root))[ ]{1,2}[\"'`«“(*]{0,3}$"
_PASSWORDS: Final = r"pass ?word|pw\b|pwd|mot de passe|mdp|contrase(?:ñ|n)a|clave|passphrase|password|secret"
#: The sentence calls the candidate the secret afterwards: "X is still the root password", "ce X … c'est le vrai mot de
#: passe".
_NAMED_AFTER: Final = (
    r"^[\"'`»”)*]{0,3}[ ,]{1,3}(?:[\w'’ ]{0,40}?\b(?:is|was|est|es|era|as|comme|como|c['’]est)[ ]{1,2}|(?:la|le|the)[ ]{1,2})(?:[\w'’]{1,14}[ ]{1,2}){0,4}"
    rf"(?:{_PASSWORDS})"
)
#: The same without words between, for candidates without a digit or sign.
_IS_NAMED: Final = (
    r"^[\"'`»”)*]{0,3}[ ]{1,2}(?:is|was|est|es|era)?(?:[ ]{0,2}(?:still|toujours|bien|really|actually))?[ ]{0,2}(?:the|le|la|my|notre|nuestra|our)[ ]{1,2}(?:[\w'’]{1,10}[ ]{1,2}){0,2}"
    rf"(?:{_PASSWORDS})"
)
#: Words shortly before a candidate that make it identify something else.
_IDENTIFIES: Final = r"(?:\b(?:commit|hash|sha\d*|checksum|digest|id|ids|uuid|trace|span|build|version|v|ticket|issue|pr|mr|ref|rev|order|commande|pedido|tracking|suivi|seguimiento|invoice|facture|factura|siret|serial|s[eé]rie|sku|isbn|iban|model|mod[eè]le|modelo|branch|branche|rama|tag|file|fichier|archivo|fichero|host|server|serveur|servidor|user|username|utilisateur|usuario|login|ssid|port|puerto|line|ligne|l[ií]nea|row|room|salle|sala|error|erreur|status|function|fonction|funci[oó]n|class|method|variable|table|tabla|column|package|paquet|paquete|image|container|algorithm|algo\w*|cipher|regex|pattern|format|called|named|nomm[eé]e?|llamad[oa]|vs)|#|@)[ \t]*[\"'`«“(]?$"
#: Keys that are no secret.
_PUBLIC: Final = r"(?:public|cache|primary|foreign|sort|partition|idempotency|ssh)[- ](?:key|rsa|ed25519)[^\n]{0,30}$"
_FILE: Final = r"(?i)(?:[\w@.-]*\.(?:pyi?|[jt]sx?|json[cl5]?|ya?ml|toml|md|rst|txt|sh|env|conf|cfg|ini|xml|html?|s?css|sql|log|csv|tsv|pdf|zip|t?gz|tar|java|rb|go|rs|php|cpp|hpp|exe|pem|key|crt|cer|lock|db|sqlite3?|com|org|net|io|fr|es|mx|ar|dev|local|lan|internal|test|example|app|tf|vue|kt|swift|ipynb|png|jpe?g|gif|svg|mp[34]|docx?|xlsx?|pptx?|service|target|socket)|\.?/.*|~/.*|.*/.*|.*\\.*|https?:.*|.*::.*|.*\(.*|.*[<>{}\[\]|].*|--?\w.*|\$.*|%.*|[\w.]+=.*|[\w.-]+:[\d.]+|#[0-9a-f]{3,8})$"
#: Words with digits that are no secret: units, ordinals, versions, dates, hours, algorithms, machines, identifiers.
_ORDINARY: Final = (
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
_DOTTED: Final = r"[a-z]+(?:\.[a-z0-9_-]{1,20})+$"
_CAMEL: Final = r"[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\d{0,2}$"
_KEY_GROUPS: Final = r"(?=(?:[\w]*\d[\w]*-[\w-]*){2})(?=.*\d)(?:[A-Za-z0-9]{3,8}-){2,7}[A-Za-z0-9]{3,8}$"
_NUMBERED_WORDS: Final = r"[A-Za-z]{3,16}(?:[-_.][A-Za-z]{2,16}){1,4}[-_.]?\d{1,4}$"
_HEX: Final = r"[0-9a-f]{16,128}$"
_UUID: Final = r"(?i)[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$"
_SIGNS: Final = frozenset("!@#$^&*+=~?%")
#: Characters that mix with letters in a secret, and words that introduce one made of letters only.
_MARKS: Final = tuple("0123456789@#$^&*+=~%")
_NAMES: Final = ("pass", "mdp", "contrase", "clave", "phrase", "frase", "pw", "secret")

_NUMBER: Final = r"(?<![\w.,:/#@$€£+-])(\d{4,9}|\d{3}[ -]\d{3}|\d{2}(?:-\d{2}){2,3}|\d{4}#)(?![\w%€$£/:@]|[.,-]\d|[ ]?(?:ms|s|px|kb|mb|gb|km|kg|m|eur|euros?|dollars?|usd|requests?|rows?|users?|lines?|lignes|l[ií]neas|times|fois|veces|caracteres|caract[eè]res|characters|chars|combinations|iterations|rounds|bytes|octets|personnes|people|points?|ports?|minutes?|seconds?|secondes?|segundos|hours|jours|d[ií]as|days)\b)"
_PHRASE_CUE: Final = r"(?:pass ?phrase|phrase (?:secr[eè]te|de passe)|frase (?:de paso|secreta|de luks))"


class Cue(NamedTuple):
    """The position of a cue in a sentence, and its score."""

    start: int
    end: int
    worth: float


def redact(text: str, mark: Callable[[str], str]) -> str:
    """Return the text without the secrets in its sentences."""
    kept, done = list[str](), 0
    for start, end, kind in find(text):
        if start >= done:
            kept += [text[done:start], mark(kind)]
            done = end
    return "".join([*kept, text[done:]]) if kept else text


def find(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and mark kind of each secret, in order."""
    folded = assignments.fold(text)
    if not _may_hold(folded) or not _compiled(_ANY).search(folded):
        return
    for start, end in _sentences(text):
        yield from sorted(_in_sentence(text, folded, start, end))


def _may_hold(folded: str) -> bool:
    """Return False for most texts before any pattern is compiled.

    Compiling would cost the hook more than the rest of this pass.
    """
    return any(map(folded.__contains__, _MARKS)) or any(map(folded.__contains__, _NAMES))


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield sentences; a cue and its value may be on two lines, or in two consecutive short sentences."""
    place = 0
    for found in _compiled(_ENDS).finditer(text):
        if found.start() - place > 24 or "\n" in found[0]:
            yield place, found.end()
            place = found.end()
    yield place, len(text)


def _in_sentence(text: str, folded: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    if end - start > _LONGEST or not _compiled(_ANY).search(folded, start, end):
        return
    cues = _cues(folded, start, end)
    for first, last, word in _words(text, start, end):
        score = _shape(word)
        before, after = text[max(start, first - 40) : first], text[last : min(end, last + 90)].lower()
        if score <= 0 and not (_is_joined(word) and _compiled(_IS_NAMED).match(after)):
            continue
        score += max((_cue_score(cue, first, last) for cue in cues), default=0.0)
        lowered = before.lower()
        if _compiled(_ANSWERS).search(lowered):
            score += 1.5
        elif _compiled(_BINDS).search(lowered) or _compiled(_SECOND).search(lowered):
            score += 1.0
        if _compiled(_NAMED_AFTER).match(after):
            score += 2.0
        if _compiled(_IDENTIFIES).search(lowered):
            score -= 2.5
        if _compiled(_PUBLIC).search(lowered) or _compiled(_SECRET_CUE).search(word.lower()):
            score -= 3.0
        if score >= MIN_SCORE:
            yield first, last, "password"
    yield from _codes(text, folded, start, end)
    yield from _phrases(text, folded, start, end)


def _cues(folded: str, start: int, end: int) -> list[Cue]:
    found = [Cue(one.start(), one.end(), 3.0) for one in _compiled(_SECRET_CUE).finditer(folded, start, end)]
    return found + [Cue(one.start(), one.end(), 1.5) for one in _compiled(_PLACE_CUE).finditer(folded, start, end)]


def _cue_score(cue: Cue, first: int, last: int) -> float:
    """Return the score of a cue for a word; it is lower at a distance."""
    distance = max(first - cue.end, cue.start - last, 0)
    return cue.worth if distance <= 90 else cue.worth - 1.0 if distance <= 200 else 0.0


def _words(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield candidates: words without surrounding quotes and marks; of `user:value` only the value."""
    for found in _compiled(_TOKEN).finditer(text, start, end):
        first, last = found.span()
        while first < last and text[first] in "\"'`«“(*¿¡":
            first += 1
        while last > first and text[last - 1] in "\"'`».,;:)”*]?…":
            last -= 1
        word = text[first:last]
        pair = _compiled(_PAIR).match(word)
        if pair:
            first += pair.end()
            word = text[first:last]
        if 5 <= last - first <= 160:
            yield first, last, word


def _shape(word: str) -> float:
    """Return how much a word looks like a secret; 0 for ordinary words, files, addresses and identifiers."""
    if assignments.is_placeholder(word) or word.startswith("[redacted"):
        return 0.0
    if _compiled(_APP_PASSWORD).match(word):
        return 3.5
    if assignments.names_algorithm(word) or _compiled(_DOTTED).match(word) or _compiled(_CAMEL).match(word):
        return 0.0
    if (
        len(word) > _LONGEST_WORD
        or _compiled(_UUID).match(word)
        or _compiled(_FILE).match(word)
        or _compiled(_ORDINARY).match(word)
    ):
        return 0.0
    if _compiled(_HEX).match(word):
        return 2.0
    letters, digits = sum(map(str.isalpha, word)), sum(map(str.isdigit, word))
    signs = sum(one in _SIGNS for one in word[:-1]) + (word[-1] in "!#$*+=~")
    if letters and _compiled(_KEY_GROUPS).match(word):
        return 3.0
    if not letters or (not digits and not signs) or _compiled(_CONSTANT).match(word) or _is_address(word):
        return 0.0
    if not digits and ((word[-1] == "!" and signs == 1) or _compiled(_WORDS_ONLY).match(word) or letters < 5):
        return 0.0
    score = 1.0 if digits else 0.5
    upper, lower = any(map(str.isupper, word)), any(map(str.islower, word))
    score += 0.5 * (upper and lower) + min(signs, 2) * 1.0
    turns = sum(one.isdigit() != other.isdigit() for one, other in pairwise(word))
    score += 1.0 * (turns >= 2) + 0.5 * (digits >= 2) + 0.5 * (len(word) >= 8)
    score += 0.5 * any(one in "_-." for one in word[1:-1]) + 0.5 * (_compiled(_NUMBERED_WORDS).match(word) is not None)
    return score + 1.0 * (len(word) >= 14 and turns >= 3)


def _is_address(word: str) -> bool:
    return _compiled(_ADDRESS).match(word) is not None


def _is_joined(word: str) -> bool:
    return _compiled(_JOINED_WORDS).match(word) is not None and not _compiled(_ANY).search(word.lower())


def _codes(text: str, folded: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield codes of digits that stand close to a cue for a code."""
    cues = [one for one in _compiled(_CODE_CUE).finditer(folded, start, end) if not _is_other_code(folded, one)]
    if not cues:
        return
    for found in _compiled(_NUMBER).finditer(text, start, end):
        if _compiled(_YEAR).match(found[1]):
            continue
        for cue in cues:
            between = (
                folded[cue.end() : found.start()] if cue.end() <= found.start() else folded[found.end() : cue.start()]
            )
            ahead = cue.end() <= found.start()
            if len(between) > (70 if ahead else 60) or _compiled(_BREAK).search(between):
                continue
            yield found.start(1), found.end(1), "code"
            break


def _is_other_code(folded: str, cue: re.Match[str]) -> bool:
    around = folded[max(0, cue.start() - 14) : cue.end() + 18]
    return cue[0].startswith(("code", "cód", "cod")) and _compiled(_OTHER_CODE).search(around) is not None


def _phrases(text: str, folded: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield pass phrases: four to seven lower-case words without function words."""
    for cue in _compiled(_PHRASE_FORM).finditer(folded, start, end):
        first = cue.start(cue.lastindex or 0)
        last, words = first, 0
        for word in _compiled(r"[a-zà-ÿñ]{3,16}(?=[ ,.;\"'`»\n]|$)").finditer(text, first, min(first + 110, end)):
            if word.start() > last + 1 or (word.start() > last and text[last] != " ") or word[0] in _FUNCTION:
                break
            last, words = word.end(), words + 1
        if 4 <= words <= 7 and _compiled(_PHRASE_END).match(text, last):
            yield first, last, "password"


_SECRET_CUE: Final = rf"\b(?:{_SECRET})"
_PLACE_CUE: Final = rf"\b(?:{_PLACE})"
_CODE_CUE: Final = rf"\b(?:{_CODE})"
_ANY: Final = rf"\b(?:{_SECRET}|{_PLACE}|{_CODE})"
_TOKEN: Final = r"[^\s,;]{5,170}"
_PAIR: Final = r"[a-z][a-z0-9._-]{1,30}:(?=[^\s/:=]{6,})"
_ADDRESS: Final = r"(?i)[\w.+-]{2,}@[\w-]+(?:\.[\w-]+)*$"
_YEAR: Final = r"(?:19[5-9]\d|20[0-4]\d)$"
#: Words between a cue and a number that start another clause, or say that the number counts or names something.
_BREAK: Final = r"[;\n]|\b(?:port|line|ligne|l[ií]nea|error|status|http|year|version|id|ticket|issue|order|room|returns?|renvoie|devuelve|in|limit|after|every|max|min|than|step|art[ií]c(?:ulo|le)s?|art)\b"
_PHRASE_FORM: Final = (
    rf"(?:{_PHRASE_CUE}|{_PASSWORDS})(?:,|(?: [\w'’]{{1,14}}){{0,5}}?(?::| (?:is|was|be|c['’]est|est|es|=)))[ ]{{1,2}}[\"'`«]?(?=([a-zà-ÿñ ]{{12,100}}))"
    rf"|{_PHRASE_CUE}[ ]{{1,2}}[\"'`«]?(?=([a-zà-ÿñ ]{{12,100}}))"
)
_PHRASE_END: Final = r"[\"'`»]|[,.;\n]|$|[ ](?:and|et|y|then|puis|please|but|pero|mais)\b"
_FUNCTION: Final = frozenset(
    "the a an is are was be been not no too very never always still so and but or if when which that this these those it its we you they i in on at by with for from to of as than"
    " then stored saved used required needed kept sent shown hashed reset here there only must should can could would will please make add use check the"
    " le la les un une des du de est sont pas trop très toujours jamais et mais ou si quand qui que ce cette ces cet il elle on nous vous je tu au aux en dans par pour sur avec doit peut faut"
    " el los las uno una unos del al ese esa eso esos muy siempre nunca pero cuando este esta esto estos lo se te me con por para sobre como debe puede hay obligatoire requis guardada obligatoria".split()
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at first use, because this module is on the hook's path."""
    return re.compile(pattern)
