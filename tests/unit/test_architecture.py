"""The shape of the tree: dependencies point one way, and nothing runs in a circle.

The imports are read from the source, the lazy ones and those by name included, and held against the order
`model ← ports ← {adapters | thinking} ← app ← surfaces`.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import filrouge

ROOT = Path(filrouge.__file__).parent
FOUNDATION = {
    "errors", "clock", "home", "config", "address", "breaker", "choices", "slips", "control_characters", "lazy_re",
    "_version", "installation", "model",
}  # fmt: skip
ADAPTERS = {
    "store", "index", "embed", "llm", "hosts", "daemon", "transfer", "notes",
    "capture.inbox", "capture.losses", "capture.transcripts", "capture.redact_complete",
}  # fmt: skip
THINKING = {"extraction", "threads", "recall", "inject", "garden", "capture"}
SURFACES = {"cli", "server", "web", "sdk", "testing"}
#: The SDK, embedded, asks the routes in-process (ADR 0017); the fakes offer one that does.
ON_TOP = {("sdk", "server"), ("testing", "sdk")}
#: The complete redaction is the hook's one with a faster engine, so it builds on it.
NAMED_EXCEPTIONS = {
    ("filrouge.capture.redact_complete", "filrouge.capture.assignments"),
    ("filrouge.capture.redact_complete", "filrouge.capture.redact"),
    ("filrouge.capture.redact_complete", "filrouge.capture.secret_rules"),
    ("filrouge.capture.redact_complete", "filrouge.capture.spoken_secrets"),
}
HOOK_MAY = (
    "errors", "home", "_version", "model", "hosts", "daemon.client", "daemon.reply",
    "daemon.start_lock", "daemon.spawning",
    "cli.hook",
    "capture.inbox", "capture.losses", "capture.redact", "capture.guard", "capture.cutting",
)  # fmt: skip
REACHES_OUT = {
    "_socket", "http", "io", "os", "pathlib", "shutil", "socket", "sqlite3", "subprocess", "tempfile", "urllib",
}  # fmt: skip


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name, but the facade `filrouge`, which resolves the public names of all others."""
    found: dict[str, Path] = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    del found["filrouge"]
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """What a module imports, anywhere in it: dotted names, as deep as a module goes."""
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        match node:
            case ast.Import(names=names):
                found |= {one.name for one in names}
            case ast.ImportFrom(module=str(source), names=names):
                inner = {f"{source}.{one.name}" for one in names} & modules().keys()
                found |= inner if len(inner) == len(names) else inner | {source}
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def own(module: str) -> frozenset[str]:
    return frozenset(name for name in imports(module) if name.startswith("filrouge."))


def room(module: str) -> str:
    _, first, *rest = module.split(".")
    return f"capture.{rest[0]}" if first == "capture" and rest and f"capture.{rest[0]}" in ADAPTERS else first


def level(module: str) -> str:
    place = room(module)
    named = {"foundation": FOUNDATION, "ports": {"ports"}, "adapters": ADAPTERS, "thinking": THINKING}
    named |= {"app": {"app"}, "surfaces": SURFACES}
    return next(name for name, rooms in named.items() if place in rooms)


ALLOWED = {
    "foundation": {"foundation"},
    "ports": {"foundation", "ports"},
    "adapters": {"foundation", "ports", "adapters"},
    "thinking": {"foundation", "ports", "thinking"},
    "app": {"foundation", "ports", "adapters", "thinking", "app"},
    "surfaces": {"foundation", "ports", "adapters", "thinking", "app", "surfaces"},
}


def edges() -> list[tuple[str, str]]:
    return [(module, used) for module in modules() for used in own(module)]


def test_the_walk_sees_lazy_imports_and_imports_by_name() -> None:
    assert len(modules()) > 80
    assert "filrouge.daemon.remote" in own("filrouge.daemon.client")  # import_module("filrouge.…")
    assert "filrouge.cli.hook" in own("filrouge.cli.main")  # inside a function
    assert "filrouge.hosts.claude_code" in own("filrouge.hosts")  # from a package
    assert "Stemmer" in imports("filrouge.index.stems")


def test_every_module_has_its_room() -> None:
    homeless = [module for module in modules() if room(module) not in FOUNDATION | ADAPTERS | THINKING | SURFACES]
    assert [module for module in homeless if room(module) not in {"ports", "app"}] == []


def test_dependencies_point_one_way() -> None:
    assert [
        (module, used)
        for module, used in edges()
        if level(used) not in ALLOWED[level(module)] and (module, used) not in NAMED_EXCEPTIONS
    ] == []


def test_adapters_and_surfaces_never_import_each_other() -> None:
    assert [
        (module, used)
        for module, used in edges()
        if level(module) == level(used)
        and level(module) in ("adapters", "surfaces")
        and room(module) != room(used)
        and (room(module), room(used)) not in ON_TOP
        and (module, used) not in NAMED_EXCEPTIONS
    ] == []


def test_the_exceptions_are_needed() -> None:
    assert set(edges()) >= NAMED_EXCEPTIONS
    assert {(room(module), room(used)) for module, used in edges()} >= ON_TOP


def test_thinking_reaches_neither_a_file_nor_a_socket_nor_the_rest_of_the_foundation() -> None:
    may = {"model", "ports", "errors", "clock", "control_characters", "lazy_re", *THINKING}
    stray: list[tuple[str, str]] = []
    for module in modules():
        if level(module) != "thinking":
            continue
        stray += [(module, used) for used in own(module) if room(used) not in may]
        outside = {used.split(".")[0] for used in imports(module)} - {"filrouge", "numpy"}
        stray += [(module, used) for used in outside if used not in sys.stdlib_module_names or used in REACHES_OUT]
    assert stray == []


def test_the_hook_imports_its_own_modules_and_the_named_ones_alone() -> None:
    hook = [module for module in modules() if module.startswith("filrouge.cli.hook")]
    assert len(hook) > 1
    stray = [
        (module, used)
        for module in hook
        for used in own(module)
        if not used.removeprefix("filrouge.").startswith(HOOK_MAY)
    ]
    foreign = {used.split(".")[0] for module in hook for used in imports(module)} - sys.stdlib_module_names
    assert (stray, foreign) == ([], {"filrouge"})


def test_no_module_imports_itself_through_others() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join([*path, module])
        if module not in done:
            for used in sorted(own(module) & modules().keys()):
                visit(used, (*path, module))
            done.add(module)

    for module in modules():
        visit(module, ())


def test_only_wiring_and_the_fakes_name_the_classes_of_index_and_embed() -> None:
    inner = [module for module in modules() if room(module) in ("index", "embed")]
    classes = {node.name for module in inner for node in tree(module).body if isinstance(node, ast.ClassDef)}
    assert {"AdaptiveIndex", "TextAnalyser", "StableHash", "BundledE5"} <= classes
    naming = {
        module
        for module in modules().keys() - set(inner)
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
        and (node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else node.name)
        in classes
    }
    assert naming == {"filrouge.app.wiring", "filrouge.app.restoring", "filrouge.testing"}  # a restore needs no daemon


def test_every_module_opens_with_a_paragraph() -> None:
    silent = [
        module
        for module, path in modules().items()
        if path.read_text(encoding="utf-8").strip() and not (ast.get_docstring(tree(module)) or "").count(" ") >= 4
    ]
    assert silent == []
