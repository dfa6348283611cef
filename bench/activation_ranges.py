"""Measure how large the numbers inside multilingual-e5-small become, channel by channel, and write the table.

    python bench/activation_ranges.py --data DIR       # writes src/filrouge/providers/activation_ranges.npy

The network is run in 32-bit floats over English chat (LoCoMo), French paragraphs (PIAF), this repository's source and
documents, and sentences of other languages and of no language. What is kept for each layer is a row: the largest
size of each channel before attention, of each channel before the wide matrix, and of any number that attention
found, all with a margin. Texts are chosen by a fixed seed, so the table can be made again.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import sys
from pathlib import Path
from typing import Final

import numpy as np

from filrouge.providers.e5 import (
    POSITION_TABLE,
    RANGES,
    WORD_TABLE,
    Floats,
    Tokenizer,
    Weights,
    build,
    decode_blocks,
    load_tokenizer,
    model_path,
    weights_path,
)

ROOT: Final = Path(__file__).parents[1]
#: Texts that were not measured go a little further: at 1.15, none of 220 others had a number cut off by much.
MARGIN: Final = 1.15
MOST_TOKENS: Final = 300
#: Coefficients of erf, Abramowitz and Stegun 7.1.26, error below 1.5e-7.
ERF: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
ELSEWHERE: Final = (
    "我们今天讨论如何把数据库迁移到新的服务器上，并检查所有的测试。",
    "東京の天気は明日晴れるでしょう、しかし風が強いです。ポートを変更してください。",
    "서버의 포트를 9443으로 변경하고 테스트를 다시 실행해 주세요.",
    "Сегодня мы обсуждаем настройку сервера базы данных и резервные копии.",
    "هذا نص تجريبي باللغة العربية حول البرمجة وقواعد البيانات.",
    "आज हम डेटाबेस को नए सर्वर पर ले जाने के बारे में बात करेंगे।",
    "วันนี้เราจะย้ายฐานข้อมูลไปยังเซิร์ฟเวอร์ใหม่",
    "Wir müssen den Server auf Port 9443 umstellen und die Tests laufen lassen.",
    "Prefiero las respuestas cortas y las pruebas antes del código.",
    "Preferisco le risposte brevi e i test prima del codice.",
    "Prefiro respostas curtas e testes antes do código.",
    "Dobrý den, potřebuji nastavit port a spustit testy.",
    "Wolę krótkie odpowiedzi i testy przed kodem.",
    "Sunucuyu yeni bağlantı noktasına taşımalıyız.",
    "🎉🎉 great!! 👍 🚀",
    "0xdeadbeef 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "SGVsbG8sIHdvcmxkISBUaGlzIGlzIGEgYmFzZTY0IHRleHQgdGhhdCBub2JvZHkgcmVhZHMu",
    '{"a":1,"b":[true,false,null],"c":{"d":"e"}}',
    "!!! ??? ... --- *** ### $$$ %%% &&&",
    "ok",
    "yes",
    "1234567890 3.14159 -42 1e-9 127.0.0.1:9443",
)


class Floating:
    """The network in 32-bit floats, which tells `seen` what it computes on the way."""

    def __init__(self, weights: Weights, tokenizer: Tokenizer, words: np.ndarray, positions: Floats) -> None:
        self._weights = weights
        self._tokenizer = tokenizer
        self._words = words
        self._positions = positions
        self._matrices: dict[str, Floats] = {}
        self.attention: Floats = np.zeros((weights.sizes.layers, weights.sizes.hidden), np.float32)
        self.inner: Floats = np.zeros_like(self.attention)
        self.found: Floats = np.zeros(weights.sizes.layers, np.float32)

    def read(self, text: str) -> None:
        marks = self._tokenizer.marks
        ids = [marks.begin, *self._tokenizer.ids(text)[:MOST_TOKENS], marks.end]
        state = self._norm(decode_blocks(self._words[np.array(ids)]) + self._positions[: len(ids)], "emb.ln")
        for layer in range(self._weights.sizes.layers):
            state = self._layer(state, layer)

    def _layer(self, state: Floats, layer: int) -> Floats:
        name, heads = f"l{layer}", self._weights.sizes.heads
        self.attention[layer] = np.maximum(self.attention[layer], np.abs(state).max(axis=0))
        parts = [self._linear(state, f"{name}.{one}") for one in "qkv"]
        queries, keys, values = (part.reshape(len(state), heads, -1).transpose(1, 0, 2) for part in parts)
        scores = queries @ keys.transpose(0, 2, 1) / np.float32(np.sqrt(queries.shape[-1]))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        found = (shares @ values).transpose(1, 0, 2).reshape(state.shape)
        self.found[layer] = max(self.found[layer], float(np.abs(found).max()))
        state = self._norm(state + self._linear(found, f"{name}.ao"), f"{name}.aln")
        self.inner[layer] = np.maximum(self.inner[layer], np.abs(state).max(axis=0))
        inner = gelu(self._linear(state, f"{name}.fi", self._weights.sizes.inner))
        return self._norm(state + self._linear(inner, f"{name}.fo"), f"{name}.oln")

    def _linear(self, state: Floats, name: str, rows: int = 0) -> Floats:
        if name not in self._matrices:
            self._matrices[name] = self._weights.matrix(f"{name}.w", rows or self._weights.sizes.hidden).T.copy()
        return state @ self._matrices[name] + self._weights.floats(f"{name}.b")

    def _norm(self, state: Floats, name: str) -> Floats:
        centred = state - state.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self._weights.sizes.epsilon)
        return centred / spread * self._weights.floats(f"{name}.w") + self._weights.floats(f"{name}.b")


def gelu(given: Floats) -> Floats:
    size = np.abs(given) / np.float32(np.sqrt(2.0))
    part = 1.0 / (1.0 + 0.3275911 * size)
    total = np.zeros_like(part)
    for coefficient in reversed(ERF):
        total = part * (coefficient + total)
    erf = np.sign(given) * (1.0 - total * np.exp(-size * size))
    return (0.5 * given * (1.0 + erf)).astype(np.float32)


def texts(data: Path) -> list[str]:
    choose = random.Random(20261122)
    with lzma.open(data / "locomo.jsonl.xz", "rt", encoding="utf-8") as file:
        conversations = [json.loads(line) for line in file]
    chat = [turn["content"] for one in conversations for session in one["sessions"] for turn in session["turns"]]
    with lzma.open(data / "piaf.corpus.jsonl.xz", "rt", encoding="utf-8") as file:
        french = [json.loads(line)["text"] for line in file]
    paths = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")])
    work = "\n\n".join(path.read_text("utf-8") for path in paths).split("\n\n")
    chosen = [*choose.sample(chat, 150), *choose.sample(french, 60), *choose.sample(work, 120), *ELSEWHERE]
    return ["query: " + text if choose.random() < 0.2 else "passage: " + text for text in chosen]


def main() -> int:
    options = argparse.ArgumentParser(description="ranges of the activations of multilingual-e5-small")
    options.add_argument("--data", required=True, type=Path, help="directory of the benchmark data")
    options.add_argument("--out", type=Path, default=ROOT / "src/filrouge/providers" / RANGES)
    given = options.parse_args()
    model = model_path()
    build(model)  # for its tokenizer and tables; the network inside it is not asked
    words, positions = np.load(Path(model) / WORD_TABLE, mmap_mode="r"), np.load(Path(model) / POSITION_TABLE)
    network = Floating(Weights(weights_path()), load_tokenizer(model), words, positions)
    sample = texts(given.data)
    for text in sample:
        network.read(text)
    table = np.concatenate([network.attention, network.inner, network.found[:, None]], axis=1) * MARGIN
    np.save(given.out, table.astype(np.float16))
    print(f"{len(sample)} texts; {table.shape[0]} layers of {table.shape[1]} numbers written to {given.out.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
