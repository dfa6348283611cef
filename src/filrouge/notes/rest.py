"""A vault as Obsidian's plugin Local REST API gives it (read with 5.1.0), for one that lies where no folder is named.

One search tells the times of all notes, because the plugin lists names alone; it evaluates every note, so it is asked
every fifteen seconds. A path is sent segment by segment: `%2F` is no separator there.
"""

from __future__ import annotations

import http.client
import json
import ssl
from datetime import datetime
from typing import Any, Final, cast
from urllib.parse import quote

from filrouge.clock import from_epoch, monotonic
from filrouge.errors import FilrougeError, NotFound, Stale, VaultUnavailable
from filrouge.model.note import Content, Listing, Note
from filrouge.notes.certificate import CERTIFICATE, KEY, context_of, host_and_port, kept
from filrouge.notes.chunks import MOST_CHARACTERS
from filrouge.notes.folder import MOST_NOTES
from filrouge.notes.reading import SUFFIX, note_of

_ASK_SECONDS: Final = 15.0
_ASK_AGAIN_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 5.0
_LARGEST: Final = 32 * 1024 * 1024
_NOTE: Final = "application/vnd.olrapi.note+json"
#: The plugin compares this type letter by letter.
_LOGIC: Final = "application/vnd.olrapi.jsonlogic+json"
_TIMES: Final = b'{"var":"stat.mtime"}'
_MILLISECONDS: Final = 1000.0
_OK: Final = 200


