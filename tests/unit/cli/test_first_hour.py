"""What a new user types in the first hour, and reads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from io import StringIO
from pathlib import Path
from typing import get_args

import pytest

from filrouge.cli import commands
from filrouge.cli.commands import search, threads
from filrouge.core import settings
from filrouge.memories.models import Kind
from filrouge.providers.language_models import SIZE_OF_MODE, Mode
from filrouge.threads.models import BRIDGE_KINDS
from filrouge.threads.upkeep import MAX_ACTIVE_THREADS
from tests.unit.server.conftest import Api, serving

SHOP = "origin:forge.example/ana/shop"
Said = tuple[int, str, str]


class User:
    """Somebody at a home, who types commands in a folder."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api = api
        self.folder = folder

    def types(self, *words: str, folder: Path | None = None) -> Said:
        """A command: exit code, standard output, standard error."""
        kept = sys.argv, sys.stdout, sys.stderr, os.getcwd()
        out, err = StringIO(), StringIO()
        sys.argv, sys.stdout, sys.stderr = ["filrouge", *words], out, err
        os.chdir(folder or self.folder)
        try:
            return commands.run(), out.getvalue(), err.getvalue()
        finally:
            sys.argv, sys.stdout, sys.stderr = kept[:3]
            os.chdir(kept[3])


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Generator[User]:
    top = tmp_path_factory.mktemp("first")
    (top / "shop").mkdir()
    (top / "other").mkdir()
    with serving(str(top / "home")) as api, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FILROUGE_HOME", api.home)
        yield User(api, top / "shop")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("demo", "--language", "de"), "--language is en or fr, not 'de'."),
        (("import", "banana"), "There is no file, folder or program 'banana' to import."),
        (("import", "chatgtp"), "a program: chatgpt, claude-code,"),
        (("search", "x", "--in", "moon"), "--in is turns, memories, threads, notes or all, not 'moon'."),
        (("search", "x", "--in", "note"), "--in is notes, turns, memories, threads or all, not 'note'."),
        (("search", "x", "--mode", "deep"), "--mode is text, semantic or hybrid, not 'deep'."),
        (("search", "x", "--kind", "facts"), "--kind is fact, "),
        (("facts", "--kind", "moon"), "or turn, not 'moon'."),
        (("threads", "--status", "open"), "--status is active, suspended, archived or all, not 'open'."),
        (("topics", "-t", "year"), "--timeframe is today, week, month or all, not 'year'."),
        (("timeline", "--language", "de"), "--language is en, fr or es, not 'de'."),
        (("bridges", "--type", "support"), "--type is supports, "),
        (("remember", "x", "--scope", "moon"), "--scope is user or project, not 'moon'."),
        (("export", "--format", "jsonx"), "--format is json, jsonl, csv or markdown, not 'jsonx'."),
        (("export", "--out", "/nonexistent/x"), "/nonexistent/x cannot be written: No such file or directory."),
        (("export", "--format", "markdown", "--out", "/dev/null/x"), "/dev/null/x cannot be written"),
        (("graph", "--out", "/nonexistent/x"), "/nonexistent/x cannot be written"),
        (("context", "--session-start", "--opening", "warm"), "--opening is startup, resume, clear, compact or fork"),
        (("token", "create", "--scope", "root"), "--scope is read, write or admin, not 'root'."),
        (("settings", "langage", "fr"), "Did you mean 'language'? There are: language, auto_retrieve_enabled, "),
        (("settings", "langage"), "Did you mean 'language'? There are: language, "),
        (("settings", "mode", "heavi"), "Setting 'mode' (request) is heavy, light, normal or max, not 'heavi'."),
    ],
)
def test_a_word_that_does_not_exist_is_answered_with_those_that_do(
    user: User, words: tuple[str, ...], told: str
) -> None:
    code, out, err = user.types(*words)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_the_api_answers_with_the_list_too(user: User) -> None:
    refused = user.api.ask("GET", "/api/memory/search?q=x&collection=note")
    assert (refused.status, refused.body["detail"]) == (
        400,
        "query.collection is notes, turns, memories, threads or all, not 'note'.",
    )
    refused = user.api.ask("PATCH", "/api/memory/settings", {"mod": "max"})
    assert "Did you mean 'mode'? There are: mode, " in refused.body["detail"]
    refused = user.api.ask("GET", "/api/memory/facts?kind=moon")
    assert refused.body["detail"].startswith("kind is fact, decision, ")


def test_a_slip_in_the_settings_file_names_the_file_and_the_way_out(user: User) -> None:
    path = Path(user.api.home, "config.toml")
    try:
        for content, told in (
            ('langage = "fr"', "There is no setting 'langage' ({path}). Did you mean 'language'? "),
            (
                'mode = "big"',
                "Setting 'mode' ({path}) is light, normal, heavy or max, not 'big'. Correct it in ",
            ),
            ('mode = "big', "{path} cannot be read: "),
        ):
            path.write_text(content)
            for words in (("settings",), ("config", "show"), ("remember", "The port is 1."), ("status",)):
                code, _, err = user.types(*words)
                assert (code, told.format(path=path) in err, str(path) in err) == (2, True, True), err
    finally:
        path.unlink()


