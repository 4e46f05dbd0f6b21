import asyncio
import ipaddress
import socket
import threading
import time

import gymnasium
import pytest

from selfsurf import browser_env
from selfsurf.browser_env.safety import Safety, proxy
from selfsurf.browser_env.safety.network import Rules, clean_host, is_private, matches
from tests.few import few

PUBLIC = "data:text/html,<title>outside</title><button>Go</button>"
EVIL = {"blocked": ("evil.localhost",)}


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0x7f000001", "127.0.0.1"), ("2130706433", "127.0.0.1"), ("017700000001", "127.0.0.1"), ("127.1", "127.0.0.1"),
        ("10.0x0.0.1", "10.0.0.1"), ("[::1]", "::1"), ("[::FFFF:10.0.0.1]", "10.0.0.1"), ("EXAMPLE.org.", "example.org"),
        ("bücher.example", "xn--bcher-kva.example"), ("1.2.3.4.5", "1.2.3.4.5"), ("straße.example", "xn--strae-oqa.example"),
        ("ΟΔΌΣ.example", "xn--pxavn9a.example"), ("οδός。example", "xn--pxavk3b.example"), ("a..b", "a..b"), ("10.example", "10.example"),
    ],
)  # fmt: skip
def test_hosts_have_one_spelling(host, address):
    assert clean_host(host) == address


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("8.8.8.8", False), ("2606:4700:4700::1111", False), ("10.1.2.3", True), ("172.16.0.1", True), ("172.32.0.1", False),
        ("192.168.1.1", True), ("127.8.8.8", True), ("169.254.169.254", True), ("100.64.0.1", True), ("0.0.0.0", True),
        ("224.0.0.1", True), ("::1", True), ("::", True), ("fe80::1", True), ("fd00:ec2::254", True), ("::ffff:10.0.0.1", True),
        ("::ffff:8.8.8.8", False), ("64:ff9b::a00:1", True), ("2002:a00:1::", True), ("::10.0.0.1", True), ("ff02::1", True),
    ],
)  # fmt: skip
def test_private_addresses_in_all_their_forms(address, private):
    assert is_private(ipaddress.ip_address(address)) is private


@pytest.mark.parametrize(
    ("pattern", "host", "port", "yes"),
    [
        ("example.org", "example.org", 80, True), ("example.org", "www.example.org", 80, False),
        ("*.shop.test", "a.b.shop.test", 443, True), ("*.shop.test", "shop.test", 443, True), ("*.shop.test", "evilshop.test", 443, False),
        ("10.0.0.5:8000", "10.0.0.5", 8000, True), ("10.0.0.5:8000", "10.0.0.5", 80, False), ("[::1]:90", "::1", 90, True),
        ("::1", "::1", 5, True), ("*", "what.ever", 1, True), ("Example.ORG", "example.org", None, True),
    ],
)  # fmt: skip
def test_patterns(pattern, host, port, yes):
    assert matches(pattern, host, port) is yes


def test_wrong_settings_are_refused_clearly():
    with pytest.raises(ValueError, match=r"Safety.allowed must be a tuple, such as \('example.org',\)"):
        Safety(allowed="example.org")
    with pytest.raises(ValueError, match="takes hosts such as"):
        Safety(blocked=("http://example.org/",))
    with pytest.raises(ValueError, match="neither http:// nor socks5://"):
        proxy.FilteringProxy(Rules(Safety()), {"server": "https://proxy.test:1"})


def test_an_own_page_on_loopback_works_and_with_it_the_whole_machine(visit, server):
    server.pages["/api"] = "<title>api</title>"
    env, obs = visit("<p>hello", host="127.0.0.1")
    assert obs["title"] == "start"
    for host in ("localhost", "0x7f.1", "any.localhost"):
        obs, *_ = env.step({"action": "navigate", "url": server.url(host, "/api")})
        assert (obs["last_error"], obs["title"]) == ("", "api")


def test_what_a_tasks_own_setup_opens_is_its_own(server):
    server.pages["/"] = "<title>mine</title>"

    class Mine(browser_env.Task):
        async def setup(self, page, rng):
            await page.goto(server.url())
            return "Look."

    env = gymnasium.make("Browser-v0", task=Mine(), screenshot=False)
    obs, _ = env.reset(seed=0)
    assert obs["title"] == "mine"
    env.close()


class Waits(browser_env.Task):
    """Has a setup of its own that opens the start page."""

    async def setup(self, page, rng):
        await page.goto(self.start_url)
        await page.wait_for_timeout(300)
        return "Look."


