"""Where a run's state is kept between nodes: SQLite, in memory or in the folder of a run that outlives its process."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

THREAD = "episode"
"""LangGraph's name of the run in its database, which holds one."""

FILE = "graph.sqlite"


class Checkpoints:
    """The checkpoints of one run; only the latest is kept.

    Args:
        folder: where they outlive the process, for its user's eyes; None keeps them in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.path = None if folder is None else folder / FILE
        # A run may be decided in another thread than the last time, never in two at once.
        self._connection = sqlite3.connect(self.path or ":memory:", check_same_thread=False)
        self.saver: Any = SqliteSaver(self._connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))

    def prune(self) -> None:
        """Drop all but the latest."""
        latest = "(SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ?)"
        for table in ("checkpoints", "writes"):
            self._connection.execute(
                f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id < {latest}", (THREAD, THREAD)
            )
        self._connection.commit()

    @property
    def count(self) -> int:
        """How many are kept."""
        (number,) = self._connection.execute("SELECT COUNT(*) FROM checkpoints").fetchone()
        return int(number)

    def close(self) -> None:
        """Close the database; twice is safe."""
        self._connection.close()
