"""Words that indicate risky actions, in several languages. Only data; `browser_env.safety.risk` uses it.

Texts are compared in lower case, without accents and with blanks for punctuation (`normal`). In English and the
Romance languages the verb comes first ("delete account"), in German and Dutch it may come last ("Konto löschen").
"""

from __future__ import annotations

import re
import unicodedata

from selfsurf.browser_env.safety.policy import RiskKind

_MY = r"(?:my |your |the |this |these |all |selected |an? |mon |ma |la |le |les |l |mi |el |los |las |il |lo |o |a |mein |dein )*"

FIRST: dict[RiskKind, tuple[str, ...]] = {
    "transfer": (
        r"transfer(?: (?:now|money|funds|amount|\d.*))?$", r"(?:send|wire|withdraw) (?:money|funds|payment|\d.*)",
        r"wire transfer$", r"withdraw$", r"(?:make|confirm|submit) " + _MY + r"transfer", r"request (?:payout|withdrawal)",
        r"(?:jetzt )?uberweisen", r"uberweisung (?:ausfuhren|senden|bestatigen|freigeben)", r"geld senden", r"auszahlen",
        r"virer ", r"(?:effectuer|faire|confirmer|valider) (?:un |le |l )?virement", r"transferer(?: \d.*| (?:de l argent|des fonds))?$",
        r"envoyer de l argent", r"retirer (?:de l argent|des fonds)",
        r"transferir(?: (?:dinero|fondos|dinheiro|ahora|agora|\d.*))?$", r"(?:hacer|confirmar|realizar) (?:una |la )?transferencia",
        r"enviar (?:dinero|dinheiro|pix)", r"retirar (?:dinero|fondos)", r"(?:fazer|confirmar) (?:uma |a )?(?:transferencia|pix)",
        r"trasferisci(?: (?:denaro|fondi|\d.*))?$", r"(?:effettua|conferma|invia) (?:un |il )?bonifico", r"invia denaro", r"preleva",
        r"(?:nu |geld )?(?:overmaken|overboeken)", r"geld sturen", r"przelej", r"перевести",
    ),
    "purchase": (
        r"buy(?: now| it now| with.*| this.*| \d.*| for .*| tickets?)?$", r"purchase(?: now| this.*| \d.*)?$", r"order(?: now| and pay.*| \d.*)?$",
        r"(?:place|submit|complete|confirm|finish) " + _MY + r"(?:order|purchase|booking|reservation|bid|payment)",
        r"(?:confirm|agree|review) and (?:pay|buy|order|purchase)", r"pay(?: (?:now|with|by|using|and|for|in|bill|invoice|balance|eur|usd|gbp|" + _MY + r"(?:bill|invoice|balance|order|rent)|\d).*)?$",
        r"make " + _MY + r"payment", r"book(?: (?:now|it|flight|this|room|tickets?|hotel|and pay).*)?$", r"(?:reserve|donate|bid|rent)(?: now| \d.*)?$",
        r"subscribe(?: now| for \d.*| \d.*| and pay)?$", r"upgrade(?: now| to .*| plan)$", r"start (?:my )?(?:free )?trial", r"1 click|one click buy|buy now.*", r"pre ?order(?: now)?$", r"rent for \d.*", r"request to book", r"add funds|top up", r"(?:buy|sell) \d+ shares",
        r"(?:jetzt )?(?:kaufen|bestellen|bezahlen|buchen|spenden)(?: \d.*)?$", r"(?:zahlungs|kosten)pflichtig", r"kauf(?:en)? (?:abschliessen|bestatigen)",
        r"bestellung (?:abschicken|aufgeben|abschliessen|bestatigen|absenden)",
        r"acheter", r"commander(?: maintenant| et payer)?$", r"passer (?:la |ma )?commande", r"payer(?: maintenant| par.*| avec.*| \d.*)?$",
        r"(?:valider|confirmer|finaliser) (?:et payer|(?:la |ma |l |mon |le )?(?:commande|achat|paiement))", r"reserver(?: maintenant)?$",
        r"s abonner", r"je commande", r"regler (?:la |ma )?(?:commande|facture)", r"faire un don", r"encherir",
        r"comprar", r"pagar(?: ahora| agora| con.*| com.*| \d.*)?$", r"hacer (?:el |un )?pago", r"fechar (?:o )?pedido", r"(?:realizar|hacer|tramitar|fazer|enviar) (?:el |mi |o )?pedido", r"finalizar (?:la |a |o )?(?:compra|pedido)",
        r"confirmar (?:la |el |a |o |mi )?(?:compra|pedido|pago|pagamento|y pagar|e pagar)", r"(?:suscribirse|suscribirme|donar|pujar|doar|encomendar)(?: ahora| agora)?$", r"reservar(?: ahora| agora)?$",
        r"acquista", r"procedi all acquisto", r"compra(?: ora| adesso| subito)?$", r"ordina(?: ora| e paga)?$", r"paga(?: ora| con.*| \d.*)?$", r"(?:effettua|invia|conferma|completa|concludi) (?:l |il |e )?(?:ordine|acquisto|pagamento|paga)",
        r"prenota(?: ora)?$", r"abbonati", r"dona(?: ora)?$",
        r"koop(?: nu)?$", r"(?:betalen|kopen|bestellen)$", r"nu (?:kopen|bestellen|betalen|boeken)", r"bestel(?: nu| en betaal)?$", r"betaal(?: nu| met.*| \d.*)?$", r"bestelling (?:plaatsen|bevestigen|afronden)", r"boek nu", r"nu afrekenen", r"doneer",
        r"kup teraz", r"zaplac", r"купить", r"оплатить",
    ),
    "publish": (
        r"publish(?: now| changes| post| article| page| site| this .*| my .*)?$", r"post$", r"post (?:now|comment|reply|review|update|tweet|message|anonymously|answer|question|ad|job|it|" + _MY + r"(?:comment|reply|review|answer|question))$",
        r"(?:re)?tweet$", r"repost$", r"share (?:now|post|publicly)$", r"go live", r"make (?:it )?public", r"deploy(?: (?:now|to .*))?$", r"submit " + _MY + r"(?:review|comment|post|listing|answer)",
        r"(?:confirm |squash and |rebase and )?merge(?: pull request)?$", r"create pull request", r"publish to .*",
        r"(?:jetzt |beitrag |artikel )?veroffentlichen", r"(?:jetzt )?posten", r"publier(?: .*)?$", r"poster(?: .*)?$", r"mettre en ligne",
        r"publicar(?: .*)?$", r"postar(?: .*)?$", r"pubblica(?: .*)?$", r"publice(?:er|ren)", r"plaats (?:bericht|reactie|review)", r"opublikuj", r"опубликовать",
    ),
    "delete": (
        r"delete(?: .*)?$", r"erase(?: .*)?$", r"destroy(?: .*)?$", r"wipe(?: .*)?$", r"purge(?: .*)?$", r"(?:permanently|yes) (?:delete|remove|erase)", r"empty " + _MY + r"(?:trash|bin|recycle bin)",
        r"(?:close|deactivate|terminate|remove) " + _MY + r"(?:account|user|member|membership|repository|project|device|domain|server|database|organi[sz]ation|team|workspace|instance|cluster)s?$", r"drop (?:table|database|column)", r"reset (?:database|all data)", r"format (?:disk|drive)", r"deactivate$",
        r"cancel " + _MY + r"(?:subscription|order|account|membership|booking|reservation|plan|flight|appointment)", r"move to (?:trash|bin)", r"discard(?: .*)?$", r"factory reset", r"uninstall(?: .*)?$",
        r"(?:endgultig |alles |konto |jetzt )?loschen(?! ruckgangig)(?: .*)?$", r"kundigen", r"(?:mitgliedschaft|abo|vertrag) beenden", r"papierkorb leeren", r"stornieren",
        r"supprimer(?: .*)?$", r"effacer (?:definitivement|mon|ma|toutes? les donnees).*", r"resilier(?: .*)?$", r"(?:cloturer|desactiver|fermer) " + _MY + r"compte", r"vider (?:la )?corbeille",
        r"annuler " + _MY + r"(?:commande|abonnement|reservation)",
        r"eliminar(?: .*)?$", r"borrar(?: .*)?$", r"suprimir(?: .*)?$", r"dar(?:se|me)? de baja", r"vaciar (?:la )?papelera", r"cancelar (?:" + _MY + r"|minha )(?:suscripcion|pedido|reserva|cuenta|assinatura|conta)",
        r"(?:cerrar|desactivar|encerrar|desativar|remover) (?:" + _MY + r"|minha )(?:cuenta|conta)",
        r"elimina(?: .*)?$", r"cancella(?: .*)?$", r"svuota (?:il )?cestino", r"disdici(?: .*)?$", r"(?:disattiva|chiudi|rimuovi) " + _MY + r"(?:account|utente)", r"annulla " + _MY + r"(?:ordine|abbonamento|prenotazione)",
        r"excluir(?: .*)?$", r"apagar(?: .*)?$", r"deletar(?: .*)?$", r"esvaziar (?:a )?lixeira",
        r"verwijder(?:en)?(?: .*)?$", r"prullenbak legen", r"annuleer (?:bestelling|abonnement|boeking)", r"usun(?: .*)?$", r"удалить(?: .*)?$",
    ),
    "send": (
        r"send(?: .*)?$", r"submit " + _MY + r"(?:message|application|request|claim|report|refusal|form|ticket)", r"schedule send", r"sign and (?:submit|send)", r"forward (?:email|message)", r"reply all",
        r"(?:jetzt |nachricht )?(?:senden|absenden|abschicken|verschicken|versenden)$", r"envoyer(?: .*)?$", r"expedier(?: .*)?$",
        r"enviar(?: .*)?$", r"mandar(?: .*)?$", r"reenviar (?:mensaje|correo)", r"encaminhar (?:mensagem|e mail|email)", r"invia(?: .*)?$", r"spedisci(?: .*)?$", r"inoltra (?:messaggio|e mail|email)",
        r"verstuur(?: .*)?$", r"verzend(?:en)?(?: .*)?$", r"versturen$", r"wyslij(?: .*)?$", r"отправить(?: .*)?$",
    ),
    "credentials": (
        r"(?:change|reset|update|save|set) " + _MY + r"(?:new )?password", r"(?:generate|create|regenerate|rotate|reveal|show|copy|revoke) " + _MY + r"(?:new )?(?:personal )?(?:api |access |secret |client )?(?:key|token|secret)s?$",
        r"(?:authori[sz]e|grant access|allow access)(?: .*)?$", r"passwort (?:andern|speichern|zurucksetzen)", r"(?:changer|modifier|reinitialiser) " + _MY + r"mot de passe",
        r"(?:cambiar|restablecer) " + _MY + r"contrasena", r"(?:alterar|redefinir|mudar) " + _MY + r"senha", r"(?:cambia|modifica|reimposta) " + _MY + r"password", r"wachtwoord (?:wijzigen|opslaan)",
    ),
}  # fmt: skip
"""Beginnings of labels."""

