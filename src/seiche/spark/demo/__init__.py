"""A small shop for trying things: files as they come in day by day, and the pipeline that makes tables of them."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pipeline_text", "spark"]

# For a minute and some thousand rows: to translate code well would take longer than to run it as it is.
_SHORT_LIVED = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}


def pipeline_text() -> str:
    """The pipeline of the shop, as YAML."""
    return (Path(__file__).parent / "shop.yaml").read_text("utf-8")


def spark() -> "SparkSession":
    """A Spark on this machine that starts quickly and says little."""
    from seiche.spark.settings import session

    made = session("seiche demo", settings=_SHORT_LIVED)
    made.sparkContext.setLogLevel("ERROR")
    return made
