# ruff: noqa: E501 (a prompt is read best on one line, with the characters people type)
"""Prompts as people type them: pastes that teach nothing, and own words that must be learned.

`PASTES` are lower case, with typos, mixed languages and no blank line between the request and the text. `{a}`, `{b}`
and `{c}` are statements in the first person or rules, which would be learned if the user said them. Prompts with an even
number are `dev`, the others `held`. `OWN` are prompts whose own words teach, next to a paste or without one.

`python -m bench.typed_pastes [--held] [--show]` prints how many pastes teach something, and how many own words do not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.pastes import Paste, Side

STATEMENTS: Final[Mapping[str, Sequence[str]]] = {
    "en": (
        "I prefer short answers without emojis.", "We use MySQL 5.6 in production.", "My name is Dorothea and I live in Porto.", "Never commit on a Friday.",
        "Always squash before merging.", "The API listens on port 7071.", "we switched from npm to yarn last week.", "From now on, reply in German.",
        "Don't use mocks in tests.", "Our deadline is 3 June.", "I'm vegetarian and I work at Lumen.", "You must always run the linter first.",
    ),
    "fr": (
        "Je préfère les réponses courtes sans emoji.", "On utilise MySQL 5.6 en production.", "Je m'appelle Dorothée et j'habite à Brest.", "Ne committe jamais le vendredi.",
        "Il faut toujours squasher avant de fusionner.", "L'API écoute sur le port 7071.", "on est passés de npm à yarn la semaine dernière.", "Désormais, réponds en allemand.",
        "N'utilise pas de mocks dans les tests.", "Notre échéance est le 3 juin.", "Je suis végétarienne et je travaille chez Lumen.", "Tu dois toujours lancer le linter d'abord.",
    ),
    "es": (
        "Prefiero respuestas cortas sin emojis.", "Usamos MySQL 5.6 en producción.", "Me llamo Dorotea y vivo en Cádiz.", "Nunca hagas commit los viernes.",
        "Siempre haz squash antes de fusionar.", "La API escucha en el puerto 7071.", "pasamos de npm a yarn la semana pasada.", "De ahora en adelante, responde en alemán.",
        "No uses mocks en las pruebas.", "Nuestra fecha límite es el 3 de junio.", "Soy vegetariana y trabajo en Lumen.", "Debes ejecutar siempre el linter primero.",
    ),
}  # fmt: skip

PASTES: Final[Mapping[str, Sequence[str]]] = {
    "en": (
        # a task or a genre before a colon
        "count the words in: {a} {b}", "how many vowels in this string: {a}", "convert to passive voice: {a}", "put into past tense: {a} {b}", "turn into a bullet list: {a} {b}", "as a haiku pls: {a}",
        "classify the sentiment (pos/neg): {a}", "label each sentence as fact or opinion:\n{a}\n{b}", "generate 5 variants of the slogan: {a}", "give me three taglines in the spirit of: {a}", "which of these is a rule? a) {a} b) {b}", "which one sounds better?\n1) {a}\n2) {b}",
        "uppercase: {a}", "to snake_case: {a}", "remove the commas from: {a} {b}", "sort these alphabetically: {a} {b} {c}", "make it rhyme: {a}", "say it like a pirate: {a}",
        "fill in the blank: {a} ___ {b}", "continue the story: {a} {b}", "write a tweet from: {a}", "subject line for this mail: {a} {b}", "eli5: {a} {b}", "fact check: {a}",
        "is this passive agressive: {a}", "is it true or false: {a}", "tone check pls: {a}", "what language is this: {a}", "what tense is used here: {a}", "whats wrong with this sentence: {a}",
        "german: {a}", "french translation of: {a} {b}", "into spanish please: {a}", "back to english: {a}", "regex that matches: {a}", "embed as html comment: {a}",
        "the placeholder text for the settings page: {a} {b}", "seed data for the demo: {a} {b}", "alt text: {a}", "test name: {a}", "string to localise: {a}", "error message we show: {a}",
        # text first, the request last
        "{a}\n{b}\n^ make it shorter", "{a}\n{b}\nconvert to toml", "{a}\n{b}\nplot this", "{a}\n{b}\n{c}\nwho is right?", "{a}\n{b}\nwhat do you think of these two lines", "{a}\n{b}\nany typos?",
        "{a}\n{b}\n{c}\nas json plz", "{a} {b}\n\nmore formal", "{a}\n{b}\n\nlegit or spam", "{a}\n{b}\n\ngive me the main idea", "{a}\n{b}\n\nsame but in french", "{a}\n{b}\n\ncan you number them",
        "{a}\n{b}\nwhich of those contradict each other", "{a}\n{b}\ntl;dr", "{a}\n{b}\nwrite a reply", "{a}\n{b}\nis that a good linkedin bio?", "{a}\n{b}\nhow many lines?", "{a}\n{b}\nin 10 words",
        # data
        "+ {a}\n+ {b}\n  end", "+{a}\n+{b}", "-{a}\n-{b}\nwhat was removed?", "rules:\n  - {a}\n  - {b}\nis this valid yaml", "about: >\n  {a}\n  {b}", "who,what\nkim,{a}\nlou,{b}",
        "kim> {a}\nlou> {b}", "<kim> {a}\n<lou> {b}", "kim  9:41 AM\n{a}\n{b}\nlou  9:43 AM\n{c}", "*kim* joined #general\nkim: {a}\nlou: {b}", "kim [4:02 PM] {a}\nlou [4:05 PM] {b}", "@kim: {a}\n@lou: {b}",
        "Present: Kim, Lou\n{a}\n{b}", "Agenda\n1. intro\n2. {a}\n3. {b}", "Decision: {a}\nOwner: Kim\nDue: Monday", "Action items\n- {a}\n- {b}", "Standup 12/03\nKim: {a}\nLou: {b}", "Retro notes - what went well\n{a}\n{b}",
        "Stack Overflow answer:\n{a}\n{b}", "Kim's CLAUDE.md:\n{a}\n{b}", "from the wiki:\n{a}\n{b}", "Here is my colleague's style guide: {a} {b}", "AGENTS.md from the other repo -\n{a}\n{b}", "release notes of v2:\n{a}\n{b}",
        "job ad i found: {a} {b}", "the vendor's docs: {a} {b}", "transcript of the call\n{a}\n{b}", "lyrics:\n{a}\n{b}", "slide 4\n{a}\n{b}", "exam question: {a} True or false?",
        # reported without marks
        "kim's opinion is that {al}", "the rumour in the office is that {al}", "there is a sticker on my laptop with the words {a}", "her message was {a}", "the advice i got from the forum was {al}", "the first line of their readme is {a}",
        "kim keeps saying {al}", "lou thinks {al} i disagree", "apparently {al} at least thats what the blog claims", "their policy: {a} {b}", "the linter's message is: {a}", "my teacher's remark: {a}",
    ),
    "fr": (
        "corrige l'orthographe : {a} {b}", "mets au passé : {a}", "mets à la voix passive : {a}", "compte les mots dans : {a}", "donne moi 3 variantes du slogan : {a}", "classe le sentiment : {a}",
        "en majuscules : {a}", "fais une liste à puces : {a} {b}", "laquelle est une règle ? a) {a} b) {b}", "vrai ou faux : {a}", "c'est bien écrit : {a} {b}", "quelle langue : {a}",
        "en anglais stp : {a}", "anglais : {a}", "plus poli : {a}", "continue le texte : {a}", "texte d'exemple pour la maquette : {a} {b}", "message d'erreur affiché : {a}",
        "{a}\n{b}\nFais-en une liste", "{a}\n{b}\nqui a raison ?", "{a}\n{b}\nen json", "{a}\n{b}\n\nplus court", "{a}\n{b}\nt'en penses quoi", "{a}\n{b}\nya des fautes ?",
        "{a}\n{b}\n\ndonne moi l'idée principale", "{a}\n{b}\nmets ça au propre stp", "{a}\n{b}\nlaquelle est de trop", "+{a}\n+{b}", "regles:\n  - {a}\n  - {b}", "lea> {a}\nmax> {b}",
        "léa  09:41\n{a}\nmax  09:43\n{b}", "Compte rendu\n{a}\n{b}", "Décision : {a}\nResponsable : Léa", "Présents : Léa, Max\n{a}\n{b}", "Ordre du jour\n1. {a}\n2. {b}", "réponse Stack Overflow :\n{a}\n{b}",
        "le CLAUDE.md de Léa :\n{a}\n{b}", "depuis le wiki :\n{a}\n{b}", "Voici le guide de mon collègue : {a} {b}", "l'avis de Léa c'est que {al}", "la consigne affichée en salle de pause est {a}", "leur politique : {a}",
        "max répète que {al}", "la remarque du prof : {a}", "paroles :\n{a}\n{b}", "offre d'emploi trouvée : {a} {b}",
    ),
    "es": (
        "pon en voz pasiva: {a}", "corrige la ortografía: {a} {b}", "ponlo en pasado: {a}", "cuenta las palabras de: {a}", "dame 3 variantes del eslogan: {a}", "clasifica el sentimiento: {a}",
        "en mayúsculas: {a}", "haz una lista: {a} {b}", "cuál es una regla? a) {a} b) {b}", "verdadero o falso: {a}", "está bien escrito: {a}", "qué idioma es: {a}",
        "en inglés porfa: {a}", "inglés: {a}", "más educado: {a}", "continúa el texto: {a}", "texto de ejemplo para la maqueta: {a} {b}", "mensaje de error que mostramos: {a}",
        "{a}\n{b}\nHaz un resumen", "{a}\n{b}\nquién tiene razón?", "{a}\n{b}\na json", "{a}\n{b}\n\nmás corto", "{a}\n{b}\nqué te parecen", "{a}\n{b}\nhay errores?",
        "{a}\n{b}\n\ndame la idea principal", "{a}\n{b}\nponlo bonito porfa", "{a}\n{b}\ncuál sobra", "+{a}\n+{b}", "reglas:\n  - {a}\n  - {b}", "eva> {a}\nleo> {b}",
        "eva  09:41\n{a}\nleo  09:43\n{b}", "Acta\n{a}\n{b}", "Decisión: {a}\nResponsable: Eva", "Asistentes: Eva, Leo\n{a}\n{b}", "Orden del día\n1. {a}\n2. {b}", "respuesta de Stack Overflow:\n{a}\n{b}",
        "el CLAUDE.md de Eva:\n{a}\n{b}", "de la wiki:\n{a}\n{b}", "Aquí va la guía de mi colega: {a} {b}", "la opinión de Eva es que {al}", "el aviso en la cocina es {a}", "su política: {a}",
        "leo repite que {al}", "el comentario del profe: {a}", "letra:\n{a}\n{b}", "oferta de trabajo que encontré: {a} {b}",
    ),
}  # fmt: skip

#: Each prompt, and a piece of what must be learned from it.
OWN: Final[Sequence[tuple[str, str]]] = (
    ("The staging server listens on port 8443 now. Fix the tests:\n```py\nassert port == 80\n```", "8443"),
    ("Fix this:\n```py\nprint 3\n```\nBy the way, we use Python 3.12 everywhere now.", "3.12"),
    ("Review the diff below. Note that we always squash before merging.\n\ndiff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b", "squash"),
    ("why does this fail?\n```\nboom\n```\nremember: never call the payment api from tests", "payment"),
    ("```sql\nselect 1\n```\nmake this faster. From now on, always add an index on foreign keys.", "index"),
    ("The admin port is 9091 now. Why do I get this?\n```\nconnection refused\n```", "9091"),
    ("explain this:\n```\nx = 1\n```\nAlways use type hints in this repo.", "type hints"),
    ("fix the css\n```css\na {}\n```\nwe never use tailwind here", "tailwind"),
    ("We decided to use Postgres instead of MySQL. Adapt this:\n```yaml\ndb: mysql\n```", "Postgres"),
    ("refactor the parser. always keep the public api stable", "public api"),
    ("Remember: the release branch is called stable-2", "stable-2"),
    ("rule: no default exports", "default exports"),
    ("note: we deploy on Tuesdays only", "Tuesdays"),
    ("from now on: always write tests first", "tests first"),
    ("From now on always answer in French.", "French"),
    ("I prefer tabs over spaces.", "tabs"),
    ("my name is Ines and I work at Orbit", "Orbit"),
    ("we use pnpm, never npm", "pnpm"),
    ("we switched from jest to vitest", "vitest"),
    ("Conventions:\n- always use kebab-case for file names\n- never use default exports", "kebab-case"),
    ("my rules:\n- never push on fridays\n- always run make lint", "make lint"),
    ("For this repo:\n- always use httpx\n- never use requests", "httpx"),
    ("Add a login page.\nAlways validate input on the server.", "validate"),
    ("can you rename the module? and from now on always use singular names for modules", "singular"),
    ("the cache expires after 90 minutes, not 30. fix the test", "90"),
    ("Don't ever touch the legacy folder. Then add the endpoint.", "legacy"),
    ("please always run the tests before you commit", "tests"),
    ("Add a test for the parser:\nit must fail on empty input.\nNever use mocks in tests.", "mocks"),
    ("do the following: add a button, add a test. And always use the design tokens for colours.", "design tokens"),
    ("two things: we moved the api to port 8082, and we never log emails", "8082"),
    ("Actually the timeout is 45 seconds, not 30.", "45"),
    ("Never use sudo in scripts.\nNow write the install script.", "sudo"),
    ("À partir de maintenant : toujours lancer make check", "make check"),
    ("Retiens : la branche de livraison s'appelle stable-2", "stable-2"),
    ("règle : jamais d'export par défaut", "export"),
    ("Le serveur de recette écoute sur le port 8443. Corrige les tests :\n```py\nassert port == 80\n```", "8443"),
    ("Corrige ça :\n```py\nprint 3\n```\nAu fait, on utilise toujours Python 3.12.", "3.12"),
    ("explique ce code :\n```\nx = 1\n```\nN'utilise jamais de variable globale ici.", "globale"),
    ("Je préfère les tabulations aux espaces.", "tabulations"),
    ("je m'appelle Inès et je travaille chez Orbit", "Orbit"),
    ("On a décidé d'utiliser Postgres plutôt que MySQL.", "Postgres"),
    ("Ajoute une page de connexion. Il faut toujours valider les entrées côté serveur.", "valider"),
    ("mes règles :\n- ne jamais pousser le vendredi\n- toujours lancer make lint", "make lint"),
    ("Renomme le module. Désormais, utilise toujours des noms au singulier.", "singulier"),
    ("N'utilise jamais sudo dans les scripts.\nÉcris le script d'installation.", "sudo"),
    ("En fait le délai est de 45 secondes, pas 30.", "45"),
    ("conventions :\n- toujours en kebab-case\n- jamais d'export par défaut", "kebab-case"),
    ("Regarde le diff ci-dessous. Note qu'il faut toujours squasher avant de fusionner.\n\ndiff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b", "squasher"),
    ("A partir de ahora: ejecuta siempre make check", "make check"),
    ("Recuerda: la rama de entrega se llama estable-2", "estable-2"),
    ("regla: nunca uses exportaciones por defecto", "exportaciones"),
    ("El servidor de pruebas escucha en el puerto 8443. Arregla las pruebas:\n```py\nassert port == 80\n```", "8443"),
    ("Arregla esto:\n```py\nprint 3\n```\nPor cierto, usamos siempre Python 3.12.", "3.12"),
    ("explica este código:\n```\nx = 1\n```\nNunca uses variables globales aquí.", "globales"),
    ("Prefiero tabuladores a espacios.", "tabuladores"),
    ("me llamo Inés y trabajo en Orbit", "Orbit"),
    ("Hemos decidido usar Postgres en lugar de MySQL.", "Postgres"),
    ("Añade una página de acceso. Valida siempre la entrada en el servidor.", "servidor"),
    ("mis reglas:\n- nunca subas nada los viernes\n- ejecuta siempre make lint", "make lint"),
    ("Renombra el módulo. De ahora en adelante usa siempre nombres en singular.", "singular"),
    ("No uses nunca sudo en los scripts.\nEscribe el script de instalación.", "sudo"),
    ("En realidad el plazo es de 45 segundos, no de 30.", "45"),
    ("Revisa el diff de abajo. Ten en cuenta que siempre hacemos squash antes de fusionar.\n\ndiff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b", "squash"),
)  # fmt: skip


def pastes(side: Side) -> Iterator[Paste]:
    """The pastes of a side, each filled with statements of its language."""
    for language, prompts in PASTES.items():
        said = STATEMENTS[language]
        for number, prompt in enumerate(prompts):
            if (number % 2 == 0) is not (side == "dev"):
                continue
            a, b, c = (said[(5 * number + step) % len(said)] for step in (0, 3, 7))
            text = prompt.replace("{al}", a[0].lower() + a[1:])
            text = text.replace("{a}", a).replace("{b}", b).replace("{c}", c)
            yield Paste(side=side, kind="typed", language=language, text=text)


def missed() -> list[str]:
    """The prompts of `OWN` that do not teach what they must."""
    from filrouge.extraction.heuristics import statements_of

    return [text for text, piece in OWN if not any(piece in one.text for one in statements_of(text))]


def main() -> None:
    """Print how many pastes teach something to the rules of extraction, and which own words do not."""
    from filrouge.extraction.heuristics import statements_of

    for side in ("dev", "held") if "--held" in sys.argv else ("dev",):
        every = list(pastes(side))
        taught = [(paste, found) for paste in every if (found := statements_of(paste.text))]
        print(f"{side}: {len(taught)} of {len(every)} teach something")
        if "--show" in sys.argv:
            for paste, found in taught:
                print(f"## {paste.language} {paste.text!r}\n   => {[one.text for one in found]}")
    lost = missed()
    print(f"own words: {len(lost)} of {len(OWN)} missed")
    if "--show" in sys.argv:
        print(*(f"-- {text!r}" for text in lost), sep="\n")


if __name__ == "__main__":
    main()