LAST: dict[RiskKind, tuple[str, ...]] = {
    "transfer": (r"uberweisen", r"auszahlen", r"overmaken", r"overboeken"),
    "purchase": (r"kaufen", r"bezahlen", r"bestellen", r"abonnieren", r"buchen", r"kopen", r"betalen", r"boeken"),
    "publish": (r"veroffentlichen", r"posten", r"publiceren", r"plaatsen"),
    "delete": (r"loschen", r"kundigen", r"(?:mitgliedschaft|abo|vertrag) beenden", r"deaktivieren", r"stornieren", r"verwijderen", r"opzeggen", r"deactiveren", r"annuleren"),
    "send": (r"senden", r"absenden", r"abschicken", r"verschicken", r"versenden", r"verzenden", r"versturen", r"sturen"),
}  # fmt: skip
"""Endings of short labels of at least two words."""

INSIDE: dict[RiskKind, str] = {
    "delete": "削除|删除|刪除|삭제", "purchase": "購入|注文する|注文を確定|支払|购买|購買|支付|付款|结算并付款|구매|결제", "send": "送信|发送|發送|보내기",
    "publish": "公開する|投稿する|发布|發佈|게시", "transfer": "振込|送金|转账|轉帳|송금",
}  # fmt: skip
"""Verbs of languages without blanks between words, anywhere in a label."""

