"""Rules meet the prompts that ask for their kind of work, and hardly any others.

Both tables were written before any of their prompts was tried. Of the first 34 of 42 met and 2 of 42 met wrongly before
it was looked at; of the second, written once the first was well, 23 of 33 and 1 of 33.
"""

from __future__ import annotations

import pytest

from filrouge.extraction.intents import SPECIFIC_KINDS, kinds_of_prompt, kinds_of_rule

#: A rule, prompts that need it, and prompts that do not.
MEETINGS: list[tuple[str, list[str], list[str]]] = [
    (
        "Packages come from our mirror: use pnpm, never npm.",
        ["install zod and add it to the form", "ajoute la dépendance date-fns au projet", "upgrade the react library"],
        ["fix the date in the header", "lance les tests", "what does zod do?"],
    ),
    (
        "N'utilise jamais pip ici, tout passe par poetry.",
        ["installe pandas pour le script d'analyse", "can you add the requests package?", "instala la librería rich"],
        ["corrige la faute de frappe du titre", "deploy the site", "pourquoi pandas est-il si lent ?"],
    ),
    (
        "New third-party packages need my approval first.",
        ["please install lodash", "add a library for parsing dates", "ajoute un paquet pour lire du CSV"],
        ["write a parser for dates by hand", "commit this", "rename the library page"],
    ),
    (
        "Run the suite with make check, not with pytest directly.",
        ["run the tests again", "relance les tests du panier", "ejecuta las pruebas de login"],
        ["install httpx", "write the release notes", "is the cart module tested?"],
    ),
    (
        "Avant de lancer les tests, démarre la base avec docker compose up db.",
        ["lance tous les tests", "can you run the unit tests?", "add a test for the empty cart"],
        ["ajoute une colonne au tableau de la page d'accueil", "what is docker?", "fais un commit"],
    ),
    (
        "Tests live next to the code they test, in *_test.go.",
        ["write tests for the parser", "écris un test pour la remise", "add unit tests to the mailer"],
        ["explain the parser", "push it to origin", "traduis la page d'aide"],
    ),
    (
        "Commit messages are in the imperative and below fifty characters.",
        ["commit what we have", "fais un commit de ces changements", "squash the last two commits"],
        ["write a message for the empty state", "run the linter", "show me the diff"],
    ),
    (
        "Never push to main, always open a pull request.",
        ["push this to main", "pousse ça sur la branche", "open a pull request for the fix"],
        ["add push notifications to the app", "install husky", "rewrite the home page"],
    ),
    (
        "Before you deploy, bump the version in package.json.",
        ["deploy the API to production", "déploie la nouvelle page", "despliega el servicio en producción"],
        ["what is deployed right now?", "install the plugin", "fix the flaky test"],
    ),
    (
        "On ne met jamais en production le vendredi.",
        ["mets en production la correction du panier", "deploy to prod please", "roll back the last deployment"],
        ["ajoute le vendredi aux jours ouvrés du calendrier", "lance les tests", "which day is it?"],
    ),
    (
        "Every migration must be reversible.",
        ["write a migration for orders", "add a column to the users table", "ajoute une colonne prix à la table"],
        ["add a column to the CSS grid of the footer", "commit it", "explain what an ORM does"],
    ),
    (
        "Las columnas nuevas de la base de datos llevan un valor por defecto; cada migración se revisa.",
        ["crea una migración para pedidos", "rename the column total to amount", "supprime la colonne inutile"],
        ["cambia el color del botón", "instala express", "haz un commit"],
    ),
    (
        "The formatter is ruff format; never run black.",
        ["format the code", "run the linter on src", "reformate le code du module"],
        ["format the date as ISO in the header", "deploy it", "écris une fonction de tri"],
    ),
    (
        "User-facing changes go into CHANGELOG.md.",
        ["update the changelog", "write the README section on installs", "documente cette fonction"],
        ["change the log level to debug", "commit it", "lance la suite de tests"],
    ),
]  # fmt: skip
#: Written once the first was well.
FRESH: list[tuple[str, list[str], list[str]]] = [
    (
        "We vendor everything: no network installs, use cargo add --offline.",
        ["install serde", "pull in a package for colours", "mets à jour les dépendances"],
        ["print the totals in colour", "why is serde slow?", "cherche les appels à cette fonction"],
    ),
    (
        "Pas de nouvelle bibliothèque sans me demander.",
        ["ajoute une bibliothèque pour les graphiques", "npm install chart.js", "install a charting package"],
        ["dessine un graphique des ventes", "range la bibliothèque d'icônes", "translate the chart labels"],
    ),
    (
        "Integration tests need the VPN.",
        ["run the integration tests", "exécute les tests d'intégration", "rerun the failing tests"],
        ["set up the mail integration", "make the button bigger", "quel VPN utilise-t-on ?"],
    ),
    (
        "Toujours lancer vitest avec --run.",
        ["lance les tests du composant", "please run vitest", "corre las pruebas"],
        ["lance le serveur", "run the seed script", "teste-moi une autre couleur de fond"],
    ),
    (
        "Sign every commit with -s.",
        ["commit this", "make a commit with the new icons", "commite les changements"],
        ["sign the user in after registration", "delete the old icons", "lis le fichier journal"],
    ),
    (
        "Rebase, never merge, before opening a pull request.",
        ["open a PR for this", "ouvre une pull request", "rebase onto develop"],
        ["merge the two lists into one", "add a request counter", "simplifie la requête"],
    ),
    (
        "Releases are tagged by the CI only.",
        ["cut a new release", "publie une nouvelle version", "make the 2.1 release"],
        ["release the lock when the job ends", "tag the photos by place", "quelle version de Node ?"],
    ),
    (
        "Deploys go through make ship.",
        ["deploy the docs site", "redéploie l'API", "please deploy to staging"],
        ["make the ship icon blue", "where is it hosted?", "écris le texte de la bannière"],
    ),
    (
        "Migrations run inside a transaction.",
        ["generate the migration for the new table", "écris la migration", "add a foreign key to invoices"],
        ["start a transaction in the payment test double", "move the page to the new layout", "décris le modèle"],
    ),
    (
        "Docstrings follow the Google style.",
        ["document the client class", "add docstrings to utils", "écris la documentation du module"],
        ["google the error for me", "style the footer", "compte les lignes"],
    ),
    (
        "Lint with biome, not eslint.",
        ["lint the web folder", "fix the eslint errors", "lance le linter"],
        ["glue the two panels together", "lance la démo", "split the function"],
    ),
]  # fmt: skip
PLANS = (
    "Always propose a plan before implementing anything.",
    "Toujours demander avant de modifier du code.",
    "When you refactor, keep the public names.",
)


