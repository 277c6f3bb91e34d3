"""Run the tests against engines of the Java world. What these need is fetched once, into build/interop-jvm: Spark in a
virtual environment of its own, and the libraries of Iceberg from a Maven repository.

    python -m tools.interop_jvm [pytest arguments]

The repository is the one that MAVEN_REPOSITORY names, else whatever `mvn` on this machine is set up to use. Where there
is neither, it says so and stops without failing.
"""

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tools.setup import SetupError, create, install, say

FOLDER = Path("build") / "interop-jvm"
# The newest Spark for which Iceberg has a runtime. Each pair is published together: raise them together.
SPARK = "4.1.4"
ICEBERG = "1.12.0"
ARTIFACTS = (
    ("org.apache.iceberg", f"iceberg-spark-runtime-{SPARK.rpartition('.')[0]}_2.13", ICEBERG),
    ("org.apache.iceberg", "iceberg-aws-bundle", ICEBERG),
)
NO_TESTS_COLLECTED = 5


def why_not(repository: str, mvn: str | None) -> str:
    """Why the tests cannot run, in one sentence; empty if they can."""
    if not repository:
        return "" if mvn else "there is no `mvn`, and MAVEN_REPOSITORY does not name a Maven repository"
    try:
        urllib.request.urlopen(repository, timeout=10).close()
    except urllib.error.HTTPError:
        return ""  # it answers: many repositories refuse to list their root
    except (OSError, ValueError) as failure:
        return f"the Maven repository {repository} cannot be reached ({failure})"
    return ""


def fetch(group: str, name: str, version: str, repository: str, folder: Path) -> Path:
    """A library, fetched unless it is there. An interrupted fetch leaves nothing that could be taken for it."""
    jar = folder / f"{name}-{version}.jar"
    if jar.exists():
        return jar
    folder.mkdir(parents=True, exist_ok=True)
    say(f"fetching {jar.name}")
    if repository:
        address = "/".join([repository.rstrip("/"), *group.split("."), name, version, jar.name])
        part = jar.with_suffix(".part")
        with urllib.request.urlopen(address, timeout=300) as answer, part.open("wb") as target:
            shutil.copyfileobj(answer, target)
        part.rename(jar)
        return jar
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={group}:{name}:{version}"]
    done = subprocess.run([*command, f"-DoutputDirectory={folder}"], check=False, capture_output=True, text=True)
    if done.returncode or not jar.exists():
        raise SetupError(f"mvn did not fetch {jar.name}:\n{done.stdout.strip()[-2000:]}")
    return jar


def spark(folder: Path) -> Path:
    """The Python of an environment that has this Spark and nothing of ours."""
    venv = folder / f"spark-{SPARK}"
    python = venv / "bin" / "python"
    stamp = venv / ".ready"
    if not stamp.exists():
        say(f"setting up Spark {SPARK}")
        create(venv)
        install(venv, [f"pyspark=={SPARK}"])
        stamp.touch()
    return python


def main() -> int:
    repository = os.environ.get("MAVEN_REPOSITORY", "")
    reason = why_not(repository, shutil.which("mvn"))
    if reason:
        print(f"interop-jvm: skipped: {reason}")
        return 0
    try:
        jars = [fetch(*one, repository, FOLDER / "jars") for one in ARTIFACTS]
        python = spark(FOLDER)
    except (SetupError, OSError) as failure:
        say(str(failure))
        return 1
    environment = {
        **os.environ,
        "SEICHE_JVM_PYTHON": str(python.absolute()),
        "SEICHE_JVM_JARS": ",".join(str(jar.absolute()) for jar in jars),
    }
    command = [sys.executable, "-m", "pytest", "-m", "jvm", "tests/interop", *sys.argv[1:]]
    outcome = subprocess.run(command, check=False, env=environment).returncode
    if outcome == NO_TESTS_COLLECTED:
        print("interop-jvm: there are no such tests")
        return 0
    return outcome


if __name__ == "__main__":
    sys.exit(main())
