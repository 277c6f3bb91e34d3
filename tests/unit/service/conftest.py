"""A lake, and a service on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seiche import Lake
from seiche.service.core import Service
from tests.service_lake import make_lake, make_service


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_lake(tmp_path)


@pytest.fixture
def service(lake: Lake, tmp_path: Path) -> Iterator[Service]:
    made = make_service(lake, tmp_path)
    yield made
    made.close()
