"""How long a search of the hub takes, and how many of the nearest vectors it finds, by the size of a team.

    nice -n 15 python bench/hub_search.py --sizes 10k,100k --out bench/results/hub_search.md

All teams are in one database, so a small one is searched beside the large ones. Memories have words drawn by Zipf's law
and vectors in 3,000 clusters; a question has words of one memory and a vector near its own. One project has 1 % of a
team's memories, and one kind 30 %. Times are those of a whole transaction of the serving role. Recall is the share of
the ten nearest vectors, compared one by one under the same filter, that the search finds by meaning alone.

It also compares the index of hashed words with a plain GIN index of the `tsvector`, for the smallest team: how long the
index takes for each word of a question, read as the owner.

`--check` exits 1 if a recall is below .99. A million memories take 15 minutes to fill; PostgreSQL is the one of the
tests (`tests/support/postgres.py`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg import sql
from tests.support import postgres
from tests.support.postgres import Hub

from filrouge.core.clock import SystemClock, new_id
from filrouge.hub import search
from filrouge.hub.database import HubDatabase
from filrouge.hub.search import Question, QuestionVector, SearchOptions
from filrouge.providers.models import EmbeddingSpace

SIZES: Final = {"10k": 10_000, "100k": 100_000, "1M": 1_000_000}
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


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question: words of a memory, and a vector near its own."""

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

    def asked(self, text: str, vector: Floats) -> Asked:
        words = self._chance.sample(text.split(), 4) + self._chance.choices(self._words, k=1)
        noise = 0.6 * self._random.normal(size=RANK) @ self._basis / np.sqrt(DIMENSION)
        return Asked(words=" ".join(words), vector=unit(vector + noise))


def unit(vectors: NDArray[Any]) -> Floats:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def fill(connection: psycopg.Connection[Any], maker: Maker, tenant: str, member: str, size: int) -> list[Asked]:
    """Copy memories of one tenant; return questions about some of them."""
    asked, every = list[Asked](), size // 100
    connection.execute(
        "UPDATE hub.tenants SET space = %s, dimension = %s WHERE tenant = %s", [SPACE.id, DIMENSION, tenant]
    )
    with connection.cursor().copy(f"COPY hub.versions ({COLUMNS}) FROM STDIN") as copy:
        for start in range(0, size, 10_000):
            for number, vector in enumerate(maker.vectors(min(10_000, size - start)), start):
                text = maker.text()
                kind = "decision" if number % 10 < 3 else "fact"
                copy.write_row((
                    tenant, new_id(CLOCK.now()), 1, member, "live", f"project {number % PROJECTS}", kind, text, 1.0,
                    "2026-01-01", SPACE.id, HalfVector(vector).to_text(), b"bench", search.words_of(text),
                    search.analyser().version,
                ))  # fmt: skip
                if number % every == 0:
                    asked.append(maker.asked(text, vector))
    return asked


def filled(hub: Hub, sizes: Sequence[str]) -> dict[str, tuple[str, list[Asked]]]:
    """Fill a tenant of each size; return the secret of its member, and the questions."""
    made, maker = dict[str, tuple[str, list[Asked]]](), Maker()
    with psycopg.connect(hub.superuser, dbname=hub.name) as connection:
        # The owner is bound by row security, and COPY is not; indexes and counts are faster made at the end.
        connection.execute("SET session_replication_role = replica; SET maintenance_work_mem = '512MB'")
        hnsw = "SELECT indexdef FROM pg_indexes WHERE indexname = 'versions_by_vector_384'"
        definition = connection.execute(hnsw).fetchone()
        assert definition is not None
        connection.execute("DROP INDEX hub.versions_by_vector_384")
        for size in sizes:
            token = hub.add_tenant(f"{size} memories")
            made[size] = token.secret, fill(connection, maker, token.tenant, token.member, SIZES[size])
        connection.execute(
            "INSERT INTO hub.word_counts SELECT tenant, key, count(*) FROM hub.versions,"
            " unnest(hub.word_keys(tenant, words) || hub.word_key(tenant, '')) AS key GROUP BY tenant, key"
        )
        connection.execute(definition[0])
    with psycopg.connect(hub.superuser, dbname=hub.name, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE hub.versions, hub.word_counts")
    return made


def found(
    database: HubDatabase, secret: str, question: Question, vector: Floats | None, options: SearchOptions
) -> list[str]:
    asked = None if vector is None else QuestionVector(vector=vector, space=SPACE)
    with database.session(secret) as session:
        return [hit.id for hit in search.search(session, CLOCK, question, asked, options).hits]


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


def recall(database: HubDatabase, secret: str, asked: Sequence[Asked], filters: dict[str, Any]) -> float:
    """The share of the ten nearest that are found; the word of the question occurs nowhere."""
    question, shares = Question(query="0000", limit=10, **filters), list[float]()
    for one in asked:
        nearest = set(found(database, secret, question, one.vector, EXACT))
        shares.append(len(nearest & set(found(database, secret, question, one.vector, SearchOptions()))) / len(nearest))
    return statistics.mean(shares)


def measured(database: HubDatabase, size: str, secret: str, asked: Sequence[Asked]) -> Iterator[tuple[str, ...]]:
    """A row for each filter: size, filter, times by words and by both, recall."""
    with database.session(secret) as session:
        pid = session.connection.info.backend_pid
    for name, filters in FILTERS.items():
        by_words = partial(one_search, database, secret, filters, by_vector=False)
        by_both = partial(one_search, database, secret, filters, by_vector=True)
        times = (*milliseconds(by_words, asked, pid), *milliseconds(by_both, asked, pid))
        yield size, name, *(f"{value:.0f}" for value in times), f"{recall(database, secret, asked, filters):.3f}"


def one_search(
    database: HubDatabase, secret: str, filters: dict[str, Any], asked: Asked, *, by_vector: bool
) -> list[str]:
    question = Question(query=asked.words, limit=10, **filters)
    return found(database, secret, question, asked.vector if by_vector else None, SearchOptions())


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
    parser.add_argument("--sizes", default="10k", help="10k, 100k, 1M; several with commas")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    sizes: list[str] = options.sizes.split(",")
    with postgres.server() as url, postgres.hub(url) as hub:
        start = time.monotonic()
        made = filled(hub, sizes)
        database = HubDatabase(hub.serving, max_connections=1)
        database.open()
        rows = [row for size, (secret, asked) in made.items() for row in measured(database, size, secret, asked)]
        secret, asked = made[sizes[0]]
        with database.session(secret) as session:
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
        f"## The index of words, for the team of {sizes[0]}",
        table(("index", "p50", "p95", "CPU", "MB"), words),
    ]
    text = "\n\n".join(told) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    return int(options.check and any(float(row[-1]) < 0.99 for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
