"""What a failure of an object store means to the caller.

obstore tells a few failures apart by type and keeps the rest, such as the HTTP status, in a structured text for people.
That text is read here and nowhere else, and never trusted with a decision: what cannot be read from it, or will not be
after an upgrade, counts as unknown.
"""

import re
from typing import Literal, TypeAlias

from obstore import exceptions

from seiche.errors import CommitUnknown, InvalidInput, NotFound, PermissionDenied, SeicheError, Unavailable

__all__ = ["FAILURES", "Purpose", "behind_the_end", "never_sent", "no_bucket", "no_upload", "status_of", "translate"]

# What a request was for: of a lost read nothing is left, a lost write may have taken effect.
Purpose: TypeAlias = Literal["read", "list", "write"]

# Everything that obstore raises; FileNotFoundError and ValueError are its own choice for some failures.
FAILURES = (exceptions.BaseError, OSError, ValueError)

_DEBUG = "\nDebug source:\n"
# Whole lines of the debug text. Strings from the server stand there quoted and escaped, on a line of their own.
_STATUS = re.compile(r"^ +status: (\d{3}),$", re.MULTILINE)
_NOT_CONNECTED = re.compile(r"^ +HttpError \{\n +kind: Connect,$", re.MULTILINE)
# Answers to what was never done: plain HTTP is not allowed, so nothing was sent; the bucket is elsewhere, and nobody
# says where. If it does, reads follow it, and writes end with its status.
_NOT_SENT = re.compile(r"^ +source: reqwest::Error \{\n +kind: Builder,$", re.MULTILINE)
_ELSEWHERE = re.compile(r"^ +inner: BareRedirect,$", re.MULTILINE)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Client errors (4xx) after which the same request may succeed: time-outs, conflicts, too many requests.
_UNDECIDED = frozenset({408, 409, 412, 429})
_BEHIND_THE_END = re.compile(r"Wanted range starting at \d+, but object was only")
# A key that obstore has no path for: with an empty part, with `.` or with a control character.
_ODD_KEY = re.compile(r"Encountered object with invalid path")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
# An upload in parts that is over: it was finished, or called off.
_NO_UPLOAD = re.compile(r"<Code>NoSuchUpload</Code>")
# What S3 answers with status 400 although nothing is wrong with the request: who asks is no longer believed, or was too
# slow to send it.
_EXPIRED = re.compile(r"<Code>(?:ExpiredToken|InvalidToken|TokenRefreshRequired)</Code>")
_TOO_SLOW = re.compile(r"<Code>RequestTimeout</Code>")


def status_of(error: Exception) -> int | None:
    """The HTTP status that the server answered with, if it did and that can be read."""
    found = _STATUS.search(str(error).rpartition(_DEBUG)[2])
    return int(found[1]) if found else None


def behind_the_end(error: Exception) -> bool:
    """Whether a range was refused because it begins behind the end of the object: by the server (status 416), or by
    obstore, where the server sent an empty part instead, as Azurite does.
    """
    return status_of(error) == 416 or _BEHIND_THE_END.search(str(error)) is not None


def never_sent(error: Exception) -> bool:
    """Whether certainly no connection came about, so that the request cannot have had an effect."""
    return _NOT_CONNECTED.search(str(error).rpartition(_DEBUG)[2]) is not None


def no_bucket(error: Exception) -> bool:
    """Whether the server says that it is the bucket that is missing. Only used to say so."""
    return _NO_BUCKET.search(str(error)) is not None


def no_upload(error: Exception) -> bool:
    """Whether the server knows nothing of an upload in parts (any more): the answer to its last request was lost, and
    the repetition found it finished.
    """
    return _NO_UPLOAD.search(str(error)) is not None


def translate(error: Exception, path: str, bucket: str, purpose: Purpose) -> SeicheError:
    """The error of our own tree that says what to do about `error`, which was met at `path`."""
    status, reason = status_of(error), str(error).partition("\n")[0]
    if no_upload(error):
        return CommitUnknown(f"{path}: {bucket} did not say whether it was written: {reason}", path=path, status=status)
    if status == 400 and _TOO_SLOW.search(str(error)):
        status = 408
    expired = status == 400 and _EXPIRED.search(str(error)) is not None
    if isinstance(error, FileNotFoundError) or status == 404:
        # Nothing but a missing bucket makes a write or a listing fail like this.
        return _missing(path, bucket if purpose != "read" or no_bucket(error) else "")
    denied = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
    if denied or expired or status in (401, 403):
        return PermissionDenied(
            f"{path}: {bucket} refused the credentials: {reason}",
            remedy="Check the access key, its rights on the bucket, the region and the clock of this machine.",
            path=path,
            bucket=bucket,
        )
    if mistake := _mistake(error, path, bucket, purpose, status):
        return mistake
    if purpose == "write" and status != 429 and not never_sent(error):
        return CommitUnknown(f"{path}: {bucket} did not say whether it was written: {reason}", path=path, status=status)
    return Unavailable(f"{path}: no answer from {bucket}: {reason}", path=path, status=status)


def _mistake(error: Exception, path: str, bucket: str, purpose: Purpose, status: int | None) -> InvalidInput | None:
    """What can be corrected by whoever asked, if it is that: nothing was done, and asking again would not help."""
    reason = str(error).partition("\n")[0]
    debug = str(error).rpartition(_DEBUG)[2]
    if _NOT_SENT.search(debug):
        return InvalidInput(
            f"{path}: the request to {bucket} was not sent: {reason}",
            remedy="Check the endpoint; if it begins with http://, set the option allow_http (AWS_ALLOW_HTTP) to true.",
            path=path,
        )
    if _ELSEWHERE.search(debug) or status in _REDIRECTS:
        return InvalidInput(
            f"{path}: {bucket} is not where it was asked for: {reason}",
            remedy="Set the region of the bucket (AWS_REGION), or check the endpoint.",
            path=path,
        )
    if purpose == "list" and _ODD_KEY.search(reason):
        return InvalidInput(
            f"{path or bucket}: cannot be listed: {reason}",
            remedy="Somebody else has put an object there whose key is no path. Remove it, or give it another key.",
            path=path,
            bucket=bucket,
        )
    if isinstance(error, exceptions.NotSupportedError) or status == 501:
        return InvalidInput(
            f"{path}: {bucket} cannot do this: {reason}",
            remedy="Run `seiche store probe` to see what the store can do.",
            path=path,
        )
    if status is not None and 400 <= status < 500 and status not in _UNDECIDED:
        return InvalidInput(
            f"{path}: {bucket} refused the request: {reason}",
            remedy="Check the endpoint, the region and the options of the store; `seiche store probe` tries each call.",
            path=path,
            status=status,
        )
    return None


def _missing(path: str, bucket: str) -> NotFound:
    if bucket:
        remedy = "Create it, or check its name and the endpoint."
        return NotFound(f"there is no bucket {bucket}", remedy=remedy, bucket=bucket, path=path)
    return NotFound(f"{path}: no such file", path=path)
