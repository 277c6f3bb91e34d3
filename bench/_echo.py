"""A gRPC server that answers at once and does nothing: what no server on the same libraries can be quicker than.

python -m bench._echo       listens, and prints its port
"""

import queue
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import uvloop

# About what a transaction in one call sends and gets.
QUESTION = bytes(420)
ANSWER = bytes(220)
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


async def serve() -> None:
    async def one(_: bytes, __: Any) -> bytes:
        return ANSWER

    async def many(_: Any, context: Any) -> None:
        while await context.read() is not grpc.aio.EOF:
            await context.write(ANSWER)

    methods = {
        "One": grpc.unary_unary_rpc_method_handler(one),
        "Many": grpc.stream_stream_rpc_method_handler(many),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


@contextmanager
def echo() -> Iterator[int]:
    """A running server; yields its port."""
    process = subprocess.Popen([sys.executable, "-m", "bench._echo"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def calling(port: int, _: int) -> Callable[[], object]:
    """One call for each question."""
    method = grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS).unary_unary("/bench.Echo/One")
    return lambda: method(QUESTION, timeout=60)


def asking(port: int, _: int) -> Callable[[], object]:
    """One open call for all of them."""
    questions: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
    answers = channel.stream_stream("/bench.Echo/Many")(iter(questions.get, None))

    def ask() -> object:
        questions.put(QUESTION)
        return next(answers)

    return ask


if __name__ == "__main__":
    uvloop.run(serve())
