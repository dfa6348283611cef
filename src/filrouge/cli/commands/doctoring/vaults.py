"""Checks of the vault: the folder or the address that is named, whether it is read, and what of it is not.

Paths of notes are their titles, so they stay out of findings, which may be given away; `filrouge notes` names them.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from filrouge.address import is_loopback
from filrouge.cli.commands.doctoring.finding import START, Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.probing import SECONDS
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.clock import from_text
from filrouge.errors import BadInput, VaultUnavailable
from filrouge.notes.vault import CERTIFICATE, KEY, RestVault, host_and_port, is_address, kept

_NONE: Final = "no vault is named"
_NAME: Final = "Correct it: `filrouge settings notes_folder PATH`, or empty it for no vault."
_SHOW: Final = "`filrouge notes` names them"
#: The daemon looks every second; of a large vault it reads half a second long, and lists it anew each time.
_LATE: Final = timedelta(minutes=2)
_KINDS_SHOWN: Final = 3


def _vault(scene: Scene) -> Verdict:
    place = scene.settings().notes_folder
    if not place:
        return ok(_NONE)
    return _address(place) if is_address(place) else _folder(place, scene)


def _address(place: str) -> Verdict:
    try:
        host_and_port(place)
    except BadInput as error:
        return fail(f"notes_folder: {error.message}", error.remedy)
    if not is_loopback(place):
        return note(f"{urlsplit(place).netloc} is another machine: its notes come over the network")
    return ok(place)


def _folder(place: str, scene: Scene) -> Verdict:
    path = os.path.expanduser(place)
    if not os.path.isabs(path):
        return warn(f"{place} is no absolute path: where it leads depends on where the daemon was started", _NAME)
    if not os.path.exists(path):
        return fail(f"{path} is not there, so nothing of it is shown", f"Mount its disk. {_NAME}")
    if not os.path.isdir(path):
        return fail(f"{path} is no folder", _NAME)
    if not os.access(path, os.R_OK | os.X_OK):
        return fail(f"{path} cannot be read", f"Run `chmod u+rx` on it. {_NAME}")
    if _is_within(scene.home, path):
        return warn(f"{path} holds the home of Filrouge, which would be read as notes", _NAME)
    if _is_within(path, scene.home):
        return warn(f"{path} lies in the home of Filrouge, whose files are no notes", _NAME)
    return ok("the folder is there")  # its name may tell of a client, and this may be given away


def _obsidian(scene: Scene) -> Verdict:
    place = scene.settings().notes_folder
    if not is_address(place):
        return ok("it is not asked: the vault is a folder" if place else _NONE)
    try:
        _, _, is_safe = host_and_port(place)
    except BadInput as error:
        return note(f"it is not asked: {error.message}")
    if is_safe and not kept(scene.home, CERTIFICATE):
        return fail(f"no certificate of {place} is trusted yet", f"Look at it: `filrouge notes --trust {place}`.")
    if not kept(scene.home, KEY):
        return fail(f"the key of {place} is missing", "Enter it: `filrouge notes --key`.")
    try:
        RestVault(place, scene.home, seconds=SECONDS).greet()
    except VaultUnavailable as error:
        return fail(error.message.rstrip("."), error.remedy)
    return ok(f"{place} answers and takes the key")


def _last_look(scene: Scene) -> Verdict:
    found = _described(scene)
    if found is None:
        return ok(_NONE)
    if found["problem"]:
        return fail(
            str(found["problem"]).rstrip("."), "See `filrouge doctor` on the vault itself, and `filrouge notes`."
        )
    if not found["looked_at"]:
        return warn("the daemon has not looked at the vault yet", "Wait a moment; then see `filrouge logs`.")
    if scene.now - from_text(str(found["looked_at"])) > _LATE:
        return warn(f"the daemon looked last at {found['looked_at']}", f"Run `filrouge daemon stop`. {START}")
    waiting = f", {found['waiting']} waiting" if found["waiting"] else ""
    return ok(f"{found['notes']} notes{waiting}")


def _fixed(scene: Scene) -> Verdict:
    found = _described(scene)
    if found is None or not found["is_there"]:
        return ok(_NONE if found is None else "not known while the vault is not read")
    missing = sum(not one["found"] for one in found["fixed"])
    if missing and not found["waiting"]:
        return warn(
            f"{missing} of {len(found['fixed'])} notes that are always brought (notes_paths) are not in the vault",
            f"{_SHOW}; correct the list: `filrouge settings notes_paths A,B`.",
        )
    return ok(f"{len(found['fixed'])} are always brought")


def _troubles(scene: Scene) -> Verdict:
    found = _described(scene)
    if found is None or not found["troubles"]:
        return ok(_NONE if found is None else "all could be read")
    kinds = Counter(_kind(one) for one in found["troubles"])
    said = "; ".join(f"{number} × {kind}" for kind, number in kinds.most_common(_KINDS_SHOWN))
    return note(f"{len(found['troubles'])} notes are not read as they stand: {said}", f"{_SHOW}; mend or move them.")


def _kind(one: dict[str, Any]) -> str:
    """What a trouble is, without the note that it speaks of."""
    return str(one["trouble"]).replace(repr(one["path"]), "it").replace(str(one["path"]), "it").rstrip(".")


def _described(scene: Scene) -> dict[str, Any] | None:
    """What the daemon says of the vault; None where none is named, so that nobody is asked."""
    if not scene.settings().notes_folder:
        return None
    found = scene.daemon.ask("/api/memory/notes")
    return found if found["folder"] else None


def _is_within(inner: str, outer: str) -> bool:
    top = os.path.realpath(outer)
    return os.path.commonpath([top, os.path.realpath(inner)]) == top


CHECKS: Final = (
    Check(name="Vault", look=_vault),
    Check(name="Vault: Obsidian", look=_obsidian),
    Check(name="Vault: last look", look=_last_look),
    Check(name="Vault: notes that are always brought", look=_fixed),
    Check(name="Vault: single notes", look=_troubles),
)
