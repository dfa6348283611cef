"""Names of tools by what they are for, so that "we switched to Bun" can meet "we use pnpm".

Only names that a developer may write in lower case, or whose category decides whether one replaces another.
Anything capitalised or written like an identifier is recognised without this table.
"""

from __future__ import annotations

from typing import Final

_TABLE: Final = """
python packages: pip uv poetry pipenv conda pdm
javascript packages: npm pnpm yarn bun
java builds: maven gradle
database: postgres postgresql mysql mariadb sqlite mongodb mongo cockroachdb oracle duckdb dynamodb firestore clickhouse
cache: redis memcached valkey dragonfly
orm: prisma drizzle typeorm sequelize sqlalchemy django-orm hibernate doctrine eloquent knex kysely
queue: kafka rabbitmq nats sqs celery sidekiq bullmq pulsar
test runner: pytest jest vitest mocha unittest cypress playwright rspec phpunit karma nose
linter: eslint ruff flake8 pylint biome oxlint rubocop golangci-lint
formatter: prettier black gofmt autopep8 yapf dprint
bundler: webpack vite rollup esbuild parcel turbopack rspack
frontend framework: react vue svelte angular solid preact htmx ember sveltekit nextjs next.js nuxt astro remix
backend framework: django flask fastapi express fastify nestjs rails laravel symfony spring litestar starlette actix
hosting: hetzner fly.io heroku render vercel netlify aws gcp azure ovh scaleway digitalocean railway linode cloudflare
ci: jenkins circleci travis github-actions gitlab-ci drone buildkite teamcity
infrastructure: terraform pulumi ansible opentofu chef puppet
container: docker podman kubernetes k8s k3s nomad compose
web server: nginx caddy apache traefik haproxy
typesetting: latex typst weasyprint wkhtmltopdf pandoc asciidoc
styling: tailwind bootstrap sass less styled-components
object storage: s3 minio b2 backblaze r2 gcs
errors: sentry bugsnag rollbar datadog grafana loki prometheus
auth: keycloak auth0 okta cognito clerk
payment: stripe adyen paypal mollie
language: python node typescript javascript ruby php go rust java kotlin swift elixir scala perl deno
tracker: jira linear trello asana notion
shell: bash zsh fish powershell
editor: vim neovim emacs vscode pycharm zed helix
indentation: tabs spaces tabulations espaces
key: uuid uuidv4 uuidv7 ulid
type checker: mypy pyright tsc
vcs: git github gitlab bitbucket gitea forgejo
"""

CATEGORY: Final = {
    name: line.partition(":")[0] for line in _TABLE.strip().splitlines() for name in line.partition(":")[2].split()
}
_AMBIGUOUS_WORDS: Final = """
go render express next chef solid compose less fish linear notion drone black rust oracle ember composer
spring nose swift key tabs spaces
"""
#: Names that are also plain words: they count only when written with a capital or beside another tool.
AMBIGUOUS: Final = frozenset(_AMBIGUOUS_WORDS.split())
