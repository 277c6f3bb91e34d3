"""moto's server, with conditional puts one after the other.

It looks whether a name is free and then puts, as two steps: on a busy machine two writers of one name could both win.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from threading import Lock
from typing import Any

from moto import server
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

_CONDITIONAL = Lock()


class OneWinner(DomainDispatcherApplication):
    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with _CONDITIONAL if "HTTP_IF_NONE_MATCH" in environ else nullcontext():
            answer: Iterable[bytes] = super().__call__(environ, start_response)
            return answer


if __name__ == "__main__":
    vars(server)["DomainDispatcherApplication"] = OneWinner
    server.main()
