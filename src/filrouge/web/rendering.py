"""What all pages share: routes for pages and forms, templates, headers, form tokens, messages after an action.

A page is a function from a `Visit` to the values of its template. `Pages.page` registers it under its path, and under
the path with `.json` for programs. An action is a function that changes something through the API and returns where
to go next; it is reached by POST only, with the token of a form.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final, TypeVar, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape
from msgspec import Struct, field
from starlette.exceptions import HTTPException

from filrouge._version import __version__
from filrouge.core.clock import Language
from filrouge.runtime.wiring import Running
from filrouge.server.admission import ACCESS, Access, cookie_name, includes, requires
from filrouge.server.refusal import preferred_language
from filrouge.server.responses import read_in_tx
from filrouge.team.models import author_of
from filrouge.web.client import Api, ApiProblem
from filrouge.web.languages import LANGUAGES, Locale, locale, translations

ROOT: Final = "/dashboard"
#: The form field, and the header of scripts, that carry the token of a form.
FORM_KEY: Final = "form_token"
_DONE: Final = "done"
_MAX_FIELDS: Final = 2_000
_MAX_MESSAGES: Final = 200
#: Begins the content in `base.html`; what stands before it is the frame.
_CONTENT_BEGINS: Final = '<main id="main"'


class Message(Struct, frozen=True, kw_only=True):
    """What the next page says about an action that was carried out.

    Attributes:
        text: in the visitor's language.
        undo: the path of the action that takes it back; empty if there is none.
        fields: the fields of that action.
    """

    text: str
    undo: str = ""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])


class Visit:
    """One request for a page or by a form.

    Attributes:
        api: the API with the visitor's rights.
        query: the parameters of the address; the last one of each name.
        form: the fields of a form, in their order.
        locale: the visitor's language and time.
    """

    def __init__(self, request: Request, now_locale: Locale, form: Sequence[tuple[str, str]] = ()) -> None:
        self.request = request
        self.api = Api(request)
        self.query: Mapping[str, str] = request.query_params
        self.form = form
        self.locale = now_locale
        self.beginning: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()

    def begin(self, values: Mapping[str, Any] | None = None) -> None:
        """Have the page's frame sent before its content, because the content takes longer and cannot be refused.

        An address with a query can be refused, so its page is sent as a whole.

        Args:
            values: what the template reads outside its content, such as in its title.
        """
        if not self.query:
            self.beginning.set_result(values or {})

    def field(self, name: str, default: str = "") -> str:
        """Return the last value of a form field."""
        return next((value for key, value in reversed(self.form) if key == name), default)

    def fields(self, name: str) -> list[str]:
        """Return every value of a form field."""
        return [value for key, value in self.form if key == name]

    def text(self, message: str, **values: object) -> str:
        """Return a message in the visitor's language."""
        return self.locale.text(message, **values)

    def parameter(self, name: str) -> str:
        """Return a parameter of the path."""
        return str(self.request.path_params[name])

    @property
    def back(self) -> str:
        """The page that the form came from: its field `back`; the start page if that is no page of the dashboard."""
        back = self.field("back")
        return back if back == ROOT or back.startswith((ROOT + "/", ROOT + "?")) else ROOT

    @property
    def access(self) -> Access:
        """What the visitor may do."""
        return cast("Access", self.request.scope[ACCESS])


Page = Callable[[Visit], Awaitable[Mapping[str, Any]]]


class Next(Struct, frozen=True, kw_only=True):
    """Where an action leads.

    Attributes:
        to: a path of the dashboard.
        message: what the page there says; None if it says nothing.
    """

    to: str
    message: Message | None = None


Act = Callable[[Visit], Awaitable[Next]]
_P = TypeVar("_P", bound=Page)
_A = TypeVar("_A", bound=Act)


class Pages:
    """Collects the pages and actions of a group of screens."""

    def __init__(self) -> None:
        self.router = APIRouter(include_in_schema=False)

    def page(self, path: str, template: str) -> Callable[[_P], _P]:
        """Register a page under a path below `/dashboard`, with its `.json`.

        Args:
            template: the file in `templates`.
        """

        def register(build: _P) -> _P:
            async def html(request: Request) -> Response:
                return await _show(request, build, template)

            async def twin(request: Request) -> Response:
                visit = Visit(request, await _locale_of(request))
                try:
                    return JSONResponse(dict(await build(visit)), headers=_no_store())
                except ApiProblem as problem:
                    return JSONResponse(
                        {"detail": problem.detail, "remedy": problem.remedy}, status_code=problem.status
                    )

            # The twin comes first: a path parameter at the end would take `.json` for a part of itself.
            self.router.add_api_route(ROOT + (path or "/today") + ".json", twin, methods=["GET"])
            self.router.add_api_route(ROOT + path, html, methods=["GET"], response_class=HTMLResponse)
            return build

        return register

    def action(self, path: str) -> Callable[[_A], _A]:
        """Register an action under a path below `/dashboard`; the API checks the scope of what it asks for."""

        def register(act: _A) -> _A:
            @requires("read")
            async def post(request: Request) -> Response:
                return await _carry_out(request, act)

            self.router.add_api_route(ROOT + path, post, methods=["POST"])
            return act

        return register


