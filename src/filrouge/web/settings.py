"""The Settings screen: every setting with its origin, what Filrouge is connected with, who may sign in, backups."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import quote

from msgspec import Struct
from pydantic.fields import FieldInfo

from filrouge.core.settings import Settings, choices_of
from filrouge.extraction.models import REMINDERS
from filrouge.web.client import ApiProblem
from filrouge.web.languages import mark as _
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit

pages = Pages()

#: Tokens and sessions that have ended are listed up to this many.
_MAX_ENDED: Final = 20
Control = Literal["switch", "choice", "number", "line", "lines", "boxes"]


class Group(Struct, frozen=True, kw_only=True):
    """Settings that belong together.

    Attributes:
        id: of its section in the page.
        name: a message to translate.
        about: a message to translate; may be empty.
    """

    id: str
    name: str
    keys: Sequence[str]
    about: str = ""


GROUPS: Final = (
    Group(
        id="prompts",
        name=_("Memories in prompts"),
        keys=(
            "auto_retrieve_enabled",
            "auto_retrieve_max_results",
            "auto_retrieve_min_score",
            "budget",
            "hook_wait_ms",
            "language",
            "reminders",
        ),
    ),
    Group(
        id="capture",
        name=_("What is captured"),
        keys=("auto_capture", "disabled_projects", "isolation", "project_name"),
    ),
    Group(
        id="notes",
        name=_("Notes"),
        keys=("notes_enabled", "notes_folder", "notes_paths", "notes_tag", "notes_write_folder"),
    ),
    Group(
        id="extraction",
        name=_("How memories are made"),
        about=_("Rules make them unless a model is named here."),
        keys=(
            "extract_provider",
            "mode",
            "llm_model",
            "llm_url",
            "llm_cascade",
            "llm_operations",
            "llm_decides",
            "analyzer_allow_offline",
            "claude_cli_path",
            "codex_cli_path",
        ),
    ),
    Group(
        id="limits",
        name=_("Limits of models"),
        keys=("llm_daily_tokens", "llm_daily_dollars", "llm_max_tokens", "llm_seconds", "ollama_seconds"),
    ),
    Group(
        id="embedding",
        name=_("Search by meaning"),
        about=_("Another embedder is used once all vectors were made anew: filrouge reindex."),
        keys=("embedding_model", "embedding_url", "embedding_dimensions"),
    ),
    Group(
        id="garden",
        name=_("Maintenance"),
        keys=("garden_idle_minutes", "garden_rest_hours", "garden_hour"),
    ),
    Group(
        id="retention",
        name=_("What is kept, and how long"),
        keys=("retention_tool_days", "retention_noise_days", "retention_log_days", "size_cap_mb"),
    ),
    Group(id="backups", name=_("Backups"), keys=("backup_hours", "backup_keep", "backup_keep_weeks")),
    Group(
        id="daemon",
        name=_("The daemon"),
        about=_("These take effect when the daemon starts again."),
        keys=(
            "host",
            "port",
            "allowed_hosts",
            "tls_cert",
            "tls_key",
            "limit_body_mb",
            "limit_requests",
            "limit_connections",
            "limit_seconds",
            "log_format",
        ),
    ),
)
_DEFAULTS: Final[Mapping[str, Any]] = Settings().model_dump(mode="json")
_CHANGEABLE: Final = ("default", "stored")


@pages.page("/settings", "settings.html")
async def settings_list(visit: Visit) -> Mapping[str, Any]:
    """Every setting in its group, with value, origin and what it does."""
    values, origins = await asyncio.gather(
        visit.api.get("/api/memory/settings"), visit.api.get("/api/memory/settings/origins")
    )
    words, only_changed = visit.query.get("q", "").strip().lower(), visit.query.get("only") == "changed"

    def is_asked_for(row: Mapping[str, Any]) -> bool:
        return words in f"{row['key']} {row['about']}".lower() and not (only_changed and row["origin"] == "default")

    groups = [
        {
            "id": group.id,
            "name": group.name,
            "about": group.about,
            "settings": [row for key in group.keys if is_asked_for(row := _row(visit, key, values[key], origins[key]))],
        }
        for group in GROUPS
    ]
    return {
        "groups": [group for group in groups if group["settings"]],
        "words": visit.query.get("q", ""),
        "only_changed": only_changed,
        "changed": sum(origin != "default" for origin in origins.values()),
    }


def _row(visit: Visit, key: str, value: Any, origin: str) -> dict[str, Any]:
    """Return one setting as the page shows it."""
    control, about = control_of(key), Settings.model_fields[key].description or ""
    lowest, highest = _bounds(Settings.model_fields[key])
    return {
        "key": key,
        "about": visit.text(about),
        "value": value,
        "default": _DEFAULTS[key],
        "origin": origin,
        "can_change": origin in _CHANGEABLE,
        "control": control,
        "choices": list(choices_of(key)) if control == "choice" else list(REMINDERS) if control == "boxes" else [],
        "lowest": lowest,
        "highest": highest,
        "step": "any" if isinstance(_DEFAULTS[key], float) else "1",
    }


def control_of(key: str) -> Control:
    """Return how a setting is edited."""
    default = _DEFAULTS[key]
    if key == "reminders":
        return "boxes"
    if choices_of(key) and isinstance(default, str):
        return "choice"
    if isinstance(default, bool):
        return "switch"
    if isinstance(default, int | float):
        return "number"
    return "lines" if isinstance(default, list) else "line"


def _bounds(field: FieldInfo) -> tuple[float | None, float | None]:
    """Return the least and the greatest value that a setting may have; None where there is no bound."""
    lowest = next((bound for rule in field.metadata if (bound := getattr(rule, "ge", None)) is not None), None)
    highest = next((bound for rule in field.metadata if (bound := getattr(rule, "le", None)) is not None), None)
    return lowest, highest


@pages.action("/settings")
async def settings_save(visit: Visit) -> Next:
    """Save what differs from the present values; or give one setting its default again."""
    reset = visit.field("reset")
    if reset in _DEFAULTS:
        return await change_settings(visit, visit.text("The default is back."), {reset: _DEFAULTS[reset]})
    present = await visit.api.get("/api/memory/settings")
    wanted = {key: _entered(visit, key) for key in visit.fields("key") if key in _DEFAULTS}
    changes = {key: value for key, value in wanted.items() if not _is_same(value, present[key])}
    if not changes:
        return Next(to=visit.back, message=Message(text=visit.text("Nothing was changed.")))
    text = visit.locale.ngettext("%(num)s setting saved.", "%(num)s settings saved.", len(changes))
    return await change_settings(visit, text, changes)


@pages.action("/settings/undo")
async def settings_undo(visit: Visit) -> Next:
    """Give settings the values that they had before a change."""
    try:
        former = json.loads(visit.field("former"))
    except ValueError as error:
        raise ApiProblem(400, visit.text("This form is no longer valid."), "") from error
    await visit.api.send("PATCH", "/api/memory/settings", former)
    return Next(to=visit.back, message=Message(text=visit.text("Undone.")))


async def change_settings(visit: Visit, text: str, changes: Mapping[str, Any]) -> Next:
    """Change settings, and lead back with a message that can take the change back."""
    before = await visit.api.get("/api/memory/settings")
    await visit.api.send("PATCH", "/api/memory/settings", dict(changes))
    former = json.dumps({key: before[key] for key in changes})
    return Next(to=visit.back, message=Message(text=text, undo=f"{ROOT}/settings/undo", fields={"former": former}))


def _entered(visit: Visit, key: str) -> Any:
    """Return what a form says about a setting. Numbers stay texts: the API reads them and says what does not fit."""
    match control_of(key):
        case "switch":
            return visit.field(key) == "on"
        case "boxes":
            return visit.fields(key)
        case "lines":
            return [line.strip() for line in visit.field(key).splitlines() if line.strip()]
        case "number" | "line" | "choice":
            return visit.field(key).strip()


def _is_same(entered: Any, present: Any) -> bool:
    if isinstance(present, int | float) and isinstance(entered, str):
        try:
            return float(entered) == present
        except ValueError:
            return False
    return entered == present


# What Filrouge is connected with.


@pages.page("/settings/connections", "settings/connections.html")
async def settings_connections(visit: Visit) -> Mapping[str, Any]:
    """The agents, the model, the embedder and the notes: each as it is now."""
    visit.begin()
    # A question that was never asked reaches the embedder; the vectors of earlier ones may be kept.
    unheard = {"query": f"Are you there at {visit.locale.now.isoformat()}?", "k": 1}
    agents, model, embedding, tried, vault = await asyncio.gather(
        visit.api.get("/api/hosts"),
        visit.api.get("/extract/status"),
        visit.api.get("/embedding"),
        visit.api.send("POST", "/search", unheard),
        visit.api.get("/api/memory/notes"),
    )
    return {
        "agents": sorted(agents["hosts"], key=lambda agent: not (agent["found"] or agent["last_heard"])),
        "model": model,
        "embedding": embedding,
        "embedding_trouble": " ".join([embedding["notice"], *tried["notices"]]).strip(),
        "vault": vault,
    }


@pages.page("/settings/health", "settings/health.html")
async def settings_health(visit: Visit) -> Mapping[str, Any]:
    """Whether the daemon and the memory work, and what to do where they do not. Today shows its first line."""
    visit.begin()
    return {"health": await visit.api.get("/daemon/health")}


@pages.action("/settings/verify")
async def settings_verify(visit: Visit) -> Next:
    """Verify every entry of the journal."""
    found = await visit.api.get("/api/audit/verify")
    text = (
        visit.locale.ngettext(
            "The journal is sound: its one entry was verified.",
            "The journal is sound: all %(num)s entries were verified.",
            found["entries"],
        )
        if found["sound"]
        else visit.text(
            "The journal is broken at entry %(entry)s: %(reason)s", entry=found["broken_at"], reason=found["reason"]
        )
    )
    return Next(to=visit.back, message=Message(text=text))


# Who may sign in.


@pages.page("/settings/access", "settings/access.html")
async def settings_access(visit: Visit) -> Mapping[str, Any]:
    """The tokens and browser sessions that are in force, and those that were."""
    tokens = (await visit.api.get("/api/tokens"))["tokens"]
    now = visit.locale.now

    def is_in_force(token: Mapping[str, Any]) -> bool:
        expires_at = token["expires_at"]
        return token["revoked_at"] is None and (expires_at is None or visit.locale.local(expires_at) > now)

    return {
        "in_force": [token for token in tokens if is_in_force(token)],
        "ended": [token for token in tokens if not is_in_force(token)][:_MAX_ENDED],
        "own": visit.access.who,
    }


@pages.action("/settings/access/{token_id}/revoke")
async def settings_revoke(visit: Visit) -> Next:
    """Revoke a token or a session; one's own signs this browser out."""
    id_ = visit.parameter("token_id")
    await visit.api.send("DELETE", f"/api/tokens/{quote(id_, safe='')}")
    return Next(to=visit.back, message=Message(text=visit.text("Revoked. It is refused from now on.")))


# Backups.


@pages.page("/settings/backups", "settings/backups.html")
async def settings_backups(visit: Visit) -> Mapping[str, Any]:
    """Every backup, newest first."""
    backups, values = await asyncio.gather(visit.api.get("/api/memory/backups"), visit.api.get("/api/memory/settings"))
    kept = {name: values[name] for name in ("backup_hours", "backup_keep", "backup_keep_weeks")}
    return {"backups": backups["backups"], "failed": backups["failed"], "kept": kept}


@pages.action("/settings/backups")
async def settings_backup_now(visit: Visit) -> Next:
    """Make a backup and verify it."""
    await visit.api.send("POST", "/api/memory/backups")
    return Next(to=visit.back, message=Message(text=visit.text("A backup was made and verified.")))
