"""The pages of the documentation that need Spark: their examples run, and print what is shown."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.documents import DOCS, run_in_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("page", ["pipelines", "spark", "sql"])
def test_examples_print_what_is_shown(
    spark: "SparkSession", page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def placed(text: str) -> str:
        """With whole paths: this Spark serves many tests, and was started in another folder than a reader's."""
        return re.sub(r'"(arrived(?:/1.json)?|checkpoint|follower|levels.csv)"', rf'"{tmp_path}/\1"', text)

    assert list(run_in_session(DOCS / "guides" / f"{page}.md", placed))
