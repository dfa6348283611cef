"""Windows lose no word, cut none that fits, and are never longer than what the model reads, whatever the script."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import filrouge
from filrouge.providers.e5 import Tokenizer, load_tokenizer, model_path
from filrouge.providers.embedders import WINDOW_TOKENS, estimated_tokens, windows
from tests.support.tiers import examples

#: 512 less the marks for beginning and end.
MODEL_READS = 510
TEXTS = st.text(st.sampled_from("abé .!?…。\n\t東\u00a0ﷺ"), max_size=400)
LETTERS = "abcdefghijklmnopqrstuvwxyzéèàçüñABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CODE = Path(filrouge.__file__).parent


@pytest.fixture(scope="module")
def tokenizer(models: str) -> Tokenizer:
    return load_tokenizer(model_path(models))


def fits(tokenizer: Tokenizer, window: str) -> bool:
    return len(tokenizer.ids("passage: " + window)) <= MODEL_READS


@given(TEXTS, st.integers(20, 80))
def test_no_character_is_lost_and_no_window_too_long(text: str, size: int) -> None:
    pieces = windows(text, size)
    assert all(estimated_tokens(piece) <= size for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


@given(TEXTS, st.integers(20, 80))
def test_a_word_that_fits_is_never_cut(text: str, size: int) -> None:
    words = text.replace("。", "").split()
    if all(estimated_tokens(word) <= size for word in words):
        assert " ".join(windows(" ".join(words), size)).split() == words


@settings(max_examples=examples(20), deadline=None)
@given(st.text(max_size=40), st.integers(1, 80))
def test_every_window_of_any_characters_fits_the_model(tokenizer: Tokenizer, text: str, times: int) -> None:
    pieces = windows(text * times)
    assert all(fits(tokenizer, piece) for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join((text * times).split())


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 1500))
def test_every_window_of_random_letters_fits_the_model(tokenizer: Tokenizer, seed: int, count: int) -> None:
    chance = random.Random(seed)  # not drawn letter by letter: a text that repeats a few words is not random
    words = ["".join(chance.choices(LETTERS, k=chance.randint(1, 12))) for _ in range(count)]
    assert all(fits(tokenizer, piece) for piece in windows(" ".join(words)))


def samples() -> dict[str, str]:
    chance = random.Random(7)
    code = "\n".join(path.read_text("utf-8") for path in sorted(_CODE.rglob("*.py"))[:40])
    rows = [{"id": n, "at": f"2026-01-{n % 28:02}T10:00:00Z", "v": chance.random(), "k": f"a{n:x}"} for n in range(900)]
    said = {
        "english": "The migration locks the table for ten minutes, so we run it at night and tell everybody before. ",
        "french": "Voilà, le serveur écoute sur le port 8443 ; l'équipe d'été sauvegarde la base à trois heures. ",
        "chinese": "生产环境监听端口9443，数据库每天凌晨三点备份，请不要在工作时间运行迁移脚本。",
        "japanese": "本番環境はポート9443で待ち受けています。データベースは毎晩三時にバックアップされます。",
        "thai": "เซิร์ฟเวอร์ทำงานที่พอร์ต 9443 และสำรองข้อมูลทุกคืนเวลาตีสาม ห้ามรันสคริปต์ในเวลาทำงาน ",
        "arabic": "يستمع الخادم على المنفذ 9443 ويتم نسخ قاعدة البيانات احتياطيا كل ليلة في الساعة الثالثة. ",
        "russian": "Сервер слушает порт 9443, база данных сохраняется каждую ночь в три часа. ",
        "emoji": "😀👍🏽👩‍👩‍👧🇫🇷🎉",
    }
    return {name: text * (20_000 // len(text)) for name, text in said.items()} | {
        "code": code,
        "base64": base64.b64encode(chance.randbytes(20_000)).decode(),
        "hex": chance.randbytes(10_000).hex(),
        "json": json.dumps(rows, separators=(",", ":")),
    }


@pytest.mark.parametrize("name", samples())
def test_every_window_of_this_kind_of_text_fits_the_model(tokenizer: Tokenizer, name: str) -> None:
    pieces = windows(samples()[name])
    longest = max(len(tokenizer.ids("passage: " + piece)) for piece in pieces)
    assert longest <= MODEL_READS
    assert max(map(estimated_tokens, pieces)) <= WINDOW_TOKENS
    assert len(pieces) > 5


@pytest.mark.parametrize(("name", "least"), [("english", 600), ("french", 600), ("code", 600), ("chinese", 350)])
def test_windows_are_not_smaller_than_they_need_be(name: str, least: int) -> None:
    text = samples()[name]
    assert len(text) / len(windows(text)) > least


def test_a_window_ends_where_a_sentence_ends() -> None:
    assert windows("One two. Three four! Five?", 7) == ["One two.", "Three four!", "Five?"]
    assert windows("東京。大阪。", 5) == ["東京。", "大阪。"]


def test_no_text_is_one_empty_window() -> None:
    assert windows("") == windows(" \n ") == [""]


def test_the_last_sentence_of_a_long_text_is_in_a_window() -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 2300 + "The port is 9443."
    assert len(text) > 100_000
    assert windows(text)[-1].endswith("The port is 9443.")


def test_one_word_longer_than_a_window_is_cut() -> None:
    assert windows("AB" * 10 + " c", 9) == ["ABABABAB", "ABABABAB", "ABAB c"]
