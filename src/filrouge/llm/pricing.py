"""What tokens cost, before they are spent: list prices by genai-prices, and nothing for what runs at home."""

from __future__ import annotations

from typing import Final

#: Whose list a provider's prices stand in. Command lines are paid by subscription, or tell what it was afterwards.
_LISTED: Final = {"anthropic": "anthropic", "openai": "openai"}
_FREE: Final = frozenset({"ollama"})


def dollars(provider: str, model: str, input_tokens: int, output_tokens: int) -> float | None:
    """The list price of so many tokens, None where it is not known."""
    if provider in _FREE:
        return 0.0
    if provider not in _LISTED:
        return None
    from genai_prices import Usage, calc_price

    try:
        used = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        return float(calc_price(used, model, provider_id=_LISTED[provider]).total_price)
    except LookupError:
        return None
