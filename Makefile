# `make` lists the targets. The two that a newcomer types are `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
# Installed by its path rather than an import hook, so that type checkers and editors find it
EDITABLE := $(PIP) --config-settings editable_mode=compat -e

.DEFAULT_GOAL := help
.PHONY: help venv dev demo docs check fast-tests test lint bench bench-gpu calibration reproduce-report clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(READY) ## install statetrace and its explorer into .venv
dev: $(DEV) ## also install what tests, linters and documentation need

demo: $(READY) ## train a small model on the CPU and analyze it (5 minutes)
	$(BIN)/statetrace demo

check: $(DEV) ## run linters, type checks and the fast tests (90 seconds)
	$(MAKE) --no-print-directory -j 2 lint fast-tests

fast-tests: $(DEV)
	$(BIN)/pytest -n 2 --dist worksteal -m 'not slow and not browser'

test: lint $(DEV) ## run linters, type checks and all tests
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The libraries compared with are not dependencies of statetrace; they are installed only here
bench: $(DEV) ## measure speed
	$(EDITABLE) '.[bench]'
	$(BIN)/python benchmarks/data_generation.py
	$(BIN)/python benchmarks/patching.py
	$(BIN)/python benchmarks/probing.py
	$(BIN)/python benchmarks/subspace.py
	$(BIN)/python benchmarks/stacked_seeds.py
	$(BIN)/python benchmarks/explorer.py
	$(BIN)/python benchmarks/load.py

# STEPS='--out results/training-step/steps.json' saves the table for REPRODUCTION.md
bench-gpu: $(DEV) ## measure speed on a GPU
	$(EDITABLE) '.[bench]'
	$(BIN)/python benchmarks/training_step.py $(STEPS)
	$(BIN)/python benchmarks/stacked_seeds.py --device cuda
	$(BIN)/python benchmarks/patching.py --gpu

# From calibration/data; compiled models that it lacks are measured first
calibration: $(DEV) ## fit the weights of the verdict and write docs/calibration.md
	$(BIN)/python -m calibration --measure --processes 2

reproduce-report: $(DEV) ## write REPRODUCTION.md and its pictures, from results/ alone
	$(BIN)/python -m reproduction

# torch is installed first and alone, so that no other package determines its build
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "statetrace needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(EDITABLE) '.[explorer]'
	@touch $@

$(DEV): $(READY)
	$(EDITABLE) '.[dev]'
	@touch $@

$(DOCS): $(READY)
	$(EDITABLE) '.[docs]'
	@touch $@

docs: $(DOCS) ## build the documentation site in build/site, strictly
	$(BIN)/python -m website

clean: ## remove .venv, builds and caches; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
