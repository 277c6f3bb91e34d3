"""Feature flags: recomputed from content, carried over where content does not show them, refused where unknown."""

import pytest

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format import flags
from seiche.table.format.manifest_pb2 import Manifest

UNDERSTOOD = {0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 14}
PAIRED = {8, 10, 14}


def header(reader: int = 0, writer: int = 0) -> Manifest:
    return Manifest(version=3, reader_feature_flags=reader, writer_feature_flags=writer)


@pytest.mark.parametrize("bit", range(64))
def test_every_bit_is_either_understood_or_refused(bit: int) -> None:
    both = header(1 << bit, 1 << bit)
    if bit in UNDERSTOOD:
        flags.require_readable(both)
        flags.require_writable(both)
    else:
        for refuse in (flags.require_readable, flags.require_writable):
            with pytest.raises(InvalidInput) as caught:
                refuse(both)
            assert caught.value.flags == [bit]
            assert caught.value.version == 3
            assert not caught.value.retryable


@pytest.mark.parametrize("bit", sorted(set(range(64)) - UNDERSTOOD))
def test_a_bit_for_writers_only_leaves_the_table_readable(bit: int) -> None:
    manifest = header(0, 1 << bit)
    flags.require_readable(manifest)
    with pytest.raises(InvalidInput):
        flags.require_writable(manifest)


@pytest.mark.parametrize("bit", sorted(PAIRED))
def test_a_paired_bit_in_one_word_is_corrupt(bit: int) -> None:
    for manifest in (header(1 << bit, 0), header(0, 1 << bit)):
        with pytest.raises(Corrupt):
            flags.require_readable(manifest)


def test_the_fence_keeps_out_those_who_do_not_come_through_the_lake() -> None:
    fenced = header(0, flags.SEICHE_FENCE)
    flags.require_readable(fenced)
    with pytest.raises(InvalidInput, match="managed by a lake"):
        flags.require_writable(fenced)
    flags.require_writable(fenced, managed=True)
    with pytest.raises(InvalidInput):
        flags.require_writable(header(0, flags.SEICHE_FENCE | 1 << 20), managed=True)


def test_content_sets_and_clears_its_bits() -> None:
    manifest = header()
    flags.recompute(manifest, has_deletions=True)
    assert (manifest.reader_feature_flags, manifest.writer_feature_flags) == (1, 1)
    manifest.config["a"] = "b"
    manifest.base_paths.add(id=1, path="x")
    flags.recompute(manifest, has_deletions=False)
    assert (manifest.reader_feature_flags, manifest.writer_feature_flags) == (16, 16 | 8)
    manifest.ClearField("config")
    manifest.ClearField("base_paths")
    flags.recompute(manifest, has_deletions=False)
    assert (manifest.reader_feature_flags, manifest.writer_feature_flags) == (0, 0)


def test_what_content_does_not_show_is_carried_over() -> None:
    sticky = 2 | 128 | 256 | 1024 | 16384
    manifest = header(sticky | 4 | 2048, sticky | 32)
    flags.recompute(manifest, has_deletions=False)
    assert manifest.reader_feature_flags == sticky
    assert manifest.writer_feature_flags == sticky


def test_the_fence_is_not_carried_over() -> None:
    manifest = header(0, flags.SEICHE_FENCE)
    flags.recompute(manifest, has_deletions=False)
    assert manifest.writer_feature_flags == 0
    assert manifest.reader_feature_flags == 0
