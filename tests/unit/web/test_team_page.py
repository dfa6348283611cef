"""The Team screen: how a team is joined and left, what is shared of each project, and what waits for the user."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from filrouge.capture.models import TRUST_AGENT
from filrouge.core.clock import new_id
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.memories.models import Kind
from filrouge.memories.repository import Origin
from filrouge.team.models import Membership, Shared, SharedState, channel_of
from filrouge.team.repository import Team
from filrouge.web.team import PAGE_SIZE
from tests.support.given import SHOP, say
from tests.support.rows import statement

from .conftest import Site

PORT, PRICES = "The shop listens on port 8443.", "Prices of the shop are in cents."


def join(site: Site) -> None:
    """Make the home Ana's in the team Acme; no hub is asked, because there is no token."""
    parts = site.api.parts
    membership = Membership(
        url="https://hub.example",
        name="Acme",
        member="m-ana",
        member_name="Ana",
        device=new_id(parts.clock.now()),
        device_name="laptop",
        joined_at=parts.clock.now(),
    )
    say(parts, "hello shop")
    parts.writer.run(lambda tx: Team(tx).join(membership))


def remember(site: Site, *texts: str) -> list[str]:
    return [site.api.remember(f"For the record: {text}", *SHOP)[0]["id"] for text in texts]


def candidates(site: Site, *texts: str) -> list[str]:
    """Memories of the shop that wait for the user, in the order of the page."""
    join(site)
    remember(site, *texts)
    assert "are asked" in site.follow(site.send("/team/policy", project=SHOP[0], policy="ask", back="/dashboard/team"))
    return [item["id"] for item in site.twin("/team.json")["items"]]


def in_state(site: Site, state: SharedState) -> list[str]:
    return [row["id"] for row in site.api.get(f"/api/team/memories?state={state}")]


def from_a_colleague(site: Site, text: str, *, kind: Kind = "fact") -> str:
    """A memory that Ben shares; a rule waits in the review."""

    def write(tx: Tx) -> str:
        memories = site.api.parts.memories(tx)
        scope = Scope(project=SHOP[0], channel=channel_of("Ben"))
        now = site.api.parts.clock.now()
        origin = Origin(scope=scope, trust=TRUST_AGENT, at=now, made_by="team", actor="team")
        said = statement(text, kind=kind, scope="project")
        if kind == "rule":
            return memories.quarantine(said, replace(origin, trust=2), "Ben shares this rule with the team").review
        return memories.add(said, origin, "shared by a colleague").memory_id

    say(site.api.parts, "hello shop")
    return site.api.parts.writer.run(write)


# Joining and leaving.


def test_without_a_team_the_page_says_what_one_is_and_asks_for_address_and_token(site: Site) -> None:
    shown = site.text("/team")
    assert "what you decide in a project reaches your colleagues' agents" in shown
    assert "filrouge team join https://hub.example.com" in shown
    assert 'type="password" name="token"' in site.page("/team")
    assert site.twin("/team.json") == {"team": {"joined": False}}


@pytest.mark.parametrize(
    ("url", "token", "reason"),
    [
        ("http://127.0.0.1:9", "frh_secret", "Le hub ne répond pas"),
        ("hub.example", "frh_secret", "Ce n’est pas l’adresse d’un hub"),
        ("https://hub.example", "frh_\u00e9", "Ce n’est pas un jeton d’accès"),
    ],
)
def test_a_hub_that_cannot_be_joined_is_explained_in_the_visitors_language(
    site: Site, url: str, token: str, reason: str
) -> None:
    site.api.ask("PATCH", "/api/memory/settings", {"language": "fr"})
    refused = site.http.post("/dashboard/team/join", data={"url": url, "token": token})
    assert refused.status_code >= 400
    assert reason in refused.text
    assert token not in refused.text


