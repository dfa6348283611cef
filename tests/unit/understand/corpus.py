# ruff: noqa: E501
"""What developers tell coding agents, and what should be learned from it.

Written and split in two before any pattern was written: `TUNE` is what the patterns were improved on, `HELD_OUT`
only measures. A case holds one prompt and one row per statement that should come out of it: a prompt with no row
must yield nothing. `kinds` is a set of words because some sentences are honestly two things (a constraint that is
a rule); `must` are patterns that the statement's text has to match.
"""

from __future__ import annotations

from dataclasses import dataclass

RULE = "rule constraint preference"
FACT = "fact constraint"
DECISION = "decision fact"
PREF = "preference rule"


@dataclass(frozen=True, slots=True)
class Wanted:
    kinds: str
    must: tuple[str, ...]
    scope: str = "project"


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    wanted: tuple[Wanted, ...] = ()


def yes(kinds: str, text: str, *must: str, scope: str = "project") -> Case:
    return Case(text, (Wanted(kinds, must, scope),))


def two(text: str, *wanted: Wanted) -> Case:
    return Case(text, wanted)


def no(text: str) -> Case:
    return Case(text)


TUNE: tuple[Case, ...] = (
    # rules
    yes(RULE, "From now on, always run `make lint` before you commit.", "make lint", "commit"),
    yes(RULE, "Never push directly to main, open a pull request instead.", "push", "main"),
    yes(RULE, "Don't use any ORM in this project, we write SQL by hand.", "ORM", "SQL"),
    yes(RULE, "Rule: every migration must be reversible.", "migration", "reversible"),
    yes(RULE, "Ne modifie jamais les fichiers dans vendor/, ils sont générés.", "vendor/", "générés"),
    yes(RULE, "À partir de maintenant, tu écris les messages de commit en anglais.", "commit", "anglais"),
    yes(RULE, "N'oublie pas de mettre à jour le CHANGELOG à chaque fonctionnalité.", "CHANGELOG"),
    yes(
        RULE,
        "Use tabs, not spaces, in the Makefile and the Go files. gofmt rejects anything else.",
        "tabs",
        "Go",
        "gofmt",
    ),
    yes(RULE, "Il ne faut jamais logguer les numéros de carte.", "jamais", "carte"),
    yes(RULE, "All dates are stored in UTC, never in local time.", "UTC"),
    yes(RULE, "Please remember to regenerate the client after every change in openapi.yaml.", "openapi.yaml"),
    yes(RULE, "Siempre ejecuta las pruebas antes de subir los cambios.", "pruebas"),
    yes(RULE, "Commit messages should follow Conventional Commits.", "Conventional"),
    yes(
        RULE,
        "When you touch the parser, run the fuzz target for at least one minute. It caught two bugs last month.",
        "parser",
        "fuzz",
    ),
    yes(RULE, "No new dependencies without asking me first.", "dependenc"),
    # decisions
    yes(
        DECISION,
        "We've decided to go with Kafka rather than RabbitMQ for the event bus, since we need replay.",
        "Kafka",
        "RabbitMQ",
        "replay",
    ),
    yes(DECISION, "After the meeting we settled on a monorepo with Turborepo.", "monorepo", "Turborepo"),
    yes(DECISION, "On part sur Redis pour les sessions, parce que Memcached ne persiste rien.", "Redis", "sessions"),
    yes(DECISION, "Décision : l'authentification passera par Keycloak, pas par un module maison.", "Keycloak"),
    yes(DECISION, "I picked Vitest over Jest because startup is faster. Now migrate the config.", "Vitest", "Jest"),
    yes(DECISION, "On a tranché : le frontend sera en Svelte.", "Svelte"),
    yes(
        DECISION,
        "Let's go with cursor pagination for the public API, offset is too slow on big tables.",
        "cursor",
        "API",
    ),
    # facts
    yes(FACT, "The admin panel listens on port 4100 and the worker on port 4200.", "4100", "4200"),
    yes(FACT, "FYI the staging database lives at db-stg.internal.acme.io.", "db-stg.internal.acme.io"),
    yes(FACT, "La base de recette est sur le serveur pg-rec-02, en PostgreSQL 15.", "pg-rec-02", "15"),
    yes(FACT, "Our CI runs on self-hosted GitHub runners in Frankfurt.", "CI", "Frankfurt"),
    yes(FACT, "The project requires Python 3.12 and Node 22.", "3\\.12", "22"),
    yes(FACT, "Les gabarits d'e-mail sont dans `templates/mail`.", "templates/mail"),
    yes(FACT, "Code freeze starts on December 18th.", "freeze", "December 18"),
    yes(FACT, "Karim maintains the billing service.", "Karim", "billing"),
    yes(FACT, "Pour info, le certificat TLS expire le 3 mars 2027.", "3 mars 2027"),
    yes(FACT, "To build the docs we run `mkdocs build --strict`.", "mkdocs build"),
    yes(FACT, "Backups are uploaded to the acme-backups bucket every night at 02:30.", "acme-backups", "02:30"),
    yes(FACT, "On utilise Sentry pour les erreurs et Grafana pour les métriques.", "Sentry", "Grafana"),
    yes(FACT, "The rate limit of the partner API is 100 requests per minute.", "100 requests"),
    yes(FACT, "El servidor de pruebas está en el puerto 7070.", "7070"),
    yes(FACT, "backups go to s3://acme-dumps, retention is 14 days", "acme-dumps", "14 days"),
    yes(FACT, "Notre client principal s'appelle Delmas et ses factures partent le 5 de chaque mois.", "Delmas"),
    # bugs
    yes(
        "fact",
        "Found it: the memory leak was caused by listeners that were never removed in useSocket; we fixed it by returning a cleanup function.",
        "leak",
        "cleanup",
    ),
    yes("fact", "Le bug venait d'un fuseau horaire manquant dans le cron, corrigé en forçant UTC.", "fuseau", "UTC"),
    yes(
        "fact",
        "Turns out the 502s came from nginx's proxy_read_timeout. Raising it to 120s solved the problem.",
        "502",
        "120s",
    ),
    yes("fact", "Root cause of the flaky login test: two workers shared the same SQLite file.", "flaky", "SQLite"),
    yes(
        "fact",
        "C'était bien ça : la lenteur était due à un index manquant sur orders.customer_id.",
        "index",
        "orders.customer_id",
    ),
    # people and preferences
    yes("fact preference", "Hi, my name is Tom Okafor.", "Tom Okafor", scope="user"),
    two(
        "Je suis Léa Martin, je préfère le tutoiement et les réponses directes.",
        Wanted("fact preference", ("Léa Martin",), "user"),
        Wanted("preference", ("tutoiement",), "user"),
    ),
    yes(PREF, "I prefer concise answers with no emojis.", "concise", scope="user"),
    yes(PREF, "Réponds-moi toujours en français s'il te plaît.", "français", scope="user"),
    yes(PREF, "Please keep your explanations short, I read them on my phone.", "short", scope="user"),
    yes(PREF, "I hate when functions are longer than a screen.", "functions", scope="user"),
    # constraints
    yes(FACT + " rule", "The API has to stay compatible with iOS 15.", "iOS 15"),
    yes(FACT + " rule", "We can't use any GPL library, legal forbids it.", "GPL"),
    yes(FACT + " rule", "Le bundle ne doit pas dépasser 250 Ko.", "250 Ko"),
    # corrections
    yes(DECISION, "Actually, scratch that: the worker now runs on port 4300, not 4200.", "4300"),
    yes(DECISION, "We switched from Jenkins to GitLab CI last week.", "Jenkins", "GitLab"),
    yes(DECISION, "En fait la base de recette n'est plus sur pg-rec-02, elle est sur pg-rec-05.", "pg-rec-05"),
    yes(DECISION, "The users table was renamed to accounts.", "users", "accounts"),
    yes(DECISION, "On abandonne Keycloak, on revient à notre propre module.", "Keycloak"),
    yes("fact decision rule", "Forget the rule about tabs in the Makefile.", "tabs"),
    # mixed
    yes(FACT, "Can you add a health check? The gateway is on port 8088 by the way.", "8088"),
    yes(
        DECISION,
        "ok thanks! One more thing: we chose Tailwind for the new design. Could you convert Button.tsx?",
        "Tailwind",
    ),
    two(
        "Rules for this repo:\n- never edit generated/\n- always add a test with a bug fix\n\nNow fix issue 231.",
        Wanted(RULE, ("generated",)),
        Wanted(RULE, ("test",)),
    ),
    # nothing: questions
    no("Which port does the gateway use?"),
    no("Why did we choose Kafka over RabbitMQ again?"),
    no("Est-ce qu'on utilise toujours Redis pour les sessions ?"),
    no("how do I run the tests locally"),
    no("Prod is on Hetzner now, right?"),
    no("Tu sais où sont les gabarits d'e-mail ?"),
    no("Should we always use UTC for dates?"),
    # nothing: requests
    no("Add a retry with exponential backoff to the payment client."),
    no("Refactor src/server/routes.ts so that each route has its own file."),
    no("Corrige le test qui échoue dans tests/test_api.py et relance la suite."),
    no("Change the port in docker-compose.yml to 8090 and restart the container."),
    no("please write a migration that adds a `deleted_at` column to users"),
    no("Let's look at the failing pipeline first."),
    no("Use the debugger to find where it hangs."),
    no("I want you to implement the login page."),
    no("Mets la version 2.3.1 dans package.json et fais un tag."),
    no("run the tests again and show me the output"),
    # nothing: small talk
    no("Thanks, that's perfect!"),
    no("haha good one"),
    no("Bonjour ! J'espère que tu vas bien."),
    no("brb, coffee"),
    no("ok super, à demain"),
    no("I'm tired today, the train was late."),
    # nothing: status reports
    no("The build is broken again."),
    no("Tests are green now."),
    no("I just pushed the branch, CI is running."),
    no("Le serveur ne répond plus, je ne comprends pas."),
    no("It still fails with the same error on line 42."),
    # nothing: logs, code, tool output
    no(
        '```\nTraceback (most recent call last):\n  File "app.py", line 3, in <module>\nImportError: always use absolute imports\n```'
    ),
    no(
        "Here is the log:\n2026-03-01 10:22:11 ERROR server is listening on port 3000 but never answers\n2026-03-01 10:22:12 INFO retrying"
    ),
    no('{"filePath": "src/app.py", "newTodos": ["always test"], "oldTodos": []}'),
    no("> Never use eval in production code.\n\nwhat does this comment in the review mean?"),
    no("$ docker ps\nCONTAINER ID   IMAGE   PORTS\n3f2a   nginx   0.0.0.0:80->80/tcp"),
    # nothing: hypotheticals, undecided, past, reported
    no("If we moved to Kubernetes we would need a registry."),
    no("Maybe we should use Postgres for this."),
    no("We have not decided between Stripe and Adyen yet."),
    no("Last year we used Heroku for everything."),
    no("Avant, on utilisait MySQL chez mon ancien employeur."),
    no("I wonder whether SQLite would be enough."),
    no("On hésite encore entre Vue et React."),
    no('The README of that library says "always pin your versions".'),
    no("Let's rewrite everything in COBOL, just kidding."),
    no("Imagine the server runs on port 1, funny."),
    # nothing: host text
    no(
        "<task-notification>\n<task-id>a1</task-id>\n<summary>Agent finished: always use port 9000</summary>\n</task-notification>"
    ),
    no("<command-name>/model</command-name>\n<command-message>model</command-message>"),
    no(
        "This session is being continued from a previous conversation that ran out of context. The user decided on Postgres."
    ),
    no("/compact"),
    # a second round, first met unseen and then tuned on
    yes(RULE, "Convention: branch names start with feat/ or fix/.", "feat/"),
    yes(RULE, "Whenever you add an endpoint, update docs/api.md too.", "docs/api"),
    yes(RULE, "On ne commit jamais de secrets dans ce dépôt.", "secrets"),
    yes(RULE, "Please never use `rm -rf` in the scripts.", "rm -rf"),
    yes(RULE, "Ici on écrit les commentaires en anglais, toujours.", "anglais"),
    yes(RULE, "In this project, we write tests first.", "tests first"),
    yes(RULE, "Ask me before you delete any file.", "delete"),
    yes(RULE, "Demande-moi toujours avant de supprimer un fichier.", "supprimer"),
    yes(RULE, "Before any commit, run `ruff check`.", "ruff check"),
    yes(RULE, "Keep functions under 40 lines in this codebase.", "40 lines"),
    yes(RULE, "Pour ce projet : pas de classes, uniquement des fonctions.", "classes"),
    yes(RULE, "Use snake_case for column names, always.", "snake_case"),
    yes(RULE, "Stop adding comments to obvious code.", "comments"),
    yes(FACT, "The Redis instance is at redis.internal:6380.", "6380"),
    yes(FACT, "Prod is deployed from the release branch by GitHub Actions.", "GitHub Actions"),
    yes(FACT, "Le serveur de préprod s'appelle athena.", "athena"),
    yes(FACT, "La doc est générée avec Sphinx et publiée sur docs.acme.fr.", "Sphinx"),
    yes(FACT, "We are on Node 20 in CI and Node 22 locally.", "Node 20"),
    yes(FACT, "Our product manager is Claire Dubois.", "Claire"),
    yes(FACT, "The demo for Acme is on June 12.", "June 12"),
    yes(FACT, "The config file is config/settings.toml, secrets come from Vault.", "Vault"),
    yes(FACT, "Le dépôt principal est sur GitLab, le miroir sur GitHub.", "GitLab"),
    yes(FACT, "Just so you know, the nightly job starts at 3am UTC.", "3am"),
    yes(FACT, "the api key for tests is stored in 1Password under acme-ci", "1Password"),
    yes(FACT, "Les images Docker sont poussées sur registry.acme.fr.", "registry"),
    yes(FACT + " rule", "Our tests need a running Postgres on port 5433.", "5433"),
    yes(FACT, "Remember that the staging server reboots every Sunday at 4am.", "Sunday"),
    yes(DECISION, "We decided to keep the old API until September.", "September"),
    yes(DECISION, "Finally we'll use Stripe instead of Adyen because of the fees.", "Stripe", "fees"),
    yes(DECISION, "J'ai décidé de passer les tests sous Playwright.", "Playwright"),
    yes(DECISION, "Le choix est fait : Postgres pour tout.", "Postgres"),
    yes(DECISION, "For auth we go with Keycloak.", "Keycloak"),
    yes(DECISION, "On utilisera Mistral pour le résumé, pas OpenAI.", "Mistral"),
    yes(DECISION, "After comparing both, I'm choosing Pydantic over attrs.", "Pydantic"),
    yes("fact", "The timeout came from the pool size, it was 5. Setting it to 20 fixed it.", "pool"),
    yes(
        "fact", "Bug trouvé : le compteur n'était pas remis à zéro entre deux requêtes, d'où les doublons.", "compteur"
    ),
    yes("fact", "The reason the build failed was a stale lockfile; regenerating it solved it.", "lockfile"),
    yes("fact", "That 500 was because the JWT secret had a trailing newline. Stripping it fixes it.", "JWT"),
    yes(DECISION, "Change of plans: we're back on npm, pnpm gave us trouble with Expo.", "npm"),
    yes(DECISION, "The deploy command changed, it's `make release` now.", "make release"),
    yes(DECISION, "Erreur de ma part : la démo est le 17 juin, pas le 12.", "17 juin"),
    yes(DECISION, "The API moved to api.acme.dev.", "api.acme.dev"),
    yes(DECISION, "Le port de l'API a changé, c'est 8001 maintenant.", "8001"),
    yes(DECISION, "We don't use Docker anymore, everything runs under systemd.", "Docker"),
    yes(DECISION, "Update: Claire is no longer the PM, it's Hugo Bernard now.", "Hugo"),
    yes(PREF, "I like early returns and hate nested ifs.", "early returns", scope="user"),
    yes(PREF, "Don't use emojis in your answers.", "emojis", scope="user"),
    yes(PREF, "Tutoie-moi.", "Tutoie", scope="user"),
    yes(PREF, "Je préfère que tu me montres le diff avant d'appliquer.", "diff", scope="user"),
    yes("fact preference", "Call me Sam.", "Sam", scope="user"),
    yes("fact preference", "I work at Doctolib as a data engineer.", "Doctolib", scope="user"),
    yes(FACT + " rule", "Max payload size is 2 MB.", "2 MB"),
    yes(FACT + " rule", "Everything must run offline.", "offline"),
    yes(FACT + " rule", "Le client exige que les données restent en France.", "France"),
    no("Fix the flaky test in test_orders.py, it fails on CI."),
    no("Run pytest with -x and tell me what fails."),
    no("The tests fail with: AssertionError in test_cart.py"),
    no("Could the port be 8080?"),
    no("I think the bug is in parser.py but I'm not sure."),
    no("Je pense que c'est un problème de cache."),
    no("Use port 8080 for this test run."),
    no("Don't run it yet."),
    no("Yes, go with option 2."),
    no("ok go ahead and apply it"),
    no("Create a branch called feat/login and push it."),
    no("Il manque une virgule ligne 12."),
    no("Montre-moi le contenu de config/settings.toml."),
    no("There are 3 failing tests in the suite."),
    no("The page takes 8 seconds to load on my phone."),
    no("My teammate said the API uses GraphQL."),
    no("looks good, merge it"),
    no("Let's add a dark mode."),
    no("Compare Vite and Webpack for our use case."),
    no("Ce matin j'ai déployé la version 1.4 et tout va bien."),
    no("the linter complains about line 30 of app.ts"),
    no("I'm running Node 20 on this laptop right now."),
    no("Nope, still the same, it returns 404 on /users"),
    no("Generate 10 fake users named Alice to Judy."),
    no("We need to migrate the orders table next."),
    no("Est-ce que 8 Go de RAM suffisent pour Elasticsearch ?"),
    no("Bon, on continue demain."),
    no("what would happen if we used Bun instead of Node"),
    no("Peux-tu toujours afficher le résultat ?"),
    no("I always forget the syntax of find, give me an example."),
)

