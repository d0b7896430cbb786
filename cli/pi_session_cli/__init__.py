"""The command line of pi-session."""
