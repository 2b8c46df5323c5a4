# Every target does its own set-up; all it needs is python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test check format table3 coverage methods lock clean

help:  ## list the targets
	@grep -E '^[a-z0-9]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "confidp needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)  ## a private interval from a real table
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: $(READY)  ## all tests
	@$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(READY)  ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

format: $(READY)  ## put the code in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

table3: $(READY)  ## Table 3 of the paper at n = 2000, beside what is printed
	$(BIN)/python papers/one_shot_private_confidence_regions/table_3.py

coverage: $(READY)  ## the coverage atlas of the default interval, resumed where it stopped
	$(BIN)/python benchmarks/coverage_atlas.py

methods: $(READY)  ## every method with every statistic: coverage and length
	$(BIN)/python papers/one_shot_private_confidence_regions/every_method.py

lock: $(READY)  ## choose versions anew, with hashes
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --group dev --group build --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --quiet -o requirements.lock

clean:  ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
