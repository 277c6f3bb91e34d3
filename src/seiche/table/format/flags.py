"""Feature flags: what a table needs its readers and writers to understand.

A manifest has two words of bits, one for readers and one for writers. A bit that we do not know stands for something
that we would get wrong, so the table is refused. It is `InvalidInput`, the kind for a request that cannot succeed as it
is: nothing is damaged (`Corrupt`), and trying later does not help (`Unavailable`).
"""

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format.logical_types import is_dictionary
from seiche.table.format.manifest_pb2 import Manifest

__all__ = [
    "BASE_PATHS",
    "FIRST_FORMAT",
    "MIXED_DATA_VERSIONS",
    "SEICHE_FENCE",
    "STABLE_ROW_IDS",
    "recompute",
    "require_readable",
    "require_writable",
]

DELETION_FILES = 1 << 0
STABLE_ROW_IDS = 1 << 1
# A mark of early files of the second generation; means nothing any more.
OLD_V2_FORMAT = 1 << 2
TABLE_CONFIG = 1 << 3
BASE_PATHS = 1 << 4
NO_TRANSACTION_FILE = 1 << 5
COVERING_INDICES = 1 << 7
MIXED_DATA_VERSIONS = 1 << 8
TAGGED_FRAGMENT_REUSE = 1 << 10
# Accepted and dropped by pylance 14, which gives it no name.
UNNAMED_11 = 1 << 11
MANAGED_BLOBS = 1 << 14
# Ours: the table belongs to a lake, and only commits that go through the lake are allowed. No other writer knows it,
# which is the point: they refuse to write, and still read.
SEICHE_FENCE = 1 << 62

# The first data format, by the names that manifests have for it. Its dictionaries stand in the file of each version.
FIRST_FORMAT = frozenset({"", "0.1"})

# Not seen in the content, so kept as they are. Bits in `_PAIRED` mean something only if they are in both words.
_CARRIED = COVERING_INDICES | MIXED_DATA_VERSIONS | TAGGED_FRAGMENT_REUSE | MANAGED_BLOBS
_PAIRED = MIXED_DATA_VERSIONS | TAGGED_FRAGMENT_REUSE | MANAGED_BLOBS
_UNDERSTOOD = (
    DELETION_FILES
    | STABLE_ROW_IDS
    | OLD_V2_FORMAT
    | TABLE_CONFIG
    | BASE_PATHS
    | NO_TRANSACTION_FILE
    | UNNAMED_11
    | _CARRIED
)


def require_readable(header: Manifest) -> None:
    """Refuse a table that has something in it which this version of Seiche cannot read."""
    unknown = header.reader_feature_flags & ~_UNDERSTOOD
    if unknown:
        raise _too_new("read", header, unknown)
    _check_pairs(header)


def require_writable(header: Manifest, *, managed: bool = False) -> None:
    """Refuse a table that this version of Seiche cannot write; one that belongs to a lake unless `managed`."""
    readers, flags = header.reader_feature_flags, header.writer_feature_flags
    if readers & ~_UNDERSTOOD or (readers ^ flags) & _PAIRED:
        require_readable(header)  # says what is wrong
    if flags & SEICHE_FENCE and not managed:
        raise InvalidInput(
            f"version {header.version} belongs to a table that is managed by a lake",
            remedy="Write it through its lake, or take it out of the lake first (release).",
            version=header.version,
            flags=[62],
        )
    unknown = flags & ~(_UNDERSTOOD | SEICHE_FENCE)
    if unknown:
        raise _too_new("write", header, unknown)
    if header.data_format.version in FIRST_FORMAT:
        _check_dictionaries(header)


def recompute(header: Manifest, *, has_deletions: bool) -> None:
    """Set both words of `header` to what its content needs, keeping the marks that content does not show.

    Stable row ids are one of those: a table without rows has them or not, so the mark is set when the table is created
    and stays. The fence is not: a version of a lake's table gets it when it is published.
    """
    carried = (header.reader_feature_flags | header.writer_feature_flags) & _CARRIED
    both = carried | (header.reader_feature_flags & STABLE_ROW_IDS)
    if has_deletions:
        both |= DELETION_FILES
    if header.base_paths:
        both |= BASE_PATHS
    header.reader_feature_flags = both
    header.writer_feature_flags = both | (TABLE_CONFIG if header.config else 0)


def _check_pairs(header: Manifest) -> None:
    lone = (header.reader_feature_flags ^ header.writer_feature_flags) & _PAIRED
    if lone:
        raise Corrupt(
            f"version {header.version} has feature flags {_bits(lone)} in one of its two words only",
            remedy="The manifest was written wrongly. Open an older version, or ask its writer to repair it.",
            version=header.version,
            flags=_bits(lone),
        )


def _check_dictionaries(header: Manifest) -> None:
    """Refuse columns with dictionaries: a manifest of ours does not hold any, and nobody could read the version."""
    coded = [field.name for field in header.fields if is_dictionary(field.logical_type)]
    if coded:
        raise InvalidInput(
            f"version {header.version} cannot be written by this version of Seiche: its data format is the first one"
            f" (0.1), and {', '.join(coded)} coded with a dictionary",
            remedy="Copy the rows into a table of a newer format: `lance.write_dataset(lance.dataset(old), new)`.",
            version=header.version,
            columns=coded,
        )


def _too_new(verb: str, header: Manifest, unknown: int) -> InvalidInput:
    return InvalidInput(
        f"version {header.version} cannot be {'read' if verb == 'read' else 'written'} by this version of Seiche:"
        f" it has unknown feature flags {_bits(unknown)}",
        remedy="A newer writer made it. Use a version of Seiche that knows these features.",
        version=header.version,
        flags=_bits(unknown),
    )


def _bits(flags: int) -> list[int]:
    return [bit for bit in range(64) if flags >> bit & 1]
