"""Filrouge as a library: opens a home inside the calling process and offers its operations.

A home has one owner at a time. A program that opens it becomes that owner: it holds the same lock as the daemon and
does the daemon's work (reads spooled hook events, embeds in the background). Meanwhile no daemon starts for that home.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from filrouge.capture.programs import History
from filrouge.core.errors import Busy, FilrougeError
from filrouge.core.guard import logged
from filrouge.core.paths import home as default_home
from filrouge.daemon.process import PROGRAM, home_lock
from filrouge.erasure import service
from filrouge.extraction import sessions
from filrouge.memories.changes import remember
from filrouge.memories.models import Memory
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.runtime.wiring import Running
from filrouge.search import ranking as hybrid
from filrouge.search.models import Ranking
from filrouge.search.ranking import Fused, Fusion
from filrouge.search.retrievers import HybridQuery, Rerank, hybrid_query, okapi_of

_LOG = logging.getLogger(__name__)
_HOST = sessions.HOST


class Opened:
    """An open home, as yielded by `opened`. Thread-safe."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._closed = False
        self._analysis_pool = ThreadPoolExecutor(2, thread_name_prefix="filrouge-analysis")

    def remember(self, text: str, *, project: str | None = None) -> list[Memory]:
        """Remember a statement, as `filrouge remember` does; returns the resulting memories, new or existing.

        Args:
            project: the id, an alias or the short name of a known project; None = outside every project.

        Raises:
            BadInput: the text is empty, too long, or holds a secret.
            NotFound: there is no such project.
        """
        parts = self._open()
        actions = remember(parts, text, names=[project] if project else [], scope=None, host=_HOST)
        return parts.readers.here(lambda tx: parts.memories(tx).known([action.memory_id for action in actions]))

    def forget(self, text: str = "", *, item: str = "", token: str = "", dry_run: bool = False) -> dict[str, Any]:
        """Forget everything about a text, or an item and what depends on it. This cannot be undone.

        Args:
            item: the id of a memory, a turn, a thread, a bridge, an event or a synthesis.
            token: from a preview; forgets exactly what that preview listed. Without it, forgets what is found now.
            dry_run: return a preview and forget nothing.

        Returns:
            The preview (`rows`, `counts`, `token`, …), or the receipt.

        Raises:
            BadInput: neither text nor item is given, or both.
            NotFound: there is no item with this id.
            Stale: what the token refers to has changed.
        """
        request = service.ForgetRequest(text=text, id=item)
        parts = self._open()
        if dry_run:
            return service.preview(parts, request).to_json()
        if token:
            return service.forget(parts, request, token).to_json()
        return service.forget_at_once(parts, request)[1].to_json()

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
        """Rank `turns`, `memories` or `all` by keyword match and by embedding similarity, best first.

        Args:
            where_filter: user, project, agent, channel, kind, role, thread, branch, trust (minimum), since, until,
                as_of, exact.
            alpha: 0 = keywords only (no model is used), 1 = embeddings only.
            score_threshold: minimum `score`, which is comparable within this query only: 0.0 none, 0.3 to 0.5 moderate,
                0.7 and above strict.
            bm25_k1, bm25_b: how much repetition and length count (Okapi BM25).
            min_relevance: minimum `relevance`, which is comparable across queries.
            fusion: `convex` (min-max normalised, mixed by alpha) or `rrf` (ranks only).
            rerank: `mmr` demotes hits that repeat better ones. There is no cross-encoder.

        Raises:
            BadInput: an argument is invalid; the message names it and the valid values.
            NotFound: the filter names an unknown project.
            EmbedderUnavailable: alpha is 1 and there is no model; with any other alpha the result carries a notice
                instead.
        """
        okapi = okapi_of(bm25_k1, bm25_b)
        query = HybridQuery(
            collection=collection,
            text=query_text,
            n_results=n_results,
            where=where_filter,
            alpha=alpha,
            okapi=okapi,
            score_threshold=score_threshold,
            min_relevance=min_relevance,
            fusion=fusion,
            rerank=rerank,
        )
        parts = self._open()
        return parts.readers.here(lambda tx: hybrid_query(parts, tx, query))

    def analyze_session_for_concepts(
        self, session_id: str, history: History | None = None, force: bool = False, user_id: str | None = None
    ) -> dict[str, Any]:
        """Analyse a session and store the result: its summary, its concepts, and the user's preferences.

        Args:
            history: the messages (`role`, `content`) to analyse instead of the captured ones.
            force: read everything again. Otherwise only new messages are read, and at most once per hour.
            user_id: the user the session belongs to; None = the user of the captured turns. Without a known user, the
                preferences of a history are not stored, which is counted as an error.

        Returns:
            `summary`, `concepts` and `entities`, or `{"error": "extraction_disabled"}`.

        Raises:
            BadInput: a message of the history has no role or no text.
        """
        return sessions.analyze_session_for_concepts(self._open(), session_id, history, force, user_id)

    def analyze_history(self, session_id: str, history: History) -> dict[str, Any]:
        """Analyse messages like `analyze_session_for_concepts`, but store nothing.

        Raises:
            BadInput: a message of the history has no role or no text.
        """
        return sessions.analyze_history(self._open(), session_id, history)

    def analyze_session_async(
        self, session_id: str, force: bool = False, callback: Callable[[dict[str, Any]], object] | None = None
    ) -> Future[dict[str, Any]]:
        """Queue the analysis of a captured session. Two run at a time; all finish before the home closes.

        Args:
            callback: called with the result, or with `{"error": …}`, on the thread that ran the analysis.
        """
        self._open()
        return self._analysis_pool.submit(self._analyse, session_id, force, callback)

    def close(self) -> None:
        """Finish queued analyses, then refuse every further call. Called by `opened`."""
        self._analysis_pool.shutdown(wait=True)
        self._closed = True

    def _analyse(
        self, session_id: str, force: bool, callback: Callable[[dict[str, Any]], object] | None
    ) -> dict[str, Any]:
        try:
            result = sessions.analyze_session_for_concepts(self._parts, session_id, None, force)
        except Exception as error:
            _LOG.warning("session %s could not be analysed", session_id, exc_info=error)
            result = {"error": error.message if isinstance(error, FilrougeError) else type(error).__name__}
        if callback:
            # The callback's own error; the result stays valid.
            with logged(_LOG, "the callback for session %s failed", session_id):
                callback(result)
        return result

    def _open(self) -> Parts:
        if self._closed:
            raise Busy("This home is closed.", remedy="Use it inside the `with filrouge.opened(...)` block.")
        return self._parts


