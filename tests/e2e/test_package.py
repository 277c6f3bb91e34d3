"""What a user gets with `pip install`: the package with its types and generated code, and nothing of the workshop."""

import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import seiche

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def metadata(wheel: zipfile.ZipFile, name: str) -> str:
    return wheel.read(f"seiche-{seiche.__version__}.dist-info/{name}").decode()


def test_every_file_of_the_package_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    package = {path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert shipped == {path.relative_to(ROOT / "src").as_posix() for path in package}
    assert "seiche/py.typed" in shipped
    assert "seiche/table/format/manifest_pb2.py" in shipped


def test_metadata(wheel: zipfile.ZipFile) -> None:
    described: Message = Parser().parsestr(metadata(wheel, "METADATA"))
    assert described["License-Expression"] == "Apache-2.0"
    assert described["Requires-Python"] == ">=3.11"
    assert {"dev", "hdfs", "server", "spark"} <= set(described.get_all("Provides-Extra", []))
    assert metadata(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()
    assert "seiche = seiche.cli:main" in metadata(wheel, "entry_points.txt")


def test_users_get_few_dependencies(wheel: zipfile.ZipFile) -> None:
    described = Parser().parsestr(metadata(wheel, "METADATA"))
    required = [line for line in described.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = {line.split("<")[0].split(">")[0].split("=")[0] for line in required}
    assert names == {"obstore", "protobuf", "pyarrow", "pylance", "pyroaring", "rich", "typer"}
    assert "pylance==14.0.2" in required
