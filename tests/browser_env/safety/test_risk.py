"""A labelled corpus of actions: what should be recognised as risky, and what should be left alone."""

import pytest

from selfsurf.browser_env.actions import Click, Fill, Hover, Press, Scroll, Select, Type
from selfsurf.browser_env.safety.risk import Surroundings, assess, might_be_risky

BUTTONS = {
    "purchase": """Buy now | Place order | Place your order | Pay | Pay now | Pay $49.99 | Pay with PayPal | Confirm and pay | Buy | Purchase
        | Complete purchase | Submit order | Book now | Donate | Subscribe to Pro plan | Subscribe for $5 a month | Order now | Order | Confirm booking | Upgrade plan | Start free trial
        | Buy it now for 5 EUR | Jetzt kaufen für 5 € | Für 12 € kaufen | Comprar por 5 € | Koop nu voor € 5 | S’abonner pour 4,99 €/mois
        | Jetzt kaufen | Zahlungspflichtig bestellen | Kostenpflichtig buchen | Bestellung abschicken | Jetzt bezahlen | Mit PayPal bezahlen
        | Acheter | Payer 12,00 € | Passer la commande | Valider et payer | Commander maintenant | Confirmer l'achat
        | Comprar ahora | Pagar | Realizar pedido | Finalizar compra | Confirmar el pago | Tramitar pedido
        | Acquista ora | Paga ora | Conferma l'ordine | Effettua ordine | Prenota ora
        | Finalizar pedido | Comprar agora | Confirmar compra | Pagar agora | Encomendar
        | Checkout and pay | Reserve and pay | Finish & pay | Get it now for $9.99 | Renew for $15 | Tip $3
        | Check out with Apple Pay | Buy with Google Pay | Check out with PayPal | Authorize payment | Swipe to pay | Unlock for $2
        | Zahlung auslösen | Auftrag erteilen | Bestätigen Sie die Bestellung | Bezahlen Sie Ihre Rechnung | Buche dein Zimmer
        | Auf Premium upgraden | Gepäck hinzubuchen | Das Buch vorbestellen | Für Kinder spenden
        | Order with obligation to pay | Gebot abgeben | Buchen & bezahlen | Für 9 € freischalten
        | Commander avec obligation de paiement | Réserver et payer | Placer une enchère
        | Reservar y pagar | Pedido con obligación de pago | Hacer una puja | Prenota e paga | Ordine con obbligo di pagamento | Fai un'offerta
        | Reservar e pagar | Encomenda com obrigação de pagamento | Bestel met betaalverplichting | Reserveren en betalen | Bod plaatsen
        | Вuy now | Рау now
        | Nu kopen | Bestelling plaatsen | Betalen | Koop nu | Nu betalen | 購入する | 立即购买""",
    "delete": """Delete | Delete account | Delete my account permanently | Delete 3 files | Yes, delete it | Empty trash | Close account
        | Cancel subscription | Cancel order | Deactivate account | Erase all data | Remove user | Discard draft | Move to trash | Delete “Q3 report”
        | Löschen | Konto löschen | Endgültig löschen | Vertrag kündigen | Papierkorb leeren | Alle Dateien löschen
        | Supprimer | Supprimer le compte | Résilier l'abonnement | Vider la corbeille | Annuler ma commande
        | Eliminar | Borrar cuenta | Eliminar definitivamente | Cancelar suscripción | Vaciar la papelera
        | Elimina | Elimina account | Svuota il cestino | Cancella tutto | Annulla l'ordine
        | Excluir | Excluir conta | Apagar mensagem | Cancelar assinatura | Verwijderen | Account verwijderen | Prullenbak legen | 削除 | 删除""",
    "send": """Send | Send message | Send email | Send now | Submit application | Send invitation | Reply all | Submit request
        | Senden | Nachricht senden | Absenden | Jetzt abschicken | Envoyer | Envoyer le message | Enviar | Enviar mensaje | Enviar correo
        | Invia | Invia messaggio | Enviar mensagem | Versturen | Bericht verzenden | Verstuur bericht | 送信""",
    "publish": """Publish | Post | Post comment | Tweet | Publish changes | Go live | Submit review | Merge pull request | Deploy
        | Veröffentlichen | Beitrag veröffentlichen | Publier | Publier l'article | Publicar | Publicar comentario | Pubblica | Postar | Publiceren | Plaats reactie""",
    "transfer": """Transfer | Transfer money | Send money | Transfer $500 | Send $20 | Withdraw funds | Confirm transfer | Wire money
        | Überweisen | Jetzt überweisen | Effectuer le virement | Transferir | Hacer transferencia | Effettua il bonifico | Geld overmaken | Fazer Pix""",
    "credentials": """Change password | Reset password | Generate new token | Create API key | Authorize app | Passwort ändern | Changer le mot de passe
        | Cambiar contraseña | Alterar senha | Wachtwoord wijzigen""",
}  # fmt: skip

