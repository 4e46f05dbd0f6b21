"""What a session can be set up with, seen from pages and servers."""

import asyncio
import base64
import json
import re
import shutil
import ssl
import subprocess

import gymnasium
import pytest

from selfsurf import browser_env
from selfsurf.browser_env import AsyncBrowserEnv, Safety, SessionOptions
from selfsurf.browser_env.browser.browsers import merged


def test_features_that_a_switch_disables_are_disabled_beside_ours():
    given = ["--disable-features=A,B", "--x", "--disable-features=B,C"]
    assert merged(given) == ["--x", "--disable-features=A,B,C"]


def tells(expression):
    """Return the address of a page whose title is what the expression gives."""
    return (
        f"data:text/html,<script>Promise.resolve({expression}).then(v => document.title = JSON.stringify(v))</script>"
    )


def told(env):
    """Return what a page wrote into its title, in a step or two."""
    obs, *_ = env.step({"action": "wait", "ms": 0})
    return json.loads(obs["title"])


@pytest.mark.parametrize(
    ("options", "expression", "value"),
    [
        ({"locale": "de-DE"}, "[navigator.language, (1234.5).toLocaleString()]", ["de-DE", "1.234,5"]),
        ({"timezone": "Asia/Tokyo"}, "new Date(0).getHours()", 9),
        ({"user_agent": "surfer/1"}, "navigator.userAgent", "surfer/1"),
        ({"color_scheme": "dark"}, "matchMedia('(prefers-color-scheme: dark)').matches", True),
        ({"reduced_motion": True}, "matchMedia('(prefers-reduced-motion: reduce)').matches", True),
        ({"stealth": True, "locale": "de-DE"}, "navigator.languages", ["de-DE", "de"]),
        ({"device_scale_factor": 2.0}, "devicePixelRatio", 2),
    ],
)
def test_what_a_page_sees_of_an_option(make, options, expression, value):
    env, _ = make(tells(expression), SessionOptions(**options))
    assert told(env) == value


def test_offline_nothing_is_reached(make, loopback):
    server = loopback(lambda request: b"there")
    env, _ = make("about:blank", SessionOptions(offline=True), safety=Safety(allow_private=True))
    obs, *_ = env.step({"action": "navigate", "url": server.url})
    assert "ERR_INTERNET_DISCONNECTED" in obs["last_error"]


def test_geolocation_is_seen_with_the_permission_only(make, loopback):
    page = (
        b"<script>navigator.geolocation.getCurrentPosition("
        b"p => document.title = [p.coords.latitude, p.coords.longitude], e => document.title = 'refused')</script>"
    )
    url = loopback(lambda request: page).url
    for permissions, title in ((("geolocation",), "52.5,13.4"), ((), "refused")):
        env, _ = make(url, SessionOptions(geolocation=(52.5, 13.4), permissions=permissions))
        assert env.step({"action": "wait", "ms": 50})[0]["title"] == title


def test_headers_credentials_and_cookies_reach_the_server(make, loopback):
    seen = []

    def answer(request):
        seen.append(request.headers)
        if "authorization" not in request.headers:
            return 401, {"www-authenticate": 'Basic realm="x"'}, b"who?"
        return b"<title>in</title>"

    server = loopback(answer)
    options = SessionOptions(
        headers={"x-team": "blue"},
        http_credentials=("ann", "secret"),
        cookies=[{"name": "a", "value": "1", "url": server.url}],
    )
    env, obs = make(server.url, options)
    assert obs["title"] == "in"
    assert seen[-1]["x-team"] == "blue"
    assert seen[-1]["cookie"] == "a=1"
    assert base64.b64decode(seen[-1]["authorization"].split()[1]) == b"ann:secret"
    env.reset(seed=0)
    assert seen[-1]["cookie"] == "a=1"


