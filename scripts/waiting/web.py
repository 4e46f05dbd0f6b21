"""A local web page on which a person answers one question; its secret address is the only access control."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from html import escape
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

from selfsurf.browser_env.safety.terminal import printable

MOST = 10_000
"""Maximum size of an answer in bytes."""

PAGE = """<!doctype html><meta charset=utf-8><meta name=viewport content="width=device-width"><title>A question</title>
<body style="font: 1.1em sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em"><p>{question}</p>{form}"""
FREE = "<form method=post><input name=text aria-label=Answer autofocus required> <button>Answer</button></form>"
CHOICE = (
    "<form method=post><button name=text value=yes>Allow</button> <button name=text value=no>Refuse</button></form>"
)
SAFE = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def answer_on_page(question: Mapping[str, Any]) -> str:
    """Print the address of a page with the question, and wait until it is answered there."""
    path, answers = f"/{secrets.token_urlsafe(24)}", list[str]()

    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        """Seconds until a request that doesn't arrive completely is dropped."""

        def do_GET(self) -> None:
            if self._known():
                self._send(PAGE.format(question=escape(printable(question["text"])), form=_form(question)))

        def do_POST(self) -> None:
            if not self._known():
                return
            size = self.headers.get("content-length", "")
            body = self.rfile.read(min(int(size), MOST)) if size.isdigit() else b""
            text = parse_qs(body.decode("utf8", "replace")).get("text", [""])[0].strip()
            if text:
                answers.append(text)
            self._send(PAGE.format(question="Thank you; the run goes on." if text else "", form=""))

        def _known(self) -> bool:
            known = secrets.compare_digest(self.path.encode(), path.encode())
            if not known:
                self.send_error(404)
            return known

        def _send(self, page: str) -> None:
            self.send_response(200)
            for name, value in SAFE.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: Any) -> None:
            """Log nothing, because the address is a secret."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        print(f"Answer at http://127.0.0.1:{server.server_port}{path}", file=sys.stderr, flush=True)
        while not answers:
            server.handle_request()
    return answers[0]


def _form(question: Mapping[str, Any]) -> str:
    return CHOICE if question["kind"] == "confirmation" else FREE
