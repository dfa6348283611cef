"""`filrouge hub`: the shared memory of a team, on PostgreSQL.

`init`, `tenant`, `audit` and `backup-check` connect to the database as its owner, `serve` and `work` as the serving
role. `member`, `revoke` and `status` ask a hub that runs, with the token of a member.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import to_builtins

from filrouge.cli import output
from filrouge.cli.output import Json, format_time
from filrouge.core.choices import check_choice
from filrouge.core.clock import SystemClock, to_text
from filrouge.core.errors import BadInput, NotInstalled
from filrouge.core.installation import install_extra_command

if TYPE_CHECKING:
    from filrouge.hub.client import HubClient
    from filrouge.hub.models import Scope

hub_app = typer.Typer(help="The shared memory of a team, on PostgreSQL.", no_args_is_help=True)
tenant_app = typer.Typer(help="The teams of a hub.", no_args_is_help=True)
member_app = typer.Typer(help="The members of a team.", no_args_is_help=True)
hub_app.add_typer(tenant_app, name="tenant")
hub_app.add_typer(member_app, name="member")

Database = Annotated[
    str,
    typer.Option(envvar="FILROUGE_HUB_DATABASE", help="The database: postgresql://ROLE:PASSWORD@HOST/NAME."),
]
Url = Annotated[str, typer.Option(envvar="FILROUGE_HUB_URL", help="Where the hub answers.")]
Secret = Annotated[str, typer.Option("--token", envvar="FILROUGE_HUB_TOKEN", help="The token of a member.")]
_PROCESS_SECRET = "FILROUGE_HUB_PROCESS_SECRET"  # noqa: S105 (a name)


@hub_app.command()
def init(
    database: Database,
    role: Annotated[str, typer.Option(help="The role that serves; it is created if it is missing.")] = "filrouge_hub",
    new_epoch: Annotated[
        bool, typer.Option("--new-epoch", help="After a restore: devices that are ahead of it miss no change.")
    ] = False,
    new_process_secret: Annotated[
        bool, typer.Option("--new-process-secret", help="Make another secret of the hub's processes.")
    ] = False,
    json: Json = False,
) -> None:
    """Create the serving role and the schema, or bring them up to date. Connects as the owner.

    FILROUGE_HUB_PROCESS_SECRET becomes the secret of the hub's processes; without it one is made and shown.
    """
    schema = _schema()
    with schema.connect(database) as connection:
        made = schema.init(
            connection,
            role=role,
            new_epoch=new_epoch,
            process_secret="" if new_process_secret else os.environ.get(_PROCESS_SECRET, ""),
            new_process_secret=new_process_secret,
        )
    lines = [f"Schema: {', '.join(made.applied) if made.applied else 'up to date'}."]
    if made.password:
        lines += [
            f"Role {made.role}, password {made.password}",
            "The password is not shown again. Serve with that role:",
        ]
        lines += [f"  filrouge hub serve --database postgresql://{made.role}:PASSWORD@HOST/NAME"]
    if made.process_secret:
        lines += [f"Secret of the hub's processes, shown only now: {made.process_secret}"]
        lines += [f"Give it to `filrouge hub serve` and `filrouge hub work` as {_PROCESS_SECRET}."]
    told = {
        "role": made.role,
        "password": made.password,
        "process_secret": made.process_secret,
        "applied": list(made.applied),
    }
    _answer(told, "\n".join(lines), json=json)


@hub_app.command()
def serve(
    database: Database,
    host: Annotated[str, typer.Option(help="Address to listen on; TLS is needed beyond this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8790,
    certificate: Annotated[str, typer.Option(help="TLS certificate (PEM); or let a load balancer do TLS.")] = "",
    key: Annotated[str, typer.Option(help="Key of the certificate (PEM).")] = "",
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="A load balancer in front does TLS.")] = False,
    connections: Annotated[int, typer.Option(min=1, max=1000, help="Maximum connections to the database.")] = 10,
) -> None:
    """Serve a hub. Any number of instances may serve one database.

    With FILROUGE_HUB_PROCESS_SECRET it takes tokens of identity providers, too.
    """
    _schema()
    import uvicorn

    from filrouge.hub.database import HubDatabase
    from filrouge.hub.oidc import IdentityProviders
    from filrouge.server.hub import create_app

    if host not in ("127.0.0.1", "::1", "localhost") and not (certificate or behind_proxy):
        remedy = "Give --certificate and --key, or --behind-proxy if a load balancer in front does TLS."
        raise BadInput("Plain HTTP is served on this machine only.", remedy=remedy)
    secret = os.environ.get(_PROCESS_SECRET, "")
    providers = IdentityProviders(secret, SystemClock()) if secret else None
    pool = HubDatabase(database, max_connections=connections, providers=providers)
    pool.open()  # an error is shown as one line, before the server starts
    config = uvicorn.Config(
        create_app(pool, SystemClock()),
        host=host,
        port=port,
        ssl_certfile=certificate or None,
        ssl_keyfile=key or None,
        access_log=False,
        log_level="warning",
        server_header=False,
    )
    output.say(f"The hub answers on {'https' if certificate else 'http'}://{host}:{port}. Ctrl C stops it.")
    uvicorn.Server(config).run()


@hub_app.command()
def work(
    database: Database,
    embedder: Annotated[
        str, typer.Option(envvar="FILROUGE_HUB_EMBEDDER", help="e5 (multilingual), hashing, or PROVIDER:MODEL.")
    ] = "e5",
) -> None:
    """Do a hub's background work: vectors, tidying, checks of journals. Any number of workers may run."""
    _schema()
    from filrouge.hub import worker
    from filrouge.hub.database import HubDatabase
    from filrouge.providers.embedders import EmbedderOptions, create_embedder

    pool = HubDatabase(database, max_connections=2)
    pool.open()
    try:
        hub_worker = worker.HubWorker(
            database=pool,
            embedder=create_embedder(embedder, EmbedderOptions(environ=os.environ)),
            process_secret=os.environ.get(_PROCESS_SECRET, ""),
        )
        hub_worker.start()
        output.say(f"The worker makes vectors of the space {hub_worker.embedder.space.id}. Ctrl C stops it.")
        worker.run(database, hub_worker)
    finally:
        pool.close()