GONE_BLANK = """<script>const opened = open('about:blank'); opened.eval(`setTimeout(() => opener.location = '{}', 200)`);
    location = 'about:blank'</script>"""


GOES = "<script>location = '{}'</script>"
OPENS = "<script>const opened = open('about:blank'); opened.location = '{}'</script>"


@pytest.mark.parametrize(
    ("kind", "html"),
    [
        (browser_env.Task, GOES),
        (browser_env.Task, OPENS),
        (Waits, GONE_BLANK),
        pytest.param(Waits, GOES, marks=pytest.mark.slow),
        pytest.param(Waits, OPENS, marks=pytest.mark.slow),
        pytest.param(browser_env.Task, GONE_BLANK, marks=pytest.mark.slow),
    ],
)
def test_a_start_page_admits_nothing(server, monkeypatch, kind, html):
    async def lookup(host):
        return [ipaddress.ip_address("127.0.0.1")]

    monkeypatch.setattr(proxy, "lookup", lookup)
    inside = server.url("inside.test", "/secret")
    server.pages["/secret"] = "<title>secret</title>"
    server.pages["/"] = "<title>start</title>" + html.replace("{}", inside)
    for safety in (Safety(), Safety(allowed=("start.test",))):
        task = kind(start_url=server.url("start.test"))
        env = gymnasium.make("Browser-v0", task=task, safety=safety, screenshot=False)
        env.reset(seed=0)
        obs, *_ = env.step({"action": "wait", "ms": 400})
        obs, *_ = env.step({"action": "navigate", "url": inside})
        assert "was not opened" in obs["last_error"]
        assert server.asked("inside.test") == []
        env.close()


def test_a_start_page_may_be_elsewhere_by_now(server, monkeypatch):
    async def lookup(host):
        return [ipaddress.ip_address("8.8.8.8")]

    async def connect(host, port, **options):
        return await opened("127.0.0.1" if host == "8.8.8.8" else host, port, **options)

    opened = asyncio.open_connection
    monkeypatch.setattr(proxy, "lookup", lookup)
    monkeypatch.setattr(asyncio, "open_connection", connect)
    server.pages["/"] = (301, {"location": server.url("www.moved.test", "/home")}, "")
    server.pages["/home"] = "<title>home</title>"
    env = gymnasium.make("Browser-v0", start_url=server.url("moved.test"), screenshot=False)
    obs, _ = env.reset(seed=0)
    assert obs["title"] == "home"
    env.close()


def test_the_start_page_of_a_later_reset_is_the_tasks_own(server):
    server.pages["/"] = "<title>mine</title>"
    task = browser_env.Task(start_url=PUBLIC)
    task.keeps_session = True
    env = gymnasium.make("Browser-v0", task=task, screenshot=False)
    env.reset(seed=0)
    obs, _ = env.reset(seed=0, options={"start_url": server.url()})
    assert obs["title"] == "mine"
    env.close()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "x.localhost", "0x7f.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_an_agent_from_outside_does_not_get_into_private_networks(server, host):
    env = gymnasium.make("Browser-v0", start_url=PUBLIC, screenshot=False)
    env.reset(seed=0)
    url = server.url(host)
    obs, *_ = env.step({"action": "navigate", "url": url})
    assert obs["last_error"] == f"{url} was not opened: private network."
    assert obs["events"] == (f"blocked: {url} (private network)",)
    assert obs["title"] == "outside"
    assert env.unwrapped.core.episode.steps == 1
    assert server.seen == []
    env.close()


def test_private_networks_can_be_allowed_whole_or_by_host(server):
    server.pages["/"] = "<title>in</title>"
    for safety in (
        Safety(allow_private=True),
        Safety(allowed=(f"127.0.0.1:{server.port}",)),
        Safety(allowed=("127.0.0.1",)),
    ):
        env = gymnasium.make("Browser-v0", start_url=PUBLIC, safety=safety, screenshot=False)
        env.reset(seed=0)
        obs, *_ = env.step({"action": "navigate", "url": server.url()})
        assert (obs["title"], obs["last_error"]) == ("in", "")
        env.close()


