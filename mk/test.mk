# The tests: C units (TAP), then bats files. tests/run prints the closing line `N passed, N failed`.
BATS_FILES ?= $(sort $(wildcard tests/*.bats))
TESTS      := $(UNITS:%=$(BUILD)/unit/%) $(BATS_FILES)
RUN_TESTS   = BIN=$(abspath $(BIN)) BUILD=$(abspath $(BUILD)) tests/run

# On a fresh machine this is the only command needed: it installs, builds, fetches the small model (without a
# network: tests that need it are skipped and shown) and tests.
check: ## run every test; ends in "N passed, N failed"
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory model || echo "check: going on without the small model"
	@$(MAKE) --no-print-directory -j2 check-built

check-built: all $(UNITS:%=$(BUILD)/unit/%)
	@$(RUN_TESTS) $(TESTS)

check-unit: $(UNITS:%=$(BUILD)/unit/%) ## run the C unit tests only
	@$(RUN_TESTS) $(UNITS:%=$(BUILD)/unit/%)

SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
check-sanitize: ## the same under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory model || echo "check: going on without the small model"
	@ANYJEV_SANITIZE=1 $(MAKE) --no-print-directory -j2 BUILD=build/sanitize BIN=build/sanitize/bin SAN="$(SANITIZE)" OPT=-O1 CUDA=0 check-built
