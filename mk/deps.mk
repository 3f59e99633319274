# What the build needs, by Debian package; `make setup` installs it, deps.ok proves that it is there.
APT_BUILD := gcc make pkg-config git libjsmn-dev libpcre2-dev libzstd-dev libsqlite3-dev \
             libcurl4-openssl-dev libssl-dev libutf8proc-dev liblapack-dev libblas-dev
APT_TEST  := g++ bats bats-assert bats-support curl jq zstd man-db mandoc shellcheck clang libclang-rt-14-dev python3-venv
APT_ALL   := $(APT_BUILD) $(APT_TEST) python3-pip

setup: ## install the Debian packages that the build and the tests need
	@missing=$$(for p in $(APT_ALL); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -z "$$missing" ]; then echo "setup: everything is installed"; exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; \
	else \
		echo "setup: not root; type this:" >&2; echo "  sudo apt-get install -y --no-install-recommends" $$missing >&2; exit 2; \
	fi

# pkg-config names the libraries it knows; jsmn and LAPACK are tried by the compiler.
$(BUILD)/deps.ok: mk/deps.mk
	@mkdir -p $(BUILD)
	@command -v $(CC) >/dev/null || { echo "build: no C compiler '$(CC)'; run: make setup" >&2; exit 2; }
	@command -v pkg-config >/dev/null || { echo "build: no pkg-config; run: make setup" >&2; exit 2; }
	@for p in $(DEPS_PKG); do pkg-config --exists $$p || { echo "build: library '$$p' is missing (its -dev package); run: make setup" >&2; exit 2; }; done
	@echo '#include <jsmn.h>' | $(CC) -E - >/dev/null 2>&1 || { echo "build: jsmn.h is missing (libjsmn-dev); run: make setup" >&2; exit 2; }
	@echo 'int main(void){return 0;}' | $(CC) -x c - -o $(BUILD)/deps.try -llapack -lblas 2>/dev/null || { echo "build: LAPACK is missing (liblapack-dev); run: make setup" >&2; exit 2; }
	@rm -f $(BUILD)/deps.try; touch $@
