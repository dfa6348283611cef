"""The client of a hub: the protocol `/hub/v1/…` as methods, in the values of `hub.models`.

It needs no package beyond the base install. Each request has its own connection, so a client may be kept for weeks and
shared by threads, and a hub that was restarted is found again by the next request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, TypeAdapter, ValidationError

from filrouge.core.errors import BadInput, HubUnavailable
from filrouge.core.network import checked_address
from filrouge.daemon import remote
from filrouge.daemon.reply import Peer, foreign_server, parse_error
from filrouge.hub.models import (
    Accept,
    Conflict,
    Device,
    Forget,
    Id,
    Invitation,
    Keep,
    Member,
    NewToken,
    Page,
    Push,
    PushAnswer,
    PushAnswers,
    Receipt,
    Receipts,
    Scope,
    Settle,
    Value,
    Version,
)

Answer = TypeVar("Answer")
_HUB: Final = Peer("hub", HubUnavailable, "the hub's address", "Check the address, and that the hub runs.")
_PROBLEM: Final = "urn:filrouge:error:"


class _Device(BaseModel):
    """A device that has not confirmed a forgetting."""

    name: str
    member: str
    seen_at: str
    lost: bool
    memories: int


class _JournalCheck(BaseModel):
    """The latest check of the team's journal."""

    checked_at: str
    entries: int
    broken_at: int | None
    reason: str


class _Status(BaseModel):
    """What every hub says of its team."""

    tenant: str
    member: str
    member_id: str
    scopes: list[str]
    memories: int
    members: int
    devices: int
    lost: int
    waiting: int
    conflicts: int
    forgotten: int
    held_back_since: str | None
    unconfirmed: list[_Device]
    journal: _JournalCheck | None


class _Member(BaseModel):
    """What every hub says of a member."""

    name: str
    tokens: int
    devices: int
    removed_at: str | None


_ID: Final = TypeAdapter[str](Id)
_PAGE: Final = TypeAdapter(Page)
_ANSWERS: Final = TypeAdapter(PushAnswers)
_CONFLICT: Final = TypeAdapter(Conflict)
_CONFLICTS: Final = TypeAdapter(tuple[Conflict, ...])
_ACCEPTED: Final = TypeAdapter(dict[str, bool])
_ERASED: Final = TypeAdapter(dict[str, int])
_NEW_TOKEN: Final = TypeAdapter(NewToken)
_NOTHING: Final = TypeAdapter[None](None)
_PROJECTS: Final = TypeAdapter(list[str])
_STATUS: Final = TypeAdapter(_Status)
_MEMBERS: Final = TypeAdapter(list[_Member])


