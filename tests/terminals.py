"""A command as a person runs it, who looks at a terminal and types."""

import os
import pty
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).parent / "seiche"


def on_a_terminal(*arguments: str, answer: str = "") -> tuple[int, str]:
    """Run a command of `seiche` for a person, who types an answer; the code, and all that the terminal shows."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
    with subprocess.Popen(
        [COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        os.write(ours, answer.encode())
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:
            pass  # how Linux reports that the other end is closed
    os.close(ours)
    return process.returncode, shown.decode()
