"""``python -m clusterweb.cli``."""

import sys

from clusterweb.cli.main import main

sys.exit(main(sys.argv[1:]))
