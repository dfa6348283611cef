"""Words: normalisation, word lists of three languages, and the language of a text.

`fold` keeps offsets. `content` gives the canonical content words, one form for English, French and Spanish, so that a
French memory can match an English correction without a model. `subject_of` strips "we decided" and the like.
`CATEGORY` maps names of tools to what they are for.

Pure: no database, no file.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from filrouge.core import lazy_re as re

# Bridges: synonyms in English, French and Spanish, as developers use them. They let a French question match an English
# memory by words, and a new value for `la prod` match the old one for `production`. One line is one meaning: the
# canonical word, then its variants, folded (lower case, no accents). `+` joins the words of a phrase. Words with two
# meanings are left out, unless developers use only one of them (a `branch` is never part of a tree). A wrong bridge
# puts a wrong memory before a prompt; a missing one only leaves the match to the vectors.

_BRIDGES: Final = """
production: prod productions produccion prods
staging: preprod pre-prod preproduction pre-production recette homologation
test: tests testing pruebas prueba
database: db bdd bd databases
deploy: deploys deployed deploying deployment deployments deploiement deploiements deploie deploient deployer
  deploie-t deployons ship ships shipped despliegue desplegar
server: servers serveur serveurs servidor servidores
port: ports puerto puertos
command: commands commande commandes comando
branch: branche branches rama ramas
repository: repo repos depot depots repositorio
invoice: invoices invoicing facture factures facturation factura facturas
backup: backups sauvegarde sauvegardes dump dumps
file: files fichier fichiers archivo archivos
folder: folders dossier dossiers repertoire directory directories carpeta
user: users utilisateur utilisateurs utilisatrice usuario usuarios
answer: answers reply replies response responses reponse reponses reponds repondre respond respuestas explanation
  explanations explication explications
