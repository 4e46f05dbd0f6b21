"""Storage of a run's state between nodes: SQLite, in memory, or in the episode's folder to survive the process."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

THREAD = "episode"
"""LangGraph's thread id of the run; each database contains one run."""

FILE = "graph.sqlite"


class Checkpoints:
    """The checkpoints of one run; only the latest is kept.

    Args:
        folder: folder of the database file; None keeps the database in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.path = None if folder is None else folder / FILE
        # Consecutive decisions of a run may come from different threads, but never concurrently.
        self._connection = sqlite3.connect(self.path or ":memory:", check_same_thread=False)
        self.saver: Any = SqliteSaver(self._connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))

    def prune(self) -> None:
        """Delete all checkpoints but the latest."""
        latest = "(SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ?)"
        for table in ("checkpoints", "writes"):
            self._connection.execute(
                f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id < {latest}", (THREAD, THREAD)
            )
        self._connection.commit()

    @property
    def count(self) -> int:
        """Number of stored checkpoints."""
        (number,) = self._connection.execute("SELECT COUNT(*) FROM checkpoints").fetchone()
        return int(number)

    def close(self) -> None:
        """Close the database; may be called twice."""
        self._connection.close()
