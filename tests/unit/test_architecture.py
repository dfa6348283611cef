"""The shape of the tree: rooms by capability, dependencies that point one way, and nothing that runs in a circle.

The imports are read from the source, the lazy ones and those by name included, and held against the order
`core ← runtime and the capabilities ← surfaces`. Modules that say that they are pure reach no database and no file.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import filrouge

ROOT = Path(filrouge.__file__).parent
CAPABILITIES = {
    "hosts", "capture", "extraction", "memories", "threads", "search", "context", "providers", "erasure",
    "maintenance", "notes", "transfer", "projects", "hub", "team",
}  # fmt: skip
SURFACES = {"cli", "server", "mcp", "sdk", "web", "testing"}
ROOMS = {"core", "runtime", "daemon", "_version", *CAPABILITIES, *SURFACES}
#: The SDK, embedded, and the pages ask the routes in-process (ADR 17, 25); the fakes offer an SDK; MCP tools are data;
#: `filrouge hub serve` runs the hub.
ON_TOP = {
    ("cli", "server"),
    ("sdk", "server"),
    ("testing", "sdk"),
    ("cli", "mcp"),
    ("mcp", "server"),
    ("web", "server"),
}
#: What core still takes from above; the list may only become shorter.
NOT_YET_CORE = {
    ("filrouge.core.errors", "filrouge.providers.models"),
    ("filrouge.core.protocols", "filrouge.notes.models"),
    ("filrouge.core.protocols", "filrouge.providers.models"),
    ("filrouge.core.protocols", "filrouge.search.models"),
    ("filrouge.core.settings", "filrouge.extraction.models"),
}
PURE = "Pure: no database, no file."
#: What a pure module may import besides other pure ones: values, weights, and words.
VALUES = {
    "core.errors", "core.clock", "core.text", "core.lazy_re", "core.scope", "core.protocols",
    "search.weights", "extraction.replacing_weights", "capture.events", "runtime.feed_messages",
}  # fmt: skip
HOOK_MAY = (
    "core.errors", "core.paths", "_version", "capture.events", "hosts", "daemon.client",
    "daemon.handover", "daemon.reply", "daemon.starting", "cli.hook",
    "capture.inbox", "capture.redact",
)  # fmt: skip
REACHES_OUT = {
    "_socket", "http", "io", "os", "pathlib", "shutil", "socket", "sqlite3", "subprocess", "tempfile", "urllib",
}  # fmt: skip
#: Only these name the classes of embedders and indexes; whoever else needs one is given it.
MAKERS = {
    "filrouge.hub.search",
    "filrouge.runtime.wiring",
    "filrouge.search.repository",
    "filrouge.maintenance.restore",
    "filrouge.testing",
}
MADE = (
    "search.analyser", "search.vector_index", "search.vector_codes", "search.turbo", "search.tantivy_words",
    "providers.hashing", "providers.e5", "providers.published_e5",
    "providers.remote_embedders", "providers.packaged_embedders", "providers.fetching",
)  # fmt: skip


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
    return module.split(".")[1]


def is_pure(module: str) -> bool:
    return PURE in (ast.get_docstring(tree(module)) or "")


def edges() -> list[tuple[str, str]]:
    return [(module, used) for module in modules() for used in own(module)]


def test_the_walk_sees_lazy_imports_and_imports_by_name() -> None:
    assert len(modules()) > 80
    assert "filrouge.daemon.remote" in own("filrouge.daemon.client")  # import_module("filrouge.…")
    assert "filrouge.cli.hook" in own("filrouge.cli.main")  # inside a function
    assert "filrouge.hosts.claude_code" in own("filrouge.hosts")  # from a package
    assert "Stemmer" in imports("filrouge.search.analyser")


def test_every_module_stands_in_one_of_the_rooms() -> None:
    assert {room(module) for module in modules()} <= ROOMS


def test_core_imports_nothing_above_it() -> None:
    assert {
        (module, used) for module, used in edges() if room(module) == "core" and room(used) not in ("core", "_version")
    } == NOT_YET_CORE


def test_nothing_imports_a_surface_but_a_surface_on_top_of_it() -> None:
    found = {(room(module), room(used)) for module, used in edges() if room(used) in SURFACES}
    assert {(one, other) for one, other in found if one != other} == ON_TOP


def test_pure_modules_reach_neither_a_file_nor_a_socket_nor_a_database() -> None:
    pure = [module for module in modules() if is_pure(module)]
    assert len(pure) > 20
    stray: list[tuple[str, str]] = []
    for module in pure:
        stray += [
            (module, used)
            for used in own(module)
            if not (is_pure(used) or used.endswith(".models") or used.removeprefix("filrouge.") in VALUES)
        ]
        outside = {used.split(".")[0] for used in imports(module)} - {"filrouge", "msgspec", "numpy", "re2"}
        stray += [(module, used) for used in outside if used not in sys.stdlib_module_names or used in REACHES_OUT]
    assert stray == []


def test_the_hook_imports_its_own_modules_and_the_named_ones_alone() -> None:
    hook = [module for module in modules() if module.startswith("filrouge.cli.hook")]
    assert hook
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


def test_only_those_who_put_things_together_name_the_classes_of_indexes_and_embedders() -> None:
    inner = [module for module in modules() if module.removeprefix("filrouge.") in MADE]
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
    assert naming == MAKERS


def test_every_module_opens_with_a_paragraph() -> None:
    silent = [
        module
        for module, path in modules().items()
        if path.read_text(encoding="utf-8").strip() and not (ast.get_docstring(tree(module)) or "").count(" ") >= 4
    ]
    assert silent == []
