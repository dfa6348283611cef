"""Lines that hold a secret, and lines that only speak of one: templates, values, and a seeded generator.

`dev` was looked at while the rules were written; `held-out` was written before and measured afterwards. `unseen`
(`unseen_lines`) was written later, before the rules of proximity. A template
names the secret by the form of its value: `{p}` a password, `{q}` one that is safe in an URL, `{w}` a weak one, `{m}`
several words, `{t}` a token, `{b}` base64, `{x}` hexadecimal, `{n}` digits, `{c}` a code in groups. `{u}`, `{h}` and
`{s}` are a user, a host and a service.
"""

# ruff: noqa: E501 (a table of templates reads best with a kind in few lines)

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tests.support import unseen_lines

Part = Literal["dev", "held-out", "unseen"]
_ALNUM: Final = string.ascii_letters + string.digits
_HEX: Final = "0123456789abcdef"
_UPPER: Final = string.ascii_uppercase + string.digits


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A text of one or several lines.

    Attributes:
        kind: of its template.
        language: of the sentence; empty for code and configuration.
        secrets: what must not be left of it; none in a benign line.
    """

    kind: str
    text: str
    language: str = ""
    secrets: tuple[str, ...] = ()


# --- values -----------------------------------------------------------------------------------------------------------


def _some(rng: random.Random, length: int, alphabet: str = _ALNUM) -> str:
    """Random characters, at least one of them a digit where the alphabet has digits."""
    body = rng.choices(alphabet, k=length)
    digits = [one for one in alphabet if one.isdigit()]
    if digits:
        body[rng.randrange(1, length)] = rng.choice(digits)
    return "".join(body)


_STEMS: Final[Mapping[Part, Sequence[str]]] = {
    "dev": "Soleil Zebra Tango Winter marmotte Bleu dragon Volcan hunter Ete lune Cactus orange Rocket Pirata".split(),
    "held-out": "Nuage Falcon Verano banane Quartz summer Chaton monkey Estrella Automne letmein Trufa tiger Hiver".split(),
    "unseen": "Mango Sol Nube Fjord Lynx mango Kiwi brume Rio otter Pluie Gato".split(),
}
_SIGNS: Final[Mapping[Part, str]] = {"dev": "!@#%*-_+=", "held-out": "!#%^*~-_+", "unseen": "!$#@%*?&+"}
_PHRASE: Final[Mapping[Part, Sequence[str]]] = {
    "dev": "correct horse battery staple velvet canoe lantern pickle".split(),
    "held-out": "copper walrus midnight teapot gravel banjo ribbon oyster".split(),
    "unseen": "saffron glacier pebble trombone velour hatch mulberry quiver".split(),
}


def _password(rng: random.Random, part: Part) -> str:
    stem, sign = rng.choice(_STEMS[part]), rng.choice(_SIGNS[part])
    year, two = rng.choice(["2019", "2023", "2024", "2025"]), rng.randint(10, 99)
    forms = [
        f"{stem}{year}!",
        f"{stem}{sign}{two}x",
        _some(rng, rng.randint(10, 20)),
        f"{stem}-{rng.choice(_STEMS[part])}-{two}",
        f"{_some(rng, 6)}{sign}{_some(rng, 5)}",
        f"{stem.translate(str.maketrans('aeios', '43105'))}{two}{sign}{_some(rng, 2)}",
    ]
    return rng.choice(forms)


def _url_password(rng: random.Random, part: Part) -> str:
    return rng.choice([_some(rng, rng.randint(9, 20)), f"{rng.choice(_STEMS[part])}{rng.randint(100, 9999)}"])


def _weak(rng: random.Random, part: Part) -> str:
    stem = rng.choice(_STEMS[part])
    return rng.choice([f"{stem}{rng.randint(2, 9)}", f"{stem}{rng.randint(100, 999)}", f"{stem}2024!", f"{stem}@123"])


#: Words that people take for a password.
_PLAIN_WORDS: Final = {
    "en": "swordfish butterscotch pumpernickel moonlight dragonfly sunflower".split(),
    "fr": "coquelicot tournesol bouquetin papillon crapaud farandole".split(),
    "es": "golondrina mariposa murcielago chocolate girasol cangrejo".split(),
}


def _typed(rng: random.Random, part: Part) -> str:
    """A short word with digits and a sign, random letters and digits, or random letters of both cases."""
    stem, sign = rng.choice(_STEMS[part]), rng.choice(_SIGNS[part])
    letters = rng.choices(string.ascii_letters, k=rng.randint(12, 16))
    letters[1:3] = [letters[1].lower(), letters[2].upper()]
    return rng.choice([f"{stem}{rng.randint(100, 9999)}{sign}", _some(rng, 14), "".join(letters)])


def _values(rng: random.Random, part: Part, language: str) -> dict[str, str]:
    groups = rng.choice([(4, "-", 3), (5, "-", 2), (4, "-", 4)])
    typed = {"v": _typed(rng, part), "l": rng.choice(_PLAIN_WORDS[language])} if part == "unseen" else {}
    return typed | {
        "p": _password(rng, part),
        "q": _url_password(rng, part),
        "w": _weak(rng, part),
        "m": " ".join(rng.sample(list(_PHRASE[part]), 4)),
        "t": _some(rng, rng.choice([24, 32, 40])),
        "b": base64.b64encode(rng.randbytes(rng.choice([18, 24, 33]))).decode(),
        "x": _some(rng, rng.choice([32, 40, 64]), _HEX),
        "n": _some(rng, rng.choice([4, 6]), string.digits),
        "c": groups[1].join(_some(rng, groups[0], _UPPER) for _ in range(groups[2])),
    }


def _names(rng: random.Random) -> dict[str, str]:
    return {
        "u": rng.choice(["ana", "bob", "deploy", "svc_ci", "app", "root"]),
        "h": rng.choice(["db.example", "10.0.3.7", "stage-2.example.com", "localhost"]),
        "s": rng.choice(["billing", "shop", "grafana", "jenkins", "nas"]),
    }


def providers(rng: random.Random) -> dict[str, str]:
    """One token of each provider's own form."""
    return {
        "aws": "AKIA" + _some(rng, 16, _UPPER),
        "github": "ghp_" + _some(rng, 36),
        "github-fine": "github_pat_" + _some(rng, 22) + "_" + _some(rng, 59),
        "gitlab": "glpat-" + _some(rng, 20),
        "slack": f"xoxb-{_some(rng, 12, string.digits)}-{_some(rng, 24)}",
        "openai": "sk-proj-" + _some(rng, 100),
        "anthropic": "sk-ant-api03-" + _some(rng, 93),
        "google": "AIza" + _some(rng, 35),
        "stripe": "sk_live_" + _some(rng, 24),
        "npm": "npm_" + _some(rng, 36),
        "pypi": "pypi-AgEIcHlwaS5vcmc" + _some(rng, 120),
        "huggingface": "hf_" + _some(rng, 34),
        "sendgrid": f"SG.{_some(rng, 22)}.{_some(rng, 43)}",
        "twilio": "SK" + _some(rng, 32, _HEX),
        "digitalocean": "dop_v1_" + _some(rng, 64, _HEX),
        "shopify": "shpat_" + _some(rng, 32, _HEX),
        "docker": "dckr_pat_" + _some(rng, 27),
        "vault": "hvs." + _some(rng, 24),
        "telegram": f"{_some(rng, 10, '123456789')}:AA{_some(rng, 33)}",
        "jwt": _jwt(rng),
        "discord": f"MT{_some(rng, 22)}.{_some(rng, 6)}.{_some(rng, 30)}",
        "linear": "lin_api_" + _some(rng, 40),
        "mailchimp": _some(rng, 32, _HEX) + "-us12",
        "brevo": "xkeysib-" + _some(rng, 64, _HEX) + "-" + _some(rng, 16),
        "netlify": "nfp_" + _some(rng, 36),
        "posthog": "phx_" + _some(rng, 43),
        "langsmith": f"lsv2_pt_{_some(rng, 32, _HEX)}_{_some(rng, 10, _HEX)}",
        "circleci": "CCIPAT_" + _some(rng, 22) + "_" + _some(rng, 40, _HEX),
        "bitbucket": "ATBB" + _some(rng, 32),
        "nvidia": "nvapi-" + _some(rng, 64),
        "artifactory": "AKCp" + _some(rng, 69),
        "tavily": "tvly-" + _some(rng, 32),
    }


