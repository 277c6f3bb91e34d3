"""What an Arrow field tells other libraries about itself, read from the C data interface."""

import ctypes
import struct
from collections.abc import Iterator

import pyarrow as pa

__all__ = ["exported_metadata"]


class _CSchema(ctypes.Structure):
    """The head of the C struct ArrowSchema."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def exported_metadata(arrow: pa.Field) -> Iterator[tuple[bytes, bytes]]:
    """The metadata of the field, with the name and parameters of its extension type if it has one."""
    capsule = arrow.__arrow_c_schema__()  # owns the struct: must live as long as it is read
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if at is None:
        return
    (count,) = struct.unpack("=i", ctypes.string_at(at, 4))
    at += 4
    for _ in range(count):
        pair = []
        for _ in range(2):
            (size,) = struct.unpack("=i", ctypes.string_at(at, 4))
            pair.append(ctypes.string_at(at + 4, size))
            at += 4 + size
        yield pair[0], pair[1]
