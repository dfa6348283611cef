"""Every error that Filrouge raises on purpose.

    FilrougeError
    ├── BadInput              invalid input                            exit 2   HTTP 400
    │   └── BadConfig         unknown setting or invalid value         exit 2   HTTP 400
    ├── NotFound              no row has this id                       exit 1   HTTP 404
    ├── DaemonUnavailable     the daemon does not answer               exit 3   HTTP 503
    ├── HubUnavailable        the hub's database does not answer       exit 3   HTTP 503
    ├── Busy                  another process holds the lock           exit 5   HTTP 409
    ├── Stale                 the data changed after it was read       exit 5   HTTP 409
    ├── StoreError            the database refused the operation       exit 6   HTTP 500
    │   ├── Corrupt           the database file is damaged             exit 6   HTTP 500
    │   ├── CannotWrite       disk full or read-only                   exit 7   HTTP 507
    │   └── WrongEngine       unsupported SQLite or schema version     exit 6   HTTP 500
    ├── EmbedderUnavailable   text cannot be turned into vectors       exit 1   HTTP 503
    ├── ModelUnavailable      no language model answers                exit 1   HTTP 503
    │   └── OverBudget        the daily model budget is spent          exit 1   HTTP 503
    ├── ExtractionOff         extraction is switched off               exit 1   HTTP 501
    ├── NotInstalled          an optional extra is missing             exit 1   HTTP 501
    ├── VaultUnavailable      the vault cannot be read or written      exit 1   HTTP 503
    ├── Unreadable            a model's answer cannot be parsed        exit 1   HTTP 502
    ├── Unauthorized          no valid token in the request            exit 4   HTTP 401
    ├── Forbidden             not allowed for this caller              exit 4   HTTP 403
    │   └── Misdirected       the request names another host           exit 4   HTTP 421
    ├── TooLarge              the request body is too large            exit 2   HTTP 413
    └── TooMany               request rate limit exceeded              exit 5   HTTP 429

The first line of a class docstring is the default message that users see; `remedy` is the next step for the user.
Foreign exceptions are translated once, where their library is imported, and keep the original as cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from filrouge.providers.models import Failure, Usage


__all__ = [
    "BadConfig",
    "BadInput",
    "Busy",
    "CannotWrite",
    "Corrupt",
    "DaemonUnavailable",
    "EmbedderUnavailable",
    "ExtractionOff",
    "FilrougeError",
    "Forbidden",
    "HubUnavailable",
    "Misdirected",
    "ModelUnavailable",
    "NotFound",
    "NotInstalled",
    "OverBudget",
    "Stale",
    "StoreError",
    "TooLarge",
    "TooMany",
    "Unauthorized",
    "Unreadable",
    "VaultUnavailable",
    "WrongEngine",
]


class FilrougeError(Exception):
    """Filrouge could not do that."""

    exit_code: int = 1
    http_status: int = 500
    default_remedy: str = "Run `filrouge doctor` to see what is wrong."

    def __init__(self, message: str | None = None, *, remedy: str | None = None) -> None:
        self.message: str = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.remedy: str = self.default_remedy if remedy is None else remedy
        super().__init__(self.message)


class BadInput(FilrougeError):
    """The input is invalid."""

    exit_code = 2
    http_status = 400
    default_remedy = "See `filrouge --help`."


class BadConfig(BadInput):
    """Unknown setting or invalid value."""

    default_remedy = "See `filrouge settings` for the names and values that exist."


class NotFound(FilrougeError):
    """Nothing has this id."""

    http_status = 404
    default_remedy = "List what exists with `filrouge facts --all`."


class DaemonUnavailable(FilrougeError):
    """The Filrouge daemon does not answer."""

    exit_code = 3
    http_status = 503
    default_remedy = "Start it with `filrouge daemon start`; its log is filrouge.log in the home directory."


class HubUnavailable(FilrougeError):
    """The team's hub or its database does not answer."""

    exit_code = 3
    http_status = 503
    default_remedy = "Check the address, and that PostgreSQL runs there and accepts this role."


class Busy(FilrougeError):
    """Another Filrouge process is using this home."""

    exit_code = 5
    http_status = 409
    default_remedy = "See `filrouge daemon status`."