@tenant_app.command("add")
def tenant_add(
    name: str,
    database: Database,
    admin: Annotated[str, typer.Option(help="The name of its first member, who may do everything.")],
    json: Json = False,
) -> None:
    """Add a team with its first member. Connects as the owner."""
    schema = _schema()
    with schema.connect(database) as connection:
        made = schema.add_tenant(connection, SystemClock(), name, admin)
    line = f"{name} is a team of this hub.\nThe token of {admin}, shown only now: {made.secret}"
    _answer(made.model_dump(mode="json"), line, json=json)


@tenant_app.command("list")
def tenant_list(database: Database, json: Json = False) -> None:
    """List the teams of a hub. Connects as the owner."""
    schema = _schema()
    with schema.connect(database) as connection:
        found = schema.tenants(connection)
    if json:
        output.show_json([{**row, "created_at": to_text(row["created_at"])} for row in found])
        return
    columns = ("name", "members", "devices", "memories")
    output.table(columns, [[row[name] for name in columns] for row in found])


@tenant_app.command("oidc")
def tenant_oidc(
    team: str,
    database: Database,
    issuer: Annotated[str, typer.Option(help="The address of the identity provider, as in its tokens.")] = "",
    audience: Annotated[str, typer.Option(help="The name of this team's hub at the identity provider.")] = "",
    admins: Annotated[str, typer.Option(help="Email addresses of the team's admins: a@x.org,b@x.org.")] = "",
    off: Annotated[bool, typer.Option("--off", help="Take no more tokens of it; the members stay.")] = False,
    json: Json = False,
) -> None:
    """Let a team sign in with an identity provider (OpenID Connect). Connects as the owner."""
    schema = _schema()
    from filrouge.hub import oidc

    if not off and not (issuer and audience):
        raise BadInput("Issuer and audience are needed.", remedy="Give --issuer and --audience, or --off.")
    with schema.connect(database) as connection:
        tenant = schema.tenant_named(connection, team)
        if off:
            oidc.switch_off(connection, tenant)
        else:
            oidc.configure(connection, tenant, issuer=issuer, audience=audience, admins=admins.split(","))
    line = f"{team} takes tokens of {issuer}, where `filrouge hub serve` has {_PROCESS_SECRET}."
    told = {"team": team, "issuer": "" if off else issuer}
    _answer(told, f"{team} takes no tokens of an identity provider." if off else line, json=json)


