"""What the user decides while an exchange with the hub is under way is not lost, and no project is named needlessly."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from filrouge.core.errors import HubUnavailable
from filrouge.hub.client import HubClient
from filrouge.hub.models import Page, PushAnswer, Version
from filrouge.memories.changes import remember
from filrouge.runtime.services import Parts
from filrouge.team import receiving, service, sharing
from filrouge.testing import idle, running
from tests.support.given import BLOG, SHOP, say
from tests.support.postgres import Hub
from tests.support.waiting import eventually
from tests.unit.hub.shared import team

PORT = "The API of the harbour listens on port 7300."


class Meanwhile(HubClient):
    """A client of a hub, with something that happens during its requests."""

    after: Callable[[], object] | None = None
    away: bool = False
    asked: Sequence[str] = ()

    def _happens(self) -> None:
        """Let it happen, once."""
        what, self.after = self.after, None
        if what is not None:
            what()

    def push(self, versions: Sequence[Version]) -> tuple[PushAnswer, ...]:
        if self.away:
            raise HubUnavailable("The hub is away.")
        answers = super().push(versions)
        self._happens()
        return answers

    def changes(self, *, after: str, limit: int = 500, device: str | None = None, project: str | None = None) -> Page:
        self.asked = [*self.asked, project or ""]
        page = super().changes(after=after, limit=limit, device=device, project=project)
        if project:
            self._happens()
        return page


@pytest.fixture
def secrets(hub: Hub) -> list[str]:
    return team(hub, "Ana", "Ben")


@pytest.fixture
def meanwhile(url: str, secrets: list[str]) -> Meanwhile:
    return Meanwhile(url, secrets[0])


@pytest.fixture
def ana(tmp_path: Path, url: str, secrets: list[str]) -> Generator[Parts]:
    with running(str(tmp_path / "ana")) as parts:
        say(parts, "hello there", SHOP)
        service.join(parts, url, secrets[0])
        parts.team.exchanging.acquire()  # the task of the home waits; the test exchanges
        yield parts
        parts.team.exchanging.release()


def note(parts: Parts, text: str = PORT) -> str:
    actions = remember(parts, text, names=SHOP, scope="project", host="cli")
    idle(parts)
    return actions[-1].memory_id


def state(parts: Parts, memory: str) -> str:
    return service.chosen(parts, [memory])[0]["state"]


def stored(url: str, secret: str) -> list[str]:
    """The live texts on the hub."""
    page = HubClient(url, secret).changes(after="")
    latest = {change.memory: change.content for change in page.changes}
    return [content.text for content in latest.values() if content is not None and content.state == "live"]


def test_what_is_taken_back_during_its_push_leaves_the_hub(
    ana: Parts, meanwhile: Meanwhile, url: str, secrets: list[str]
) -> None:
    memory = note(ana)
    service.share(ana, [memory])
    meanwhile.after = lambda: service.unshare(ana, [memory])
    sharing.push(ana, meanwhile)
    assert state(ana, memory) == "withdrawn"
    assert stored(url, secrets[0]) == []


def test_what_is_declined_before_it_is_sent_is_not_sent(
    ana: Parts, meanwhile: Meanwhile, url: str, secrets: list[str]
) -> None:
    memory = note(ana)
    service.share(ana, [memory])

    def redact(text: str) -> str:  # the last step before a memory is sent
        service.unshare(ana, [memory])
        return text

    sharing.push(replace(ana, redact=redact), meanwhile)
    assert state(ana, memory) == "declined"
    assert stored(url, secrets[0]) == []


def test_what_waits_for_the_hub_stays_here_once_the_policy_ends(
    ana: Parts, meanwhile: Meanwhile, url: str, secrets: list[str]
) -> None:
    service.set_policy(ana, SHOP, "all-memories")
    note(ana)
    sharing.consider_changes(ana)
    chosen = note(ana, "The harbour has three piers.")
    service.share(ana, [chosen])
    service.set_policy(ana, SHOP, "off")
    sharing.push(ana, meanwhile)
    assert stored(url, secrets[0]) == ["The harbour has three piers."]
    service.set_policy(ana, SHOP, "all-memories")
    sharing.push(ana, meanwhile)
    assert stored(url, secrets[0]) == ["The harbour has three piers.", PORT]


def test_what_never_arrived_and_no_policy_covers_now_can_be_shared_by_hand(
    ana: Parts, meanwhile: Meanwhile, url: str, secrets: list[str]
) -> None:
    service.set_policy(ana, SHOP, "all-memories")
    memory = note(ana)
    sharing.consider_changes(ana)
    meanwhile.away = True
    with pytest.raises(HubUnavailable):
        sharing.push(ana, meanwhile)
    service.set_policy(ana, SHOP, "off")
    meanwhile.away = False
    sharing.push(ana, meanwhile)
    assert (state(ana, memory), stored(url, secrets[0])) == ("declined", [])
    service.share(ana, [memory])
    sharing.push(ana, meanwhile)
    assert stored(url, secrets[0]) == [PORT]


def test_a_policy_that_ends_while_earlier_memories_are_read_has_ended(ana: Parts, meanwhile: Meanwhile) -> None:
    service.share(ana, [note(ana)])
    sharing.push(ana, meanwhile)
    say(ana, "hello there", BLOG)
    ana.writer.run(lambda tx: receiving.Team(tx).caught_up(SHOP[0], ""))
    service.set_policy(ana, SHOP, "all-memories")
    meanwhile.after = lambda: service.set_policy(ana, SHOP, "off")
    receiving.pull(ana, meanwhile)
    policies = {one["project"]: one["policy"] for one in service.status(ana)["projects"]}
    assert policies[SHOP[0]] == "off"


def test_a_project_that_the_team_does_not_share_is_not_named(ana: Parts, meanwhile: Meanwhile) -> None:
    service.share(ana, [note(ana)])
    sharing.push(ana, meanwhile)
    say(ana, "hello there", BLOG)
    receiving.pull(ana, meanwhile)
    assert not any("blog" in project for project in meanwhile.asked)


def test_after_days_without_the_hub_it_is_found_again(ana: Parts) -> None:
    ana.team.exchanging.release()
    try:
        ana.team.failures = 5000
        watch = service.team_watch(ana)
        watch.start()
        watch.wake()
        eventually("the hub is found", lambda: ana.team.failures == 0, 10.0)
        watch.stop()
    finally:
        ana.team.exchanging.acquire()
