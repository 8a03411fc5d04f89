# Two commands for a fresh clone: `make demo` and `make test`. Both make .venv and install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH :=
# pip reads the versions of the build tool from the environment, older releases from the first variable.
PINS := --constraint constraints.txt
BUILD_PINS := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt
INSTALL = $(BUILD_PINS) $(BIN)/pip install --quiet $(PINS)
# The extra of the first argument, with the folders of the second. HASHES=1: only files with a digest in requirements.lock.
install = $(if $(HASHES),$(BIN)/python tools/hashes.py install $(1) $(patsubst %,--editable %,$(2)),\
	$(INSTALL) --editable '.[$(1)]' $(patsubst %,--editable %,$(filter-out .,$(2))))

.PHONY: demo test lint types slow fuzz fuzz-requests survive crash data docs notebooks zoo hooks pins stubs web newest clean

demo: $(VENV)/.demo data
	@$(BIN)/patchword demo

test: $(VENV)/.test lint types
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

slow: $(VENV)/.test
	$(BIN)/pytest -m slow

# Random models beside transformers and our reference paths; MINUTES=20 SEED=0 FAMILY= CASES= COMPILED=.
fuzz: $(VENV)/.test
	@$(BIN)/python tools/fuzz.py --minutes $(or $(MINUTES),20) --seed $(or $(SEED),0) --family '$(FAMILY)' \
		--cases $(or $(CASES),0) $(if $(COMPILED),--compiled)

# Nearly right requests to a server of tiny models; COUNT=100000 SEED=0.
fuzz-requests: $(VENV)/.test
	@$(BIN)/python tools/fuzz_requests.py --count $(or $(COUNT),100000) --seed $(or $(SEED),0)

# 100 kills and 20 stops, of image models and of masked language models; SURVIVAL_SHARE=0.1 runs a tenth of them.
survive: $(VENV)/.test
	$(BIN)/pytest -m slow tests/survival

# Random tiny runs with random signals, kills, full disks and damaged files; MINUTES=30 SEED= CASE=.
crash: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -W ignore -m support.crash --minutes $(or $(MINUTES),30) \
		$(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE))

# Fashion-MNIST: Debian's package where we may install it, else a verified download into the data folder.
data: $(VENV)/.demo
	@$(BIN)/patchword data get fashion-mnist --yes || true

# The documentation as one site, in site/; a warning is an error. The theme's notice about MkDocs 2 is switched off.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "site/index.html"

# The notebooks of docs/notebooks with their outputs, as pages in site/notebooks/. Some need Fashion-MNIST or the zoo.
notebooks: $(VENV)/.test
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/notebooks.py run
	@echo "site/notebooks/"

# The wheels of patchword and of patchword-zoo, in dist/; the same sources give the same bytes.
zoo: $(BIN)/pip
	@$(BUILD_PINS) SOURCE_DATE_EPOCH=1577836800 $(BIN)/pip wheel --quiet --no-deps --wheel-dir dist . packages/zoo
	@ls -l dist/*.whl

# Run lint and types before each commit.
hooks: $(VENV)/.dev
	$(BIN)/pre-commit install

# Move all versions in constraints.txt to the newest that fit together; torch only with TORCH=VERSION. Their digests are
# in requirements.lock.
pins: | $(BIN)/pip
	@$(INSTALL) packaging
	@$(BIN)/python tools/pins.py --torch '$(TORCH)'

# What editors complete: the names of all models and their fields; and the pages about the lectures. After one was added.
stubs: $(VENV)/.test
	@$(BIN)/python tools/stubs.py
	@$(BIN)/python tools/lectures.py

# The page of `patchword lab`, in src/patchword/lab/page; needs Node 20 or newer. The same sources give the same bytes.
web:
	@cd web && npm install --silent && npm run --silent check && npm run --silent build
	@ls -l src/patchword/lab/page/assets

# `make test` with the newest versions; torch alone is pinned.
newest:
	@rm -f .venv-newest/.test
	@$(MAKE) test VENV=.venv-newest BUILD_PINS= HASHES= \
		PINS="--upgrade --upgrade-strategy eager torch==$$(sed -n 's/^torch==//p' constraints.txt)"

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing patchword into $(VENV) (a minute or two)"
	@$(call install,demo,.)
	@touch $@

$(VENV)/.test: pyproject.toml packages/zoo/pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing patchword and its test tools into $(VENV) (a minute or two)"
	@$(call install,test,. packages/zoo)
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing patchword and its documentation tools into $(VENV) (a minute or two)"
	@$(call install,docs,.)
	@touch $@

$(VENV)/.dev: pyproject.toml packages/zoo/pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing patchword and all its development tools into $(VENV) (a minute or two)"
	@$(call install,dev,. packages/zoo)
	@touch $@ $(VENV)/.demo $(VENV)/.test $(VENV)/.docs

$(BIN)/pip:
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "on Debian: apt-get install python3-venv"; exit 1; }

clean:
	rm -rf $(VENV) .venv-newest site build dist
