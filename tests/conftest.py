"""What all tests share: the two lengths of a proof."""

from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run proofs in their long form (make soak)")


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """`effort(short, long)`: how much of it to do. Long under `make soak`; mark such a test with `pytest.mark.soak`."""
    soaking = bool(request.config.getoption("--soak"))
    return lambda short, long: long if soaking else short
