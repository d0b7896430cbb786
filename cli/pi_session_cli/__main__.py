"""`python -m pi_session_cli` does what the `pi-session` script does."""

import sys

from pi_session_cli.main import run

sys.exit(run())