SAID: dict[RiskKind, str] = {
    "transfer": r"transfer \D{0,20}\d|transfer (?:money|funds)|uberweis\w+|virement|transferencia|bonifico|overboek\w+",
    "purchase": r"place (?:your|the|this) order|buy|purchase|pay|payment of|be charged|bezahlen|kaufen|bestellung|acheter|payer|commande|comprar|pagar|acquist\w+|pagare|kopen|betalen",
    "delete": r"delet\w+|permanently|cannot be undone|can t be undone|eras\w+|losch\w+|geloscht|unwiderruflich|supprim\w+|irreversible|elimin\w+|borrar|excluir|apagar|cancellare|verwijder\w+",
    "publish": r"publish|veroffentlich\w+|publier|publicar|pubblicare|publiceren|go live",
    "send": r"send (?:this|the|your|message|email|to)|senden|envoyer|enviar|inviare|verzenden|versturen",
}
"""What a dialog says about the effect of its "OK", anywhere in its text."""

HARMLESS = re.compile(
    r"\b(?:filtr?[eos]*|filtres?|filtri|filters?|tags?|etiquetas?|etiquettes?|schlagwort|labels?|search(?:es)?|such\w*|recherche|busqueda|ricerca|pesquisa|zoek\w*|selection|auswahl"
    r"|sort\w*|sorting|highlights?|formatting|formatierung|text|input|eingabe|field|feld|line break|facets?"
    r"|newsletter|feed|rss|from (?:cart|basket|bag|wishlist|favou?rites|list|comparison)|warenkorb|panier|carrito|carrello|carrinho|winkelwagen"
    r"|to (?:back|front|cart)|code|link|cookies? (?:settings|preferences)|settings|options?|einstellungen|history\b(?= page)|method|methods"
    r"|attention|later|as draft|key\b(?= binding)|key$(?<=delete key)|points?$|row$|column$|zeile$|spalte$|token$(?<=search token)|messages?$(?<=sent messages)|an idea)\b"
)
"""Words that make a label harmless, whatever its verb."""

