"""Filrouge inside a program: a home opened in this process, and the verbs that a program asks it.

The home has one owner at a time. A program that opens it is that owner, does what the daemon would do (reads what the
hooks spool, embeds in the background), and holds the same lock; while it runs, no daemon starts for this home.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from filrouge.capture.programs import History
from filrouge.core.errors import Busy, FilrougeError
from filrouge.core.paths import home as default_home
from filrouge.daemon.process import PROGRAM, only_one
from filrouge.erasure import service
from filrouge.extraction import sessions
from filrouge.memories.models import Memory
from filrouge.memories.statements import remember
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.runtime.wiring import Running
from filrouge.search import fusion as hybrid
from filrouge.search.fusion import Fused, Fusion
from filrouge.search.models import Ranking
from filrouge.search.retrievers import HybridQuery, Rerank, hybrid_query, okapi_of

_LOG = logging.getLogger(__name__)
_HOST = sessions.HOST


class Opened:
    """An opened home, as `opened` gives it. Safe for several threads."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._closed = False
        self._later = ThreadPoolExecutor(2, thread_name_prefix="filrouge-analysis")

    def remember(self, text: str, *, project: str | None = None) -> list[Memory]:
        """Remember a statement, as `filrouge remember` does; what it came to, which may be a memory of before.

        Args:
            project: the id, an alias or the short name of a known project; None = outside every project.

        Raises:
            BadInput: there is no text, or too much of it.
            NotFound: there is no such project.
        """
        parts = self._open()
        done = remember(parts, text, names=[project] if project else [], scope=None, host=_HOST)
        return parts.readers.here(lambda tx: parts.memories(tx).known([action.memory_id for action in done]))

    def forget(self, text: str = "", *, item: str = "", token: str = "", dry_run: bool = False) -> dict[str, Any]:
        """Forget everything about a text, or what has an id with what hangs on it; there is no way back.

        Args:
            item: an id: of a memory, a turn, a thread, a bridge, an event or a synthesis.
            token: of a preview: exactly what that listed is forgotten. Without one, what is found now.
            dry_run: only a preview.

        Returns:
            The preview (`rows`, `counts`, `token`, …), or the receipt.

        Raises:
            BadInput: neither text nor item, or both.
            NotFound: nothing has this id.
            Stale: what the token stands for has changed.
        """
        asked = service.Asked(text=text, id=item)
        parts = self._open()
        if dry_run:
            return service.preview(parts, asked).to_json()
        if token:
            return service.forget(parts, asked, token).to_json()
        return service.forget_at_once(parts, asked)[1].to_json()

    def hybrid_query(
        self,
        collection: str = "memories",
        query_text: str = "",
        n_results: int = 5,
        where_filter: Mapping[str, Any] | None = None,
        alpha: float = 0.5,
        score_threshold: float = 0.0,
        bm25_k1: float = 1.5,
        bm25_b: float = 0.75,
        *,
        min_relevance: float = 0.0,
        fusion: Fusion = "convex",
        rerank: Rerank = "none",
    ) -> Ranking:
        """Rank `turns`, `memories` or `all` by words and by meaning, best first.

        Args:
            where_filter: user, project, agent, channel, kind, role, thread, branch, trust (at least), since, until,
                as_of; exact.
            alpha: 0 = words only (no model is used), 1 = meaning only.
            score_threshold: least `score`, which compares within this query alone: 0.0 none, 0.3 to 0.5 moderate,
                from 0.7 on strict.
            bm25_k1, bm25_b: how much repetition and length count (Okapi BM25).
            min_relevance: least `relevance`, which compares across queries.
            fusion: `convex` (min-max, mixed by alpha) or `rrf` (ranks alone).
            rerank: `mmr` puts what repeats a better hit further back. There is no cross-encoder.

        Raises:
            BadInput: naming what cannot be used, and what can.
            NotFound: the filter names a project that is not there.
            EmbedderUnavailable: alpha is 1 and there is no model; with any other alpha a notice says so.
        """
        query = HybridQuery(
            collection=collection,
            text=query_text,
            n_results=n_results,
            where=where_filter,
            alpha=alpha,
            score_threshold=score_threshold,
            okapi=okapi_of(bm25_k1, bm25_b),
            min_relevance=min_relevance,
            fusion=fusion,
            rerank=rerank,
        )
        parts = self._open()
        return parts.readers.here(lambda tx: hybrid_query(parts, tx, query))

    def analyze_session_for_concepts(
        self, session_id: str, history: History | None = None, force: bool = False, user_id: str | None = None
    ) -> dict[str, Any]:
        """Analyse a session and keep what it came to: its summary, its concepts, and what the user prefers.

        Args:
            history: its messages (`role`, `content`), in the place of what was captured.
            force: read everything again; otherwise only what is new, and nothing within an hour.
            user_id: whose session it is; None = whoever the captured turns say. Of a history that is nobody's no
                preference is kept, which is counted as an error.

        Returns:
            `summary`, `concepts` and `entities`, or `{"error": "extraction_disabled"}`.

        Raises:
            BadInput: a message of the history has no role or no text.
        """
        return sessions.analyze_session_for_concepts(self._open(), session_id, history, force, user_id)

    def analyze_history(self, session_id: str, history: History) -> dict[str, Any]:
        """Analyse messages as `analyze_session_for_concepts` does, and keep nothing.

        Raises:
            BadInput: a message of the history has no role or no text.
        """
        return sessions.analyze_history(self._open(), session_id, history)

    def analyze_session_async(
        self, session_id: str, force: bool = False, callback: Callable[[dict[str, Any]], object] | None = None
    ) -> Future[dict[str, Any]]:
        """Queue the analysis of a captured session; two are done at a time, and all before the home closes.

        Args:
            callback: called with the result, or with `{"error": …}`, on the thread that made it.
        """
        self._open()
        return self._later.submit(self._analysed, session_id, force, callback)

    def close(self) -> None:
        """Finish what is queued, then refuse every further verb; `opened` calls it."""
        self._later.shutdown(wait=True)
        self._closed = True

    def _analysed(
        self, session_id: str, force: bool, callback: Callable[[dict[str, Any]], object] | None
    ) -> dict[str, Any]:
        try:
            result = sessions.analyze_session_for_concepts(self._parts, session_id, None, force)
        except Exception as error:
            _LOG.warning("session %s could not be analysed", session_id, exc_info=error)
            result = {"error": error.message if isinstance(error, FilrougeError) else type(error).__name__}
        if callback:
            try:
                callback(result)
            except Exception:  # the caller's own trouble; the result stands
                _LOG.exception("the callback for session %s failed", session_id)
        return result

    def _open(self) -> Parts:
        if self._closed:
            raise Busy("This home is closed.", remedy="Use it inside the `with filrouge.opened(...)` block.")
        return self._parts


