"""The vault that the settings name: a folder, or the address of Obsidian's plugin."""

from __future__ import annotations

from filrouge.notes.folder import FolderVault
from filrouge.notes.rest import RestVault
from filrouge.ports import Vault


def is_address(place: str) -> bool:
    """Whether a vault is named by the address of the plugin, and not by its folder."""
    return place.startswith(("https://", "http://"))


class Vaults:
    """Opens vaults; that of an address is kept, because it is not asked at every look."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._rest: RestVault | None = None

    def __call__(self, place: str) -> Vault:
        """The vault at that place, which need not be there."""
        if not is_address(place):
            return FolderVault(place)
        if self._rest is None or self._rest.address != place:
            self._rest = RestVault(place, self._home)
        return self._rest
