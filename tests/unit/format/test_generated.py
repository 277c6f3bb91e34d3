"""The generated code is what the compiler makes of the definitions, to the byte."""

import importlib.resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[3]
PROTOS = ROOT / "proto" / "seiche" / "table" / "format"
GENERATED = ROOT / "src" / "seiche" / "table" / "format"


def test_generated_code_is_up_to_date(tmp_path: Path) -> None:
    sources = sorted(str(path) for path in PROTOS.glob("*.proto"))
    included = importlib.resources.files("grpc_tools") / "_proto"
    options = [f"-I{ROOT / 'proto'}", f"-I{included}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main(["protoc", *options, *sources]) == 0
    made = {path.name: path.read_text() for path in (tmp_path / "seiche" / "table" / "format").iterdir()}
    kept = {path.name: path.read_text() for path in GENERATED.glob("*_pb2.py*")}
    assert sorted(made) == sorted(kept)
    assert [name for name in made if made[name] != kept[name]] == []