async def _show(request: Request, build: Page, template: str) -> Response:
    visit = Visit(request, await _locale_of(request))
    content = asyncio.ensure_future(build(visit))
    try:
        badges = await _badges(visit)
        await asyncio.wait((content, visit.beginning), return_when=asyncio.FIRST_COMPLETED)
    except BaseException:
        content.cancel()
        raise
    if visit.beginning.done():
        return _streamed(visit, template, content, badges)
    try:
        values = content.result()
    except ApiProblem as problem:
        return _problem_page(visit, problem, badges)
    return render(visit, template, values, badges)


def _streamed(
    visit: Visit, template: str, content: asyncio.Future[Mapping[str, Any]], badges: Mapping[str, Any]
) -> Response:
    """Return a page whose frame is sent at once, and whose content follows."""
    shared = _shared(visit, badges)
    found = environment(visit.locale.language).get_template(template)

    async def pieces() -> AsyncGenerator[str]:
        context = found.new_context({**shared, **visit.beginning.result()})
        rendered = found.root_render_func(context)
        try:
            yield "".join(_until_content(rendered))
            # A block looks its names up when it begins, so the content's block sees these.
            context.parent.update(await content)
            yield "".join(rendered)
        except ApiProblem as problem:
            told = f"{escape(problem.detail)} {escape(problem.remedy)}"
            yield f'<p class="notice" role="alert">{told}</p></main></body></html>'
        finally:
            content.cancel()

    return StreamingResponse(pieces(), media_type="text/html", headers=_headers(shared["nonce"]))


def _until_content(rendered: Iterator[str]) -> Iterator[str]:
    """Return the pieces of a page up to where its content begins."""
    for piece in rendered:
        yield piece
        if _CONTENT_BEGINS in piece:
            return


async def _badges(visit: Visit) -> dict[str, Any]:
    """Return what every page's navigation counts, and what it has to say of the daemon."""
    found = await visit.api.get("/daemon/attention")
    return {
        "to_review": found["to_review"],
        "to_share": found["to_share"],
        "dead": found["dead_jobs"],
        "notice": found["notice"],
    }


async def _carry_out(request: Request, act: Act) -> Response:
    text = (await request.body()).decode("utf-8", "replace")
    form = parse_qsl(text, keep_blank_values=True) if text.count("&") < _MAX_FIELDS else []
    visit = Visit(request, await _locale_of(request), form)
    if not _has_token(visit):
        detail = visit.text("This form is no longer valid.")
        expired = ApiProblem(403, detail, visit.text("Reload the page and try again."))
        return _problem_page(visit, expired, await _badges(visit))
    try:
        done = await act(visit)
    except ApiProblem as problem:
        return _problem_page(visit, problem, await _badges(visit))
    return RedirectResponse(_with_message(request, done), status_code=303, headers=_no_store())


def _problem_page(visit: Visit, problem: ApiProblem, badges: Mapping[str, Any]) -> Response:
    values = {"problem": problem, "back": visit.back if visit.form else ROOT}
    return render(visit, "problem.html", values, badges, status=problem.status)


def render(
    visit: Visit, template: str, values: Mapping[str, Any], badges: Mapping[str, Any], status: int = 200
) -> HTMLResponse:
    """Render a template as a whole page."""
    shared = _shared(visit, badges)
    body = environment(visit.locale.language).get_template(template).render({**shared, **values})
    return HTMLResponse(body, status_code=status, headers=_headers(shared["nonce"]))


