"""Run the tests that need a Maven repository; where none can be reached, say so and stop without failing.

MAVEN_REPOSITORY=https://... python -m tools.interop_jvm [pytest arguments]
"""

import os
import subprocess
import sys
import urllib.error
import urllib.request

NO_TESTS_COLLECTED = 5


def why_not(repository: str) -> str:
    """Why the tests cannot run, in one sentence; empty if they can."""
    if not repository:
        return "MAVEN_REPOSITORY is not set; set it to the address of a Maven repository"
    try:
        urllib.request.urlopen(repository, timeout=10).close()
    except urllib.error.HTTPError:
        return ""  # it answers: many repositories refuse to list their root
    except (OSError, ValueError) as failure:
        return f"the Maven repository {repository} cannot be reached ({failure})"
    return ""


def main() -> int:
    reason = why_not(os.environ.get("MAVEN_REPOSITORY", ""))
    if reason:
        print(f"interop-jvm: skipped: {reason}")
        return 0
    outcome = subprocess.run([sys.executable, "-m", "pytest", "-m", "jvm", *sys.argv[1:]], check=False).returncode
    if outcome == NO_TESTS_COLLECTED:
        print("interop-jvm: there are no such tests")
        return 0
    return outcome


if __name__ == "__main__":
    sys.exit(main())
