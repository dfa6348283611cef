"""Secrets go, and what only looks like one stays: in the hook's pass and in the daemon's."""

from __future__ import annotations

import base64
import json
import random
import string
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.capture.intake import redact_completely
from filrouge.capture.redact import map_texts, redact
from tests.support.tiers import examples, long

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hosts"
PASSES = pytest.mark.parametrize("cut", [redact, redact_completely])
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
WORDS = (
    "the commit fixes a checkout bug in the report module because its cursor stayed open and nobody saw it "
    "le correctif ferme le curseur du rapport parce que la base grossissait sans que personne ne le voie"
).split()


def some(rng: random.Random, length: int, alphabet: str = LETTERS) -> str:
    body = "".join(rng.choices(alphabet, k=length - 2))
    return body[: length // 2] + rng.choice("23456789") + body[length // 2 :] + rng.choice("23456789")


def secrets(rng: random.Random) -> dict[str, tuple[str, str]]:
    """One fresh secret of each kind: the text it stands in, and the part that must go."""
    upper, digits = string.ascii_uppercase + string.digits, string.digits
    plain = {
        "aws": "AKIA" + some(rng, 16, upper),
        "aws-temporary": "ASIA" + some(rng, 16, upper),
        "github": "ghp_" + some(rng, 36),
        "github-app": "ghs_" + some(rng, 36),
        "github-fine": "github_pat_" + some(rng, 22) + "_" + some(rng, 59),
        "gitlab": "glpat-" + some(rng, 20),
        "slack": f"xoxb-{some(rng, 12, digits)}-{some(rng, 24)}",
        "slack-app": f"xapp-1-{some(rng, 11, upper)}-{some(rng, 13, digits)}-{some(rng, 64, HEX)}",
        "openai": "sk-" + some(rng, 48),
        "openai-project": "sk-proj-" + some(rng, 120),
        "anthropic": f"sk-ant-api03-{some(rng, 93)}AA",
        "google": "AIza" + some(rng, 35),
        "google-oauth": "ya29." + some(rng, 60),
        "google-client": "GOCSPX-" + some(rng, 28),
        "stripe": "sk_live_" + some(rng, 24),
        "stripe-hook": "whsec_" + some(rng, 32),
        "npm": "npm_" + some(rng, 36),
        "pypi": "pypi-AgEIcHlwaS5vcmc" + some(rng, 120),
        "huggingface": "hf_" + some(rng, 34),
        "sendgrid": f"SG.{some(rng, 22)}.{some(rng, 43)}",
        "twilio": "SK" + some(rng, 32, HEX),
        "mailgun": "key-" + some(rng, 32, HEX),
        "digitalocean": "dop_v1_" + some(rng, 64, HEX),
        "databricks": "dapi" + some(rng, 32, HEX),
        "shopify": "shpat_" + some(rng, 32, HEX),
        "linear": "lin_api_" + some(rng, 40),
        "notion": "ntn_" + some(rng, 46),
        "docker": "dckr_pat_" + some(rng, 27),
        "vault": "hvs." + some(rng, 24),
        "filrouge": "frg_" + some(rng, 43, LETTERS + "-_"),
        "age": "AGE-SECRET-KEY-1" + some(rng, 58, upper),
        "telegram": f"{some(rng, 10, '123456789')}:AA{some(rng, 33)}",
        "grafana": "glsa_" + some(rng, 32) + "_" + some(rng, 8, HEX),
        "replicate": "r8_" + some(rng, 37),
        "groq": "gsk_" + some(rng, 52),
        "postman": f"PMAK-{some(rng, 24, HEX)}-{some(rng, 34, HEX)}",
        "rubygems": "rubygems_" + some(rng, 48, HEX),
        "jwt": ".".join((
            base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("="),
            base64.urlsafe_b64encode(b'{"sub":"' + some(rng, 12).encode() + b'"}').decode().rstrip("="),
            some(rng, 43),
        )),
    }  # fmt: skip
    word = some(rng, 14)
    told = {
        "env": f"DB_PASSWORD={word}",
        "exported": f"export SMTP_PASS_WORD=1 API_KEY={word}",
        "yaml": f"  password: {word}\n  user: ana",
        "json": json.dumps({"client_secret": word, "user": "ana"}),
        "nested-json": json.dumps(json.dumps({"apiKey": word})),
        "ini": f"secret_key = '{word}'",
        "aws-secret": f"aws_secret_access_key = {some(rng, 40, LETTERS + '/+')}",
        "flag": f"deploy --token {word} --region cdg",
        "flag-equals": f"deploy --password={word}",
        "url": f"postgres://ana:{word}@db.example/shop",
        "url-alone": f"redis://:{word}@cache.example:6379/0",
        "bearer": f"curl -H 'Authorization: Bearer {word}{word}'",
        "basic": f"Authorization: Basic {base64.b64encode(b'ana:' + word.encode()).decode()}",
        "header": f"X-Api-Key: {word}",
        "curl-user": f"curl -s -u ana:{word} https://x.example",
        "netrc": f"machine x.example login ana password {word}",
        "xml": f"<password>{word}</password>",
        "connection": f"Server=db;User Id=sa;Password={word};Encrypt=true",
        "account-key": f"AccountName=x;AccountKey={some(rng, 86, LETTERS + '/+')}==;",
        "cookie": f"Cookie: session={word}{word}",
        "english": f"the password is {word} for now",
        "french": f"le mot de passe : {word}",
        "french-said": f"le mot de passe est {word}, à changer",
        "spanish": f"la contraseña es {word}",
        "pass": f"export DB_PASS={word}",
        "pass-said": f"login ana / pass: {word}!",
        "mdp-of": f"mdp admin: {word}!",
        "french-of": f"le mot de passe du serveur est {word}!",
        "english-of": f"password for prod: {word}&3",
        "token-of": f"the token for staging is {word.lower()}",
        "french-of-colon": f"mot de passe prod : {word}&3",
    }
    found = {kind: (f"printed by a tool: {text} (end)", text) for kind, text in plain.items()}
    for kind, text in told.items():
        own = (
            text.partition("access_key = ")[2]
            or text.partition("AccountKey=")[2].rstrip(";=")
            or (word.lower() if kind == "token-of" else word)
        )
        found[kind] = (text, text.partition("Basic ")[2] or own)
    return found


@PASSES
def test_structured_secrets_are_removed(cut: Callable[[str], str]) -> None:
    rng = random.Random(20261122)
    left: list[str] = []
    total = 0
    for _ in range(12):
        for kind, (text, secret) in secrets(rng).items():
            total += 1
            if secret in cut(text):
                left.append(f"{kind}: {text} -> {cut(text)}")
    assert total > 600
    assert len(left) <= 0.02 * total, left[:20]


def benign(rng: random.Random) -> list[str]:
    sha = some(rng, 40, HEX)
    picture = base64.b64encode(rng.randbytes(90)).decode()
    path = "/".join(rng.choices(WORDS, k=4))
    return [
        sha,
        f"commit {sha}",
        f"sha256:{some(rng, 64, HEX)}",
        f"{some(rng, 32, HEX)}  {path}.tar.gz",
        str(uuid.UUID(int=rng.getrandbits(128))),
        f"request id {uuid.UUID(int=rng.getrandbits(128))} took {rng.randint(1, 999)} ms",
        f"/home/ana/{path}/token.py:{rng.randint(1, 999)}",
        f"data:image/png;base64,{picture}",
        f"integrity sha512-{picture[:88]}==",
        " ".join(rng.choices(WORDS, k=12)),
        "the password policy " + " ".join(rng.choices(WORDS, k=8)),
        "Passwords: never in the repository, says " + rng.choice(WORDS),
        "la règle du mot de passe " + " ".join(rng.choices(WORDS, k=8)),
        "the token is " + rng.choice(WORDS),
        f"total_tokens: {rng.randint(1, 99999)}, max_tokens={rng.randint(1, 9999)}",
        f"token = tokens[{rng.randint(0, 9)}]",
        "secret = os.environ['APP_SECRET']",
        "password = getpass.getpass()",
        "def login(user: str, password: str) -> None:",
        f"api_key = settings.{rng.choice(WORDS)}_key",
        "it reads DATABASE_URL, DB_PASSWORD, AWS_ACCESS_KEY_ID and SMTP_HOST",
        "PASSWORD_FILE=/run/secrets/db",
        f"export PATH=/opt/{path}:$PATH",
        f"key: {rng.choice(WORDS)}, value: {rng.randint(1, 9999)}",
        f"git@forge.example:{path}.git",
        f"https://forge.example/{path}?page={rng.randint(1, 99)}",
        f"version {rng.randint(0, 9)}.{rng.randint(0, 99)}.{rng.randint(0, 99)}",
        "<div class='sk-folding-cube-spinner-container-wide'>",
        f"DB_PASSWORD=${{DB_PASSWORD}} TOKEN=$TOKEN_{rng.randint(1, 9)}",
        "password: [redacted:password] and token=[redacted:secret]",
        "the password for prod is stored in vault",
        "le mot de passe du serveur est dans le coffre",
        f"pass: {rng.randint(1, 99)} tests, fail: 0",
        f"tests pass: {rng.randint(1, 9999)}",
        f"boarding pass: gate {rng.randint(1, 99)}",
        f"PASS: tests/test_{rng.choice(WORDS)}.py::test_{rng.choice(WORDS)}{rng.randint(1, 9)}",
        f"first pass: {rng.randint(1, 999)}ms",
        "password hashing algorithm: sha256",
        f"token expires at: 2024-01-01T{rng.randint(10, 23)}:00:00Z",
        f"password error in file.py:{rng.randint(1, 999)}: in call2()",
        f"the token budget is {rng.randint(1, 999)}k",
        "the secret for CI is rotated monthly",
    ]


@PASSES
def test_benign_lines_stay_as_they_are(cut: Callable[[str], str]) -> None:
    rng = random.Random(4)
    lines = [line for _ in range(40) for line in benign(rng)]
    changed = [f"{line} -> {cut(line)}" for line in lines if cut(line) != line]
    assert len(changed) <= 0.005 * len(lines), changed[:20]


@PASSES
def test_the_secrets_of_the_recordings_go(cut: Callable[[str], str]) -> None:
    for path in FIXTURES.glob("*/payloads.jsonl"):
        text = path.read_text("utf-8")
        assert "correct-horse-42" in text
        assert "correct-horse-42" not in cut(text)
        assert "AKIAIOSFODNN7EXAMPLE" not in cut(text)


@PASSES
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DB_PASSWORD=correct-horse-42\nX=1", "DB_PASSWORD=[redacted:password]\nX=1"),
        ("a <private>b</private> c", "a [redacted:private] c"),
        ("a <PRIVATE >b <private>c</private> d</private> e", "a [redacted:private] e"),
        ("a <private>b c", "a [redacted:private]"),
        ("a </private> b", "a </private> b"),
        ("x -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- y", "x [redacted:private-key] y"),
        (f"x -----BEGIN PRIVATE KEY-----\n{'A' * 64}\nQUJD\n", "x [redacted:private-key]\n"),
        ("never commit -----BEGIN PRIVATE KEY----- lines", "never commit [redacted:private-key] lines"),
        ('{"password": "a \\" b", "x": 1}', '{"password": "[redacted:password]", "x": 1}'),
    ],
)
def test_a_cut_leaves_the_rest_as_it_was(cut: Callable[[str], str], text: str, expected: str) -> None:
    assert cut(text).rstrip("\n") == expected.rstrip("\n")


