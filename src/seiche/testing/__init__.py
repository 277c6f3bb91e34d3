"""The test kit, shipped with the package: stores that fail on purpose, count, and never touch a disk."""

from seiche.testing.counting import CountingStore
from seiche.testing.crashing import CRASHES, Aftermath, SeenStates, crash_points
from seiche.testing.dict_store import DictStore
from seiche.testing.simulated import Fault, Faults, SimulatedStore, Stopped
from seiche.testing.volatile import Loss, VolatileStore
from seiche.testing.wrapping import Call, WrappingStore

__all__ = [
    "CRASHES",
    "Aftermath",
    "Call",
    "CountingStore",
    "DictStore",
    "Fault",
    "Faults",
    "Loss",
    "SeenStates",
    "SimulatedStore",
    "Stopped",
    "VolatileStore",
    "WrappingStore",
    "crash_points",
]
