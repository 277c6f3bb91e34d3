"""What the server counts, for Prometheus and for OpenTelemetry."""

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from seiche.core.clock import Clock
from seiche.service.core import Service
from seiche.service.host import Host

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["Call", "Metrics"]

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


_CALLS: Final = "Calls by method and status; those of catalogs begin with iceberg or lance."
_GAUGES: Final = {
    "groups": "Groups that were decided.",
    "decided": "Transactions over gRPC that were decided.",
    "refused": "Transactions that were refused because too many waited.",
    "waiting": "Transactions that wait to be decided.",
    "versions": "Versions of the lake that this server made, for whoever asked: over gRPC or through a catalog.",
    "committed": "Transactions that are in them.",
    "cached_bytes": "About what nodes of the tree and manifests of tables take in memory.",
}


class Call:
    """One call that is being answered; a block of it is the call from beginning to end."""

    __slots__ = ("_began", "_metrics", "_span", "id", "method", "status")

    def __init__(self, metrics: "Metrics", method: str) -> None:
        self._metrics = metrics
        self.method = method
        # What the one who called, or the server, calls the request: for whoever looks for it in the log.
        self.id = ""
        self.status = "OK"

    def ended(self, status: str) -> None:
        self.status = status

    def begin(self) -> Self:
        self._began = self._metrics.now()
        self._span = self._metrics.span(self.method)
        return self

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self.status == "OK":
            self.ended("CANCELLED")
        self.finish()

    def finish(self) -> None:
        self._metrics.count(self.method, self.status, self._metrics.now() - self._began)
        if self._span is not None:
            self._span.set_attribute("rpc.grpc.status", self.status)
            self._span.end()


class Metrics:
    """Counts calls as they end; looks at queues when it is asked.

    The same goes to OpenTelemetry, with a span for each call, if a meter and a tracer are set up before the server.
    """

    def __init__(self, host: Host, clock: Clock) -> None:
        from opentelemetry import metrics, trace
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._clock = clock
        self.registry = CollectorRegistry()
        self._calls = Counter("seiche_calls", _CALLS, ("method", "status"), registry=self.registry)
        self._seconds = Histogram(
            "seiche_call_seconds", "How long calls took.", ("method",), buckets=_SECONDS, registry=self.registry
        )
        self._tracer = trace.get_tracer("seiche.service")
        meter = metrics.get_meter("seiche.service")
        self._otel_calls = meter.create_counter("seiche.calls", description=_CALLS)
        self._otel_seconds = meter.create_histogram(
            "seiche.call.duration", unit="s", description="How long calls took."
        )
        # Who has set up neither pays for neither: a span that goes nowhere costs as much as a row in SQL.
        self._traced = _set_up(trace.get_tracer_provider())
        self._metered = _set_up(metrics.get_meter_provider())
        gauges = {
            name: Gauge(f"seiche_{name}", text, ("account",), registry=self.registry) for name, text in _GAUGES.items()
        }
        for account, service in host.services.items():
            for name, gauge in gauges.items():
                gauge.labels(account).set_function(partial(_figure, service, name))
        self._bound: dict[tuple[str, str], tuple[Any, Any]] = {}

    def call(self, method: str) -> Call:
        """Around one call."""
        return Call(self, method)

    def now(self) -> float:
        return self._clock.monotonic()

    def span(self, method: str) -> "Span | None":
        return self._tracer.start_span(method) if self._traced else None

    def count(self, method: str, status: str, seconds: float) -> None:
        """Note a call that has ended."""
        bound = self._bound.get((method, status))
        if bound is None:
            bound = self._bound[method, status] = (self._calls.labels(method, status), self._seconds.labels(method))
        bound[0].inc()
        bound[1].observe(seconds)
        if self._metered:
            self._otel_calls.add(1, {"method": method, "status": status})
            self._otel_seconds.record(seconds, {"method": method})

    def exposition(self) -> bytes:
        """All figures, in the text format of Prometheus."""
        from prometheus_client import generate_latest

        found: bytes = generate_latest(self.registry)
        return found


def _set_up(provider: object) -> bool:
    """Whether it is somebody's, and not what stands in for one in OpenTelemetry's own interface."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def _figure(service: Service, name: str) -> float:
    if name == "cached_bytes":
        return float(service.lake.states.cached_bytes)
    if name in ("versions", "committed"):
        return float(getattr(service.lake.tally, name))
    return float(service.group.waiting if name == "waiting" else getattr(service.group.figures, name))
