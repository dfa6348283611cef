"""The language of the user's last turns."""

from __future__ import annotations

from filrouge.extraction.vocabulary import detect_language


def test_small_words_tell_the_language() -> None:
    assert detect_language(["Which port is the server on?"]) == "en"
    assert detect_language(["Sur quel port tourne la prod maintenant ?"]) == "fr"
    assert detect_language(["¿En qué puerto está el servidor y por qué?"]) == "es"


def test_a_tie_keeps_the_former_language() -> None:
    assert detect_language([], "fr") == "fr"
    assert detect_language(["npm install"], "es") == "es"


def test_only_the_last_five_turns_vote() -> None:
    assert detect_language(["the port is the one that we use in the API"] * 3 + ["la prod est sur le port"] * 5) == "fr"


def test_code_does_not_vote() -> None:
    assert (
        detect_language(["Corrige le test dans ce fichier :\n```\nif this is not the one and that is for it\n```"])
        == "fr"
    )
