"""A lake's past on a real object store: what it says, and going back."""

import lance

import seiche
from tests.servers import S3Server
from tests.unit.lake.conftest import SCHEMA, ids, rows


def test_log_diff_tags_and_rollback_on_s3(seaweedfs: S3Server) -> None:
    uri, options = seaweedfs.uri(), seaweedfs.options
    lake = seiche.create(uri, **options)
    lake.create_namespace("shop")
    for name in ("shop.a", "shop.b", "shop.c"):
        lake.create_table(name, SCHEMA)
    with lake.transaction() as tx:
        for name in ("shop.a", "shop.b", "shop.c"):
            tx.table(name).append(rows(1, 2))
    lake.tag("good")
    lake.table("shop.a").append(rows(3))
    lake.table("shop.b").delete("id = 1")
    lake.drop_table("shop.c")
    for number in range(20):
        lake.create_namespace(f"n{number}")

    log = seiche.open(uri, **options).log()
    assert [entry.version for entry in log] == list(range(lake.version, -1, -1))
    times = [entry.time for entry in log]
    assert times == sorted(times, reverse=True)
    assert log[lake.version - 5].tags == ("good",)

    diff = lake.diff("good")
    assert [(one.table, one.rows_added, one.rows_removed) for one in diff.tables] == [
        ("shop.a", 1, 0),
        ("shop.b", 0, 1),
        ("shop.c", 0, 2),
    ]
    version = lake.rollback(to="good", expected_version=lake.version)
    other = seiche.open(uri, **options)
    assert other.version == version
    assert other.namespaces() == [("shop",)]
    for name, versions in (("shop.a", 4), ("shop.b", 4), ("shop.c", 2)):
        assert ids(other, name) == [1, 2]
        location = other.table(name).row.location
        plain = lance.dataset(f"{uri}/{location}", storage_options=options)
        assert plain.version == versions
        assert plain.to_table()["id"].to_pylist() == [1, 2]
    assert ids(seiche.open(uri, version="good", **options), "shop.c") == [1, 2]
