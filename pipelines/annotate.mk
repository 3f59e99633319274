# annotate: dataset cards to decisions, per column: annotate it or not, and by which aspect
#
#   make annotate CARDS='a.md b.md' MODEL=models/x.gguf LEVEL=L0 OUT=dir
#   anyjev-pipe annotate a.md b.md MODEL=... OUT=dir
#
# All cards go through each stage together, so that the model is loaded once per stage. Every file in OUT
# appears whole or not at all; interrupted and run again, make goes on where it was. Another set of cards,
# another model or level starts the stages anew that depend on it.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS   += --no-builtin-rules

pipelines := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
BIN   ?= $(pipelines)/../bin
LEVEL ?= L0
OUT   ?= out/annotate
CARDS ?=
include $(pipelines)/backend.mk

.PHONY: annotate FORCE
annotate: $(OUT)/decisions.jsonl $(OUT)/decisions.txt ## the decisions of CARDS, as records and as a table
	@cat $(OUT)/decisions.txt
	@echo "annotate: records in $(OUT)/decisions.jsonl, table in $(OUT)/decisions.txt" >&2

# What the run was asked for; its time stamp changes only when the text does.
$(OUT)/settings: FORCE
	@[ -n '$(strip $(CARDS))' ] || { echo "annotate: name the dataset cards, as in CARDS='a.md b.md'" >&2; exit 2; }
	@$(call need_model,annotate)
	@mkdir -p $(OUT)
	@printf '%s\n' 'cards: $(strip $(CARDS))' 'backend: $(backend_said)' 'model: $(MODEL)' 'level: $(LEVEL)' > $@.new
	@$(if $(learnt),bundle=$(if $(BUNDLE),'$(BUNDLE)',$$($(BIN)/bundle-pack current $(bundle_store))) || exit $$?; echo "bundle: $$bundle" >> $@.new)
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:

$(OUT)/cards.jsonl: $(CARDS) $(OUT)/settings
	@$(BIN)/card-parse -o $@ -- $(CARDS)

$(OUT)/annotate.prompts.jsonl: $(OUT)/cards.jsonl $(wildcard $(MODEL))
	@$(BIN)/prompt-build $(prompt_model) --level $(LEVEL) $(learnt) --question column.annotate -o $@ $<

# Only the columns that the first stage said Yes to.
$(OUT)/aspect.prompts.jsonl: $(OUT)/cards.jsonl $(OUT)/annotate.decisions.jsonl
	@$(BIN)/prompt-build $(prompt_model) --level $(LEVEL) $(learnt) --question column.aspect --where $(OUT)/annotate.decisions.jsonl -o $@ $<

$(OUT)/%.filled.jsonl: $(OUT)/%.prompts.jsonl
	@$(prefill) -o $@ $<

$(OUT)/%.decisions.jsonl: $(OUT)/%.filled.jsonl
	@$(BIN)/head-apply --level $(LEVEL) $(learnt) -o $@ $<

.SECONDARY:
$(OUT)/decisions.jsonl: $(OUT)/annotate.decisions.jsonl $(OUT)/aspect.decisions.jsonl
	@cat $^ > $@.part && mv $@.part $@

$(OUT)/decisions.txt: $(OUT)/annotate.filled.jsonl $(OUT)/aspect.filled.jsonl
	@$(BIN)/head-apply --level $(LEVEL) $(learnt) --format table -o $@ $^
