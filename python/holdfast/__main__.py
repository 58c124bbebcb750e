"""`python -m holdfast`: the `holdfast` command."""

import sys

from _holdfast_command import main

if __name__ == "__main__":
    sys.exit(main())
