"""Options of the whole test run."""

import os

import pytest
from hypothesis import settings

# `make test` tries the same examples every time, so that a change is judged by itself; `make soak` tries new ones.
settings.register_profile("steady", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden files beside the sessions in fixtures/sessions; read the diff",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files shall be rewritten instead of compared."""
    return bool(request.config.getoption("--update-golden"))
