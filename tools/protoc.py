"""Generate Python code from the `.proto` files, or check that the code in the tree is what they generate.

    python -m tools.protoc            write it
    python -m tools.protoc --check    compare, and fail on any difference

`proto/seiche/x/y.proto` becomes `src/seiche/x/y_pb2.py` with its types in `y_pb2.pyi`, and `y_pb2_grpc.py` where it
defines a service. Generated code is never edited.
"""

import argparse
import importlib.resources
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def generate(proto: Path, target: Path) -> None:
    """Write the code for every `.proto` file below `proto` into `target`."""
    from grpc_tools import protoc

    sources = sorted(proto.rglob("*.proto"))
    with_service = [path for path in sources if re.search(r"^service\s", path.read_text(), re.MULTILINE)]
    common = importlib.resources.files("grpc_tools") / "_proto"
    for files, outputs in ((sources, ("python", "pyi")), (with_service, ("grpc_python",))):
        options = [f"--{output}_out={target}" for output in outputs]
        arguments = ["protoc", f"-I{proto}", f"-I{common}", *options, *map(str, files)]
        if files and protoc.main(arguments) != 0:
            raise SystemExit("protoc failed")


def generated_files(folder: Path) -> dict[str, bytes]:
    """Every generated file below `folder`, by its path relative to it."""
    found = sorted(path for pattern in GENERATED for path in folder.rglob(pattern))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def differences(proto: Path, source: Path) -> list[str]:
    """What has to change in `source` to be what `proto` generates; nothing if they agree."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(proto, Path(scratch))
        expected = generated_files(Path(scratch))
    present = generated_files(source)
    return [
        *(f"{name} is missing" for name in sorted(expected.keys() - present.keys())),
        *(f"{name} has no .proto file" for name in sorted(present.keys() - expected.keys())),
        *(
            f"{name} is out of date"
            for name in sorted(expected.keys() & present.keys())
            if expected[name] != present[name]
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate Python code from the .proto files.")
    parser.add_argument("--check", action="store_true", help="only compare")
    if not parser.parse_args().check:
        generate(ROOT / "proto", ROOT / "src")
        return 0
    found = differences(ROOT / "proto", ROOT / "src")
    for line in found:
        print(f"proto: {line}: run `make proto`", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
