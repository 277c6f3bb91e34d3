"""Print how many tests of a JUnit report passed, failed and were skipped; fail if none ran or any failed.

python -m tools.counts build/test-report.xml
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True, slots=True)
class Counts:
    """The outcome of a test run, as numbers."""

    passed: int
    failed: int
    skipped: int

    def __str__(self) -> str:
        return f"tests: {self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def read(report: Path) -> Counts:
    """Add up the suites of a JUnit report; an error counts as a failure."""
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        for name in totals:
            totals[name] += int(suite.get(name, 0))
    failed = totals["failures"] + totals["errors"]
    return Counts(totals["tests"] - failed - totals["skipped"], failed, totals["skipped"])


def main() -> int:
    report = Path(sys.argv[1])
    if not report.exists():
        print(f"tests: no report at {report}: the run did not get that far")
        return 1
    counts = read(report)
    print(counts)
    return 1 if counts.failed or not counts.passed else 0


if __name__ == "__main__":
    sys.exit(main())
