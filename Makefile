# `make demo` and `make test` do all of their own set-up on a fresh Debian machine.
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
CTEST_FLAGS ?=

.PHONY: help setup build configure everything demo test fast wheel bench lint lint-all fmt clean \
  test-integrations test-wheel test-debian13 nightly

help:  ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | \
	  expand -t 18

setup:  ## Install the Debian packages needed (root or sudo)
	@scripts/setup

build: configure  ## The command and the library in release mode; leaves build/maru
	cmake --build --preset release -j $(JOBS) --target maru maru_shared
	@for name in maru maru-server maru-resource-manager; do ln -sf release/$$name build/$$name; done

configure: setup
	@mkdir -p build; cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }

# Tests, benchmarks and all else as well, with the Python packages.
everything: build
	@scripts/python-env
	@cmake --preset release -DMARU_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/build/venv/bin/python \
	  >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	cmake --build --preset release -j $(JOBS)

demo: build  ## Two instances share a KV cache between processes, on this machine
	build/maru demo

test: everything  ## All tests and models, in release mode
	ctest --preset all -j $(JOBS) $(CTEST_FLAGS)

fast: setup  ## Unit tests in debug mode, the quickest check while editing
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS)
	ctest --preset fast -j $(JOBS) $(CTEST_FLAGS)

wheel: setup  ## The Python packages and the commands; leaves dist/maru-*.whl
	scripts/wheel

# LMCache and SGLang have an environment each; the tests of one are not collected in the other's.
INTEGRATION = PYTHONPATH=$(CURDIR)/build/release/python/packages:$(CURDIR)/tests \
  MARU_PROGRAM=$(CURDIR)/build/maru PYTHONDONTWRITEBYTECODE=1
PYTEST = -m pytest -q -p no:cacheprovider -o addopts=

test-integrations: everything  ## LMCache and SGLang themselves on it (2 GB of packages each)
	@scripts/python-env lmcache
	@scripts/python-env sglang
	$(INTEGRATION) build/venv-lmcache/bin/python $(PYTEST) python/tests/integrations \
	  python/tests/tensors_test.py python/tests/examples_test.py $(PYTEST_FLAGS)
	$(INTEGRATION) build/venv-sglang/bin/python $(PYTEST) python/tests/integrations \
	  $(PYTEST_FLAGS_SGLANG)

# Numbers of keys for which there is no memory are left out.
BENCH_KEYS ?= 1k,1M,10M

bench: everything  ## Every operation beside the machine's limits, and the layers alone
	build/maru bench --keys $(BENCH_KEYS)
	build/release/bench/catalogue_bench --keys=1000000
	build/release/bench/codec_bench
	build/release/bench/writer_bench --keys=1000000
	build/release/bench/engine_bench --keys=1000000
	build/release/bench/engine_memory_bench --keys=1000000
	build/release/bench/steps_bench --keys=1000000
	build/release/bench/upstream_bench --server=build/maru --keys=1000000
	PYTHONPATH=build/release/python/packages PYTHONDONTWRITEBYTECODE=1 \
	  build/venv/bin/python bench/python_bench.py build/maru --keys=1M

lint:  ## Format, sizes, layers; clang-tidy on files changed since their last clean result
	@scripts/setup --checks
	scripts/lint

lint-all:  ## The same, clang-tidy and clang's analyzer on every file but tests
	@scripts/setup --checks
	scripts/lint --all

fmt:  ## Format all C++ files in place
	@scripts/setup --checks
	scripts/lint --fix-format

clean:  ## Remove everything that was built
	rm -rf --one-file-system build dist

test-wheel: wheel  ## The wheel in a bare Debian 12 (root), the sdist, an editable install
	scripts/test-wheel
	scripts/test-sources

test-debian13:  ## `make test` and `make demo` of this commit in a fresh Debian 13 (root)
	scripts/debian13

nightly: everything  ## Long tests: big models, long simulations
	ctest --preset nightly -j $(JOBS) $(CTEST_FLAGS)
