"""A real repository that changes its branch and its remote, told by the real hook: one project, each thing with its
branch."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from .processes import daemon, eventually, hook, prompt, quiet, run, workplace

PORT = "For the record: production listens on port 8443."
VALKEY = "We decided on Valkey instead of Redis for the job queue."
LINT = "For the record: staging listens on port 9000."
TILL = "For the record: the till service listens on port 7000."


def git(directory: str, *words: str) -> str:
    names = {f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {"PATH": os.environ["PATH"], "HOME": directory, "GIT_CONFIG_NOSYSTEM": "1", **names}
    done = subprocess.run(["git", *words], cwd=directory, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def asked(home: str, *words: str) -> Any:
    done = run(home, *words, "--json")
    assert done.code == 0, done
    return json.loads(done.out)


def tell(home: str, session: str, text: str, cwd: str) -> None:
    done = hook(home, prompt(home, session, f"{session}-1", text) | {"cwd": cwd})
    assert (done.code, done.err) == (0, "")
    eventually("it is understood", lambda: quiet(home))


def test_what_is_said_on_branches_is_told_with_them_and_a_changed_remote_is_the_same_project(home: str) -> None:
    shop = workplace(home)
    git(shop, "init", "-q", "-b", "main")
    git(shop, "remote", "add", "origin", "git@old.example:ana/shop.git")
    git(shop, "commit", "-q", "--allow-empty", "-m", "first")
    beside = os.path.join(os.path.dirname(home), "beside")
    git(shop, "worktree", "add", "-q", "-b", "hotfix", beside)
    with daemon(home):
        tell(home, "a", PORT, shop)
        git(shop, "remote", "set-url", "origin", "https://new.example/ana/shop")
        git(shop, "switch", "-q", "-c", "feature/queue")
        tell(home, "b", VALKEY, shop)
        tell(home, "c", LINT, beside)
        asked(home, "remember", "The queue has three workers.")

        facts = asked(home, "facts")
        assert {one["branch"] for one in facts} == {"main", "feature/queue", "hotfix"}
        assert [one["branch"] for one in facts if "8443" in one["text"]] == ["main"]
        assert len({one["project"] for one in facts}) == 1
        typed, queue = asked(home, "facts", "--branch", "feature/queue")
        assert ("three workers" in typed["text"], "Valkey" in queue["text"]) == (True, True)
        assert "feature/queue" in run(home, "why", queue["id"]).out
        # Recall is narrowed by no branch unless one is named.
        assert "8443" in str(asked(home, "recall", "Which port does production listen on?", "--project", shop))
        hits = asked(home, "search", "production port", "--branch", "main")
        assert {hit["branch"] for hit in hits} == {"main"}

        [project] = asked(home, "project", "list")
        assert project["aliases"] == sorted(project["aliases"])
        assert {"origin:old.example/ana/shop", "origin:new.example/ana/shop"} <= set(project["aliases"])


def test_a_fresh_clone_from_another_remote_is_put_together_with_the_old_by_hand(home: str) -> None:
    shop = workplace(home)
    git(shop, "init", "-q", "-b", "main")
    git(shop, "commit", "-q", "--allow-empty", "-m", "first")
    git(shop, "remote", "add", "origin", "git@old.example:ana/shop.git")
    clone = str(Path(home).parent / "clone")
    git(shop, "clone", "-q", shop, clone)
    git(clone, "remote", "set-url", "origin", "https://new.example/ana/shop")
    with daemon(home):
        tell(home, "a", PORT, shop)
        tell(home, "b", TILL, clone)
        assert len(asked(home, "project", "list")) == 2
        merged = asked(home, "project", "merge", clone, shop, "--yes")
        assert merged["memories"] == 1
        tell(home, "c", LINT, clone)
        [project] = asked(home, "project", "list")
        assert project["memories"] == 3
        assert "7000" in str(asked(home, "recall", "Which port does the till service listen on?", "--project", shop))
