"""Worker in a peer's own Python: one request per line on stdin, one response per line on stdout.

`python worker.py FILE`: the file defines a class `Side`, whose methods answer the requests. A request is `{"method":
..., "arguments": {...}}`, its response `{"result": ...}` or `{"error": "..."}`. The peer's own output goes to stderr.
The worker exits at the end of stdin. It imports nothing of this project, because the peer's Python doesn't have it.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any


def main(path: str) -> None:
    """Answer requests until the end of stdin."""
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
