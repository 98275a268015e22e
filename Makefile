# Two commands do everything: `make demo` shows what Trouper is for, `make test` checks all of it.
# Both need python3 (3.11 or newer) with pip and venv, and nothing else; they may be repeated.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check lint types bench clean help

help:
	@echo "make demo   watch an agent survive three kills (about 15 s, after the installation)"
	@echo "make test   run the tests"
	@echo "make check  lint and types"
	@echo "make bench  measure, beside the least code that does the same durable work"

demo: $(VENV)/.installed
	$(BIN)/trouper demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

check: lint types

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(VENV)/.installed-dev
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Trouper needs Python 3.11 or newer')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[testing,audit]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[testing,audit]" --group dev
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
