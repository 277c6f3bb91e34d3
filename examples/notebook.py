# %% [markdown]
# # A lake in a notebook
# Cells are marked with `# %%`; editors that know them show this file as a notebook. As a script it runs from top to
# bottom: `python examples/notebook.py`.

# %% A lake in a folder, and two tables
import tempfile

import pandas as pd
import pyarrow as pa

import seiche

folder = tempfile.mkdtemp(prefix="seiche-notebook-")
lake = seiche.create(f"{folder}/lake")
lake.create_namespace("zoo")
lake.create_table("zoo.animals", pa.schema([("id", pa.int64()), ("name", pa.string()), ("kind", pa.string())]))
lake.create_table("zoo.meals", pa.schema([("animal", pa.int64()), ("food", pa.string()), ("grams", pa.int64())]))

# %% Data frames of pandas go in as they are, into both tables at once
animals = pd.DataFrame({"id": [1, 2], "name": ["Otto", "Lutra"], "kind": ["otter", "otter"]})
meals = pd.DataFrame({"animal": [1, 1, 2], "food": ["trout", "perch", "trout"], "grams": [300, 200, 450]})
with lake.transaction() as tx:
    tx.append("zoo.animals", animals)
    tx.append("zoo.meals", meals)
print("version", tx.version)

# %% Something goes wrong: nothing of it is there
try:
    with lake.transaction() as tx:
        tx.delete("zoo.animals", "id = 2")
        raise RuntimeError("changed my mind")
except RuntimeError as error:
    print(error, "-", lake.table("zoo.animals").count_rows(), "animals")

# %% What happened, and what it looked like before
lake.table("zoo.meals").update({"grams": "grams + 50"}, where="food = 'trout'")
for entry in lake.log(2):
    print(entry.version, ", ".join(change.name for change in entry.objects))
before = seiche.open(lake.store, version=lake.version - 1)
for when in (before, lake):
    print(when.version, sorted(when.table("zoo.meals").to_arrow()["grams"].to_pylist()))
