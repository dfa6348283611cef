"""What a language model is to be: whose, which, where, and how long it may take.

The environment comes in as a value, and only the provider that was chosen looks for its key there, so a key that
happens to be set never switches on spending.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from filrouge.address import checked_address, is_loopback
from filrouge.errors import BadConfig

Mode = Literal["light", "normal", "heavy", "max"]
#: The size of the provider's model in each mode.
SIZE_OF: Final[Mapping[Mode, str]] = {"light": "small", "normal": "small", "heavy": "large", "max": "large"}
#: Seconds for one answer. A model at home is slower than one in a data centre.
SECONDS: Final[Mapping[str, float]] = {"ollama": 60.0}
_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class BySize:
    """A provider's models by size. Only names: what a provider offers is its own affair, and changes."""

    small: str
    medium: str
    large: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """How a model is to be made.

    Attributes:
        provider: anthropic, openai, ollama, claude_cli, codex_cli, or another registered name.
        model: the name the provider knows it by, or small, medium, large; empty = by `mode`.
        mode: light and normal take the provider's small model, heavy and max its large one.
        url: address of the server; empty = the provider's own. Says nothing to the command lines.
        seconds: the longest an answer may take; 0 = 60 for Ollama, 30 for the others.
        cli_path: of `claude` or `codex`, absolute; empty = the first on the environment's PATH.
        decides: whether this model is trusted with decisions about what is known; None = all but Ollama's.
        environ: the environment, for keys, addresses and child processes; never shown.
    """

    provider: str
    model: str = ""
    mode: Mode = "normal"
    url: str = ""
    seconds: float = 0.0
    cli_path: str = ""
    decides: bool | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def limit(self) -> float:
        """The seconds that hold."""
        return self.seconds or SECONDS.get(self.provider, _SECONDS)

    def model_of(self, sizes: BySize) -> str:
        """The model's name at the provider."""
        named = self.model.strip()
        match named.lower() or SIZE_OF[self.mode]:
            case "small":
                return sizes.small
            case "medium":
                return sizes.medium
            case "large":
                return sizes.large
            case _:
                return named

    def address(self, default: str, variable: str = "") -> str:
        """The server's address without a trailing slash: the option, else that variable, else the default.

        Raises:
            BadConfig: it is no address.
        """
        if self.url.strip():
            return checked_address(self.url, setting="llm_url")
        given = self.environ.get(variable, "").strip() if variable else ""
        return checked_address(given, setting=variable) if given else default

    def key(self, variable: str, *, who: str, address: str, needed: bool) -> str:
        """The API key; nothing where it would go unencrypted to another machine.

        Raises:
            BadConfig: it is needed and not set, or holds what cannot be in a key, such as the end of a line.
        """
        found = self.environ.get(variable, "").strip()
        if not found and needed:
            raise BadConfig(
                f"{who} needs a key, and {variable} is not set.",
                remedy=f"Set {variable} in the daemon's environment, or choose another provider.",
            )
        if not all("!" <= character <= "~" for character in found):
            raise BadConfig(f"{variable} holds characters that no key has.", remedy=f"Set {variable} again.")
        return found if is_loopback(address) or address.startswith("https:") else ""
