"""Pi session files in and out: `read_pi_file`, `find_pi_files`, `pi_lines`.

Source: Pi 1.6.0, session file.
"""

from __future__ import annotations

from pi_sessions.formats.parsed import ParsedSession, Repair, Tally
from pi_sessions.formats.pi_files import PiFile, find_pi_files
from pi_sessions.formats.pi_reader import read_pi_file
from pi_sessions.formats.pi_writer import pi_lines

__all__ = ["ParsedSession", "PiFile", "Repair", "Tally", "find_pi_files", "pi_lines", "read_pi_file"]
