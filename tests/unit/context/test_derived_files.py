"""Whatever a home holds beside the database, the settings and the spool can be deleted: answers stay the same."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from filrouge.capture import inbox
from filrouge.capture.service import store_events
from filrouge.core.paths import BRIEFS, CONFIG, DATABASE, HOOK_SETTINGS, SPOOL, brief_path, inside
from filrouge.core.protocols import Tx
from filrouge.memories.changes import put_fact, remember, remember_many
from filrouge.memories.models import Filters
from filrouge.runtime.services import Parts
from filrouge.search.service import Mode, Question, recall, search_turns
from filrouge.testing import idle, running
from tests.support.given import SHOP, event

#: What a home truly is; all else is made of it.
TRUTH = {DATABASE, CONFIG, SPOOL}

SUBJECTS = ("billing", "ferry", "almanac", "kiosk", "harbour")
QUESTIONS = [
    *(f"Which port does the {subject} service listen on?" for subject in SUBJECTS),
    *(f"Pourquoi le service {subject} est-il lent ?" for subject in SUBJECTS),
    *(f"What did we decide about the {subject} tables?" for subject in SUBJECTS),
    "What is my name?",
    "How long are invoices kept?",
    "Was sagen die Tests?",
    "deploy",
    "something that nobody ever spoke of",
]


def fill(parts: Parts) -> None:
    """Memories and turns by every way there is."""
    for number, subject in enumerate(SUBJECTS):
        said = [
            event(text=f"For the record: the {subject} service listens on port {7000 + number}."),
            event("reply", text=f"Le service {subject} est lent parce que son index manque ; je l'ai ajouté."),
            event(text=f"We decided to keep the {subject} tables on shard {number}, because it is faster."),
            event("tools", calls=[{"id": subject, "name": "Bash", "input": {"command": "make"}, "output": subject}]),
        ]
        store_events(parts, said).result(60)
    remember(parts, "My name is Ana Beltran.", names=SHOP, scope="user", host="cli")
    remember(parts, "Always run the tests before a deploy.", names=SHOP, scope="project", host="cli")
    put_fact(parts, "retention", "invoices are kept ten years", names=SHOP, scope="project")
    remember_many(parts, [f"Invoice {n} was paid in March." for n in range(30)], names=SHOP, scope="project")
    idle(parts)


def answers(parts: Parts, moment: datetime) -> list[list[tuple[str, float]]]:
    """Ids and scores for every question: by words, by meaning, both, and filtered."""
    modes: tuple[Mode, ...] = ("text", "semantic", "hybrid")
    filters = (Filters(), Filters(channel="claude-code", as_of=moment))
    asked = [
        Question(text=text, project=SHOP[0], mode=mode, filters=one)
        for text in QUESTIONS
        for mode in modes
        for one in filters
    ]

    def search(tx: Tx) -> list[list[tuple[str, float]]]:
        rankings = [find(parts, tx, one) for one in asked for find in (recall, search_turns)]
        return [[(hit.item.id, hit.score) for hit in ranking.hits] for ranking in rankings]

    return parts.readers.here(search)


def delete_what_is_derived(home: Path) -> set[str]:
    """Delete all but the truth; the names of what went."""
    derived = [path for path in home.iterdir() if path.name not in TRUTH]
    for path in derived:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return {path.name for path in derived}


def test_every_derived_file_may_be_deleted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(str(home)) as parts:
        idle(parts)
        fill(parts)
        moment = parts.clock.now()
        before = answers(parts, moment)
        brief = Path(brief_path(str(home), SHOP[0]))
        told = brief.read_text(encoding="utf-8")
    assert sum(map(len, before)) > 400
    assert {HOOK_SETTINGS, BRIEFS} <= delete_what_is_derived(home)
    with running(str(home)) as parts:
        idle(parts)
        assert answers(parts, moment) == before
        assert brief.read_text(encoding="utf-8") == told
        assert (home / HOOK_SETTINGS).exists()


def test_what_waits_in_the_spool_survives_the_loss_of_every_derived_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(str(home)) as parts:
        idle(parts)
    inbox.append_event(inside(str(home), SPOOL), event("reply", text="This one found nobody at home.").to_json())
    delete_what_is_derived(home)
    with running(str(home)) as parts:
        idle(parts)
        asked = Question(text="Who found nobody at home?", project=SHOP[0])
        hits = parts.readers.here(lambda tx: search_turns(parts, tx, asked)).hits
        assert [hit.text for hit in hits] == ["This one found nobody at home."]
