"""Tables made of CSV files by commands: nothing is lost or changed in silence."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from seiche import Lake
from tests.commands import Command


def test_values_of_several_lines_are_taken_whole_wherever_a_large_file_is_cut(made: Lake, run: Command) -> None:
    said = "\n".join(["a line, of several"] * 5000)
    Path("letters.csv").write_text("id,said\n" + "".join(f'{number},"{number}\n{said}"\n' for number in range(100)))
    run("create-table", "lake", "shop.letters", "--from", "letters.csv")
    assert run.json("append", "lake", "shop.letters", "letters.csv")["rows"] == 100
    found = made.table("shop.letters").to_arrow().sort_by("id").to_pylist()
    assert [row["said"] for row in found] == [f"{number // 2}\n{said}" for number in range(200)]


def test_a_line_of_a_csv_may_be_some_megabytes_long(made: Lake, run: Command) -> None:
    Path("long.csv").write_text(f"id,said\n1,short\n2,{'x' * 5_000_000}\n3,short\n")
    run("create-table", "lake", "shop.long", "--from", "long.csv")
    assert [len(row["said"]) for row in made.table("shop.long").to_arrow().to_pylist()] == [5, 5_000_000, 5]


@pytest.mark.parametrize("between", [";", "\t", "|"])
def test_values_without_commas_between_are_not_taken_for_one_column(made: Lake, run: Command, between: str) -> None:
    typed = between.replace("\t", r"\t")
    Path("other.csv").write_text(f'\ufeff"id"{between}"at, and where"\n1{between}"a\n{between}"\n', "utf-8")
    said = run("create-table", "lake", "shop.other", "--from", "other.csv", code=2)
    assert f"Say --delimiter '{typed}'" in said
    for given in {between, typed}:
        run("create-table", "lake", "shop.other", "--from", "other.csv", "--delimiter", given)
        assert run.json("head", "lake", "shop.other") == [{"id": 1, "at, and where": f"a\n{between}"}]
        assert run.json("append", "lake", "shop.other", "other.csv", "--delimiter", given)["rows"] == 1
        run("drop-table", "lake", "shop.other")


def test_empty_lines_before_the_names_of_columns_do_not_hide_what_is_between_them(made: Lake, run: Command) -> None:
    Path("other.csv").write_text("\n\r\nid;name\n1;a\n")
    assert "Say --delimiter ';'" in run("create-table", "lake", "shop.other", "--from", "other.csv", code=2)
    run("create-table", "lake", "shop.other", "--from", "other.csv", "--delimiter", ";")
    assert run.json("head", "lake", "shop.other") == [{"id": 1, "name": "a"}]


def test_one_column_may_have_any_character_in_its_name(made: Lake, run: Command) -> None:
    Path("one.csv").write_text("a;b\n1;2\n")
    run("create-table", "lake", "shop.said", "--from", "one.csv", "--delimiter", ",")
    Path("one.csv").write_text('"a;b"\n1;2\n')
    run("append", "lake", "shop.said", "one.csv")
    assert run.json("head", "lake", "shop.said") == [{"a;b": "1;2"}, {"a;b": "1;2"}]


def test_files_called_tsv_have_tabs_between_values(made: Lake, run: Command) -> None:
    Path("tabs.tsv").write_text("id\tname\n1\ta, b\n")
    run("create-table", "lake", "shop.tabs", "--from", "tabs.tsv")
    assert run.json("head", "lake", "shop.tabs") == [{"id": 1, "name": "a, b"}]
    Path("commas.tsv").write_text("id,name\n1,a\n")
    assert "Say --delimiter ','" in run("append", "lake", "shop.tabs", "commas.tsv", code=2)


@pytest.mark.parametrize("number", ["1e400", "-1.5E+999", "9" * 400 + ".0"], ids=["e", "E", "digits"])
def test_a_number_that_no_float_can_hold_is_not_made_infinity(made: Lake, run: Command, number: str) -> None:
    Path("large.csv").write_text(f"id,size\n1,0.5\n2, {number} \n")
    said = f"column 'size' of large.csv has the number {number[:20]}"
    assert said in run("create-table", "lake", "shop.large", "--from", "large.csv", code=2)
    for kind in ("float64", "float", "halffloat"):
        run("create-table", "lake", f"shop.{kind}", "--schema", f"id:int64,size:{kind}")
        assert said in run("append", "lake", f"shop.{kind}", "large.csv", code=2)
        assert made.table(f"shop.{kind}").to_arrow().num_rows == 0


def test_infinity_that_is_written_as_a_word_is_taken(made: Lake, run: Command) -> None:
    Path("words.csv").write_text("id,size\n1,inf\n2,-Infinity\n3,1.#IND\n4,2\n5,-.5e3\n")
    run("create-table", "lake", "shop.words", "--from", "words.csv")
    assert [row["size"] for row in run.json("head", "lake", "shop.words")] == ["inf", "-inf", None, 2.0, -500.0]


def test_not_a_number_is_a_float_and_no_missing_value(made: Lake, run: Command) -> None:
    Path("nan.csv").write_text("id,size,said\n1,0.5,NaN\n2,NaN,Nan said\n3,,\n4,-nan,NA\n")
    run("create-table", "lake", "shop.made", "--from", "nan.csv")
    run("create-table", "lake", "shop.given", "--schema", "id:int64,size:float,said:string")
    run("append", "lake", "shop.given", "nan.csv")
    for name in ("made", "given"):
        found = made.table(f"shop.{name}").to_arrow().sort_by("id")
        assert [str(one) for one in found["size"].to_pylist()] == ["0.5", "nan", "None", "nan"]
        assert found["said"].to_pylist() == ["NaN", "Nan said", "", "NA"]
    Path("nan.csv").write_text("id,size\nNaN,0.5\n")
    assert "invalid value 'NaN'" in run("append", "lake", "shop.given", "nan.csv", code=2)


def test_whole_numbers_beside_fractions_are_not_rounded(made: Lake, run: Command) -> None:
    """Below 2**53 they are floats, like the others; the first that is none may come after many that are."""
    Path("exact.csv").write_text("n\n0.5\n9007199254740992\n1e300\n9007199254740993.0\n-20000000000000000000\n")
    run("create-table", "lake", "shop.exact", "--from", "exact.csv")
    assert made.table("shop.exact").to_arrow()["n"].to_pylist() == [0.5, 2.0**53, 1e300, 2.0**53, -2e19]
    Path("late.csv").write_text("n,note\n0.5,\n" + f"1.5,{'x' * 10_000}\n" * 1000 + " -9007199254740993 ,\n")
    said = run("create-table", "lake", "shop.late", "--from", "late.csv", code=2)
    assert "column 'n' of late.csv has the whole number -9007199254740993" in said
    for kind, kept in (("decimal(20,1)", "-9007199254740993.0"), ("float64", "-9007199254740992.0")):
        run("create-table", "lake", f"shop.{kind[:5]}", "--schema", f"n:{kind},note:string")
        run("append", "lake", f"shop.{kind[:5]}", "late.csv")
        assert str(min(made.table(f"shop.{kind[:5]}").to_arrow()["n"].to_pylist())) == kept


def test_digits_that_no_number_would_keep_are_texts(made: Lake, run: Command) -> None:
    Path("codes.csv").write_text("zip,hash,count,left\n1067,0x1F,10,-0\n00501,0x20,0,0\n")
    run("create-table", "lake", "shop.codes", "--from", "codes.csv")
    assert run.json("head", "lake", "shop.codes") == [
        {"zip": "1067", "hash": "0x1F", "count": 10, "left": 0},
        {"zip": "00501", "hash": "0x20", "count": 0, "left": 0},
    ]
    run("create-table", "lake", "shop.numbers", "--schema", "zip:int64,hash:string,count:int64,left:int64")
    run("append", "lake", "shop.numbers", "codes.csv")
    assert [row["zip"] for row in run.json("head", "lake", "shop.numbers")] == [1067, 501]


def test_digits_that_no_number_would_keep_are_not_lost_behind_many_that_it_does(made: Lake, run: Command) -> None:
    Path("late.csv").write_text("id,zip,note\n" + f"1,99501,{'x' * 10_000}\n" * 1000 + "2,02101,\n")
    said = run("create-table", "lake", "shop.late", "--from", "late.csv", code=2)
    assert "column 'zip' of late.csv begins with whole numbers" in said
    run("create-table", "lake", "shop.late", "--schema", "id:int64,zip:string,note:string")
    run("append", "lake", "shop.late", "late.csv")
    assert made.table("shop.late").to_arrow(filter="id = 2")["zip"].to_pylist() == ["02101"]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_columns_that_differ_only_in_capitals_are_made_only_if_they_are_named(
    made: Lake, run: Command, kind: str
) -> None:
    path = f"both.{kind}"
    Path(path).write_text("id,name,ID\n1,a,2\n" if kind == "csv" else '{"id": 1, "name": "a", "ID": 2}\n')
    assert "'id' and 'ID' of both" in run("create-table", "lake", "shop.both", "--from", path, code=2)
    run("create-table", "lake", "shop.both", "--schema", "id:int64,name:string,ID:int64")
    run("append", "lake", "shop.both", path)
    assert run.json("head", "lake", "shop.both") == [{"id": 1, "name": "a", "ID": 2}]


@pytest.mark.parametrize("end", ['"cut', '"cut\n', '"cut\n3,c\n', '"', '"two ""', '"two """" of\n', '"""'])
def test_a_file_that_ends_inside_of_quotes_is_not_complete(made: Lake, run: Command, end: str) -> None:
    Path("cut.csv").write_text('id,said\n1,"a, ""b"""\n2,' + end)
    assert "cut.csv ends inside of a value" in run("create-table", "lake", "shop.cut", "--from", "cut.csv", code=2)
    made.create_table("shop.cut", pa.schema([("id", pa.int64()), ("said", pa.string())]))
    assert "cut.csv ends inside of a value" in run("append", "lake", "shop.cut", "cut.csv", code=2)
    assert made.table("shop.cut").count_rows() == 0


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ('""', ""),
        ('""""', '"'),
        ('"a""b"', 'a"b'),
        ('5" wide', '5" wide'),
        ('5"', '5"'),
        ('5"\n', '5"'),
        ('""""""\n', '""'),
    ],
)
@pytest.mark.parametrize("odd", ["", ' 3" wide'])
def test_a_file_that_ends_behind_quotes_is_complete(made: Lake, run: Command, end: str, last: str, odd: str) -> None:
    Path("whole.csv").write_text(f"id,said\n1,first{odd}\n2,{end}")
    run("create-table", "lake", "shop.whole", "--from", "whole.csv")
    assert [row["said"] for row in run.json("head", "lake", "shop.whole")] == [f"first{odd}", last]


