"""Stop words, English and French, folded: indexed like all others, asked for only where a question has nothing else.

They keep their place and their low weight in the index, so "to be or not to be" is found; they are left out of other
questions because a full-text index pays for every match, and half of all texts match "the".
"""

from __future__ import annotations

STOP_WORDS = frozenset(
    # English
    "a an and any are as at be been but by can could did do does doing for from had has have having he her him his"
    " how i if in into is it its just let like may me might more most my no nor not of off on or our out please shall"
    " she should so some such than that the their them then there these they this those to too up us use used using"
    " was we were what when where which while who whom why will with would you your again also about all am because"
    " s t d ll m re ve don doesn didn isn won"
    # French
    " ai as au aux avec avoir ce ces cet cette ceci cela chez comme comment dans de des donc du elle elles en est et"
    " etait etre eu eux fait faire faut il ils je la le les leur leurs lui ma mais me mes moi mon ne nos notre nous on"
    " ont ou par pas peut plus pour pourquoi puis qu quand que quel quelle quelles quels qui quoi sa sans se sera ses"
    " si son sont sous suis sur ta te tes toi ton tous tout toute toutes tu un une va vas vers vos votre vous y a"
    " c l n j estce peutetre".split()
)
