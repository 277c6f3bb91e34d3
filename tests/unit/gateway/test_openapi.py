"""The documents that the gateways hand out are true: made-up requests are answered as they say, never with a 5xx."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import seiche
from seiche import Lake
from seiche.gateway import apps
from seiche.store import open_store
from tests.gateway_server import direct

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@schemathesis.serializer("application/vnd.apache.arrow.stream")
def made_up_rows(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    import pyarrow as pa

    made = seiche.create(open_store(str(tmp_path_factory.mktemp("openapi") / "lake"), durability="os"))
    made.create_namespace("a")
    made.create_table("a.t", pa.schema([("id", pa.int64())]), format="iceberg")
    made.create_table("a.l", pa.schema([("id", pa.int64())]))
    return made


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["iceberg", "lance"])
def test_made_up_requests_are_answered_as_the_document_says(lake: Lake, protocol: str, effort: Any) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", getattr(apps(lake), protocol))
    asked = 0

    def ask(case: Any) -> None:
        nonlocal asked
        asked += 1
        case.call_and_validate(checks=CHECKS)

    limited = settings(
        max_examples=effort(3, 60),
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    operations: Any = schema.get_all_operations()
    for result in operations:
        limited(given(case=result.ok().as_strategy())(ask))()
    print(f"{asked} requests to {protocol}")
    assert asked > effort(80, 1000)


def test_the_list_of_endpoints_is_what_there_is(lake: Lake) -> None:
    servers = direct(lake)
    listed = set(servers.ask("GET", "/v1/config").json["endpoints"])
    paths = servers.ask("GET", "/openapi.json").json["paths"]
    described = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    unlisted = {line for line in described - listed if "{prefix}" in line}
    assert listed <= described
    assert {line.rpartition("/tables/{table}/")[2].partition("/")[0] for line in unlisted} == {"plan", "tasks", "sign"}


def test_the_documents_name_the_routes(lake: Lake) -> None:
    servers = direct(lake)
    lance = servers.ask("GET", "/openapi.json", lance=True).json
    assert len(lance["paths"]) == 1 + 53
    text = str(lance)
    for name in {part.partition("'")[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in lance["components"]["schemas"]
