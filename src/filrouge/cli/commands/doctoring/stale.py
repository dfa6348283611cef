"""What `init` wrote and what it would write today; `--fix` puts the one in the place of the other.

Only files of which `init` keeps a record are looked at, and of those only what is Filrouge's: an agent that nobody
connected stays so.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.probing import starts, which
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.errors import BadInput, FilrougeError
from filrouge.hosts.setup import files
from filrouge.hosts.setup.agent import Agent, File
from filrouge.hosts.setup.entries import entries_of_ours, stands
from filrouge.hosts.setup.machine import Machine, this_machine
from filrouge.hosts.setup.manifest import Manifest
from filrouge.hosts.setup.ours import plugin_path, program
from filrouge.hosts.setup.plan import Change, Plan, carry_out, connecting
from filrouge.hosts.setup.plugged import plugged
from filrouge.hosts.setup.wanted import AGENTS

_TEXTS: Final = re.compile(r'"([^"]+)"')
_FIX: Final = "Run `filrouge doctor --fix`, or `filrouge init --host {name}` to see the lines first."


class _Written(NamedTuple):
    """What stands of ours in the files of an agent, by the record."""

    agent: Agent
    hooks: bool
    tools: bool


def _stale(scene: Scene) -> Verdict:
    machine = this_machine(scene.environ)
    connected = list(_connected(scene, machine))
    plans = [(one, _plan(scene, machine, one)) for one in connected]
    for one, plan in plans:
        for path, error in plan.troubles.items():
            return fail(f"{one.agent.title}: {path}: {error.message}", f"Mend {path}; until then it is left alone.")
    stale = [(one, plan) for one, plan in plans if plan.changes]
    if not stale:
        titles = ", ".join(one.agent.title for one in connected)
        return ok(f"as `init` writes it: {titles}" if titles else "`init` wrote nothing")
    agents = ", ".join(one.agent.title for one, _ in stale)
    remedy = _FIX.format(name=stale[0][0].agent.name)
    if all(_is_of_another(scene, machine, one, plan) for one, plan in stale):
        return note(f"{agents}: connected to another Filrouge than this one, {machine.executable}", remedy)
    paths = ", ".join(change.path for _, plan in stale for change in plan.changes)
    return warn(f"{agents}: not as `init` writes it now: {paths}", remedy)


def _mend(scene: Scene) -> list[str]:
    machine = this_machine(scene.environ)
    deeds = list[str]()
    for one in _connected(scene, machine):
        changes = _plan(scene, machine, one).changes
        done = [_carried_out(change, scene.home) for change in changes]
        deeds += done
        if any(done) and one.hooks and one.agent.then:
            deeds.append(one.agent.then)
    return deeds


def _carried_out(change: Change, home: str) -> str:
    """One file that refuses keeps no other back."""
    try:
        carry_out(change, home)
    except FilrougeError as error:
        return f"{change.path} could not be mended: {error.message} {error.remedy}".rstrip()
    return f"{change.path}: Filrouge's entries are as `init` writes them now"


def _connected(scene: Scene, machine: Machine) -> Iterator[_Written]:
    records = Manifest(scene.home).records()
    for agent in AGENTS.values():
        hooks, tools = (
            any(file.path in records and _stands(file) for file in found)
            for found in (agent.hooks(machine), agent.tools(machine))
        )
        if hooks or tools:
            yield _Written(agent, hooks, tools)


def _stands(file: File) -> bool:
    """Whether anything of ours is in it; of what cannot be read that is not known, and the plan says why."""
    try:
        return stands(files.text_of(files.read(file.path), file.path), file)
    except BadInput:
        return os.path.exists(file.path)


def _plan(scene: Scene, machine: Machine, one: _Written) -> Plan:
    """What `init --host` would do about what is there: hooks without tools get none, and tools no hooks."""
    name = one.agent.name
    return connecting(machine, scene.home, [name], hooks=one.hooks, tools=one.tools, conversations=one.hooks)


def _is_of_another(scene: Scene, machine: Machine, one: _Written, plan: Plan) -> bool:
    """Whether all is as another Filrouge on this machine writes it, which is no fault."""
    gone = [line for change in plan.changes for line in change.lines() if line.startswith("-")]
    programs = {word for line in gone for said in _TEXTS.findall(line) for word in _first_word(said)}
    others = (Machine(environ=machine.environ, executable=program) for program in programs)
    return any(which(other.executable, {}) and not _plan(scene, other, one).changes for other in others)


def _first_word(said: str) -> list[str]:
    try:
        words = shlex.split(said)[:1]
    except ValueError:
        return []
    return [word for word in words if os.path.isabs(word)]


def _programs(scene: Scene) -> Verdict:
    """Whether every program and plugin in the agents' settings is there, and every program runs."""
    machine = this_machine(scene.environ)
    runs = dict[str, bool]()
    for agent, file in ((one, file) for one in AGENTS.values() for file in _files_of(one, machine)):
        try:
            found = entries_of_ours(files.text_of(files.read(file.path), file.path), file)
        except BadInput:  # "What init wrote" and the agents' own checks name the file
            continue
        remedy = f"Run `filrouge init --host {agent.name}`."
        for entry in found:
            plugin, named = plugin_path(entry), program(entry)
            if os.path.isabs(plugin) and not os.path.exists(plugin):
                return fail(f"{agent.title}: {file.path} names {plugin}, which is not there", remedy)
            if not named:
                if os.path.isfile(plugin):
                    return warn(f"{agent.title}: the plugin in {file.path} is not told where `filrouge` is", remedy)
                continue
            path = which(os.path.expanduser(named), scene.environ)
            if not path:
                return fail(f"{agent.title}: {file.path} runs {named}, which is not there", remedy)
            if path not in runs:
                runs[path] = starts(path, scene.environ)
            if not runs[path]:
                return fail(f"{agent.title}: {file.path} runs {path}, which does not start", remedy)
    return ok(f"they run {', '.join(runs)}" if runs else "no agent is connected")


def _files_of(agent: Agent, machine: Machine) -> tuple[File, ...]:
    return (*agent.hooks(machine), *agent.tools(machine))


def _opencode_twice(scene: Scene) -> Verdict:
    machine = this_machine(scene.environ)
    agent = AGENTS["opencode"]
    found = plugged(agent.name, machine)
    if found is None:
        return ok("no plugin lies in its folder")
    for file in agent.hooks(machine):
        try:
            if stands(files.text_of(files.read(file.path), file.path), file):
                return warn(
                    f"{agent.title} has Filrouge's plugin in its folder ({found.place}) and in {file.path}: every"
                    " prompt gets two blocks",
                    f"Remove one of them: `filrouge uninstall --host {agent.name}`, or {found.remove}.",
                )
        except BadInput as error:
            return fail(f"{file.path}: {error.message}", f"Mend {file.path}.")
    return ok(f"a plugin brings it ({found.place})")


CHECKS: Final = (
    Check(name="What init wrote", look=_stale, mend=_mend),
    Check(name="Agents: programs", look=_programs),
    Check(name="OpenCode: double capture", look=_opencode_twice),
)
