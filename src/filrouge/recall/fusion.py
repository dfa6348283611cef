"""Fusion: one score out of two that cannot be compared.

Both arms are normalised per query to [0, 1] (min-max over the candidate pool) and mixed by alpha:
`score = (1 - alpha) x lexical + alpha x vector`. An item that one arm did not return counts 0 there.
"""

from __future__ import annotations

from collections.abc import Mapping


def normalised(scores: Mapping[str, float]) -> dict[str, float]:
    """Min-max to [0, 1]; a single distinct value becomes 1, because it is the best there is."""
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (value - low) / (high - low) for key, value in scores.items()}


def fuse(lexical: Mapping[str, float], vector: Mapping[str, float], alpha: float = 0.5) -> dict[str, float]:
    """Mix two normalised score tables.

    Args:
        alpha: 0 = lexical only, 1 = vector only.
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must lie in [0, 1], not {alpha}")
    return {key: (1 - alpha) * lexical.get(key, 0.0) + alpha * vector.get(key, 0.0) for key in {**lexical, **vector}}
