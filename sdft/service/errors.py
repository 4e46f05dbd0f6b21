"""Error responses, all in the form `{type, message, retryable}`. No response repeats any part of the request."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from selfsurf.sdft.service.schemas import Problem


class RefusedRequest(Exception):
    """A refused request.

    Args:
        status: HTTP status.
        type: machine-readable word.
        message: human-readable sentence.
        retryable: whether the same request may succeed later.
    """

    def __init__(self, status: int, type: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.problem = Problem(type=type, message=message, retryable=retryable)


def answer_of(refused: RefusedRequest, **headers: str) -> JSONResponse:
    """Return the refusal as a response."""
    return JSONResponse(refused.problem.model_dump(), refused.status, headers)


def missing(what: str) -> RefusedRequest:
    """Return a 404 refusal for a missing object."""
    return RefusedRequest(404, "not_found", f"There is no such {what}.")


def _methods(app: FastAPI, address: str) -> list[str]:
    """Return the methods allowed at an address, by the most specific matching path."""
    paths = app.openapi()["paths"]
    fitting = [path for path in paths if compile_path(path)[0].match(address)]
    return sorted(method.upper() for method in paths[min(fitting, key=lambda path: path.count("{"))]) if fitting else []


def add_handlers(app: FastAPI) -> None:
    """Make all errors of an application respond in the common form."""

    @app.exception_handler(RefusedRequest)
    async def refused(_: Request, error: RefusedRequest) -> JSONResponse:
        return answer_of(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        told = "; ".join(f"{'.'.join(map(str, one['loc']))[:100]}: {one['msg'][:200]}" for one in error.errors()[:5])
        return answer_of(RefusedRequest(422, "invalid_request", told))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        words = {404: "not_found", 405: "method_not_allowed"}
        kind = words.get(error.status_code, "invalid_request")
        headers: dict[str, Any] = dict(error.headers or {})
        if error.status_code == 405:  # the router only names the methods of the first matching route
            headers = {"allow": ", ".join(_methods(app, request.url.path))}
        return answer_of(RefusedRequest(error.status_code, kind, str(error.detail)), **headers)

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> JSONResponse:
        return answer_of(
            RefusedRequest(500, "internal", "The server failed; see its log for the cause.", retryable=True)
        )
