# Two commands for newcomers: `make demo` and `make test`. Both create .venv and install by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: house demo test browser ray faults check docs bench growth fuzz clean

demo: $(VENV)/installed  ## train the paper's model on the embedded data and recommend books
	$(BIN)/spherec demo --force

# Compiled modules are kept, also where the environment says not to: the tests start many processes.
test: $(VENV)/installed  ## the fast tests, two at a time
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

browser: $(VENV)/installed  ## the page in a real Chromium, which the system must have: apt install chromium
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[browser]'
	$(BIN)/python -m pytest -m browser -rs tests/browser

FUZZ_SECONDS ?= 120
FUZZ_SEED ?=

fuzz: $(VENV)/installed  ## hostile files, words and values, for FUZZ_SECONDS; failing inputs go to tests/fuzz/cases
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --seed '$(FUZZ_SEED)'

ray: $(VENV)/installed  ## lists for everybody on a local cluster of Ray
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[ray]'
	$(BIN)/python -m pytest -m slow -rs tests/export/test_ray.py

faults: $(VENV)/installed  ## the slow tests: runs killed at every call on their files, damaged indexes, threads, forks
	$(BIN)/python -m pytest -m 'slow and not gpu'

check: $(VENV)/installed  ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/installed  ## the documentation site, into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

house: $(VENV)/installed  ## figures of the source tree: names, docstrings, hops
	$(BIN)/python scripts/house.py

DEVICE ?= cpu

bench: $(VENV)/installed  ## steps, lists, reading beside a plain baseline; preparing 48 million rows; into results/bench
	$(BIN)/spherec bench --device $(DEVICE) -o results/bench/$(DEVICE).json
	$(BIN)/python benchmarks/prepare_echonest.py

growth: $(VENV)/installed  ## how a step grows with items, interactions, dimensions, batch; into results/bench
	$(BIN)/python benchmarks/growth.py --device $(DEVICE)

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "spherec needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
	touch $@
