"""What `/metrics` shows, in the text format of Prometheus."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchword.serving.api.trace import STAGES, Stage
from patchword.serving.engine.stats import Histogram
from patchword.serving.models.opening import Served

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PAGE = 4096


@dataclass
class Metrics:
    """Requests by route and status, and how long they took; in the event loop only."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: Histogram = field(default_factory=Histogram)
    stages: dict[Stage, Histogram] = field(default_factory=lambda: {stage: Histogram() for stage in STAGES})

    def observe(self, route: str, status: int, seconds: float, stages: Mapping[Stage, float]) -> None:
        """Count a request. stages: the seconds of the stages that it reached"""
        self.requests[route, status] += 1
        self.seconds.observe(seconds)
        for stage, took in stages.items():
            self.stages[stage].observe(took)


def metrics_text(metrics: Metrics, served: Mapping[str, Served], is_ready: bool) -> str:
    return "\n".join([*_service(metrics, is_ready), *_engines(served), *_memory(), ""])


def _service(metrics: Metrics, is_ready: bool) -> Iterator[str]:
    yield from _head("patchword_ready", "gauge", "1 while requests are accepted")
    yield f"patchword_ready {int(is_ready)}"
    yield from _head("patchword_requests_total", "counter", "requests by route and status")
    for (route, status), count in sorted(metrics.requests.items()):
        yield f'patchword_requests_total{{route="{route}",code="{status}"}} {count}'
    yield from _head("patchword_request_seconds", "histogram", "from the headers of a request to its response")
    yield from _histogram("patchword_request_seconds", "", metrics.seconds)
    yield from _head("patchword_stage_seconds", "histogram", "of a request: tokenise, queue, compute, write")
    for stage, found in metrics.stages.items():
        yield from _histogram("patchword_stage_seconds", f'stage="{stage}"', found)


def _engines(served: Mapping[str, Served]) -> Iterator[str]:
    loads = {name: one.engine.load for name, one in served.items()}
    stats = {name: one.engine.stats for name, one in served.items()}
    gauges = {
        "queue_requests": ("requests that wait", lambda name: loads[name][0]),
        "queue_seconds": ("estimated work in the queue", lambda name: loads[name][1]),
        "speed": ("tokens or pixels per second", lambda name: loads[name][2]),
    }
    counters = {
        "batches_total": ("computed batches", lambda name: stats[name].batches),
        "inputs_total": ("computed texts or images", lambda name: stats[name].items),
        "work_total": ("computed tokens or pixels", lambda name: stats[name].size),
        "retried_total": ("inputs that were computed alone after their batch failed", lambda name: stats[name].retried),
        "late_total": ("requests whose deadline passed in the queue", lambda name: stats[name].late),
        "cancelled_total": ("requests whose client did not wait", lambda name: stats[name].cancelled),
    }
    for kind, values in (("gauge", gauges), ("counter", counters)):
        for metric, (meaning, value) in values.items():
            yield from _head(f"patchword_{metric}", kind, meaning)
            for name in served:
                yield f'patchword_{metric}{{model="{name}"}} {value(name):g}'
    for metric, meaning in (("queued", "how long an input waited"), ("computed", "how long a batch took")):
        yield from _head(f"patchword_{metric}_seconds", "histogram", meaning)
        for name in served:
            yield from _histogram(f"patchword_{metric}_seconds", f'model="{name}"', getattr(stats[name], metric))


def _memory() -> Iterator[str]:
    """Yield the memory of this process, where the system has /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return
    yield from _head("process_resident_memory_bytes", "gauge", "memory of the process")
    yield f"process_resident_memory_bytes {pages * _PAGE}"


def _head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"


def _histogram(name: str, label: str, found: Histogram) -> Iterator[str]:
    total, before = 0, f"{label}," if label else ""
    for bound, count in zip((*found.bounds, "+Inf"), found.counts, strict=True):
        total += count
        yield f'{name}_bucket{{{before}le="{bound}"}} {total}'
    inside = f"{{{label}}}" if label else ""
    yield f"{name}_sum{inside} {found.total:.6f}"
    yield f"{name}_count{inside} {total}"
