"""Which hooks Codex trusts: it keeps a hash of each as its user approved it, and runs no other, without a word.

The hash is the SHA-256 of the hook in a form of its own: the name of the event, the matcher where the event has one,
and the command with its limit as Codex rounds it, as JSON with sorted keys and no spaces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from filrouge.cli.commands.doctoring.agents import Agent, Hook, snake, table
from filrouge.cli.commands.doctoring.finding import Verdict, fail, ok, warn
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.hosts.setup.machine import NAME

_WITHOUT_MATCHER: Final = ("UserPromptSubmit", "Stop")
_ENDS: Final = ("SessionEnd", "Interrupt")
_USUAL_SECONDS: Final = 600
_MOST_AT_THE_END: Final = 3
_OPEN: Final = "Start `codex`, type `/hooks`"


def trust(agent: Agent, _: Scene) -> Verdict:
    """Whether Codex runs our hooks as they are now."""
    states = _states(agent)
    if agent.plugin and not agent.hooks and not _is_plugin_trusted(states):
        return fail(
            "Codex does not run the hooks of the plugin, which you have not approved",
            f"{_OPEN}, and approve those of Filrouge.",
        )
    kept = [(hook, [states[key] for key in hook.trust_keys if key in states]) for hook in agent.hooks]
    hashes = [(hook, [str(one["trusted_hash"]) for one in found if one.get("trusted_hash")]) for hook, found in kept]
    if untrusted := [hook.event for hook, found in hashes if not found]:
        return fail(
            f"Codex does not run hooks that you have not approved: {', '.join(untrusted)}",
            f"{_OPEN}, and approve those of Filrouge; every change of them asks again.",
        )
    if off := [hook.event for hook, found in kept if any(one.get("enabled") is False for one in found)]:
        return fail(f"switched off in Codex: {', '.join(off)}", f"{_OPEN}, enable them.")
    if changed := [hook.event for hook, found in hashes if digest(hook) not in found]:
        # Warned of only: another version of Codex may take its hashes otherwise.
        return warn(
            f"changed since you approved them, so that Codex does not run them: {', '.join(changed)}",
            f"{_OPEN}, and approve them as they are now.",
        )
    return ok("every hook was approved" if agent.hooks or agent.plugin else "there are no hooks")


def digest(hook: Hook) -> str:
    """What Codex writes as `trusted_hash` when this hook is approved."""
    handler: dict[str, Any] = {
        "type": "command",
        "command": str(hook.handler.get("command", "")),
        "timeout": _seconds(hook),
        "async": hook.handler.get("async") is True,
    }
    said = hook.handler.get("statusMessage")
    handler |= {"statusMessage": said} if isinstance(said, str) else {}
    identity: dict[str, Any] = {"event_name": snake(hook.event), "hooks": [handler]}
    if hook.matcher is not None and hook.event not in _WITHOUT_MATCHER:
        identity["matcher"] = hook.matcher
    plain = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(plain.encode()).hexdigest()}"


def _seconds(hook: Hook) -> int:
    said = hook.handler.get("timeout")
    if hook.event in _ENDS:
        return min(_MOST_AT_THE_END, max(1, said if isinstance(said, int) else 1))
    return max(1, said if isinstance(said, int) else _USUAL_SECONDS)


def _states(agent: Agent) -> dict[str, Mapping[str, Any]]:
    """What Codex keeps of each hook, by its key."""
    return {key: table(one) for _, states in agent.values("hooks", "state") for key, one in table(states).items()}


def _is_plugin_trusted(states: Mapping[str, Mapping[str, Any]]) -> bool:
    """A plugin's hooks are kept under its name in the place of a file's."""
    return any(key.startswith(f"{NAME}@") and one.get("trusted_hash") for key, one in states.items())