def test_credentials_are_told_to_no_other_origin(make, loopback):
    told = []

    def answer(request):
        told.append((request.headers["host"], request.headers.get("authorization")))
        return (200 if told[-1][1] else 401), {"www-authenticate": 'Basic realm="x"'}, b"<title>in</title>"

    server = loopback(answer)
    elsewhere = server.url.replace("127.0.0.1", "evil.localhost")
    for start, *origin in ((server.url,), ("data:text/html,<p>x", server.url)):
        told.clear()
        env, _ = make(
            start, SessionOptions(http_credentials=("ann", "secret", *origin)), safety=Safety(allow_private=True)
        )
        env.step({"action": "navigate", "url": elsewhere})
        env.step({"action": "navigate", "url": server.url})
        assert {host.split(":")[0] for host, token in told if token} == {"127.0.0.1"}
        assert any(host.startswith("evil") for host, _ in told)
    with pytest.raises(
        browser_env.EnvError, match=r"no start page to provide it: give \(user, password, 'https://shop.test'\)"
    ):
        make("data:text/html,<p>x", SessionOptions(http_credentials=("ann", "secret")))
    with pytest.raises(ValueError, match=r"must be like https://shop.test, not 'shop.test'"):
        SessionOptions(http_credentials=("ann", "secret", "shop.test"))


def test_without_javascript_the_environment_still_sees_and_acts(make, loopback):
    server = loopback(
        lambda request: (
            b"<title>off</title><script>document.title = 'on'</script><noscript>plain</noscript>"
            b"<a href=/next>Next</a><input aria-label=q>"
            if request.path == "/"
            else b"<title>next</title>"
        )
    )
    env, obs = make(server.url, SessionOptions(javascript=False))
    assert obs["title"] == "off"
    assert "plain" in obs["dom"]
    field = next(e for e in obs["elements"] if e["name"] == "q")
    obs, *_ = env.step({"action": "fill", "id": field["id"], "text": "typed"})
    assert next(e for e in obs["elements"] if e["name"] == "q")["value"] == "typed"
    link = next(e for e in obs["elements"] if e["name"] == "Next")
    obs, *_, info = env.step({"action": "click", "id": link["id"]})
    assert (obs["title"], info["outcome"]) == ("next", "running")


def test_requests_go_through_the_proxy_of_their_own_environment(make, loopback):
    served = loopback(lambda request: b"<title>direct</title>")
    asked = []

    def proxy(request):
        if request.headers.get("proxy-authorization") is None:
            return 407, {"proxy-authenticate": 'Basic realm="p"'}, b""
        asked.append(request.path)
        assert base64.b64decode(request.headers["proxy-authorization"].split()[1]) == b"ann:p@w"
        return b"<title>through the proxy</title>"

    address = loopback(proxy).url.replace("http://", "http://ann:p%40w@")
    _, through = make("http://shop.example/", SessionOptions(proxy=address))
    assert through["title"] == "through the proxy"
    assert asked == ["http://shop.example/"]
    _, loop = make(served.url, SessionOptions(proxy=address))
    assert loop["title"] == "through the proxy"
    _, direct = make(served.url)
    assert direct["title"] == "direct"


def test_tls_errors_are_ignored_on_request_only(make, tmp_path):
    import http.server
    import threading

    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            key,
            "-out",
            certificate,
            "-subj",
            "/CN=x",
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: handler(*a, directory=str(tmp_path)))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_port}/"
    try:
        _, obs = make(url, SessionOptions(ignore_tls_errors=True))
        assert obs["url"] == url
        with pytest.raises(browser_env.EnvError, match="ERR_CERT"):
            make(url)
    finally:
        server.shutdown()
        server.server_close()


STORE = """<title>none</title><script>
const open = indexedDB.open('box', 1);
open.onupgradeneeded = () => open.result.createObjectStore('things');
open.onsuccess = () => {
  const things = open.result.transaction('things', 'readwrite').objectStore('things');
  const got = things.get('a');
  got.onsuccess = () => {
    document.title = [document.cookie, localStorage.a, got.result && got.result.text].join();
    if (location.hash == '#write') {
      document.cookie = 'a=cookie'; localStorage.a = 'local'; things.put({text: 'indexed'}, 'a');
    }
  };
};
</script>"""


def test_storage_state_goes_out_and_in(make, loopback, tmp_path):
    url = loopback(lambda request: STORE.encode()).url
    writer, _ = make(f"{url}/#write")
    writer.step({"action": "wait", "ms": 100})
    state = writer.unwrapped.storage_state()
    assert [cookie["value"] for cookie in state["cookies"]] == ["cookie"]
    obs, *_ = writer.step({"action": "wait", "ms": 0})
    assert len(obs["tabs"]) == 1

    (tmp_path / "state.json").write_text(json.dumps(state))
    for given in (state, tmp_path / "state.json"):
        reader, _ = make(url, SessionOptions(storage_state=given))
        for _ in range(2):
            obs, *_ = reader.step({"action": "wait", "ms": 100})
            assert obs["title"] == "a=cookie,local,indexed"
            reader.reset(seed=0)