@pytest.mark.parametrize("way", few(3, ["link", "script", "meta", "redirect", "popup", "redirected popup", "form"]))
def test_top_navigations_of_every_kind_are_held_back(visit, server, way):
    evil = server.url("evil.localhost", "/bad")
    server.pages["/bad"] = "<title>bad</title>"
    server.pages["/hop"] = (302, {"location": "/hop2"}, "")
    server.pages["/hop2"] = (307, {"location": evil}, "")
    html = {
        "link": f"<a href='{evil}'>Go</a>",
        "script": f"<button onclick=\"location = '{evil}'\">Go</button>",
        "meta": "<a href=/meta>Go</a>",
        "redirect": "<a href=/hop>Go</a>",
        "popup": f"<button onclick=\"window.open('{evil}')\">Go</button>",
        "redirected popup": "<a href=/hop target=_blank>Go</a>",
        "form": f"<form action='{evil}'><button>Go</button></form>",
    }[way]
    server.pages["/meta"] = f"<meta http-equiv=refresh content='0;url={evil}'>"
    env, obs = visit(html, **EVIL)
    obs, *_ = env.step({"action": "click", "id": obs["elements"][0]["id"]})
    for _ in range(10):
        if obs["last_error"]:
            break
        obs, *_ = env.step({"action": "wait", "ms": 100})  # a refresh may come after the page has settled
    assert obs["last_error"].replace("/bad?", "/bad") == f"{evil} was not opened: blocked domain."
    assert any(event.startswith(f"blocked: {evil}") for event in obs["events"])
    assert server.asked("evil.localhost") == []


SUBRESOURCES = {
    "frame": "<iframe src='{}'></iframe>",
    "image": "<img src='{}'>",
    "script": "<script src='{}'></script>",
    "style": "<link rel=stylesheet href='{}'>",
    "fetch": "<script>fetch('{}', {{mode: 'no-cors'}}).catch(() => 0)</script>",
    "redirected fetch": "<script>fetch('/hop', {{mode: 'no-cors'}}).catch(() => 0)</script>",
    "worker fetch": "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('{}', {{mode: 'no-cors'}}).catch(() => 0)\"])))</script>",
    "beacon": "<script>navigator.sendBeacon('{}', 'x')</script>",
    "prefetch": "<link rel=prefetch href='{}'><link rel=preconnect href='{}'>",
    "websocket": "<script>new WebSocket('{}'.replace('http', 'ws'))</script>",
    "events": "<script>new EventSource('{}')</script>",
    "video": "<video src='{}' autoplay></video>",
}


@pytest.mark.parametrize("kind", few(5, SUBRESOURCES))
def test_subresources_of_every_kind_are_held_back(visit, server, kind):
    evil = server.url("evil.localhost", "/bad")
    server.pages["/hop"] = (302, {"location": evil, "access-control-allow-origin": "*"}, "")
    env, obs = visit(SUBRESOURCES[kind].replace("{}", evil).replace("{{", "{").replace("}}", "}"), **EVIL)
    said = list(obs["events"])
    for _ in range(20):
        if any("blocked" in event for event in said):
            break
        obs, *_ = env.step({"action": "wait", "ms": 50})
        said += obs["events"]
    assert any(event.startswith("blocked: ") and "evil.localhost" in event for event in said), said
    assert server.asked("evil.localhost") == []
    assert obs["last_error"] == ""  # the agent did not ask for it
    if kind in ("image", "frame", "fetch", "redirected fetch"):
        assert f"blocked: {evil} (blocked domain)" in said


def test_a_service_worker_does_not_get_out_either(visit, server):
    evil = server.url("evil.localhost", "/bad")
    server.pages["/sw.js"] = (200, {"content-type": "text/javascript"}, f"""
        oninstall = (e) => {{ skipWaiting(); e.waitUntil(fetch('{evil}', {{mode: 'no-cors'}}).catch(() => 0)); }};""")  # fmt: skip
    env, obs = visit(
        "<script>navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready).then(() => document.title = 'ready')</script>",
        **EVIL,
    )
    said = list(obs["events"])
    for _ in range(40):
        if obs["title"] == "ready" and any("blocked" in event for event in said):
            break
        obs, *_ = env.step({"action": "wait", "ms": 50})
        said += obs["events"]
    assert obs["title"] == "ready"
    assert (
        f"blocked: evil.localhost:{server.port} (blocked domain)" in said or f"blocked: {evil} (blocked domain)" in said
    )
    assert server.asked("evil.localhost") == []


def test_only_allowed_domains_and_the_tasks_own(visit, server):
    server.pages["/x"] = "<title>x</title>"
    env, _ = visit("<p>start", allowed=("*.shop.localhost",))
    for host, why in [
        ("www.shop.localhost", ""),
        ("shop.localhost", ""),
        ("good.localhost", ""),
        ("ashop.localhost", "not an allowed domain"),
    ]:
        url = server.url(host, "/x")
        obs, *_ = env.step({"action": "navigate", "url": url})
        assert obs["last_error"] == (f"{url} was not opened: {why}." if why else "")
    assert server.asked("ashop.localhost") == []