language: langue idioma
limit: limits limite limites plafond
frontend: front front-end
backend: back-end
docs: doc documentation
application: app apps applications appli aplicacion
configuration: config configs conf
environment: env environnement entorno
queue: queues file-de-messages
log: logs logging journaux
name: nom nombre
version: versions
host: hosts hosting hebergement hebergeur hosted
release: releases releasing released livraison livraisons
price: prices prix precio
amount: amounts montant montants
date: dates fecha
session: sessions
message: messages mensaje
error: errors erreur erreurs
key: keys cle cles
secret: secrets
image: images picture pictures photo photos imagen foto
table: tables
worker: workers
password: passwords mot-de-passe mot+de+passe mots+de+passe
email: e-mail emails e-mails mail mails courriel
metric: metrics metrique metriques
rule: regle regles rules regla
plan: plans
style: styles
web: site
customer: customers client clients cliente
french: francais francaise frances
english: anglais anglaise ingles
spanish: espagnol espanol
short: court courts courte courtes bref breve concise brief
accountant: accountants comptable comptables contable contables
accounting: comptabilite contabilidad
address: addresses adresse adresses direccion
agreement: accord approval approbation go-ahead green+light feu+vert
alert: alerts alerte alertes alerta
allergic: allergy allergies allergie allergique allergiques alergia
array: arrays
attachment: attachments piece+jointe pieces+jointes
authentication: auth authentification autenticacion
author: authors auteur auteurs autrice autrices autor
authorization: authorisation autorisation autorisations
bank: banks banque banques banco
bicycle: bike bikes velo velos
birthday: anniversaire anniversaires cumpleanos
boss: manager managers responsable responsables jefe
browser: browsers navigateur navigateurs navegador
button: buttons bouton boutons boton
calendar: calendrier calendriers agenda calendario
car: cars voiture voitures coche
cart: carts basket panier paniers carrito
category: categories categorie categoria
cent: cents centime centimes centimo centimos
certificate: certificates certificat certificats certificado
checkout: caisse
child: children kids enfant enfants hijos
ci: continuous+integration integration+continue build+server
city: cities ville villes ciudad
code-review: code+review relecture revue+de+code
color: colors colour colours couleur couleurs
column: columns colonne colonnes columna
comment: comments commentaire commentaires comentario
company: companies entreprise entreprises societe empresa
contract: contracts contrat contrats contrato
country: countries pays pais
coverage: couverture cobertura
currency: currencies devise devises monnaie moneda
cursor: cursors curseur curseurs
dashboard: dashboards tableau+de+bord tableaux+de+bord
daughter: fille hija
deadline: deadlines echeance echeances date+limite plazo
delete: deletes deleted deleting supprimer supprime supprimes supprimee suppression effacer
dependency: dependencies dependance dependances dependencia
device: devices appareil appareils
discount: discounts remise remises rabais descuento
disk: disks disque disques disco
document: documents
dog: dogs chien chiens chienne perro
domain: domains domaine domaines dominio
employee: employees salarie salaries employe employes empleado
encryption: encrypt encrypts encrypted chiffrement chiffrer chiffree cifrado
euro: euros
exception: exceptions
export: exports exporter exporte exported exporting
feature: features fonctionnalite fonctionnalites
field: fields champ champs campo campos
firewall: firewalls pare-feu cortafuegos
flight: flights vol vols vuelo
float: floats floating flottant flottants
font: fonts police polices
form: forms formulaire formulaires formulario
format: formats formatter formatting formatage formater
glasses: lunettes
graph: graphs graphe graphes chart charts graphique graphiques
holiday: holidays vacation vacations conge conges vacances vacaciones
import: imports importer importe imported importing importation
indentation: indent indents indented indente indenter sangria
install: installs installed installing installer installe installation installations instalar
integer: integers entier entiers entero enteros
inventory: inventories inventaire inventaires
issue: issues ticket tickets
keyboard: keyboards clavier claviers teclado
latency: latencies latence latences latencia
layout: layouts mise+en+page
library: libraries lib libs bibliotheque bibliotheques biblioteca
license: licenses licence licences licencia
lock: locks locked locking verrou verrous verrouillage
loop: loops boucle boucles bucle
meeting: meetings reunion reunions rendez-vous
memory: memories memoire memoires memoria
merge: merges merged merging fusion fusionner fusionne
migration: migrations migrate migrated migrer migracion
milestone: milestones jalon jalons
model: models modele modeles modelo modelos
monitoring: supervision surveillance
mother: mere madre
father: pere padre
mouse: souris raton
music: musique musica
network: networks reseau reseaux
notification: notifications notificacion
office: offices bureaux oficina
package: packages paquet paquets paquete paquetes
package-manager: package+manager gestionnaire+de+paquets
page: pages pagina
payment: payments paiement paiements pago pagos
performance: performances rendimiento
permission: permissions permiso permisos
phone: phones telephone telephones telefono
printer: printers imprimante imprimantes impresora
product: products produit produits producto
programming: programmation
project-manager: chef+de+projet project+manager
provider: providers supplier suppliers vendor vendors fournisseur fournisseurs prestataire prestataires proveedor
proxy: proxies
pull-request: pr prs pull+request pull+requests merge+request merge+requests
query: queries requete requetes
receipt: receipts recu recus
report: reports reporting rapport rapports
requirement: requirements exigence exigences
restaurant: restaurants restaurante
retry: retries retried retrying reessai reessayer
rounding: round+up arrondi arrondis arrondir redondeo
schedule: schedules scheduled planning horaire horaires horario
schema: schemas
school: schools ecole ecoles escuela
screen: screens ecran ecrans pantalla
script: scripts
search: searches recherche recherches rechercher busqueda
security: securite seguridad
shop: shops boutique boutiques magasin magasins storefront tienda
sister: soeur hermana
brother: frere hermano
slow: slower lent lente lents lentes ralentit lento
fast: faster rapide rapides rapido
son: fils hijo
spreadsheet: spreadsheets tableur tableurs
store: stores stored storing stocker stocke stockes stockee stockees storage stockage
street: streets rue rues calle
string: strings chaine+de+caracteres cadena
subscription: subscriptions abonnement abonnements suscripcion
tabulation: tabs tabulations
task: tasks tache taches tarea tareas
tax: taxes taxe vat tva iva impot impots impuesto
team: teams equipe equipes equipo
template: templates gabarit gabarits plantilla
thread: threads
threshold: thresholds seuil seuils umbral
timeout: timeouts time+out delai+d'attente delai+depasse
timezone: timezones time+zone fuseau+horaire
token: tokens jeton jetons
train: trains
transaction: transactions transaccion
translation: translations translate translated traduction traductions traduire traduccion
upload: uploads uploaded uploading televerser televersement
vegetarian: vegetarien vegetarienne vegetariano
video: videos
warehouse: warehouses entrepot entrepots almacen
warning: warnings avertissement avertissements
weather: meteo
wife: epouse esposa
husband: mari epoux esposo
"""

#: Folded variant to canonical word.
CANON: Final = {
    word: line.partition(":")[0].strip()
    for line in _BRIDGES.replace("\n  ", " ").strip().splitlines()
    for word in line.partition(":")[2].split()
    if "+" not in word
}
#: Folded phrase to canonical word.
PHRASES: Final = {
    phrase.replace("+", " "): line.partition(":")[0].strip()
    for line in _BRIDGES.replace("\n  ", " ").strip().splitlines()
    for phrase in line.partition(":")[2].split()
    if "+" in phrase
} | {"base de donnees": "database", "base de datos": "database"}


# Everyday words of developers, folded. They are indexed and scored (they are not stop words), but sharing one of them
# says nothing about what a prompt needs, so they never count as distinctive.

PLAIN_WORDS = frozenset(
    # English
    "able access action actually add added after again ago all already also always another answer anything app"
    " application apply ask back bad base before begin below best better big bit block both bring build bug bugs call"
    " case cause change changes check class clean clear close code column command commit company complete config"
    " configuration consider correct could create current data date day days debug decide decision default delete"
    " dev develop development different docs document done down during each easy edit else empty end engine enough"
    " env environment error errors even ever every everything example existing expect explain export extra fail fails"
    " fast feature few field file files find fine first fix fixed folder follow format found full function general get"
    " give go going good great group grow growing guess half handle happen hard have head hello help here hi high hold"
    " hour hours idea image implement import important improve include info inside install instead issue item job keep"
    " key kind know large last late later lead learn least left less letter level library like line lines link list"
    " little live local log logs long look looking lot low machine main make many match matches maybe mean message"
    " method might mind minute minutes miss missing model module moment month months move much must name need needs"
    " never new next nice no note nothing now number object off often ok old once one only open option order other"
    " output over own package page part pass path people per person pick place plan please point possible print"
    " private problem process product project prompt public pull push put question quick quickly quite read ready"
    " real really reason record refactor related release remember remove rename repo repository request result results"
    " return review right rule run running same save say screen script second see seem send server service session"
    " set setting settings setup several short show side simple since single site size small something soon sort"
    " source start state status step still stop string suggest support sure system table take task team tell test"
    " tests text thank thanks thing things think time title today together tool tools top track try turn two type"
    " under understand update upgrade url use used useful user users usually value values variable version view wait"
    " want way week weeks well why wide will word words work working works world wrong year years yes yesterday yet"
    " write writing"
    " listen listens port ports runs"
    # French
    " ecoute abord accord action affiche afficher ai aide ailleurs ainsi ajoute ajouter aller alors ancien"
    " ancienne an annee"
    " annees apres attendre attends au aujourd aucun aussi autre autres avant avec base beaucoup besoin bien bon bonne"
    " bonjour bout cas cause cela changement changer chaque chemin chose choses classe cle code combien commande"
    " commencer comment compte connexion corrige corriger cote cours creer cree demain demande demander depuis dernier"
    " derniere dernieres derniers deux devrait dire dis document doit donc donne donnees donner dossier ecrire ecris"
    " encore ensemble ensuite entre entree envoie envoyer erreur erreurs essai essaie essayer etape etat exemple"
    " existe explique expliquer exporte exporter faire fait faudra faut fichier fichiers fin fois fonction fonctionne"
    " format genre gens grand grande gros groupe heure heures hier ici idee implemente implementer important instant"
    " jamais jour jours jusqu juste la lance lancer ligne lignes lire liste lit long machine maintenant marche mettre"
    " mets mieux minute minutes mis mode modifie modifier mois moins moment montre montrer mot nom nombre non nouveau"
    " nouvelle nouveaux nouvelles numero objet ok oublie oublier oui outil outils ouvre ouvrir page parce parle partie"
    " passe passer pense penser petit petite peu peut peux place plan plus plusieurs point possible pourquoi prend"
    " prendre premier premiere presque probleme prochain prochaine produit projet projets propose puis question quoi"
    " raison rappelle refuse regarde regarder regle remplace remplacer renomme reponse requete reste resultat retour"
    " rien sais salut sauf savoir second semaine serveur service seul simple site souviens souvent suite supprime"
    " supprimer sujet sur systeme tache tard temps test tests texte titre toujours tour tout travail travaille"
    " travailler"
    " trois trop trouve trouver type utilise utiliser utilisateur utilisateurs valeur valeurs variable vers version"
    " veux vide vite voir voit vois vrai vraiment vue".split()
)


# Folding and canonical forms. `fold` replaces one character by one, so offsets in folded text equal offsets in the
# original.

_TYPOGRAPHY: Final = {"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‑": "-", "\xa0": " "}


class _FoldTable(dict[int, str]):
    """Maps characters to folded characters; filled on demand."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _TYPOGRAPHY:
            folded = _TYPOGRAPHY[char]
        else:
            base = unicodedata.normalize("NFD", char)[0].lower() if code < 0xD800 or code > 0xDFFF else char
            folded = base if len(base) == 1 else char
        self[code] = folded
        return folded


