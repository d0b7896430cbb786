"""The client against servers made by others; optional, see `python -m tests.live --help`."""