def _jwt(rng: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': _some(rng, 12), 'iat': 1700000000})}.{_some(rng, 43)}"


def _pem(rng: random.Random, name: str) -> tuple[str, str]:
    body = base64.b64encode(rng.randbytes(240)).decode()
    lines = [body[place : place + 64] for place in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"]), lines[1]


# --- structured kinds -------------------------------------------------------------------------------------------------

_DEV: Final[Mapping[str, Sequence[str]]] = {
    "dotenv": ["DB_PASSWORD={p}", "SMTP_PASS='{p}'", 'APP_SECRET_KEY="{t}"', "STRIPE_API_KEY={t}\nDEBUG=1",
               "JWT_SECRET={b}", "MYSQL_ROOT_PASSWORD={w} # local only"],
    "export": ["export GITHUB_TOKEN={t}", "export PGPASSWORD='{p}'; psql -h {h} shop",
               "API_KEY={t} ./deploy.sh --region cdg", 'set -x SLACK_TOKEN "{t}"'],
    "yaml": ["database:\n  user: {u}\n  password: {p}\n", 'api_key: "{t}"', "  secretKey: '{t}'\n  region: eu",
             "redis:\n  auth: true\n  password: \"{p}\""],
    "yaml-block": ["password: |\n  {p}\n", "db:\n  password: >-\n    {p}\n  host: {h}\n", "apiToken: |-\n    {t}\nname: x\n"],
    "json": ['{{"user": "{u}", "password": "{p}"}}', '{{"apiKey":"{t}","region":"eu"}}', '"client_secret": "{b}",'],
    "json-escaped": ['"body": "{{\\"login\\":\\"{u}\\",\\"password\\":\\"{q}\\"}}"',
                     "curl -d '{{\\\"api_key\\\": \\\"{t}\\\"}}' https://{h}/v1"],
    "toml": ['[db]\npassword = "{p}"', "token = '{t}'\nurl = 'https://{h}'", 'secret_key = """{t}"""'],
    "ini": ["[mail]\nuser = {u}\npassword = {p}\n", "[client]\npassword={w}", "api_token : {t}"],
    "xml": ["<password>{q}</password>", '<add key="ApiKey" value="{t}" />', '<property name="db.password" value="{q}"/>',
            '<user name="{u}" password="{q}"/>'],
    "dockerfile": ["ENV DB_PASSWORD={p}", "ENV API_TOKEN {t}", "ARG NPM_TOKEN={t}"],
    "k8s": ["apiVersion: v1\nkind: Secret\ndata:\n  password: {b}\n  api-token: {b}",
            "kind: Secret\nstringData:\n  DB_PASSWORD: {p}\n",
            "env:\n  - name: DB_PASSWORD\n    value: {p}\n",
            "kubectl create secret generic app --from-literal=password={q}"],
    "terraform": ['password = "{p}"', 'variable "db_password" {{\n  type    = string\n  default = "{p}"\n}}',
                  'master_password         = "{q}"', "terraform apply -var 'db_password={q}'"],
    "header": ["Authorization: Bearer {t}", "X-Api-Key: {t}", "curl -H 'Private-Token: {t}' https://{h}/api",
               "authorization: Basic {b}", '-H "X-Vault-Token: {t}"'],
    "curl-user": ["curl -u {u}:{q} https://{h}/", "curl --user '{u}:{p}' -O https://{h}/x.tgz",
                  "curl -s -u{u}:{q} https://{h}"],
    "flag": ["deploy --password {p} --region cdg", "app --api-key={t}", "mc --secret-key {t} ls", "tool login --token '{t}'"],
    "flag-short": ["mysql -u {u} -p{q} shop", "mysqldump -h {h} -u {u} -p'{p}' shop > x.sql", "sshpass -p {q} ssh {u}@{h}",
                   "sshpass -p'{p}' scp x {u}@{h}:", "docker login -u {u} -p {q} registry.example", "redis-cli -h {h} -a {q} ping",
                   "mongosh --host {h} -u {u} -p {q}", "sqlcmd -S {h} -U sa -P '{p}'", "ldapsearch -D cn={u} -w {q} -b dc=x"],
    "netrc": ["machine {h} login {u} password {p}", "machine {h}\n  login {u}\n  password {p}\n"],
    "npmrc": ["//registry.npmjs.org/:_authToken={t}", "//{h}/npm/:_password={b}", "_auth={b}"],
    "pypirc": ["[pypi]\nusername = __token__\npassword = {t}\n", "[testpypi]\nusername: {u}\npassword: {p}"],
    "git-remote": ["git clone https://{u}:{q}@git.example/x.git", "origin\thttps://oauth2:{t}@git.example/x.git (fetch)",
                   "git remote set-url origin https://{t}@git.example/x.git"],
    "url": ["postgres://{u}:{q}@{h}:5432/shop", "redis://:{q}@{h}:6379/0", "DATABASE_URL=mysql://{u}:{q}@{h}/shop",
            "amqps://{u}:{q}@{h}/vhost", "jdbc:mysql://{h}/shop?user={u}&password={q}"],
    "cookie": ["Cookie: session={t}", "Set-Cookie: sid={t}; Path=/; HttpOnly", "PHPSESSID={x}", 'curl -b "sessionid={t}" https://{h}'],
    "pgpass": ["{h}:5432:shop:{u}:{q}", "*:*:*:{u}:{q}"],
    "wifi": ['network={{\n  ssid="home"\n  psk="{p}"\n}}', "wpa_passphrase home {q}", "nmcli dev wifi connect home password {q}",
             "[wifi-security]\npsk={q}"],
    "dotnet": ["Server={h};Database=shop;User Id=sa;Password={q};Encrypt=true", "Data Source={h};Uid={u};Pwd={q};",
               'AccountName=x;AccountKey={b};EndpointSuffix=core.windows.net'],
    "php": ["define('DB_PASSWORD', '{p}');", '$password = "{p}";', "'password' => '{p}',", "$cfg['secret_key'] = '{t}';"],
    "properties": ["spring.datasource.password={p}", "jwt.secret: {t}", "mail.smtp.password = {p}"],
    "docker-run": ["docker run -e POSTGRES_PASSWORD={q} -p 5432:5432 postgres", "docker run --env API_TOKEN={t} app",
                   "environment:\n  - MYSQL_PASSWORD={p}\n"],
    "systemd": ["[Service]\nEnvironment=DB_PASSWORD={q}", 'Environment="API_TOKEN={t}" "X=1"'],
    "here-doc": ["cat > .env <<EOF\nDB_PASSWORD={p}\nEOF", "docker login -u {u} --password-stdin <<< '{q}'",
                 "chpasswd <<EOF\n{u}:{q}\nEOF"],
    "pipe": ["echo '{p}' | docker login -u {u} --password-stdin", "echo {q} | sudo -S apt update", "echo '{u}:{q}' | sudo chpasswd"],
    "code": ['password = "{p}"', "const token = '{t}';", 'os.environ["API_KEY"] = "{t}"', 'client = Client(api_key="{t}")',
             "db.connect(user='{u}', password='{p}')", 'String dbPassword = "{p}";', "let pwd: string = '{p}'"],
    "sql": ["CREATE USER {u} WITH PASSWORD '{p}';", "ALTER USER {u} IDENTIFIED BY '{p}';"],
    "tool-output": ["Bash: printenv | grep -i pass\nPGPASSWORD={p}\nHOME=/root", "config list\n  token    {t}\n  region   eu",
                    "Your new API key: {t}\nKeep it safe."],
}  # fmt: skip

_HELD: Final[Mapping[str, Sequence[str]]] = {
    "dotenv": ["REDIS_PASSWORD='{p}'", "NEXTAUTH_SECRET={b}\nPORT=3000", "LDAP_BIND_PWD={p}", "MAILGUN_API_KEY={x}"],
    "export": ["export SONAR_TOKEN='{t}' && make scan", "DB_PASS={q} npm start", "$env:API_TOKEN = '{t}'", "setx SERVICE_PASSWORD {q}"],
    "yaml": ["smtp:\n    host: {h}\n    pass: '{p}'\n", "- token: {t}", "ansible_become_password: {p}", "encryption_key: {b}"],
    "yaml-block": ["  client_secret: |\n    {t}\n  x: 1", "admin:\n  passphrase: >\n      {p}\n", "password: |2\n    {p}\n"],
    "json": ['{{"auths": {{"{h}": {{"auth": "{b}"}}}}}}', '{{"connection": {{"pwd": "{p}"}}}}', '{{"accessToken":"{t}"}}',
             '{{"name": "API_TOKEN", "value": "{t}"}}'],
    "json-escaped": ['{{"content": "DB_PASSWORD={q}\\nDEBUG=1\\n"}}', '{{"input": "{{\\"secret_key\\": \\"{t}\\"}}"}}'],
    "toml": ['[tool.x]\nclient_secret = "{t}"', "db = {{ user = '{u}', password = '{p}' }}"],
    "ini": ["[imap]\npasswd = {p}", "smtp_password : {p}", "[default]\naws_secret_access_key = {b}"],
    "xml": ['<entry key="password">{q}</entry>', "<apiToken>{t}</apiToken>", '<connection user="{u}" pwd="{q}" />',
            "<key>AuthToken</key>\n<string>{t}</string>"],
    "dockerfile": ["ENV SECRET_KEY_BASE={x}", 'ENV REDIS_PASSWORD "{p}"', "RUN PIP_TOKEN={t} pip install -r r.txt"],
    "k8s": ["kind: Secret\ntype: Opaque\ndata:\n  db-url: {b}", "- name: SMTP_PASS\n  value: \"{p}\"",
            "kubectl create secret docker-registry r --docker-username={u} --docker-password={q}",
            "stringData:\n  token: {t}\nkind: Secret"],
    "terraform": ['admin_password = "{p}"', 'variable "api_token" {{\n  default = "{t}"\n}}', 'TF_VAR_db_password={q} terraform plan'],
    "header": ["X-Auth-Token: {t}", "Authorization: token {t}", "-H 'Ocp-Apim-Subscription-Key: {x}'", '"Authorization": "Bearer {t}"',
               "Proxy-Authorization: Basic {b}"],
    "curl-user": ["curl https://{h}/api -u '{u}:{p}'", "wget --user={u} --password={q} https://{h}/x", "http -a {u}:{q} https://{h}/api"],
    "flag": ["helm install x --set auth.password={q}", "app --db-password '{p}'", "vault-cli --client-secret={t}", "sync -token {t} -v"],
    "flag-short": ["mariadb -u{u} -p{q} -h {h}", "mysqladmin -u {u} -p'{p}' status", "podman login {h} -u {u} -p {q}",
                   "mongodump -u {u} -p {q} --db shop", "redis-cli -a '{p}' info", "sshpass -p \"{p}\" rsync -a x {u}@{h}:",
                   "unzip -P {q} backup.zip", "7z x -p{q} backup.7z", "twine upload -u {u} -p {q} dist/*"],
    "netrc": ["machine {h} login {u} password {q} # ci", "default login {u} password {p}"],
    "npmrc": ["registry=https://{h}/\n//{h}/:_authToken={t}", "@x:registry=https://{h}\n_password = {b}"],
    "pypirc": ["[distutils]\nindex-servers = x\n[x]\npassword:{p}"],
    "git-remote": ["url = https://{u}:{q}@git.example/a/b.git", "fatal: could not read from https://ci:{t}@git.example/a.git/"],
    "url": ["mongodb+srv://{u}:{q}@cluster0.example.net/shop", "sftp://{u}:{q}@{h}/in", "https://{h}/hook?token={t}",
            "jdbc:postgresql://{h}/x?ssl=true&password={q}&user={u}", "smtp://{u}:{q}@{h}:587"],
    "cookie": ["cookie: theme=dark; auth_session={t}", '"Cookie": "JSESSIONID={x}"', "set-cookie: connect.sid={t}; Path=/", "document.cookie = 'session={t}'"],
    "pgpass": ["{h}:5432:*:{u}:{q}", "replica.example:6432:billing:{u}:{p}"],
    "wifi": ["psk={q}", 'wpa-psk "{p}"', "  wpa_passphrase={q}\n  ssid=nas", "nmcli device wifi connect nas password '{p}'"],
    "dotnet": ['"Default": "Host={h};Username={u};Password={q}"', "Server=tcp:{h},1433;User ID={u};PWD={q};",
               "Endpoint=sb://x/;SharedAccessKeyName=r;SharedAccessKey={b}"],
    "php": ["define(\"SECURE_AUTH_KEY\", \"{t}\");", "$db_pass = '{p}';", "\"api_key\" => \"{t}\""],
    "properties": ["db.pass={q}", "quarkus.datasource.password={p}", "keystore.password: {p}"],
    "docker-run": ["docker run -d -e 'REDIS_PASSWORD={p}' redis", "docker compose run -e SECRET_TOKEN={t} web",
                   "    environment:\n      DB_PASSWORD: {p}\n"],
    "systemd": ['Environment="PGPASSWORD={q}"', "Environment=A=1 SECRET_TOKEN={t}"],
    "here-doc": ["tee app.ini <<'X'\npassword = {p}\nX", "sudo chpasswd <<< \"{u}:{q}\"", "psql <<SQL\nCREATE ROLE {u} PASSWORD '{p}';\nSQL"],
    "pipe": ["printf '%s' '{p}' | podman login --password-stdin {h}", "echo \"{p}\" | sudo -S systemctl restart x", "echo {u}:{q} | chpasswd"],
    "code": ['auth_token: "{t}",', "SECRET_KEY = '{p}'", 'System.setProperty("javax.net.ssl.keyStorePassword", "{p}");',
             'api.setToken("{t}")', "headers = {{'X-Api-Key': '{t}'}}", 'private static final String API_KEY = "{t}";',
             'password: str = "{p}"'],
    "sql": ["CREATE ROLE {u} LOGIN PASSWORD '{p}';", "CREATE USER '{u}'@'%' IDENTIFIED BY '{p}';", "GRANT ALL ON *.* TO x IDENTIFIED BY \"{p}\""],
    "tool-output": ["+ docker login -u {u} --password {q}", "Initial admin password: {p}", "Generated token: {t}",
                    "secret access key {b} for {u}"],
}  # fmt: skip

_AROUND: Final[Mapping[Part, Sequence[str]]] = {
    "dev": [
        "{v}",
        "use {v} for now",
        "printed by a tool: {v} (end)",
        "TOKEN={v}",
        '{{"key": "{v}"}}',
        "voilà la clé : {v}, merci",
    ],
    "held-out": [
        "here it is: {v}.",
        "Error: request with {v} was refused",
        "config.value = '{v}'",
        "el valor es {v} y ya",
        "<{v}>",
    ],
}


# --- spoken kinds -----------------------------------------------------------------------------------------------------

_SAID_DEV: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "en": {
        "is": ["the password for the staging box is {p}", "The admin password is {w}.", "password of the shared mailbox is {p}, keep it",
               "my sudo password is {w}", "the wifi password is {p}", "the passphrase of the backup key is \"{m}\"",
               "the password on the test database was {p} until yesterday", "our root password for {h} is `{p}`"],
        "sign": ["password: {p}", "staging password = {p}", "pw for the nas: {p}", "wifi pwd: {w}", "the vault passphrase: '{m}'",
                 "prod db password → {p}", "password for {u}@{h}: {p}", "pass: {p}"],
        "set": ["I set the password to {p}", "the password was changed to {w}", "reset the admin password to {p}, please",
                "we changed the {s} password to {p} today", "the new password is now {w}"],
        "inverted": ["{p} is the password for the {s} server", "use {p} as the password", "{w} is my admin password",
                     "set {p} as the root password", "try {p} as password for {u}"],
        "login": ["log in with {u} / {p}", "login: {u} / {p}", "the credentials are {u}:{p}", "sign in as {u} with password {p}",
                  "user {u}, password {p}", "username is {u} and the password is {w}", "connect as {u} with {p}"],
        "token": ["the API key for {s} is {t}", "the slack token of the bot is {t}, keep it", "my access token: {t}",
                  "here is the registry token: {t}", "the deploy key is {x}", "use the token {t} for {s}"],
        "code": ["the PIN is {n}", "the door code is {n}", "access code for the garage: {n}", "my recovery code is {c}",
                 "the alarm pin is {n}.", "2fa backup code: {c}"],
        "several": ["the password for staging is {p} and the one for prod is {q}", "db password {p}, redis password {q}"],
    },
    "fr": {
        "is": ["le mot de passe du serveur de prod est {p}", "le mdp du wifi c'est {w}", "Le mot de passe admin est {w}.",
               "mon mot de passe sudo est {p}", "le mot de passe de la base de test, c'est {p}", "la phrase secrète est « {m} »",
               "le mot de passe pour {u} sur {h} est {p}"],
        "sign": ["mot de passe : {p}", "mdp prod = {p}", "mdp: {w}", "mot de passe du NAS : {p}", "le code wifi : {p}", "mdp staging → {p}"],
        "set": ["j'ai mis le mot de passe à {p}", "le mot de passe a été changé en {w}", "le nouveau mot de passe est maintenant {p}",
                "on a remplacé le mot de passe par {p}"],
        "inverted": ["{p} est le mot de passe du serveur", "utilise {p} comme mot de passe", "{w} c'est le mdp de la box",
                     "mets {p} comme mot de passe root"],
        "login": ["connecte-toi avec {u} / {p}", "identifiants : {u} / {p}", "les identifiants sont {u}:{p}", "login {u}, mot de passe {p}",
                  "l'utilisateur est {u} et le mot de passe {p}"],
        "token": ["la clé d'API de {s} est {t}", "le jeton du registre est {t}", "voici le token : {t}", "ma clé API c'est {t}", "la clé secrète est {b}"],
        "code": ["le code PIN est {n}", "le code de la porte est {n}", "le code d'accès du parking c'est {n}", "code de récupération : {c}",
                 "le digicode est {n}"],
        "several": ["le mot de passe de la préprod est {p} et celui de la prod est {q}", "mdp base {p}, mdp redis {q}"],
    },
    "es": {
        "is": ["la contraseña del servidor de producción es {p}", "La clave del wifi es {w}.", "mi contraseña de sudo es {p}",
               "la contraseña para {u} en {h} es {p}", "la frase de paso es \"{m}\"", "la clave de la base de datos es {w}"],
        "sign": ["contraseña: {p}", "clave del wifi: {w}", "contraseña de prod = {p}", "la contraseña del NAS: {p}", "clave → {p}"],
        "set": ["cambié la contraseña a {p}", "puse {p} como contraseña", "la nueva contraseña ahora es {w}", "la contraseña se cambió por {p}"],
        "inverted": ["{p} es la contraseña del servidor", "usa {p} como contraseña", "{w} es mi clave de admin"],
        "login": ["entra con {u} / {p}", "usuario: {u}, contraseña: {p}", "las credenciales son {u}:{p}", "credenciales: {u} / {p}",
                  "el usuario es {u} y la clave {p}"],
        "token": ["El token de Slack del bot es {t}, guárdalo", "la clave de API de {s} es {t}", "mi token: {t}", "este es el token del registro: {t}"],
        "code": ["el PIN es {n}", "el código de la puerta es {n}", "código de acceso: {n}", "el código de recuperación es {c}"],
        "several": ["la contraseña de pruebas es {p} y la de producción es {q}", "clave db {p}, clave redis {q}"],
    },
}  # fmt: skip

_SAID_HELD: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "en": {
        "is": ["fyi the jenkins password is still {p}", "The password for our old mail server is {w}!", "ok so the db password is {p} (for now)",
               "the root passphrase is {p}", "password to the zip is {w}", "the password you need for the VPN is {p}"],
        "sign": ["root pw: {p}", "Password for the router -> {p}", "vpn password = {p}; do not share", "the passcode: {w}", "password (staging): {p}"],
        "set": ["set it to {p}, that is the new db password", "I have just changed the grafana password to {p}", "update the password to {w} everywhere",
                "the password is going to be {p} from now on"],
        "inverted": ["{p} is our staging password", "put {w} as the admin password", "{p}: that's the password of the {s} box",
                     "use {p} for the password"],
        "login": ["you can log in as {u} with {p}", "creds: {u} / {p}", "login is {u} and password {p}", "my account is {u}:{p}",
                  "username {u} / password {p}"],
        "token": ["the bearer token is {t}", "our npm token is {t}.", "API key = {t}, put it in the config", "the secret for the webhook is {t}",
                  "the license key is {c}"],
        "code": ["PIN code: {n}", "the safe's access code is {n}", "the gate code is {n} if you come late", "the unlock pin is {n}", "your recovery codes: {c}"],
        "several": ["root password is {p}, the backup password is {q}", "user {u} has password {p} and pin {n}"],
    },
    "fr": {
        "is": ["pour info le mot de passe du jenkins est toujours {p}", "le mot de passe root, c'est {p} !", "le mdp de la machine de recette est {w}",
               "la phrase de passe est {p}", "le mot de passe du zip c'est {w}"],
        "sign": ["Mot de passe root: {p}", "mdp vpn : {w}", "mot de passe (préprod) : {p}", "le mdp du compte {u} = {p}", "passe : {p}"],
        "set": ["le mot de passe devient {p}", "change le mot de passe en {w}", "j'ai remis le mdp à {p} hier"],
        "inverted": ["{p} est notre mot de passe de staging", "mets {w} en mot de passe", "tape {p} comme mdp"],
        "login": ["tu peux te connecter avec {u} / {p}", "mes identifiants sont {u} / {p}", "identifiant {u}, mdp {p}", "compte : {u} / {p}"],
        "token": ["le token npm est {t}", "la clé de licence est {c}", "le jeton d'accès du bot : {t}", "le secret du webhook est {t}"],
        "code": ["le code du portail est {n}", "code PIN : {n}", "le code de l'alarme c'est {n}", "mon code de secours est {c}"],
        "several": ["le mdp root est {p}, celui du backup est {q}", "utilisateur {u}, mot de passe {p}, pin {n}"],
    },
    "es": {
        "is": ["oye, la contraseña del jenkins sigue siendo {p}", "la contraseña de root es {p}!", "la clave de la máquina de pruebas es {w}", "mi clave es {p}"],
        "sign": ["Contraseña root: {p}", "clave vpn = {w}", "contraseña (staging): {p}", "la clave de la cuenta {u}: {p}"],
        "set": ["la contraseña pasa a ser {p}", "cambia la contraseña a {w}", "he puesto la clave en {p}"],
        "inverted": ["{p} es nuestra contraseña de staging", "pon {w} como clave", "usa {p} de contraseña"],
        "login": ["puedes entrar con {u} / {p}", "inicia sesión con {u} / {p}", "mi usuario es {u} y mi contraseña {p}", "acceso: {u} / {p}"],
        "token": ["el token de npm es {t}", "la clave de licencia es {c}", "el secreto del webhook es {t}", "aquí está la API key: {t}"],
        "code": ["el código del portal es {n}", "PIN: {n}", "el código de la alarma es {n}", "mi código de respaldo es {c}"],
        "several": ["la clave de root es {p}, la del backup es {q}", "usuario {u}, clave {p}, pin {n}"],
    },
}  # fmt: skip


