"""The files of the shop: what its till and its catalogue write, day by day, the same every time."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from seiche.core.runtime import Runtime

__all__ = ["CUSTOMERS", "PRODUCTS", "bad_day", "catalogue", "customers", "day"]

_FIRST: Final = ("Ada", "Bo", "Cleo", "Dev", "Edda", "Finn", "Gus", "Hana", "Ivo", "Juno")
_LAST: Final = ("Berg", "Costa", "Diaz", "Ek", "Falk", "Gray", "Holm", "Ito", "Jansen", "Kern")
_CITIES: Final = ("Bregenz", "Como", "Geneva", "Konstanz", "Lausanne", "Lugano")
# What is sold, what it costs, and where it stands between water and land, body and mind, work and play.
_GOODS: Final = (
    ("rowing boat", 480.0, (0.9, 0.8, 0.3)),
    ("sailing dinghy", 2300.0, (1.0, 0.6, 0.2)),
    ("oar", 45.0, (0.8, 0.9, 0.5)),
    ("life jacket", 60.0, (0.9, 0.5, 0.7)),
    ("fishing rod", 85.0, (0.7, 0.3, 0.3)),
    ("hiking boots", 140.0, (0.1, 0.9, 0.4)),
    ("tent", 220.0, (0.1, 0.5, 0.3)),
    ("lake chart", 18.0, (0.8, 0.1, 0.8)),
    ("barometer", 75.0, (0.5, 0.1, 0.9)),
    ("novel", 12.0, (0.2, 0.0, 0.1)),
)
CUSTOMERS: Final = 200
PRODUCTS: Final = len(_GOODS)
_ORDERS_OF_A_DAY: Final = 2000


def customers(folder: Path) -> None:
    """Write everybody who ever bought something."""
    chance = Runtime.seeded(7).random
    rows = (
        (number, f"{chance.choice(_FIRST)} {chance.choice(_LAST)}", chance.choice(_CITIES))
        for number in range(1, CUSTOMERS + 1)
    )
    _write(folder / "customers.csv", ("id", "name", "city"), rows)


def catalogue(folder: Path) -> None:
    """Write everything that is sold, each with a vector that says what it is like."""
    goods = [
        {"id": number, "name": name, "price": price, "likeness": list(likeness)}
        for number, (name, price, likeness) in enumerate(_GOODS, 1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "products.json").write_text("".join(json.dumps(one) + "\n" for one in goods), "utf-8")


def day(folder: Path, number: int) -> Path:
    """Write what was sold on one day."""
    path = folder / "orders" / f"day-{number}.csv"
    _write(path, _COLUMNS, _orders(number))
    return path


def bad_day(folder: Path, number: int) -> Path:
    """Write a day on which the till was broken: an amount below zero, and a product that nobody sells."""
    path = folder / "orders" / f"day-{number}.csv"
    broken = [
        (number * 100_000 + 90_001, 3, 2, -480.0, f"2030-06-{number:02}"),
        (number * 100_000 + 90_002, 5, 999, 20.0, f"2030-06-{number:02}"),
    ]
    _write(path, _COLUMNS, [*_orders(number), *broken])
    return path


_COLUMNS: Final = ("id", "customer", "product", "amount", "day")


def _orders(number: int) -> Iterator[tuple[Any, ...]]:
    chance = Runtime.seeded(number).random
    for order in range(_ORDERS_OF_A_DAY):
        product = chance.randint(1, PRODUCTS)
        amount = round(_GOODS[product - 1][1] * chance.choice((1, 1, 1, 2)), 2)
        yield number * 100_000 + order, chance.randint(1, CUSTOMERS), product, amount, f"2030-06-{number:02}"


def _write(path: Path, columns: tuple[str, ...], rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