_FOLD: Final = _FoldTable()


def fold(text: str) -> str:
    """Return the text in lower case, without accents, with plain quotes and dashes; the length stays the same."""
    return text.translate(_FOLD)


_SMALL: Final = """
a an the this that these those it its it's he she they them their his her we us our you your i me my mine i'm i've
is are was were be been being am do does did done has have had will would shall should can could may might must
and or but nor so if then than as at by for from in into of off on onto out over to up with within without about
not no never always only just also too very more most much many any some all each every both other another same
here there where when while what which who whom whose why how now already still again yet ever back any-more anymore
please ok okay yes well actually really currently let's lets don't doesn't isn't aren't won't can't re ve ll d s t m
le la les l un une des du de d' au aux ce cet cette ces ca cela c qu que qui quoi dont ou et mais donc or ni car je j
tu il elle on nous vous ils elles me te se s y en ne n pas plus jamais toujours mon ma mes ton ta tes son sa ses notre
nos votre vos leur leurs est sont etait etaient sera seront suis es sommes etes ai as avons avez ont ete avoir etre
dans sur sous chez avec sans pour par vers entre depuis pendant derriere devant apres avant aussi tres bien deja encore
maintenant desormais finalement fait faire fais tout toute tous toutes si comme quand meme autre autres
el los las una unos unas del al y o pero con sin para por esta estan este esto ese esa esos es son ser estar se su sus
nuestro nuestra lo le les mi tu ya no nunca siempre ahora hay
use uses used using utilise utilisons utiliser utilisent usa usamos usar run runs running ran tourne tournent lives live
goes go going need needs via per
"""