@tenant_app.command("limit")
def tenant_limit(
    team: str,
    database: Database,
    requests: Annotated[int | None, typer.Option(min=1, help="Requests a minute.")] = None,
    versions: Annotated[int | None, typer.Option(min=1, help="Pushed versions a minute.")] = None,
    memories: Annotated[int | None, typer.Option(min=1, help="Live memories.")] = None,
    bytes_: Annotated[int | None, typer.Option("--bytes", min=1, help="Stored bytes, of all versions.")] = None,
    json: Json = False,
) -> None:
    """Show or change the limits of a team. Connects as the owner."""
    schema = _schema()
    from filrouge.hub.limits import set_limits

    with schema.connect(database) as connection:
        tenant = schema.tenant_named(connection, team)
        found = set_limits(connection, tenant, requests=requests, versions=versions, memories=memories, bytes=bytes_)
    rates = f"{team}: {found['requests']} requests and {found['versions']} pushed versions a minute."
    stored = f"{found['stored_memories']} of {found['memories']} memories"
    _answer(found, f"{rates}\n{stored}, {found['stored_bytes']} of {found['bytes']} bytes.", json=json)


@hub_app.command()
def audit(tenant: str, database: Database, json: Json = False) -> None:
    """Verify the journal of a team. Connects as the owner."""
    schema = _schema()
    with schema.connect(database) as connection:
        report = schema.audit(connection, tenant)
    told = {"sound": report.sound, "entries": report.entries, "broken_at": report.broken_at, "reason": report.reason}
    line = f"{report.entries} entries, unbroken." if report.sound else f"Entry {report.broken_at}: {report.reason}."
    output.answer(told, line, json=json)
    if not report.sound:
        raise typer.Exit(1)


@hub_app.command("backup-check")
def backup_check(
    database: Database,
    role: Annotated[str, typer.Option(help="The role that serves.")] = "filrouge_hub",
    json: Json = False,
) -> None:
    """Say whether a restored database is sound and complete, and change nothing. Connects as the owner."""
    schema = _schema()
    from filrouge.hub import backup

    with schema.connect(database) as connection:
        found = backup.check(connection, role=role)
    lines = [f"Schema {found.schema}; this program has {found.known_schema}."]
    for one in found.tenants:
        counts = ", ".join(f"{table} {number}" for table, number in one.rows.items())
        lines += [f"{one.name}: {counts}. {one.entries} entries of its journal verified."]
    lines += found.problems or ("Sound and complete. After a restore run `filrouge hub init --new-epoch`, then serve.",)
    _answer({"sound": not found.problems, **to_builtins(found)}, "\n".join(lines), json=json)
    if found.problems:
        raise typer.Exit(1)


