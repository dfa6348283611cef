"""How long a search of the hub takes, and how many of the nearest vectors it finds, by the size of a team.

    nice -n 15 python bench/hub_search.py --sizes 10k,100k --out bench/results/hub_search.md

All teams are in one database, so a small one is searched beside the large ones. `1000x1k` are a thousand teams of a
thousand memories each; a hundred of them are asked. Memories have words drawn by Zipf's law and vectors in 3,000
clusters; a question has words of one memory and a vector near its own. One project has 1 % of a team's memories, and
one kind 30 %. Times are those of a whole transaction of the serving role. Recall is the share of the ten nearest
vectors, compared one by one under the same filter, that the search finds by meaning alone.

It also compares the index of hashed words with a plain GIN index of the `tsvector`, for a team of the first size: how
long the index takes for each word of a question, read as the owner.

`--check` exits 1 if a recall is below .99. Two million memories take 40 minutes to fill and to index; PostgreSQL is the
one of the tests (`tests/support/postgres.py`), with 8 GB of shared buffers, into which everything is read before the
first question, as on a server that has run for a while.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from tests.support import postgres
from tests.support.postgres import Hub

from filrouge.core.clock import SystemClock, new_id
from filrouge.hub import search
from filrouge.hub.database import HubDatabase
from filrouge.hub.models import NewToken
from filrouge.hub.search import Question, QuestionVector, SearchOptions
from filrouge.providers.models import EmbeddingSpace

#: The number of teams, and of memories of each.
SIZES: Final = {"10k": (1, 10_000), "100k": (1, 100_000), "1M": (1, 1_000_000), "1000x1k": (1000, 1000)}
QUESTIONS: Final = 100
DIMENSION, CLUSTERS, RANK, VOCABULARY, PROJECTS = 384, 3_000, 32, 20_000, 100
SPACE: Final = EmbeddingSpace(
    id="bench", model="bench", revision="1", dimension=DIMENSION, pooling="mean", prefix="none"
)
CLOCK: Final = SystemClock()
EXACT: Final = SearchOptions(exact_below=10**9)
FILTERS: Final[dict[str, dict[str, Any]]] = {
    "all": {},
    "1 % (a project)": {"projects": ("project 7",)},
    "30 % (a kind)": {"kinds": ("decision",)},
}
COLUMNS: Final = (
    "tenant, memory, version, author, state, project, kind, text, confidence, valid_from, space, vector, digest, words,"
    " analyser"
)
Floats = NDArray[np.float32]
VECTOR: Final = f"[{','.join(['%.5f'] * DIMENSION)}]"
#: They are dropped while a database is filled: all at once they are made faster.
INDEXES: Final = ("versions_by_vector_384", "versions_by_word")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question of a member: words of a memory, and a vector near its own."""

    secret: str
    words: str
    vector: Floats


class Maker:
    """Makes memories: texts by Zipf's law, vectors in clusters with noise of low rank."""

    def __init__(self) -> None:
        self._chance, self._random = Random(1), np.random.default_rng(1)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._words = ["".join(self._chance.choices(letters, k=self._chance.randint(3, 9))) for _ in range(VOCABULARY)]
        self._weights = list(accumulate(1 / (rank + 10) for rank in range(VOCABULARY)))
        wide = self._random.normal(size=(60, DIMENSION))
        self._centres = wide[self._random.integers(0, 60, CLUSTERS)] + self._random.normal(size=(CLUSTERS, DIMENSION))
        self._basis = self._random.normal(size=(RANK, DIMENSION)) / np.sqrt(RANK)

    def text(self) -> str:
        return " ".join(self._chance.choices(self._words, cum_weights=self._weights, k=self._chance.randint(8, 25)))

    def vectors(self, count: int) -> Floats:
        centres = self._centres[self._random.integers(0, CLUSTERS, count)]
        return unit(centres + 1.2 * self._random.normal(size=(count, RANK)) @ self._basis)

    def asked(self, secret: str, text: str, vector: Floats) -> Asked:
        words = self._chance.sample(text.split(), 4) + self._chance.choices(self._words, k=1)
        noise = 0.6 * self._random.normal(size=RANK) @ self._basis / np.sqrt(DIMENSION)
        return Asked(secret=secret, words=" ".join(words), vector=unit(vector + noise))


