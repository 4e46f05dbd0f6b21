"""Runs in a peer's own Python: one request a line on the input, one answer a line on the output.

`python worker.py FILE`: the file defines a class `Side`, whose methods are what can be asked for. A request is
`{"method": ..., "arguments": {...}}`, its answer `{"result": ...}` or `{"error": "..."}`. What the peer prints goes to
the error stream. The end of the input ends it. Imports nothing of this project, which that Python does not have.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any


def main(path: str) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf8")
    os.dup2(2, 1)
    side: Any = None
    try:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                if side is None:
                    side = runpy.run_path(path)["Side"]()
                answer = {"result": getattr(side, request["method"])(**request["arguments"])}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        if side is not None:
            side.close()


if __name__ == "__main__":
    main(sys.argv[1])