class RestVault:
    """Implements `Vault` over the plugin's address; the certificate and the key are in the home."""

    def __init__(self, address: str, home: str, *, seconds: float = _WAIT_SECONDS) -> None:
        self.address = address
        self._home = home
        self._seconds = seconds
        self._listing: Listing | None = None
        self._trouble: FilrougeError | None = None
        self._due = 0.0

    def greet(self) -> None:
        """Ask for the names at its top, which is little work for Obsidian, to see that it answers and takes the key.

        Raises:
            BadInput: the address cannot be used.
            VaultUnavailable: as for `list`.
        """
        self._asked("GET", "/vault/", "application/json")

    def list(self, within: str = "") -> Listing:
        """Every note with its stamp, or those in one folder, those written last first; what was said a moment ago is
        said again.

        Raises:
            VaultUnavailable: Obsidian does not run, shows another certificate, or does not take the key.
        """
        if monotonic() >= self._due:
            self._look()
        if self._trouble is not None:
            raise VaultUnavailable(self._trouble.message, remedy=self._trouble.remedy)
        assert self._listing is not None
        if within:
            stamps = self._listing.stamps
            return Listing(stamps={path: one for path, one in stamps.items() if path.startswith(f"{within}/")})
        return self._listing

    def read(self, path: str) -> Note:
        """One note.

        Raises:
            NotFound: there is none (any more), or Obsidian went meanwhile: the next look tells which.
            VaultUnavailable: what is answered is no note.
        """
        text, changed = self._read(path)
        raw = text.encode("utf-8", "replace")
        return note_of(path, raw[: 4 * MOST_CHARACTERS], changed=_moment(changed), stamp=_stamp(changed))

    def content(self, path: str) -> Content:
        """A whole file; raises as `read` does."""
        text, changed = self._read(path)
        return Content(text=text, changed=_moment(changed))

    def write(self, path: str, text: str, *, before: str | None) -> None:
        """Put a text in the place of the one that was read.

        The plugin has no condition for that (it passes `If-Match` over), so the file is read once more just before: who
        writes it between that and the answer, some milliseconds, is overwritten.

        Raises:
            Stale: something else is there by now; it stays.
            VaultUnavailable: it cannot be written, or Obsidian is gone.
        """
        status, content = self._asked("GET", _place(path), _NOTE)
        if (_said(path, content)[0] if status == _OK else None) != before:
            raise Stale(f"{path!r} was written meanwhile.")
        status, _ = self._asked("PUT", _place(path), "*/*", text.encode("utf-8"), kind="text/markdown")
        if status not in (_OK, 201, 204):
            raise VaultUnavailable(f"Obsidian did not write {path!r}: it answered {status}.")
        self._due = 0.0

    def _read(self, path: str) -> tuple[str, float]:
        try:
            status, content = self._asked("GET", _place(path), _NOTE)
        except VaultUnavailable as error:
            raise NotFound(error.message, remedy=error.remedy) from error
        if status != _OK:
            raise NotFound(f"There is no note {path!r}.", remedy="See `filrouge notes`.")
        return _said(path, content)

    def _look(self) -> None:
        try:
            self._listing, self._trouble = self._listed(), None
            self._due = monotonic() + _ASK_SECONDS
        except FilrougeError as error:
            self._trouble = error
            self._due = monotonic() + _ASK_AGAIN_SECONDS

    def _listed(self) -> Listing:
        status, content = self._asked("POST", "/search/", "application/json", _TIMES)
        try:
            rows = cast("list[dict[str, Any]]", json.loads(content))
            times = {str(row["filename"]): float(row["result"]) for row in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise VaultUnavailable(f"What {self.address} answered ({status}) is no list of notes.") from error
        ordered = sorted(_notes(times), key=lambda path: (-times[path], path))
        troubles = dict.fromkeys(ordered[MOST_NOTES : MOST_NOTES + 1], f"there are more than {MOST_NOTES} notes")
        return Listing(stamps={path: _stamp(times[path]) for path in ordered[:MOST_NOTES]}, troubles=troubles)

    def _asked(
        self, method: str, place: str, accept: str, body: bytes | None = None, *, kind: str = _LOGIC
    ) -> tuple[int, bytes]:
        """The status and the body of an answer.

        Raises:
            BadInput: the address cannot be used.
            VaultUnavailable: there is no answer, or no leave to ask.
        """
        connection = self._connection()
        headers = {"Accept": accept, "Authorization": f"Bearer {kept(self._home, KEY)}"}
        headers |= {"Content-Type": kind} if body is not None else {}
        try:
            connection.request(method, place, body, headers)
            answer = connection.getresponse()
            content = answer.read(_LARGEST)
        except ssl.SSLCertVerificationError as error:
            raise VaultUnavailable(
                f"{self.address} shows another certificate than the one that you trust; nothing was sent.",
                remedy=f"If that is right, trust it: `filrouge notes --trust {self.address}`.",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise VaultUnavailable(
                f"Obsidian does not answer at {self.address}.", remedy="Start it, with the plugin Local REST API."
            ) from error
        finally:
            connection.close()
        if answer.status in (401, 403):
            raise VaultUnavailable(f"{self.address} does not take the key.", remedy="Enter it: `filrouge notes --key`.")
        return answer.status, content

    def _connection(self) -> http.client.HTTPConnection:
        host, port, is_safe = host_and_port(self.address)
        if not is_safe:
            return http.client.HTTPConnection(host, port, timeout=self._seconds)
        pem = kept(self._home, CERTIFICATE)
        if not pem:
            raise VaultUnavailable(
                f"You trust no certificate of {self.address} yet; nothing was sent.",
                remedy=f"Look at it: `filrouge notes --trust {self.address}`.",
            )
        try:
            context = context_of(pem)
        except ssl.SSLError as error:
            raise VaultUnavailable(
                "The certificate in the home is damaged.",
                remedy=f"Trust it again: `filrouge notes --trust {self.address}`.",
            ) from error
        return http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)


def _notes(paths: dict[str, float]) -> list[str]:
    """The Markdown files that are no part of Obsidian's own."""
    return [
        path
        for path in paths
        if path.endswith(SUFFIX) and not any(not name or name.startswith(".") for name in path.split("/"))
    ]


def _place(path: str) -> str:
    return "/vault/" + "/".join(quote(name, safe="") for name in path.split("/"))


def _said(path: str, content: bytes) -> tuple[str, float]:
    """The text of a note and when it was written, in milliseconds."""
    try:
        found = json.loads(content)
        return str(found["content"]), float(found["stat"]["mtime"])
    except (ValueError, KeyError, TypeError) as error:
        raise VaultUnavailable(f"What Obsidian answered for {path!r} is no note.") from error


def _moment(changed: float) -> datetime:
    return from_epoch(max(changed, 0.0) / _MILLISECONDS)


def _stamp(changed: float) -> str:
    return f"rest:{changed:.0f}"
