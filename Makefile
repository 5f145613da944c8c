# Two commands for newcomers: `make demo` and `make test`. Both create .venv and install by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench clean

demo: $(VENV)/installed  ## train the paper's model on the embedded data and recommend books
	$(BIN)/spherec demo

test: $(VENV)/installed  ## the fast tests
	$(BIN)/python -m pytest

check: $(VENV)/installed  ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/installed  ## time and memory of preparing 48 million rows; writes results/bench/prepare.json
	$(BIN)/python benchmarks/prepare_echonest.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "spherec needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@
