"""`filrouge doctor`, `health`, `stats` and `concepts`: diagnosis and figures.

`doctor` needs no daemon and works on a damaged home. Its checks are in `cli/doctor`, one module per subject. They run
in parallel under a common time limit of a few seconds, so that a daemon or provider that hangs delays nobody.

`health` shows how well Filrouge works and exits with 1 if something needs attention, with the next command to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from filrouge.capture import inbox
from filrouge.cli import output
from filrouge.cli.client import SHORT_SECONDS, ask, ask_if_running, names_of_project
from filrouge.cli.output import Json, Project
from filrouge.core.paths import home

if TYPE_CHECKING:
    from filrouge.cli.doctor.report import Repair
    from filrouge.cli.doctor.scene import Finding


_MARKS: Final = {"ok": "✓", "note": "·", "warn": "!", "fail": "✗"}


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(doctor)
    app.command()(health)
    app.command()(stats)
    app.command()(concepts)


def doctor(
    deep: Annotated[
        bool, typer.Option("--deep", help="Also check every row, the journal, the vectors, and load the embedder.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can be mended safely, and say what was done.")] = False,
    bundle: Annotated[
        str, typer.Option("--bundle", metavar="FILE.zip", help="Write a report without memories and secrets.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the machine, the home, the database, the daemon, the models and the agents."""
    # Imported here because the checks load the code that they check, which no other command needs.
    from filrouge.cli.doctor.report import CHECKS, DEEP_CHECKS, examine, mend, write_bundle
    from filrouge.cli.doctor.scene import scene_of

    scene, checks = scene_of(home(), deep=deep), (*CHECKS, *(DEEP_CHECKS if deep else ()))
    findings = examine(scene, checks)
    repairs = mend(scene, checks, findings) if fix else []
    repaired = {repair.after.check: repair for repair in repairs}
    findings = [repaired[finding.check].after if finding.check in repaired else finding for finding in findings]
    if bundle:
        write_bundle(bundle, scene, findings)
    if json:
        output.show_json([finding.to_json() | _repair_json(repaired.get(finding.check)) for finding in findings])
    else:
        _say_findings(findings, repairs)
        if bundle:
            output.say(f"Written: {bundle}. Look into it before you give it to anybody.")
    if any(finding.needs_action for finding in findings):
        raise typer.Exit(1)


def _repair_json(repair: Repair | None) -> dict[str, Any]:
    return {"before": repair.before.to_json(), "did": list(repair.did)} if repair else {}


def _say_findings(findings: list[Finding], repairs: list[Repair]) -> None:
    for repair in repairs:
        output.say(f"Before: {_finding_line(repair.before)}")
        for action in repair.did:
            output.say(f"  {action}")
    for finding in sorted(findings, key=lambda finding: tuple(_MARKS).index(finding.state)):  # failures come last
        output.say(_finding_line(finding))
    counts = {state: sum(finding.state == state for finding in findings) for state in _MARKS}
    output.say(", ".join(f"{number} {state}" for state, number in counts.items() if number))


def _finding_line(finding: Finding) -> str:
    remedy = f" → {finding.remedy}" if finding.remedy else ""
    return f"{_MARKS[finding.state]} {finding.check}: {finding.cause}{remedy}"


#: A part of the home is listed if it has at least this many bytes.
_MIN_SHOWN_BYTES = 1_000_000


def health(json: Json = False) -> None:
    """Show how well Filrouge works: threads, bridges, vectors, models, queue, daemon."""
    found = ask_if_running("GET", "/daemon/health") or _stopped()
    if json:
        output.show_json(found)
    else:
        for line in _lines(found):
            output.say(line)
    if found["warnings"]:
        raise typer.Exit(1)


def threads_line(counts: dict[str, int]) -> str:
    """Return a line such as `158 (100 active, 58 suspended), 3 archived`."""
    line = f"{counts['active'] + counts['suspended']} ({counts['active']} active, {counts['suspended']} suspended)"
    return f"{line}, {counts['archived']} archived" if counts["archived"] else line


def _stopped() -> dict[str, Any]:
    """Return the report for the case that no daemon runs."""
    lost = inbox.read_losses(home())
    warnings = [{"what": "Daemon", "cause": "it is not running", "next": "filrouge daemon start"}]
    if lost.events:
        warnings.append({"what": "Lost events", "cause": lost.sentence(), "next": "filrouge doctor"})
    return {"status": "warn", "daemon": "Stopped", "lost": lost._asdict(), "warnings": warnings}


def _lines(found: dict[str, Any]) -> list[str]:
    lines = list[str]()
    if found["daemon"] == "Running":
        llm, queue = found["llm"], found["queue"]
        ledger = ", ".join(f"{number} {state}" for state, number in sorted(found["ledger"].items()))
        lines += [
            f"Threads: {threads_line(found['threads'])}",
            f"Bridges: {found['bridges']['stored']}",
            f"Continuation rate: {_percent(found['continuation']['rate'])}",
            f"Reactivation rate: {_percent(found['reactivation']['rate'])}",
            f"Embedding coverage: {_percent(found['embedding_coverage']['rate'])}",
            f"LLM calls: {llm['calls']} in {llm['days']} days (${llm['dollars']:.2f}), {llm['today']['calls']} today",
            f"Queue: {queue['waiting']} waiting, {queue['running']} running, {queue['dead']} dead",
            f"Events: {ledger or 'none yet'}",
            f"Storage: {_storage(found['storage'])}",
        ]
    lines.append(f"Daemon: {found['daemon']}")
    return lines + [f"! {warning['what']}: {warning['cause']} → {warning['next']}" for warning in found["warnings"]]