# --- benign lines -----------------------------------------------------------------------------------------------------

_BENIGN_DEV: Final[Mapping[str, Sequence[str]]] = {
    "prose-en": ["the password is wrong", "reset the password before the demo", "token is expired", "The API key is missing from the request.",
                 "Passwords must be at least 12 characters and contain a digit.", "the login form asks for a password twice",
                 "your password will expire in {d} days", "the password for prod is stored in vault", "cookies: the banner must be translated first",
                 "Cookie: accept or refuse, the page remembers it", "the PIN is optional", "the token is a UUID", "password length: {d} characters",
                 "the secret is in AWS Secrets Manager", "the key is the third column", "the exit code is {d}", "log in with Google or GitHub",
                 "the password is hashed with argon2id, {d} rounds", "use the token from the login response", "password is required",
                 "set the password to expire after {d} days", "the code is in src/auth.py:{d}", "the token budget is {d}k",
                 "this is the password field", "it is the token that the tests share", "we use bcrypt2 as the password hash"],
    "prose-fr": ["le mot de passe est obligatoire", "le mot de passe du serveur est dans le coffre", "le jeton a expiré hier",
                 "il faut changer le mot de passe tous les {d} jours", "la clé est unique", "le code est dans src/main.rs", "le mdp est trop court",
                 "le mot de passe est celui de la base", "les cookies : il faut un bandeau", "le code de retour est {d}",
                 "la clé d'API est lue dans l'environnement", "le code postal est 750{d}", "identifiants : voir le wiki"],
    "prose-es": ["la contraseña es obligatoria", "la contraseña es incorrecta", "el token ha caducado", "la clave es única",
                 "la clave del éxito es probar", "el código es difícil de leer", "hay que cambiar la contraseña cada {d} días",
                 "la contraseña está en el gestor", "las credenciales son incorrectas", "la clave primaria es id2"],
    "code": ["password: str", "def login(user: str, password: str) -> None:", "password = get_password()", "token = request.headers['X-Token']",
             "const token = process.env.TOKEN;", "password=db_password,", "if not password:", "self.password = password", "api_key=settings.api_key",
             "passwordConfirmation: z.string().min({d})", "let token = tokens.next()?;", "return token == expected_token", "password = input('Password: ')",
             "assert response.json()['token']", 'password = os.environ["DB_PASSWORD"]', "token: Optional[str] = None", "secret: Secret = field(repr=False)",
             "{{% csrf_token %}}", "<input type=\"password\" name=\"password\" placeholder=\"Password\">", "password VARCHAR({d}) NOT NULL",
             "token = jwt.encode(payload, SECRET, algorithm='HS256')", "function resetPassword(email: string): Promise<void>",
             'throw new Error("password is required")', "password=password,", "key = lambda item: item[{d}]"],
    "reference": ["DB_PASSWORD=${{DB_PASSWORD:?missing}}", "password: ${{DB_PASSWORD}}", "TOKEN=$TOKEN", "token: ${{{{ secrets.NPM_TOKEN }}}}",
                  "password: {{{{ vault_password }}}}", "export API_KEY=$(pass show api)", "PASSWORD_FILE=/run/secrets/db", "Authorization: Bearer $TOKEN",
                  "Authorization: Bearer <token>", "password: !Ref DbPassword", "api_key = var.api_key", "--password-stdin", "mysql -u root -p shop",
                  "password: %env(DB_PASSWORD)%", "secretKeyRef:\n  name: db\n  key: password"],
    "placeholder": ["password: changeme", "API_KEY=<your-token>", "TOKEN=your_token_here", "password=xxxxxxxx", "SECRET_KEY=...", "api_key: YOUR_API_KEY",
                    "password: ********", "postgres://user:password@localhost/db", "Authorization: Bearer YOUR_TOKEN", "password = \"password\"",
                    "token=example-token", "PASSWORD=[redacted:password]"],
    "model": ['"tokenizer": "BertTokenizer"', "max_tokens={d}", '"max_tokens": 4096,', "prompt_tokens: {d}, completion_tokens: {d}",
              '"tokenizer_class": "PreTrainedTokenizerFast2"', '"eos_token": "</s>"', "tokens: {d}k", "token_count = {d}",
              '"pad_token": "<pad>"', "tokenizer: llama3-bpe", '"unk_token": "[UNK]"'],
    "design": ["--color-token-primary: #0a84ff;", "design tokens: spacing-{d}px, radius-4", "token: color.brand.500", "$token-space-2: {d}px;"],
    "hash": ["commit {x40}", "sha256:{x64}", "  resolved \"https://registry.example/x-1.{d}.tgz#{x40}\"", "integrity sha512-{b64}==", "id: {uuid}",
             "request {uuid} took {d} ms", "\"hash\": \"sha256-{b64}=\"", "etag: \"{x32}\"", "cache key: {x40}", "session {uuid} started"],
    "image": ["data:image/png;base64,{b64}{b64}", "<img src=\"data:image/gif;base64,{b64}\">"],
    "public": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{b64} ana@host", "-----BEGIN PUBLIC KEY-----\n{b64}\n-----END PUBLIC KEY-----",
               "public_key = \"{b64}\""],
    "plain": ["tests pass: {d}", "first pass: {d} ms", "boarding pass: gate {d}", "GPIO pin: {d}", "compass: north", "port: 543{d}", "version {d}.{d}.{d}",
              "the build took {d} seconds", "see https://example.com/a/b?page={d}", "def compute_total(items: list[int]) -> int:", "pinned: true",
              "keyboard: azerty", "git push origin feature/login-{d}", "connect to localhost:543{d}/shop"],
}  # fmt: skip

