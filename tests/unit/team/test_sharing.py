"""Sharing with a team: what one shares is in the other's memory, and nothing else leaves a home."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from filrouge.core.errors import BadInput, Forbidden, NotFound, Unauthorized
from filrouge.core.paths import TEAM_TOKEN, load_secret
from filrouge.core.protocols import Tx
from filrouge.erasure.service import ForgetRequest, files_containing, forget_at_once
from filrouge.hub.client import HubClient
from filrouge.memories.changes import add_for_agent, bin_memory, restore, supersede
from filrouge.memories.service import add_rule, list_reviews, settle
from filrouge.runtime.services import Parts
from filrouge.team import service
from filrouge.team.models import Shared
from filrouge.team.repository import Team
from filrouge.testing import running
from tests.support.given import BLOG, SHOP, ask, say
from tests.support.postgres import Hub
from tests.unit.hub.shared import CLOCK, team, ulid, version
from tests.unit.team.shared import begun, exchange, live, note, reviews

Join = Callable[..., Parts]
PORT = "The API of the harbour listens on port 7300."


@pytest.fixture
def home(tmp_path: Path, url: str) -> Generator[Join]:
    """Begins a home that belongs to a team and knows the project; `policy` is what it shares of it."""
    with ExitStack() as opened:

        def begin(name: str, secret: str, *, policy: str = "off", project: tuple[str, ...] = SHOP) -> Parts:
            parts = opened.enter_context(running(str(tmp_path / name)))
            return begun(parts, url, secret, name=name, policy=policy, project=project)

        yield begin


@pytest.fixture
def ana_and_ben(hub: Hub, home: Join) -> tuple[Parts, Parts]:
    ana, ben = team(hub, "Ana", "Ben")
    return home("ana", ana, policy="all-memories"), home("ben", ben, policy="all-memories")


def test_what_one_decides_is_before_the_others_next_prompt_with_the_authors_name(
    ana_and_ben: tuple[Parts, Parts],
) -> None:
    ana, ben = ana_and_ben
    note(ana, PORT)
    exchange(ana, ben)
    [line] = [line for line in ask(ben, "Which port does the API of the harbour use?").splitlines() if "7300" in line]
    assert "Ana (team)" in line
    assert "unverified" in line


def test_what_is_outside_the_policy_stays(hub: Hub, home: Join) -> None:
    secret, other = team(hub, "Ana", "Ben")
    ana, ben = home("ana", secret, policy="rules-and-decisions"), home("ben", other)
    note(ana, "The kiosk closes at seven.")
    note(ana, "I prefer short answers.", scope="user")
    note(ana, "We decided to use Caddy as the proxy.")
    note(ana, "We decided to write the blog in Hugo.", names=BLOG)
    exchange(ana, ben)
    assert [text for text, memory in live(ben).items() if memory.made_by == "team"] == [
        "We decided to use Caddy as the proxy."
    ]


def test_under_the_policy_ask_a_memory_waits_until_the_user_shares_it(hub: Hub, home: Join) -> None:
    secret, other = team(hub, "Ana", "Ben")
    ana, ben = home("ana", secret, policy="ask"), home("ben", other)
    first, second = note(ana, PORT), note(ana, "Prices of the harbour are in cents.")
    exchange(ana, ben)
    assert {one["id"] for one in service.listed(ana)} == {first, second}
    service.share(ana, [first])
    service.unshare(ana, [second])
    exchange(ana, ben)
    assert PORT in live(ben)
    assert "Prices of the harbour are in cents." not in live(ben)
    assert service.listed(ana) == []


def test_the_words_of_an_agent_wait_for_the_user_under_every_policy(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    [action] = add_for_agent(ana, "The harbour was built in 1911.", names=SHOP, host="codex")
    exchange(ana, ben)
    assert "The harbour was built in 1911." not in live(ben)
    assert [one["id"] for one in service.listed(ana)] == [action.memory_id]


def test_the_readers_own_correction_wins(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    original = note(ana, PORT)
    exchange(ana, ben)
    supersede(ben, live(ben)[PORT].id, "The API of the harbour listens on port 7412.")
    note(ana, "The harbour has three piers.")
    exchange(ana, ben, ana)
    block = ask(ben, "Which port does the API of the harbour use?")
    assert "7412" in block
    assert "7300" not in block
    assert "Ana" not in block
    # Ana's own words stay, and she is asked.
    assert live(ana)[PORT].id == original
    assert reviews(ana) == [("conflict", "The API of the harbour listens on port 7412.")]


def test_what_the_user_said_later_holds_without_a_question_and_what_they_said_earlier_is_asked(
    ana_and_ben: tuple[Parts, Parts],
) -> None:
    ana, ben = ana_and_ben
    earlier, later = "The API of the harbour listens on port 7100.", "The crane of the harbour listens on port 9200."
    note(ben, earlier)
    note(ana, PORT)
    note(ana, "The crane of the harbour listens on port 9100.")
    note(ben, later)
    exchange(ana, ben)
    assert reviews(ben) == [("conflict", PORT)]
    assert {text for text in live(ben) if "port" in text} == {earlier, later}


def test_what_both_said_is_there_once(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    own = note(ben, PORT)
    note(ana, PORT)
    exchange(ana, ben, ana)
    assert [memory.id for text, memory in live(ben).items() if "7300" in text] == [own]
    assert ask(ben, "Which port does the API of the harbour use?").count("port 7300.") == 1


def test_a_colleagues_rule_counts_only_once_the_reader_has_accepted_it(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    add_rule(ana, "Always run the linter before a commit.", names=SHOP, scope="project")
    exchange(ana, ben)
    assert "linter" not in ask(ben, "Please commit the change to the harbour.")
    [review] = ben.readers.here(lambda tx: list_reviews(ben, tx))
    assert review["kind"] == "quarantine"
    settle(ben, review["id"], "accept")
    assert "linter" in ask(ben, "Please commit the change to the harbour.")


def test_a_rule_that_an_admin_accepts_for_everybody_waits_no_longer_and_what_the_reader_decided_stays(
    hub: Hub, home: Join
) -> None:
    names = ("Ana", "Ben", "Cleo", "Dan")
    ana, ben, cleo, dan = map(home, map(str.lower, names), team(hub, *names))
    service.set_policy(ben, SHOP, "all-memories")
    rule = add_rule(ben, "Always run the linter before a commit.", names=SHOP, scope="project").memory_id
    exchange(ben, ana, cleo, dan)
    [waiting] = dan.readers.here(lambda tx: list_reviews(dan, tx))
    settle(dan, waiting["id"], "dismiss")
    [waiting] = ana.readers.here(lambda tx: list_reviews(ana, tx))
    with pytest.raises(Forbidden):
        service.accept(ben, [rule])
    assert service.accept(ana, [waiting["id"]]) == 1
    assert service.accept(ana, [waiting["id"]]) == 0
    exchange(cleo, dan)
    prompt = "Please commit the change to the harbour."
    assert ["linter" in ask(parts, prompt) for parts in (ana, ben, cleo, dan)] == [True, True, True, False]
    assert reviews(cleo) == []
    assert (live(cleo)["Always run the linter before a commit."].scope.channel) == "Ben (team)"


def test_an_admin_accepts_for_everybody_what_they_shared_themselves_also_for_those_who_come_later(
    hub: Hub, home: Join
) -> None:
    admin, member = team(hub, "Ana", "Ben")
    ana = home("ana", admin, policy="all-memories")
    rule = add_rule(ana, "Always run the linter before a commit.", names=SHOP, scope="project").memory_id
    kept = note(ana, PORT)
    with pytest.raises(BadInput, match="the team does not have it"):
        service.accept(ana, [rule])
    exchange(ana)
    with pytest.raises(BadInput, match="it is no rule"):
        service.accept(ana, [rule, kept])
    assert service.accept(ana, [rule]) == 1
    ben = home("ben", member)
    exchange(ben)
    assert "linter" in ask(ben, "Please commit the change to the harbour.")
    assert reviews(ben) == []


@pytest.mark.parametrize("has_arrived", [False, True])
def test_an_accepted_rule_that_contradicts_the_readers_own_still_waits(
    hub: Hub, home: Join, *, has_arrived: bool
) -> None:
    admin, member = team(hub, "Ana", "Ben")
    ana, ben = home("ana", admin, policy="all-memories"), home("ben", member)
    own = "The API of the harbour listens on port 7100."
    note(ben, own)
    rule = add_rule(ana, PORT, names=SHOP, scope="project").memory_id
    exchange(ana, *([ben] if has_arrived else []))
    service.accept(ana, [rule])
    exchange(ben)
    assert "7300" not in ask(ben, "Which port does the API of the harbour use?")
    assert own in live(ben)
    assert reviews(ben) == [("quarantine", PORT)]


def test_what_its_author_ends_ends_for_colleagues(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    memory = note(ana, PORT)
    exchange(ana, ben)
    bin_memory(ana, memory)
    exchange(ana, ben)
    assert PORT not in live(ben)


def test_what_its_author_restores_holds_again_unless_the_reader_ended_it(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    memory, pier = note(ana, PORT), note(ana, "The harbour has three piers.")
    exchange(ana, ben)
    bin_memory(ben, live(ben)["The harbour has three piers."].id)
    for id_ in (memory, pier):
        bin_memory(ana, id_)
    exchange(ana, ben)
    for id_ in (memory, pier):
        restore(ana, id_)
    exchange(ana, ben)
    assert PORT in live(ben)
    assert "7300" in ask(ben, "Which port does the API of the harbour use?")
    assert "The harbour has three piers." not in live(ben)


def test_what_the_user_forgot_for_good_does_not_come_back_with_the_team(
    url: str, ana_and_ben: tuple[Parts, Parts]
) -> None:
    ana, ben = ana_and_ben
    note(ana, PORT)
    exchange(ana, ben)
    secret = load_secret(ben.home, TEAM_TOKEN)
    forget_at_once(ben, ForgetRequest(id=live(ben)[PORT].id))
    service.leave(ben)
    service.join(ben, url, secret)
    exchange(ben)
    assert PORT not in live(ben)


def test_what_the_user_corrects_on_one_device_is_corrected_on_the_other(hub: Hub, home: Join) -> None:
    [secret] = team(hub, "Ana")
    laptop, desktop = (home(name, secret, policy="all-memories") for name in ("laptop", "desktop"))
    note(laptop, PORT)
    exchange(laptop, desktop)
    newer = "The API of the harbour listens on port 7412."
    supersede(desktop, live(desktop)[PORT].id, newer)
    exchange(desktop, laptop)
    assert PORT not in live(laptop)
    assert newer in live(laptop)
    assert reviews(laptop) == []


def test_what_is_taken_back_is_erased_at_colleagues_and_stays_with_its_author(
    ana_and_ben: tuple[Parts, Parts],
) -> None:
    ana, ben = ana_and_ben
    memory = note(ana, PORT)
    exchange(ana, ben)
    service.unshare(ana, [memory])
    exchange(ana, ben, ana)
    assert PORT not in live(ben)
    assert PORT in live(ana)
    note(ana, "The harbour has three piers.")
    exchange(ana, ben)
    assert PORT not in live(ben)


def test_what_is_declined_before_it_was_sent_is_never_sent(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    memory = note(ana, PORT)
    service.unshare(ana, [memory])
    exchange(ana, ben)
    assert PORT not in live(ben)
    assert [one["id"] for one in service.listed(ana, "declined")] == [memory]
    service.share(ana, [memory])
    exchange(ana, ben)
    assert PORT in live(ben)


def test_what_is_about_the_user_cannot_be_shared(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, _ = ana_and_ben
    with pytest.raises(BadInput, match="about you"):
        service.share(ana, [note(ana, "I prefer short answers.", scope="user")])


def test_a_project_that_is_new_here_brings_what_the_team_knew_before(hub: Hub, home: Join) -> None:
    secret, other = team(hub, "Ana", "Ben")
    ana, ben = home("ana", secret, policy="all-memories"), home("ben", other, project=BLOG)
    note(ana, PORT)
    exchange(ana, ben)
    assert live(ben) == {}
    say(ben, "hello harbour", SHOP)
    exchange(ben)
    assert PORT in live(ben)


def test_leaving_erases_what_colleagues_shared(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    note(ana, PORT)
    exchange(ana, ben)
    own = note(ben, "The harbour has three piers.")
    assert service.leave(ben)["erased"] == 1
    assert [memory.id for memory in live(ben).values()] == [own]
    assert service.status(ben) == {"joined": False}
    with pytest.raises(NotFound):
        service.leave(ben)


def test_a_home_joins_one_team_and_only_with_a_valid_token(hub: Hub, url: str, home: Join) -> None:
    [secret] = team(hub, "Ana")
    ana = home("ana", secret)
    with pytest.raises(BadInput, match="belongs to the team"):
        service.join(ana, url, secret)
    service.leave(ana)
    with pytest.raises(Unauthorized):
        service.join(ana, url, "frh_unknown")
    assert service.status(ana) == {"joined": False}


def test_forgetting_reaches_the_hub_and_every_device_and_each_says_so(
    hub: Hub, url: str, ana_and_ben: tuple[Parts, Parts]
) -> None:
    ana, ben = ana_and_ben
    memory = note(ana, PORT)
    exchange(ana, ben)
    ask(ben, "Which port does the API of the harbour use?")
    forget_at_once(ana, ForgetRequest(id=memory))
    exchange(ana, ben, ana)
    assert files_containing(ben.home, [PORT]) == []
    assert files_containing(ana.home, [PORT]) == []
    told = HubClient(url, load_secret(ana.home, TEAM_TOKEN)).status()
    assert (told["memories"], told["forgotten"], told["unconfirmed"]) == (0, 1, [])


def test_what_an_admin_forgets_for_the_team_stays_with_its_author_who_is_told(hub: Hub, url: str, home: Join) -> None:
    admin, secret = team(hub, "Ana", "Ben")
    ana, ben = home("ana", admin), home("ben", secret, policy="all-memories")
    memory = note(ben, PORT)
    exchange(ben, ana)
    HubClient(url, admin).forget([memory])
    exchange(ana, ben)
    assert PORT not in live(ana)
    assert PORT in live(ben)
    [withdrawn] = service.listed(ben, "withdrawn")
    assert "forgotten for the team" in withdrawn["reason"]
    [device] = HubClient(url, admin).status()["unconfirmed"]
    assert device["name"] == "ben's laptop"


def test_what_the_user_shared_from_another_device_is_theirs_to_forget(hub: Hub, url: str, home: Join) -> None:
    secret, other = team(hub, "Ana", "Ben")
    laptop, desktop = home("laptop", secret, policy="all-memories"), home("desktop", secret)
    ben = home("ben", other)
    note(laptop, PORT)
    exchange(laptop, desktop, ben)
    assert live(desktop)[PORT].scope.channel == "cli"
    with pytest.raises(BadInput, match="not shared from here"):
        service.unshare(desktop, [live(desktop)[PORT].id])
    forget_at_once(desktop, ForgetRequest(id=live(desktop)[PORT].id))
    exchange(desktop, ben, laptop, desktop)
    assert all(files_containing(parts.home, [PORT]) == [] for parts in (laptop, desktop, ben))
    assert HubClient(url, secret).status()["unconfirmed"] == []


def test_two_who_correct_the_same_memory_keep_both_until_one_of_them_decides(hub: Hub, url: str, home: Join) -> None:
    secrets = team(hub, "Ana", "Ben", "Carl", "Dana")
    ana, ben, carl, dana = (
        home(name, secret, policy="all-memories") for name, secret in zip("abcd", secrets, strict=True)
    )
    note(ana, PORT)
    exchange(ana, ben, carl, dana)
    by_ben, by_carl = "The API of the harbour listens on port 7412.", "The API of the harbour listens on port 7500."
    supersede(ben, live(ben)[PORT].id, by_ben)
    supersede(carl, live(carl)[PORT].id, by_carl)
    exchange(ben, carl, dana, ben, carl)
    assert {by_ben, by_carl} <= set(live(dana))
    assert reviews(ben) == [("conflict", by_carl)]
    assert reviews(carl) == [("conflict", by_ben)]
    [review] = ben.readers.here(lambda tx: list_reviews(ben, tx))
    settle(ben, review["id"], "old")
    exchange(ben, dana, carl)
    assert set(live(dana)) & {by_ben, by_carl} == {by_ben}
    assert by_carl in live(carl)
    assert HubClient(url, secrets[0]).conflicts() == ()


def test_an_older_copy_of_a_home_takes_up_the_numbers_where_the_hub_is(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    memory = note(ana, PORT)
    exchange(ana, ben)

    def as_before_it_was_sent(tx: Tx) -> None:
        Team(tx).put_shared(Shared(memory=memory, state="queued"), CLOCK.now())

    ana.writer.run(as_before_it_was_sent)
    bin_memory(ana, memory)
    exchange(ana, ben)
    assert PORT not in live(ben)
    assert [one["id"] for one in service.listed(ana, "shared")] == [memory]


def test_what_never_reached_the_hub_does_not_keep_the_rest_there(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    memory = note(ana, PORT)
    exchange(ana, ben)
    with ana.team.exchanging:
        lost = note(ana, "The harbour has three piers.")
        ana.writer.run(lambda tx: Team(tx).put_shared(Shared(memory=lost, state="leaving", version=1), CLOCK.now()))
        service.unshare(ana, [memory])
    exchange(ana, ben)
    assert PORT not in live(ben)
    assert service.listed(ana, "leaving") == []


def pushed(hub: Hub, home: Join, url: str, *versions: dict[str, Any]) -> Parts:
    """Have another program of Ana's push versions of the project, in this order; return Ben's home afterwards."""
    ana, ben = team(hub, "Ana", "Ben")
    address = SHOP[0].removeprefix("origin:")
    HubClient(url, ana).push([version(project=address, **fields) for fields in versions])
    parts = home("ben", ben)
    exchange(parts)
    return parts


def test_a_secret_that_another_program_shared_is_not_stored(hub: Hub, home: Join, url: str) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    ben = pushed(hub, home, url, {"text": f"The harbour deploys with {secret} from the runner."})
    assert files_containing(ben.home, [secret]) == []
    assert any("deploys with" in text for text in live(ben))


def test_what_a_colleague_replaced_before_it_arrives_is_history(hub: Hub, home: Join, url: str) -> None:
    replaced, newer = ulid(), "The API of the harbour listens on port 7412."
    ben = pushed(hub, home, url, {"text": newer, "supersedes": replaced}, {"memory": replaced, "text": PORT})
    assert {text for text in live(ben) if "port" in text} == {newer}


def test_what_a_colleague_prefers_is_a_fact_about_them(hub: Hub, home: Join, url: str) -> None:
    ben = pushed(hub, home, url, {"text": "I prefer short answers.", "kind": "preference"})
    assert live(ben)["I prefer short answers."].kind == "fact"


def test_a_correction_outlives_the_forgetting_of_what_it_corrects(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    memory, newer = note(ana, PORT), "The API of the harbour listens on port 7412."
    exchange(ana, ben)
    supersede(ben, live(ben)[PORT].id, newer)
    forget_at_once(ana, ForgetRequest(id=memory))
    exchange(ana, ben)
    assert newer in live(ben)
    assert files_containing(ben.home, [PORT]) == []


def test_a_rule_that_its_author_ends_waits_no_longer(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    rule = add_rule(ana, "Always run the linter before a commit.", names=SHOP, scope="project")
    exchange(ana, ben)
    assert len(reviews(ben)) == 1
    bin_memory(ana, rule.memory_id)
    exchange(ana, ben)
    assert reviews(ben) == []


def test_under_another_policy_nothing_waits_that_it_does_not_cover(hub: Hub, home: Join) -> None:
    [secret] = team(hub, "Ana")
    ana = home("ana", secret, policy="ask")
    note(ana, PORT)
    exchange(ana)
    assert len(service.listed(ana)) == 1
    service.set_policy(ana, SHOP, "off")
    assert service.listed(ana) == []


def test_what_was_taken_back_is_shared_again_only_when_it_is_stated_anew(ana_and_ben: tuple[Parts, Parts]) -> None:
    ana, ben = ana_and_ben
    memory = note(ana, PORT)
    exchange(ana, ben)
    service.unshare(ana, [memory])
    exchange(ana, ben)
    with pytest.raises(BadInput, match="taken back"):
        service.share(ana, [memory])
    newer = "The API of the harbour listens on port 7412."
    supersede(ana, memory, newer)
    exchange(ana, ben)
    assert newer in live(ben)
