"""What members share: repeated pushes, corrections of the same memory, forgetting with proof, members and tokens."""

from __future__ import annotations

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pydantic import ValidationError

from filrouge.core.errors import BadInput, Busy, Forbidden, HubUnavailable, NotFound, StoreError, Unauthorized
from filrouge.hub import journal, schema, service, tokens
from filrouge.hub.database import HubDatabase
from filrouge.hub.models import Device, Receipt, encoded_vector
from tests.support.postgres import Hub
from tests.support.tiers import examples

from .shared import CLOCK, MEMBER, follow, outcomes, pairs, push, team, ulid, version

CANARY = "The vault opens with Kingfisher-7731."


def test_a_push_that_is_repeated_changes_nothing(hub: Hub) -> None:
    ana, ben = team(hub, "Ana", "Ben")
    first = version(evidence="we use 7300", confidence=0.7, host="codex", language="en")
    ended = first.model_copy(update={"version": 2, "state": "ended", "valid_to": first.valid_from + timedelta(days=1)})
    assert outcomes(hub, ana, first, ended) == ["accepted", "accepted"]
    assert outcomes(hub, ana, first, ended, first) == ["duplicate"] * 3
    changes, _ = follow(hub, ben)
    assert [change.content for change in changes] == [first, ended]
    assert {change.author_name for change in changes} == {"Ana"}


def test_a_number_with_other_content_is_a_conflict_between_ones_own_devices(hub: Hub) -> None:
    [ana] = team(hub, "Ana")
    first = version()
    push(hub, ana, first, first.model_copy(update={"version": 3}))
    other = first.model_copy(update={"version": 3, "text": "It is another port."})
    late = first.model_copy(update={"version": 2})
    assert [(answer.outcome, answer.reason) for answer in push(hub, ana, other, late)] == [
        ("conflict", "the hub has version 3 with other content")
    ] * 2
    assert pairs(follow(hub, ana)[0]) == [(first.memory, 1), (first.memory, 3)]


def test_another_members_memory_is_refused_by_name(hub: Hub) -> None:
    ana, ben = team(hub, "Ana", "Ben")
    first = version()
    push(hub, ana, first)
    [answer] = push(hub, ben, first.model_copy(update={"version": 2, "state": "ended"}))
    assert (answer.outcome, answer.reason) == ("refused", "it is Ana's; share a memory that supersedes it")


def test_two_corrections_of_one_memory_both_stay_and_open_a_conflict_that_all_hear_of(hub: Hub) -> None:
    ana, ben, cleo = team(hub, "Ana", "Ben", "Cleo")
    known = version()
    push(hub, ana, known)
    by_ana = version("It is port 7412.", supersedes=known.memory)
    by_ben = version("It is port 7500.", supersedes=known.memory)
    again = version("It is port 7413.", supersedes=known.memory)
    assert outcomes(hub, ana, by_ana, again) == ["accepted", "accepted"]  # one member's own is no conflict
    push(hub, ben, by_ben)
    with hub.database.session(cleo) as session:
        opened = service.conflicts(session)
        assert {(one.memory, one.first, one.second) for one in opened} == {
            (known.memory, by_ana.memory, by_ben.memory),
            (known.memory, again.memory, by_ben.memory),
        }
    changes, cursor = follow(hub, cleo)
    assert {by_ana.memory, by_ben.memory} <= {change.memory for change in changes}
    assert [change.type for change in changes].count("conflict") == 2
    conflict = next(one for one in opened if one.first == by_ana.memory).conflict
    with pytest.raises(Forbidden), hub.database.session(cleo) as session:
        service.settle(session, CLOCK, conflict, "first")
    with hub.database.session(ben) as session:
        service.settle(session, CLOCK, conflict, "second")
    with pytest.raises(Busy), hub.database.session(ana) as session:
        service.settle(session, CLOCK, conflict, "first")
    [told] = follow(hub, cleo, cursor)[0]
    assert told.conflict is not None
    assert (told.type, told.conflict.keep) == ("conflict", "second")


