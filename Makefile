# Every target sets up what it needs: the first one that runs makes .venv.

PYTHON ?= python3
VENV   ?= .venv
# Two workers: what a small CI machine has. `make test PYTEST_ARGS=` runs in one process.
PYTEST_ARGS ?= -n 2

BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed

# What runs swasim has its modules compiled first; `make test COMPILE=no` runs them as Python.
ifeq ($(COMPILE),no)
READY := $(STAMP) clean-compiled
else
READY := compile
endif

.DEFAULT_GOAL := help
.PHONY: help install compile demo test test-all test-sglang bench format lint types check \
	clean clean-compiled

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## make .venv with swasim and the pinned development tools

$(STAMP): pyproject.toml constraints-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "swasim needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo none);" \
	       "say which one to use: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Installing into $(VENV); torch is large, the first time can take minutes."
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@# The compile target is for the modules: with the pinned Cython, and a warning that is seen.
	@HATCH_BUILD_NO_HOOKS=true \
	  $(BIN)/python -m pip install --quiet --constraint constraints-dev.txt --editable '.[dev]'
	@touch $@

# Always asked: it knows what has changed since, and takes 50 ms where nothing has.
compile: $(STAMP) ## compile the modules that replays spend their time in, where they have changed
	@$(BIN)/python hatch_build.py

demo: $(READY) ## show the double free of SGLang PR 27779, buggy and fixed side by side
	$(BIN)/swasim compare --buggy --fixed

test: $(READY) ## run the fast tests
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not slow"

test-all: $(READY) ## run every test, the slow ones too
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-sglang: $(READY) ## test against real SGLang releases, downloaded without their dependencies
	VENV=$(VENV) bash tests/sglang/run.sh $(SGLANG_RELEASES)

bench: $(READY) ## measure calls per second
	$(BIN)/python -m pytest tests/benchmarks -p no:xdist -s -o 'python_files=bench_*.py test_*.py'

format: $(STAMP) ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: $(STAMP) ## check style and format, change nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## check the types
	$(BIN)/mypy

check: lint types test ## lint, types and fast tests: what a commit should pass

clean-compiled: ## remove the compiled modules, so that everything runs as Python
	@find swasim \( -name '*.so' -o -name '*.pyd' \) -exec rm -f {} +

clean: clean-compiled ## remove what builds and tests leave behind, .venv too
	rm -rf $(VENV) .venv-sglang build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
