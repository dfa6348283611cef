"""What a factory of embedders may be told: which model, where, how long its vectors are, and who counts the cost.

A factory that wants to know has a parameter named `options`; one that needs nothing is a class without arguments.
The environment comes in as a value, and only the factory of the provider that was chosen looks for its key there, so
a key that happens to be set never switches on spending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from filrouge.errors import BadConfig
from filrouge.ports import EmbeddingUsage

Spent = Callable[[EmbeddingUsage], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedderOptions:
    """How an embedder is to be made.

    Attributes:
        model: the part of `embedding_model` after the provider and a colon; empty = none was named.
        url: address of the server; empty = the provider's own.
        dimensions: length of the vectors; 0 = the model's own.
        environ: the environment, for keys and addresses; never shown.
        spent: called after each paid or counted request, from any thread; None = only the embedder's own total is kept.
        query_seconds: the longest a question may take, retries included, because a prompt waits for it.
        passages_seconds: the longest one request for passages may take; retries come on top.
        rest_seconds: how long an embedder is left alone after repeated failures.
    """

    model: str = ""
    url: str = ""
    dimensions: int = 0
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    spent: Spent | None = None
    query_seconds: float = 2.0
    passages_seconds: float = 30.0
    rest_seconds: float = 30.0

    def model_of(self, provider: str, example: str) -> str:
        """The model's name.

        Raises:
            BadConfig: none was named.
        """
        if not self.model.strip():
            raise BadConfig(
                f"`{provider}` needs the name of a model.",
                remedy=f"Set `embedding_model` to `{provider}:{example}`, for example.",
            )
        return self.model.strip()

    def key(self, variable: str) -> str:
        """The API key of that variable, or nothing.

        Raises:
            BadConfig: it holds what cannot be in a key, such as the end of a line.
        """
        found = self.environ.get(variable, "").strip()
        if not all("!" <= character <= "~" for character in found):
            raise BadConfig(f"{variable} holds characters that no key has.", remedy=f"Set {variable} again.")
        return found
