"""moto's server, with conditional puts one after the other: S3's, and all requests to DynamoDB.

It looks whether a name is free and then puts, as two steps: on a busy machine two writers of one name could both win.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from threading import Lock
from typing import Any

from moto import server
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

_CONDITIONAL = Lock()
_DYNAMODB = "DynamoDB_"


def _is_conditional(environ: dict[str, Any]) -> bool:
    return "HTTP_IF_NONE_MATCH" in environ or environ.get("HTTP_X_AMZ_TARGET", "").startswith(_DYNAMODB)


class OneWinner(DomainDispatcherApplication):
    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with _CONDITIONAL if _is_conditional(environ) else nullcontext():
            answer: Iterable[bytes] = super().__call__(environ, start_response)
            return answer


if __name__ == "__main__":
    vars(server)["DomainDispatcherApplication"] = OneWinner
    server.main()
