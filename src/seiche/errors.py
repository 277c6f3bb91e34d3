"""Every error that Seiche raises, grouped by what the caller should do next.

    SeicheError
    ├── ConflictError            somebody else committed first; nothing of yours was written
    │   ├── RetryableConflict    run the same work again on the newer version
    │   └── IncompatibleConflict look before you retry: it may do something other than was meant
    ├── CommitUnknown            it may or may not have happened: ask by the id in the error, never guess
    ├── NotFound                 the thing named does not exist
    ├── AlreadyExists            the name is taken by someone else
    ├── InvalidInput             the request is wrong: fix it
    ├── Corrupt                  stored bytes are not what they must be: ask an operator
    ├── PermissionDenied         the credentials do not allow it
    └── Unavailable              the storage or service did not answer; nothing was decided: try later

`kind` is stable and machine-readable: it is what scripts, logs and the wire protocols carry. Never tell errors apart by
their text.

```python
try:
    seiche.open("no-lake-is-here")
except seiche.NotFound as error:
    assert (error.kind, error.retryable) == ("not_found", False)
    print(error.remedy)
```
"""

from typing import Any, ClassVar, Final

__all__ = [
    "AlreadyExists",
    "CommitUnknown",
    "ConflictError",
    "Corrupt",
    "IncompatibleConflict",
    "InvalidInput",
    "NotFound",
    "PermissionDenied",
    "RetryableConflict",
    "SeicheError",
    "Unavailable",
]

# The `reason` of a `RetryableConflict` that only the caller can resolve: the data that was given cannot be read again.
SPENT: Final = "spent"
# That of one whose transaction was older than it may become.
OUTLIVED: Final = "outlived"


class SeicheError(Exception):
    """The root of the tree: catches everything that Seiche raises on purpose.

    `details` says who and what was involved (`path`, `table`, `read_version`, `winner`, ...); each entry can also be
    read as an attribute. `remedy` is the sentence that tells the caller what to do.

    ```python
    try:
        seiche.Table.open("memory://nothing/here")
    except seiche.SeicheError as error:
        print(error.kind, error.message, error.remedy, error.details)
    ```
    """

    kind: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    advice: ClassVar[str] = ""

    def __init__(self, message: str, *, remedy: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy or self.advice
        self.details = details

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message

    def __getattr__(self, name: str) -> Any:
        # Only called for names that are not ordinary attributes. During unpickling `details` is not there yet.
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        raise AttributeError(f"{type(self).__name__} has no attribute or detail {name!r}")


class ConflictError(SeicheError):
    """Another commit got in between. Nothing of the failed commit is visible.

    For instance: two transactions update the same row, or one drops the table that the other appends to.
    """

    kind = "conflict"


class RetryableConflict(ConflictError):
    """The work cannot be rebased, but running it again on the newer version means the same.

    `lake.run` does that by itself:

    ```python
    lake = seiche.create("memory://retried")
    lake.create_namespace("shop")
    lake.create_table("shop.stock", pa.schema([("sku", pa.string()), ("left", pa.int64())]))
    lake.run(lambda tx: tx.update("shop.stock", {"left": "left - 1"}, where="sku = 'a'"), attempts=20)
    ```
    """

    kind = "conflict.retryable"
    retryable = True
    advice = "Nothing was written. Run the operation again on the latest version."


class IncompatibleConflict(ConflictError):
    """A retry may change other data than was meant; a person or the application must decide.

    For instance: `lake.rollback(to=3, expected_version=7)` when the lake is at version 8 by now.
    """

    kind = "conflict.incompatible"
    advice = "Nothing was written. Look at the newer version first: a retry may do something other than was meant."


class CommitUnknown(SeicheError):
    """The storage did not say whether the write took effect, and it could not be found out.

    Nothing may be concluded from it: neither success nor failure. The id in `details` is what to ask for.

    For instance: the connection breaks after a root was sent. Ask `lake.status(tx.id)`, or `lake.settle(tx.id)` for an
    answer that stays.
    """

    kind = "commit_unknown"
    advice = "The write may or may not have taken effect. Ask for its outcome before doing it again."


class NotFound(SeicheError):
    """What was named does not exist.

    For instance: `lake.table("shop.nothing")`, or a version that has expired.
    """

    kind = "not_found"


class AlreadyExists(SeicheError):
    """The name belongs to somebody else; what is there was not touched.

    For instance: `seiche.create` where there is a lake, or `create_table` under a name that is taken.
    """

    kind = "already_exists"


class InvalidInput(SeicheError):
    """The request cannot be right, whatever the state of the data. Refused before anything was written.

    For instance: SQL that does not parse, rows with a column that the table has not, or a text for a number.
    """

    kind = "invalid_input"


class Corrupt(SeicheError):
    """Stored bytes break the format. They were left as they are.

    For instance: a manifest was cut short, or a file that the lake needs was removed by hand. `seiche fsck` names it.
    """

    kind = "corrupt"


class PermissionDenied(SeicheError):
    """The store or service refused the credentials, or the file system the access.

    For instance: an append to a lake in a directory that may only be read.
    """

    kind = "permission_denied"


class Unavailable(SeicheError):
    """No answer, and nothing was decided. Trying again later is safe.

    For instance: the disk is full, or the server at an address does not run.
    """

    kind = "unavailable"
    retryable = True
    advice = "Nothing was decided. Try again later."
