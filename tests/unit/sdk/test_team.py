"""The verbs of sharing with a team, at a hub that keeps nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import filrouge
from filrouge.core.errors import BadInput
from filrouge.team import service
from filrouge.testing import running
from tests.support import small_hub
from tests.support.given import SHOP, say

from .given import WORDS_ONLY


def test_a_program_says_what_is_shared_and_sees_what_waits(tmp_path: Path) -> None:
    with small_hub.served() as hub:
        with running(str(tmp_path)) as parts:
            say(parts, "hello there", SHOP)
            service.join(parts, hub, small_hub.TOKEN, device_name="laptop")
        with filrouge.BlockingMemory.embedded(str(tmp_path), environ=WORDS_ONLY) as memory:
            team = memory.team()
            assert (team.joined, team.team, team.device, team.joined_at is not None) == (True, "acme", "laptop", True)
            [kiosk] = memory.remember("The kiosk closes at seven.", project="shop", scope="project")
            [quay] = memory.remember("We decided to light the quay in green.", project="shop", scope="project")
            [project] = memory.share_project("shop", "rules-and-decisions", with_evidence=True).projects
            assert (project.policy, project.with_evidence) == ("rules-and-decisions", True)
            assert memory.team_memories() == []
            [project] = memory.share_project("shop", "ask").projects
            assert (project.policy, project.with_evidence) == ("ask", True)
            assert kiosk.id in {one.id for one in memory.team_memories()}
            assert [one.state for one in memory.share([kiosk.id])] == ["queued"]
            [back] = memory.unshare([quay.id])
            assert back.state in ("leaving", "declined", "withdrawn")
            [mine] = memory.remember("I prefer short answers.", scope="user")
            with pytest.raises(BadInput, match="about you"):
                memory.share([mine.id])