NEVER_MIND = re.compile(
    r"(?:cancel|no|nope|close|back|go back|keep|never ?mind|not now|dismiss|skip|later|abbrechen|nein|schliessen|zuruck|behalten|annuler|non|fermer|retour|garder"
    r"|cancelar|cerrar|volver|mantener|annulla|chiudi|indietro|nao|fechar|voltar|manter|annuleren|annuleer|nee|sluiten|terug|behouden|x|×)(?:\b.*)?$"
)
"""Answers without consequences."""

GO_AHEAD = re.compile(
    r"(?:ok|okay|yes|yep|sure|confirm|continue|submit|proceed|accept|agree|done|finish|apply|next|save|go|i understand.*|i am sure|remove|approve|bestatigen|ja|weiter|fortfahren|ubernehmen|fertig|entfernen"
    r"|oui|confirmer|valider|continuer|soumettre|accepter|terminer|retirer|si|confirmar|continuar|aceptar|acepto|quitar|listo|conferma|continua|procedi|accetta|rimuovi|sim|aceitar|prosseguir|remover|concluir|bevestigen|bevestig|doorgaan|akkoord|toepassen|tak|да|подтвердить|はい|确定|确认|是)(?: .{0,24})?$"
)
"""Labels that say nothing by themselves: their dialog or form says what they do."""

LOG_IN = re.compile(
    r"(?:sign in|log ?in|log on|sign up|register|create (?:an )?account|join|anmelden|einloggen|registrieren|se connecter|connexion|s identifier|s inscrire|iniciar sesion|acceder|entrar|registrarse"
    r"|accedi|entra|registrati|iniciar sessao|cadastrar|inloggen|aanmelden|registreren)(?:\b.*)?$"
)
PAYMENT_FIELD = re.compile(
    r"(?:(?:credit |debit )?card (?:number|no)|name on card|cardholder.*|card ?holder name|cvv2?|cvc2?|csc|security code|card security code|expiry(?: date)?|expiration date|mm ?yy|iban|bic|sort code|routing number|(?:bank )?account number"
    r"|karten ?nummer|kreditkarten ?nummer|prufziffer|kartenprufnummer|ablaufdatum|kontonummer|numero de (?:la )?(?:carte|tarjeta)|numero do cartao|numero (?:della )?carta(?: di credito)?|codigo de seguridad|codigo de seguranca"
    r"|cryptogramme.*|code de securite|codice di sicurezza|kaartnummer|rekeningnummer|beveiligingscode)(?: \w+)?$"
)
PASSWORD_FIELD = re.compile(
    r"(?:(?:your |current |old |new |confirm |repeat |master |enter (?:your )?)*(?:password|passphrase|passcode|pin|pin code)|one time (?:code|password)|otp|verification code|2fa code|authentication code"
    r"|(?:neues |altes )?(?:passwort|kennwort)|(?:nouveau )?mot de passe|contrasena|clave|senha|palavra passe|wachtwoord|haslo|пароль|密码)(?: again| confirmation| wiederholen)?$"
)


def normal(text: str) -> str:
    """Return a text in lower case, without accents, with single blanks for punctuation."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("İ", "I"))
    plain = "".join(char for char in plain if not unicodedata.combining(char)).lower()
    return re.sub(r"[\W_]+", " ", plain).strip()