def test_what_an_admin_accepts_for_everybody_is_told_to_all_who_have_it_already(hub: Hub) -> None:
    ana, ben = team(hub, "Ana", "Ben")
    rule, fact = version("Sign every tag.", kind="rule"), version()
    push(hub, ben, rule, fact)
    changes, cursor = follow(hub, ben)
    assert [change.accepted_by for change in changes] == ["", ""]
    with pytest.raises(Forbidden), hub.database.session(ben) as session:
        service.accept(session, CLOCK, [rule.memory])
    for wrong, error in ((fact.memory, BadInput), (ulid(), NotFound)):
        with pytest.raises(error), hub.database.session(ana) as session:
            service.accept(session, CLOCK, [rule.memory, wrong])
    assert follow(hub, ben, cursor)[0] == []
    for is_new in (True, False):
        with hub.database.session(ana) as session:
            assert service.accept(session, CLOCK, [rule.memory]) == {rule.memory: is_new}
    [told], cursor = follow(hub, ben, cursor)
    assert (told.memory, told.version, told.accepted_by) == (rule.memory, 1, "Ana")
    assert told.content == rule
    # Its author may end and restore it, but not put other words in its place.
    for number, changed, by in ((2, {"state": "ended"}, "Ana"), (3, {}, "Ana"), (4, {"text": "Sign none."}, "")):
        push(hub, ben, rule.model_copy(update={"version": number, **changed}))
        [told], cursor = follow(hub, ben, cursor)
        assert (told.version, told.accepted_by) == (number, by)
    assert outcomes(hub, ben, rule.model_copy(update={"version": 4, "text": "Sign none."})) == ["duplicate"]
    with hub.database.session(ana) as session:
        service.forget(session, CLOCK, [rule.memory])
    with pytest.raises(NotFound), hub.database.session(ana) as session:
        service.accept(session, CLOCK, [rule.memory])


def test_corrections_that_are_pushed_at_once_open_a_conflict_too(hub: Hub) -> None:
    ana, ben = team(hub, "Ana", "Ben")
    known = version()
    push(hub, ana, known)
    with ThreadPoolExecutor(1) as pool:
        with hub.database.session(ana) as session:
            service.push(session, CLOCK, [version("It is port 7412.", supersedes=known.memory)])
            by_ben = pool.submit(push, hub, ben, version("It is port 7500.", supersedes=known.memory))
            time.sleep(0.3)  # it has asked by now, and waits
        assert [answer.outcome for answer in by_ben.result()] == ["accepted"]
    with hub.database.session(ana) as session:
        assert len(service.conflicts(session)) == 1


def test_requests_with_one_token_do_not_wait_for_each_other(hub: Hub) -> None:
    secret = hub.add_tenant("two at once").secret
    with hub.database.session(secret), hub.database.session(secret) as second:
        assert service.conflicts(second) == []


def test_what_is_forgotten_leaves_a_tombstone_and_no_byte_in_any_table(hub: Hub) -> None:
    ana, ben = team(hub, "Ana", "Ben")
    secret = version(CANARY, evidence=f"said: {CANARY}")
    kept = version("The office has a plant.")
    push(hub, ana, secret, secret.model_copy(update={"version": 2, "project": f"x/{CANARY}"}), kept)
    laptop = Device(device=ulid(), name="laptop of Ben")
    with hub.database.session(ben) as session:
        service.join(session, CLOCK, laptop)
        with pytest.raises(Forbidden):
            service.forget(session, CLOCK, [secret.memory])
    with hub.database.session(ana) as session:
        assert service.forget(session, CLOCK, [secret.memory]) == {secret.memory: 2}
        assert service.forget(session, CLOCK, [secret.memory]) == {secret.memory: 0}
        assert [one["name"] for one in service.status(session)["unconfirmed"]] == ["laptop of Ben"]
    changes, _ = follow(hub, ben)
    assert [(change.type, change.memory) for change in changes] == [
        ("version", kept.memory),
        ("tombstone", secret.memory),
    ]
    assert outcomes(hub, ana, secret) == ["refused"]
    with psycopg.connect(hub.superuser, dbname=hub.name) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'hub'::regnamespace"
        ).fetchall()
        for (name,) in tables:
            rows = connection.execute(sql.SQL("SELECT t::text FROM hub.{} AS t").format(sql.Identifier(name)))
            assert not [row for row in rows if "Kingfisher" in row[0]], name
    with hub.database.session(ben) as session:
        service.confirm(session, laptop.device, [Receipt(memory=secret.memory, left_over=0)])
        with pytest.raises(NotFound):
            service.confirm(session, laptop.device, [Receipt(memory=kept.memory, left_over=0)])
    with hub.database.session(ana) as session:
        assert service.status(session)["unconfirmed"] == []


