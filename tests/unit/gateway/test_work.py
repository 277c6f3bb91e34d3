"""Calls that are worked on in threads: whatever becomes of one, everybody gets an answer."""

import asyncio
from collections.abc import Sequence

import pytest

from seiche.gateway.http.auth import Caller
from seiche.gateway.http.calls import Answer, Call
from seiche.gateway.http.work import Together, Workers

FAILURE = RuntimeError("the work itself failed")


def call(name: str) -> Call:
    return Call(path={"name": name}, query={}, headers={}, body=b"", caller=Caller(), request_id=name, route="GET /")


def work(calls: Sequence[Call]) -> list[Answer | None]:
    if any(one.path["name"] == "bad" for one in calls):
        raise FAILURE
    return [None if one.path["name"] == "alone" else Answer(200, {}) for one in calls]


def alone(one: Call) -> Answer:
    if one.path["name"] == "bad":
        raise FAILURE
    return Answer(201, {})


@pytest.fixture
def workers() -> Workers:
    return Workers(2)


def test_work_that_fails_is_told_and_holds_up_nobody_who_comes_after_it(workers: Workers) -> None:
    async def asked() -> None:
        together = Together(workers, work, alone)
        for name, status in (("good", 200), ("bad", 0), ("good", 200), ("alone", 201)):
            promise = workers.promise()
            together.ask(call(name), promise)
            async with asyncio.timeout(10):
                if status:
                    assert (await promise).status == status
                else:
                    with pytest.raises(RuntimeError, match="the work itself"):
                        await promise
        assert workers.inside == 0

    asyncio.run(asked())
    workers.stop()


def test_a_call_by_itself_that_fails_is_told(workers: Workers) -> None:
    async def asked() -> None:
        promise = workers.promise()
        workers.alone(call("bad"), promise, alone)
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match="the work itself"):
                await promise
        assert workers.inside == 0

    asyncio.run(asked())
    workers.stop()
