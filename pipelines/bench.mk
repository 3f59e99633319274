# bench: a labelled set and a model to results: how right, how calibrated, how stable under reordering, and whether any of it
# beats copying labels from other cards
#
#   make bench LABELS=labels.tsv MODEL=models/x.gguf LEVELS=raw,L0 OUT=dir
#   anyjev-pipe bench LABELS=labels.tsv MODEL=... OUT=dir
#
# LABELS: files that label-ingest reads. CARDS: the cards they are about (default: cards/*.md beside the first label file).
# Every file in OUT appears whole or not at all; interrupted and run again, make goes on where it was.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS   += --no-builtin-rules

pipelines := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
BIN       ?= $(pipelines)/../bin
LABELS    ?=
CARDS     ?= $(wildcard $(dir $(firstword $(LABELS)))cards/*.md)
LEVELS    ?= raw,L0
OUT       ?= out/bench
QUESTIONS ?= $(pipelines)/questions.json
SEED      ?= 0
include $(pipelines)/backend.mk

comma  := ,
levels := $(subst $(comma), ,$(LEVELS))
unknown := $(filter-out raw L0,$(levels))
# Level L0 asks every permutation; the one as listed among them is all that raw needs.
ask    := $(if $(filter L0,$(levels)),L0,raw)
cards  := $(if $(strip $(CARDS)),$(OUT)/cards.jsonl)

.PHONY: bench FORCE
bench: $(OUT)/results.json $(OUT)/results.md ## the figures of LEVELS on LABELS, as a record, a report and plots
	@cat $(OUT)/results.md
	@echo "bench: results in $(OUT)/results.json and $(OUT)/results.md, plots in $(OUT)/*.svg" >&2

$(OUT)/settings: FORCE
	@[ -n '$(strip $(LABELS))' ] || { echo "bench: name the labels, as in LABELS=labels.tsv" >&2; exit 2; }
	@[ -z '$(unknown)' ] || { echo "bench: unknown level '$(unknown)' in LEVELS: expected raw and L0, separated by commas" >&2; exit 2; }
	@$(call need_model,bench)
	@mkdir -p $(OUT)
	@printf '%s\n' 'labels: $(strip $(LABELS))' 'cards: $(strip $(CARDS))' 'backend: $(backend_said)' 'model: $(MODEL)' 'levels: $(LEVELS)' 'questions: $(QUESTIONS)' 'seed: $(SEED)' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:

$(OUT)/cards.jsonl: $(CARDS) $(OUT)/settings
	@$(BIN)/card-parse -o $@ -- $(CARDS)

$(OUT)/items.jsonl: $(LABELS) $(QUESTIONS) $(cards) $(OUT)/settings
	@$(BIN)/label-ingest --questions $(QUESTIONS) $(cards:%=--cards %) -o $@ -- $(LABELS)

$(OUT)/as-listed.prompts.jsonl: $(OUT)/items.jsonl $(wildcard $(MODEL))
	@$(BIN)/prompt-build $(prompt_model) --questions $(QUESTIONS) --level $(ask) -o $@ $<

$(OUT)/reversed.prompts.jsonl: $(OUT)/items.jsonl $(wildcard $(MODEL))
	@$(BIN)/prompt-build $(prompt_model) --questions $(QUESTIONS) --level $(ask) --reverse-order -o $@ $<

$(OUT)/%.filled.jsonl: $(OUT)/%.prompts.jsonl
	@start=$$(date +%s%N); $(prefill) -o $@ $<; echo $$(( ($$(date +%s%N) - start) / 1000000 )) > $(OUT)/$*.ms

.SECONDARY:
$(OUT)/as-listed.decisions.jsonl $(OUT)/reversed.decisions.jsonl: $(OUT)/%.decisions.jsonl: $(OUT)/%.filled.jsonl
	@for l in $(levels); do $(BIN)/head-apply --level $$l $<; done > $@.part
	@mv $@.part $@

# What the figures depend on, and what they took.
$(OUT)/environment.json: $(OUT)/as-listed.filled.jsonl $(OUT)/reversed.filled.jsonl
	@$(pipelines)/environment.sh $(BIN) $(OUT) $(QUESTIONS) '$(BACKEND)' '$(LEVELS)' $(SEED) $(LABELS) > $@.part
	@mv $@.part $@

score = $(BIN)/score --seed $(SEED) --reversed $(OUT)/reversed.decisions.jsonl --environment $(OUT)/environment.json $(if $(THREADS),--threads $(THREADS))
results_need := $(OUT)/as-listed.decisions.jsonl $(OUT)/reversed.decisions.jsonl $(OUT)/environment.json

$(OUT)/results.json: $(results_need)
	@$(score) --plot $(OUT) -o $@ $<

$(OUT)/results.md: $(results_need)
	@$(score) --format md -o $@ $< 2>/dev/null
