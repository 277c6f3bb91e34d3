"""The examples that need no Spark run as they stand, and say what they did."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAID = {
    "cdc.py": """\
version 4
version 4 again: the batch came twice
version 5
4 {'shop.orders': 1, 'shop.payments': 1}
5 {'shop.orders': 0, 'shop.payments': 0}
""",
    "notebook.py": """\
version 4
changed my mind - 2 animals
5 zoo.meals
4 zoo.animals, zoo.meals
4 [200, 300, 450]
5 [200, 350, 500]
""",
}


@pytest.mark.parametrize("name", SAID)
def test_examples(name: str) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, SAID[name]), done.stderr
