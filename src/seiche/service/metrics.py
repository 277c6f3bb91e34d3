"""What the server counts, for Prometheus and for OpenTelemetry."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from seiche.core.clock import Clock
from seiche.service.group import GroupCommitter
from seiche.service.host import Host

__all__ = ["Call", "Metrics"]

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


_GAUGES: Final = {
    "groups": "Groups that were decided.",
    "decided": "Transactions that were decided.",
    "refused": "Transactions that were refused because too many waited.",
    "waiting": "Transactions that wait to be decided.",
}


class Call:
    """One call that is being answered."""

    __slots__ = ("status",)

    def __init__(self) -> None:
        self.status = "OK"

    def ended(self, status: str) -> None:
        self.status = status


class Metrics:
    """Counts calls as they end; looks at queues when it is asked. Spans are made if a tracer was set up."""

    def __init__(self, host: Host, clock: Clock) -> None:
        from opentelemetry import metrics, trace
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._clock = clock
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "seiche_calls", "Calls by method and status.", ("method", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "seiche_call_seconds", "How long calls took.", ("method",), buckets=_SECONDS, registry=self.registry
        )
        self._tracer = trace.get_tracer("seiche.service")
        self._spans = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        self._otel = metrics.get_meter("seiche.service").create_counter("seiche.calls")
        gauges = {
            name: Gauge(f"seiche_{name}", text, ("account",), registry=self.registry) for name, text in _GAUGES.items()
        }
        for account, service in host.services.items():
            for name, gauge in gauges.items():
                gauge.labels(account).set_function(partial(_figure, service.group, name))
        self._bound: dict[str, tuple[Any, Any]] = {}

    @contextmanager
    def call(self, method: str) -> Iterator[Call]:
        """Around one call."""
        call = Call()
        began = self._clock.monotonic()
        span = self._tracer.start_span(method) if self._spans else None
        try:
            yield call
        except BaseException:
            if call.status == "OK":
                call.ended("CANCELLED")
            raise
        finally:
            bound = self._bound.get(method)
            if bound is None:
                bound = self._bound[method] = (self._calls.labels(method, "OK"), self._seconds.labels(method))
            (bound[0] if call.status == "OK" else self._calls.labels(method, call.status)).inc()
            bound[1].observe(self._clock.monotonic() - began)
            if span is not None:
                span.set_attribute("rpc.grpc.status", call.status)
                span.end()
                self._otel.add(1, {"method": method, "status": call.status})

    def exposition(self) -> bytes:
        """All figures, in the text format of Prometheus."""
        from prometheus_client import generate_latest

        found: bytes = generate_latest(self.registry)
        return found


def _figure(group: GroupCommitter, name: str) -> float:
    return float(group.waiting if name == "waiting" else getattr(group.figures, name))
