"""`config`: the settings in force and where each comes from."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import Argument, Command
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_session_cli.settings import Setting, Settings

COMMAND = Command(
    name="config",
    group="set up",
    help="Show the settings and where each comes from",
    details=(
        "A flag counts before the environment, the environment before config.toml, that before the default. With NAME "
        "only its value is printed. Settings: db (PI_SESSION_DB), durable (PI_SESSION_DURABLE), busy_timeout_s "
        "(PI_SESSION_BUSY_TIMEOUT_S), limit (PI_SESSION_LIMIT), color (PI_SESSION_COLOR, NO_COLOR), model "
        "(PI_SESSION_MODEL), thinking (PI_SESSION_THINKING). The file may also have the tables [keys] (a key by "
        "provider: $VARIABLE or !command), [compaction], [branchSummary] and [retry] with Pi's names. What a key is "
        "is never shown. PI_SESSION_CONFIG names another settings file."
    ),
    examples=("pi-session config", "pi-session config db"),
    json="One object: file, fileExists, settings (name, value, source).",
    arguments=(Argument("name", "NAME", "Setting whose value is printed", required=False),),
)


def run(ctx: Invocation, name: str | None) -> Answer:
    """Show the settings."""
    import os

    from pi_session_cli.render.rows import Rows
    from pi_session_cli.settings import KNOWN

    path = ctx.settings.config_path
    found = (*ctx.settings.all(), *of_tables(ctx.settings))
    there = os.path.exists(path)
    told = {
        "file": path,
        "fileExists": there,
        "settings": [{"name": each.name, "value": each.value, "source": each.source} for each in found],
    }
    if name is not None:
        one = next((each for each in found if each.name == name), None)
        if one is None:
            names = ", ".join(known.name for known in KNOWN)
            raise UsageError(f"No setting is called {name}", hint=f"there are: {names}")
        return Answer("done", Done({"name": one.name, "value": one.value, "source": one.source}, (shown(one.value),)))
    rows = tuple((each.name, each.source, shown(each.value)) for each in found)
    return Answer("rows", Rows(told, rows), (f"Settings file: {path}{'' if there else ' (not there)'}",))


def of_tables(settings: Settings) -> tuple[Setting, ...]:
    """Return what the tables of the settings file hold, keys by where they come from and never themselves."""
    from pi_session_cli.settings import TABLES, Setting

    found = []
    for table in TABLES:
        for name, value in sorted(settings.table(table).items()):
            told = (
                key_source(value) if table == "keys" else value if isinstance(value, str | int | bool) else str(value)
            )
            found.append(Setting(f"{table}.{name}", told, settings.config_path))
    return tuple(found)


def key_source(value: object) -> str:
    """Say where a key comes from."""
    text = str(value)
    if text.startswith("!"):
        return "(from a command)"
    return f"(from {text})" if text.startswith("$") else "(written in the file)"


def shown(value: object) -> str:
    """Return a value as the settings file spells it, nothing for one that is not set."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