NOTES = b"""<script>document.title = [sessionStorage.a, sessionStorage.b].join();
if (location.hash == '#write') sessionStorage.a = '"\\u00e4\\n1'</script>
<button onclick="sessionStorage.clear(); location.href = '/again'">Leave</button><a href=/again>Again</a>"""


@pytest.mark.parametrize("options", [{}, {"deterministic": True}])
def test_session_storage_goes_out_and_in(make, loopback, tmp_path, options):
    asked = []
    url = loopback(lambda request: asked.append(request.path) or NOTES).url
    writer, _ = make(f"{url}/#write", **options)
    state = writer.unwrapped.storage_state()
    assert state["origins"] == [
        {"origin": url, "localStorage": [], "sessionStorage": [{"name": "a", "value": '"\u00e4\n1'}]}
    ]
    state["origins"].append({"origin": "http://unknown.test", "sessionStorage": [{"name": "x", "value": "y"}]})
    (tmp_path / "state.json").write_text(json.dumps(state))
    for given in (state, tmp_path / "state.json"):
        asked.clear()
        reader, obs = make(url, SessionOptions(storage_state=given), **options)
        assert obs["title"] == '"\u00e4 1,'
        obs, *_ = reader.step({"action": "back"})
        assert obs["url"] in (f"{url}/", "about:blank")
        reader.reset(seed=0)
        assert asked.count("/") == 2
        obs, *_ = reader.step({"action": "click", "selector": "text=Again"})
        assert (obs["url"], obs["title"]) == (f"{url}/again", '"\u00e4 1,')
        obs, *_ = reader.step({"action": "click", "selector": "text=Leave"})
        assert obs["title"] == ","  # what the page removes stays away
        obs, *_ = reader.step({"action": "navigate", "url": url})
        assert obs["title"] == ","


@pytest.mark.parametrize(
    "written",
    [
        {"expires": 0}, {"expires": -1, "sameSite": "lax"}, {"expires": -2}, {"expires": None, "sameSite": None},
        {"sameSite": "no_restriction", "secure": True}, {"sameSite": "no_restriction", "secure": False},
        {"sameSite": "unspecified", "hostOnly": True, "session": True, "storeId": "0", "id": 1},
        {"sameSite": "STRICT", "expirationDate": 4102444800.5},
    ],
)  # fmt: skip
def test_cookies_of_browsers_and_extensions_are_taken(make, loopback, written):
    url = loopback(lambda request: b"<script>document.title = document.cookie</script>").url
    cookie = {"name": "a", "value": "1", "domain": "127.0.0.1", "path": "/", **written}
    for session in (SessionOptions(storage_state={"cookies": [cookie]}), SessionOptions(cookies=[cookie])):
        env, obs = make(url, session)
        assert obs["title"] == "a=1"
        (kept,) = env.unwrapped.storage_state()["cookies"]
        assert (kept["expires"] != -1) is ("expirationDate" in written)
        assert kept["sameSite"] in {"lax": ("Lax",), "STRICT": ("Strict",)}.get(
            written.get("sameSite"), ("Lax", "None")
        )


def test_a_list_of_cookies_is_a_storage_state(make, loopback, tmp_path):
    url = loopback(lambda request: b"<script>document.title = document.cookie</script>").url
    cookie = {"name": "a", "value": "1", "domain": "127.0.0.1", "path": "/", "hostOnly": True, "storeId": "0"}
    (tmp_path / "cookies.json").write_text(json.dumps([cookie]))
    for state in ([cookie], tmp_path / "cookies.json"):
        assert make(url, SessionOptions(storage_state=state))[1]["title"] == "a=1"