@contextmanager
def opened(home: str | None = None, *, environ: Mapping[str, str] | None = None) -> Generator[Opened]:
    """Open a home in this process for the duration of the block.

    Args:
        home: its directory, created if missing; None = the daemon's home (`FILROUGE_HOME`).
        environ: replaces this process's environment.

    Raises:
        Busy: a daemon or another program has the home open.
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
    """Own a home and run all its workers for the duration of the block; the indexes are loaded first.

    Raises:
        Busy: a daemon or another program has the home open.
        StoreError: the database cannot be opened, is damaged, or is newer than this program.
    """
    home_path = home or default_home(environ)
    with ExitStack() as stack:
        try:
            stack.enter_context(home_lock(home_path, owner=PROGRAM))
        except Busy as error:
            raise Busy(
                f"The home {home_path} has an owner already: a daemon or another program.",
                remedy="Stop the daemon with `filrouge daemon stop`, or use it: `filrouge search`, or its HTTP routes.",
            ) from error
        running = wiring.start(home_path, environ=environ)
        stack.callback(running.stop)
        running.warm_up_thread.join()
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
    """Rank your own texts by keyword match and your own vector results, best first. Needs no home.

    Args:
        corpus: every text by its id.
        vector_results: similarities by id, all on one scale of your choice; a missing id means no similarity.

    Raises:
        BadInput: a value is out of range, or a vector result has an id that is not in the corpus.
    """
    okapi = okapi_of(bm25_k1, bm25_b)
    ranked = hybrid.hybrid_fusion(
        corpus, query, vector_results, wiring.analyser(), alpha=alpha, okapi=okapi, fusion=fusion
    )
    return [fused for fused in ranked if fused.score >= score_threshold]
