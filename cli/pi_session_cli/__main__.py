"""`python -m pi_session_cli` does what the `pi-session` script does."""

from pi_session_cli.main import run

run()
