"""The API's reasons for a decision, in plain sentences of the reader's language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from filrouge.web.languages import mark as _
from filrouge.web.rendering import Visit

#: What a reason of the API contains, and how it is said to a person. A reason may contain several.
_REASONS: Final[Mapping[str, str]] = {
    "one denies what the other states": _("One says the opposite of the other."),
    "names the outdated value": _("It calls the known value outdated."),
    "chooses the rejected option": _("It chooses what the known memory rejects."),
    "value of the same subject": _("It gives another value for the same subject."),
    "newer version of the same fact": _("It reads like a newer version of the same fact."),
    "retracted": _("It takes back what is known."),
    "is pinned": _("What is known is pinned, so it is never replaced on its own."),
    "contradicts the user's own words": _("An agent said it, and it contradicts your own words."),
    "its words are not in the turn": _("Its words are not in the passage that it comes from."),
    "its words do not say it": _("The quoted passage does not say this."),
    "its quote was not found in the turns": _("The passage that it quotes was never said."),
    "only tool output supports it": _("Only the output of a tool says it, no person."),
    "the host wrote it": _("The agent's program wrote it, no person."),
    "it repeats text given to the agent": _("It repeats a text that was given to the agent."),
    "no similar memory": _("Nothing like it was known."),
    "already known": _("It was known already."),
    "by hand": _("It was done by hand."),
    "retracted by the user": _("You took it back."),
    "a newer ": _("It is a newer value of the same fact."),
    "takes back ": _("It undoes an earlier decision."),
    "settled: ": _("It was decided in the review."),
    "an agent proposed a correction": _("An agent proposed a correction."),
    "the session went on": _("The session went on."),
    "two names of one project": _("Two names belonged to one project."),
    "repaired after damage": _("It was repaired after damage."),
    "shared by a colleague": _("A colleague shared it."),
    "a colleague replaced it": _("A colleague replaced it."),
    "the team kept another correction": _("The team kept another correction."),
}

#: What a reason says of a colleague, whose name it begins with.
_OF_COLLEAGUES: Final[Mapping[str, str]] = {
    " shares this rule with the team": _(
        "%(name)s shares this rule with the team. Agents follow it only once you accept it."
    ),
    " accepted it for the team": _("%(name)s accepted it for the whole team."),
    " corrected it": _("%(name)s corrected it."),
    " ended it": _("%(name)s ended it."),
}


def plain_reason(visit: Visit, reason: str) -> str:
    """Return a reason of the API in plain sentences; one that is not known as it is."""
    for ending, sentence in _OF_COLLEAGUES.items():
        if reason.endswith(ending):
            return visit.text(sentence, name=reason.removesuffix(ending))
    return in_plain_words(visit, reason, _REASONS)


def in_plain_words(visit: Visit, text: str, sentences: Mapping[str, str]) -> str:
    """Return what is known of a text as sentences of the reader's language; a text that is not known as it is.

    Args:
        sentences: messages by what a text contains that means them.
    """
    found = [fragment for fragment in sentences if fragment in text]
    whole = [one for one in found if not any(one != other and one in other for other in found)]
    return " ".join(visit.text(sentences[fragment]) for fragment in whole) or text