def test_leaving_says_before_what_happens_and_does_it(site: Site) -> None:
    join(site)
    shown = site.text("/team")
    assert "You are Ana in the team Acme, on laptop." in shown
    assert "No memory of colleagues is on this machine." in shown
    assert "Your own memories stay here as they are." in shown
    assert "You left the team Acme." in site.follow(site.send("/team/leave"))
    assert site.twin("/team.json") == {"team": {"joined": False}}


def test_a_failed_exchange_says_why_in_the_visitors_language(site: Site) -> None:
    join(site)
    site.api.parts.team.problem = "The Filrouge hub at https://hub.example does not answer. Check the address."
    assert "El hub no responde" in site.text("/team", language="es")
    site.api.parts.team.problem = "The moon is in the way."
    assert "The last exchange failed. The moon is in the way." in site.text("/team")


# What is shared.


def test_a_policy_is_changed_in_place_and_counts_what_it_sends(site: Site) -> None:
    join(site)
    remember(site, PORT, PRICES)
    form: dict[str, Any] = {"project": SHOP[0], "back": "/dashboard/team"}
    shown = site.follow(site.send("/team/policy", policy="all-memories", with_evidence="on", **form))
    assert "shop: all memories are shared. 2 memories go to the team." in shown
    [project] = site.api.get("/api/team")["projects"]
    assert (project["policy"], project["with_evidence"]) == ("all-memories", True)
    site.send("/team/policy", policy="off", **form)
    [project] = site.api.get("/api/team")["projects"]
    assert (project["policy"], project["with_evidence"]) == ("off", False)


def test_a_project_without_a_remote_is_counted_and_not_listed(site: Site) -> None:
    join(site)
    say(site.api.parts, "hello cellar", ("name:cellar",))
    assert "1 project is not listed: it has no remote" in site.text("/team")


def test_what_waits_is_counted_on_every_page_and_shared_or_kept_one_by_one(site: Site) -> None:
    first, second, third = candidates(site, PORT, PRICES, "The shop closes at seven.")
    assert "Team 3 waiting" in site.text("/garden")
    assert "3 memories of yours wait to be shared with the team." in site.text("/review")
    assert "3 memories wait to be shared with the team" in site.text("")
    page = site.page("/team")
    assert page.count('data-key="a"') == page.count('data-key="d"') == 3
    back = "/dashboard/team?show=waiting"
    led = site.send("/team/memories", id=first, verb="share", next=second, back=back)
    assert f'id="t-{second}" data-item tabindex="-1" autofocus' in site.page(led.removeprefix("/dashboard"))
    assert "1 memory stays private." in site.follow(site.send("/team/memories", id=second, verb="keep", back=back))
    assert (in_state(site, "queued"), in_state(site, "declined")) == ([first], [second])
    assert [item["id"] for item in site.twin("/team.json")["items"]] == [third]


def test_several_that_are_selected_are_shared_together_and_the_message_takes_them_back(site: Site) -> None:
    ids = candidates(site, PORT, PRICES)
    back = "/dashboard/team?show=waiting"
    shown = site.page(site.send("/team/memories", id=ids, verb="share", back=back).removeprefix("/dashboard"))
    assert in_state(site, "queued") == ids
    assert "2 memories go to the team." in shown
    assert 'action="/dashboard/team/memories"' in shown.partition('id="done"')[2]
    site.send("/team/memories", ids=" ".join(ids), verb="keep", back=back)
    assert in_state(site, "declined") == ids
    assert "Nothing was selected." in site.follow(site.send("/team/memories", verb="share", back=back))


def test_a_long_list_is_shown_in_pages(site: Site) -> None:
    join(site)
    parts = site.api.parts

    def write(tx: Tx) -> None:
        origin = Origin(scope=Scope(project=SHOP[0], channel="cli"), trust=2, at=parts.clock.now())
        for number in range(PAGE_SIZE + 1):
            parts.memories(tx).add(statement(f"Shelf {number} is full.", scope="project"), origin, "by hand")

    parts.writer.run(write)
    site.send("/team/policy", project=SHOP[0], policy="ask", back="/dashboard/team")
    first, second = site.twin("/team.json"), site.twin(f"/team.json?show=waiting&cursor={PAGE_SIZE}")
    assert (len(first["items"]), first["next"]) == (PAGE_SIZE, str(PAGE_SIZE))
    assert (len(second["items"]), second["next"]) == (1, "")
    assert f"cursor={PAGE_SIZE}" in site.page("/team")