@member_app.command("invite")
def member_invite(
    name: str,
    url: Url,
    token: Secret,
    scope: Annotated[list[str] | None, typer.Option(help="read, share, forget, admin; repeat it for several.")] = None,
    days: Annotated[int | None, typer.Option(min=1, help="Until the token expires; none = never.")] = None,
    json: Json = False,
) -> None:
    """Add a member, or give one another token. The token is shown once."""
    made = _client(url, token).invite(name, scopes=_scopes(scope) if scope else None, days=days)
    line = f"{made.name} may {', '.join(made.scopes)}.\nThe token, shown only now: {made.secret}"
    _answer(made.model_dump(mode="json"), line, json=json)


def _scopes(words: list[str]) -> list[Scope]:
    from filrouge.hub.models import SCOPES

    for word in words:
        check_choice("--scope", word, SCOPES)
    return [scope for scope in SCOPES if scope in words]


@member_app.command("remove")
def member_remove(name: str, url: Url, token: Secret, json: Json = False) -> None:
    """Remove a member: their tokens are refused from now on, and what they shared stays."""
    _client(url, token).remove(name)
    output.answer({"removed": name}, f"{name} is removed; their tokens are refused from now on.", json=json)


@member_app.command("list")
def member_list(url: Url, token: Secret, json: Json = False) -> None:
    """List the members of a team."""
    found = _client(url, token).members()
    if json:
        output.show_json(found)
        return
    rows = [(one["name"], one["tokens"], one["devices"], "removed" if one["removed_at"] else "") for one in found]
    output.table(("name", "tokens", "devices", ""), rows)


@hub_app.command()
def revoke(token_id: str, url: Url, token: Secret, json: Json = False) -> None:
    """Revoke a token by its id: your own, or any as an admin."""
    _client(url, token).revoke(token_id)
    output.answer({"revoked": token_id}, "Revoked; it is refused from now on.", json=json)


@hub_app.command()
def status(url: Url, token: Secret, json: Json = False) -> None:
    """Show what a team shares, and which devices have not confirmed a forgetting."""
    found = _client(url, token).status()
    counts = f"{found['memories']} memories, {found['members']} members, {found['devices']} devices"
    lines = [f"{found['tenant']}, as {found['member']}: {counts}."]
    lines += [f"{found['conflicts']} conflicts to settle, {found['forgotten']} memories forgotten."]
    if found["held_back_since"]:
        lines.append(
            f"Changes since {format_time(found['held_back_since'])} wait for a transaction that is still open."
        )
    if found["waiting"]:
        lines.append(f"{found['waiting']} memories wait for a vector: `filrouge hub work` makes it.")
    for one in found["unconfirmed"]:
        seen = f"{'lost, ' if one['lost'] else ''}last seen {format_time(one['seen_at'])}"
        lines.append(f"{one['name']} of {one['member']}, {seen}, has not confirmed {one['memories']} forgettings.")
    if found["lost"]:
        lines.append(f"{found['lost']} devices were not seen for 90 days.")
    lines.append(_journal_line(found["journal"]))
    _answer(found, "\n".join(lines), json=json)


def _journal_line(check: dict[str, Any] | None) -> str:
    if check is None:
        return "The journal was never checked; `filrouge hub work` does it daily."
    when = format_time(check["checked_at"])
    if check["broken_at"] is None:
        return f"The journal was sound at {when}."
    return f"WARNING: THE JOURNAL IS BROKEN at entry {check['broken_at']}: {check['reason']} (checked at {when})."


def _answer(document: object, lines: str, *, json: bool) -> None:
    """Print lines, or with `json` the document."""
    if json:
        output.show_json(document)
    else:
        output.say_lines(lines)


def register(app: typer.Typer) -> None:
    """Add nothing: all commands are in the group."""
    _ = app


def _schema() -> Any:
    """Return the module of the schema, which needs the extra."""
    try:
        from filrouge.hub import schema
    except ImportError as error:
        remedy = f"Install it: `{install_extra_command('hub')}`."
        raise NotInstalled("The hub needs the extra `hub`.", remedy=remedy) from error
    return schema


def _client(url: str, token: str) -> HubClient:
    from filrouge.hub.client import HubClient

    return HubClient(url, token)
