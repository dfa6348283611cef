"""Copies the pages' JavaScript libraries from their npm packages: `make vendor`.

Each library comes with its licence, and `vendor.json` beside them records package, version and checksum of every file.
The files are those of the packages, but for two things. `d3-force` names its modules by package, which a browser
cannot resolve without an import map, and that would be an inline script. uPlot has no small module, so its script gets
an export: a page that htmx leads to cannot load scripts, only import modules.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

TARGET = Path(__file__).parents[2] / "src" / "filrouge" / "web" / "static" / "vendor"
#: Package and version, and its files with their names here.
PACKAGES: dict[str, dict[str, str]] = {
    "htmx.org@4.0.1": {"dist/htmx.min.js": "htmx.min.js", "dist/ext/hx-csp.min.js": "hx-csp.min.js"},
    "uplot@1.6.32": {"dist/uPlot.iife.min.js": "uPlot.js", "dist/uPlot.min.css": "uPlot.min.css"},
    "d3-force@3.0.1": {"dist/d3-force.min.mjs": "d3-force.js"},
    "d3-quadtree@3.0.2": {"dist/d3-quadtree.min.mjs": "d3-quadtree.js"},
    "d3-dispatch@3.0.2": {"dist/d3-dispatch.min.mjs": "d3-dispatch.js"},
    "d3-timer@3.0.2": {"dist/d3-timer.min.mjs": "d3-timer.js"},
}
#: What is added at the end of a script to make it a module.
EXPORTS = {"uPlot.js": b"export default uPlot;\n"}
LICENCE = "LICENSE"
RECORD = "vendor.json"


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    record: dict[str, dict[str, str]] = {}
    for package, files in PACKAGES.items():
        name = package.partition("@")[0]
        archive = _packed(package)
        wanted = {**files, LICENCE: f"{name}.LICENSE.txt"}
        record[package] = {}
        for inside, here in wanted.items():
            member = archive.extractfile(f"package/{inside}")
            assert member is not None, f"{package} has no {inside}"
            content = _with_relative_imports(member.read()) + EXPORTS.get(here, b"")
            (TARGET / here).write_bytes(content)
            record[package][here] = hashlib.sha256(content).hexdigest()
    (TARGET / RECORD).write_text(json.dumps(record, indent=2) + "\n")


def _packed(package: str) -> tarfile.TarFile:
    with tempfile.TemporaryDirectory() as folder:
        name = subprocess.run(
            ["npm", "pack", "--silent", package],
            cwd=folder, check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        return tarfile.open(fileobj=io.BytesIO((Path(folder) / name).read_bytes()))


def _with_relative_imports(content: bytes) -> bytes:
    for module in ("d3-quadtree", "d3-dispatch", "d3-timer"):
        for quote in (b'"', b"'"):
            named = quote + module.encode() + quote
            content = content.replace(b"from" + named, b"from" + quote + b"./" + module.encode() + b".js" + quote)
    return content


if __name__ == "__main__":
    main()
