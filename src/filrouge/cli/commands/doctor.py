"""`filrouge doctor`: what is wrong, why, and what to do. It needs no daemon, and works on a damaged home.

The checks stand in `cli/doctor`, a module for each subject. All of them run at once and have a few seconds together, so
that a daemon or a provider that hangs keeps nobody waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from filrouge.cli import output
from filrouge.core.paths import home

if TYPE_CHECKING:
    from filrouge.cli.doctor.report import Mended
    from filrouge.cli.doctor.scene import Finding

_MARKS: Final = {"ok": "✓", "note": "·", "warn": "!", "fail": "✗"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


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
    # The checks load what they look at; no other command needs it.
    from filrouge.cli.doctor.report import CHECKS, DEEP_CHECKS, examine, mend, write_bundle
    from filrouge.cli.doctor.scene import scene_of

    scene, checks = scene_of(home(), deep=deep), (*CHECKS, *(DEEP_CHECKS if deep else ()))
    findings = examine(scene, checks)
    mended = mend(scene, checks, findings) if fix else []
    now = {one.after.check: one for one in mended}
    findings = [now[one.check].after if one.check in now else one for one in findings]
    if bundle:
        write_bundle(bundle, scene, findings)
    if json:
        output.show_json([one.to_json() | _deeds(now.get(one.check)) for one in findings])
    else:
        _say(findings, mended)
        if bundle:
            output.say(f"Written: {bundle}. Look into it before you give it to anybody.")
    if any(one.is_trouble for one in findings):
        raise typer.Exit(1)


def _deeds(mended: Mended | None) -> dict[str, Any]:
    return {"before": mended.before.to_json(), "did": list(mended.did)} if mended else {}


def _say(findings: list[Finding], mended: list[Mended]) -> None:
    for one in mended:
        output.say(f"Before: {_line(one.before)}")
        for deed in one.did:
            output.say(f"  {deed}")
    for finding in sorted(findings, key=lambda one: tuple(_MARKS).index(one.state)):  # what is to be done comes last
        output.say(_line(finding))
    counts = {state: sum(one.state == state for one in findings) for state in _MARKS}
    output.say(", ".join(f"{number} {state}" for state, number in counts.items() if number))


def _line(finding: Finding) -> str:
    remedy = f" → {finding.remedy}" if finding.remedy else ""
    return f"{_MARKS[finding.state]} {finding.check}: {finding.cause}{remedy}"
