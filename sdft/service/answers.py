"""A request that changes something and is sent again, because its answer was lost, does it only once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, Any, TypeAlias

from fastapi import Header
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse, Response

from selfsurf.sdft.service.errors import Refused
from selfsurf.sdft.service.store import Store

Key: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A name of your choice for this request: sent again under it, it is done only once.",
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
    """Do what a request asks for, or return what was answered the first time. Refusals are not kept.

    Args:
        store: remembers the answer, in one transaction with what is done.
        key: of the request; None: it is done each time.
        asked: method and path.
        body: of the request.
        do: returns the answer's body; None for none.
        status: of the answer.
        long: it takes its time: the transaction is not kept open meanwhile, and it must be harmless to do twice.

    Raises:
        Refused: the key was used for another request.
    """
    told = hashlib.sha256(repr(body).encode()).hexdigest()
    with nullcontext() if long else store.transaction():
        before = store.answered(key) if key else None
        if before is not None:
            if before[0] != f"{asked} {told}":
                raise Refused(422, "key_reused", "This Idempotency-Key was used for another request.")
            return _response(before[2], before[1], replayed=True)
        answer = jsonable_encoder(do())
        if key:
            store.answer(key, f"{asked} {told}", status, answer)
    return _response(answer, status)


def _response(body: Any, status: int, *, replayed: bool = False) -> Response:
    headers = {"idempotent-replayed": "true"} if replayed else {}
    return Response(status_code=status, headers=headers) if body is None else JSONResponse(body, status, headers)