class Stale(FilrougeError):
    """The data changed since it was read."""

    exit_code = 5
    http_status = 409
    default_remedy = "Read it again and repeat the change."


class StoreError(FilrougeError):
    """The memory database refused the operation."""

    exit_code = 6


class Corrupt(StoreError):
    """The memory database is damaged."""

    default_remedy = (
        "Check what `filrouge repair --dry-run` can save, or restore a backup with `filrouge restore latest`."
    )


class CannotWrite(StoreError):
    """The data directory cannot be written: the disk is full or it is read-only."""

    exit_code = 7
    http_status = 507
    default_remedy = "Free some space or make the directory writable; nothing already stored is lost."


class WrongEngine(StoreError):
    """This SQLite or this database schema cannot be used safely."""

    default_remedy = "Upgrade Filrouge and `apsw-sqlite3mc`."


class EmbedderUnavailable(FilrougeError):
    """The embedding model cannot be used, so recall is by words only."""

    http_status = 503


class ModelUnavailable(FilrougeError):
    """No language model answers.

    Attributes:
        failures: why each model that was tried failed.
        spent: the usage that the failed attempts cost, by (provider, model).
    """

    http_status = 503
    default_remedy = "Nothing is lost. Waiting work continues when a model answers."

    def __init__(
        self,
        message: str | None = None,
        *,
        remedy: str | None = None,
        failures: tuple[Failure, ...] = (),
        spent: Mapping[tuple[str, str], Usage] | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.failures = failures
        self.spent: Mapping[tuple[str, str], Usage] = spent or {}


class OverBudget(ModelUnavailable):
    """The day's budget for models is spent."""

    default_remedy = "It goes on tomorrow; or raise llm_daily_tokens or llm_daily_dollars with `filrouge settings`."


class NotInstalled(FilrougeError):
    """This needs an extra that is not installed."""

    http_status = 501
    default_remedy = "See docs/reference/library.md for the extras."


class ExtractionOff(FilrougeError):
    """Extraction is switched off."""

    http_status = 501
    default_remedy = "Switch it on: `filrouge settings extract_provider heuristic`, or name a provider."


class Unreadable(FilrougeError):
    """The model's answer is invalid, after two attempts.

    Attributes:
        text: the model's last answer. Show it only to the user.
        prompt: the prompt that was sent.
        operation: the operation that the model was called for.
    """

    http_status = 502
    default_remedy = "The input is kept. Try another model."

    def __init__(self, message: str, *, text: str, prompt: str, operation: str) -> None:
        super().__init__(message)
        self.text = text
        self.prompt = prompt
        self.operation = operation


class VaultUnavailable(FilrougeError):
    """The vault, or a note in it, cannot be read."""

    http_status = 503
    default_remedy = (
        "Set the folder with `filrouge settings notes_folder PATH`, or see its state with `filrouge notes`."
    )


class Unauthorized(FilrougeError):
    """No valid token came with the request."""

    exit_code = 4
    http_status = 401
    default_remedy = "Make a token on the daemon's machine, `filrouge token create`, and set FILROUGE_API_KEY to it."


class Forbidden(FilrougeError):
    """This request is not allowed."""

    exit_code = 4
    http_status = 403
    default_remedy = "Use a token of a larger scope: `filrouge token create --scope write`, or admin."


class Misdirected(Forbidden):
    """The request is addressed to a host that is not this daemon."""

    http_status = 421
    default_remedy = "Use the address in `filrouge daemon status`, or name the host in the setting allowed_hosts."


class TooLarge(FilrougeError):
    """The request is too large."""

    exit_code = 2
    http_status = 413
    default_remedy = "Send less at once, or raise the setting limit_body_mb."


class TooMany(FilrougeError):
    """Too many requests.

    Attributes:
        retry_after: seconds until a request can succeed.
    """

    exit_code = 5
    http_status = 429
    default_remedy = "Wait a second and try again, or raise the setting limit_requests."

    def __init__(self, message: str | None = None, *, remedy: str | None = None, retry_after: int = 1) -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after = retry_after