def _shared(visit: Visit, badges: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every page knows."""
    request = visit.request
    return {
        "nonce": secrets.token_urlsafe(16),
        "visit": visit,
        "locale": visit.locale,
        "language": visit.locale.language,
        "version": __version__,
        "form_token": form_token(visit),
        "can_write": includes(visit.access.scope, "write"),
        "can_admin": includes(visit.access.scope, "admin"),
        "path": request.url.path,
        "here": _here(request),
        "message": _take_message(request),
        "query": _Query(request.query_params),
        "badges": badges,
    }


def _headers(nonce: str) -> dict[str, str]:
    return {"Content-Security-Policy": _policy(nonce), **_no_store()}


def _policy(nonce: str) -> str:
    """Return the content security policy: nothing but the daemon's own files, and no HTML from strings but htmx's."""
    return (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "require-trusted-types-for 'script'; trusted-types htmx"
    )


def _no_store() -> dict[str, str]:
    return {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}


def form_token(visit: Visit) -> str:
    """Return the token that a form of this visitor carries: derived from the session's cookie, which no page reads.

    A form of a foreign page cannot know it. A visitor without a cookie sends a credential with each request, which
    a foreign page cannot make a browser do; the token is then of no use and empty.
    """
    if visit.access.by != "session":
        return ""
    cookie = visit.request.cookies.get(cookie_name(visit.request.scope["server"][1] or 0), "")
    return hmac.new(cookie.encode(), b"filrouge form", hashlib.sha256).hexdigest()


def _has_token(visit: Visit) -> bool:
    return hmac.compare_digest(form_token(visit).encode(), visit.field(FORM_KEY).encode())


async def _locale_of(request: Request) -> Locale:
    """Return the visitor's locale: the language in the settings, or the browser's first that there is."""
    parts = cast("Running", request.app.state.running).parts
    chosen = await read_in_tx(request, lambda tx: parts.effective(tx).settings.language)
    language: Language | None = next((known for known in LANGUAGES if known == chosen), None)
    return locale(language or preferred_language(request.headers.get("accept-language", "")), parts.clock.now())


def _here(request: Request) -> str:
    """Return path and query of this page without what concerns one visit only."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != _DONE]
    return request.url.path + (f"?{urlencode(kept)}" if kept else "")


class _Query(dict[str, str]):
    """The parameters of an address; one that is not given is empty."""

    def __missing__(self, name: str) -> str:
        return ""


def address(path: str, query: Mapping[str, object], **changed: object) -> str:
    """Return a path with a query, some of whose parameters are changed; None or an empty text leaves one out."""
    merged = {**query, **changed}
    given = {name: value for name, value in merged.items() if value not in (None, "", False) and name != _DONE}
    return path + (f"?{urlencode(given, doseq=True)}" if given else "")


# Messages: what the page after an action says. They are kept in memory until that page is shown.


def _messages(request: Request) -> OrderedDict[str, Message]:
    state = request.app.state
    if not hasattr(state, "dashboard_messages"):
        state.dashboard_messages = OrderedDict[str, Message]()
    return state.dashboard_messages


def _with_message(request: Request, done: Next) -> str:
    if done.message is None:
        return done.to
    messages, key = _messages(request), secrets.token_urlsafe(12)
    messages[key] = done.message
    while len(messages) > _MAX_MESSAGES:
        messages.popitem(last=False)
    path, query = urlsplit(done.to).path, dict(parse_qsl(urlsplit(done.to).query))
    return address(path, {name: value for name, value in query.items() if name != _DONE}) + (
        f"{'&' if any(name != _DONE for name in query) else '?'}{_DONE}={key}"
    )


def _take_message(request: Request) -> Message | None:
    return _messages(request).pop(request.query_params.get(_DONE, ""), None)


# Templates.

_SCREENS: list[Any] = []


def show_screens(screens: Sequence[Any]) -> None:
    """Set the groups of screens that every page's navigation lists."""
    _SCREENS[:] = screens


@cache
def environment(language: Language) -> Environment:
    """Return the templates in a language."""
    made = Environment(
        loader=PackageLoader("filrouge.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", "jinja2.ext.do"],
    )
    made.install_gettext_translations(translations(language), newstyle=True)  # type: ignore[attr-defined]
    shared: dict[str, Any] = {"address": address, "ROOT": ROOT, "asset": asset, "screens": lambda: _SCREENS}
    cast("dict[str, Any]", made.globals).update(shared)
    made.filters["colleague"] = author_of
    made.filters["compact_json"] = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return made


# Files.

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@cache
def _files() -> Mapping[str, tuple[bytes, str]]:
    """Return the content and a short hash of every static file by its name below `static`."""
    found: dict[str, tuple[bytes, str]] = {}

    def walk(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                walk(entry, f"{prefix}{entry.name}/")
            elif entry.name.rpartition(".")[2] in _TYPES:
                content = entry.read_bytes()
                found[prefix + entry.name] = (content, hashlib.sha256(content).hexdigest()[:12])

    walk(resources.files("filrouge.web").joinpath("static"), "")
    return found


def asset(name: str) -> str:
    """Return the address of a static file; it changes with the file's content."""
    return f"{ROOT}/static/{name}?v={_files()[name][1]}"


static = APIRouter(include_in_schema=False)


@static.get(ROOT + "/static/{name:path}")
async def static_file(name: str, request: Request) -> Response:
    """Return a file of the pages; an address with the file's hash may be cached for good."""
    if name not in _files():
        raise HTTPException(404, "there is no such file")
    content, version = _files()[name]
    lasting = request.query_params.get("v") == version
    caching = "private, max-age=31536000, immutable" if lasting else "no-cache"
    return Response(content, headers={"Content-Type": _TYPES[name.rpartition(".")[2]], "Cache-Control": caching})
