# bench: a labelled set and a model to results: how right, how calibrated, how stable under reordering, and whether any of it
# beats copying labels from other cards
#
#   make bench LABELS=labels.tsv MODEL=models/x.gguf LEVELS=raw,L0,L1,L2 OUT=dir
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
SEED      ?= 0
include $(pipelines)/backend.mk

comma   := ,
levels  := $(subst $(comma), ,$(LEVELS))
unknown := $(filter-out raw L0 L1 L2,$(levels))
# Levels L0 and L1 ask every permutation; the one as listed among them is all that raw needs.
ask     := $(if $(filter L0 L1,$(levels)),L0,raw)
plain   := $(filter raw L0,$(levels))
# What is learnt decides every card by a fit on the others, as the recipe fit does: one path, one pooling rule.
learnt_files := $(patsubst %,$(OUT)/%.held-out.jsonl,$(filter L1 L2,$(levels)))
HIDDEN  ?= $(if $(filter fake,$(BACKEND)),1$(comma)2$(comma)3,fit)
cards   := $(if $(strip $(CARDS)),$(OUT)/cards.jsonl)

.PHONY: bench FORCE
bench: $(OUT)/results.json $(OUT)/results.md ## the figures of LEVELS on LABELS, as a record, a report and plots
	@cat $(OUT)/results.md
	@echo "bench: results in $(OUT)/results.json and $(OUT)/results.md, plots in $(OUT)/*.svg" >&2

$(OUT)/settings: FORCE
	@[ -n '$(strip $(LABELS))' ] || { echo "bench: name the labels, as in LABELS=labels.tsv" >&2; exit 2; }
	@[ -z '$(unknown)' ] || { echo "bench: unknown level '$(unknown)' in LEVELS: expected raw, L0, L1 and L2, separated by commas" >&2; exit 2; }
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
	@for l in $(plain); do $(BIN)/head-apply --level $$l $<; done > $@.part
	@mv $@.part $@

$(OUT)/L2.prompts.jsonl: $(OUT)/items.jsonl $(wildcard $(MODEL))
	@$(BIN)/prompt-build $(prompt_model) --questions $(QUESTIONS) --level L2 --hidden $(HIDDEN) --random-order --seed $(SEED) -o $@ $<

# Folds that are skipped are listed in the results.
held_out = $(BIN)/head-fit --level $1 --leave-one-out card --seed $(SEED) $(threads) -o $@ $< 2> $(OUT)/$1.skipped || { rc=$$?; cat $(OUT)/$1.skipped >&2; exit $$rc; }

$(OUT)/L1.held-out.jsonl: $(OUT)/as-listed.filled.jsonl
	@$(call held_out,L1)

$(OUT)/L2.held-out.jsonl: $(OUT)/L2.filled.jsonl
	@$(call held_out,L2)

$(OUT)/all.decisions.jsonl: $(OUT)/as-listed.decisions.jsonl $(learnt_files)
	@cat $^ > $@.part
	@mv $@.part $@

# What the figures depend on, and what they took.
$(OUT)/environment.json: $(OUT)/as-listed.filled.jsonl $(OUT)/reversed.filled.jsonl $(learnt_files)
	@bash $(pipelines)/environment.sh $(BIN) $(OUT) $(QUESTIONS) '$(BACKEND)' '$(LEVELS)' $(SEED) $(LABELS) > $@.part
	@mv $@.part $@

score = $(BIN)/score --seed $(SEED) --reversed $(OUT)/reversed.decisions.jsonl --environment $(OUT)/environment.json $(if $(THREADS),--threads $(THREADS))
results_need := $(OUT)/all.decisions.jsonl $(OUT)/reversed.decisions.jsonl $(OUT)/environment.json

$(OUT)/results.json: $(results_need)
	@$(score) --plot $(OUT) -o $@ $<

$(OUT)/results.md: $(results_need)
	@$(score) --format md -o $@ $< 2>/dev/null