HARMLESS_BUTTONS = """Delete filter | Remove tag | Clear | Clear search | Order by date | Order history | Sort order | Pay attention | Reset zoom | Close
    | Cancel | No, keep it | OK | Save | Search | Next | Add to cart | Proceed to checkout | View order | Track order | My orders | Payment methods
    | Show deleted items | Deleted messages | Post code lookup | Next post | Posts | Postpone | Blog posts | Senders | Resend code | Sent | Send to back | Bring to front
    | Buy again | Acheter à nouveau | Add to cart €5.00 | In den Warenkorb 5,00 € | Save €5 | Get 5 € off | Abonnieren | S’abonner | Buying guide
    | Remove from cart | Remove from wishlist | Remove filter: red | Delete search | Edit | Reply | Share | Compose | New message | Download | Print | Expand
    | Buyer's guide | Buying options | Payroll | Paypal settings | Bookmark | Booking details | Book details | Transfer files window settings | Transferred | Undelete | Restore | Archive
    | Subscribe | Subscribe now | Subscribe to newsletter | Publisher | Published | Publications | Show password | Forgot password? | Log in | Sign up | Log out | Delivery options
    | Filter löschen | Eingabe löschen | Warenkorb | In den Warenkorb | Abbrechen | Schließen | Bestellungen | Bestellverlauf | Zahlungsarten | Gesendet | Sendungsverfolgung | Newsletter abonnieren | Löschvorgänge anzeigen
    | Ajouter au panier | Annuler | Effacer la recherche | Commandes | Trier par date | Moyens de paiement | Ordenar por fecha | Cancelar | Añadir al carrito | Borrar filtros | Pedidos | Envíos | Métodos de pago
    | Ordina per data | Annulla | Aggiungi al carrello | Cancella filtri | I miei ordini | Metodi di pagamento | Adicionar ao carrinho | Meus pedidos | Limpar filtros
    | Annuleren | In winkelwagen | Bestellingen | Wis zoekopdracht | Filter verwijderen | Sorteren op datum | Order number 4711 | Delivery address | Buy me a coffee is a website
    | Wo kaufen | Später bezahlen | Zahlen Sie später | Buchen Sie früh und sparen | Jetzt einkaufen | Aufträge | Zur Spende
    | Payer en plusieurs fois, comment ? | Microsoft will Spielefirma kaufen | Acheter ou louer : que choisir ? | Buy or rent? | Ways to pay
    | Proceed to payment | Weiter zur Zahlung | Continuer vers le paiement | PayPal | Klarna | Apple Pay | Shop Pay
    | Benefits and pay | Get $20 off | Rooms from $50 | Complete set $20 | Sans obligation de paiement
    | Delete key binding | Payment history | Send feedback settings | Pay per view explained"""  # fmt: skip

PASSWORD_FORM = Surroundings(submits=True, fields=("text", "password"), submit="Sign in")
CARD_FORM = Surroundings(submits=True, fields=("name", "cc-number", "cc-exp", "cc-csc"), submit="Continue")
SEARCH = Surroundings(submits=True, search=True, fields=("search",), submit="Send")
DELETING = Surroundings(dialog="Delete this project? This cannot be undone. Cancel OK")
FILTERING = Surroundings(dialog="Delete this filter? Cancel OK")

