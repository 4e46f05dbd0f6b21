"""Episodes recorded to HAR and answered from it, with the server gone."""

import json
import time

import numpy as np
import pytest

from selfsurf import browser_env
from selfsurf.browser_env import SessionOptions
from tests.processes import crowd, until


class Shop:
    """A shop on loopback: a list that grows by posting to it, with a script, a style and a fetched price."""

    def __init__(self, loopback):
        self.items = []
        self.server = loopback(self.answer)

    def answer(self, request):
        if request.path == "/add":
            self.items.append(request.body.decode().partition("=")[2])
            return 303, {"location": "/"}, b""
        if request.path == "/style.css":
            return 200, {"content-type": "text/css"}, b"button{color:rgb(10,20,30)}"
        if request.path == "/price":
            return 200, {"content-type": "application/json"}, json.dumps(len(self.items) * 10).encode()
        return f"""<!doctype html><title>shop</title><link rel=stylesheet href=/style.css>
<form action=/add method=post><input aria-label=item name=item><button>Add</button></form>
<ul>{"".join(f"<li>{item}" for item in self.items)}</ul><p id=p>price ?</p><button type=button onclick="ask()">Price</button>
<button type=button onclick="fetch('/other').catch(() => document.title = 'failed')">Other</button>
<script>const ask = () => fetch('/price').then(r => r.json()).then(v => p.textContent = `price ${{v}}`)</script>
""".encode()


def play(env, by_name):
    """Shop a little; return all observations."""
    obs, _ = env.reset(seed=0)
    seen = [obs]
    for item in ("tea", "jam"):
        seen.append(env.step({"action": "fill", "id": by_name(seen[-1], "item")["id"], "text": item})[0])
        seen.append(env.step({"action": "click", "id": by_name(seen[-1], "Add")["id"]})[0])
        seen.append(env.step({"action": "click", "id": by_name(seen[-1], "Price")["id"]})[0])
    return seen


@pytest.mark.parametrize("name", ["shop.har", pytest.param("shop.zip", marks=pytest.mark.slow)])
def test_an_episode_runs_offline_from_its_recording(make, loopback, by_name, tmp_path, name):
    shop = Shop(loopback)
    path = tmp_path / "runs" / name
    env = make(shop.server.url, SessionOptions(record_har=path), reset=False, screenshot=True)
    lived = play(env, by_name)
    env.close()
    assert "jam" in lived[-1]["page_text"]
    assert "price 20" in lived[-1]["page_text"]
    assert [file.name for file in path.parent.iterdir()] == [name]
    shop.server.stop()

    again = make(shop.server.url, SessionOptions(replay_har=path), reset=False, screenshot=True)
    for _ in range(2):
        replayed = play(again, by_name)
        for before, after in zip(lived, replayed, strict=True):
            differ = np.argwhere((before["screenshot"] != after["screenshot"]).any(axis=2))
            assert not differ.size, (differ.min(axis=0), differ.max(axis=0), after["dom"])
            assert {**after, "screenshot": None} == {**before, "screenshot": None}
    other = by_name(replayed[-1], "Other")["id"]
    obs, *_, info = again.step({"action": "click", "id": other})
    assert obs["title"] == "failed"
    assert f"not in the recording, failed: GET {shop.server.url}/other" in obs["events"]
    assert info["outcome"] == "running"


def test_a_page_that_was_not_recorded_does_not_load(make, loopback, tmp_path):
    server = loopback(lambda request: b"<title>live</title>")
    path = tmp_path / "a.har"
    make(f"{server.url}/one", SessionOptions(record_har=path))[0].close()
    env, obs = make(f"{server.url}/one", SessionOptions(replay_har=path))
    assert obs["title"] == "live"
    obs, *_ = env.step({"action": "navigate", "url": f"{server.url}/two"})
    assert "ERR_INTERNET_DISCONNECTED" in obs["last_error"]
    assert f"not in the recording, failed: GET {server.url}/two" in obs["events"]


BODIES = """<title>bodies</title><pre id=said></pre><script>
const ask = (method, url, body, headers) =>
  fetch(url, {method, body, headers}).then((r) => r.text(), () => 'failed').then((text) => answers.push(text));
const form = (text) => { const made = new FormData(); made.append('n', text); return made; };
const json = (value) => [JSON.stringify(value), {'content-type': 'application/json'}];
let answers = [];
const telling = (all) => async (...given) => {
  document.title = 'asking', answers = [];
  await all(...given);
  said.textContent = answers.join(' / '), document.title = 'told';
};
const send = telling(async (methods, bodies) => {
  for (const method of methods) for (const body of bodies) await ask(method, '/echo', body);
});
const others = telling(async (unknown) => {
  for (const text of ['1', '2', '1']) await ask('POST', '/count', form(text));
  await ask('POST', '/count', form(unknown));
  await ask('PUT', '/echo', ...json(unknown ? {b: 1, a: 2} : {a: 2, b: 1}));
  for (const where of ['/see', '/keep']) await ask('PUT', where, 'x' + unknown);
  await ask('POST', '/count', new Uint8Array([255, 1]));
});
</script><button onclick="send(['PUT', 'POST', 'PATCH', 'DELETE'], ['a', 'b', undefined])">Known</button>
<button onclick="send(['PUT', 'POST', 'PATCH', 'DELETE'], ['never'])">Unknown</button>
<button onclick="others('')">Others</button><button onclick="others('never')">Other unknown</button>"""


