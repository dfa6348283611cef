"""The screens of the dashboard, in the order of their navigation, and the routers that serve them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from filrouge.web import (
    forgetting,
    garden,
    live,
    memories,
    notes,
    operations,
    recall,
    rendering,
    review,
    search,
    settings,
    team,
    threads,
    timeline,
    today,
)
from filrouge.web.languages import mark as _


class Screen(Struct, frozen=True, kw_only=True):
    """An entry of the navigation.

    Attributes:
        path: below `/dashboard`.
        name: in English; a message to translate.
        key: the letter that leads there after `g`.
        badge: the count that stands beside the name.
        others: further paths whose pages belong to it.
    """

    path: str
    name: str
    key: str = ""
    badge: str = ""
    others: tuple[str, ...] = ()

    def is_at(self, path: str) -> bool:
        """Return whether a page belongs to this screen."""
        below = path.removeprefix(rendering.ROOT)
        return below == self.path or any(
            below == own or below.startswith(own + "/") for own in (self.path, *self.others) if own
        )


SCREENS: Final[Sequence[Sequence[Screen]]] = (
    (
        Screen(path="", name=_("Today"), key="h"),
        Screen(path="/memory", name=_("Memory"), key="m", others=("/memories",)),
        Screen(path="/threads", name=_("Threads"), key="t"),
        Screen(path="/timeline", name=_("Timeline"), key="l"),
        Screen(path="/review", name=_("Review"), key="r", badge="to_review"),
    ),
    (
        Screen(path="/injections", name=_("Injections"), key="i"),
        Screen(path="/preview", name=_("Preview"), key="p"),
        Screen(path="/live", name=_("Live"), key="v"),
        Screen(path="/team", name=_("Team"), key="e", badge="to_share"),
    ),
    (
        Screen(path="/garden", name=_("Garden"), key="c"),
        Screen(path="/costs", name=_("Costs"), key="o"),
        Screen(path="/jobs", name=_("Jobs"), key="j", badge="dead"),
        Screen(path="/settings", name=_("Settings"), key="s", others=("/forget", "/receipts")),
    ),
)

rendering.show_screens(SCREENS)
ROUTERS: Final = (
    rendering.static,
    today.pages.router,
    live.pages.router,
    memories.pages.router,
    notes.pages.router,
    settings.pages.router,
    forgetting.pages.router,
    threads.pages.router,
    timeline.pages.router,
    review.pages.router,
    garden.pages.router,
    operations.pages.router,
    search.pages.router,
    recall.pages.router,
    team.pages.router,
)
