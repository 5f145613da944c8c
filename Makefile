# Two commands for newcomers: `make demo` and `make test`. Both create .venv and install by themselves.
# TORCH_INDEX=URL takes torch from an index that has its CPU builds, a tenth of the size.

PYTHON ?= python3
TORCH_INDEX ?=
VENV := .venv
BIN := $(VENV)/bin

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	$(if $(TORCH_INDEX),--extra-index-url '$(TORCH_INDEX)')

.PHONY: release-check house demo test browser ray faults check constraints docs bench growth fuzz clean

demo: $(VENV)/installed  ## train the paper's model on the embedded data and recommend books
	$(BIN)/spherec demo --force

# Compiled modules are kept, also where the environment says not to: the tests start many processes.
test: $(VENV)/installed  ## the fast tests, two at a time
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

browser: $(VENV)/installed  ## the page in a real Chromium, which the system must have: apt install chromium
	$(PIP_INSTALL) --editable '.[browser]'
	$(BIN)/python -m pytest -m browser -rs tests/browser

FUZZ_SECONDS ?= 120
FUZZ_SEED ?=

fuzz: $(VENV)/installed  ## hostile files, words and values, for FUZZ_SECONDS; failing inputs go to tests/fuzz/cases
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --seed '$(FUZZ_SEED)'

ray: $(VENV)/installed  ## lists for everybody on a local cluster of Ray
	$(PIP_INSTALL) --editable '.[ray]'
	$(BIN)/python -m pytest -m slow -rs tests/export/test_ray.py

faults: $(VENV)/installed  ## the slow tests: runs killed at every call on their files, damaged indexes, threads, forks
	$(BIN)/python -m pytest -m 'slow and not gpu'

check: $(VENV)/installed  ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

constraints: $(VENV)/installed  ## do the pinned versions fit together on every Python, with both builds of torch?
	$(BIN)/python scripts/resolve_constraints.py $(if $(TORCH_INDEX),--index '$(TORCH_INDEX)')

PYTHONS ?= $(PYTHON)

release-check: $(VENV)/installed  ## build, install clean for each of PYTHONS, with each extra; demo and tests on the wheel
	$(BIN)/python scripts/release_check.py --python $(PYTHONS)

docs: $(VENV)/installed  ## the documentation site, into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

house: $(VENV)/installed  ## figures of the source tree: names, docstrings, hops
	$(BIN)/python scripts/house.py

DEVICE ?= cpu

bench: $(VENV)/installed  ## steps, lists, reading beside a plain baseline; preparing 48 million rows; into results/bench
	$(BIN)/python benchmarks/speed.py --device $(DEVICE) -o results/bench/$(DEVICE).json
	$(BIN)/python benchmarks/prepare_echonest.py

growth: $(VENV)/installed  ## how a step grows with items, interactions, dimensions, batch; into results/bench
	$(BIN)/python benchmarks/growth.py --device $(DEVICE)

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "spherec needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable '.[dev,docs]'
	touch $@