OTHERS = [
    # What is typed where.
    ("payment", Fill(id=1, text="4111"), "textbox", "Card number", Surroundings()),
    ("payment", Fill(id=1, text="4111"), "textbox", "", Surroundings(autocomplete="cc-number")),
    ("payment", Fill(id=1, text="12/30"), "textbox", "MM / YY", Surroundings(autocomplete="billing cc-exp")),
    ("payment", Type(id=1, text="123"), "textbox", "CVC", Surroundings(type="password")),
    ("payment", Fill(id=1, text="DE89"), "textbox", "IBAN", Surroundings()),
    ("payment", Fill(id=1, text="4111"), "textbox", "Kartennummer", Surroundings()),
    ("payment", Fill(id=1, text="4111"), "textbox", "Numéro de carte", Surroundings()),
    ("payment", Fill(id=1, text="4111"), "textbox", "Número de tarjeta", Surroundings()),
    ("payment", Select(id=1, options=("12",)), "combobox", "Month", Surroundings(autocomplete="cc-exp-month")),
    ("credentials", Fill(id=1, text="x"), "textbox", "Password", Surroundings(type="password")),
    ("credentials", Fill(id=1, text="x"), "textbox", "Geheim", Surroundings(type="password")),
    ("credentials", Fill(id=1, text="x"), "textbox", "Code", Surroundings(autocomplete="one-time-code")),
    ("credentials", Type(id=1, text="x"), "textbox", "Passwort", Surroundings()),
    ("credentials", Fill(id=1, text="x"), "textbox", "Contraseña", Surroundings()),
    ("credentials", Fill(id=1, text="x"), "textbox", "Mot de passe", Surroundings()),
    (None, Fill(id=1, text="x"), "textbox", "Email", Surroundings(autocomplete="username")),
    (None, Fill(id=1, text="x"), "textbox", "Message", Surroundings()),
    (None, Fill(id=1, text="delete everything"), "searchbox", "Search", SEARCH),
    (None, Fill(id=1, text="x"), "searchbox", "Password", Surroundings(search=True)),
    (None, Fill(id=1, text="x"), "textbox", "Gift card message", Surroundings()),
    (None, Fill(id=1, text="x"), "textbox", "Password hint", Surroundings()),
    (None, Fill(id=1, text="x"), "textbox", "Order number", Surroundings()),
    (None, Select(id=1, options=("Delete",)), "combobox", "Sort by", Surroundings()),
    # Buttons that say nothing, in a dialog or form that does.
    ("delete", Click(id=1), "button", "OK", DELETING),
    ("delete", Click(id=1), "button", "Yes", DELETING),
    ("delete", Click(id=1), "button", "Ja", Surroundings(dialog="Möchten Sie das Konto wirklich löschen? Ja Nein")),
    ("delete", Click(id=1), "button", "Confirmer", Surroundings(dialog="Supprimer ce fichier ? Confirmer Annuler")),
    ("purchase", Click(id=1), "button", "Confirm", Surroundings(dialog="You are about to buy 3 tickets. Confirm")),
    ("purchase", Click(id=1), "button", "Aceptar", Surroundings(dialog="Va a comprar este artículo. Aceptar")),
    ("publish", Click(id=1), "button", "Continue", Surroundings(dialog="Publish to 3,000 followers?")),
    ("purchase", Click(id=1), "button", "Continue", CARD_FORM),
    ("credentials", Click(id=1), "button", "Continue", PASSWORD_FORM),
    ("credentials", Click(id=1), "button", "Sign in", PASSWORD_FORM),
    (None, Click(id=1), "button", "Cancel", DELETING),
    (None, Click(id=1), "button", "No", DELETING),
    (None, Click(id=1), "button", "OK", FILTERING),
    (None, Click(id=1), "button", "OK", Surroundings(dialog="Your changes were saved. OK")),
    (None, Click(id=1), "button", "Accept", Surroundings(dialog="We use cookies to improve your experience.")),
    (None, Click(id=1), "button", "Back", CARD_FORM),
    (None, Click(id=1), "button", "Send", SEARCH),
    (None, Click(id=1), "link", "Sign in", Surroundings(href="/login")),
    (None, Click(id=1), "button", "Delete", Surroundings(opens=True)),
    # Enter and blanks.
    ("send", Press(key="Enter", id=1), "textbox", "Message", Surroundings(fields=("text",), submit="Send")),
    ("credentials", Press(key="Enter"), "textbox", "Email", PASSWORD_FORM),
    ("purchase", Press(key="Enter", id=1), "textbox", "Name", CARD_FORM),
    ("purchase", Press(key="Return", id=1), "textbox", "Name", Surroundings(submit="Jetzt kaufen")),
    ("delete", Press(key="Enter", id=1), "button", "Delete account", Surroundings()),
    ("delete", Press(key="Space", id=1), "button", "Löschen", Surroundings()),
    ("send", Type(id=1, text="hello\n"), "textbox", "Message", Surroundings(submit="Send")),
    (None, Press(key="Enter", id=1), "searchbox", "Search", SEARCH),
    (None, Press(key="Enter", id=1), "textbox", "Filter", Surroundings(submit="Apply")),
    (None, Press(key="Delete", id=1), "textbox", "Message", Surroundings(submit="Send")),
    (None, Press(key="Space", id=1), "textbox", "Message", Surroundings(submit="Send")),
    (None, Type(id=1, text="hello"), "textbox", "Message", Surroundings(submit="Send")),
    # Links lead somewhere; tabs and choices choose.
    (None, Click(id=1), "link", "Donate", Surroundings(href="/donate")),
    (None, Click(id=1), "link", "Subscribe", Surroundings(href="/plans")),
    ("delete", Click(id=1), "link", "Delete", Surroundings(href="/items/3/delete")),
    ("purchase", Click(id=1), "link", "Buy now", Surroundings(href="")),
    (None, Click(id=1), "link", "Boeken", Surroundings(href="/boeken")),
    (None, Click(id=1), "link", "Buy", Surroundings(navigates=True)),
    ("purchase", Click(id=1), "link", "Buy now", Surroundings(navigates=True)),
    (None, Click(id=1), "link", "Buy a house with our seven tips", Surroundings()),
    ("purchase", Click(id=1), "button", "→", Surroundings(title="Buy now")),
    ("purchase", Click(id=1), "button", "Continue", Surroundings(filled=("cardNumber", "email"))),
    (None, Click(id=1), "button", "Continue", Surroundings(filled=("email", "Library card"))),
    (None, Click(id=1), "link", "How to delete your account", Surroundings(href="/help")),
    (None, Click(id=1), "link", "So können Sie Ihr Konto löschen", Surroundings(href="/hilfe")),
    (None, Click(id=1), "tab", "Send", Surroundings()),
    (None, Click(id=1), "radio", "Pay with card", Surroundings()),
    (None, Click(id=1), "checkbox", "Delete after reading", Surroundings()),
    (None, Click(id=1), "textbox", "Delete reason", Surroundings()),
    ("delete", Click(id=1), "menuitem", "Delete row permanently", Surroundings()),
    ("send", Click(id=1), "generic", "Send", Surroundings()),
    # Nothing but a look.
    (None, Hover(id=1), "button", "Delete account", Surroundings()),
    (None, Scroll(dy=100), "button", "Delete account", Surroundings()),
]  # fmt: skip


