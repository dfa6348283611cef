"""A law of sharing: whatever two homes do, and whenever they exchange, in the end each has what the other shares."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic

import pytest

from filrouge.core.errors import BadInput, NotFound
from filrouge.core.paths import TEAM_TOKEN, load_secret
from filrouge.core.protocols import Tx
from filrouge.erasure.service import ForgetRequest, forget_at_once
from filrouge.hub.client import HubClient
from filrouge.memories.changes import bin_memory, restore, supersede
from filrouge.memories.models import Memory
from filrouge.runtime.services import Parts
from filrouge.team import service, sharing
from filrouge.team.repository import Team
from filrouge.testing import running
from tests.support.given import SHOP
from tests.support.postgres import Hub
from tests.unit.hub.shared import team
from tests.unit.team.shared import begun, exchange, note

THINGS = "crane pier buoy lantern winch barge anchor rudder kiosk ferry dock rope sail mast keel hull".split()
STATES = "painted sealed oiled numbered insured rented inspected weighed measured photographed".split()
PLACES = "Brest Lisbon Gdansk Split Bergen Cork Genoa Porto Kiel Varna".split()
LIGHT, FULL = (1, 40), (5, 60)


@pytest.fixture
def homes(tmp_path: Path, hub: Hub, url: str) -> Generator[list[Parts]]:
    with ExitStack() as opened:
        secrets = zip(("ana", "ben"), team(hub, "Ana", "Ben"), strict=True)
        yield [
            begun(opened.enter_context(running(str(tmp_path / name))), url, secret, name=name, policy="all-memories")
            for name, secret in secrets
        ]


def sentence(chance: random.Random) -> str:
    things, places = chance.choice(THINGS), chance.choice(PLACES)
    return f"The {things} of {places} is {chance.choice(STATES)} every {chance.randrange(1000)} days."


def memories(parts: Parts, *, theirs: bool) -> list[Memory]:
    """The memories of the project in any state that are the user's own, or colleagues'."""

    def read(tx: Tx) -> list[Memory]:
        found = parts.memories(tx).within(project=SHOP[0], user="local", all_states=True)
        received = Team(tx).received_as([memory.id for memory in found])
        return sorted((memory for memory in found if (memory.id in received) == theirs), key=lambda memory: memory.id)

    return parts.readers.here(read)


def act(parts: Parts, chance: random.Random) -> None:
    """Do one thing that a user can do."""
    live = [memory for memory in memories(parts, theirs=chance.random() < 0.3) if memory.state == "live"]
    ended = [memory for memory in memories(parts, theirs=False) if memory.state == "binned"]
    match chance.choice(("note", "note", "correct", "bin", "restore", "unshare", "share", "forget")):
        case "note":
            note(parts, sentence(chance))
        case "correct" if live:
            supersede(parts, chance.choice(live).id, sentence(chance))
        case "bin" if live:
            bin_memory(parts, chance.choice(live).id)
        case "restore" if ended:
            restore(parts, chance.choice(ended).id)
        case "unshare" if own := [memory for memory in memories(parts, theirs=False) if memory.state == "live"]:
            service.unshare(parts, [chance.choice(own).id])
        case "share" if own := [memory for memory in memories(parts, theirs=False) if memory.state == "live"]:
            service.share(parts, [chance.choice(own).id])
        case "forget" if live:
            forget_at_once(parts, ForgetRequest(id=chance.choice(live).id))
        case _:
            pass


def shared(parts: Parts) -> dict[str, str]:
    """What a home shares that holds: text by id."""
    own = [memory for memory in memories(parts, theirs=False) if memory.state == "live"]
    states = parts.readers.here(lambda tx: Team(tx).shared([memory.id for memory in own]))
    return {memory.id: memory.text for memory in own if memory.id in states and states[memory.id].state == "shared"}


def received(parts: Parts) -> dict[str, str]:
    """What a home has of colleagues, by its id on the hub: what became of it, or its state as a memory."""

    def read(tx: Tx) -> dict[str, str]:
        found = Team(tx).received_as([memory.id for memory in memories(parts, theirs=True)])
        here = parts.memories(tx).some(list(found))
        return {one.hub_id: here[id_].state for id_, one in found.items()}

    return parts.readers.here(read)


def is_busy(tx: Tx) -> bool:
    """Whether a home has something to send, or to erase: a read can keep its write-ahead log from being emptied."""
    team = Team(tx)
    return sharing.has_news(tx) or bool(team.received_in("forgetting", 1) or team.received_in("forgotten", 1))


def what_is_missing(ana: Parts, ben: Parts) -> list[str]:
    """What still differs between what each home shares, what the other has of it, and what the hub knows."""
    if any(parts.readers.here(is_busy) for parts in (ana, ben)):
        return ["a home has something to send, or to erase"]
    with ana.team.exchanging, ben.team.exchanging:  # an exchange of their own would be half done
        told = HubClient(service_url(ana), load_secret(ana.home, TEAM_TOKEN)).status()
        missing = [f"{device['name']} has not confirmed" for device in told["unconfirmed"]]
        if told["memories"] != (count := len(shared(ana)) + len(shared(ben))):
            missing.append(f"the hub has {told['memories']} memories, the homes share {count}")
        for author, reader in ((ana, ben), (ben, ana)):
            there, here = shared(author), received(reader)
            known = reader.readers.here(lambda tx, ids=[*there]: Team(tx).received(ids))
            missing += [f"{id_} is not shared" for id_, state in here.items() if state == "live" and id_ not in there]
            missing += [f"{id_} has not arrived" for id_ in there.keys() - known.keys()]
    return missing


@pytest.mark.parametrize("law", [LIGHT, pytest.param(FULL, marks=pytest.mark.slow)], ids=["light", "full"])
def test_in_the_end_each_home_has_what_the_other_shares_and_nothing_else(
    homes: list[Parts], law: tuple[int, int]
) -> None:
    seeds, steps = law
    for seed in range(seeds):
        chance = random.Random(seed)
        for _ in range(steps):
            if chance.random() < 0.2:
                exchange(chance.choice(homes))
                continue
            with suppress(BadInput, NotFound):  # an exchange was faster
                act(chance.choice(homes), chance)
        exchange(*homes)
        # A reader sees a change once every transaction that began before it has ended, so one round may not be enough.
        until = monotonic() + 60
        while (missing := what_is_missing(*homes)) and monotonic() < until:
            exchange(*homes)
        assert missing == [], seed


def service_url(parts: Parts) -> str:
    return str(service.status(parts)["url"])
