"""Files beside the manifest, under names that nobody else uses."""

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, SeicheError, Unavailable
from seiche.store.base import Data, Store

__all__ = ["put_new"]

_PATIENCE = Patience(attempts=5, timeout=20.0, first_delay=0.02, longest_delay=1.0)


def put_new(store: Store, path: str, data: Data, runtime: Runtime, *, durable: bool = True) -> None:
    """Create the file; it is on disk when this returns, unless not `durable`. `path` must hold a random part, so that
    nobody else writes it.

    An unclear answer is not passed on as `CommitUnknown`, which would put the commit itself in doubt while it has not
    even begun. The same bytes are put again, also after a refusal that may pass: whichever copy lands is this file, and
    one that lands without being needed is garbage that no manifest names.
    """
    put = store.put_if_absent if durable else store.put_own
    doubt = False
    failure: SeicheError | None = None
    for _ in _PATIENCE.tries(runtime):
        try:
            put(path, data)
        except CommitUnknown as error:
            doubt, failure = True, error
        except Unavailable as error:
            failure = error
        except AlreadyExists:
            if not doubt:
                raise
            if durable:
                store.flush([path])  # which the unclear answer may have been about
            return
        else:
            return
    if doubt or failure is None:
        raise Unavailable(f"{path}: the storage would not say whether the file was written", path=path) from failure
    raise Unavailable(failure.message, remedy=failure.remedy, path=path) from failure
