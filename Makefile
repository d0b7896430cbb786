# The commands people type. Each makes its own virtual environment when there is none; only python3 (3.11+) is needed.
PYTHON ?= python3
VENV := .venv
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-browser check bench soak interop live-servers clean

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("pi-session needs Python 3.11 or newer; try: make PYTHON=python3.12 " if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/pi-session demo

test: $(READY)
	$(BIN)/python -m pytest -q -m 'not soak and not network'

test-browser: $(READY)
	@test -n "$(CHROMIUM)" || { echo 'no Chromium found; try: make test-browser CHROMIUM=/usr/bin/chromium'; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,browser]'
	CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest -q tests/browser

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_house.py tests/test_readme.py

bench: $(READY)
	$(BIN)/python -m tests.benchmarks

soak: $(READY)
	HYPOTHESIS_PROFILE=default $(BIN)/python -m pytest -q -m soak

interop: $(READY)
	sh tests/interop/install.sh
	$(BIN)/python -m pytest -q -s tests/interop

live-servers: $(READY)
	$(BIN)/python -m tests.live

clean:
	rm -rf $(VENV) build dist
