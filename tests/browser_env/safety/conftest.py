"""A real server on loopback, known by several names: everything under `.localhost` is this machine."""

import http.server
import threading

import gymnasium
import pytest

from selfsurf import browser_env


class Server:
    """Answers with what `pages` has for a path: a body, or `(status, headers, body)`."""

    def __init__(self):
        self.pages = {}
        self.seen = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.seen.append((self.headers["host"].split(":")[0], self.path))
                answer = outer.pages.get(self.path.split("?")[0], (404, {}, "nothing here"))
                status, headers, body = answer if isinstance(answer, tuple) else (200, {}, answer)
                body = body.encode() if isinstance(body, str) else body
                self.send_response(status)
                for name, value in {"content-type": "text/html; charset=utf-8", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_port
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, host="127.0.0.1", path="/"):
        return f"http://{host}:{self.port}{path}"

    def asked(self, host):
        """Return the paths that were asked for under a host name."""
        return [path for name, path in self.seen if name == host and path != "/favicon.ico"]


@pytest.fixture
def server():
    one = Server()
    yield one
    one.http.shutdown()
    one.http.server_close()


@pytest.fixture
def visit(server):
    """Return a function that opens an environment at a page of the server: `env, obs = visit("<p>", allowed=...)`."""
    envs = []

    def open_it(html, *, host="good.localhost", options=None, **safety):
        server.pages["/"] = f"<!doctype html><title>start</title>{html}"
        env = gymnasium.make(
            "Browser-v0",
            start_url=server.url(host),
            viewport=(800, 600),
            safety=browser_env.Safety(**safety),
            **(options or {}),
        )
        envs.append(env)
        obs, _ = env.reset(seed=0)
        return env, obs

    yield open_it
    for env in envs:
        env.close()
