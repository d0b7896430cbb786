"""`stats` as people and programs meet it."""

import csv
import io
import json

import pytest

from pi_session_cli.render.width import width
from tests.cli.launcher import Terminal


def paid(model: str, tokens: int, cost: float, name: str = "bash") -> bytes:
    """Return an answer that calls a tool, as a line of JSON."""
    usage = {
        "input": tokens, "output": 10, "cacheRead": 900, "cacheWrite": 0,
        "cost": {"input": cost, "output": 0, "cacheRead": cost / 10, "cacheWrite": 0, "total": cost * 1.1},
    }  # fmt: skip
    content = [{"type": "toolCall", "id": "c", "name": name, "arguments": {}}]
    told = {"role": "assistant", "content": content, "provider": "p", "model": model, "usage": usage}
    return (json.dumps(told) + "\n").encode()


@pytest.fixture
def spent(talk: Terminal) -> Terminal:
    """Return a shell with two paid answers, one in a fork, and one of unknown price."""
    talk.ok("append", "--json-lines", "-", stdin=paid("m", 100, 1.0))
    talk.ok("fork")
    talk.ok("append", "--json-lines", "-", stdin=paid("模型", 300, 3.0, "read") + paid("local", 50, 0))
    return talk


def test_a_table_with_bars(spent: Terminal) -> None:
    assert spent.ok("stats").lines == [
        "model     answers  tokens  cached       cost",
        "p/模型          1   1,210     75%      $3.30  ██████████████████████████████",
        "p/m             1   1,010     90%      $1.10  ██████████",
        "p/local         1     960     95%          ?",
        "total           3   3,180     86%  $4.40 + ?",
        "The cache saved $17.60; of 1 answer that is unknown, their input price was not recorded",
        "No price was recorded for 1 answer (p/local)",
    ]


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("by", ["session", "branch", "model", "tool", "day", "directory"])
def test_every_table_fits_and_lines_up(spent: Terminal, by: str, columns: int) -> None:
    ran = spent.ok("stats", "--by", by, columns=columns, env={"NO_COLOR": "1"})
    table = [line for line in ran.lines if not line.startswith(("The cache", "No price"))]
    assert all(width(line) <= columns for line in table)
    assert len({width(line.partition("  █")[0].rstrip()) for line in table[:1] + table[-1:]}) == 1


def test_a_fork_costs_what_it_added(spent: Terminal) -> None:
    told = json.loads(spent.ok("stats", "--by", "session", "--json").out)
    assert sorted(round(row["cost"], 2) for row in told["rows"]) == [1.1, 3.3]
    told = json.loads(spent.ok("stats", "--by", "branch", "--json").out)
    assert [(row["key"], round(row["cost"], 2)) for row in told["rows"]] == [("(before the fork)", 1.1), ("main", 3.3)]
    assert told["unpricedModels"] == ["p/local"]


def test_csv(spent: Terminal) -> None:
    rows = list(csv.DictReader(io.StringIO(spent.ok("stats", "--by", "tool", "--csv").out)))
    assert {row["tool"] for row in rows} == {"bash", "read"}
    spent.ok("append", "--json-lines", "-", stdin=paid("x", 1, 1.0, "=cmd()"))
    assert "\n'=cmd()," in spent.ok("stats", "--by", "tool", "--csv").out
    assert spent.run("stats", "--csv", "--json").code == 2


def test_days_are_local_and_in_order(spent: Terminal) -> None:
    told = json.loads(spent.ok("stats", "--by", "day", "--json").out)
    assert [row["key"] for row in told["rows"]] == ["2026-03-02"]


def test_scopes(spent: Terminal) -> None:
    assert json.loads(spent.ok("stats", "--here", "--json", cwd="/elsewhere").out)["rows"] == []
    assert json.loads(spent.ok("stats", "--since", "2027-01-01", "--json").out)["rows"] == []
    assert "Nothing was used" in spent.ok("stats", "--since", "2027-01-01").err
    assert json.loads(spent.ok("stats", "00000001", "--json").out)["by"] == "branch"
    assert spent.run("stats", "nosuch").code == 1
    assert "2 more rows" in spent.ok("stats", "-n", "1").out


def test_ascii_where_signs_cannot_be_shown(spent: Terminal) -> None:
    assert "####" in spent.ok("stats", encoding="cp1252").raw.decode("cp1252")


def test_an_unknown_price_is_not_nothing(talk: Terminal) -> None:
    talk.ok("append", "--json-lines", "-", stdin=paid("local", 50, 0))
    told = json.loads(talk.ok("ls", "--json").out)
    sid = told["sessions"][0]["id"]
    assert "unknown price (" in talk.ok("show", sid).out
    table = talk.ok("stats", "--by", "branch").out
    rows = [line.split() for line in table.splitlines() if line.startswith(("main", "total"))]
    assert rows
    assert all("$0.00" not in row and "?" in row for row in rows)
    talk.ok("append", "--json-lines", "-", stdin=paid("m", 100, 1.0))
    assert "$1.1000 + 1 answer of unknown price (" in talk.ok("show", sid).out