@pytest.mark.parametrize(
    ("name", "encoding"), [("other.csv", "utf-16"), ("other.csv", "latin-1"), ("other.json", "utf-16")]
)
def test_a_file_in_another_encoding_is_told_how_to_be_recoded(
    made: Lake, run: Command, name: str, encoding: str
) -> None:
    text = "id,said\n1,été\n" if name == "other.csv" else '{"id": 1, "said": "été"}\n'
    Path(name).write_text(text, encoding=encoding)
    made.create_table("shop.other", pa.schema([("id", pa.int64()), ("said", pa.string())]))
    for command in (("append", "lake", "shop.other", name), ("create-table", "lake", "shop.new", "--from", name)):
        assert re.search(r"other\.\w+ is not UTF-8\. Recode it first, .*iconv", run(*command, code=2))


def test_the_index_that_pandas_writes_without_a_name_is_called_that(made: Lake, run: Command) -> None:
    Path("frame.csv").write_text(",id\n0,7\n")
    made.create_table("shop.frame", pa.schema([("id", pa.int64())]))
    for command in (
        ("append", "lake", "shop.frame", "frame.csv"),
        ("create-table", "lake", "shop.new", "--from", "frame.csv"),
    ):
        said = run(*command, code=2)
        assert "a column of frame.csv has no name. " in said
        assert "index=False" in said
