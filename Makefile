# SPDX-License-Identifier: Apache-2.0
# The verbs of scripts/, for those who type make. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup bpf lint fix test unit kernel coverage fuzz goldens build clean

help: ## say what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 10

setup: ## install what a developer needs, make .venv, build the kernel programs
	scripts/setup

bpf: ## build the kernel programs for x86-64 and arm64
	$(MAKE) -C bpf

lint: ## check style and types
	scripts/lint

fix: ## repair style where that can be done by machine
	scripts/lint --fix

test: ## style, types and all tests (as root: the kernel tests too)
	scripts/test

unit: ## only the fast tests that need no rights
	scripts/test tests/unit

kernel: ## only the tests that load kernel programs (as root)
	scripts/test -m kernel

coverage: ## which lines the tests without kernel programs reach
	scripts/coverage

fuzz: ## long run of the parsers' property tests
	scripts/fuzz

goldens: ## rewrite the expected outputs
	scripts/update-goldens

build: ## sdist and wheel into dist/
	scripts/build

clean: ## remove what was built; .venv stays
	$(MAKE) -C bpf clean
	rm -rf dist build
