"""Idempotent requests: a request sent again, because its response was lost, takes effect only once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, Any, TypeAlias

from fastapi import Header
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse, Response

from selfsurf.sdft.service.errors import RefusedRequest
from selfsurf.sdft.service.store import Store

Key: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A name of your choice. A request that is repeated under the same name is executed only once.",
        examples=["9b2f6c1e"],
    ),
]


def once(
    store: Store,
    key: str | None,
    asked: str,
    body: Any,
    do: Callable[[], Any],
    status: int = 200,
    *,
    long: bool = False,
) -> Response:
    """Execute a request, or return its first response. Refusals are not stored.

    Args:
        store: database in which the response is stored, in one transaction with the effects.
        key: idempotency key of the request; None to execute it each time.
        asked: method and path.
        body: body of the request.
        do: function that executes the request and returns the response's body; None for an empty body.
        status: HTTP status of the response.
        long: whether the execution takes long; it then runs outside the transaction, and must be harmless to repeat.

    Raises:
        Refused: the key was used for another request.
    """
    told = hashlib.sha256(repr(body).encode()).hexdigest()
    with nullcontext() if long else store.transaction():
        before = store.answered(key) if key else None
        if before is not None:
            if before[0] != f"{asked} {told}":
                raise RefusedRequest(422, "key_reused", "This Idempotency-Key was used for another request.")
            return _response(before[2], before[1], replayed=True)
        answer = jsonable_encoder(do())
        if key:
            store.answer(key, f"{asked} {told}", status, answer)
    return _response(answer, status)


def _response(body: Any, status: int, *, replayed: bool = False) -> Response:
    headers = {"idempotent-replayed": "true"} if replayed else {}
    return Response(status_code=status, headers=headers) if body is None else JSONResponse(body, status, headers)
