"""A real server of the chat-completions format over a policy of this process, and servers that misbehave."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from llguidance import LLMatcher

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policy import Completion, Message

KEY = "secret-key-of-the-test-server"


def policy_app(policy: TransformersPolicy, requests: list[dict[str, Any]]) -> FastAPI:
    """Speaks the forms of vLLM, NIM, trtllm-serve and OpenAI; appends each request's body to `requests`."""
    app = FastAPI()
    lock = threading.Lock()  # one model, one generation at a time

    def refused(request: Request) -> JSONResponse | None:
        if request.headers.get("authorization") == f"Bearer {KEY}":
            return None
        return JSONResponse({"error": {"message": f"Bad key {request.headers.get('authorization')}"}}, 401)

    @app.post("/v1/chat/completions", response_model=None)
    def complete(request: Request, body: dict[str, Any]) -> JSONResponse | dict[str, Any]:
        requests.append(body)
        if (answer := refused(request)) is not None:
            return answer
        if body["model"] != "small":
            return JSONResponse({"error": {"message": f"The model {body['model']} does not exist."}}, 404)
        messages, prefill = _messages(body)
        try:
            with lock:
                [completion] = policy.complete(
                    [messages],
                    grammars=[_guide(body)],
                    prefill=prefill,
                    temperature=body["temperature"],
                    max_new_tokens=body.get("max_tokens") or body["max_completion_tokens"],
                    seed=body.get("seed"),
                )
        except ValueError as error:
            return JSONResponse({"error": {"message": str(error)}}, 400)
        return _answer(policy, body, completion, prefill)

    @app.post("/tokenize", response_model=None)
    def tokenize(request: Request, body: dict[str, Any]) -> JSONResponse | dict[str, Any]:
        if (answer := refused(request)) is not None:
            return answer
        if "prompt" in body:
            ids = policy.tokenizer.encode(body["prompt"], add_special_tokens=False)
        else:
            ids = policy.encode(*_messages(body))
        return {"count": len(ids), "tokens": ids, "max_model_len": policy.context_length}

    return app


def _messages(body: dict[str, Any]) -> tuple[list[Message], str]:
    messages = [Message(message["role"], message["content"]) for message in body["messages"]]
    if not body.get("continue_final_message"):
        return messages, ""
    assert body["add_generation_prompt"] is False
    return messages[:-1], messages[-1].text


def _guide(body: dict[str, Any]) -> str | None:
    """The grammar that the request asks for, in whichever form."""
    kind, form = body.get("response_format", {}), body.get("structured_outputs", {})
    text = form.get("grammar") or body.get("guided_grammar") or kind.get("ebnf")
    if text:
        return str(text)
    schema = form.get("json") or body.get("guided_json") or body.get("nvext", {}).get("guided_json")
    schema = schema or kind.get("json_schema", {}).get("schema")
    if body.get("tools"):
        schema = body["tools"][0]["function"]["parameters"]
    return schema_grammar(schema) if schema else None


def schema_grammar(schema: dict[str, Any]) -> str:
    """llguidance's grammar of a JSON schema, without blanks between the parts."""
    return LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})


def _answer(policy: TransformersPolicy, body: dict[str, Any], completion: Completion, prefill: str) -> dict[str, Any]:
    text = completion.text[len(prefill) :]
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if body.get("tools"):
        call = {"id": "1", "type": "function", "function": {"name": "act", "arguments": text}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "length" if completion.finish_reason == "length" else "stop",
    }
    if body.get("logprobs"):
        as_ids = body.get("return_tokens_as_token_ids")
        names = [f"token_id:{token}" if as_ids else policy.tokenizer.decode([token]) for token in completion.token_ids]
        pairs = zip(names, completion.logprobs, strict=True)
        choice["logprobs"] = {"content": [{"token": name, "logprob": value} for name, value in pairs]}
    answer: dict[str, Any] = {"id": "1", "object": "chat.completion", "model": body["model"], "choices": [choice]}
    if body.get("return_token_ids"):
        choice["token_ids"] = completion.token_ids
        answer["prompt_token_ids"] = completion.prompt_token_ids
    prompt, sampled = len(completion.prompt_token_ids), len(completion.token_ids)
    answer["usage"] = {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}
    return answer


@contextlib.contextmanager
def serve(app: FastAPI) -> Iterator[str]:
    """Run the app on loopback, on a thread; yields its address without `/v1`."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()


Handler = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


@contextlib.contextmanager
def serve_raw(handle: Handler, models: list[str] | None = None) -> Iterator[str]:
    """Run a plain HTTP server on loopback whose answers `handle` writes itself; yields the address with `/v1`.

    It lists `models`, or has no list of models.
    """

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client may have given up
                handle(self, body)

        def do_GET(self) -> None:
            listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in models or ()]}
            answer(self, 404 if models is None else 200, listed)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def answer(
    handler: BaseHTTPRequestHandler, status: int = 200, body: Any = None, headers: dict[str, str] | None = None
) -> None:
    """Write an answer; `body` is JSON, or bytes as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    fields = {"content-type": "application/json", "content-length": str(len(data))} | (headers or {})
    for name, value in fields.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def replying(bodies: list[dict[str, Any]], *messages: dict[str, Any] | str) -> Handler:
    """Answer with these messages in turn, the last one again and again; a text is the content of one.

    As real servers do, it refuses a result of a tool call that no message before it made.
    """
    left = list(messages)

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        bodies.append(body)
        made = {call["id"] for message in body["messages"] for call in message.get("tool_calls", ())}
        answered = {message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"}
        if made != answered:
            answer(handler, 400, {"error": {"message": f"calls {made}, results of {answered}"}})
            return
        message = left.pop(0) if len(left) > 1 else left[0]
        answer(handler, body=completion(message) if isinstance(message, str) else completion(**{"text": "", **message}))

    return handle


def refusing(field: str, bodies: list[dict[str, Any]], code: int = 400) -> Handler:
    """Refuse every request with the field, as a server that doesn't know it."""

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        bodies.append(body)
        refused = {"error": {"message": f"{field} is not supported by this model"}}
        answer(handler, *((code, refused) if field in body else (200, completion())))

    return handle


def tool_call(name: str, arguments: Any) -> dict[str, Any]:
    """A message that calls a tool; arguments are JSON, or a text as it is."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": "call-of-the-server", "type": "function", "function": {"name": name, "arguments": written}}
    return {"content": None, "tool_calls": [call]}


def completion(text: str = '{"click":7}', **message: Any) -> dict[str, Any]:
    """A well-formed answer."""
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text} | message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
            "prompt_tokens_details": {"cached_tokens": 600},
        },
    }  # fmt: skip
