"""Checks of who comes in over TCP: where the daemon listens, and the tokens that let somebody in."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from filrouge.address import is_loopback
from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.model.token import Token
from filrouge.store.tokens import Tokens

_UNUSED: Final = timedelta(days=90)


def _reach(scene: Scene) -> Verdict:
    settings = scene.settings()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if not settings.port:
        return ok("no TCP, as the settings say")
    if is_loopback(f"http://{host}"):
        return ok("this machine alone")
    inward = "Run `filrouge settings host 127.0.0.1`, then start the daemon again"
    if not settings.tls_cert or not settings.tls_key:
        return fail(
            f"other machines are to reach {settings.host}, without TLS: the daemon does not start so",
            f"{inward}; or set tls_cert and tls_key (docs/guides/access.md).",
        )
    if not _live(scene):
        return fail(
            f"other machines are to reach {settings.host}, and there is no token: the daemon does not start so",
            f"{inward}; or make one first: `filrouge token create`.",
        )
    return note(
        f"other machines reach it at {settings.host}, with a token and TLS", f"{inward} if you do not want that."
    )


def _listening(scene: Scene) -> Verdict:
    found = scene.daemon.ask("/daemon/status")
    if found.get("notice"):
        return warn(str(found["notice"]).rstrip("."), "Set another port: `filrouge settings port N`, or 0 for none.")
    return ok(str(found.get("url") or "the unix socket alone"))


def _tokens(scene: Scene) -> Verdict:
    idle = [one for one in _live(scene) if (one.last_used_at or one.created_at) < scene.now - _UNUSED]
    if idle:
        return warn(
            f"{len(idle)} tokens were not used for {_UNUSED.days} days and never expire, such as {idle[0].id}",
            f"Revoke what nobody needs: `filrouge token revoke {idle[0].id}`.",
        )
    if everything := [one for one in _live(scene) if one.scope == "admin"]:
        return note(
            f"{len(everything)} tokens may do everything and never expire",
            "Use --scope read or write where it is enough: `filrouge token list`.",
        )
    return ok("none lies unused")


def _live(scene: Scene) -> list[Token]:
    """Tokens of programs that let somebody in and have no end."""
    with scene.reading() as tx:
        found = Tokens(tx).all()
    return [one for one in found if one.kind == "token" and one.expires_at is None and one.holds(scene.now)]


CHECKS: Final = (
    Check(name="Reach", look=_reach),
    Check(name="TCP", look=_listening),
    Check(name="Tokens", look=_tokens),
)