def _storage(found: dict[str, Any]) -> str:
    """Return the size of the home and the last retention run in one line.

    Example: `812 MB of 5000 (database 640, words 90, backups 82); retention took 120 tool outputs, 9 filtered
    messages on 2026-05-01`.
    """
    parts = sorted(found["parts"].items(), key=lambda part: -part[1])
    shown = ", ".join(f"{name} {size / 1e6:,.0f}" for name, size in parts if size >= _MIN_SHOWN_BYTES)
    limit = f" of {found['cap'] / 1e6:,.0f}" if found["cap"] else ""
    line = f"{found['bytes'] / 1e6:,.0f} MB{limit}{f' ({shown})' if shown else ''}"
    last = found["retention"]
    if last is None:
        return line
    removed = last["taken"]
    counts = f"{removed.get('tools', 0)} tool outputs, {removed.get('noise', 0)} filtered messages"
    return f"{line}; retention took {counts} on {last['at'][:10]}"


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f}%"


_DEFAULT_DAYS = 30


def stats(
    days: Annotated[
        int, typer.Option("--days", help="So many days back, today included.", min=1, max=366)
    ] = _DEFAULT_DAYS,
    usage: Annotated[bool, typer.Option("--usage", help="With --json: the figures of /api/memory/usage.")] = False,
    json: Json = False,
) -> None:
    """Show the contents of the memory, and what recall and models cost."""
    if json and not usage:
        output.show_json(ask("GET", "/api/memory/stats", timeout=SHORT_SECONDS))
        return
    figures = ask("GET", f"/api/memory/usage?days={days}", timeout=SHORT_SECONDS)
    if json:
        output.show_json(figures)
        return
    counts = ask("GET", "/api/memory/stats", timeout=SHORT_SECONDS)
    for line in _stats_lines(counts, figures):
        output.say(line)


def _stats_lines(counts: dict[str, Any], figures: dict[str, Any]) -> list[str]:
    kinds = ", ".join(f"{number} {kind}" for kind, number in figures["memories"].items())
    names = ("recalls", "delivered", "late", "empty")
    recalls, delivered, late, empty = (sum(row[name] for row in figures["recalls"]) for name in names)
    tokens, days = sum(row["tokens"] for row in figures["projects"]), figures["days"]
    return [
        f"Memories: {sum(figures['memories'].values())}{f' ({kinds})' if kinds else ''}",
        f"Messages: {counts['messagesCount']}",
        f"Vectors: {counts['vectorsCount']}",
        f"Threads: {threads_line(figures['threads'])}, {figures['bridges']} bridges",
        f"Last captured: {counts['lastIndexedAt'] or 'nothing yet'}",
        f"Recalls in {days} days: {recalls} ({delivered} delivered, {late} late, {empty} empty), {tokens} tokens added",
        *(_project(project) for project in figures["projects"]),
        f"Models in {days} days: {_models(figures['models'], figures['dollars'])}",
        *_operations(figures["models"]),
        f"On the disk: {output.megabytes(sum(figures['bytes'].values()))}",
    ]


def _project(project: dict[str, Any]) -> str:
    tokens = project["tokens_per_useful_memory"]
    usage = (
        f"{tokens:g} tokens for each of {project['useful_memories']} useful memories"
        if tokens
        else "no memory in it yet"
    )
    name = project["project_name"] or "no project"
    return f"  {name}: {project['recalls']} recalls, {project['tokens']} tokens, {usage}"


def _models(rows: list[dict[str, Any]], dollars: float) -> str:
    calls, tokens = sum(row["calls"] for row in rows), sum(row["input_tokens"] + row["output_tokens"] for row in rows)
    unpriced = sum(row["calls"] for row in rows if row["dollars"] is None)
    return (
        f"{calls} calls, {tokens} tokens, ${dollars:.2f}{f' without {unpriced} of unknown price' if unpriced else ''}"
    )


def _operations(rows: list[dict[str, Any]]) -> list[str]:
    spent = dict[str, tuple[int, int, float]]()
    for row in rows:
        calls, tokens, dollars = spent.get(row["operation"], (0, 0, 0.0))
        tokens += row["input_tokens"] + row["output_tokens"]
        spent[row["operation"]] = (calls + row["calls"], tokens, dollars + (row["dollars"] or 0.0))
    return [
        f"  {name}: {calls} calls, {tokens} tokens, ${dollars:.2f}" for name, (calls, tokens, dollars) in spent.items()
    ]


def concepts(
    project: Project = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000)] = 50,
    json: Json = False,
) -> None:
    """List the concepts of sessions, the most frequent first."""
    query: dict[str, Any] = {"limit": limit} | ({"project": names_of_project(project)} if project else {})
    found = ask("GET", "/api/memory/concepts", query=query)
    columns = ("Sessions", "First", "Last", "Project", "Concept")
    output.show_list(found, columns, _concept_row, json=json, empty="No session was analysed yet.")


def _concept_row(concept: Mapping[str, Any]) -> tuple[object, ...]:
    first, last = concept["first_date"][:10], concept["last_date"][:10]
    return concept["mention_count"], first, last, concept["project_name"] or "-", concept["concept"]
