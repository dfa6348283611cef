"""Commands that change memories: remember, review, undo, supersede, pin, bin, rules.

`history` and `unpin` are here as well. Rules are standing instructions for agents. The command `hook` is here only for
the help: the executable serves `filrouge hook` before this module is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, current_branch, names_of_project
from filrouge.cli.commands.search import NO_FILTERS, Everything, Filters, filtered, listing
from filrouge.cli.output import Json, Project
from filrouge.core.choices import check_choice
from filrouge.core.errors import BadInput

_OUTCOMES = {
    "noop": "Known already",
    "delete": "No longer held as true",
    "conflict": "In conflict with what is known",
    "error": "Set aside",
}
_KIND_NAMES = {"intent": "an intent", "episode": "an episode"}


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(remember)
    app.command(help="Serve one hook call of an agent: its JSON on standard input (always ends with 0).")(hook)
    for command in (review, history, undo, supersede, pin, unpin, bin_):
        app.command(command.__name__.rstrip("_"))(command)


def remember(
    text: Annotated[str, typer.Argument(help="What to remember, in your own words.")],
    scope: Annotated[
        str | None, typer.Option(help="user (everywhere) or project; default: what the words say.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="A project: its name, id or directory.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")] = False,
) -> None:
    """Remember a statement. A newer statement about the same thing replaces the older one."""
    if scope is not None:
        check_choice("--scope", scope, ("user", "project"))
    body = {
        "text": text,
        "scope": scope,
        "project": names_of_project(project),
        "channel": "cli",
        "branch": current_branch(project),
    }
    found = ask("POST", "/api/memory/memories", body)
    if json:
        output.show_json(found)
        return
    for action in found["actions"]:
        _say_outcome(action)


def _say_outcome(action: Mapping[str, Any]) -> None:
    """Print the outcome for a statement: its kind, its scope, and the memory that it replaced."""
    if action["action"] in ("add", "update"):
        memory = _memory(action["id"])
        output.say(f"Remembered as {_kind(memory)} {_where(memory)} ({memory['id']}): {memory['text']}")
    else:
        output.say(f"{_OUTCOMES[action['action']]}: {_describe(action)}")
    for old in action["superseded"]:
        output.say(f"It replaces: {_memory(old)['text']}")
    if action.get("review"):
        output.say(f"It waits for you: filrouge review {action['review']}")


def _describe(action: Mapping[str, Any]) -> str:
    if not action["id"]:
        return action["reason"]
    memory = _memory(action["id"])
    return f"{memory['text']} ({_kind(memory)} {_where(memory)}, {memory['id']})"


def _memory(memory_id: str) -> Mapping[str, Any]:
    return ask("GET", f"/api/memory/memories/{quote(memory_id, safe='')}")


def _kind(memory: Mapping[str, Any]) -> str:
    return _KIND_NAMES.get(memory["kind"], f"a {memory['kind']}")


def _where(memory: Mapping[str, Any]) -> str:
    return "for every project" if memory["scope"] == "user" else f"of the project {memory['project_name'] or '-'}"


def hook(host: Annotated[str, typer.Option(help="The agent's name; recognised by shape if absent.")] = "") -> None:
    """Provide the help entry. `filrouge hook` itself is served by the fast path.

    Raises:
        BadInput: always; only an agent calls `filrouge hook`.
    """
    raise BadInput(f"`filrouge hook --host {host or 'NAME'}` is called by an agent.")


Id = Annotated[str, typer.Argument(help="A memory's id, or its beginning.")]


def review(
    memory_id: Annotated[str | None, typer.Argument(help="What waits; without it, everything is listed.")] = None,
    keep: Annotated[str | None, typer.Option(help="Settle a conflict: keep old, new or both.")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Believe a statement that lacks its proof.")] = False,
    dismiss: Annotated[
        bool, typer.Option("--dismiss", help="Put a statement that lacks its proof into the bin.")
    ] = False,
    settled: Annotated[bool, typer.Option("--all", help="List also what is settled.")] = False,
    json: Json = False,
) -> None:
    """List, show or settle what waits for review: contradictions, and statements without evidence."""
    settlements = [settlement for settlement, is_set in (("accept", accept), ("dismiss", dismiss)) if is_set] + (
        [keep] if keep else []
    )
    if len(settlements) > 1 or (settlements and memory_id is None):
        raise BadInput("To settle what waits, name its id and one of --keep, --accept, --dismiss.")
    if memory_id is None:
        _list(settled, json)
        return
    path = f"/api/memory/review/{quote(memory_id, safe='')}"
    found = ask("POST", path, {"settle": settlements[0]}) if settlements else ask("GET", path)
    if json:
        output.show_json(found)
    elif settlements:
        _say_settled(found)
    else:
        _show_review(found)


def history(memory_id: Id, json: Json = False) -> None:
    """Show every version of a memory and every decision about it. `undo` takes the number of a decision."""
    found = ask("GET", f"{_path(memory_id)}/history")
    if json:
        output.show_json(found)
        return
    for version in found["versions"]:
        pinned = ", pinned" if version["pinned"] else ""
        output.say(f"{version['id']} ({version['state']}{pinned}) {version['valid_from'][:16]}: {version['text']}")
        for quotation in version["quotes"]:
            output.say(f"  said {quotation['at'][:16]} ({quotation['channel']}): {quotation['text']}")
    output.table(
        ("Entry", "When", "Who", "What", "Why"),
        [(entry["entry"], entry["at"][:19], entry["actor"], _what(entry), _why(entry)) for entry in found["journal"]],
    )


def undo(
    what: Annotated[str, typer.Argument(help="An entry's number (see history), or a memory's id: its last decision.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would change.")] = False,
    json: Json = False,
) -> None:
    """Undo a decision and the later decisions that depend on it. An undo can be undone."""
    target = {"entry": int(what)} if what.isdecimal() and len(what) < _MAX_ENTRY_DIGITS else {"memory_id": what}
    found = ask("POST", "/api/memory/undo", {**target, "dry_run": dry_run})
    if json:
        output.show_json(found)
        return
    output.say(found["text"])
    if dry_run:
        output.say("Nothing was changed.")


def supersede(
    memory_id: Id,
    text: Annotated[str, typer.Argument(help="The new text.")],
    json: Json = False,
) -> None:
    """Replace the text of a memory. The old text stays in its history."""
    found = ask("POST", "/memory/supersede", {"old_id": memory_id, "new_text": text, "source": "cli"})
    if json:
        output.show_json(found)
        return
    output.say(f"{found['new_id']} replaces: {found['previous_text']}")


def pin(memory_id: Id, json: Json = False) -> None:
    """Pin a memory, so that only you can change it."""
    change("PATCH", memory_id, "", {"pinned": True}, "Pinned", json)


def unpin(memory_id: Id, json: Json = False) -> None:
    """Unpin a memory, so that it can change again."""
    change("PATCH", memory_id, "", {"pinned": False}, "No longer pinned", json)


def bin_(memory_id: Id, json: Json = False) -> None:
    """Move a memory to the bin. `filrouge restore` brings it back."""
    change("POST", memory_id, "/bin", {}, "In the bin", json)


#: A number with fewer digits is a journal entry. An id has 26 characters, so the two cannot be confused.
_MAX_ENTRY_DIGITS = 19


def change(method: str, memory_id: str, verb: str, body: Mapping[str, object], done: str, json: bool) -> None:
    """Send a change of a memory to the daemon, and print the result."""
    found = ask(method, f"{_path(memory_id)}{verb}", body)
    if json:
        output.show_json(found)
    else:
        output.say(f"{done}: {found['id']}")


def _list(settled: bool, json: bool) -> None:
    found = ask("GET", "/api/memory/review", query={"settled": settled})
    columns = ("Id", "Kind", "State", "Statement", "Against")
    output.show_list(found, columns, _review_row, json=json, empty="Nothing waits for review.")


def _review_row(item: Mapping[str, Any]) -> tuple[str, ...]:
    against = item["against"]["text"] if item["against"] else "-"
    return item["id"], item["kind"], item["outcome"], item["text"], against


def _show_review(item: Mapping[str, Any]) -> None:
    rows = {"Id": item["id"], "Kind": item["kind"], "State": item["outcome"], "Why": item["reason"]}
    if item["against"]:
        rows["Against"] = f"{item['against']['text']} ({item['against']['id']}, {item['against']['state']})"
    output.box(item["text"], rows)
    for quotation in item["quotes"]:
        output.say(f"said {quotation['at']} ({quotation['channel']}): {quotation['text']}")
    if item["outcome"] == "open":
        options = "--keep old|new|both" if item["kind"] == "conflict" else "--accept | --dismiss"
        output.say(f"Settle it: filrouge review {item['id']} {options}")


def _say_settled(found: Mapping[str, Any]) -> None:
    """Print which statements are kept and which are not."""
    new, old = found["text"], found["against"]["text"] if found["against"] else ""
    lines_by_outcome = {
        "old": (f"Kept the old: {old}", f"Put the new into the bin: {new}"),
        "new": (f"Took the new: {new}", f"It replaces: {old}"),
        "both": (f"Kept both: {old}", f"and: {new}"),
        "accept": (f"Accepted: {new}",),
        "dismiss": (f"Dismissed: {new}",),
    }
    for line in lines_by_outcome[found["outcome"]]:
        output.say(line)


def _path(memory_id: str) -> str:
    return f"/api/memory/memories/{quote(memory_id, safe='')}"


def _what(entry: Mapping[str, Any]) -> str:
    return f"{entry['action']} (undone)" if entry["undone"] else str(entry["action"])


def _why(entry: Mapping[str, Any]) -> str:
    payload: Mapping[str, Any] | None = entry["payload"]
    return str(payload.get("reason", "")) if payload else "forgotten"


rules_app = typer.Typer(help="The standing instructions of you and your projects.", invoke_without_command=True)
RuleId = Annotated[str, typer.Argument(help="A rule's id, or its beginning.")]
#: Agents get at most this many rules of each scope.
_MAX_RULES = 20
_NO_RULES = "There are no rules of this project or of you yet. Other projects: filrouge rules --all"


@rules_app.command("list")
@rules_app.callback()
@filtered("role", "kind")
def rules(
    context: typer.Context,
    everything: Everything = False,
    project: Project = None,
    filters: Filters = NO_FILTERS,
    json: Json = False,
) -> None:
    """List the rules of this project and of you, newest first, with the origin and state of each."""
    if context.invoked_subcommand is None:
        _list_rules(everything, project, filters, json)


@rules_app.command()
def add(
    text: Annotated[str, typer.Argument(help="The rule, in your own words.")],
    everywhere: Annotated[bool, typer.Option("--user", help="It holds in every project.")] = False,
    project: Project = None,
    json: Json = False,
) -> None:
    """Add a rule. It applies to this project, or with --user to every project."""
    scope = "user" if everywhere else "project"
    found = ask("POST", "/api/memory/rules", {"text": text, "scope": scope, "project": names_of_project(project)})
    _say_rule(found, "Added", json)
    if not json:
        _notice(ask("GET", "/api/memory/rules"))


@rules_app.command()
def edit(rule_id: RuleId, text: Annotated[str, typer.Argument(help="The new text.")], json: Json = False) -> None:
    """Change the text of a rule. A new version replaces the old one."""
    _say_rule(ask("PATCH", _rule_path(rule_id), {"text": text}), "Now", json)


@rules_app.command()
def disable(rule_id: RuleId, json: Json = False) -> None:
    """Disable a rule: it is kept, but agents do not get it."""
    _say_rule(ask("PATCH", _rule_path(rule_id), {"enabled": False}), "Disabled", json)


@rules_app.command()
def enable(rule_id: RuleId, json: Json = False) -> None:
    """Enable a disabled rule, so that agents get it again."""
    _say_rule(ask("PATCH", _rule_path(rule_id), {"enabled": True}), "Enabled", json)


@rules_app.command()
def remove(rule_id: RuleId, json: Json = False) -> None:
    """Move a rule to the bin. `filrouge restore` brings it back."""
    found = ask("DELETE", _rule_path(rule_id))
    if json:
        output.show_json(found)
    else:
        output.say(f"In the bin: {found['id']}")


def _list_rules(everything: bool, project: str | None, filters: Filters, json: bool) -> None:
    found = ask("GET", "/api/memory/rules", query=listing(project, filters, everything=everything))
    empty = "There are no rules yet." if everything else _NO_RULES
    output.show_list(found, ("Id", "Stands", "Where", "From", "Text"), _rule_row, json=json, empty=empty)
    if not json:
        _notice(found)


def _rule_row(rule: Mapping[str, Any]) -> tuple[str, ...]:
    where = rule["project_name"] if rule["scope"] == "project" else "user"
    pinned = ", pinned" if rule["pinned"] else ""
    source: list[Mapping[str, Any]] = rule["source"]
    origin = f"{source[0]['by']} {source[0]['at'][:10]}" if source else f"you {rule['created_at'][:10]}"
    return rule["id"], f"{rule['standing']}{pinned}", where or "-", origin, rule["text"]


def _say_rule(rule: Mapping[str, Any], done: str, json: bool) -> None:
    if json:
        output.show_json(rule)
    else:
        output.say(f"{done}: {rule['id']} {rule['text']}")


def _notice(found: list[Mapping[str, Any]]) -> None:
    """Print a notice if rules wait because their scope has too many."""
    number = sum(rule["standing"] == "waiting" for rule in found)
    if number:
        waiting = "1 rule waits" if number == 1 else f"{number} rules wait"
        output.say(
            f"{waiting}: {_MAX_RULES} of a scope are given to agents. Remove, disable or pin some to choose which."
        )


def _rule_path(rule_id: str) -> str:
    return f"/api/memory/rules/{quote(rule_id, safe='')}"