def needs(prompt: str, rule: str) -> bool:
    """True where the kind of work brings the rule before the prompt by itself."""
    return bool(kinds_of_prompt(prompt) & kinds_of_rule(rule) & SPECIFIC_KINDS)


@pytest.mark.parametrize("meetings", [MEETINGS, FRESH], ids=["first", "second"])
def test_rules_meet_most_prompts_that_need_them_and_hardly_any_other(
    meetings: list[tuple[str, list[str], list[str]]],
) -> None:
    met = [needs(prompt, rule) for rule, wanted, _ in meetings for prompt in wanted]
    beside = [(prompt, rule) for rule, _, others in meetings for prompt in others if needs(prompt, rule)]

    assert sum(met) >= 0.8 * len(met)
    assert len(beside) <= 0.07 * sum(len(others) for _, _, others in meetings), beside


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    "prompt", ["Implement the CSV export", "ajoute une barre de recherche", "refactor the login form"]
)
def test_work_on_the_code_is_known_as_such_and_says_little_by_itself(plan: str, prompt: str) -> None:
    assert kinds_of_prompt(prompt) & kinds_of_rule(plan) == {"code"}
    assert not needs(prompt, plan)


@pytest.mark.parametrize(
    "asked",
    [
        "how do I install uv?",
        "why do the tests fail?",
        "the deploy was slow",
        "explain what a commit is",
        "explique les tests",
    ],
)
def test_what_asks_for_no_work_is_of_no_kind(asked: str) -> None:
    assert kinds_of_prompt(asked) == frozenset()


def test_a_rule_that_says_when_it_holds_is_about_that_alone() -> None:
    assert kinds_of_rule("Before you deploy, run the tests.") == {"release"}
    assert kinds_of_rule("Run the tests with make check.") == {"tests"}
