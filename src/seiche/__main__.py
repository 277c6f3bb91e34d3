"""`python -m seiche`: the command, where only the interpreter is on the path."""

import sys

from seiche.cli import main

sys.exit(main())
