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
"""

from typing import Any, ClassVar

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


class SeicheError(Exception):
    """The root of the tree: catches everything that Seiche raises on purpose.

    `details` says who and what was involved (`path`, `table`, `read_version`, `winner`, ...); each entry can also be
    read as an attribute. `remedy` is the sentence that tells the caller what to do.
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
    """Another commit got in between. Nothing of the failed commit is visible."""

    kind = "conflict"


class RetryableConflict(ConflictError):
    """The work cannot be rebased, but running it again on the newer version means the same."""

    kind = "conflict.retryable"
    retryable = True
    advice = "Nothing was written. Run the operation again on the latest version."


class IncompatibleConflict(ConflictError):
    """A retry may change other data than was meant; a person or the application must decide."""

    kind = "conflict.incompatible"
    advice = "Nothing was written. Look at the newer version first: a retry may do something other than was meant."


class CommitUnknown(SeicheError):
    """The storage did not say whether the write took effect, and it could not be found out.

    Nothing may be concluded from it: neither success nor failure. The id in `details` is what to ask for.
    """

    kind = "commit_unknown"
    advice = "The write may or may not have taken effect. Ask for its outcome before doing it again."


class NotFound(SeicheError):
    """What was named does not exist."""

    kind = "not_found"


class AlreadyExists(SeicheError):
    """The name belongs to somebody else; what is there was not touched."""

    kind = "already_exists"


class InvalidInput(SeicheError):
    """The request cannot be right, whatever the state of the data. Refused before anything was written."""

    kind = "invalid_input"


class Corrupt(SeicheError):
    """Stored bytes break the format. They were left as they are."""

    kind = "corrupt"


class PermissionDenied(SeicheError):
    """The store or service refused the credentials, or the file system the access."""

    kind = "permission_denied"


class Unavailable(SeicheError):
    """No answer, and nothing was decided. Trying again later is safe."""

    kind = "unavailable"
    retryable = True
    advice = "Nothing was decided. Try again later."
