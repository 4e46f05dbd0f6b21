"""A shop with a login on loopback, an expert that orders there, and orders to be made.

What an agent learns there it has from recordings alone: no task, oracle or scenario knows this site.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl

USERS = {"anna": "plum77", "boris": "kite31", "carla": "moss08", "deniz": "fern52"}
PRODUCTS = (
    "Blue Mug", "Oak Tray", "Linen Apron", "Copper Pan", "Glass Jug", "Wool Blanket", "Steel Kettle", "Clay Pot"
)  # fmt: skip
DELIVERIES = ("Standard", "Express", "Pickup point")
LOG_IN = (
    "<form method=post action=/login><p><label>User name <input name=user></label>"
    "<p><label>Password <input name=password></label><p><button>Log in</button></form>"
)


@dataclass(frozen=True)
class Order:
    """What is ordered by whom, and where it is sent."""

    user: str
    number: str
    product: str
    street: str
    town: str
    delivery: str

    @property
    def goal(self) -> str:
        """The order in words."""
        return (
            f"Log in as {self.user} with the password {USERS[self.user]}, order {self.number} of the {self.product}, "
            f"and have it sent to {self.street} in {self.town} by {self.delivery}."
        )


RECORDED = (
    Order("anna", "2", "Copper Pan", "14 Hill Road", "Ludwell", "Express"),
    Order("boris", "4", "Oak Tray", "7 Mill Lane", "Barton", "Pickup point"),
    Order("carla", "3", "Wool Blanket", "22 Station Road", "Helmsley", "Standard"),
)
OTHERS = (
    Order("deniz", "5", "Glass Jug", "9 Church Row", "Thorpe", "Standard"),
    Order("boris", "2", "Steel Kettle", "31 Green Street", "Kirby", "Express"),
    Order("carla", "4", "Blue Mug", "5 Park Avenue", "Denholm", "Pickup point"),
    Order("anna", "3", "Clay Pot", "88 River Walk", "Selby", "Standard"),
    Order("deniz", "2", "Linen Apron", "12 Castle Street", "Wells", "Express"),
    Order("carla", "5", "Oak Tray", "40 Abbey Road", "Malton", "Pickup point"),
    Order("boris", "3", "Glass Jug", "6 School Lane", "Otley", "Standard"),
    Order("anna", "4", "Wool Blanket", "17 Bridge Street", "Ripon", "Express"),
)


class Expert:
    """Makes an order of `RECORDED` by what stands on the page."""

    def __init__(self, order: int) -> None:
        self.order = RECORDED[order]

    def act(self, obs: dict[str, Any]) -> dict[str, Any]:
        order, elements = self.order, {(one["role"], one["name"]): one for one in obs["elements"]}
        if "on its way" in obs["page_text"]:
            return {"action": "finish", "reason": "The order is placed."}
        written = (order.user, USERS[order.user], order.street, order.town)
        for name, text in zip(("User name", "Password", "Street", "Town"), written, strict=True):
            field = elements.get(("textbox", name))
            if field and field["value"] != text:
                return {"action": "fill", "id": field["id"], "text": text}
        number, delivery = elements.get(("combobox", "Quantity")), elements.get(("radio", order.delivery))
        if number and number["value"] != order.number:
            return {"action": "select", "id": number["id"], "options": [order.number]}
        if delivery and "checked" not in delivery["states"]:
            return {"action": "click", "id": delivery["id"]}
        buttons = [("button", name) for name in ("Place order", "Add to cart", "Log in")]
        links = [("link", name) for name in ("Check out", order.product, "Log in")]
        return {"action": "click", "id": next(elements[one]["id"] for one in (*buttons, *links) if one in elements)}


class Shop(ThreadingHTTPServer):
    """The server; `orders` are those that were placed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.orders: list[Order] = []
        self.sessions: dict[str, dict[str, str]] = {}

    @property
    def url(self) -> str:
        """Where it begins."""
        return f"http://127.0.0.1:{self.server_port}/"


@contextmanager
def open_shop() -> Iterator[Shop]:
    """Serve it meanwhile."""
    with Shop() as shop:
        Thread(target=shop.serve_forever, daemon=True).start()
        yield shop
        shop.shutdown()


class _Answering(BaseHTTPRequestHandler):
    server: Shop

    @property
    def cart(self) -> dict[str, str] | None:
        """The user and what is in the cart; None: nobody has logged in."""
        return self.server.sessions.get(self.headers.get("Cookie", "").removeprefix("session="))

    def do_GET(self) -> None:
        cart = self.cart
        if self.path == "/login":
            return self.show("Log in", LOG_IN)
        if cart is None:
            return self.show("Welcome", "<p>Please log in to see what we sell.</p>")
        if self.path == "/":
            items = "".join(f'<li><a href="/product/{i}">{name}</a>' for i, name in enumerate(PRODUCTS))
            return self.show("Our products", f"<p>Hello {cart['user']}.</p><ul>{items}</ul>")
        if self.path.startswith("/product/"):
            number = int(self.path.rpartition("/")[2])
            options = "".join(f"<option>{count}</option>" for count in range(1, 6))
            return self.show(
                PRODUCTS[number],
                f"<p>Made by hand. In stock.</p><form method=post action=/add><input type=hidden name=product "
                f"value={number}><p><label>Quantity <select name=number>{options}</select></label>"
                "<p><button>Add to cart</button></form>",
            )
        if self.path == "/cart" and "product" in cart:
            line = f"{cart['number']} x {PRODUCTS[int(cart['product'])]}"
            return self.show("Cart", f'<ul><li>{line}</ul><p><a href="/checkout">Check out</a>')
        if self.path == "/checkout":
            radios = "".join(
                f'<label><input type=radio name=delivery value="{one}"> {one}</label> ' for one in DELIVERIES
            )
            return self.show(
                "Check out",
                "<form method=post action=/order><p><label>Street <input name=street></label><p><label>Town <input "
                f"name=town></label><fieldset><legend>Shipping</legend>{radios}</fieldset>"
                "<p><button>Place order</button></form>",
            )
        if self.path == "/done":
            return self.show("Thank you", "<p>Your order is on its way.</p>")
        return self.show("Cart", "<p>Your cart is empty.</p>")

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        cart = self.cart
        if self.path == "/login":
            if USERS.get(form.get("user", "")) != form.get("password"):
                return self.show("Log in", f"<p role=alert>Wrong name or password.</p>{LOG_IN}")
            key = secrets.token_hex(8)
            self.server.sessions[key] = {"user": form["user"]}
            return self.go_to("/", f"session={key}")
        if cart is None:
            return self.go_to("/login")
        cart.update(form)
        if self.path == "/add":
            return self.go_to("/cart")
        if not {"street", "town", "delivery", "product"} <= cart.keys():
            return self.go_to("/checkout")
        placed = {**cart, "product": PRODUCTS[int(cart["product"])]}
        self.server.orders.append(Order(**placed))
        return self.go_to("/done")

    def show(self, title: str, body: str) -> None:
        ways = '<a href="/cart">Cart</a>' if self.cart else '<a href="/login">Log in</a>'
        page = (
            f"<!doctype html><title>{title} - Hearth and Home</title><nav><a href='/'>Home</a> <a href='/help'>Help</a> "
            f"{ways}</nav><h1>{title}</h1>{body}<footer><a href='/terms'>Terms</a></footer>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def go_to(self, path: str, cookie: str = "") -> None:
        self.send_response(303)
        self.send_header("Location", path)
        self.send_header("Content-Length", "0")
        if cookie:
            self.send_header("Set-Cookie", f"{cookie}; Path=/")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...