@PASSES
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export DB_PASS=abc123xyz", "abc123xyz"),
        ("login ana / pass: zebra42!", "zebra42!"),
        ("mdp admin: Soleil2024!", "Soleil2024!"),
        ("le mot de passe du serveur est Soleil2024!", "Soleil2024!"),
        ("password for prod: Tr0ub4dor&3", "Tr0ub4dor&3"),
        ("the token for staging is 9f8e7d6c5b4a3f2e", "9f8e7d6c5b4a3f2e"),
        ("mot de passe prod : Tr0ub4dor&3", "Tr0ub4dor&3"),
    ],
)
def test_nothing_stays_of_a_secret_that_people_type(cut: Callable[[str], str], text: str, secret: str) -> None:
    assert cut(text) == text.replace(secret, cut(text)[len(text) - len(secret) :])
    assert cut(text).endswith(("[redacted:password]", "[redacted:secret]"))


def test_the_daemon_finds_random_words_beside_a_keyword_and_no_hashes() -> None:
    assert "Zx81kQ" not in redact_completely("the deploy key (rotated) is: Zx81kQpL93mNv72RtYw0")
    assert redact_completely(f"the key of the cache: {'ab12' * 10}") == f"the key of the cache: {'ab12' * 10}"


@pytest.mark.parametrize("cut", [redact, redact_completely])
def test_values_are_redacted_at_every_depth_and_keys_stay(cut: Callable[[str], str]) -> None:
    value = {"password": "hunter", "n": [{"apiKey": "ab12cd34"}, 3, None, True], "text": "token=ab12cd34ef", "x": "y"}
    assert map_texts(value, cut) == {
        "password": "[redacted:password]",
        "n": [{"apiKey": "[redacted:secret]"}, 3, None, True],
        "text": "token=[redacted:secret]",
        "x": "y",
    }


