"""`make demo`, line by line."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import seiche
from seiche.cli import main
from tests.spark.quick import QUICK_COMMAND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# Columns apart by one space, lines without what only underlines.
STORY = """\
A lake in a folder, and Spark on this machine, which takes some seconds to start.

1. A pipeline makes four tables of the shop's files, on Spark, and publishes them at once:
table mode from rows
shop.orders merge sold 2000
shop.customers merge people 200
shop.products overwrite goods 10
shop.sales overwrite shop.customers, shop.orders 6
The last one is an Iceberg table, the others are Lance tables.
5 checks passed on what was about to be published.
All of it became version 1 of the lake, in one step.

2. The till was broken on the second day. The checks find it, and nothing of the day is published:
failed: amounts are positive (found 1, expected 0)
id 290001, customer 3, product 2, amount -480.0, day 2030-06-02
failed: shop.orders: product in shop.products (found 1, expected 0)
id 290002, customer 5, product 999, amount 20.0, day 2030-06-02
All tables are as they were; version 2 only notes that the run was rejected.
rows in version shop.orders shop.customers shop.products shop.sales
2 2000 200 10 6

3. The file is corrected and run again. While it runs, somebody else adds to the same table:
an order by telephone became version 3
the pipeline saw that its summary was out of date, built it again and became version 4 (attempt 2)
Nobody's rows are lost: 2000 orders of each day, and the one by telephone.
rows in version shop.orders shop.customers shop.products shop.sales
4 4001 200 10 13

4. The products have vectors and an index. What is most like a lake chart?
product price
barometer 75.0
life jacket 60.0
fishing rod 85.0

5. Every version can still be read, all tables as they were together:
rows in version shop.orders shop.customers shop.products shop.sales
1 2000 200 10 6
2 2000 200 10 6
3 2001 200 10 6
4 4001 200 10 13

6. All of it back to version 1, in one step:
Version 5 is like version 1; those up to 4 can still be read.
rows in version shop.orders shop.customers shop.products shop.sales
5 2000 200 10 6

The lake is in FOLDER. Try next:
seiche log FOLDER/lake
seiche sql FOLDER/lake -e "SELECT city, sum(revenue) FROM shop.sales GROUP BY city"
seiche run FOLDER/shop.yaml --dry-run
"""


def plain(text: str) -> list[str]:
    """The lines that say something, with one space between words."""
    lines = (" ".join(line.replace("─", " ").split()) for line in text.splitlines())
    return [line for line in lines if line]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_demo_says_what_happens(tmp_path: Path, spark: "SparkSession", capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "demo"
    command = ["make", "-s", "demo", "READY=", f"VENV={BIN.parent}", f"ARGS=--keep {folder}"]
    home = tmp_path / "home"  # with nothing in it
    home.mkdir()
    environment = os.environ | QUICK_COMMAND | {"HOME": str(home)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout.replace(str(folder), "FOLDER").replace(str(BIN / "seiche"), "seiche")
    assert [line for line in plain(shown) if not line.startswith("Spark needs Java: ")] == plain(STORY)
    lake = seiche.open(str(folder / "lake"))
    assert lake.table("shop.sales").to_iceberg().scan().to_arrow().num_rows == 6
    for line in STORY.splitlines()[-3:]:
        # What is offered to be tried next works as it stands there; in this process, which has a Spark already.
        assert main(shlex.split(line.replace("FOLDER", str(folder)))[1:]) == 0
        assert capsys.readouterr().out
    assert main(["demo", "--keep", str(folder)]) != 0
    assert "already" in capsys.readouterr().err
