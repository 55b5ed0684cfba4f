# Every target sets up a virtual environment with the tested versions first; Python 3.11 or newer is required.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
# Without a GPU, the tests of the Triton kernels run in the interpreter only (target `kernels`).
WITHOUT_GPU := $(if $(shell command -v nvidia-smi),,-m "not triton")

.PHONY: help demo test soak lint types docs tests kernels page format clean

help:
	@echo "make demo    train DiffPool and a flat GNN on generated data, about three minutes"
	@echo "make test    formatter, linter, type checker, documentation and tests, at most five minutes on two cores"
	@echo "make soak    the same with the full counts of the repeated tests (fuzzing, kills, properties)"
	@echo "make docs    the documentation as a site in site/"
	@echo "make page    build the program of the page of 'diffpool explore' from web/ (needs npm)"
	@echo "make format  format the code"
	@echo "make clean   remove the virtual environment, the demo's files and the site"

# PyTorch and setuptools come first: the package is built without isolation, with the tested versions.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is required: make PYTHON=python3.12 …"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch setuptools
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/diffpool demo --out demo

# All parts run at the same time and to their end; one that fails makes the whole fail. Only `tests` prints while it
# runs. The others print when they have finished, the linter, the type checker and the site only if they find something.
test soak: $(VENV)/.installed
	@$(MAKE) --no-print-directory --keep-going -j5 lint types docs kernels tests SOAK=$(filter soak,$@) \
		|| { echo "make $@ failed: see above"; exit 1; }

lint: $(VENV)/.installed
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .

types: $(VENV)/.installed
	@$(BIN)/mypy --no-error-summary

# Any warning is an error. The variable switches off an advertisement.
docs: $(VENV)/.installed
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

tests: $(VENV)/.installed
	@$(PYTEST) -n $(WORKERS) --dist worksteal $(WITHOUT_GPU) $(if $(SOAK),--soak)

# The Triton kernels, in Triton's interpreter: it needs no GPU, and must be chosen before Triton is imported.
kernels: $(VENV)/.installed
	@output=$$(TRITON_INTERPRET=1 $(PYTEST) -m triton $(if $(SOAK),--soak) tests/backends 2>&1); status=$$?; \
		printf '\nTriton kernels in the interpreter:\n%s\n' "$$output"; exit $$status

page:
	cd web && npm ci && npm run check && npm run build

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) demo site
