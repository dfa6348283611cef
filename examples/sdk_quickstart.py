"""Filrouge in a program, in one screen: what is told is found, corrected, put in front of a prompt, and forgotten.

    python examples/sdk_quickstart.py

It works on a home of its own that it throws away. Leave `embedded` and the home out, and the same lines talk to the
daemon of your own memory.
"""

from __future__ import annotations

import asyncio
import tempfile

import filrouge


async def main() -> None:
    """Say something, ask for it, correct it, forget it."""
    with tempfile.TemporaryDirectory() as home:
        async with filrouge.Memory(home, embedded=True) as memory:
            [told] = await memory.remember("For the record: production listens on port 9443.")
            for hit in await memory.search("production port"):
                print(f"{hit.type}: {hit.content}")

            changed = await memory.supersede(told.id, "Production listens on port 9444.")
            print([f"{version.text} ({version.state})" for version in (await memory.history(changed.new_id)).versions])

            context = await memory.context("Which port does production listen on?")
            print([part["content"] for part in context.memories])

            preview = await memory.forget("9444", dry_run=True)
            receipt = await memory.forget("9444", token=preview.token)
            print(receipt.ok, await memory.search("9444"))


asyncio.run(main())
