# The tests: C units (TAP), then bats files. tests/run prints the closing line `N passed, N failed`.
BATS_FILES ?= $(sort $(wildcard tests/*.bats))

check: all $(UNITS:%=$(BUILD)/unit/%) ## run every test; ends in "N passed, N failed"
	@BIN=$(abspath $(BIN)) BUILD=$(abspath $(BUILD)) tests/run $(UNITS:%=$(BUILD)/unit/%) $(BATS_FILES)

check-unit: $(UNITS:%=$(BUILD)/unit/%) ## run the C unit tests only
	@BIN=$(abspath $(BIN)) BUILD=$(abspath $(BUILD)) tests/run $(UNITS:%=$(BUILD)/unit/%)

SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
check-sanitize: ## the same under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory BUILD=build/sanitize BIN=build/sanitize/bin SAN="$(SANITIZE)" OPT=-O1 check
