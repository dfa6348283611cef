"""The verbs that tell: remember, observe, extract, and everything by which a person changes what is known."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import quote

from filrouge.errors import BadInput, DaemonUnavailable
from filrouge.model.scope import ScopeName
from filrouge.sdk.door import Door, at, named, spelled
from filrouge.sdk.reading import read, read_all
from filrouge.sdk.values import Action, Extracted, Forgotten, Observed, Rule, Superseded, Undone

#: Forgetting also writes files and backups again, and searches them.
_FORGETTING_SECONDS = 300.0


class Telling(Door):
    """Verbs after which something is known that was not, or the other way round."""

    async def remember(
        self,
        text: str,
        *,
        project: str | None = None,
        scope: ScopeName | None = None,
        channel: str = "sdk",
        timeout: float | None = None,
    ) -> list[Action]:
        """Remember a statement in the user's own words; it can be found when this returns.

        Args:
            project: the id, an alias or the short name of a known project; None = outside every project.
            scope: `user` or `project`; None = by what it says: who the user is and what they like is the user's.
            channel: where it was said.

        Returns:
            What each statement of the text came to.

        Raises:
            BadInput: there is no text, or too much of it.
            NotFound: there is no such project.
        """
        body = {"text": text, "project": named(project), "scope": scope, "channel": channel}
        answer = await self._ask("POST", "/api/memory/memories", body, timeout=timeout)
        return read_all(Action, answer["actions"])

    async def observe(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        channel: str,
        session_id: str,
        user_id: str | None = None,
        agent_id: str | None = None,
        project: str | None = None,
        timeout: float | None = None,
    ) -> Observed:
        """Hand over what was said; it returns once that is on disk, and understanding follows in the background.

        The same messages of a session may be handed over again: what is known is a duplicate. Where this home's
        daemon does not answer, they wait on disk until one runs; a daemon elsewhere that does not answer is an error.

        Args:
            messages: oldest first, each with `role` (user, assistant or tool) and `content`; also `tool_results`,
                `file_path`, an `id` of the program's own, and `at`: when, as ISO 8601 or a `datetime` with its zone.
            channel: where it is said; `recent` keeps channels apart, recall does not.
            session_id: the conversation.
            user_id: whose it is; None = this memory's user.
            agent_id: a helper agent of the program; None = its main one.
            project: its name or id; one that is new is made.

        Raises:
            BadInput: a message cannot be read.
            DaemonUnavailable: a daemon elsewhere does not answer; or this home's, which alone knows which project a
                short name means.
        """
        body = {
            "channel": channel,
            "session_id": session_id,
            "user_id": user_id,
            "agent_id": agent_id,
            "project": project,
            "messages": [{name: spelled(name, value) for name, value in one.items()} for one in messages],
        }
        body = {name: value for name, value in body.items() if value is not None}
        try:
            return read(Observed, await self._ask("POST", "/memory/turns", body, timeout=timeout))
        except DaemonUnavailable:
            if self._way is None or self._way.home is None:
                raise
            spooling = import_module("filrouge.sdk.spooling")
            kept = await asyncio.to_thread(spooling.spool, self._way.home, body)
            return Observed(accepted=kept, duplicates=0, spooled=True)

    async def extract(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        source: str = "",
        context: str = "",
        timeout: float | None = None,
    ) -> Extracted:
        """Understand a text, or the messages of a conversation, now; `observe` leaves it to the background.

        Args:
            source: `agent/project`: who says it, and about which project.
            context: on what occasion; it is noted, and nothing is learned of it.

        Raises:
            ExtractionOff: nothing is to be understood here.
            BadInput: there is nothing to understand, or too much of it.
        """
        said = messages if isinstance(messages, str) else [dict(one) for one in messages]
        body = {"messages": said, "source": source, "context": context}
        return read(Extracted, await self._ask("POST", "/memory/extract", body, timeout=timeout))

    async def supersede(
        self, old_id: str, new_text: str, *, source: str = "", timeout: float | None = None
    ) -> Superseded:
        """Replace what a live memory says, pinned or not; the old version stays in its `history`.

        Raises:
            NotFound: there is no such memory.
        """
        body = {"old_id": old_id, "new_text": new_text, "source": source}
        return read(Superseded, await self._ask("POST", "/memory/supersede", body, timeout=timeout))

    async def forget(
        self,
        text: str = "",
        *,
        id: str = "",  # noqa: A002 (the name that everything else has for it)
        dry_run: bool = False,
        token: str = "",
        at_once: bool = False,
        timeout: float | None = None,
    ) -> Forgotten:
        """Forget everything about a text, or what has an id with what hangs on it. There is no way back.

        It is done under the `token` of a preview (`dry_run`), for exactly what that listed; or `at_once`.

        Args:
            id: of a memory, a turn, a thread, a bridge, an event or a synthesis.
            timeout: seconds; None = 300, as files and backups are written again.

        Raises:
            BadInput: neither text nor id, or both; or neither a preview, a token nor `at_once`.
            NotFound: nothing has this id.
            Stale: what the token stands for has changed.
        """
        body = {"text": text, "id": id, "dry_run": dry_run, "token": token, "at_once": at_once}
        patience = _FORGETTING_SECONDS if timeout is None else timeout
        return read(Forgotten, await self._ask("POST", "/api/memory/forget", body, timeout=patience))

    async def pin(self, memory_id: str, *, pinned: bool = True, timeout: float | None = None) -> Action:
        """Pin a memory, so that only the user changes it; or unpin it.

        Raises:
            NotFound: there is no such memory.
        """
        path = at("/api/memory/memories/{}", memory_id)
        return read(Action, await self._ask("PATCH", path, {"pinned": pinned}, timeout=timeout))

    async def bin(self, memory_id: str, *, timeout: float | None = None) -> Action:
        """Put a memory into the bin, where nothing finds it and `restore` does.

        Raises:
            NotFound: there is no such memory.
        """
        return read(Action, await self._ask("POST", at("/api/memory/memories/{}/bin", memory_id), timeout=timeout))

    async def restore(self, memory_id: str, *, timeout: float | None = None) -> Action:
        """Make a memory live again that was binned or superseded.

        Raises:
            NotFound: there is no such memory.
        """
        return read(Action, await self._ask("POST", at("/api/memory/memories/{}/restore", memory_id), timeout=timeout))

    async def undo(
        self,
        memory_id: str | None = None,
        *,
        entry: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Undone:
        """Take back the last decision about a memory, or an entry of the journal, with what stands on it.

        Args:
            dry_run: only say what that would do.

        Raises:
            NotFound: there is no such memory or entry.
            BadInput: neither or both are given, or it cannot be taken back.
        """
        body = {"memory_id": memory_id, "entry": entry, "dry_run": dry_run}
        return read(Undone, await self._ask("POST", "/api/memory/undo", body, timeout=timeout))

    async def set_fact(
        self,
        key: str,
        value: str,
        *,
        project: str | None = None,
        scope: ScopeName = "user",
        timeout: float | None = None,
    ) -> None:
        """Set a core fact: a value that its key names and that is replaced as a whole.

        Raises:
            BadInput: the key or the value is empty or too long.
        """
        body = {"key": key, "value": value, "project": named(project), "scope": scope}
        await self._ask("POST", "/api/memory/facts", body, timeout=timeout)

    async def change_fact(
        self, key: str, value: str, *, project: str | None = None, timeout: float | None = None
    ) -> None:
        """Give a fact another value; what it said stays in its history.

        Args:
            key: its key, or the id of a memory that has none.

        Raises:
            NotFound: there is no such fact.
        """
        await self._ask("PATCH", _fact(key), {"value": value}, query={"project": named(project)}, timeout=timeout)

    async def remove_fact(self, key: str, *, project: str | None = None, timeout: float | None = None) -> None:
        """Put a fact into the bin, which `undo` takes back.

        Args:
            key: its key, or the id of a memory that has none.

        Raises:
            NotFound: there is no such fact.
        """
        await self._ask("DELETE", _fact(key), query={"project": named(project)}, timeout=timeout)

    async def add_rule(
        self,
        text: str,
        *,
        project: str | None = None,
        scope: ScopeName = "project",
        timeout: float | None = None,
    ) -> Rule:
        """Add a standing instruction in the user's own words.

        Raises:
            BadInput: there is no text.
            NotFound: there is no such project.
        """
        body = {"text": text, "project": named(project), "scope": scope}
        return read(Rule, await self._ask("POST", "/api/memory/rules", body, timeout=timeout))

    async def change_rule(
        self, rule_id: str, *, text: str | None = None, enabled: bool | None = None, timeout: float | None = None
    ) -> Rule:
        """Edit a rule, which gives it another id, or switch it off and on.

        Raises:
            NotFound: there is no such rule.
            BadInput: nothing is to change.
        """
        body = {"text": text, "enabled": enabled}
        return read(Rule, await self._ask("PATCH", at("/api/memory/rules/{}", rule_id), body, timeout=timeout))

    async def remove_rule(self, rule_id: str, *, timeout: float | None = None) -> Action:
        """Put a rule into the bin.

        Raises:
            NotFound: there is no such rule.
        """
        return read(Action, await self._ask("DELETE", at("/api/memory/rules/{}", rule_id), timeout=timeout))


def _fact(key: str) -> str:
    """The path of a fact: a key may hold anything, slashes too."""
    if not key.strip("./"):
        raise BadInput(f"This is no key: {key!r}.", remedy="`facts` lists them.")
    return f"/api/memory/facts/{quote(key, errors='replace')}"
