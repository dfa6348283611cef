"""Sharing with a team in trouble: nothing acknowledged is lost, nothing is there twice, and no prompt waits.

Hubs, daemons and PostgreSQL are killed and restarted, the network is cut, slow, half-open or ends in the middle of an
answer, disks are full and clocks are a day apart. Then all heals, and both homes and the hub have what was said, each
once. FILROUGE_SEED repeats the choice of moments.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from filrouge.core.errors import FilrougeError
from filrouge.memories.changes import bin_memory, remember, supersede
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.team import service
from filrouge.testing import idle
from tests.support.given import SHOP, ask, say
from tests.support.proxy import Weather, cut_somewhere
from tests.support.team_processes import Colleague, Office, clone, colleague, office
from tests.support.tiers import is_proof

from .processes import (
    Forge,
    assert_sound,
    daemon,
    eventually,
    hook,
    is_up,
    kill,
    left,
    prompt,
    throw_away_home,
    tiny_disk,
    workplace,
)
from .test_kill import statement

#: In `make test`, and in `make proof`.
HUB_KILLS = 200 if is_proof() else 20
DAEMON_KILLS = 200 if is_proof() else 20
#: What an agent waits for a hook at the most.
HOOK_SECONDS = 2.0


@pytest.fixture(scope="module")
def place() -> Generator[Office]:
    with office() as found:
        yield found


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("FILROUGE_SEED") or secrets.randbelow(1 << 32))
    print(f"seed {seed}")
    return random.Random(seed)


@dataclass(kw_only=True)
class Team:
    """Two members, and everything that they were told is stored."""

    place: Office
    secret: str
    people: tuple[Colleague, Colleague]
    said: list[str]

    def note(self, person: Colleague) -> str:
        """Have somebody state something new."""
        text = statement(len(self.said))
        self.said.append(text)
        return person.note(text)

    def stored(self) -> list[str]:
        """The live memories on the hub, sorted."""
        client, latest, cursor = self.place.client(self.secret), dict[str, str](), ""
        while True:
            page = client.changes(after=cursor)
            for change in page.changes:
                if change.content is not None and change.content.state == "live":
                    latest[change.memory] = change.content.text
                else:
                    latest.pop(change.memory, None)
            cursor = page.cursor
            if page.complete:
                return sorted(latest.values())

    def converges(self, seconds: float = 60.0, *, pushing: bool = True) -> None:
        """Wait until both homes and the hub have exactly what was said, each once."""
        expected = sorted(self.said)

        def is_equal() -> bool:
            if pushing:
                for person in self.people:
                    person.synchronise()
            return [person.live() for person in self.people] == [expected, expected] and self.stored() == expected

        eventually("both homes and the hub have exactly what was said", is_equal, seconds)
        assert [person.team()["problem"] for person in self.people] == ["", ""]


@contextmanager
def gathered(place: Office) -> Generator[Team]:
    """Two members of a new team, who share all memories of the project."""
    with ExitStack() as stack:
        people = stack.enter_context(colleague("Ana")), stack.enter_context(colleague("Ben"))
        joined = place.members("Ana", "Ben")
        for person, secret in zip(people, joined, strict=True):
            person.join(place.network.url, secret)
        place.network.weather = "fair"
        yield Team(place=place, secret=joined[0], people=people, said=[])


@pytest.fixture
def team(place: Office) -> Generator[Team]:
    with gathered(place) as found:
        yield found
    place.network.weather = "fair"


# The hub.


def test_a_hub_that_is_killed_again_and_again_loses_nothing_and_stores_nothing_twice(
    team: Team, chance: random.Random
) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        for _ in range(HUB_KILLS):
            for person in team.people:
                team.note(person)
            exchanges = [pool.submit(person.synchronise) for person in team.people]
            time.sleep(chance.uniform(0, 0.2))
            team.place.serving.kill()
            for exchange in exchanges:
                exchange.result()
            team.place.serving.start()
    killing = time.monotonic() - began
    team.converges()
    print(f"{HUB_KILLS} kills of the hub in {killing:.1f} s, {len(team.said)} memories; then equal everywhere")


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGQUIT, marks=pytest.mark.slow)])
def test_postgres_that_is_restarted_loses_nothing(team: Team, how: signal.Signals) -> None:
    for person in team.people:
        team.note(person)
    with ThreadPoolExecutor(2) as pool:
        exchanges = [pool.submit(person.synchronise) for person in team.people]
        team.place.cluster.stop(how)
        team.note(team.people[0])
        for exchange in exchanges:
            exchange.result()
    assert "does not answer" in team.people[0].synchronise()["problem"]
    team.place.cluster.start()
    team.converges()


# The network.


def answered(person: Colleague, number: int) -> float:
    """The seconds that a prompt's hook takes, which ends as it always does."""
    done = hook(person.home, prompt(person.home, f"p{number}", str(number), f"What about the pier {number}?"))
    assert done.code == 0
    return done.seconds


