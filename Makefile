# Two commands for a fresh clone: `make demo` and `make test`. Both make .venv and install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types slow survive data clean

demo: $(VENV)/.demo data
	@$(BIN)/patchword demo

test: $(VENV)/.test lint types
	$(BIN)/pytest -n 2

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

slow: $(VENV)/.test
	$(BIN)/pytest -m slow

# 100 kills and 20 stops, of pictures and of masked words; SURVIVAL_SHARE=0.1 is a tenth of them.
survive: $(VENV)/.test
	$(BIN)/pytest -m slow tests/survival

# Fashion-MNIST: Debian's package where we may install it, else a verified download into the data folder.
data: $(VENV)/.demo
	@$(BIN)/patchword data get fashion-mnist --yes || true

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing patchword into $(VENV) (a minute or two)"
	@$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing patchword and its test tools into $(VENV) (a minute or two)"
	@$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@ $(VENV)/.demo

$(BIN)/pip:
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "on Debian: apt-get install python3-venv"; exit 1; }

clean:
	rm -rf $(VENV) build dist
