# The two commands a newcomer types: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
KERNELS := $(VENV)/.kernels
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
# Installed by its path rather than an import hook, so that type checkers and editors find it
EDITABLE := $(PIP) --config-settings editable_mode=compat -e

.PHONY: demo check fast-tests test lint venv bench bench-gpu calibration reproduce-report clean

demo: $(READY)
	$(BIN)/statetrace train recipes/demo.toml --out runs/demo --resume
	$(BIN)/statetrace analyze runs/demo
	$(BIN)/statetrace show runs/demo
	$(BIN)/statetrace verdict runs/demo --json > /dev/null
	$(BIN)/statetrace report runs/demo
	$(BIN)/statetrace verdict runs/demo

# For the one who edits: everything but the tests that take long (tests/slow.py)
check: $(READY)
	$(MAKE) --no-print-directory -j 2 lint fast-tests

fast-tests: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal -m 'not slow and not browser'

# GPU kernels are tested with Triton's interpreter, which nothing else needs
test: lint $(KERNELS)
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The libraries compared with are not dependencies of statetrace; they are installed only here
bench: $(READY)
	$(EDITABLE) '.[bench]'
	$(BIN)/python benchmarks/data_generation.py
	$(BIN)/python benchmarks/patching.py
	$(BIN)/python benchmarks/probing.py
	$(BIN)/python benchmarks/stacked_seeds.py
	$(BIN)/python benchmarks/explorer.py

# Measures compiled models (once), fits the weights of the verdict and writes docs/calibration.md
calibration: $(READY)
	$(BIN)/python -m calibration --out results/calibration --processes 2 \
		--trained results/calibration/trained.jsonl
	mv results/calibration/weights.json statetrace/mechanisms/weights.json
	mv results/calibration/calibration.md docs/calibration.md

# REPRODUCTION.md and its pictures, from results/ alone
reproduce-report: $(READY)
	$(BIN)/python -m reproduction

# STEPS='--out results/training-step/steps.json' saves the table for REPRODUCTION.md
bench-gpu: $(READY)
	$(EDITABLE) '.[bench]'
	$(BIN)/python benchmarks/training_step.py $(STEPS)
	$(BIN)/python benchmarks/stacked_seeds.py --device cuda
	$(BIN)/python benchmarks/patching.py --gpu

venv: $(READY)

# torch is installed first and alone, so that no other package determines its build
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "statetrace needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(EDITABLE) '.[dev]'
	@touch $(READY)

$(KERNELS): $(READY)
	$(EDITABLE) '.[kernels]'
	@touch $(KERNELS)

clean:
	rm -rf $(VENV) runs build *.egg-info
