"""What is said over a connection that is one open call: `ExecuteTransactions` without the rest of gRPC.

    client   GREETING, then a HELLO with headers, then MESSAGEs
    server   a HELLO when the caller may go on, then MESSAGEs; at last an END that says how the call went

A frame is its length, its kind and its content. Messages are those of the call. The greeting is as long as what gRPC's
own clients say first, and begins otherwise, so that both can be told apart at one port.
"""

import json
from struct import Struct
from typing import Final, NamedTuple

__all__ = ["END", "GREETING", "HEAD", "HELLO", "LONGEST_HELLO", "MESSAGE", "End", "framed", "headers_in", "hello"]

GREETING: Final = b"SEICHE-TRANSACTIONS-1\r\n\r"
HEAD: Final = Struct(">IB")
MESSAGE, HELLO, END = range(3)
# Tokens are long; nothing else is.
LONGEST_HELLO: Final = 16 << 10

_END: Final = Struct(">HI")


class End(NamedTuple):
    """How a call went: a status of gRPC, what it says about that, and the details for programs, if there are any."""

    code: int
    text: str = ""
    details: bytes = b""

    def encode(self) -> bytes:
        text = self.text.encode()
        return _END.pack(self.code, len(text)) + text + self.details

    @classmethod
    def decode(cls, data: bytes) -> "End":
        """`ValueError` if it cannot be read."""
        if len(data) < _END.size:
            raise ValueError("the end of a call is cut short")
        code, size = _END.unpack_from(data)
        at = _END.size + size
        return cls(code, data[_END.size : at].decode(errors="replace"), data[at:])


def framed(content: bytes, kind: int = MESSAGE) -> bytes:
    return HEAD.pack(len(content), kind) + content


def hello(headers: tuple[tuple[str, str], ...]) -> bytes:
    """What a client says first."""
    return GREETING + framed(json.dumps(headers).encode(), HELLO)


def headers_in(data: bytes) -> tuple[tuple[str, str], ...]:
    """The headers in a client's hello; `ValueError` if there are none."""
    found = json.loads(data)
    if not isinstance(found, list) or not all(isinstance(one, list) and len(one) == 2 for one in found):
        raise ValueError("headers are pairs")
    return tuple((str(name), str(value)) for name, value in found)
