"""The command line of pi-session: parse, one call, render.

The only package that reads the environment, prints or exits. Commands that only read or move things import nothing
beyond a short list of standard modules (`tests/cli/test_startup.py` holds the list).
"""

VERSION = "0.1.0"
