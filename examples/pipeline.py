"""A pipeline in Python: two tables and their checks, published at once.

    python examples/pipeline.py

The first run publishes. The second meets a measurement that cannot be, and publishes nothing.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import seiche
from seiche.spark import session
from seiche.spark.pipeline import Pipeline
from seiche.spark.pipeline.shorthands import foreign_key, unique


def pipeline(folder: Path) -> Pipeline:
    """Levels of a lake: what was measured, and a day's mean for each station."""
    made = Pipeline("levels", str(folder / "lake"))
    made.source(
        "measured",
        format="csv",
        path=f"{folder}/measured/*.csv",
        schema="station STRING, day DATE, hour INT, level DOUBLE",
        new=True,
    )

    @made.step("water.levels", mode="append")
    def levels(measured: Any) -> Any:
        return measured.filter("level IS NOT NULL")

    made.step("water.days", sql="SELECT station, day, avg(level) AS level FROM water.levels GROUP BY station, day")
    made.step("water.stations", sql="SELECT DISTINCT station FROM water.levels")
    made.check("plausible", "SELECT count(*) FROM water.levels WHERE level NOT BETWEEN 300 AND 600", expect=0)
    made.check(unique("water.levels", ["station", "day", "hour"]))
    made.check(foreign_key("water.days", "station", "water.stations"))
    return made


def measure(folder: Path, name: str, *lines: str) -> None:
    (folder / "measured").mkdir(exist_ok=True)
    (folder / "measured" / f"{name}.csv").write_text("\n".join(lines) + "\n")


def main(spark: Any, folder: Path) -> None:
    measure(folder, "monday", "Bregenz,2030-06-03,8,395.2", "Bregenz,2030-06-03,9,395.4", "Konstanz,2030-06-03,8,394.9")
    first = pipeline(folder).run(spark)
    print(f"{first.outcome}: version {first.version}")
    measure(folder, "tuesday", "Bregenz,2030-06-04,8,3952")
    second = pipeline(folder).run(spark)
    for check in second.failed_checks:
        print(f"{second.outcome}: {check.name}: {dict(check.rows[0])['level']}")
    rows = seiche.open(str(folder / "lake")).table("water.days").to_arrow().sort_by("station").to_pylist()
    print([(row["station"], round(row["level"], 1)) for row in rows])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(session("pipeline"), Path(temporary))
    sys.stdout.flush()
