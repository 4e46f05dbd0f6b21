"""Every way that a page or an agent reaches out, to every spelling of a host, under several lists of allowed hosts."""

import contextlib
import http.server
import json
import socket
import threading
from dataclasses import dataclass, field

import gymnasium
import psutil
import pytest

from selfsurf.browser_env import Safety, Secret
from tests.few import few
from tests.processes import crowd, until

SECRET = "correct-horse-battery"
ENOUGH = 160
"""Steps of 50 ms for a page to have tried everything: after many failures Chromium puts a WebSocket off by up to 5 s."""


class Host:
    """A server on all addresses of this machine: it records who connects and what is sent, and shows `page`."""

    page = ""

    def __init__(self):
        self.connections = 0
        self.sent = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                outer.sent.append(f"{self.path} {body}")
                path, _, query = self.path.partition("?")
                if path == "/hop":
                    self.send_response(302)
                    self.send_header("location", query)
                else:
                    self.send_response(200)
                    kind = "text/javascript" if path.endswith(".js") else "text/html"
                    self.send_header("content-type", kind)
                self.send_header("access-control-allow-origin", "*")
                self.end_headers()
                refresh = f"<meta http-equiv=refresh content='0;url={query}'>"
                own = {"/start": outer.page, "/refresh": refresh, "/worker.js": SERVICE_WORKER}
                self.wfile.write(f"{own.get(path, '<title>arrived</title>')}".encode())

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
            daemon_threads = True

            def server_bind(self):
                if self.address_family == socket.AF_INET6:
                    self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                super().server_bind()

            def process_request(self, request, client):
                outer.connections += 1
                super().process_request(request, client)

            def handle_error(self, request, client):
                pass  # a connection that was closed, or no HTTP

        self._server = Server(("", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def interface():
    """Return an address of this machine other than loopback; empty if it has none."""
    found = [each for name in psutil.net_if_addrs().values() for each in name if each.family == socket.AF_INET]
    return next((each.address for each in found if not each.address.startswith("127.")), "")


@dataclass
class Place:
    """A page to start at, hosts that are allowed, and which hosts can be reached from there."""

    home: str
    reached: tuple[str, ...]
    refused: tuple[str, ...]
    allowed: tuple[str, ...] = ()
    env: gymnasium.Env | None = field(default=None, repr=False)


FOUR = ("127.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "[::ffff:127.0.0.1]")
"""Spellings of 127.0.0.1."""
NAMES = ("localhost", "LOCALHOST", "localhost.", "evil.localhost")
OTHERS = ("127.0.0.2", "[::1]", "0.0.0.0", "[::]")
LAN = interface()
LINK_LOCAL = "169.254.7.7"

PLACES = {
    "an address": Place("127.0.0.1", ("127.0.0.1", *FOUR), (*NAMES, *OTHERS, LINK_LOCAL, LAN), ("127.0.0.1",)),
    "a name": Place("localhost", NAMES[:3], (NAMES[3], "127.0.0.1", *FOUR, *OTHERS, LAN), ("localhost",)),
    "a port": Place("127.0.0.1", (), ("127.0.0.1", *FOUR, *NAMES, *OTHERS, LAN), ("127.0.0.1:{home}",)),
    "a private network": Place(LAN, (LAN,), ("127.0.0.1", *FOUR, *NAMES, *OTHERS), (LAN,)),
    "another network": Place("127.0.0.1", ("127.0.0.1", LAN), (*NAMES, *OTHERS), (LAN,)),
    "no list": Place("127.0.0.1", ("127.0.0.1", *FOUR, *NAMES), ("0.0.0.0", "[::]", LINK_LOCAL, LAN)),
}

SERVICE_WORKER = """
const urls = JSON.parse(decodeURIComponent(location.search.slice(1)));
oninstall = (e) => e.waitUntil(Promise.all(urls.map((url) => fetch(url, {mode: 'no-cors'}).catch(() => 0))));
"""

EACH = "<script>for (const url of {urls}) { {do} }</script>"
MARKUP = "<script>document.write({urls}.map((url) => `{do}`).join(''))</script>"
AT_ONCE = {
    "fetch": (EACH, "fetch(url, {mode: 'no-cors', method: 'POST', body: 'x'}).catch(() => 0)"),
    "beacon": (EACH, "navigator.sendBeacon(url, 'x')"),
    "image": (MARKUP, "<img src='${url}'>"),
    "redirected fetch": (EACH, "fetch('/hop?' + url, {mode: 'no-cors'}).catch(() => 0)"),
    "web socket": (EACH, "new WebSocket(url.replace('http', 'ws'))"),
    "request": (EACH, "const r = new XMLHttpRequest(); r.open('GET', url); r.send()"),
    "frame": (MARKUP, "<iframe src='${url}'></iframe>"),
    "frame that goes on": (MARKUP, "<iframe src='/hop?/refresh?${url}'></iframe>"),
    "script": (MARKUP, "<script src='${url}'><\\/script>"),
    "module": (EACH, "import(url).catch(() => 0)"),
    "style": (MARKUP, "<link rel=stylesheet href='${url}'>"),
    "font": (EACH, "new FontFace('f', `url(${url})`).load().catch(() => 0)"),
    "video": (MARKUP, "<video src='${url}' autoplay></video>"),
    "object": (MARKUP, "<object data='${url}'></object>"),
    "events": (EACH, "new EventSource(url)"),
    "twice redirected fetch": (EACH, "fetch('/hop?/hop?' + url, {mode: 'no-cors'}).catch(() => 0)"),
    "redirected image": (MARKUP, "<img src='/hop?${url}'>"),
    "worker": (
        EACH,
        "new Worker(URL.createObjectURL(new Blob([`fetch('${url}', {mode: 'no-cors'}).catch(() => 0)`])))",
    ),
    "service worker": (
        "<script>navigator.serviceWorker.register('/worker.js?' + encodeURIComponent('{urls}'))</script>",
        "",
    ),
    "prefetch": (MARKUP, "<link rel=prefetch href='${url}'>"),
    "https": (EACH, "fetch(url.replace('http', 'https'), {mode: 'no-cors'}).catch(() => 0)"),
}
"""Ways of a page that stays."""

ONE_BY_ONE = {
    "link": "<a href='{url}'>Go</a>",
    "form": "<form action='{url}' method=post><input name=password aria-label=password><button>Go</button></form>",
    "redirect": "<a href='/hop?{url}'>Go</a>",
    "popup": "<button onclick=\"window.open('{url}')\">Go</button>",
    "navigate": "",
    "get form": "<form action='{url}'><input name=password aria-label=password><button>Go</button></form>",
    "twice redirected": "<a href='/hop?/hop?{url}'>Go</a>",
    "redirected form": "<form action='/hop?{url}' method=post><button>Go</button></form>",
    "refresh": "<a href='/refresh?{url}'>Go</a>",
    "script": "<button onclick=\"location = '{url}'\">Go</button>",
    "blank link": "<a href='{url}' target=_blank>Go</a>",
    "new_tab": "",
    "ping": "<a href='#here' ping='{url}'>Go</a>",
}
"""Ways of a tab that leaves, of a new one, and of actions."""


@pytest.fixture(scope="module")
def home():
    server = Host()
    yield server
    server.close()


@pytest.fixture(scope="module")
def started(home):
    """Return a function that returns a place with its environment, which all tests of the place share."""
    for place in PLACES.values():
        place.env = None

    def start(name):
        place = PLACES[name]
        if not (place.home and all(place.allowed)):
            pytest.skip("this machine has no address but loopback")
        if place.env is None:
            safety = Safety(
                allowed=tuple(host.replace("{home}", str(home.port)) for host in place.allowed),
                secrets={"password": Secret(SECRET, domains=(place.home,))},
            )
            place.env = gymnasium.make(
                "Browser-v0", start_url=f"http://{place.home}:{home.port}/", safety=safety, screenshot=False,
                max_episode_steps=100_000,
            )  # fmt: skip
            place.env.reset(seed=0)
        return place

    yield start
    for place in PLACES.values():
        if place.env is not None:
            place.env.close()


@pytest.fixture
def hosts():
    """Return a function that starts a server for each spelling: `{spelling: server}`."""
    with contextlib.ExitStack() as stack:

        def serve(spellings):
            servers = {spelling: Host() for spelling in spellings if spelling}
            for server in servers.values():
                stack.callback(server.close)
            return servers

        yield serve


def show(place, home, html):
    home.page = f"<!doctype html><title>start</title>{html}"
    obs, *_ = place.env.step({"action": "navigate", "url": f"http://{place.home}:{home.port}/start"})
    assert (obs["title"], obs["last_error"]) == ("start", "")
    return obs


def of_port(events, port):
    return [event for event in events if event.startswith("blocked: ") and f":{port}" in event]


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("way", few(2, AT_ONCE))
def test_a_page_reaches_only_where_it_may(started, home, hosts, name, way):
    place = started(name)
    if way == "service worker" and place.home == LAN:
        pytest.skip("there are service workers on secure origins only")
    reached, refused = hosts(place.reached), hosts(place.refused)
    template, do = AT_ONCE[way]
    urls = [f"http://{spelling}:{server.port}/x" for spelling, server in {**reached, **refused}.items()]
    obs = show(place, home, template.replace("{do}", do).replace("{urls}", json.dumps(urls)))
    said = list(obs["events"])
    for _ in range(int(ENOUGH * crowd())):
        if all(of_port(said, server.port) for server in refused.values()):
            break
        obs, *_ = place.env.step({"action": "wait", "ms": 50})
        said += obs["events"]
    assert [spelling for spelling, server in refused.items() if server.connections] == []
    assert [spelling for spelling, server in refused.items() if not of_port(said, server.port)] == []
    assert until(lambda: all(server.connections for server in reached.values())), {
        spelling: server.connections for spelling, server in reached.items()
    }
    assert [event for server in reached.values() for event in of_port(said, server.port)] == []


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("way", few(1, ONE_BY_ONE))
def test_a_tab_goes_only_where_it_may(started, home, hosts, name, way):
    place = started(name)
    reached, refused = hosts(place.reached), hosts(place.refused)
    for spelling, server in {**reached, **refused}.items():
        url = f"http://{spelling}:{server.port}/x"
        obs = show(place, home, ONE_BY_ONE[way].replace("{url}", url))
        if way in ("navigate", "new_tab"):
            obs, *_ = place.env.step({"action": way, "url": url})
        else:
            if "form" in way and "redirected" not in way:
                obs, *_ = place.env.step(
                    {"action": "fill", "selector": "input[name=password]", "text": "<secret:password>"}
                )
            obs, *_ = place.env.step({"action": "click", "selector": "text=Go"})
        said = list(obs["events"])
        for _ in range(int(ENOUGH * crowd())):
            if server.connections or of_port(said, server.port):
                break
            obs, *_ = place.env.step({"action": "wait", "ms": 50})
            said += obs["events"]
        if spelling in reached:
            assert until(lambda: any("/x" in line for line in server.sent)), (spelling, obs["last_error"])  # noqa: B023
            assert not of_port(said, server.port)
        else:
            assert of_port(said, server.port), spelling
            assert way == "ping" or f":{server.port}/x" in obs["last_error"], spelling
            assert server.connections == 0, spelling
        while len(obs["tabs"]) > 1:
            obs, *_ = place.env.step({"action": "close_tab"})
        if "form" in way and "redirected" not in way:
            assert any(SECRET in line for line in server.sent) is (spelling in reached), spelling