_GENERIC_WORDS: Final = """
message content contenu analyse fichier code json response result data type value function class method
variable parameter thing things chose truc stuff way command new old nouveau nouvelle nouveaux ancien
ancienne former correction rule decision note fact info application environment server service machine
instance region zone project projet side part time local locally everything everywhere tout partout
"""
#: Words too general to name the subject of a sentence (EXT-9, and common words of developers).
GENERIC: Final = frozenset(_GENERIC_WORDS.split())
_BRIDGED: Final = frozenset({*CANON.values(), *PHRASES.values()})
STOP: Final = frozenset(_SMALL.split())
_TOKEN: Final = re.compile(r"[a-z0-9_]+(?:[.\-/:@+#][a-z0-9_]+)*(?:\(\)|\+\+|#)?")
_PHRASE: Final = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(PHRASES, key=len, reverse=True)))})\b")
_IDENTIFIER: Final = re.compile(r"[0-9_./:@#]")


def canonical(word: str) -> str:
    """Return the canonical form of a folded word: its bridged word, or the word without its plural."""
    if word in CANON:
        return CANON[word]
    if _IDENTIFIER.search(word) or len(word) < 4:
        return word
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    bare = word[:-1] if plural or word.endswith(("eaux", "eux")) else word
    return CANON.get(bare, bare)


