"""The examples in the package's documentation run and print what they should."""

import contextlib
import io
import re

import pytest

import pi_loop

EXAMPLES = re.findall(r"```python\n(.*?)```", pi_loop.__doc__ or "", re.DOTALL)
PRINTED = [
    "Paris. stop\n",
    "Les poissons nagent. Les oiseaux volent.\n",
    "['system', 'user', 'assistant', 'toolResult', 'assistant'] It is 42.\n",
]


def test_there_is_an_example_of_each_way() -> None:
    assert len(EXAMPLES) == len(PRINTED)


@pytest.mark.parametrize(("example", "printed"), list(zip(EXAMPLES, PRINTED, strict=True)))
def test_example_runs(example: str, printed: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example, "example", "exec"), {"__name__": "example"})
    assert out.getvalue() == printed


def test_every_public_name_is_there_and_nothing_else_is_promised() -> None:
    for name in pi_loop.__all__:
        assert getattr(pi_loop, name) is not None
    assert set(pi_loop._HOME) == set(pi_loop.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(pi_loop, "no_such" + "_name")
