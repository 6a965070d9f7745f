.PHONY: help setup demo test wheel lint bench soak chaos chaos-spark experiments arena docs clean

# The first of these that fits makes the virtual environment; `make PYTHON=...` names another.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
BIN = .venv/bin
READY = .venv/ready

# make chaos: the number of schedules, of flipped bits, and the first seed.
SCHEDULES ?= 2000
PLACES ?= 1000
SEED ?= 0

# Spark comes from .venv, whatever else this machine has.
unexport SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYTHONHOME PYTHONPATH
# Tests that kill their process, most of whose time is starting Spark, run beside the others.
BESIDE = --numprocesses 2 --dist loadgroup
WITH_JAVA = JAVA_HOME="$$(scripts/find-java)" && export JAVA_HOME &&

help:
	@echo 'make demo              replay flights in the order they really took off, live in the terminal'
	@echo 'make test              run all tests: first the quick ones, then Spark and experiments'
	@echo 'make wheel             build a wheel and try it in an environment of its own (part of make test)'
	@echo 'make lint              check format, style, types, imports, names of modules and prose'
	@echo 'make bench [CASE=...]  compare with Spark itself, e.g. CASE=sliding-60; CASE=learners: their cost'
	@echo 'make soak [HOURS=1]    run a query under faults for hours: memory, files and latency stay flat'
	@echo 'make chaos             break the local host in 2,000 seeded schedules, and flip bits of checkpoints;'
	@echo '                       SCHEDULES=20000 runs more of them, SEED=270 SCHEDULES=1 repeats one'
	@echo 'make chaos-spark       break queries on Spark in 200 seeded schedules: an hour'
	@echo 'make experiments       run the experiments of the papers again, write one page of results'
	@echo 'make arena [SEED=...]  judge slacks beside the best constant, and early answers; PART=joins runs a part'
	@echo 'make docs              run the examples in the docstrings, check links, build the site in ./site'
	@echo 'make setup             create .venv (the others do it when they need it)'
	@echo 'make clean             remove all that these have made, .venv included'

setup: $(READY)

demo: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m examples.flights

test: $(READY)
	$(BIN)/pytest -m 'not spark and not experiment' --numprocesses auto
	@echo "$(BIN)/pytest -m 'spark or experiment' $(BESIDE)"; \
	$(WITH_JAVA) $(BIN)/pytest -m 'spark or experiment' $(BESIDE)

wheel: $(READY)
	$(BIN)/pytest -m 'wheel and not spark'

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/check_cycles.py
	$(BIN)/python scripts/check_modules.py
	$(BIN)/python scripts/check_prose.py

bench: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m bench $(CASE)

soak: HOURS ?= 1
soak: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m bench.soak --hours $(HOURS)

chaos: $(READY)
	$(BIN)/python -m chaos local --schedules $(SCHEDULES) --seed $(SEED)
	$(BIN)/python -m chaos flips --places $(PLACES) --seed $(SEED)

experiments: $(READY)
	$(BIN)/python -m experiments run; held=$$?; $(BIN)/python -m experiments report && exit $$held

arena: $(READY)
	@$(BIN)/python -m experiments arena $(SEED:%=--seed %) $(PART:%=--part %)

chaos-spark: $(READY)
	@$(WITH_JAVA) $(BIN)/python -m chaos spark

docs: $(READY)
	$(BIN)/pytest src
	$(BIN)/python scripts/check_links.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv build dist lowwater-demo experiments-out site
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf artifacts derby.log metastore_db spark-warehouse
	find src tests bench chaos scripts examples experiments -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || :

$(READY): .venv/installed pyproject.toml
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

.venv/installed: requirements.txt
	@for python in $(PYTHON) ''; do \
	    "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && break; \
	done; \
	if [ -z "$$python" ]; then \
	    echo 'Lowwater needs Python 3.11, 3.12, 3.13 or 3.14 and found none: install one, or name it with make PYTHON=/path/to/python3.' >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "$$python cannot create a virtual environment: install its venv module (on Debian or Ubuntu the package python3-venv) and run this again." >&2; exit 1; \
	fi; \
	echo 'Creating .venv: a minute or more the first time, Spark alone is 400 MB.'; \
	"$$python" -m venv .venv
	@PIP_USE_PEP517=1 $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.txt
	@touch $@
