# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Verbs over CMake presets; `make help` lists them. Everything that matters is in CMakeLists.txt and CMakePresets.json:
# this file only saves typing and installs what a bare Debian lacks.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 60
JOBS ?= $(shell nproc)

# $(call build,preset[,cmake arguments]) - configures and builds; quiet but for progress and trouble.
build = cmake --preset $(1) --log-level=WARNING $(2) >/dev/null && cmake --build --preset $(1) --parallel $(JOBS)
# $(call ctest,preset[,ctest arguments])
ctest = ctest --preset $(1) --parallel $(JOBS) $(2)

.DEFAULT_GOAL := help
.PHONY: help deps demo test check fmt fuzz soak tsan bench install clean

help: ## List the verbs
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 14

deps: ## Install the Debian packages that building and testing need, or print the line that does
	@tools/dev/deps build

demo: deps ## Bring a fabric up, look at it, send through it, take it down
	@$(call build,release) --target demo
	@tools/dev/demo.sh build/release

test: deps ## Build the release preset and run every test
	@$(call build,release)
	@$(call ctest,release)

check: ## Layers and format, then the tests under debug and under ASan + UBSan
	@tools/dev/deps build check
	@tools/dev/layers
	@tools/dev/format
	@$(call build,debug)
	@$(call ctest,debug)
	@$(call build,asan-ubsan)
	@$(call ctest,asan-ubsan)

tsan: deps ## The tests under ThreadSanitizer
	@$(call build,tsan)
	@$(call ctest,tsan)

fuzz: ## Each fuzz target for FUZZ_SECONDS (60)
	@tools/dev/deps build fuzz
	@$(call build,fuzz,-DNVLF_FUZZ_SECONDS=$(FUZZ_SECONDS))
	@$(call ctest,fuzz)

soak: deps ## Random libfabric calls, kills and restarts under ASan + UBSan, for SOAK_SECONDS (60)
	@$(call build,asan-ubsan) --target soak
	@build/asan-ubsan/tests/soak/soak --seconds $(SOAK_SECONDS)

bench: deps ## The same work over nvlf, shm and tcp, as ratios; QUICK=1 for less than a minute
	@tools/dev/deps bench || echo "bench: goes on without Open MPI's rows"
	@$(call build,release) --target fabric_bench
	@build/release/tests/bench/fabric_bench $(if $(QUICK),--quick) --json build/bench.json

fmt: ## Format the C and C++ sources
	@tools/dev/deps check
	@tools/dev/format --fix

install: deps ## Install to DESTDIR/PREFIX (/usr/local)
	@$(call build,release,-DCMAKE_INSTALL_PREFIX=$(PREFIX)) --target programs
	@DESTDIR=$(DESTDIR) cmake --install build/release

clean: ## Remove everything that was built
	rm -rf build
