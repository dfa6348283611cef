"""Something known, something said later, and what has to become of it.

`add` pairs are about different things, or different entities, and must never touch each other; they weigh most,
because a false update hides a true memory.
"""

from __future__ import annotations

NOOP: tuple[tuple[str, str], ...] = (
    ("In this repo use uv, never pip. CI breaks when someone pip-installs.", "In this repo use uv, never pip."),
    ("La prod est sur le port 8443, derrière Caddy.", "Production listens on port 8443."),
    ("Staging runs on Hetzner.", "The staging server is on Hetzner."),
    ("All dates are stored in UTC, never in local time.", "all dates are stored in UTC, never in local time!"),
    ("Karim maintains the billing service.", "FYI Karim maintains the billing service."),
    (
        "We decided on Kafka rather than RabbitMQ for the event bus, since we need replay.",
        "For the event bus we decided on Kafka rather than RabbitMQ.",
    ),
    ("Le front tourne sur le port 5173 en local.", "The frontend runs on port 5173."),
    ("The upload limit is 25 MB per file.", "Upload limit is 25 MB."),
    ("Always run `make lint` before you commit.", "Remember: always run `make lint` before you commit."),
    ("My name is Tom Okafor.", "Hi, my name is Tom Okafor."),
)

UPDATE: tuple[tuple[str, str], ...] = (
    ("The admin panel listens on port 4100.", "The admin panel is on port 4150 now."),
    ("The worker runs on port 4200.", "Actually, scratch that: the worker now runs on port 4300, not 4200."),
    (
        "La base de recette est sur le serveur pg-rec-02.",
        "En fait la base de recette n'est plus sur pg-rec-02, elle est sur pg-rec-05.",
    ),
    ("La prod est sur le port 8443, derrière Caddy.", "Production moved to port 9443."),
    ("Our CI runs on Jenkins.", "We switched from Jenkins to GitLab CI last week."),
    ("Code freeze starts on December 18th.", "Small correction: the freeze starts on the 20th, not the 18th."),
    ("Karim maintains the billing service.", "Karim left, Inès now maintains the billing service."),
    (
        "Décision : l'authentification passera par Keycloak, pas par un module maison.",
        "On abandonne Keycloak, on revient à notre propre module.",
    ),
    ("The project requires Python 3.11.", "The project now requires Python 3.12."),
    ("We use npm to manage packages.", "We no longer use npm, we use pnpm."),
    ("The frontend is written in Svelte.", "Changement de plan : on passe de Svelte à React pour le frontend."),
    ("To deploy staging we run `make ship-staging`.", "To deploy staging we run `make ship-hetzner`."),
    ("The upload limit is 25 MB per file.", "The upload limit is now 50 MB per file."),
    ("For the invoices we chose LaTeX over Typst.", "For the invoices we chose Typst over LaTeX."),
    ("Use uv, never pip, in this repo.", "In this repo use poetry now, not uv."),
    ("My name is Tom Okafor.", "My name is Thomas Okafor."),
    ("Staging runs on Hetzner (fsn1).", "Staging runs on Fly.io in region cdg."),
    ("The users table holds customers and staff.", "The users table was renamed to accounts."),
    ("Le certificat TLS expire le 3 mars 2027.", "Le certificat TLS expire désormais le 3 juin 2027."),
    (
        "Les gabarits d'e-mail sont dans `templates/mail`.",
        "Les gabarits d'e-mail sont maintenant dans `emails/templates`.",
    ),
    ("Reply in French.", "Reply in English."),
    # a contrast, an announced correction, another version of the same tool, a tool that no table knows
    ("We deploy to Heroku.", "We deploy to Fly now, not Heroku."),
    ("La base de prod est PostgreSQL 15.", "Correction : la base de prod est PostgreSQL 16."),
    ("On utilise PostgreSQL 15 en prod", "On est passé à PostgreSQL 16 en prod"),
    ("We use Redis for the queue.", "Actually no, we use RabbitMQ for the queue."),
    ("On utilise Redis pour la file.", "En fait on utilise RabbitMQ pour la file."),
    ("Les tests se lancent avec pytest.", "En fait, les tests se lancent avec nox."),
    ("We release on Tuesdays.", "We switched to releasing on Thursdays."),
    ("We use Sentry for errors.", "We no longer use Sentry."),
    ("The main branch is master.", "The main branch is now main."),
    ("Le port de l'API est 3000.", "Le port de l'API est 3000. En fait non, 3001."),
    ("The API port is 3000.", "The API port is 3000. Wait no, it's 3001."),
    ("Mon éditeur est Vim.", "My favourite editor is Neovim."),
)

