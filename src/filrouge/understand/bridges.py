"""Bridges: the words of several languages that mean one thing, as developers and their tools use them.

A French question then meets an English memory by its words too, and a newer value of `la prod` the older one of
`production`. One line is one meaning: the word that stands for all, then every other, folded (lower case, no accents).
A phrase is written with `+` between its words. Words of two meanings are left out, except where developers have one in
mind (a `branch` is no part of a tree): a wrong bridge puts the wrong memory before a prompt, a missing one only leaves
the work to the vectors.
"""

from __future__ import annotations

from typing import Final

_LINES: Final = """
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

#: Every other folded word of a meaning, with the word that stands for all.
CANON: Final = {
    word: line.partition(":")[0].strip()
    for line in _LINES.replace("\n  ", " ").strip().splitlines()
    for word in line.partition(":")[2].split()
    if "+" not in word
}
#: Folded phrases, with the word that stands for them.
PHRASES: Final = {
    phrase.replace("+", " "): line.partition(":")[0].strip()
    for line in _LINES.replace("\n  ", " ").strip().splitlines()
    for phrase in line.partition(":")[2].split()
    if "+" in phrase
} | {"base de donnees": "database", "base de datos": "database"}
