"""A team in real processes: what one decides reaches the other's next prompt, what is not shared stays, all is erased.

PostgreSQL, `filrouge hub serve`, a network that records every byte, and two daemons with the real hook.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from filrouge.erasure.service import files_containing
from tests.reliability import processes
from tests.reliability.processes import eventually
from tests.support.canaries import canary, forms, left
from tests.support.team_processes import ADDRESS, Colleague, Office, clone, colleague, office

SECONDS = 5.0
PORT = "We decided to run the API of the harbour on port 7300."
WHICH = "Which port does the API of the harbour use?"


@pytest.fixture(scope="module")
def place() -> Generator[Office]:
    with office() as found:
        yield found


@pytest.fixture
def team(place: Office) -> Iterator[tuple[Colleague, Colleague]]:
    """Ana and Ben, who share all memories of the project."""
    ana, ben = place.members("Ana", "Ben")
    with ExitStack() as stack:
        people = stack.enter_context(colleague("Ana")), stack.enter_context(colleague("Ben"))
        for person, secret in zip(people, (ana, ben), strict=True):
            person.join(place.network.url, secret)
        yield people


def until_asked(person: Colleague, question: str, word: str, seconds: float) -> tuple[str, float]:
    """Ask through the hook until a word is in the block; return its line, and how long it took."""
    began = time.monotonic()
    while True:
        found = [line for line in person.say(question).splitlines() if word in line]
        took = time.monotonic() - began
        if found:
            return found[0], took
        assert took < seconds, f"after {took:.1f} s {word} is not in the block"
        time.sleep(0.05)


def test_a_decision_is_before_the_others_next_prompt_with_the_authors_name(team: tuple[Colleague, Colleague]) -> None:
    ana, ben = team
    for speaker, said, reader, question, word in (
        (ana, PORT, ben, WHICH, "7300"),
        (ben, "On a décidé de déployer le port avec Nomad.", ana, "Avec quoi déployer le port ?", "Nomad"),
    ):
        speaker.say(said)
        line, took = until_asked(reader, question, word, SECONDS)
        print(f"{word} after {took:.1f} s: {line}")
        assert f"{speaker.name} (team)" in line


def test_the_readers_own_correction_wins_and_leaving_erases_what_was_received(
    team: tuple[Colleague, Colleague],
) -> None:
    ana, ben = team
    ana.say(PORT)
    until_asked(ben, WHICH, "7300", SECONDS)
    ben.say("Correction: the API of the harbour runs on port 7412, not 7300.")
    ana.say("We decided to name the crane Bertha.")
    until_asked(ben, "What is the crane called?", "Bertha", SECONDS)
    block = ben.say(WHICH)
    assert "7412" in block
    assert "port 7300." not in block
    assert ben.ask("POST", "/api/team/leave")["erased"] == 2
    assert files_containing(ben.home, ["Bertha"]) == []
    assert "7412" in ben.say(WHICH)


# What must not leave.

#: How the canaries begin that stay, the one that is shared, and those that are forgotten.
KEPT, SHARED, GONE = "zqkeepathome", "zqshowothers", "zqforgetthis"


def canaries(mark: str) -> Iterator[str]:
    chance = random.Random(20261127)
    return (mark + canary(chance, 1)[2:] for _ in range(100))


def kept(ana: Colleague, words: Iterator[str]) -> dict[str, str]:
    """Have Ana say and keep one canary of each kind that is not shared; return them by kind."""
    found = dict[str, str]()

    def word(kind: str) -> str:
        found[kind] = next(words)
        return found[kind]

    beside = Path(ana.home).parent
    ana.share_project("ask")
    declined = ana.note(f"The {word('declined')} crane lifts nine tonnes.")
    ana.ask("POST", "/api/team/unshare", {"ids": [declined]})
    ana.share_project("off")
    rule = {"text": f"Never push to the {word('switched off')} branch.", "project": [f"origin:{ADDRESS}"]}
    rule_id = ana.ask("POST", "/api/memory/rules", rule)["id"]
    ana.ask("PATCH", f"/api/memory/rules/{rule_id}", {"enabled": False})
    ana.share_project("all-memories")

    ana.say(f"We decided to use Caddy as the proxy. Would you look whether {word('turn')} is still running?")
    ana.say(f"For the record {word('quote')}: the pier has nine lamps.")
    processes.hook(ana.home, processes.tool(ana.home, "s1", "t1", f'{{"out": "{word("tool output")}"}}'))
    processes.hook(ana.home, processes.reply(ana.home, "s1", "1", f"I looked at {word('reply')} and it seems fine."))
    ana.note(f"I prefer the {word('user scope')} colour scheme.", scope="user")
    ana.say(f"For the record: the API key of the crane is sk-proj-{word('secret')}4f9A8b7C6d5E4f3A2b1C0d9E8f7A6b5C.")

    for kind, address in (("policy off", f"forge.example/ana/{word('address')}"), ("no remote", "")):
        folder = beside / kind.replace(" ", "-")
        folder.mkdir()
        if address:
            clone(str(folder), address)
        said = f"We decided to moor the {word(kind)} ferry here."
        payload = processes.prompt(ana.home, kind, "1", said) | {"cwd": str(folder)}
        assert processes.hook(ana.home, payload).code == 0

    vault = beside / word("path")
    vault.mkdir()
    (vault / "Pier.md").write_text(f"# Pier\n\nWe decided that {word('note')} is painted blue.\n", encoding="utf-8")
    ana.ask("PATCH", "/api/memory/settings", {"notes_folder": str(vault)})

    for number in range(3):
        ana.say(f"Please go on with step {number} of moving the beacon to the third quay.", "work")
        told = f"Step {number} of moving {word('summary') if number == 0 else found['summary']} is done."
        processes.hook(ana.home, processes.reply(ana.home, "work", str(ana.sessions), told))
    eventually("all is understood", lambda: processes.quiet(ana.home))
    [thread, *_] = ana.ask("GET", f"/api/memory/threads?project={quote('origin:' + ADDRESS)}")
    ana.ask("PATCH", f"/api/memory/threads/{thread['id']}", {"title": f"Beacon of {word('title')}"})
    ana.ask("POST", "/hooks/events", None) if False else None
    eventually("the note is read", lambda: ana.ask("GET", "/api/memory/notes")["notes"] > 0)
    return found


def rows(place: Office) -> bytes:
    """Every row of every table, as PostgreSQL writes them out."""
    found = bytearray()
    with psycopg.connect(place.hub.superuser, dbname=place.hub.name) as connection:
        tables = connection.execute("SELECT schemaname, tablename FROM pg_tables WHERE schemaname = 'hub'").fetchall()
        assert len(tables) >= 8
        for table in tables:
            with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(*table))) as copied:
                for piece in copied:
                    found += piece
    return bytes(found)


def files(place: Office) -> Iterator[tuple[str, bytes]]:
    """Every file of PostgreSQL, the WAL too, after what was in its memory is written."""
    with psycopg.connect(place.hub.superuser, dbname=place.hub.name, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    for path in place.cluster.data.rglob("*"):
        if path.is_file():
            yield str(path.relative_to(place.cluster.data)), path.read_bytes()


def inside(content: bytes, words: Iterable[str]) -> list[str]:
    """The words that stand in these bytes in any writing."""
    lower = content.lower()
    return [word for word in words if any(form in content or form in lower for form in forms(word))]


def test_twelve_kinds_of_content_never_leave(place: Office, team: tuple[Colleague, Colleague]) -> None:
    ana, ben = team
    found, shared = kept(ana, canaries(KEPT)), next(canaries(SHARED))
    ana.note(f"The {shared} beacon is green.")
    until_asked(ben, "Which colour has the beacon?", shared, 2 * SECONDS)
    for person in (ana, ben):
        assert person.synchronise()["problem"] == ""
    wire = bytes(place.network.sent + place.network.answers)
    for what, content in (("wire", wire), ("rows", rows(place))):
        leaked = [kind for kind, word in found.items() if inside(content, [word])]
        assert (what, leaked, inside(content, [shared])) == (what, [], [shared])
    assert [name for name, content in files(place) if inside(content, [KEPT])] == []
    assert ana.home.encode() not in wire
    here = left(ana.home, list(found.values()))
    assert [kind for kind, word in found.items() if word not in here] == ["secret"], "not every canary came in"


# Forgetting.


def test_a_hundred_forgotten_memories_are_gone_from_the_hub_and_every_device(place: Office) -> None:
    joined = place.members("Ana", "Ben", "Cid")
    client = place.client(joined[0])
    with psycopg.connect(place.hub.superuser, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET wal_recycle = off")  # else old WAL stays as room for new
        connection.execute("SELECT pg_reload_conf()")
    with ExitStack() as stack, processes.throw_away_home() as off:
        ana, ben = stack.enter_context(colleague("Ana")), stack.enter_context(colleague("Ben"))
        cid = Colleague(name="Cid", home=off)
        clone(processes.workplace(off))
        with processes.daemon(off):
            for person, secret in zip((ana, ben, cid), joined, strict=True):
                person.join(place.network.url, secret)
            for number, word in enumerate(canaries(GONE)):
                ana.note(f"the {word}-{number} service listens on port {10_000 + number} at {GONE}")
            for person in (ana, ben, cid):
                person.synchronise()
            eventually("all is embedded", lambda: all(processes.quiet(one.home) for one in (ana, ben, cid)))
            assert [sum(GONE in text for text in one.live()) for one in (ana, ben, cid)] == [100, 100, 100]
        assert rows(place).count(GONE.encode()) >= 200

        receipt = ana.ask("POST", "/api/memory/forget", {"text": GONE, "at_once": True})
        assert receipt["ok"], receipt
        for person in (ana, ben, ana):
            assert person.synchronise()["problem"] == ""
        for person in (ana, ben):
            assert files_containing(person.home, [GONE]) == []
            assert left(person.home, [GONE]) == {}
        assert inside(rows(place), [GONE]) == []
        [waiting] = client.status()["unconfirmed"]
        assert (waiting["name"], waiting["memories"]) == ("Cid's laptop", 100)

        found = [remains(place)]
        for command in ("VACUUM", "VACUUM FULL"):
            with psycopg.connect(place.hub.superuser, dbname=place.hub.name, autocommit=True) as connection:
                connection.execute(command)  # pyright: ignore[reportArgumentType, reportCallIssue]
            found.append(remains(place))
        with psycopg.connect(place.hub.superuser, autocommit=True) as connection:
            connection.execute("SELECT pg_switch_wal()")
        eventually("the WAL is gone", lambda: remains(place) == (0, 0), 10)
        print(f"tables, WAL: after forgetting {found[0]}, after VACUUM {found[1]}, after VACUUM FULL {found[2]}")
        assert found[2][0] == 0

        with processes.daemon(off):
            eventually("the device that was off confirms", lambda: client.status()["unconfirmed"] == [])
        assert files_containing(off, [GONE]) == []


def remains(place: Office) -> tuple[int, int]:
    """How often a forgotten memory stands in the files of tables and indexes, and in the WAL."""
    tables = wal = 0
    for name, content in files(place):
        if name.startswith("pg_wal"):
            wal += content.count(GONE.encode())
        else:
            tables += content.count(GONE.encode())
    return tables, wal