@pytest.mark.parametrize("name", ["bodies.har", "bodies.zip"])
def test_requests_are_told_apart_by_their_bodies(make, loopback, tmp_path, name):
    counted = []

    def answer(request):
        if request.path == "/see":
            return 303, {"location": "/seen"}, b""
        if request.path == "/keep":
            return 307, {"location": "/echo"}, b""
        if request.path == "/count":
            counted.append(1)
            return str(len(counted)).encode()
        return f"{request.command} {request.body.decode()}".encode() if request.path != "/" else BODIES.encode()

    server = loopback(answer)
    path = tmp_path / name
    env, _ = make(server.url, SessionOptions(record_har=path))
    lived = [said(env, "Known"), said(env, "Others")]
    env.close()
    server.stop()
    assert lived[0].startswith("PUT a / PUT b / PUT  / POST a / POST b / POST  / PATCH a")
    assert lived[1] == '1 / 2 / 3 / 4 / PUT {"a":2,"b":1} / GET  / PUT x / 5'

    env, _ = make(server.url, SessionOptions(replay_har=path))
    assert [said(env, "Known"), said(env, "Others")] == lived
    assert said(env, "Unknown") == " / ".join(["failed"] * 4)
    # Repeated requests get their last answer from then on.
    assert said(env, "Other unknown") == '3 / 2 / 3 / failed / PUT {"a":2,"b":1} / failed / failed / 5'


UPLOADS = """<title>uploads</title><pre id=said></pre><script>
const ask = (url, body) => fetch(url, {method: 'POST', body}).then((r) => r.text(), () => 'failed');
const wrap = (file) => { const made = new FormData(); made.append('n', 'v'); made.append('f', file); return made; };
const tell = async (...requests) => {
  document.title = 'asking';
  const answers = [];
  for (const [url, body] of requests) answers.push(await ask(url, body));
  said.textContent = answers.join(' / '), document.title = 'told';
};
const file = () => document.querySelector('[type=file]').files[0];
const bytes = (...all) => new Uint8Array(all);
</script>
<button onclick="tell(['/file', wrap(new File(['hello'], 'a.txt'))], ['/file', wrap(new File(['hello'], 'a.txt'))],
  ['/blob', new Blob(['hello'])], ['/blob', new Blob(['hello'], {type: 'image/png'})],
  ['/disk', wrap(file())], ['/disk', wrap(file())])">Known</button>
<button onclick="tell(['/bytes', bytes(0, 1, 255, 254)], ['/bytes', bytes(0, 1, 255, 253)],
  ['/bytes', new Blob([bytes(200)], {type: 'text/plain'})], ['/bytes', bytes(200, 201)])">Binary</button>
<button onclick="tell(['/bytes', bytes(0, 1, 255, 252)], ['/bytes', bytes(210, 211)], ['/else', wrap(file())])"
  >Unknown</button>
<form action=/sent method=post enctype=multipart/form-data>
<input type=file name=f aria-label=File><input name=n value=1><button>Send</button></form>"""


@pytest.mark.parametrize("name", ["uploads.har", pytest.param("uploads.zip", marks=pytest.mark.slow)])
def test_uploads_and_binary_bodies_are_replayed(make, loopback, by_name, tmp_path, name):
    hits = []

    def answer(request):
        if request.command == "POST":
            hits.append(request.path)
            if request.path == "/sent":
                return 303, {"location": f"/?{len(hits)}"}, b""
            return f"{request.path} {len(hits)}".encode()
        return UPLOADS.encode() + f"<p>page {len(hits)}".encode()

    def play(env, obs):
        env.step({"action": "upload", "id": by_name(obs, "File")["id"], "files": ["a.txt"]})
        seen = [said(env, "Known"), said(env, "Binary")]
        obs, *_ = env.step({"action": "click", "selector": "text=/^Send$/"})
        return [*seen, obs["url"], obs["page_text"].rpartition("page")[2]]

    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_bytes(b"on the disk")
    safety = browser_env.Safety(upload_from=(tmp_path / "files",))
    server = loopback(answer)
    path = tmp_path / name
    env, obs = make(server.url, SessionOptions(record_har=path), safety=safety)
    lived = play(env, obs)
    env.close()
    server.stop()
    assert lived[0] == "/file 1 / /file 2 / /blob 3 / /blob 4 / /disk 5 / /disk 6"
    assert lived[1] == "/bytes 7 / /bytes 8 / /bytes 9 / /bytes 10"

    env, obs = make(server.url, SessionOptions(replay_har=path), safety=safety)
    assert play(env, obs) == lived
    env.step({"action": "navigate", "url": server.url})
    assert said(env, "Unknown") == "failed / failed / failed"


