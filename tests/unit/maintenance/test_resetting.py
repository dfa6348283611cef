"""A memory that begins anew still knows which projects nothing may be captured in, by whatever name they were named."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock
from filrouge.core.settings import check
from filrouge.maintenance.restore import reset
from filrouge.projects import service
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.testing import running
from tests.support.given import BLOG, SHOP, event, say

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def is_captured(parts: Parts, project: tuple[str, ...]) -> bool:
    return store_events(parts, [event(project=project, text="The release is on Friday.")]).result(60).accepted == 1


def switch_off(parts: Parts, name: str) -> None:
    named = check({"disabled_projects": [name]}, where="here")
    parts.writer.run(lambda tx: StoredSettings(tx).put(named, NOW))


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


def test_a_project_that_was_switched_off_by_another_name_stays_off(home: str) -> None:
    with running(home) as parts:
        say(parts, "We deploy the shop with ansible.", SHOP)
        service.add_names(parts, SHOP, ["name:hush"])
        switch_off(parts, "name:hush")
        assert not is_captured(parts, SHOP)
    reset(home, SystemClock())
    with running(home) as parts:
        assert not is_captured(parts, SHOP)
        assert is_captured(parts, BLOG)


def test_two_projects_that_were_put_together_stay_one(home: str) -> None:
    with running(home) as parts:
        say(parts, "We deploy the shop with ansible.", SHOP)
        say(parts, "We deploy the blog with terraform.", BLOG)
        service.merge_projects(parts, SHOP, BLOG)
    reset(home, SystemClock())
    with running(home) as parts:
        say(parts, "The shop listens on port 8080.", SHOP)
        say(parts, "The blog listens on port 9090.", BLOG)
        [one] = parts.readers.here(lambda tx: service.list_projects(parts.analyser, tx))
        assert (one["turns"], {SHOP[0], BLOG[0]} <= set(one["aliases"])) == (2, True)