_BENIGN_HELD: Final[Mapping[str, Sequence[str]]] = {
    "prose-en": ["my password does not work", "the password you entered is incorrect", "is the token still valid?", "The secret is to test early.",
                 "password rotation is due in {d} weeks", "the key is missing", "tokens are refreshed every {d} minutes", "we need a stronger password policy",
                 "the cookie: it stores the theme and nothing else", "status code is {d}", "sign in with SSO", "the PIN must have {d} digits",
                 "the password is the same as before", "the password is sent by e-mail", "change the password to something longer",
                 "the credentials are in 1Password", "the api key is read from config.toml", "use the password manager", "the secret is mounted at /run/secrets/db",
                 "access code reviews are on Monday"],
    "prose-fr": ["le mot de passe est incorrect", "la contrainte du mot de passe est de {d} caractères", "le token est invalide", "le mot de passe expire demain",
                 "la clé étrangère est user_id", "le code est revu par Ana", "le secret est bien gardé", "les identifiants sont dans le gestionnaire",
                 "le cookie : il expire après {d} minutes", "change le mot de passe avant vendredi", "le code HTTP est {d}", "la clé du problème est là"],
    "prose-es": ["la contraseña debe tener {d} caracteres", "la contraseña es demasiado corta", "el token es inválido", "la clave está en el cajón",
                 "el código es de Ana", "las cookies: hace falta un aviso", "el secreto es la paciencia", "cambia la contraseña antes del lunes", "la clave foránea es user_id"],
    "code": ["token: string;", "password: Mapped[str] = mapped_column(String({d}))", "var secret = Environment.GetEnvironmentVariable(\"SECRET\");",
             "if (token.type === 'IDENT') {{", "password = Column(String, nullable=False)", "token=args.token,", "password = getpass.getpass(prompt)",
             "type Token = {{ kind: string; value: string }}", "for token in doc:", "user.check_password(raw)", "password: Yup.string().required(),",
             "private String password;", "password = forms.CharField(widget=forms.PasswordInput)", "auth = (username, password)", "key: value",
             "token_type: bearer", "fn verify_password(hash: &str, password: &str) -> bool", "@Column(name = \"password\")", "expect(token).toBeDefined();"],
    "reference": ["API_TOKEN: ${{API_TOKEN:-}}", "password = var.db_password", "token: $(cat /run/token)", "password: \"{{{{ .Values.db.password }}}}\"",
                  "PGPASSWORD=\"$DB_PASS\" psql", "env(\"API_KEY\")", "password: ${{env:DB_PASS}}", "curl -H \"Authorization: Bearer ${{TOKEN}}\"",
                  "valueFrom:\n  secretKeyRef:\n    name: app-secret", "secrets: inherit", "key_file: ~/.ssh/id_ed25519", "redis-cli -a \"$REDIS_PASSWORD\""],
    "placeholder": ["DB_PASSWORD=change-me", "token: <paste token here>", "api_key = \"your-api-key\"", "password: \"***\"", "https://user:pass@example.com/",
                    "SECRET=TODO", "API_KEY=insert_key_here", "password: <redacted>"],
    "model": ["\"tokenizer\": {{\"type\": \"BPE\"}}", "tokens_per_second: {d}.5", "input_tokens={d} output_tokens={d}", "AutoTokenizer.from_pretrained('gpt2')",
              "\"bos_token_id\": {d}", "token limit: 128k", "tokenizer = Tokenizer.from_file('tok.json')"],
    "design": ["tokens/colors.json", "token('spacing.md')", "var(--token-border-{d})", "\"token\": \"button.background\""],
    "hash": ["tree {x40}", "checksum = \"{x64}\"", "\"integrity\": \"sha512-{b64}==\"", "trace id {x32}", "key {uuid} not found", "Digest: sha256:{x64}",
             "ref {x40} refs/heads/main", "cache-key-{x64}", "token id {uuid}"],
    "image": ["background: url(data:image/svg+xml;base64,{b64}{b64})", "\"thumbnail\": \"data:image/webp;base64,{b64}\""],
    "public": ["ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ{b64} bob", "-----BEGIN CERTIFICATE-----\n{b64}\n-----END CERTIFICATE-----"],
    "plain": ["{d} passed, 1 skipped", "bypass: true", "SPI pin {d}", "the surplus is {d}", "timeout = {d}s", "rev {d}", "name: Ana", "passthrough: yes", "pinned to 3.{d}.2",
              "see issue #{d}", "http://localhost:80{d}/login"],
}  # fmt: skip

