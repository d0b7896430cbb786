"""Settings: flag, else environment, else `config.toml`, else the default; each value knows where it comes from.

Hot commands read these, so the directories platformdirs would name are worked out here on Linux without importing it
(a test compares the two), and `tomllib` is loaded only when there is a file to read.
"""

from __future__ import annotations

import os
import sys

from pi_sessions.errors import CannotError
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Plain = str | int | bool | None

APP = "pi-session"
CONFIG_VARIABLE = "PI_SESSION_CONFIG"
COLORS = ("auto", "always", "never")
THINKING = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
# Tables of the file: keys by provider (`$VARIABLE` or `!command`), and Pi's settings of the same names.
TABLES = ("keys", "compaction", "branchSummary", "retry")


class Known(Record):
    """A setting there is.

    Attributes:
        kind: `text`, `flag`, `int` or `choice`.
        variable: Environment variable that sets it.
    """

    name: str
    kind: str
    default: Plain
    variable: str
    help: str
    choices: tuple[str, ...] = ()


KNOWN = (
    Known("db", "text", None, "PI_SESSION_DB", "Store file"),
    Known("durable", "flag", False, "PI_SESSION_DURABLE", "Wait until each change has reached the disk"),
    Known("busy_timeout_s", "int", 30, "PI_SESSION_BUSY_TIMEOUT_S", "Seconds to wait for another writer"),
    Known("limit", "int", 20, "PI_SESSION_LIMIT", "Rows of a page of ls and ops"),
    Known("color", "choice", "auto", "PI_SESSION_COLOR", "Colour on stdout", COLORS),
    Known("model", "text", None, "PI_SESSION_MODEL", "Model of sessions that have none yet: provider/model"),
    Known("thinking", "choice", None, "PI_SESSION_THINKING", "Thinking level of sessions that have none yet", THINKING),
)


class Setting(Record):
    """A value in force.

    Attributes:
        source: `flag`, an environment variable's name, the settings file's path, or `default`.
    """

    name: str
    value: Plain
    source: str


class Settings:
    """The values in force for one command.

    Args:
        environ: Environment to read.
        flags: Values from the command line by setting name; None and False count as not given.
    """

    def __init__(self, environ: Mapping[str, str], flags: Mapping[str, object]) -> None:
        self.environ = environ
        self.flags = flags
        self.config_path = environ.get(CONFIG_VARIABLE) or os.path.join(config_dir(environ), "config.toml")
        self._file: dict[str, object] | None = None

    def get(self, name: str) -> Setting:
        """Return one setting.

        Raises:
            CannotError: the settings file, or the variable, holds something else than the setting takes.
        """
        known = next(each for each in KNOWN if each.name == name)
        flag = self.flags.get(name)
        if flag not in (None, False):
            return Setting(name, check(known, flag, f"--{name}"), "flag")
        text = self.environ.get(known.variable)
        if text:
            return Setting(name, read_text(known, text), known.variable)
        if name in self.file:
            return Setting(name, check(known, self.file[name], self.config_path), self.config_path)
        default = known.default if name != "db" else os.path.join(data_dir(self.environ), "sessions.db")
        return Setting(name, default, "default")

    def all(self) -> tuple[Setting, ...]:
        """Return every setting."""
        return tuple(self.get(known.name) for known in KNOWN)

    def table(self, name: str) -> dict[str, object]:
        """Return one of the tables of the file, empty when it is not there."""
        value = self.file.get(name)
        return dict(value) if isinstance(value, dict) else {}

    @property
    def file(self) -> dict[str, object]:
        """What `config.toml` holds, read once; empty when there is none."""
        if self._file is None:
            self._file = read_config(self.config_path)
        return self._file


def read_config(path: str) -> dict[str, object]:
    """Return the values of a settings file, empty when there is none.

    Raises:
        CannotError: it cannot be read, is no TOML, or names a setting there is not.
    """
    if not os.path.exists(path):
        return {}
    import tomllib

    try:
        with open(path, "rb") as file:
            values: dict[str, object] = tomllib.load(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotError(
            f"Cannot read the settings in {path}: {reason}", hint="correct the file or move it away"
        ) from error
    for table in TABLES:
        if not isinstance(values.get(table, {}), dict):
            raise CannotError(f"{table} in {path} is no table", hint=f"write [{table}] and its values below")
    unknown = sorted(values.keys() - {known.name for known in KNOWN} - {*TABLES})
    if unknown:
        names = ", ".join((*(known.name for known in KNOWN), *(f"[{table}]" for table in TABLES)))
        raise CannotError(f"No setting is called {unknown[0]}, but {path} sets it", hint=f"there are: {names}")
    return values


def read_text(known: Known, text: str) -> Plain:
    """Return the value an environment variable's text stands for."""
    if known.kind == "int" and text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    if known.kind == "flag" and text.lower() in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        return text.lower() in ("1", "true", "yes", "on")
    return check(known, text, known.variable)


def check(known: Known, value: object, place: str) -> Plain:
    """Return a value if it is of the setting's kind.

    Raises:
        CannotError: it is not.
    """
    kinds: dict[str, type] = {"text": str, "flag": bool, "int": int, "choice": str}
    fits = isinstance(value, kinds[known.kind]) and not (known.kind == "int" and isinstance(value, bool))
    if fits and known.kind == "int" and isinstance(value, int):
        fits = value >= 0
    if not fits or (known.choices and value not in known.choices):
        wanted = {
            "text": "text",
            "flag": "true or false",
            "int": "a whole number",
            "choice": " or ".join(known.choices),
        }
        raise CannotError(
            f"The setting {known.name} takes {wanted[known.kind]}, not {value!r} (from {place})",
            hint="pi-session config shows each value and where it comes from",
        )
    return value  # type: ignore[return-value]


def data_dir(environ: Mapping[str, str]) -> str:
    """Return the directory of the default store, as platformdirs names it."""
    return user_dir(environ, "XDG_DATA_HOME", ".local/share", "user_data_dir")


def config_dir(environ: Mapping[str, str]) -> str:
    """Return the directory of `config.toml`, as platformdirs names it."""
    return user_dir(environ, "XDG_CONFIG_HOME", ".config", "user_config_dir")


def user_dir(environ: Mapping[str, str], variable: str, below_home: str, function: str) -> str:
    """Return one of the user's directories; platformdirs is asked only where its answer is not worked out here."""
    home = environ.get("HOME", "")
    if sys.platform == "linux" and home.startswith("/") and "ANDROID_DATA" not in environ:
        base = environ.get(variable, "")
        return os.path.join(base if base.startswith("/") else os.path.join(home.rstrip("/") or "/", below_home), APP)
    import platformdirs

    return str(getattr(platformdirs, function)(APP, appauthor=False))