@pytest.mark.parametrize("key", ["https://shop.test", {"topLevelSite": "https://shop.test"}])
def test_a_partitioned_cookie_is_taken_as_playwright_and_as_browsers_write_it(make, loopback, key):
    url = loopback(lambda request: b"x").url
    cookie = {
        "name": "a", "value": "1", "domain": "bank.test", "path": "/", "secure": True, "sameSite": "None",
        "partitionKey": key,
    }  # fmt: skip
    for session in (SessionOptions(storage_state=[cookie]), SessionOptions(cookies=[cookie])):
        env, _ = make(url, session)
        (kept,) = env.unwrapped.storage_state()["cookies"]
        assert kept["partitionKey"] == "https://shop.test"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"path": None}, "has no path"),
        ({"domain": ""}, "has no domain"),
        ({"name": None}, "has no name"),
        ({"value": 7}, "has a value that is not a string"),
        ({"expires": 4102444800000}, "has expires=4102444800000, which should be seconds since 1970, not milliseconds"),
        ({"expires": "2100-01-01T00:00:00Z"}, "has expires='2100-01-01T00:00:00Z', which should be seconds since"),
        ({"expirationDate": "4102444800"}, "has expirationDate='4102444800', which should be seconds since 1970"),
        ({"partitionKey": "https://shop.test"}, "has a partitionKey, which needs secure=true"),
        ({"partitionKey": 3, "secure": True}, "has a partitionKey, which should be a site"),
    ],
)
def test_a_wrong_cookie_and_its_field_are_named(make, more, says):
    good = {"name": "a", "value": "1", "domain": "127.0.0.1", "path": "/"}
    cookies = [good, {**good, "name": "b", **more}]
    named = re.escape(f"cookie 2 {says}" if "name" in more else f"cookie 2 ('b') {says}")
    with pytest.raises(ValueError, match=f"SessionOptions: {named}"):
        SessionOptions(cookies=cookies)
    with pytest.raises(browser_env.EnvError, match=f"The storage state can't be used: {named}"):
        make("about:blank", SessionOptions(storage_state={"cookies": cookies}))


def test_storage_state_can_be_awaited_and_needs_a_session(loopback):
    url = loopback(lambda request: (200, {"set-cookie": "a=1"}, b"x")).url

    async def use():
        env = AsyncBrowserEnv(url, screenshot=False)
        with pytest.raises(browser_env.EnvError, match="Call reset"):
            await env.storage_state()
        await env.reset(seed=0)
        state = await env.storage_state()
        await env.close()
        return state

    assert asyncio.run(use())["cookies"][0]["name"] == "a"


PHONE = """<meta name=viewport content="width=device-width"><style>body{margin:0;background:rgb(0,0,255)}
button{position:absolute;left:100px;top:300px;width:100px;height:50px;border:0;background:rgb(255,0,0)}</style>
<button onclick="document.title = [devicePixelRatio, navigator.maxTouchPoints, innerWidth, /iPhone/.test(navigator.userAgent)]">
</button>"""


def test_a_device_gives_viewport_touch_scale_and_user_agent(make, loopback):
    url = loopback(lambda request: PHONE.encode()).url
    env, obs = make(url, SessionOptions(device="iPhone 15"), screenshot=True)
    assert env.observation_space.contains(obs)
    width, height = env.unwrapped.core.viewport
    assert obs["screenshot"].shape == (height, width, 3)
    assert obs["screenshot"][325, 150].tolist() == [255, 0, 0]
    assert obs["screenshot"][325, 90].tolist() == [0, 0, 255]
    (button,) = obs["elements"]
    assert button["bbox"] == (100.0, 300.0, 100.0, 50.0)
    obs, *_, info = env.step({"action": "click", "id": button["id"]})
    assert obs["title"] == f"3,1,{width},true"
    assert info["action_path"] == "mouse"
    assert env.observation_space.contains(obs)


def test_a_viewport_of_ones_own_comes_before_the_devices(make):
    env, obs = make(tells("innerWidth"), SessionOptions(device="Galaxy S9+"), viewport=(500, 400), screenshot=True)
    assert obs["screenshot"].shape == (400, 500, 3)
    assert env.observation_space.contains(obs)


def test_a_scale_factor_leaves_the_screenshot_at_css_pixels(make):
    page = "data:text/html,<style>body{margin:0;background:linear-gradient(90deg,red 50%25,blue 50%25)}</style>"
    env, obs = make(page, SessionOptions(device_scale_factor=2), viewport=(400, 300), screenshot=True)
    assert env.observation_space.contains(obs)
    assert obs["screenshot"][100, 190].tolist() == [255, 0, 0]
    assert obs["screenshot"][100, 210].tolist() == [0, 0, 255]