# Labels of well-known products, collected after the words had been fixed: precision 0.95 and recall 0.62 then.
# Words for what was missed were added since, so the figure is no longer one of unseen labels.
LATER_RISKY = """Delete this repository | Rebase and merge | Create pull request | Delete forever | Schedule send | Place your order and pay
    | Buy now with 1-Click | Pre-order now | Rent for $3.99 | Reserve | Complete booking | Request to book | Confirm payment | Send payment | Pay in 4
    | Add funds | Permanently delete | Delete 12 selected | Remove member | Delete channel | Revoke token | Rotate secret | Regenerate client secret
    | Send invites | Share publicly | Publish to web | Send for signature | Sign and submit | Submit bid | Sell 10 shares | Buy 10 shares
    | Terminate instance | Drop table | Reset database | Format disk | Jetzt verbindlich buchen | Kauf abschließen | Abo kündigen | Mitgliedschaft beenden
    | Bewerbung absenden | Antwort senden | Kommentar abschicken | Geld überweisen | Régler la commande | Je commande | Envoyer la demande
    | Supprimer définitivement | Publier maintenant | Hacer el pago | Comprar ya | Dar de baja la cuenta | Borrar todo | Enviar solicitud
    | Completa l'acquisto | Invia richiesta | Elimina definitivamente | Procedi all'acquisto | Fechar pedido | Excluir permanentemente | Publicar agora
    | Bestelling afronden | Nu afrekenen | Definitief verwijderen | Reactie plaatsen | Abonnement opzeggen"""
