"""A newcomer sees the first memory, finds why it was injected, corrects it, forgets it and sees the receipt."""

from __future__ import annotations

import pytest

from filrouge.core.clock import Language
from tests.support.browser import chromium
from tests.support.dashboard_tour import STORIES, walk

MOST_CLICKS = 8


@pytest.mark.parametrize("language", STORIES)
def test_a_newcomer_goes_from_an_empty_memory_to_a_receipt_without_documentation(language: Language) -> None:
    with chromium() as browser:
        tour = walk(browser, language)
    assert [name for name, _ in tour.shown] == [
        "empty", "captured", "injections", "why", "correct", "corrected", "before-forgetting", "receipt",
    ]  # fmt: skip
    assert tour.clicks <= MOST_CLICKS
