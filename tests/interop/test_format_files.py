"""Every file that the installed pylance writes decodes with no unknown field, and encodes to an equal message."""

from pathlib import Path

import pytest

from tests.fixtures.lance.make import TABLES
from tests.unit.format.whole_tables import check_table


@pytest.mark.parametrize("name", TABLES)
def test_each_file_that_pylance_writes_is_read_whole(name: str, tmp_path: Path) -> None:
    TABLES[name](str(tmp_path / name))
    assert check_table(tmp_path)["manifest"] > 0