class HubClient:
    """A member's access to a hub. Thread-safe.

    Every method raises:
        HubUnavailable: the hub does not answer in time, its address is not safe for a token, or another server
            answers there.
        Unauthorized: the token is not valid.
        Forbidden: the token does not allow it.
        BadInput: a value is invalid.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 30.0) -> None:
        """Prepare the requests; none is sent yet.

        Args:
            url: where the hub answers. Plain HTTP is for this machine and private networks.
            token: the secret of a member's token.
            timeout: seconds for one whole request.

        Raises:
            BadInput: the address or the token is malformed.
        """
        self._url = checked_address(url, setting="The hub's address")
        if not token or not (token.isascii() and token.isprintable()):
            raise BadInput("This is not a token: a token has letters, digits, - and _.", remedy="Copy it again.")
        self._token = token
        self._timeout = timeout

    def push(self, versions: Sequence[Version]) -> tuple[PushAnswer, ...]:
        """Store 1 to `MAX_PUSH` versions; return what became of each, in their order. Repeating it changes nothing."""
        body = _body(Push, versions=tuple(versions))
        answers = self._ask("POST", "/push", _ANSWERS, body).answers
        if [(one.memory, one.version) for one in answers] != [(one.memory, one.version) for one in versions]:
            raise _HUB.unavailable("The hub did not say what became of each version.")
        return answers

    def changes(self, *, after: str, limit: int = 500, device: str | None = None, project: str | None = None) -> Page:
        """Return the changes behind a cursor.

        Args:
            after: the cursor of the page before; empty = from the beginning.
            limit: 1 to `MAX_CHANGES`.
            device: the device that asks. It has applied everything up to the cursor.
            project: only the versions of this project.

        Raises:
            NotFound: the device is unknown.
        """
        given = {"after": after, "limit": limit, "device": device, "project": project}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        return self._ask("GET", f"/changes?{query}", _PAGE)

    def projects(self) -> list[str]:
        """Return the addresses of the projects that have shared memories."""
        return self._ask("GET", "/projects", _PROJECTS)

    def conflicts(self) -> tuple[Conflict, ...]:
        """Return the conflicts that nobody has settled, oldest first."""
        return self._ask("GET", "/conflicts", _CONFLICTS)

    def settle(self, conflict: str, keep: Keep) -> Conflict:
        """Say which memory of a conflict holds.

        Raises:
            NotFound: there is no such conflict.
            Busy: it is settled already.
        """
        return self._ask("POST", f"/conflicts/{_id(conflict)}", _CONFLICT, _body(Settle, keep=keep))

    def accept(self, memories: Sequence[str]) -> dict[str, bool]:
        """Accept 1 to `MAX_PUSH` rules for everybody; return whether each was accepted now.

        Raises:
            Forbidden: the token is no admin's.
            NotFound: a memory is not shared there, or no longer.
            BadInput: a memory is no rule.
        """
        return self._ask("POST", "/accept", _ACCEPTED, _body(Accept, memories=tuple(memories)))

    def forget(self, memories: Sequence[str]) -> dict[str, int]:
        """Erase 1 to `MAX_PUSH` memories; return the number of erased versions of each.

        Raises:
            NotFound: a memory was never shared there.
        """
        return self._ask("POST", "/forget", _ERASED, _body(Forget, memories=tuple(memories)))

    def confirm(self, device: str, receipts: Sequence[Receipt]) -> None:
        """Record what a device found of forgotten memories after it applied their tombstones.

        Raises:
            NotFound: the device is unknown, or a memory was not forgotten there.
        """
        self._ask("POST", "/receipts", _NOTHING, _body(Receipts, device=device, receipts=tuple(receipts)))

    def join(self, device: Device) -> None:
        """Register a device of the member, or change its name."""
        self._ask("POST", "/devices", _NOTHING, device)

    def status(self) -> dict[str, Any]:
        """Return the team's counts, and which devices have not confirmed a forgetting."""
        return self._checked("GET", "/status", _STATUS)

    def members(self) -> list[dict[str, Any]]:
        """Return each member with the numbers of their valid tokens and devices."""
        return self._checked("GET", "/members", _MEMBERS)

    def invite(self, name: str, *, scopes: Sequence[Scope] | None = None, days: int | None = None) -> NewToken:
        """Add a member, or find the one with this name, and create a token.

        Args:
            scopes: what the token allows; None = what the hub gives a member.
            days: until it expires; None = never.
        """
        given = {} if scopes is None else {"scopes": tuple(scopes)}
        return self._ask("POST", "/members", _NEW_TOKEN, _body(Invitation, name=name, days=days, **given))

    def remove(self, name: str) -> None:
        """Remove a member: their tokens are refused from now on, and what they shared stays.

        Raises:
            NotFound: there is no such member.
        """
        self._ask("POST", "/members/remove", _NOTHING, _body(Member, name=name))

    def revoke(self, token: str) -> None:
        """Revoke a token by its id.

        Raises:
            NotFound: there is no such token.
        """
        self._ask("DELETE", f"/tokens/{_id(token)}", _NOTHING)

    def _ask(self, method: str, path: str, answer: TypeAdapter[Answer], body: Value | None = None) -> Answer:
        """Return the hub's answer; what a newer hub adds to it is left out."""
        return self._exchange(method, path, answer, body)[0]

    def _checked(self, method: str, path: str, answer: TypeAdapter[Any]) -> Any:
        """Return the hub's answer as it is; it has at least what `answer` names."""
        return self._exchange(method, path, answer, None)[1]

    def _exchange(self, method: str, path: str, answer: TypeAdapter[Answer], body: Value | None) -> tuple[Answer, Any]:
        content = None if body is None else body.model_dump(mode="json")
        reply = remote.request(
            self._url, self._token, method, f"/hub/v1{path}", content, timeout=self._timeout, peer=_HUB
        )
        if reply.status >= 400 and str(reply.body.get("type", "")).startswith(_PROBLEM):
            raise parse_error(reply.body, _HUB)
        if reply.status != 200:
            raise foreign_server(_HUB, reply.status)
        try:
            return answer.validate_python(reply.value, extra="ignore"), reply.value
        except ValidationError:  # it quotes the answer, which may be the text of a memory
            raise foreign_server(_HUB, reply.status) from None


Body = TypeVar("Body", bound=Value)


def _id(text: str) -> str:
    """Return an id that is part of a path.

    Raises:
        BadInput: it is none.
    """
    try:
        return _ID.validate_python(text)
    except ValidationError:
        raise BadInput("This is not an id: an id has 26 letters and digits.", remedy="Copy the whole id.") from None


def _body(model: type[Body], **fields: Any) -> Body:
    """Return the body of a request.

    Raises:
        BadInput: a field is invalid; the message does not quote it.
    """
    try:
        return model(**fields)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{where}: {first['msg']}.", remedy="See docs/guides/hub.md.") from None
