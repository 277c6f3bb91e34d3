"""The checker names what is wrong with histories that are known to be wrong, and nothing in those that are right."""

from seiche.testing.histories import Appended, Read, Txn, check


def kinds(*history: Txn, level: str = "serializable") -> set[str]:
    return {anomaly.kind for anomaly in check(history, level)}  # type: ignore[arg-type]


FINAL = Txn("final", (Read("x", (1, 2)), Read("y", (3, 4))))


def test_a_serial_history_is_clean() -> None:
    first = Txn("a", (Read("x", ()), Appended("x", 1), Appended("y", 3), Read("y", (3,))))
    second = Txn("b", (Read("x", (1,)), Appended("x", 2), Appended("y", 4)))
    assert kinds(first, second, FINAL) == set()


def test_write_cycle() -> None:
    first = Txn("a", (Appended("x", 1), Appended("y", 4)))
    second = Txn("b", (Appended("y", 3), Appended("x", 2)))
    assert "G0" in kinds(first, second, FINAL)


def test_aborted_and_intermediate_reads() -> None:
    aborted = Txn("a", (Appended("x", 1),), committed=False)
    assert "G1a" in kinds(aborted, Txn("b", (Read("x", (1,)),)))
    halfway = Txn("a", (Appended("x", 1), Appended("x", 2)))
    assert "G1b" in kinds(halfway, Txn("b", (Read("x", (1,)),)), Txn("c", (Read("x", (1, 2)),)))


def test_circular_information_flow() -> None:
    first = Txn("a", (Appended("x", 1), Read("y", (3,))))
    second = Txn("b", (Appended("y", 3), Read("x", (1,))))
    assert "G1c" in kinds(first, second)


def test_read_skew_is_forbidden_at_both_levels_and_a_lost_update_where_lists_are_one_thing() -> None:
    start = Txn("start", (Appended("x", 1),))
    one = Txn("a", (Read("x", (1,)), Appended("x", 2)))
    other = Txn("b", (Read("x", (1,)), Appended("x", 5)))
    final = Txn("final", (Read("x", (1, 2, 5)),))
    assert "G-single" in kinds(start, one, other, final)
    assert kinds(start, one, other, final, level="snapshot") == set()
    writer = Txn("w", (Appended("x", 1), Appended("y", 3)))
    skewed = Txn("r", (Read("x", (1,)), Read("y", ())))
    after = Txn("final", (Read("x", (1,)), Read("y", (3,))))
    for level in ("snapshot", "serializable"):
        assert "G-single" in kinds(writer, skewed, after, level=level)


def test_read_skew_over_several_writers_is_found_at_both_levels() -> None:
    """What the reader missed and what it saw were written by different transactions, one after the other."""
    one = Txn("a", (Appended("x", 1), Appended("y", 3)))
    other = Txn("b", (Appended("x", 2), Appended("y", 4)))
    skewed = Txn("r", (Read("x", ()), Read("y", (3, 4))))
    for level in ("snapshot", "serializable"):
        assert "G-single" in kinds(one, other, skewed, FINAL, level=level)
    # It may well append behind what it did not see.
    blind = Txn("r", (Read("x", ()), Read("y", ()), Appended("y", 4)))
    late = Txn("b", (Appended("x", 2),))
    assert kinds(one, late, blind, FINAL, level="snapshot") == set()


def test_write_skew_is_allowed_under_snapshot_only() -> None:
    one = Txn("a", (Read("x", ()), Read("y", ()), Appended("x", 1)))
    other = Txn("b", (Read("x", ()), Read("y", ()), Appended("y", 3)))
    final = Txn("final", (Read("x", (1,)), Read("y", (3,))))
    assert kinds(one, other, final, level="snapshot") == set()
    assert kinds(one, other, final) == {"G2"}


def test_lost_and_duplicated_appends() -> None:
    assert "lost" in kinds(Txn("a", (Appended("x", 1),)), Txn("final", (Read("x", ()),)))
    assert "duplicate" in kinds(Txn("a", (Appended("x", 1),)), Txn("final", (Read("x", (1, 1)),)))
    unknown = Txn("a", (Appended("x", 1),), committed=None)
    assert kinds(unknown, Txn("final", (Read("x", ()),))) == set()
    assert kinds(unknown, Txn("final", (Read("x", (1,)),))) == set()


def test_reads_that_no_single_order_explains() -> None:
    assert "order" in kinds(
        Txn("a", (Appended("x", 1),)),
        Txn("b", (Appended("x", 2),)),
        Txn("c", (Read("x", (2, 1)),)),
        Txn("d", (Read("x", (1, 2)),)),
    )