def test_a_token_allows_what_its_scopes_say_until_it_is_revoked_or_its_member_removed(hub: Hub) -> None:
    ana, ben = team(hub, "Ana", "Ben")
    with hub.database.session(ana) as session:
        reader = tokens.invite(session, CLOCK, "ben", ["read"])  # the same member, whatever the case
        assert [(one["name"], one["tokens"]) for one in tokens.members(session)] == [("Ana", 1), ("Ben", 2)]
    with pytest.raises(Forbidden):
        push(hub, reader.secret, version())
    assert follow(hub, reader.secret)[0] == []
    with pytest.raises(Forbidden), hub.database.session(ben) as session:
        tokens.invite(session, CLOCK, "Eve", MEMBER)
    with hub.database.session(ben) as session:
        tokens.revoke(session, CLOCK, reader.token)
    with pytest.raises(Unauthorized):
        follow(hub, reader.secret)
    with hub.database.session(ana) as session:
        tokens.remove(session, CLOCK, "BEN")
        with pytest.raises(BadInput):
            tokens.remove(session, CLOCK, "Ana")
    with pytest.raises(Unauthorized):
        push(hub, ben, version())
    with pytest.raises(Unauthorized):
        follow(hub, "frh_nothing")


def test_a_token_that_expired_is_refused(hub: Hub) -> None:
    ana = team(hub, "Ana")[0]
    with hub.database.session(ana) as session:
        short = tokens.invite(session, CLOCK, "Ben", ["read"], days=1)
        session.connection.execute(
            "UPDATE hub.tokens SET expires_at = now() - interval '1 second' WHERE token = %s", [short.token]
        )
    with pytest.raises(Unauthorized):
        follow(hub, short.secret)


def test_the_journal_of_a_tenant_is_a_chain_that_shows_every_change(hub: Hub) -> None:
    ana = team(hub, "Ana")[0]
    shared = version(CANARY)
    push(hub, ana, shared)
    with hub.database.session(ana) as session:
        service.forget(session, CLOCK, [shared.memory])
        tenant = session.identity.tenant
        report = journal.verify(session.connection, tenant)
        assert (report.sound, report.entries) == (True, 2)
    with schema.connect(hub.owner) as connection:
        connection.execute(
            "UPDATE hub.journal SET payload = '{\"versions\": 9}' WHERE tenant = %s AND action = 'forget'", [tenant]
        )
        assert journal.verify(connection, tenant).reason == "payload changed"
        connection.execute("UPDATE hub.journal SET actor = 'x' WHERE tenant = %s AND number = 1", [tenant])
        assert journal.verify(connection, tenant).broken_at == 1
        connection.rollback()
        connection.execute("DELETE FROM hub.journal WHERE tenant = %s AND number = 1", [tenant])
        assert not journal.verify(connection, tenant).sound
        connection.rollback()
        connection.execute("UPDATE hub.journal SET number = 7 WHERE tenant = %s AND number = 2", [tenant])
        assert journal.verify(connection, tenant).broken_at == 7
        connection.rollback()


