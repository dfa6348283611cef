"""Everyday words of developers, folded: sharing one of them says nothing about what a prompt needs.

Not stop words: they are indexed and scored. They only never count as a telling word by themselves.
"""

from __future__ import annotations

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