def tokens(plain: str) -> list[str]:
    """Return the words of a folded text, in order; hyphenated words are split unless known or with a digit."""
    found: list[str] = []
    for word in _TOKEN.findall(_PHRASE.sub(lambda found: PHRASES[found[0]], plain)):
        is_kept_together = word in CANON or word in STOP or _IDENTIFIER.search(word)
        found.extend([word] if is_kept_together or word.count("-") > 1 else word.split("-"))
    return found


def content(text: str) -> tuple[str, ...]:
    """Return the canonical content words of a text, in order, with repetitions."""
    return tuple(canonical(word) for word in tokens(fold(text)) if word not in STOP and len(word) > 1)


def topic(words: Iterable[str]) -> tuple[str, ...]:
    """Return canonical words without generic ones and repetitions."""
    return tuple(dict.fromkeys(word for word in words if word not in GENERIC))


def is_bridged(word: str) -> bool:
    """Return whether a canonical word has variants."""
    return word in _BRIDGED


def variants(word: str) -> tuple[str, ...]:
    """Return all written forms with this canonical form, the word itself first."""
    return (word, *(form for form, canon in CANON.items() if canon == word and form != word))


# Subjects of reports. In "For the storefront API we decided on Drizzle" the subject is the storefront API and Drizzle;
# "we decided" only reports the decision. The words themselves stay unchanged, as do other sentences.

# ruff: noqa: E501 (a pattern is read best on one line)


_WHO: Final = r"(?:we|i|the team|they|on|nous|j'|je|l'equipe|hemos|he|el equipo)"
_HAVE: Final = r"(?:(?:'ve| have| has|'re| are| am|'m| a| avons| ai|ai)\b)?(?: (?:just|now|finally|already|all|deja|finalement|donc|enfin|ya|tous))?"
_TOLD: Final = (
    r"(?:decided (?:on|to go with|to use|to|for|that)|chose|chosen|picked|settled on|went (?:back to|with)|going (?:back to|with)|agreed (?:on|to|that)"
    r"|moved (?:from|to)|moving (?:from|to)|switched (?:from|to)|migrated (?:from|to)|replaced|adopted|dropped|use|using|prefer|started using"
    r"|choisi(?: d'utiliser| de| d')?|decide (?:d'utiliser|de|d'|que)|retenu|opte pour|adopte|abandonne|remplace|utilise|utilisons|prefere|revient (?:a|sur)|reviens (?:a|sur)"
    r"|passe (?:de|a|sur)|passons (?:de|a|sur)|migre (?:de|vers)|bascule (?:de|vers|sur)|demenage (?:de|vers)"
    r"|decidido|elegido|elegimos|usamos|adoptado|preferimos|pasamos (?:de|a))"
)
_ABOUT: Final = re.compile(
    rf"(?P<for>for|pour|para|in|dans|en|on|sur) (?P<what>.{{2,40}}?),? {_WHO} ?{_HAVE} ?{_TOLD} (?P<rest>.+)"
)
_TELLING: Final = re.compile(rf"{_WHO} ?{_HAVE} ?{_TOLD} (?P<rest>.{{3,}})")
_ARTICLE: Final = re.compile(r"(?:(?:the|our|my|les|le|la|nos|notre|mon|ma|mes|el|los|las|nuestra|nuestro) |l')(?=\S)")
#: The start of the reasons.
_REASONS: Final = re.compile(r"\s*(?:[:;(]\s|,? (?:because|since|parce qu|car|puisqu|porque)).*", re.DOTALL)