def unit(vectors: NDArray[Any]) -> Floats:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def fill(
    connection: psycopg.Connection[Any], maker: Maker, token: NewToken, size: int, questions: int
) -> Iterator[Asked]:
    """Copy memories of one tenant; give questions about some of them, as many as are wanted."""
    every = size // questions if questions else 0
    connection.execute(
        "UPDATE hub.tenants SET space = %s, dimension = %s WHERE tenant = %s", [SPACE.id, DIMENSION, token.tenant]
    )
    with connection.cursor().copy(f"COPY hub.versions ({COLUMNS}) FROM STDIN") as copy:
        for start in range(0, size, 10_000):
            for number, vector in enumerate(maker.vectors(min(10_000, size - start)), start):
                text = maker.text()
                kind = "decision" if number % 10 < 3 else "fact"
                copy.write_row((
                    token.tenant, new_id(CLOCK.now()), 1, token.member, "live", f"project {number % PROJECTS}", kind,
                    text, 1.0, "2026-01-01", SPACE.id, VECTOR % tuple(vector.tolist()), b"bench", search.words_of(text),
                    search.analyser().version,
                ))  # fmt: skip
                if every and number % every == 0:
                    yield maker.asked(token.secret, text, vector)


def filled(hub: Hub, sizes: Sequence[str]) -> dict[str, list[Asked]]:
    """Fill the tenants of each size; return the questions."""
    made, maker = dict[str, list[Asked]](), Maker()
    with psycopg.connect(hub.superuser, dbname=hub.name) as connection:
        # The owner is bound by row security, and COPY is not; indexes and counts are faster made at the end.
        connection.execute("SET session_replication_role = replica; SET maintenance_work_mem = '5GB'")
        definitions = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE indexname = ANY (%s)", [list(INDEXES)]
        ).fetchall()
        for name in INDEXES:
            connection.execute(sql.SQL("DROP INDEX hub.{}").format(sql.Identifier(name)))
        for size in sizes:
            made[size] = []
            tenants, memories = SIZES[size]
            for number in range(tenants):
                token = hub.add_tenant(f"{size} memories, team {number}")
                asks = max(1, QUESTIONS // tenants) if number % max(1, tenants // QUESTIONS) == 0 else 0
                made[size] += fill(connection, maker, token, memories, asks)
        connection.execute(
            "INSERT INTO hub.word_counts SELECT tenant, key, count(*) FROM hub.versions,"
            " unnest(hub.word_keys(tenant, words) || hub.word_key(tenant, '')) AS key GROUP BY tenant, key"
        )
        for (definition,) in definitions:
            connection.execute(definition)
    with psycopg.connect(hub.superuser, dbname=hub.name, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE hub.versions, hub.word_counts")
        connection.execute("CREATE EXTENSION pg_prewarm")
        connection.execute("SELECT pg_prewarm(indexrelid) FROM pg_index WHERE indrelid = 'hub.versions'::regclass")
        connection.execute("SELECT pg_prewarm('hub.versions')")
    return made


def found(
    database: HubDatabase,
    asked: Asked,
    question: Question,
    options: SearchOptions | None = None,
    *,
    by_vector: bool = True,
) -> list[str]:
    """What the member finds."""
    vector = QuestionVector(vector=asked.vector, space=SPACE) if by_vector else None
    with database.session(asked.secret) as session:
        return [hit.id for hit in search.search(session, CLOCK, question, vector, options).hits]


def milliseconds(work: Callable[[Asked], object], asked: Sequence[Asked], pid: int) -> tuple[float, float, float]:
    """The median and the 95th percentile of one call for each question, and the mean processor time of both sides.

    Args:
        pid: the process of the server that answers.
    """
    for one in asked[:20]:
        work(one)
    times, before = list[float](), processor_seconds(pid)
    for one in asked:
        start = time.perf_counter()
        work(one)
        times.append(1000 * (time.perf_counter() - start))
    processor = 1000 * (processor_seconds(pid) - before) / len(asked)
    return statistics.median(times), sorted(times)[int(0.95 * len(times))], processor


def processor_seconds(pid: int) -> float:
    """What this process and the server's have used; on a machine with other work it says more than the clock."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def recall(database: HubDatabase, asked: Sequence[Asked], filters: dict[str, Any]) -> float:
    """The share of the ten nearest that are found; the word of the question occurs nowhere."""
    question, shares = Question(query="0000", limit=10, **filters), list[float]()
    for one in asked:
        nearest = set(found(database, one, question, EXACT))
        shares.append(len(nearest & set(found(database, one, question))) / len(nearest))
    return statistics.mean(shares)


def measured(database: HubDatabase, size: str, asked: Sequence[Asked]) -> Iterator[tuple[str, ...]]:
    """A row for each filter: size, filter, times by words and by both, recall."""
    with database.session(asked[0].secret) as session:
        pid = session.connection.info.backend_pid
    for name, filters in FILTERS.items():
        by_words = partial(one_search, database, filters, by_vector=False)
        by_both = partial(one_search, database, filters, by_vector=True)
        times = (*milliseconds(by_words, asked, pid), *milliseconds(by_both, asked, pid))
        yield size, name, *(f"{value:.0f}" for value in times), f"{recall(database, asked, filters):.3f}"


def one_search(database: HubDatabase, filters: dict[str, Any], asked: Asked, *, by_vector: bool) -> list[str]:
    return found(database, asked, Question(query=asked.words, limit=10, **filters), by_vector=by_vector)


PLAIN: Final = sql.SQL("words @@ %(word)s::tsquery")
HASHED: Final = sql.SQL("hub.word_keys(tenant, words) @> ARRAY[hub.word_key(%(tenant)s, %(word)s)]")


def indexes(hub: Hub, tenant: str, asked: Sequence[Asked]) -> Iterator[tuple[str, ...]]:
    """A row for each index of words: times for all words of a question, and megabytes."""
    with psycopg.connect(hub.superuser, dbname=hub.name, autocommit=True) as connection:
        connection.execute(
            "CREATE INDEX plain ON hub.versions USING gin (words) WITH (fastupdate = off)"
            " WHERE is_latest AND state = 'live'"
        )
        connection.execute("ANALYZE hub.versions")
        pid = connection.info.backend_pid
        for name, index, condition in (("plain", "plain", PLAIN), ("hashed", "versions_by_word", HASHED)):
            times = milliseconds(partial(read, connection, tenant, condition), asked, pid)
            size = connection.execute("SELECT pg_relation_size(%s::regclass)", [f"hub.{index}"]).fetchone()
            assert size is not None
            yield name, *(f"{value:.1f}" for value in times), f"{size[0] / 1e6:.0f}"


def read(connection: psycopg.Connection[Any], tenant: str, condition: sql.SQL, asked: Asked) -> None:
    statement = sql.SQL(
        "SELECT memory FROM hub.versions WHERE tenant = %(tenant)s AND is_latest AND state = 'live' AND {} LIMIT 3000"
    ).format(condition)
    for word in asked.words.split():
        connection.execute(statement, {"tenant": tenant, "word": word}, prepare=False).fetchall()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10k", help=f"{', '.join(SIZES)}; several with commas")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    sizes: list[str] = options.sizes.split(",")
    with postgres.server("--shared_buffers=8GB") as url, postgres.hub(url) as hub:
        start = time.monotonic()
        made = filled(hub, sizes)
        database = HubDatabase(hub.serving, max_connections=1)
        database.open()
        rows = [row for size, asked in made.items() for row in measured(database, size, asked)]
        asked = made[sizes[0]]
        with database.session(asked[0].secret) as session:
            tenant = session.identity.tenant
        database.close()
        words = list(indexes(hub, tenant, asked))
        seconds = time.monotonic() - start
    head = ("team", "filter", "words p50", "p95", "CPU", "both p50", "p95", "CPU", "recall@10")
    about = (
        f"`python bench/hub_search.py --sizes {options.sizes}`, {seconds:.0f} s with the filling, at a load of"
        f" {os.getloadavg()[1]:.0f} on {os.cpu_count()} processors. Milliseconds; 100 questions each, one after the"
        " other. CPU is the mean processor time of server and client together: the clock also counts other programs."
    )
    told = [
        "# The hub: how long a search takes",
        about,
        table(head, rows),
        f"## The index of words, for one team of {sizes[0]}",
        table(("index", "p50", "p95", "CPU", "MB"), words),
    ]
    text = "\n\n".join(told) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    return int(options.check and any(float(row[-1]) < 0.99 for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
