"""``python -m mcbench``: the command line."""

import sys

from mcbench.cli import main

sys.exit(main())