STRUCTURED: Final[Mapping[Part, Mapping[str, Sequence[str]]]] = {
    "dev": _DEV,
    "held-out": _HELD,
    "unseen": unseen_lines.STRUCTURED,
}
SPOKEN: Final[Mapping[Part, Mapping[str, Mapping[str, Sequence[str]]]]] = {
    "dev": _SAID_DEV,
    "held-out": _SAID_HELD,
    "unseen": unseen_lines.SAID,
}
BENIGN: Final[Mapping[Part, Mapping[str, Sequence[str]]]] = {
    "dev": _BENIGN_DEV,
    "held-out": _BENIGN_HELD,
    "unseen": unseen_lines.BENIGN,
}
_SECRET_FIELDS: Final = "pqwmtbxncvl"
_BEFORE: Final = {
    "en": ["", "", "ok, ", "Note: ", "By the way, "], "fr": ["", "", "au fait, ", "Note : ", "bon, "],
    "es": ["", "", "por cierto, ", "Nota: ", "bueno, "],
}  # fmt: skip
_AFTER: Final = {
    "en": ["", "", " for now", " please remember", ". Then run the tests."],
    "fr": ["", "", " pour l'instant", ", retiens-le", ". Ensuite lance les tests."],
    "es": ["", "", " por ahora", ", recuérdalo", ". Luego lanza las pruebas."],
}


