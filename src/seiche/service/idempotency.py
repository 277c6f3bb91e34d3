"""Calls under a key: done once, and answered again as often as they are repeated."""

import logging
from collections.abc import Callable

from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, SeicheError
from seiche.service.ledger import Ledger
from seiche.service.refusals import key_mismatch, key_pending, refused
from seiche.service.requests import checked_key
from seiche.service.state.keys import Claim, KeyStore, Verdict
from seiche.service.state.records import Record
from seiche.service.states import State

__all__ = ["Idempotency"]

log = logging.getLogger("seiche.service")


class Idempotency:
    """The keys of prepare and commit, of one account."""

    def __init__(self, account: str, keys: KeyStore, ledger: Ledger, runtime: Runtime) -> None:
        self._account = account
        self._keys = keys
        self._ledger = ledger
        self._runtime = runtime

    def once(self, operation: str, key: str, request: str, tx: str, act: Callable[[], Record]) -> Record:
        """Do it once for each key: again with the same request it is answered, with another one refused."""
        if not tx:
            raise refused("missing tx_id", "tx-id.missing")
        key = checked_key(key)
        if not key:
            return act()
        claim = Claim(self._account, operation, key, request, str(self._runtime.uuid()))
        match self._keys.claim(claim, self._ledger.now()):
            case Verdict.MISMATCH:
                raise key_mismatch(operation, key)
            case Verdict.PENDING:
                raise key_pending(operation, key)
            case Verdict.REPLAY:
                record = self._ledger.load(tx)
                return record if _is_done(operation, record) else act()
        try:
            record = act()
        except SeicheError as error:
            undecided = error.retryable or isinstance(error, CommitUnknown)
            self._note(self._keys.release if undecided else self._keys.forget, claim)
            raise
        if record.final or record.state is State.PREPARED:
            self._note(lambda one: self._keys.done(one, self._ledger.now()), claim)
        else:
            self._note(self._keys.release, claim)
        return record

    @staticmethod
    def _note(note: Callable[[Claim], None], claim: Claim) -> None:
        """Note how it ended. If that fails the answer is the same: whoever asks again is given it, once the lease of
        this one has run out.
        """
        try:
            note(claim)
        except SeicheError as error:
            log.warning("a key is not noted: %s", error.message, extra={"operation": claim.operation})


def _is_done(operation: str, record: Record) -> bool:
    """Whether it shows what was done under a key. Keys are remembered longer than transactions: one that was given up
    and forgotten may have been begun anew, under the same key and so with the same id, and nothing is done for it yet.
    """
    return record.final or (operation == "PrepareTransaction" and record.state is not State.OPEN)
