"""The JavaScript libraries in the package are those of their npm packages, with their licences."""

from __future__ import annotations

import hashlib
import json

from tests.support.vendor import LICENCE, PACKAGES, RECORD, TARGET


def test_every_vendored_file_is_recorded_with_its_checksum_and_a_licence() -> None:
    record: dict[str, dict[str, str]] = json.loads((TARGET / RECORD).read_text())
    files = {name: checksum for files in record.values() for name, checksum in files.items()}
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in TARGET.iterdir() if path.name != RECORD
    }
    assert found == files
    assert record.keys() == PACKAGES.keys()
    assert all(any(LICENCE in name for name in files) for files in record.values())
