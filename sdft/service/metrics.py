"""Metrics of the service in Prometheus' format."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from selfsurf.sdft.service.service_folder import ServiceFolder
from selfsurf.sdft.service.store import Store

STATUSES = ("queued", "running", "succeeded", "failed", "cancelled")


class Metrics:
    """Counters of requests and transfers, and gauges that are read on demand."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        named: dict[str, Any] = {"registry": self.registry, "namespace": "selfsurf"}
        self._requests = Counter("http_requests", "Requests answered.", ("method", "route", "status"), **named)
        self._seconds = Histogram(
            "http_seconds", "Seconds taken to answer a request.", ("route",),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30), **named,
        )  # fmt: skip
        self.uploaded = Counter("uploaded_bytes", "Bytes of archives received.", **named)
        self.downloads = Counter("downloads", "Downloads of adapters that were started.", **named)
        self._jobs = Gauge("jobs", "Jobs by status.", ("status",), **named)
        self._step = Gauge("running_step", "Optimizer step of the running job.", **named)
        self._used = Gauge("used_bytes", "Bytes used by the service's folder.", **named)
        self._quota = Gauge("quota_bytes", "Bytes that the service's folder may use.", **named)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; nonstandard methods are counted as `other`."""
        known = method if method in ("GET", "HEAD", "POST", "DELETE") else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, place: ServiceFolder, store: Store, quota: int) -> bytes:
        """Return all metrics as text."""
        counts = store.counts()
        for status in STATUSES:
            self._jobs.labels(status).set(counts.get(status, 0))
        running = [job.step for job, _, _ in store.unfinished() if job.status == "running"]
        self._step.set(running[0] if running else 0)
        self._used.set(place.used())
        self._quota.set(quota)
        return generate_latest(self.registry)