# --- the generator ----------------------------------------------------------------------------------------------------


def _filled(rng: random.Random, part: Part, template: str, language: str = "en") -> tuple[str, tuple[str, ...]]:
    """The template with values, and the secrets among them."""
    values = _values(rng, part, language)
    text = template.format(**values, **_names(rng))
    named = {field for _, field, _, _ in string.Formatter().parse(template) if field}
    return text, tuple(values[name] for name in sorted(named) if name in _SECRET_FIELDS)


def structured(seed: int, part: Part, rounds: int) -> Iterator[Line]:
    """Every template of code and configuration, `rounds` times, with other values."""
    rng = random.Random(f"structured {part} {seed}")
    for _ in range(rounds):
        for kind, templates in STRUCTURED[part].items():
            for template in templates:
                text, secrets = _filled(rng, part, template)
                yield Line(kind=kind, text=text, secrets=secrets)
        for token in providers(rng).values():
            around = rng.choice(_AROUND["held-out" if part == "unseen" else part])
            yield Line(kind="provider", text=around.format(v=token), secrets=(token,))
        for name in ("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
            key, line = _pem(rng, name)
            text = key if rng.random() < 0.5 else json.dumps({"file": key})
            yield Line(kind="private-key", text=text, secrets=(line,))


def spoken(seed: int, part: Part, rounds: int) -> Iterator[Line]:
    """Every template of a sentence, `rounds` times, with other values and other words around it."""
    rng = random.Random(f"spoken {part} {seed}")
    for _ in range(rounds):
        for language, kinds in SPOKEN[part].items():
            for kind, templates in kinds.items():
                for template in templates:
                    text, secrets = _filled(rng, part, template, language)
                    # "is swordfish for now" is a sentence about a password; a word alone ends its clause.
                    after = rng.choice(_AFTER[language]) if text[-1].isalnum() and kind != "word" else ""
                    text = rng.choice(_BEFORE[language]) + text + after
                    yield Line(kind=kind, text=text, language=language, secrets=secrets)


def benign(seed: int, part: Part, rounds: int) -> Iterator[Line]:
    """Every template without a secret, `rounds` times."""
    rng = random.Random(f"benign {part} {seed}")
    for _ in range(rounds):
        for kind, templates in BENIGN[part].items():
            for template in templates:
                text = template.format(
                    d=rng.randint(10, 99),
                    x32=_some(rng, 32, _HEX),
                    x40=_some(rng, 40, _HEX),
                    x64=_some(rng, 64, _HEX),
                    b64=base64.b64encode(rng.randbytes(48)).decode(),
                    uuid=uuid.UUID(int=rng.getrandbits(128)),
                )
                yield Line(kind=kind, text=text)
