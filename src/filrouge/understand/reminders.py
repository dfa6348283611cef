# ruff: noqa: E501 (a pattern is read best on one line)
"""Reminders of how to work, for prompts that ask for the kind of work they are about (RULE-2).

They change what an agent does, so each is off until the user switches it on, and even then it is said only where the
prompt gives occasion. Their words are Filrouge's own and never hold a word of the prompt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from filrouge import lazy_re as re
from filrouge.model.reminder import REMINDERS, Reminder
from filrouge.model.when import Language
from filrouge.understand import moods
from filrouge.understand.heuristics import written_by_host
from filrouge.understand.own_words import own_words
from filrouge.understand.sentences import split

WORDS: Final[Mapping[Reminder, Mapping[Language, str]]] = {
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


def reminded(prompt: str, switched_on: Collection[Reminder]) -> tuple[Reminder, ...]:
    """Those of the reminders that the user switched on for which a prompt gives occasion, in their order."""
    wanted: list[Reminder] = [name for name in REMINDERS if name in switched_on]
    if not wanted or written_by_host(prompt):
        return ()
    plain = [one.plain for one in split(own_words(prompt)) if not moods.JOKE.search(one.plain)]
    return tuple(name for name in wanted if any(_gives_occasion(name, one) for one in plain))


def _gives_occasion(name: Reminder, plain: str) -> bool:
    """A choice is asked for in a question; of work only a request speaks, not a report of it."""
    found = _TRIGGERS[name].search(plain)
    if found is None:
        return False
    return name == "present_all_choices" or found.start() == 0 or moods.is_request(plain)