def test_prompts_do_not_wait_for_a_hub_that_hangs_and_the_backlog_drains_on_its_own(team: Team) -> None:
    ana, network = team.people[0], team.place.network
    team.note(ana)
    team.converges()
    answered(ana, 0)
    usual = [answered(ana, number) for number in range(1, 16)]
    network.weather, asked = "half-open", network.requests
    for person in team.people:
        team.note(person)
    eventually("both exchanges hang", lambda: network.requests >= asked + 2, 10)
    hanging = [answered(ana, number) for number in range(21, 36)]
    print(f"hook, median of 15: {statistics.median(usual):.3f} s, {statistics.median(hanging):.3f} s while a hub hangs")
    assert max(hanging) < HOOK_SECONDS
    network.weather = "reset"
    network.drop()
    asked, began = network.requests, time.monotonic()
    eventually("the daemon says so", lambda: "does not answer" in ana.team()["problem"], 10)
    time.sleep(6)
    tries = network.requests - asked
    print(f"{tries} tries of two daemons in {time.monotonic() - began:.1f} s without a network")
    assert tries <= 8
    network.weather = "fair"
    team.converges(60, pushing=False)


@pytest.mark.parametrize("weather", ["cut", pytest.param("slow", marks=pytest.mark.slow)])
def test_answers_that_end_in_the_middle_or_come_late_lose_nothing(
    team: Team, chance: random.Random, weather: Weather
) -> None:
    network = team.place.network
    for number in range(4 if weather == "slow" else 40 if is_proof() else 15):
        person = team.people[number % 2]
        team.note(person)
        if weather == "cut":
            cut_somewhere(network, chance)
        else:
            network.weather = weather
        began = time.monotonic()
        person.synchronise()
        if weather == "slow":
            assert time.monotonic() - began >= network.seconds
            assert answered(person, number) < HOOK_SECONDS
    network.weather = "fair"
    team.converges()


def test_a_daemon_stops_while_the_hub_hangs(place: Office) -> None:
    with gathered(place) as team:
        place.network.weather = "half-open"
        asked = place.network.requests
        eventually("both exchanges hang", lambda: place.network.requests >= asked + 2, 10)
        began = time.monotonic()
    took = time.monotonic() - began
    place.network.weather = "fair"
    print(f"two daemons stopped in {took:.1f} s while the hub hung")
    assert took < 10
    assert team.said == []


# The daemon.


@pytest.mark.slow
def test_a_daemon_that_is_killed_again_and_again_loses_nothing_and_receives_nothing_twice(
    place: Office, chance: random.Random
) -> None:
    ana_secret, ben_secret = place.members("Ana", "Ben")
    with throw_away_home() as home, colleague("Ben") as ben:
        clone(workplace(home))
        forge, ana = Forge(home), Colleague(name="Ana", home=home)
        with daemon(home):
            ana.join(place.network.url, ana_secret)
        ben.join(place.network.url, ben_secret)
        team = Team(place=place, secret=ana_secret, people=(ana, ben), said=[])
        for _ in range(DAEMON_KILLS):
            process = forge.daemon()
            eventually("the daemon answers", lambda: is_up(home))
            for person in (ana, ben, ana):
                team.note(person)
            with ThreadPoolExecutor(2) as pool:
                exchange = pool.submit(_quietly, ana.synchronise)
                pool.submit(ben.synchronise)
                time.sleep(chance.uniform(0, 0.4))
                kill(process)
                exchange.result()
        with daemon(home):
            team.converges()
        forge.close()
        assert_sound(home)
        assert len(left(home).memories) == len(team.said)
        print(f"{DAEMON_KILLS} kills of a daemon, {len(team.said)} memories; then equal everywhere")


def _quietly(work: Callable[[], object]) -> None:
    """Do something with a daemon that may be killed meanwhile."""
    with suppress(FilrougeError, OSError, AssertionError):
        work()


# Full disks.


