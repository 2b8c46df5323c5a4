# Every target does its own set-up; all it needs is python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PEERS  := $(VENV)/.peers

.PHONY: help demo test check format reproduce reproduce-one-shot reproduce-local coverage audit bench methods lock clean

help:  ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 20

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "confidp needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# No dependencies: particles asks for numpy < 2, which it doesn't need.
$(PEERS): $(READY) requirements-bench.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
	  -r requirements-bench.lock
	@touch $@

demo: $(READY)  ## private intervals from a real table, and a rehearsal of a local collection
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

reproduce: reproduce-one-shot reproduce-local  ## both papers' tables and figures

reproduce-one-shot: export OMP_NUM_THREADS = 1
reproduce-one-shot: $(READY)  ## Tables 3 and 4, Figure 1, the headline claim, in build/reproduce
	$(BIN)/python -m papers.one_shot_private_confidence_regions.tables --workers 2 \
	  --out build/reproduce/tables.csv \
	  --methods cr_wr cr_wor cr_aware private_variance rank_inversion half_centred non_private
	$(BIN)/python -m papers.one_shot_private_confidence_regions.overhead --out build/reproduce
	$(BIN)/python -m papers.one_shot_private_confidence_regions.figures --folder build/reproduce

reproduce-local: $(READY)  ## the adaptive-truncation paper's figures, resumed where it stopped
	$(BIN)/python papers/online_bayes_adaptive_truncation/experiment.py --iterations 20000
	$(BIN)/python papers/online_bayes_adaptive_truncation/figures.py

coverage: $(READY)  ## the coverage atlas of the default interval, resumed where it stopped
	$(BIN)/python benchmarks/coverage_atlas.py
	$(BIN)/python benchmarks/atlas_page.py

methods: $(READY)  ## every method with every statistic: coverage and length
	$(BIN)/python -m papers.one_shot_private_confidence_regions.every_method

audit: $(READY)  ## every audit at length: claims beside what attacks find
	$(BIN)/python tests/audit/run_long.py

bench: export OMP_NUM_THREADS = 1
bench: export OPENBLAS_NUM_THREADS = 1
bench: $(PEERS)  ## how fast it is beside peers, and how it scales, the latter resumed
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/scaling.py

lock: $(READY)  ## choose versions anew, with hashes
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --group dev --group build --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --quiet -o requirements.lock
	echo 'numpy>=2.0' | $(BIN)/uv pip compile --group bench --constraints requirements.lock \
	  --overrides /dev/stdin --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --quiet -o requirements-bench.lock

clean:  ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