def test_a_slip_in_the_environment_or_in_a_project_file_is_said_on_a_line(user: User, tmp_path: Path) -> None:
    (tmp_path / "shop" / "src").mkdir(parents=True)
    (tmp_path / "shop" / ".filrouge.toml").write_text('project = "shop"\nlangage = "fr"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FILROUGE_BUGDET", "3")
        code, out, err = user.types("config", "show", "--json", folder=tmp_path / "shop" / "src")
        assert user.types("stats", "--help", folder=tmp_path / "shop")[2] == ""
    assert (code, json.loads(out)["budget"]) == (0, 2000)
    assert err.splitlines() == [
        "FILROUGE_BUGDET is not a setting and does nothing. Did you mean FILROUGE_BUDGET?",
        f"There is no setting 'langage' ({tmp_path}/shop/.filrouge.toml). Did you mean 'language'?",
    ]
    (tmp_path / "shop" / ".filrouge.toml").write_text('project = "shop"\nlanguage = "fr"\nllm_url = "x"\n')
    assert user.types("status", folder=tmp_path / "shop")[2] == ""


def test_commands_know_the_words_of_the_model_that_they_do_not_load() -> None:
    assert (*get_args(Kind), "turn") == search.KINDS
    assert threads.TYPES == BRIDGE_KINDS


def test_every_mode_has_its_model_and_its_cap() -> None:
    modes = get_args(Mode)
    assert modes == ("light", "normal", "heavy", "max") == settings.choices_of("mode")
    assert (tuple(MAX_ACTIVE_THREADS), tuple(SIZE_OF_MODE)) == (modes, modes)
    assert list(MAX_ACTIVE_THREADS.values()) == sorted(MAX_ACTIVE_THREADS.values())


def test_remember_says_as_what_where_and_what_it_replaced(user: User) -> None:
    code, out, _ = user.types("remember", "For the record: production listens on port 8443.")
    assert code == 0
    assert out.startswith("Remembered as a fact of the project shop (0")
    _, out, _ = user.types("remember", "Correction: production listens on port 9443, not 8443.")
    assert out.splitlines()[1] == "It replaces: production listens on port 8443."
    _, out, _ = user.types("remember", "Correction: production listens on port 9443, not 8443.")
    assert out.startswith("Known already: production listens on port 9443")
    _, out, _ = user.types("remember", "I prefer short answers.")
    assert out.startswith("Remembered as a preference for every project (0")


def test_lists_are_of_this_project_and_of_the_user_unless_all_is_asked_for(user: User) -> None:
    other = user.folder.parent / "other"
    user.types("remember", "For the record: the warehouse is in Ghent.", folder=other)
    user.types("rules", "add", "Never push on a Friday.", folder=other)
    user.types("remember", "I prefer tea over coffee.")
    _, here, _ = user.types("facts")
    assert ("Ghent" in here, "tea" in here) == (False, True)
    _, there, _ = user.types("facts", folder=other)
    assert ("Ghent" in there, "tea" in there) == (True, True)
    _, everything, _ = user.types("facts", "--all")
    assert "Ghent" in everything
    assert "Ghent" in user.types("facts", "--all", "--kind", "fact")[1]
    assert ("Friday" in user.types("rules")[1], "Friday" in user.types("rules", "--all")[1]) == (False, True)


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("What is the colour of the moon?", "Nothing is known about that.\n"),
        ("Quelle est la couleur de la lune ?", "Rien n’est connu à ce sujet.\n"),
        ("¿De qué color es la luna?", "No se sabe nada al respecto.\n"),
    ],
)
def test_recall_says_when_nothing_is_known(user: User, question: str, told: str) -> None:
    user.types("remember", "For the record: the invoice run starts at six.")
    assert user.types("recall", question) == (0, told, "")
    code, out, _ = user.types("recall", question, "--json")
    assert (code, '"results": []' in out) == (0, True)
    assert "six" in user.types("recall", "When does the invoice run start?")[1]
    assert "six" in user.types("recall", question, "--min-relevance", "0")[1]


def test_what_is_kept_in_a_review_is_what_is_said(user: User) -> None:
    for keep, kept, gone in (
        ("old", "Kept the old: {old}", "Put the new into the bin: {new}"),
        ("new", "Took the new: {new}", "It replaces: {old}"),
        ("both", "Kept both: {old}", "and: {new}"),
    ):
        project = f"{SHOP}-{keep}"
        [first] = user.api.remember("For the record: production listens on port 7001.", project)
        user.api.ask("PATCH", f"/api/memory/memories/{first['id']}", {"pinned": True})
        [second] = user.api.remember("Correction: production listens on port 7002, not 7001.", project)
        shown = user.api.get(f"/api/memory/review/{second['review']}")
        texts = {"old": shown["against"]["text"], "new": shown["text"]}
        assert "7001" in texts["old"]
        assert "7002" in texts["new"]
        code, out, _ = user.types("review", second["review"], "--keep", keep)
        assert (code, out.splitlines()) == (0, [kept.format(**texts), gone.format(**texts)])
