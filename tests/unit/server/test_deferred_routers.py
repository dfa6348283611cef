"""Routers are imported with the first request under their paths, and all of them are found."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

from fastapi import APIRouter

from filrouge.server import routes
from filrouge.server.api import ROUTERS
from filrouge.server.deferred import routers_of, routes_of

DEFERRED = [one for one in ROUTERS if isinstance(one, tuple)]


def loaded(module: str) -> tuple[APIRouter, ...]:
    return routers_of(importlib.import_module(f"filrouge.{module}"))


def test_every_path_of_a_deferred_router_begins_with_one_that_imports_it() -> None:
    found = [
        (route.path, paths) for module, paths in DEFERRED for one in loaded(module) for route in routes_of(one.routes)
    ]
    assert len(found) > 60
    assert [path for path, paths in found if not path.startswith(paths)] == []


def test_every_router_is_served() -> None:
    modules = [
        importlib.import_module(f"{routes.__name__}.{one.name}") for one in pkgutil.iter_modules(routes.__path__)
    ]
    served = [one for place in ROUTERS for one in (loaded(place[0]) if isinstance(place, tuple) else (place,))]
    assert [one.__name__ for one in modules for router in routers_of(one) if router not in served] == []


def test_the_daemon_starts_without_deferred_routers_and_clients_of_services() -> None:
    code = "import sys, filrouge.server.serving; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    late = {f"filrouge.{module}" for module, _ in DEFERRED} | {"httpx", "rich", "onnxruntime", "tantivy"}
    assert late & set(done.stdout.split()) == set()