def test_a_blocked_site_of_the_task_is_blocked(open_page):
    env, _ = open_page("<p>x", options={"safety": Safety(blocked=("other.test",))})
    obs, *_ = env.step({"action": "navigate", "url": "http://www.other.test/"})
    assert "blocked domain" in obs["last_error"]
    obs, *_ = env.step({"action": "navigate", "url": "http://other.test/index.html"})
    assert "blocked domain" in obs["last_error"]


def test_a_websocket_goes_through_to_where_it_may(visit, server):
    import base64
    import hashlib

    def echo(listener):
        client, _ = listener.accept()
        head = client.recv(65536).decode()
        key = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
        token = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()
        client.send(
            f"HTTP/1.1 101 ok\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {token}\r\n\r\n".encode()
        )
        client.send(b"\x81\x02hi")
        time.sleep(1)
        client.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        env, obs = visit(
            f"<script>new WebSocket('ws://ws.localhost:{port}').onmessage = (e) => document.title = e.data</script>",
            **EVIL,
        )
        for _ in range(20):
            if obs["title"] == "hi":
                break
            obs, *_ = env.step({"action": "wait", "ms": 50})
        assert obs["title"] == "hi"


def test_webrtc_sends_nothing_past_the_gate(visit):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(0.1)
        port = listener.getsockname()[1]
        stun = f"""<script>const pc = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{port}'}}]}});
            pc.createDataChannel('x'); pc.onicegatheringstatechange = () => document.title = pc.iceGatheringState;
            pc.createOffer().then((offer) => pc.setLocalDescription(offer))</script>"""
        heard = {}
        for private in (False, True):
            env, _ = visit(stun, allow_private=private, host="127.0.0.1")
            for _ in range(8):
                env.step({"action": "wait", "ms": 50})
            try:
                heard[private] = bool(listener.recv(2000))
            except TimeoutError:
                heard[private] = False
        assert heard == {False: False, True: True}  # without rules nothing is held back, so the test can fail


def test_names_that_resolve_to_private_addresses(server, monkeypatch):
    answers = {"rebind.test": ["127.0.0.1"], "mixed.test": ["8.8.8.8", "127.0.0.1"]}

    async def lookup(host):
        return [ipaddress.ip_address(a) for a in answers[host]]

    monkeypatch.setattr(proxy, "lookup", lookup)

    async def ask(rules, host):
        one = proxy.FilteringProxy(rules)
        try:
            return [str(a) for a in await one._addresses(host, 80)]
        except proxy.ForbiddenConnection as refusal:
            return str(refusal)

    assert asyncio.run(ask(Rules(Safety()), "rebind.test")) == "private network"
    assert asyncio.run(ask(Rules(Safety()), "mixed.test")) == ["8.8.8.8"]
    assert asyncio.run(ask(Rules(Safety(allowed=("rebind.test",))), "rebind.test")) == ["127.0.0.1"]
    assert asyncio.run(ask(Rules(Safety(allowed=("*",))), "rebind.test")) == "private network"
    assert asyncio.run(ask(Rules(Safety(allowed=("* ", "*:80"))), "rebind.test")) == "private network"
    assert asyncio.run(ask(Rules(Safety(allowed=("*:80", "rebind.test:80"))), "rebind.test")) == ["127.0.0.1"]
    assert asyncio.run(ask(Rules(Safety(), ["http://rebind.test"]), "rebind.test")) == ["127.0.0.1"]

    async def rebind():
        one = proxy.FilteringProxy(Rules(Safety(), ["http://late.test"]))
        answers["late.test"] = ["8.8.8.8"]
        await one._addresses("late.test", 80)
        answers["late.test"] = ["127.0.0.1"]
        one._names.clear()
        with pytest.raises(proxy.ForbiddenConnection, match="had a public address before"):
            await one._addresses("late.test", 80)

    asyncio.run(rebind())


def test_a_proxy_of_the_users_own_is_gone_through(visit, server):
    lines = []

    def proxy(listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            lines.append(client.recv(65536).decode().split("\r\n")[0])
            client.send(b"HTTP/1.1 200 ok\r\n\r\n")
            client.recv(65536)
            body = b"<title>through</title>"
            client.send(
                b"HTTP/1.1 200 ok\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
                % len(body)
                + body
            )
            client.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=proxy, args=(listener,), daemon=True).start()
        context = {"proxy": {"server": f"http://127.0.0.1:{listener.getsockname()[1]}"}}
        env, obs = visit("<p>x", options={"context": context}, **EVIL)
        assert obs["title"] == "through"
        assert lines[0] == f"CONNECT good.localhost:{server.port} HTTP/1.1"
        obs, *_ = env.step({"action": "navigate", "url": server.url("evil.localhost")})
        assert "blocked domain" in obs["last_error"]


