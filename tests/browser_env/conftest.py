"""Pages of the tests, served from memory-like folders under fixed addresses, and environments that get closed."""

import http.server
import threading

import gymnasium
import pytest

from selfsurf import browser_env

ORIGIN = "http://site.test"
OTHER = "http://other.test"


class Site(browser_env.Task):
    """An open-ended task on pages from a folder; `http://other.test` is a second origin with the same pages."""

    def __init__(self, folder, start="index.html"):
        super().__init__(start_url=f"{ORIGIN}/{start}", goal="Look around.")
        self.sites = {ORIGIN: folder, OTHER: folder}


@pytest.fixture
def open_page(tmp_path):
    """Return a function that opens HTML in an environment: `env, obs = open_page("<p>...", other="...")`.

    It takes no screenshots but with `options={"screenshot": True}`.
    """
    envs = []

    def open_it(html, *, options=None, seed=0, **pages):
        for name, text in {"index": html, **pages}.items():
            (tmp_path / f"{name}.html").write_text(f"<!doctype html><title>{name}</title>{text}", encoding="utf8")
        usual = {"viewport": (800, 600), "screenshot": False, "safety": browser_env.Safety(upload_from=(tmp_path,))}
        env = gymnasium.make("Browser-v0", task=Site(tmp_path), **{**usual, **(options or {})})
        envs.append(env)
        obs, _ = env.reset(seed=seed)
        return env, obs

    yield open_it
    for env in envs:
        env.close()


@pytest.fixture
def by_name():
    """Return a function that finds the one element with a name."""

    def find(obs, name):
        found = [element for element in obs["elements"] if element["name"] == name]
        assert len(found) == 1, (name, obs["dom"])
        return found[0]

    return find


@pytest.fixture
def loopback():
    """Return a function that serves on loopback: `server = loopback(lambda request: body)`.

    The answer is bytes (HTML) or `(status, headers, body)`; `request` is the handler, with `.path`, `.headers` and
    `.body`. The server has `.url` and `.stop()`.
    """
    servers = []

    def start(answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
                made = answer(self)
                status, headers, body = made if isinstance(made, tuple) else (200, {}, made)
                self.send_response(status)
                for name, value in {"content-type": "text/html", "content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.url = f"http://127.0.0.1:{server.server_port}"
        server.stop = lambda: (server.shutdown(), server.server_close())
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def make():
    """Return a function that makes a `Browser-v0` which gets closed: `env, obs = make(url, SessionOptions(...))`."""
    envs = []

    def make_it(url, session=None, *, reset=True, **options):
        env = gymnasium.make("Browser-v0", start_url=url, session=session, **{"screenshot": False, **options})
        envs.append(env)
        return (env, env.reset(seed=0)[0]) if reset else env

    yield make_it
    for env in envs:
        env.close()
