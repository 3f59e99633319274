# The kernels' digest by two compilers, at two levels, and for aarch64 under qemu: one and the same.
.PHONY: check-bits
BITS_SRC := $(wildcard lib/kernel/*.c) lib/base/mem.c lib/base/err.c tests/unit/kernel_digest.c
BITS_VARIANTS := gcc-O1 gcc-O3 clang-O1 clang-O3 aarch64-linux-gnu-gcc-O2
AARCH64_ROOT ?= /usr/aarch64-linux-gnu

$(BUILD)/bits/%: $(BITS_SRC) $(wildcard lib/kernel/*.h)
	@mkdir -p $@.d
	@cc=$*; level=$${cc##*-}; cc=$${cc%-*}; \
	for f in $(BITS_SRC); do \
		case $$cc-$$f in \
		aarch64*) isa= ;; \
		*_avx2.c) isa="$(call isa_flags,x_avx2)" ;; \
		*_avx512.c) isa="$(call isa_flags,x_avx512)" ;; \
		*) isa= ;; esac; \
		$$cc $(CPPFLAGS) -Itests/unit -std=c11 -$$level -ffp-contract=off $(WARN) -Werror $$isa -c -o $@.d/$$(basename $$f .c).o $$f || exit 1; \
	done; $$cc -o $@ $@.d/*.o -lpthread -lm

check-bits: $(BITS_VARIANTS:%=$(BUILD)/bits/%) ## the kernels' digest by gcc, clang, -O1, -O3 and aarch64 (qemu): all equal
	@for v in $(BITS_VARIANTS); do \
		case $$v in aarch64*) run="qemu-aarch64 -L $(AARCH64_ROOT)" ;; *) run= ;; esac; \
		$$run $(BUILD)/bits/$$v | sed -n "s/^# /$$v /p"; \
	done | tee $(BUILD)/bits/digests
	@test "$$(awk '{print $$NF}' $(BUILD)/bits/digests | sort -u | wc -l)" = 1 || { echo "check-bits: digests differ" >&2; exit 1; }
	@test "$$(cut -d' ' -f1 $(BUILD)/bits/digests | sort -u | wc -l)" = $(words $(BITS_VARIANTS)) || { echo "check-bits: a variant did not run" >&2; exit 1; }
