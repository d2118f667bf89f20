# Sets up a virtual environment once, with the versions that CI uses, and runs what the README says.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: setup stgcn test test-long docs site lint lint-cpp versions bench contents page

NEWER := import sys; sys.exit(sys.version_info < (3, 11) and "make needs Python 3.11 or newer, as the versions in \
	constraints.txt do: say which with make PYTHON=python3.11. On 3.10, pip install -e .[rtx] takes other versions")

# uv installs in seconds what pip does in minutes, most of them for bytecode of modules that nothing imports.
ifneq ($(shell command -v uv),)
INSTALL := uv pip install --python $(VENV) -c constraints.txt
else
INSTALL := $(BIN)/pip install --no-compile --disable-pip-version-check -c constraints.txt
endif

$(VENV)/builds: pyproject.toml constraints.txt
	@$(PYTHON) -c '$(NEWER)'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[rtx]'
	touch $@

$(READY): $(VENV)/builds
	$(INSTALL) -e '.[dev]'
	touch $@

setup: $(READY)

stgcn: $(VENV)/builds  ## define ST-GCN, check it against torch, write stgcn.engine; installs what that needs alone
	$(BIN)/trtdsl build networks/stgcn.py --dim N=1:4:4
	@echo '`. $(BIN)/activate` puts trtdsl on the path'

test: $(READY)  ## the suite, on two cores
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2

test-long: $(READY)  ## the files that take longest: torch's samples of all functions, wrong networks, attacks; CI runs them, too
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 -m "long and not heavy"

docs: $(READY)  ## the code in README and docs, run as it stands there
	$(BIN)/pytest -q tests/docs

site: $(READY)  ## the documents as pages that need no network, under site/; a link that does not hold is an error
	$(BIN)/python tools/site.py site

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

lint-cpp: $(READY)  ## the C++ library, by clang, clang-tidy and cppcheck as far as they are installed
	$(BIN)/python tools/lint_cpp.py

versions: $(READY)  ## a part of the suite on other versions of Python, torch and numpy, in ../versions; needs uv, 5 GB for each
	$(BIN)/python tools/versions.py

contents: $(READY)  ## what follows from the functions: contents pages, Tensor's methods, the table of layer types
	$(BIN)/python tools/make_contents.py
	$(BIN)/python tools/coverage.py

bench: $(READY)
	for bench in tools/bench/[a-z]*.py; do $(BIN)/python $$bench; done

page:  ## the script and the style of `trtdsl view`, from tools/view
	cd tools/view && npm ci && npm run build