CART = """<title>cart</title><pre id=said></pre><script>
const get = (url, method) => fetch(url, {method}).then((r) => r.text());
const tell = async () => {
  document.title = 'asking';
  const answers = [];
  for (const [url, method] of [['/cart'], ['/add', 'POST'], ['/cart'], ['/add', 'POST'], ['/moved', 'POST']])
    answers.push(await get(url, method));
  said.textContent = answers.join(' / '), document.title = 'told';
};
</script><button onclick="tell()">Known</button>"""


def test_a_fetch_that_is_redirected_gets_the_answer_after_it(make, loopback, tmp_path):
    cart = []

    def answer(request):
        if request.command == "POST":
            cart.append(1)
            return 302 if request.path == "/moved" else 303, {"location": "/cart"}, b""
        return f"{len(cart)} in the cart".encode() if request.path == "/cart" else CART.encode()

    server = loopback(answer)
    path = tmp_path / "cart.har"
    env, _ = make(server.url, SessionOptions(record_har=path))
    lived = said(env, "Known")
    env.close()
    server.stop()
    assert lived == " / ".join(f"{number} in the cart" for number in (0, 1, 1, 2, 3))
    env, _ = make(server.url, SessionOptions(replay_har=path))
    assert said(env, "Known") == lived


def said(env, button):
    """Press a button and return the answers that the page gets."""
    obs, *_ = env.step({"action": "click", "selector": f"text=/^{button}$/"})
    for _ in range(100):
        if obs["title"] == "told":
            break
        obs, *_ = env.step({"action": "wait", "ms": 50})
    return obs["page_text"].partition("Known")[0].strip()


def test_web_sockets_are_not_reached_in_a_replay(make, loopback, tmp_path):
    page = (
        b"<script>const s = new WebSocket(`ws://${location.host}/x`); s.onclose = e => document.title = e.code</script>"
    )
    connections = []
    server = loopback(lambda request: connections.append(request.path) or page)
    path = tmp_path / "a.har"
    env, _ = make(server.url, SessionOptions(record_har=path))
    assert until(lambda: "/x" in connections)
    env.close()
    lived = len(connections)
    env, _ = make(server.url, SessionOptions(replay_har=path))
    obs, *_ = env.step({"action": "wait", "ms": 50})
    assert obs["title"] == "1011"
    assert len(connections) == lived


def test_every_episode_has_a_file_of_its_own_and_none_is_overwritten(make, loopback, tmp_path):
    hits = []
    server = loopback(lambda request: hits.append(1) or f"<title>{len(hits)}</title>".encode())
    path = tmp_path / "run.har"
    path.write_text("mine")
    env, _ = make(server.url, SessionOptions(record_har=path))
    env.reset(seed=0)
    two = json.loads((tmp_path / "run-2.har").read_text())
    env.close()
    three = json.loads((tmp_path / "run-3.har").read_text())
    texts = [har["log"]["entries"][0]["response"]["content"]["text"] for har in (two, three)]
    assert texts == ["<title>1</title>", "<title>2</title>"]
    assert path.read_text() == "mine"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run-2.har", "run-3.har", "run.har"]


def test_a_task_that_restarts_in_its_page_is_recorded_episode_by_episode(loopback, tmp_path):
    import gymnasium

    server = loopback(lambda request: b"<title>x</title>")

    class Restarting(browser_env.Task):
        restarts_in_page = True
        start_url = server.url

    env = gymnasium.make(
        "Browser-v0", task=Restarting(), session=SessionOptions(record_har=tmp_path / "r.har"), screenshot=False
    )
    env.reset(seed=0)
    env.reset(seed=0)
    env.close()
    for name in ("r.har", "r-2.har"):
        assert len(json.loads((tmp_path / name).read_text())["log"]["entries"]) == 1


def test_a_profile_is_recorded_too(make, loopback, tmp_path):
    server = loopback(lambda request: b"<title>x</title>")
    path = tmp_path / "p.har"
    env, _ = make(server.url, SessionOptions(profile=tmp_path / "profile", record_har=path))
    env.close()
    assert json.loads(path.read_text())["log"]["entries"][0]["request"]["url"] == f"{server.url}/"


@pytest.mark.slow
def test_a_lost_browser_leaves_no_empty_recording(make, loopback, tmp_path):
    hang = loopback(lambda request: b"<button onclick='for(;;);'>Hang</button>")
    env, _ = make(hang.url, SessionOptions(record_har=tmp_path / "h.har"), step_timeout=2.0)
    start = time.monotonic()
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "env_error"
    assert time.monotonic() - start < 12 * crowd()
    env.close()
    assert all(json.loads(file.read_text()) for file in tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{}", '{"log": {"entries": [{}]}}', "no json"])
def test_a_file_that_is_no_recording_is_a_clear_error(make, tmp_path, text):
    (tmp_path / "bad.har").write_text(text)
    with pytest.raises(browser_env.EnvError, match="is not a HAR recording"):
        make("http://x.test/", SessionOptions(replay_har=tmp_path / "bad.har"))


def test_a_recording_that_cant_be_written_is_a_clear_error(make, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(browser_env.EnvError, match="can't be written"):
        make("about:blank", SessionOptions(record_har=tmp_path / "file" / "x.har"))