SIGNALS = """<!doctype html><title>?</title><script>
(async () => {
  const query = await navigator.permissions.query({name: 'notifications'});
  const found = {
    webdriver: navigator.webdriver !== false,
    headlessName: /headless/i.test(navigator.userAgent),
    headlessHint: !!navigator.userAgentData && navigator.userAgentData.brands.some(b => /headless/i.test(b.brand)),
    languages: navigator.languages.length < 2,
    noChrome: typeof window.chrome !== 'object',
    noPlugins: navigator.plugins.length === 0 || !(navigator.plugins instanceof PluginArray)
      || !(navigator.plugins[0] instanceof Plugin),
    noTypes: navigator.mimeTypes.length === 0,
    permissions: Notification.permission === 'denied' && query.state === 'prompt',
    noWindow: outerWidth === 0 || outerHeight === 0,
    shownGetter: !/native code/.test(
      Object.getOwnPropertyDescriptor(Navigator.prototype, 'plugins').get.toString()),
    onNavigator: Object.getOwnPropertyNames(navigator).length > 0,
    leftovers: Object.keys(window).some(k => /^cdc_|^__pw|^__playwright|^\\$cdc/.test(k)),
  };
  document.title = Object.keys(found).filter(k => found[k]).join();
})();
</script>"""


def test_stealth_takes_off_the_usual_signals(make, loopback):
    seen = []

    def answer(request):
        seen.append(request.headers)
        return SIGNALS.encode()

    url = loopback(answer).url.replace("127.0.0.1", "localhost")
    plain, _ = make(url)
    signals = plain.step({"action": "wait", "ms": 50})[0]["title"].split(",")
    assert {"webdriver", "headlessName", "languages", "noChrome", "noPlugins", "noTypes", "permissions"} <= set(signals)
    stealthy, _ = make(url, SessionOptions(stealth=True))
    assert stealthy.step({"action": "wait", "ms": 50})[0]["title"] == ""
    assert re.search(r" Chrome/\d+\.0\.0\.0 ", seen[-1]["user-agent"])
    assert seen[-1]["accept-language"] == "en-US,en;q=0.9"
    assert "Headless" not in str(seen[-1])


def test_a_conflict_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="set locale"):
        gymnasium.make("Browser-v0", session=SessionOptions(locale="de-DE"), context={"locale": "fr-FR"})
    with pytest.raises(ValueError, match="set user_agent"):
        gymnasium.make("Browser-v0", session=SessionOptions(device="iPhone 15"), context={"user_agent": "x"})
    with pytest.raises(ValueError, match=r"no device 'iPhone 1555'.*iPhone 15"):
        gymnasium.make("Browser-v0", session=SessionOptions(device="iPhone 1555"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "firefox"}, "DevTools protocol"),
        ({"engine": "webkit"}, "Chromium only"),
        ({"profile": "p", "cdp_url": "http://127.0.0.1:1"}, "profile and cdp_url exclude"),
        ({"profile": "p", "storage_state": {"cookies": []}}, "own storage"),
        ({"use_default_context": True}, "needs cdp_url"),
        ({"use_default_context": True, "cdp_url": "http://127.0.0.1:1", "locale": "de"}, "locale would change"),
        ({"cdp_url": "127.0.0.1:9222"}, "an address like"),
        ({"stealth": True, "cdp_url": "http://127.0.0.1:1"}, "switches"),
        ({"storage_state": "/nowhere.json"}, "does not exist"),
        ({"replay_har": "/nowhere.har"}, "does not exist"),
        ({"geolocation": (100, 0)}, "latitude"),
        ({"timezone": "Berlin"}, "a name like Europe/Berlin, not 'Berlin'"),
        ({"locale": "de_DE!"}, "a name like de-DE"),
    ],
)
def test_options_that_make_no_sense_say_why(options, message):
    with pytest.raises(ValueError, match=message):
        SessionOptions(**options)


def test_context_still_takes_what_the_options_do_not_have(make, loopback):
    url = loopback(lambda request: b"<title>base</title>").url
    env, _ = make("about:blank", SessionOptions(locale="de-DE"), context={"base_url": url})
    assert env.unwrapped.core.settings.context == {"locale": "de-DE", "base_url": url}


def test_equal_browsers_are_shared_whatever_the_context(make):
    one, _ = make("about:blank", SessionOptions(locale="de-DE"))
    two, _ = make("about:blank", SessionOptions(timezone="Asia/Tokyo"))
    assert one.unwrapped.core.session.context.browser is two.unwrapped.core.session.context.browser
