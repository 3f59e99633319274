# anyjev-pipe: build, test, install and run the pipelines. `make help` lists the targets.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS   += --no-builtin-rules

VERSION := 0.1.0
PREFIX  ?= /usr/local
DESTDIR ?=

# BUILD and BIN let a second configuration (sanitizers, clang, aarch64) live beside the first.
BUILD ?= build
BIN   ?= bin

CC      ?= cc
ifeq ($(origin CC),default)
CC      := gcc
endif
OPT     ?= -O2
SAN     ?=
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
ifdef WERROR
WARN    += -Werror
endif

# Contraction is off everywhere: a fused multiply-add happens only where fma() is written.
DEPS_PKG := libpcre2-8 libzstd sqlite3 libcurl libcrypto libutf8proc
CPPFLAGS += -D_GNU_SOURCE -DANYJEV_VERSION='"$(VERSION)"' -Ilib -I$(BUILD)/gen
CFLAGS   += -std=c11 $(OPT) -g -ffp-contract=off -fno-strict-aliasing $(WARN) $(SAN)
LDFLAGS  += -Wl,--as-needed $(SAN)
LDLIBS   += -llapack -lblas -lpcre2-8 -lzstd -lsqlite3 -lcurl -lcrypto -lutf8proc -lpthread -lm -ldl

LIB_SRC   := $(sort $(wildcard lib/*/*.c))
LIB_OBJ   := $(LIB_SRC:%.c=$(BUILD)/%.o)
LIB       := $(BUILD)/libanyjev.a
PROGRAMS  := $(sort $(patsubst filters/%.c,%,$(wildcard filters/*.c)))
UNITS     := $(sort $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/*.c)))
MAN       := $(sort $(wildcard man/*.[157]))

.PHONY: bench bench-sweep fit promote all help check check-built check-unit check-sanitize setup model demo annotate clean install dist lint FORCE
all: $(PROGRAMS:%=$(BIN)/%) ## build every program into bin/ (the default)
	@$(CUDA_SAY)

help: ## list the targets
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/' | expand -t 20

# --- what the build needs -----------------------------------------------------------------------
# Checked once per build directory; a missing library is named with the command that brings it.
include mk/deps.mk

# --- objects ------------------------------------------------------------------------------------
# A file named *_avx2.c, *_avx512.c or *_neon.c is compiled for that instruction set, and only it.
isa_flags = $(if $(filter %_avx2,$1),-mavx2 -mfma -mf16c)$(if $(filter %_avx512,$1),-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c)

$(BUILD)/%.o: %.c $(BUILD)/deps.ok
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(call isa_flags,$*) -MMD -MP -c -o $@ $<

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

# The commit and the dirty flag go into one object, made again only when they change.
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DIRTY  := $(shell git diff --quiet HEAD -- 2>/dev/null && echo 0 || echo 1)
$(BUILD)/gen/commit.h: FORCE
	@mkdir -p $(@D)
	@printf '#define ANYJEV_COMMIT "%s"\n#define ANYJEV_DIRTY %s\n' '$(COMMIT)' '$(DIRTY)' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:
$(BUILD)/lib/base/version.o: $(BUILD)/gen/commit.h

$(BIN)/%: $(BUILD)/filters/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)

$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)

.PRECIOUS: $(BUILD)/%.o
-include $(LIB_OBJ:.o=.d) $(PROGRAMS:%=$(BUILD)/filters/%.d) $(UNITS:%=$(BUILD)/tests/unit/%.d)

include $(sort $(filter-out mk/deps.mk,$(wildcard mk/*.mk)))
