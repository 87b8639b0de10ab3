"""``python -m mcbench.report FOLDER``: rebuild the pages of a folder from its records."""

from __future__ import annotations

import sys

from mcbench.errors import UserError
from mcbench.report.site import build_site


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m mcbench.report FOLDER", file=sys.stderr)
        return 2
    try:
        for path in build_site(arguments[0]):
            print(path)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