def subject_of(sentence: str) -> str:
    """Return what a report such as "we decided on ..." is about, or the sentence itself; `X: Y` if Y is about X."""
    plain = fold(sentence)
    if about := _ABOUT.fullmatch(plain):
        what = _without_article(sentence[about.start("what") : about.end("what")])
        colon = " : " if about["for"] in ("pour", "dans", "sur") else ": "
        return f"{what}{colon}{_without_reasons(sentence[about.start('rest') :])}"
    if telling := _TELLING.fullmatch(plain):
        return _without_reasons(sentence[telling.start("rest") :])
    return sentence


def _without_article(words: str) -> str:
    article = _ARTICLE.match(fold(words))
    return words[article.end() :] if article else words


def _without_reasons(text: str) -> str:
    """Return the text without the reasons."""
    return _REASONS.sub("", text)


# Names of tools by category, so that "we switched to Bun" can replace "we use pnpm". The table only needs names that
# developers write in lower case, and names whose category decides what replaces what. Capitalised words and
# identifiers are recognised without it.

_TOOLS: Final = """
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
    name: line.partition(":")[0] for line in _TOOLS.strip().splitlines() for name in line.partition(":")[2].split()
}
_AMBIGUOUS_WORDS: Final = """
go render express next chef solid compose less fish linear notion drone black rust oracle ember composer
spring nose swift key tabs spaces
"""
#: Names that are also plain words: they count only with a capital, or beside another tool.
AMBIGUOUS: Final = frozenset(_AMBIGUOUS_WORDS.split())

_EN: Final = """
a always an and are as be but by can could did do does for from has have how i if in is it my never not of or
our please should so than that the then there they this to was we were what when where which with would you
your
"""

_FR: Final = """
a au aux avec avoir bien c ce ces cette comment d dans de des donc du elle en est et etre fait il j je l la le
les m mais merci mon n ne notre nous on ou par pas plus pour pourquoi qu que quel quelle qui s si son sont sur
t ton tu un une votre vous
"""

_ES: Final = """
al como con cuando de del donde el en es esta estan este esto favor gracias hay la las le les lo los mas mi
muy no nuestro nunca o para pero por porque que se si siempre son su sus tu un una unas unos y ya
"""

Language = Literal["en", "fr", "es"]


# The user's language: a vote of function words over their last turns (RULINGS 21). It selects the language of
# Filrouge's own text. Indexing and recall do not depend on it.

#: Only the last turns vote: people change language, and an old paste should not decide.
MAX_TURNS: Final = 5
_MAX_TEXT_CHARS: Final = 4000

_STOP_WORDS: Final[dict[Language, frozenset[str]]] = {
    "en": frozenset(_EN.split()),
    "fr": frozenset(_FR.split()),
    "es": frozenset(_ES.split()),
}


#: The function words of all three languages, folded.
SMALL_WORDS: Final = frozenset(word for words in _STOP_WORDS.values() for word in words)
_LANGUAGES: Final[tuple[Language, ...]] = ("en", "fr", "es")
_FENCED: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)
_LATIN_WORD: Final = re.compile(r"[a-z]+")


def detect_language(texts: Sequence[str], former: str = "en") -> Language:
    """Return the language of the last texts in `texts` (user turns, oldest first); a tie keeps `former`."""
    counts: Counter[Language] = Counter()
    for text in texts[-MAX_TURNS:]:
        words = Counter(_LATIN_WORD.findall(fold(_FENCED.sub(" ", text[:_MAX_TEXT_CHARS]))))
        for language, stop in _STOP_WORDS.items():
            counts[language] += sum(number for word, number in words.items() if word in stop)
    best = max(counts.values(), default=0)
    winners: list[Language] = [language for language in _LANGUAGES if counts[language] == best]
    if best > 0 and len(winners) == 1:
        return winners[0]
    former_language: list[Language] = [language for language in _LANGUAGES if language == former]
    return former_language[0] if former_language else "en"