ADD: tuple[tuple[str, str], ...] = (
    ("We use Postgres 16 for orders.", "We use Postgres for analytics."),
    ("The admin panel listens on port 4100.", "The worker listens on port 4200."),
    (
        "In this repo use uv, never pip. CI breaks when someone pip-installs.",
        "Our CI listens for webhooks on port 9000.",
    ),
    ("Production is on port 9443.", "Staging is on port 9444."),
    ("Production is on port 9443.", "The production database is Postgres 15."),
    ("The API uses FastAPI.", "The API uses Sentry for errors."),
    ("Backups are kept 30 days.", "Backups are limited to 20 GB."),
    ("Karim maintains the billing service.", "Inès maintains the search service."),
    ("For the storefront API we decided on Drizzle instead of Prisma.", "The admin backend uses Prisma."),
    ("The admin backend uses Prisma.", "For the storefront API we decided on Drizzle instead of Prisma."),
    ("Staging runs on Fly.io.", "Production moved from Fly.io to Hetzner."),
    ("Always run `make lint` before you commit.", "Always run `make docs` before a release."),
    ("I prefer concise answers.", "I prefer tabs over spaces."),
    ("The metrics endpoint is http://localhost:9100/metrics.", "The health endpoint is http://localhost:9100/health."),
    ("Python 3.12 is required.", "Node 22 is required."),
    ("Releases go out every second Tuesday.", "Retrospectives happen on Tuesday."),
    ("The upload limit is 25 MB per file.", "The rate limit of the API is 100 requests per minute."),
    ("Le front tourne sur le port 5173.", "L'API tourne sur le port 8000."),
    ("The design tokens are in packages/ui/tokens.json.", "The icons are in packages/ui/icons."),
    ("We chose Redis for sessions.", "We chose Redis for the job queue."),
    ("We chose Redis for sessions.", "We moved search from Elasticsearch to Meilisearch."),
    ("La mise en production est prévue le 14 avril.", "La démo client est prévue le 10 avril."),
    ("Les logs sont conservés 90 jours dans Loki.", "Les sauvegardes sont conservées 30 jours."),
    ("Never push directly to main.", "Never push secrets."),
    ("Never edit generated/.", "Never edit vendor/."),
    (
        "The leak was caused by listeners that were never removed in useSocket.",
        "The crash was due to a missing libvips.",
    ),
    ("Tests use Vitest.", "End-to-end tests use Playwright."),
    ("We deploy with `make ship`.", "We test with `make check`."),
    ("The staging url is https://staging.example.dev.", "The docs url is https://docs.example.dev."),
    ("We switched from npm to pnpm.", "Packages are published to npm under @acme."),
    ("Packages are published to the npm registry under @acme.", "The website switched from npm to pnpm."),
    ("In this repo use uv, never pip.", "Dans ce dépôt, utilise pnpm et jamais npm : le lockfile casse sinon."),
    ("Inès maintains the search service.", "We moved search from Elasticsearch to Meilisearch."),
    ("Always use British spelling in the user-facing copy.", "The users table was renamed to accounts."),
    ("Pour les e-mails on passe par Postmark.", "Les gabarits d'e-mail sont maintenant dans `emails/templates`."),
    ("Our CI runs on self-hosted GitHub runners in Frankfurt.", "We've migrated the repo from GitHub to Forgejo."),
    ("Our license is AGPL-3.0.", "We upgraded from Django 4.2 to 5.1."),
    ("Use tabs, not spaces, in the Makefile.", "The project now requires Python 3.12."),
    (
        "Les images Docker sont poussées sur registry.acme.fr.",
        "We don't use Docker anymore, everything runs under systemd.",
    ),
    ("We host the docs on Netlify.", "We no longer use Heroku, everything moved to Render."),
    ("production runs on Scaleway in par1, behind Traefik.", "La prod est sur le port 8443, derrière Caddy."),
    ("We deploy to Heroku.", "We deploy the docs to Netlify, not Heroku."),
    ("We use Redis for sessions.", "Actually we use RabbitMQ for the queue."),
    ("We use Redis for the queue.", "We use RabbitMQ for the queue."),
    ("We use Docker in prod.", "Actually we use Postgres in prod."),
    ("The API uses FastAPI.", "The API now uses Sentry."),
    ("We use Postgres 15 in staging.", "We use Postgres 16 in prod."),
    ("La prod utilise PostgreSQL 15.", "La prod utilise Node 22."),
    ("We use SQLite for tests.", "We use Postgres for orders. Not MySQL."),
    # what is told besides, for another span of time, or of another person
    ("My dentist is at 9:30 am on Fridays.", "I also have a haircut at 11 am on Fridays."),
    ("I run 4 laps a day before breakfast.", "I run 90 laps a month before breakfast."),
    ("I walk the dog at 7:00 am before work.", "My sister walks the dog at 6:15 am before work."),
)

DELETE: tuple[tuple[str, str], ...] = (
    ("Use tabs, not spaces, in the Makefile.", "Forget the rule about tabs in the Makefile."),
    (
        "À partir de maintenant, tu écris les messages de commit en anglais.",
        "Tu peux oublier la règle sur les messages de commit en anglais.",
    ),
    ("Code freeze starts on December 18th.", "The code freeze is no longer true."),
    ("Karim maintains the billing service.", "Oublie ce que j'ai dit sur Karim."),
)