def test_a_socks_proxy_of_the_users_own_is_gone_through(server):
    server.pages["/"] = "through"

    async def chain():
        outer = await proxy.FilteringProxy.open(Rules(Safety(allow_private=True)))
        inner = await proxy.FilteringProxy.open(
            Rules(Safety(blocked=("evil.localhost",)), ["http://127.0.0.1"]), {"server": outer.settings["server"]}
        )
        client = proxy._Upstream({"server": inner.settings["server"]})
        reader, writer = await client.connect("good.localhost", server.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: good.localhost:1\r\nconnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        with pytest.raises(OSError, match="refused"):
            await client.connect("evil.localhost", server.port)
        await inner.close()
        await outer.close()
        return answer

    assert asyncio.run(chain()).endswith(b"through")


def test_failures_have_their_own_names_behind_the_gate(visit):
    env, _ = visit("<p>x")
    obs, *_ = env.step({"action": "navigate", "url": "http://nope.invalid/"})
    assert "ERR_NAME_NOT_RESOLVED" in obs["last_error"]
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    obs, *_ = env.step({"action": "navigate", "url": f"http://good.localhost:{port}/"})
    assert "ERR_CONNECTION_REFUSED" in obs["last_error"]


def test_files_are_shown_from_allowed_folders_only(tmp_path):
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    shown.mkdir(), hidden.mkdir()
    (hidden / "secret.html").write_text("<title>secret</title>")
    (shown / "link.html").symlink_to(hidden / "secret.html")
    secret = (hidden / "secret.html").as_uri()
    (shown / "index.html").write_text(
        f"<title>index</title><a href='{secret}'>Go</a><a href=other.html>Other</a><iframe src='{secret}'></iframe>"
    )
    (shown / "other.html").write_text("<title>other</title>")
    env = gymnasium.make("Browser-v0", start_url=PUBLIC, safety=Safety(allow_files=(shown,)), screenshot=False)
    env.reset(seed=0)
    for name in ("../hidden/secret.html", "link.html", "../hidden"):
        obs, *_ = env.step({"action": "navigate", "url": f"file://{shown}/{name}"})
        assert "outside of the allowed folders" in obs["last_error"]
    obs, *_ = env.step({"action": "navigate", "url": (shown / "index.html").as_uri()})
    assert obs["title"] == "index"
    assert f"blocked: {secret} (file outside of the allowed folders)" in obs["events"]  # the frame
    obs, *_ = env.step({"action": "click", "id": next(e["id"] for e in obs["elements"] if e["name"] == "Go")})
    assert "outside of the allowed folders" in obs["last_error"]
    assert obs["title"] != "secret"
    env.close()


def test_pages_cannot_open_files_or_scripts_elsewhere(visit, server):
    file = "file:///etc/hostname"
    server.pages["/frame"] = "<title>frame</title><p>inner"
    env, obs = visit(
        f"""<a href='{file}'>Link</a><button onclick="location = '{file}'">Script</button><button onclick="window.open('{file}')">Popup</button>
        <button onclick="frames[0].location = 'javascript:parent.document.title=1'">Inject</button><iframe src='{server.url("other.localhost", "/frame")}'></iframe>"""
    )
    for name in ("Link", "Script", "Popup", "Inject"):
        obs, *_ = env.step({"action": "click", "id": next(e["id"] for e in obs["elements"] if e["name"] == name)})
        assert not any(tab["url"].startswith("file:") for tab in obs["tabs"]), name
        if len(obs["tabs"]) > 1:
            obs, *_ = env.step({"action": "close_tab"})
        assert obs["title"] == "start", name
    for url in (
        file,
        "javascript:document.title = 1",
        "JavaScript:alert(1)",
        "view-source:http://x.test",
        "chrome://version",
    ):
        obs, *_ = env.step({"action": "navigate", "url": url})
        assert "address that begins with http://" in obs["last_error"], url
        obs, *_ = env.step({"action": "new_tab", "url": url})
        assert "address that begins with http://" in obs["last_error"], url


def test_without_rules_there_is_no_gate_and_nothing_is_intercepted(visit):
    env, _ = visit("<p>x", allow_private=True)
    access = env.unwrapped.core.session.access
    assert access.proxy is None
    assert not access.folders