LATER_HARMLESS = """Order details | Pay slips | Buy guide | Publish date | Postal code | Transfer history | Transfers | Sending limits | Bookings
    | Delete options | Donations | Sendegebiet | Kaufberatung | Bestellstatus | Löschen rückgängig machen | Supprimer le filtre | Commande n° 123
    | Payeurs | Enviados | Compras | Publicaciones | Eliminados | Ordinamento | Acquisti | Cancellati | Verzonden | Verwijderde items | Bestelstatus
    | Publish settings | Sender name | Buyer protection | Order summary | Order by price | Pay stubs | Book cover | Bid history | Undo send
    | Delivery | Payment details | Add card | View cart | Checkout | Wish list | Purchase history | Refund policy | Delete confirmation emails settings
    | Purchases | Subscriptions | Manage subscription | Drafts | Outbox | Trash | Recently deleted | Transfer guide | Deployments | Releases | Merge conflicts
    | Destroyed | Erased files | Filters | Save as draft | Preview | Close tab | Sign out"""


def element(role, name):
    return {
        "id": 1,
        "role": role,
        "name": name,
        "tag": "",
        "value": "",
        "states": (),
        "bbox": (0, 0, 9, 9),
        "in_viewport": True,
        "frame": "",
        "options": (),
    }


def corpus():
    for kind, names in BUTTONS.items():
        for name in names.split("|"):
            yield kind, Click(id=1), "button", name.strip(), Surroundings()
    for name in HARMLESS_BUTTONS.split("|"):
        yield None, Click(id=1), "button", name.strip(), Surroundings()
    yield from OTHERS


def test_precision_and_recall_over_the_corpus():
    cases = list(corpus())
    assert len(cases) >= 300
    hits = misses = false = wrong_kind = 0
    report = []
    for kind, action, role, name, around in cases:
        one = element(role, name)
        found = assess(action, one, around) if might_be_risky(action, one) else None
        got = found.kind if found else None
        if kind and got:
            hits += 1
            wrong_kind += kind != got
        misses += bool(kind and not got)
        false += bool(got and not kind)
        if got != kind:
            report.append(f"{action.name} {role} {name!r}: {got}, should be {kind}")
    precision, recall = hits / (hits + false), hits / (hits + misses)
    print(
        f"{len(cases)} cases, precision {precision:.3f}, recall {recall:.3f}, wrong kind {wrong_kind}",
        *report,
        sep="\n",
    )
    assert precision >= 0.98, report
    assert recall >= 0.98, report
    assert wrong_kind <= 2, report


def test_labels_that_the_words_were_not_made_for_at_first():
    risky = [name.strip() for name in LATER_RISKY.split("|")]
    harmless = [name.strip() for name in LATER_HARMLESS.split("|")]
    missed = [name for name in risky if assess(Click(id=1), element("button", name)) is None]
    false = [name for name in harmless if assess(Click(id=1), element("button", name))]
    hits = len(risky) - len(missed)
    precision, recall = hits / (hits + len(false)), hits / len(risky)
    print(f"{len(risky) + len(harmless)} cases, precision {precision:.3f}, recall {recall:.3f}", missed, false)
    assert precision >= 0.95, false
    assert recall >= 0.9, missed


def test_a_risk_says_why():
    risk = assess(Click(id=1), element("button", "Delete account"))
    assert risk.kind == "delete"
    assert risk.why == "The button 'Delete account' looks like one to delete or cancel something."


@pytest.mark.parametrize("name", ["", "   ", "🗑", "x" * 5000, "1 " * 5000, "(((", "a" * 100 + " delete"])
def test_odd_labels_are_no_trouble(name):
    assert assess(Click(id=1), element("button", name)) is None
