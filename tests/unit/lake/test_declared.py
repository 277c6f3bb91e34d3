"""Places that were given out for tables which nobody has made yet."""

import pytest

from seiche.lake.engines import declared
from seiche.lake.engines.declared import Declared
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow


def place(number: int) -> TableRow:
    return TableRow(id=str(number), location=f"tables/{number}")


def test_names_that_are_never_made_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "_MOST_NAMES", 3)
    found = Declared()
    names: list[Name] = [("shop", str(number)) for number in range(5)]
    for number, name in enumerate(names):
        found.add(name, place(number))
        found.add(names[0], place(100 + number))  # whoever still asks is not forgotten
    assert [bool(found.of(name)) for name in names] == [True, False, False, True, True]