HELD_OUT: tuple[Case, ...] = (
    # rules
    yes(RULE, "House rule: one component per file, and no default exports.", "component", "default exports"),
    yes(RULE, "You must never run the seed script against production.", "seed", "production"),
    yes(RULE, "Always use British spelling in the user-facing copy.", "British"),
    yes(RULE, "Toujours lancer `npm run check` avant de proposer un commit.", "npm run check"),
    yes(RULE, "Dans ce dépôt, utilise pnpm et jamais npm : le lockfile casse sinon.", "pnpm", "npm", "lockfile"),
    yes(RULE, "Don't ever touch the legacy/ folder. Another team owns it.", "legacy/"),
    yes(RULE, "Souviens-toi que les prix sont toujours hors taxes.", "hors taxes"),
    yes(RULE, "Also: tests go next to the code they test, not in a separate tree.", "tests", "next to"),
    yes(RULE, "Recuerda que nunca se borran usuarios, solo se desactivan.", "usuarios"),
    yes(RULE, "Public functions need a docstring. Private ones don't.", "docstring"),
    # decisions
    yes(DECISION, "We're going with Terraform, not Pulumi, for the infra.", "Terraform", "Pulumi"),
    yes(DECISION, "The team agreed to drop IE11 support.", "IE11"),
    yes(
        DECISION,
        "Pour la file de messages, nous avons retenu NATS plutôt que Kafka, plus simple à opérer.",
        "NATS",
        "Kafka",
    ),
    yes(DECISION, "Decision made: UUIDv7 primary keys everywhere because they sort by time.", "UUIDv7"),
    yes(DECISION, "C'est décidé, on garde SQLite pour la version desktop.", "SQLite", "desktop"),
    yes(DECISION, "We opted for feature flags in LaunchDarkly instead of environment variables.", "LaunchDarkly"),
    # facts
    yes(FACT, "Quick note: the metrics endpoint is http://localhost:9100/metrics.", "9100"),
    yes(FACT, "Le front tourne sur le port 5173 en local.", "5173"),
    yes(FACT, "Production runs in eu-west-3 on AWS, managed by Terraform Cloud.", "eu-west-3"),
    yes(FACT, "We're stuck on Django 4.2 until the plugin is ported.", "Django 4\\.2"),
    yes(FACT, "The design tokens are in packages/ui/tokens.json.", "tokens\\.json"),
    yes(FACT, "Releases go out every second Tuesday.", "Tuesday"),
    yes(FACT, "Sophie s'occupe de la compta et valide les factures.", "Sophie"),
    yes(FACT, "La mise en production est prévue le 14 avril.", "14 avril"),
    yes(FACT, "Deployments are done with `fab deploy:prod` from the bastion.", "fab deploy:prod"),
    yes(FACT, "The upload limit is 25 MB per file.", "25 MB"),
    yes(FACT, "Les logs sont conservés 90 jours dans Loki.", "90 jours", "Loki"),
    yes(FACT, "our staging url is https://staging.example.dev", "staging\\.example\\.dev"),
    # bugs
    yes(
        "fact",
        "The deadlock happened because two transactions locked rows in a different order. We now sort the ids first.",
        "deadlock",
        "order",
    ),
    yes(
        "fact",
        "Le problème venait du cache de Varnish, on l'a réglé en ajoutant un Vary sur Accept-Language.",
        "Varnish",
        "Vary",
    ),
    yes(
        "fact", "For the record, the crash on startup was due to a missing libvips; installing it fixed it.", "libvips"
    ),
    yes("fact", "La cause de la panne : le disque de pg-02 était plein à cause des WAL non archivés.", "disque", "WAL"),
    # people and preferences
    yes("fact preference", "By the way I'm Jonas Weber, backend developer.", "Jonas Weber", scope="user"),
    yes("fact preference", "Appelle-moi Nico.", "Nico", scope="user"),
    yes(PREF, "I'd rather have small commits than one big one.", "small commits", scope="user"),
    yes(PREF, "J'aime les explications courtes, sans jargon.", "courtes", scope="user"),
    yes(PREF, "Answer in English even if I write in French.", "English", scope="user"),
    yes("fact preference", "My timezone is Europe/Zurich.", "Europe/Zurich", scope="user"),
    # constraints
    yes(FACT + " rule", "The service must answer in less than 200 ms at the 95th percentile.", "200 ms"),
    yes(FACT + " rule", "On doit rester compatible avec PHP 8.1 pour l'hébergeur.", "PHP 8\\.1"),
    yes(FACT + " rule", "We are not allowed to store personal data outside the EU.", "EU"),
    # corrections
    yes(DECISION, "Small correction: the freeze starts on the 20th, not the 18th.", "20th"),
    yes(DECISION, "We no longer use Heroku, everything moved to Render.", "Heroku", "Render"),
    yes(DECISION, "Changement de plan : on passe de Svelte à React pour le frontend.", "Svelte", "React"),
    yes(DECISION, "Non, en fait le front tourne maintenant sur le port 5200.", "5200"),
    yes(DECISION, "Karim left, Inès now maintains the billing service.", "Inès", "billing"),
    yes("fact decision rule", "Tu peux oublier la règle sur les messages de commit en anglais.", "commit"),
    # mixed
    yes(DECISION, "Thanks. We ended up choosing MinIO for object storage. What is left to do?", "MinIO"),
    yes(FACT, "Update the compose file, the broker now listens on 5673.", "5673"),
    yes(RULE, "Peux-tu corriger le lint ? Et n'utilise jamais `any` en TypeScript.", "any"),
    # nothing: questions
    no("What's the staging url?"),
    no("Do you remember which database we picked?"),
    no("Pourquoi on a choisi NATS ?"),
    no("can we deploy on Fridays?"),
    no("On garde SQLite ou on passe à Postgres ?"),
    no("is the rate limit still 100 per minute?"),
    # nothing: requests
    no("Write a script that uploads the dumps to S3."),
    no("Ajoute une page de contact avec un formulaire."),
    no("Could you bump the Docker image to node:22-alpine?"),
    no("Rename getUser to fetchUser everywhere."),
    no("Explique-moi comment marche le cache."),
    no("Let's try running it with the verbose flag."),
    no("Make the header sticky and use the blue from the palette."),
    no("Open a PR with those changes, thanks."),
    no("I need a function that parses ISO dates."),
    no("Passe le timeout à 30 secondes dans le client HTTP."),
    # nothing: small talk
    no("nice work!"),
    no("Merci beaucoup, bonne soirée !"),
    no("I'm going for a run, see you later"),
    no("C'est vendredi, enfin le week-end !"),
    no("gracias, hasta luego"),
    no("👍"),
    # nothing: status
    no("The page is still blank on my machine."),
    no("I ran the migration and it worked."),
    no("J'ai redémarré Docker mais rien ne change."),
    no("npm install takes forever today"),
    # nothing: logs, code
    no(
        "error: listen EADDRINUSE: address already in use :::3000\n    at Server.setupListenHandle (node:net:1463:16)\n    at node:net:1931:12"
    ),
    no('def deploy():\n    # always deploy from main\n    run("make deploy")\n'),
    no('<div class="note">Never share your password</div>'),
    no("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-port = 8080\n+port = 9090"),
    # nothing: hypotheticals, undecided, past, reported, quoted
    no("What if production ran on port 80?"),
    no("We could use Bun at some point."),
    no("Nothing is decided about the cloud provider."),
    no("Rien n'est encore tranché pour l'hébergement."),
    no("In my previous job we always used Perl."),
    no("Il y a deux ans, on déployait avec Capistrano."),
    no("Paul thinks we should move to Go."),
    no("The error message says 'you must use port 443'."),
    no("Suppose the customer has two addresses."),
    no("lol we should name the server Titanic"),
    no("Si on passait à Rust, ce serait plus rapide."),
    # nothing: host text
    no("<system-reminder>\nAlways use the TodoWrite tool.\n</system-reminder>"),
    no("<environment_context>\n<cwd>/srv/app</cwd>\n<shell>bash</shell>\n</environment_context>"),
    no("<local-command-stdout>Set model to opus</local-command-stdout>"),
)
