"""Make the virtual environment ready: once for each content of pyproject.toml, and safely when two ask at once.

    python3 tools/setup.py --venv .venv --extras dev --stamp .venv/.ready-dev-123

The stamp is written last, so that an interrupted set-up is done again. `uv` installs in a fraction of the time: the one
on this machine, or one that pip puts into the environment first. Where it does not work, pip does all of it. Only the
standard library, and syntax that an old Python can read: it must be able to say that it is too old.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
NEWER_PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")


class SetupError(Exception):
    """What a person has to do before set-up can go on."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_quietly(command: list[str]) -> None:
    """Run a command whose output matters only if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SetupError("{} failed:\n{}".format(" ".join(command), done.stdout.strip()))


def starts(python: str) -> bool:
    """Whether this interpreter runs and is new enough. A name on the PATH may be a shim for one that is not there."""
    question = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    try:
        return subprocess.run([python, "-c", question], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def suitable_python() -> str:
    """This interpreter if it is new enough, else a newer one found on the PATH."""
    for name in (sys.executable, *NEWER_PYTHONS):
        if starts(name):
            return name
    raise SetupError(
        "Seiche needs Python {}.{} or newer, and this is {}.{}: ".format(*OLDEST, *sys.version_info[:2])
        + "install one, or name it with `make PYTHON3=/path/to/python3`."
    )


def create(venv: Path) -> None:
    """Make the virtual environment, unless it is there and has a suitable Python."""
    if starts(str(venv / "bin" / "python")):
        return
    if venv.exists() and any(venv.iterdir()) and not (venv / "pyvenv.cfg").exists():
        raise SetupError(f"{venv} is there and is not a virtual environment: name another one with `make VENV=...`.")
    chosen = suitable_python()
    if shutil.which("uv"):
        try:
            run_quietly(["uv", "venv", "--quiet", "--seed", "--clear", "--python", chosen, str(venv)])
            return
        except SetupError as failure:
            say(f"uv could not make {venv} ({str(failure).splitlines()[-1]}); using python3 -m venv")
    try:
        run_quietly([chosen, "-m", "venv", "--clear", str(venv)])
    except SetupError as failure:
        shutil.rmtree(venv, ignore_errors=True)
        raise SetupError(
            f"{failure}\nThis Python makes no virtual environments: install its venv package (python3-venv), or uv."
        ) from None


def install(venv: Path, arguments: list[str]) -> None:
    """`pip install` into the virtual environment, with uv if that works."""
    python = str(venv / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        if not (uv := shutil.which("uv")):
            uv = str(venv / "bin" / "uv")
            run_quietly([*pip, "uv"])
        run_quietly([uv, "pip", "install", "--quiet", "--python", python, *arguments])
    except SetupError as failure:
        say(f"uv could not install ({str(failure).splitlines()[-1]}); using pip")
        run_quietly([*pip, *arguments])


def set_up(venv: Path, extras: str, stamp: Path) -> None:
    """After this returns the environment has the package (editable) with `extras`, and the stamp exists."""
    root = Path(__file__).resolve().parent.parent
    # The lock is on a file that every clone has, so that nothing is left behind; it ends with the process.
    with (root / "pyproject.toml").open() as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        if stamp.exists():
            return
        say(f"setting up {venv} for {extras} (once; this downloads packages and takes a minute or more) ...")
        create(venv)
        install(venv, ["--editable", f"{root}[{extras}]"])
        for old in stamp.parent.glob(stamp.name.rsplit("-", 1)[0] + "-*"):
            old.unlink()
        stamp.touch()


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the virtual environment ready.")
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--extras", required=True)
    parser.add_argument("--stamp", type=Path, required=True)
    wanted = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)  # packages of another Python must not count as installed
    os.environ.setdefault("UV_SYSTEM_CERTS", "true")  # like pip: behind a proxy only the machine knows its certificates
    try:
        set_up(wanted.venv, wanted.extras, wanted.stamp)
    except SetupError as failure:
        say(f"setup: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
