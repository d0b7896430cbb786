"""Keeps plain test runs away from the tests that need the real Pi: they run only when this folder is named."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = any("interop" in str(argument) for argument in config.invocation_params.args)
    return True if collection_path.name.startswith("test_") and not named else None