PIECES = st.lists(
    st.sampled_from(
        ["password", "pass", "for prod: ",
         "=", ": ", " is ", "'", '"', "\\", "ghp_" + "a1" * 18, "://", "u:p4ss@", "<private>", "token",
         "</private>", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "[redacted:", "]", "\n", " ", "9",
         "sk-", "abc1", "Bearer ", "Authorization: ", "curl -u a:", "--token ", "é", "(", "cookie: ", "İ", "\ud800"]
    )
    | st.text(max_size=5),
    max_size=14,
).map("".join)  # fmt: skip


@settings(max_examples=examples(300))
@given(PIECES)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    for cut in (redact, redact_completely):
        assert cut(cut(text)) == cut(text)


@pytest.mark.law
@PASSES
@pytest.mark.parametrize(
    "piece",
    ["password", "password for a: ", "pass:",
     "password=", 'password="', "token : ", "<private>", "-----BEGIN PRIVATE KEY-----", "curl ", "a:/",
     "https://a:", "eyJaaaaaaaaaa.", "sk-", "secret_key_", "mot de passe est ", "bearer ", "login a ", "< ", "a"]
)  # fmt: skip
def test_the_longest_text_of_anything_ends(cut: Callable[[str], str], piece: str) -> None:
    began = time.process_time()
    cut(piece * (long(200_000) // len(piece)))
    assert time.process_time() - began < 20  # about 1 s where time grows with the length, hours where with its square


OTHER_HAND = Path(__file__).parents[2] / "fixtures" / "redaction"


@pytest.mark.parametrize("language", ["en", "fr", "es"])
def test_what_people_say_in_their_own_words_gives_no_secret_away(language: str) -> None:
    said = [one for one in json.loads((OTHER_HAND / "spoken.json").read_text("utf-8")) if one["language"] == language]
    kept = [secret for one in said for secret in one["secrets"] if secret in redact(one["text"])]
    assert len(kept) <= 0.1 * sum(len(one["secrets"]) for one in said)


def test_a_letter_that_is_longer_in_lower_case_hides_no_code() -> None:
    assert "482917" not in redact(f"{'İ' * 120} the otp is 482917 please")


def test_what_people_say_about_secrets_stays_as_it_is() -> None:
    harmless = json.loads((OTHER_HAND / "benign.json").read_text("utf-8"))
    assert sum(redact(text) != text for text in harmless) <= 0.01 * len(harmless)