@contextmanager
def opened(home: str | None = None, *, environ: Mapping[str, str] | None = None) -> Generator[Opened]:
    """Open a home in this process for as long as the block runs.

    Args:
        home: its directory, made if it is not there; None = that of the daemon (`FILROUGE_HOME`).
        environ: in the place of this process's environment.

    Raises:
        Busy: a daemon or another program has it open.
        StoreError: the database cannot be opened, is damaged, or is newer than this program.
    """
    with owned(home, environ=environ) as running:
        memory = Opened(running.parts)
        try:
            yield memory
        finally:
            memory.close()


@contextmanager
def owned(home: str | None = None, *, environ: Mapping[str, str] | None = None) -> Generator[Running]:
    """Hold a home, with all that works in it, for as long as the block runs; its indexes are loaded when it begins.

    Raises:
        Busy: a daemon or another program has it open.
        StoreError: the database cannot be opened, is damaged, or is newer than this program.
    """
    place = home or default_home(environ)
    with ExitStack() as held:
        try:
            held.enter_context(only_one(place, owner=PROGRAM))
        except Busy as error:
            raise Busy(
                f"The home {place} has an owner already: a daemon, or another program.",
                remedy="Stop the daemon with `filrouge daemon stop`, or ask it: `filrouge search`, or its HTTP routes.",
            ) from error
        running = wiring.start(place, environ=environ)
        held.callback(running.stop)
        running.warming.join()
        yield running


def hybrid_fusion(
    corpus: Mapping[str, str],
    query: str,
    vector_results: Mapping[str, float],
    *,
    alpha: float = 0.5,
    bm25_k1: float = 1.5,
    bm25_b: float = 0.75,
    score_threshold: float = 0.0,
    fusion: Fusion = "convex",
) -> list[Fused]:
    """Rank texts of your own by their words and by vector results of your own, best first; no home is needed.

    Args:
        corpus: every text by its id.
        vector_results: similarities on any one scale, by id; a text that is missing has none.

    Raises:
        BadInput: a value is out of its range, or a vector result is about no text of the corpus.
    """
    okapi = okapi_of(bm25_k1, bm25_b)
    found = hybrid.hybrid_fusion(
        corpus, query, vector_results, wiring.analyser(), alpha=alpha, okapi=okapi, fusion=fusion
    )
    return [one for one in found if one.score >= score_threshold]