@pytest.mark.slow
def test_a_full_disk_at_the_hub_loses_nothing() -> None:
    if os.geteuid() != 0:
        pytest.skip("a small disk needs root and mount")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="frl-pg-") as folder, ExitStack() as stack:
        os.chmod(folder, 0o755)
        data = Path(folder, "data")
        fill = stack.enter_context(tiny_disk(str(data), megabytes=80))
        place = stack.enter_context(office(data))
        team = stack.enter_context(gathered(place))
        ana, _ = team.people
        team.note(ana)
        team.converges()
        fill()
        for _ in range(30):
            team.note(ana)
        eventually("the hub refuses", lambda: ana.synchronise()["problem"] != "", 30)
        print(ana.team()["problem"])
        assert answered(ana, 1) < HOOK_SECONDS
        (data / "filler").unlink()
        team.converges()


def test_a_full_disk_at_the_receiving_home_loses_nothing(place: Office) -> None:
    ana_secret, ben_secret = place.members("Ana", "Ben")
    with throw_away_home() as home, colleague("Ana") as ana, tiny_disk(home, megabytes=6) as fill:
        clone(workplace(home))
        ben = Colleague(name="Ben", home=home)
        with daemon(home):
            ana.join(place.network.url, ana_secret)
            ben.join(place.network.url, ben_secret)
            team = Team(place=place, secret=ana_secret, people=(ana, ben), said=[])
            team.note(ana)
            team.converges()
            fill()
            for _ in range(60):
                team.note(ana)
            ana.synchronise()
            eventually("the home is full", lambda: ben.synchronise()["problem"] != "", 30)
            print(ben.team()["problem"])
            os.unlink(os.path.join(home, "filler"))
            team.converges()


# Clocks.


class Skewed:
    """The clock of a machine that is wrong."""

    def __init__(self, days: float) -> None:
        self._by = timedelta(days=days)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._by


@contextmanager
def skewed(folder: Path, days: float) -> Generator[Parts]:
    os.makedirs(folder)
    whole = wiring.start(str(folder), environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=Skewed(days))
    try:
        idle(whole.parts)
        yield whole.parts
    finally:
        whole.stop()


def exchange(*homes: Parts) -> None:
    for parts in homes:
        idle(parts)
        service.synchronise(parts)
        assert parts.team.problem == ""
        idle(parts)


def live(parts: Parts) -> dict[str, str]:
    """The ids of the project's live memories by text."""
    found = parts.readers.here(lambda tx: parts.memories(tx).within(project=SHOP[0], user="local"))
    return {memory.text: memory.id for memory in found}


@pytest.mark.parametrize("days", [1, -1])
def test_clocks_that_are_a_day_apart_change_nothing(place: Office, tmp_path: Path, days: int) -> None:
    def note(parts: Parts, text: str) -> str:
        return remember(parts, text, names=SHOP, scope="project", host="cli")[-1].memory_id

    with skewed(tmp_path / "ana", days) as ana, skewed(tmp_path / "ben", 0) as ben:
        for parts, secret in zip((ana, ben), place.members("Ana", "Ben"), strict=True):
            say(parts, "hello there")
            service.join(parts, place.network.url, secret)
            service.set_policy(parts, SHOP, "all-memories")
        port = note(ana, "The API of the harbour listens on port 7300.")
        crane = note(ben, "The crane of the harbour lifts nine tonnes.")
        exchange(ana, ben, ana)
        assert (
            sorted(live(ana))
            == sorted(live(ben))
            == sorted(["The API of the harbour listens on port 7300.", "The crane of the harbour lifts nine tonnes."])
        )
        assert "7300" in ask(ben, "Which port does the API of the harbour use?")
        assert "nine tonnes" in ask(ana, "How much does the crane of the harbour lift?")
        supersede(ana, port, "The API of the harbour listens on port 7301.")
        supersede(ben, crane, "The crane of the harbour lifts ten tonnes.")
        exchange(ana, ben, ana)
        assert (
            sorted(live(ana))
            == sorted(live(ben))
            == sorted(["The API of the harbour listens on port 7301.", "The crane of the harbour lifts ten tonnes."])
        )
        supersede(ben, live(ben)["The API of the harbour listens on port 7301."], "That API has moved to port 7400.")
        exchange(ben, ana, ben)
        assert "7400" in ask(ben, "Which port does the API of the harbour use?")
        assert "7301" not in ask(ben, "Which port does the API of the harbour use?")
        bin_memory(ben, live(ben)["The crane of the harbour lifts ten tonnes."])
        exchange(ben, ana)
        assert not any("tonnes" in text for text in live(ana))
        service.leave(ben)
        assert not any("730" in text for text in live(ben))
