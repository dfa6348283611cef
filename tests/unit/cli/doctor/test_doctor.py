"""`filrouge doctor` as a person types it: never longer than five seconds, mending what is safe, telling nothing."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import time
import zipfile
from pathlib import Path
from typing import Any

from filrouge.capture import inbox
from filrouge.capture.service import store_events
from filrouge.cli.doctor.report import CHECKS, DEEP_CHECKS, examine
from filrouge.cli.doctor.scene import Check, CheckResult, Scene, ok
from filrouge.core.clock import SystemClock, to_text
from filrouge.core.paths import CONFIG, DATABASE, FAILURE, LOG, SPOOL, socket_path, store_secret
from filrouge.daemon import client
from filrouge.daemon.process import is_held
from filrouge.maintenance.backup_service import back_up
from filrouge.memories.changes import remember
from filrouge.notes import vault
from filrouge.runtime.repository import create_token
from filrouge.testing import idle, running
from tests.support import shell
from tests.support.given import event
from tests.support.obsidian import KEY, obsidian
from tests.support.waiting import eventually
from tests.unit.server.conftest import serving

from .patient import NAMED, Patient, mode_of, written

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "doctor.md"


def typed(patient: Patient, *words: str) -> tuple[int, str, str]:
    """The command in a process of its own."""
    environ = {**patient.environ, "FILROUGE_HOME": patient.home}
    done = shell.typed("doctor", *words, environ=environ, folder=patient.project)
    return done.code, done.out, done.err


def by_name(out: str) -> dict[str, dict[str, Any]]:
    return {one["check"]: one for one in json.loads(out)}


def test_every_check_is_broken_by_a_test_and_stands_in_the_reference() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    broken = set(re.findall(r'finding\(\s*"([^"]+)"', tests)) | set(re.findall(r'\(\s*"([A-Z][^"]+)",', tests))
    broken |= set(re.findall(r'"((?:Codex|Claude Code): [a-z ]+)"', tests))
    assert set(NAMED) - broken == set()
    rows = set(re.findall(r"^\| ([^|]+?) \|", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(NAMED) - rows == set()
    assert len(NAMED) == len(CHECKS) + len(DEEP_CHECKS) >= 70


def test_each_finding_that_wants_something_done_says_what(patient: Patient) -> None:
    patient.write(CONFIG, "bugdet = 1\n", 0o644)
    patient.path(DATABASE).write_bytes(b"nothing of the kind" * 400)
    found = examine(patient.scene(), CHECKS)
    assert [one.check for one in found] == [check.name for check in CHECKS]
    assert [one for one in found if one.needs_action and not (one.cause and one.remedy)] == []
    assert {"Database", "Mode of the settings file"} <= {one.check for one in found if one.needs_action}


def test_it_takes_no_five_seconds_though_the_daemon_and_the_provider_hang(patient: Patient) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as daemon,
        socket.create_server(("127.0.0.1", 0)) as provider,
        socket.create_server(("127.0.0.1", 0)) as app,
        obsidian(patient.beside) as known,
    ):
        daemon.bind(socket_path(patient.home))
        daemon.listen(64)
        os.chmod(socket_path(patient.home), 0o600)
        address = f"http://127.0.0.1:{provider.getsockname()[1]}"
        patient.environ.update({"FILROUGE_EXTRACT_PROVIDER": "ollama", "OLLAMA_URL": address})
        patient.environ["FILROUGE_NOTES_FOLDER"] = f"https://127.0.0.1:{app.getsockname()[1]}"
        store_secret(patient.home, vault.CERTIFICATE, known.pem)
        store_secret(patient.home, vault.KEY, KEY)
        patient.program("claude", "exec sleep 30")
        began = time.monotonic()
        code, out, err = typed(patient, "--json")
        took = time.monotonic() - began
    found = by_name(out)
    assert (code, err) == (1, "")
    assert found["Daemon"]["state"] == found["Server of the provider"]["state"] == "fail"
    assert found["Vault: Obsidian"]["state"] == "fail"
    assert took < 20.0


def test_a_check_that_never_ends_keeps_nobody_waiting(bare: Patient) -> None:
    held = time.monotonic() + 20

    def forever(_: Scene) -> CheckResult:
        while time.monotonic() < held:
            time.sleep(0.05)
        return ok("at last")

    began = time.monotonic()
    slow, quick = examine(bare.scene(), [Check("Slow", "home", forever), NAMED["Python"]], seconds=0.3)
    assert time.monotonic() - began < 15
    assert (slow.state, slow.cause, quick.state) == ("warn", "no result within 0.3 seconds", "ok")
    assert "--deep" in slow.remedy


def test_a_home_without_trouble_ends_with_nought_and_others_with_one(patient: Patient) -> None:
    with serving(patient.home):
        said = list[str]()

        def is_sound() -> bool:
            code, out, _ = typed(patient)
            said.append(out)
            return code == 0

        eventually("the daemon answers within a second, and nothing is wrong", is_sound)
    assert "✓ Daemon: answers" in said[-1]
    code, out, _ = typed(patient)
    assert code == 1, out
    assert "! Daemon: it is not running" in out
    assert out.splitlines()[-1].endswith("1 warn"), out


def test_fixing_says_what_was_before_what_was_done_and_what_is_now(patient: Patient) -> None:
    patient.environ["FILROUGE_PORT"] = "0"
    patient.path(DATABASE).chmod(0o644)
    patient.path().chmod(0o755)
    inbox.append_event(str(patient.path(SPOOL)), event(text="The lift is out of order.")._asdict())
    _, out, err = typed(patient, "--fix", "--json")
    found = by_name(out)
    assert err == ""
    assert found["Home"]["before"]["state"] == "warn"
    assert (found["Home"]["state"], found["Home"]["did"]) == ("ok", [f"{patient.home}: mode 755 became 700"])
    assert f"{DATABASE}: mode 644 became 600" in found["File modes"]["did"]
    assert found["Spool"]["did"] == ["started the daemon, which takes in 1 events"]
    assert [mode_of(patient.path()), mode_of(patient.path(DATABASE))] == [0o700, 0o600]
    assert "did" not in found["Python"]
    try:
        assert client.request(patient.home, "GET", "/health", None, 10.0).status == 200
    finally:
        client.request(patient.home, "POST", "/daemon/stop", {}, 10.0)
        until = time.monotonic() + 60
        while is_held(patient.home) and time.monotonic() < until:
            time.sleep(0.05)
    assert list(patient.path(SPOOL).glob("*.log")) == []


def test_fixing_prints_each_deed_for_people(patient: Patient) -> None:
    patient.path(DATABASE).chmod(0o644)
    _, out, _ = typed(patient, "--fix")
    assert f"Before: ! File modes: other users can read {DATABASE}" in out
    assert f"\n  {DATABASE}: mode 644 became 600\n" in out
    assert "✓ File modes" in out


def test_fixing_leaves_alone_what_is_not_known(patient: Patient) -> None:
    patient.write(CONFIG, "budget = \n")
    code, out, err = typed(patient, "--fix")
    assert (code, err) == (1, "")
    assert "· Embedding files: unknown while the settings cannot be read" in out


def test_looking_changes_nothing_in_the_home(patient: Patient) -> None:
    before = contents(patient.path())
    typed(patient)
    assert contents(patient.path()) == before


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file but the shared memory of those that have the database open, and a log without any change in it."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith("-shm") and path.stat().st_size
    }


#: What must be in no report, each entered on another way.
CANARIES = {
    "memory": "zqmemoryferry",
    "prompt": "zqpromptlighthouse",
    "spooled": "zqspooledharbour",
    "project": "zqprojectwindmill",
    "token name": "zqtokennamebridge",
    "environment": "zqenvironmentkeyvalue",
    "bearer": "zqbearerapikeyvalue",
    "config": "zqconfigvalue",
    "folder": "zqprojectfolder",
    "disabled": "zqdisabledproject",
    "stored": "zqstoredsetting",
    "printed": "zqprintedbyalibrary",
    "job": "zqerrorofajob",
    "hook": "zqhookcommandkey",
}


def test_a_report_holds_no_memory_no_prompt_and_no_secret(bare: Patient) -> None:
    secret = told_everything(bare)
    report = bare.beside / "report.zip"
    code, out, err = typed(bare, "--bundle", str(report))
    assert (code, err) == (1, ""), out
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    with zipfile.ZipFile(report) as archive:
        content = {name: archive.read(name).decode() for name in archive.namelist()}
    whole = "\n".join(content.values()).lower()
    assert {name for name, word in CANARIES.items() if word in whole} == set()
    assert secret.lower() not in whole
    assert {str(place) for place in (bare.home, bare.user, bare.project) if str(place).lower() in whole} == set()
    counts = json.loads(content["filrouge-report/counts.json"])
    assert counts["turns"] >= 1
    assert {row["kind"] for row in counts["memories"]}
    settings = json.loads(content["filrouge-report/settings.json"])
    assert settings["budget"] == {"value": 901, "from": "user file"}
    assert settings["llm_url"]["value"] == "(set)"
    assert "ANTHROPIC_API_KEY" in json.loads(content["filrouge-report/environment.json"])
    assert "WARNING filrouge.runtime.jobs 3 jobs wait" in content["filrouge-report/log.txt"]
    assert len(json.loads(content["filrouge-report/findings.json"])) == len(CHECKS)


def told_everything(patient: Patient) -> str:
    """Enter a canary on every way; returns the secret of a token."""
    written(patient.project / ".filrouge.toml", f'llm_url = "https://{CANARIES["config"]}"\n')
    with running(patient.home) as parts:
        prompt = event(text=f"The {CANARIES['prompt']} opens at ten.", project=(f"name:{CANARIES['project']}",))
        store_events(parts, [prompt]).result(60)
        statement = f"For the record: the {CANARIES['memory']} leaves at nine."
        remember(parts, statement, names=(), scope="user", host="cli")
        secret: str = parts.writer.run(lambda tx: create_token(parts.clock, tx, CANARIES["token name"], "write"))[
            "token"
        ]
        idle(parts)
        back_up(patient.home, "hand", SystemClock().now())
    patient.sql(
        "INSERT INTO jobs (id, kind, dedupe_key, payload, state, created_at, run_at, error) VALUES"
        f" ('a', 'understand', '{CANARIES['job']}', '{{}}', 'dead', '2026-01-01', '2026-01-01', '{CANARIES['job']}')"
    )
    patient.sql(f"""UPDATE memory_settings SET value = '"{CANARIES["stored"]}"' WHERE key = 'project_name'""")
    inbox.append_event(str(patient.path(SPOOL)), {"text": CANARIES["spooled"]})
    patient.write(CONFIG, f'budget = 901\nllm_url = "https://host.example/{CANARIES["config"]}"\n')
    now = to_text(SystemClock().now())
    patient.write(
        LOG,
        f"{now} WARNING filrouge.runtime.jobs: 3 jobs wait, token {secret}\n"
        f"Traceback: {CANARIES['printed']}\n{now} INFO tantivy: {CANARIES['printed']}\n",
    )
    patient.write(FAILURE, json.dumps({"message": f"It ended near {CANARIES['environment']}.", "remedy": ""}))
    patient.codex("Stop", command=f"FILROUGE_API_KEY={CANARIES['hook']} /opt/gone/filrouge hook --host codex")
    patient.environ.update(
        {
            "ANTHROPIC_API_KEY": CANARIES["environment"],
            "FILROUGE_API_KEY": CANARIES["bearer"],
            "FILROUGE_DISABLED_PROJECTS": CANARIES["disabled"],
        }
    )
    return secret


def test_a_report_never_replaces_a_file(patient: Patient) -> None:
    there = written(patient.beside / "report.zip", "mine")
    code, _, err = typed(patient, "--bundle", str(there))
    assert (code, there.read_text()) == (2, "mine")
    assert "Choose another name" in err