@settings(max_examples=examples(50))
@given(st.text(max_size=50), st.binary(max_size=9))
def test_any_text_comes_back_as_it_was_shared_or_is_refused_before(hub: Hub, text: str, blob: bytes) -> None:
    try:
        one = version(text, evidence=text, vector=base64.b64encode(blob).decode(), space="s")
    except ValidationError:
        return
    ana = _of_module(hub)
    push(hub, ana, one)
    with hub.database.session(ana) as session:
        row = session.connection.execute(
            "SELECT text, evidence FROM hub.versions WHERE memory = %s", [one.memory]
        ).fetchone()
    assert row == {"text": text, "evidence": text}


_SECRETS: dict[str, str] = {}


def _of_module(hub: Hub) -> str:
    if hub.owner not in _SECRETS:
        _SECRETS[hub.owner] = team(hub, "Ana")[0]
    return _SECRETS[hub.owner]


def test_a_role_that_could_bypass_row_security_may_not_serve(hub: Hub) -> None:
    for url in (make_conninfo(hub.superuser, dbname=hub.name), hub.owner):
        unsafe = HubDatabase(url)
        with pytest.raises(StoreError, match="could bypass"):
            unsafe.open()
        unsafe.close()


def test_a_table_without_row_security_is_not_served(hub: Hub) -> None:
    with schema.connect(hub.owner) as connection:
        connection.execute("ALTER TABLE hub.versions NO FORCE ROW LEVEL SECURITY")
        connection.commit()
        database = HubDatabase(hub.serving)
        try:
            with pytest.raises(StoreError, match="versions"):
                database.open()
        finally:
            database.close()
            connection.execute("ALTER TABLE hub.versions FORCE ROW LEVEL SECURITY")
            connection.commit()


def test_a_restored_dump_begins_a_new_epoch_behind_which_nothing_is_lost(hub: Hub) -> None:
    ana = team(hub, "Ana")[0]
    before = version("Before the restore.")
    push(hub, ana, before)
    _, cursor = follow(hub, ana)
    with schema.connect(hub.owner) as connection:  # the new server's transaction ids are lower
        connection.execute("UPDATE hub.versions SET xid = '9000000000' WHERE memory = %s", [before.memory])
        connection.commit()
        database = HubDatabase(hub.serving)
        with pytest.raises(StoreError, match="restored dump"):
            database.open()
        database.close()
        schema.init(connection, role=hub.role)
    after = version("After the restore.")
    push(hub, ana, after)
    assert [memory for memory, _ in pairs(follow(hub, ana)[0])] == [before.memory, after.memory]
    ahead = cursor.split(".")[0] + ".9000000000.1"
    assert [memory for memory, _ in pairs(follow(hub, ana, ahead)[0])][-1] == after.memory


def test_a_server_that_does_not_answer_is_named(hub: Hub) -> None:
    database = HubDatabase("host=127.0.0.1 port=1 dbname=none")
    with pytest.raises(HubUnavailable):
        database.open()
    database.close()


def test_a_vector_is_kept_with_its_space(hub: Hub) -> None:
    ana = team(hub, "Ana")[0]
    one = version(vector=encoded_vector(np.array([0.5, -1.0, 2.0], dtype=np.float32)), space="e5/384")
    push(hub, ana, one)
    [change] = follow(hub, ana)[0]
    assert change.content == one


def test_init_says_what_is_missing_when_there_is_no_extension_for_vectors(hub: Hub) -> None:
    with psycopg.connect(hub.superuser, dbname=hub.name, autocommit=True) as superuser:
        owner_name = sql.Identifier(f"{hub.name}_owner")
        superuser.execute(sql.SQL("CREATE DATABASE no_vectors OWNER {}").format(owner_name))
        try:
            no_vectors = make_conninfo(hub.owner, dbname="no_vectors")
            with schema.connect(no_vectors) as owner, pytest.raises(StoreError, match="vector"):
                schema.init(owner, role=hub.role)
        finally:
            superuser.execute("DROP DATABASE no_vectors WITH (FORCE)")