def test_what_was_refused_says_why_in_plain_words(site: Site) -> None:
    [id_] = candidates(site, PORT)
    refused = Shared(memory=id_, state="refused", reason="it holds a secret")
    site.api.parts.writer.run(lambda tx: Team(tx).put_shared(refused, site.api.parts.clock.now()))
    assert "It holds a secret, such as a key or a password." in site.text("/team?show=refused")
    assert "Il contient un secret" in site.text("/team?show=refused", language="fr")


def test_what_is_shared_can_be_taken_back_and_is_then_listed_as_private(site: Site) -> None:
    [id_] = candidates(site, PORT)
    shared = Shared(memory=id_, state="shared", version=1)
    site.api.parts.writer.run(lambda tx: Team(tx).put_shared(shared, site.api.parts.clock.now()))
    assert PORT in site.text("/team?show=shared")
    to = site.send("/team/memories", id=id_, verb="keep", back="/dashboard/team?show=shared")
    assert "1 memory is taken back: colleagues lose it, you keep it." in site.follow(to)
    assert "being taken back" in site.text("/team?show=private")


def test_a_memory_that_cannot_be_shared_is_refused_with_the_reason(site: Site) -> None:
    join(site)
    body = {"text": "I prefer short answers.", "scope": "user"}
    [memory] = site.api.ask("POST", "/api/memory/memories", body).body["actions"]
    refused = site.send("/team/memories", id=memory["id"], verb="share", back="/dashboard/team", status=400)
    assert "Nothing was shared. It is about you, not about a project." in refused


# Colleagues.


@pytest.mark.parametrize("path", ["/memory", "/memories/{id}", "", "/timeline", "/memory/search?q=quay"])
def test_a_colleagues_memory_bears_their_name_wherever_it_is_listed(site: Site, path: str) -> None:
    id_ = from_a_colleague(site, "The quay listens on port 7300.")
    shown = site.text(path.format(id=id_))
    assert "Ben (team)" in shown
    assert "said by the agent" not in shown
    assert "Ben (équipe)" in site.text(path.format(id=id_), language="fr")


def test_a_colleagues_memory_bears_their_name_in_injections_and_the_preview(site: Site) -> None:
    from_a_colleague(site, "The quay listens on port 7300.")
    prompt = "Which port does the quay listen on?"
    site.api.ask("POST", "/memory/context", {"prompt": prompt, "channel": "bot", "project": list(SHOP)})
    site.api.parts.writer.run(lambda tx: None)
    [recall] = site.twin("/injections.json")["recalls"]
    assert "Ben (team)" in site.text("/injections")
    assert "Ben (team)" in site.text(f"/injections/{recall['id']}")
    candidates_of = site.text(f"/preview?prompt={prompt}&project={SHOP[0]}").partition("What Words")[2]
    assert "Ben (team)" in candidates_of


def test_a_colleagues_rule_in_the_review_says_whose_it_is(site: Site) -> None:
    from_a_colleague(site, "Never push to main.", kind="rule")
    shown = site.text("/review")
    assert "from a colleague Ben shares this rule with the team." in shown
    assert "unproven" not in shown
    assert "Ben partage cette règle avec l’équipe." in site.text("/review", language="fr")


def test_hostile_names_and_words_are_shown_and_never_run(site: Site) -> None:
    candidates(site, "the <img src=x onerror=alert(1)> crane is red.")
    page = site.page("/team?show=waiting")
    assert "<img" not in page
    assert "&lt;img src=x" in page
