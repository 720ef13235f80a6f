# `make run` shows the main job; `make test` proves the whole. Both make what they need.

PYTHON ?= python3
export QUESTION ?= Which returned more from 2005 to 2009, AAPL or IBM?

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A stamp says what is installed, so that a warm .venv costs nothing.
RUN_STAMP := $(VENV)/.installed-run
TEST_STAMP := $(VENV)/.installed-test

.PHONY: run test lint types unit clean

run: $(RUN_STAMP)
	@$(BIN)/agentrt run programs/finance.py --question "$$QUESTION"

test: lint types unit

lint: $(TEST_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TEST_STAMP)
	$(BIN)/mypy
	$(BIN)/pyright

unit: $(TEST_STAMP)
	@$(BIN)/python tests/prompt/fetch_templates.py
	$(BIN)/pytest -q

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis traces/runs

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "agentrt needs Python 3.11 or newer, and $(PYTHON) is %d.%d. Name another one: make run PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "No virtual environment could be made. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(RUN_STAMP): pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "Installing into $(VENV) (once)" >&2
	@$(PIP) -e . -c constraints.txt
	@touch $@

$(TEST_STAMP): pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "Installing into $(VENV), with what tests need (once)" >&2
	@$(PIP) -e '.[dev]' -c constraints.txt
	@touch $@ $(RUN_STAMP)
