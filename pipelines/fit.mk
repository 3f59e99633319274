# fit: labels to a bundle: a temperature (L1) or a head on a hidden state (L2) for one question, with held-out figures
#
#   make fit QUESTION=column.annotate LEVEL=L2 LABELS=labels.tsv MODEL=models/x.gguf OUT=dir
#   make promote MODEL=models/x.gguf
#
# LABELS and CARDS as for bench. The new version lies under BUNDLES (default: bundles); promote puts the newest into service if
# it is no worse than the one that is. RISK=0.05 asks for a certificate, CALIBRATE=auto for more than a temperature.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS   += --no-builtin-rules

pipelines := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
BIN       ?= $(pipelines)/../bin
LABELS    ?=
CARDS     ?= $(wildcard $(dir $(firstword $(LABELS)))cards/*.md)
QUESTION  ?=
LEVEL     ?= L2
OUT       ?= out/fit
SEED      ?= 0
RISK      ?= 0
DELTA     ?= 0.1
CALIBRATE ?= temperature
include $(pipelines)/backend.mk

# At which blocks a head is looked for; the fake backend has no depth of its own.
HIDDEN ?= $(if $(filter fake,$(BACKEND)),1$(comma)2$(comma)3,fit)
comma  := ,
ask    := $(if $(filter L2,$(LEVEL)),--level L2 --hidden $(HIDDEN) --random-order --seed $(SEED),--level L1)
cards  := $(if $(strip $(CARDS)),$(OUT)/cards.jsonl)

.PHONY: fit promote FORCE
fit: $(OUT)/bundle ## a new version under BUNDLES, and what it is worth
	@[ ! -e $(OUT)/results.md ] || cat $(OUT)/results.md
	@[ ! -s $(OUT)/skipped.txt ] || cat $(OUT)/skipped.txt >&2
	@echo "fit: $$(cat $(OUT)/bundle); make promote puts it into service" >&2

promote: ## put the newest version for MODEL into service, if it is no worse
	@$(call need_model,promote)
	@$(BIN)/bundle-pack promote $(bundle_store)

$(OUT)/settings: FORCE
	@[ -n '$(strip $(LABELS))' ] || { echo "fit: name the labels, as in LABELS=labels.tsv" >&2; exit 2; }
	@[ -n '$(strip $(QUESTION))' ] || { echo "fit: name the question, as in QUESTION=column.annotate" >&2; exit 2; }
	@case '$(LEVEL)' in L1 | L2) ;; *) echo "fit: unknown LEVEL '$(LEVEL)': expected L1 or L2" >&2; exit 2 ;; esac
	@$(call need_model,fit)
	@mkdir -p $(OUT)
	@printf '%s\n' 'labels: $(strip $(LABELS))' 'cards: $(strip $(CARDS))' 'question: $(QUESTION)' 'level: $(LEVEL)' 'backend: $(backend_said)' 'model: $(MODEL)' \
		'questions: $(QUESTIONS)' 'seed: $(SEED)' 'risk: $(RISK) $(DELTA)' 'calibrate: $(CALIBRATE)' 'hidden: $(HIDDEN)' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:

$(OUT)/cards.jsonl: $(CARDS) $(OUT)/settings
	@$(BIN)/card-parse -o $@ -- $(CARDS)

$(OUT)/items.jsonl: $(LABELS) $(QUESTIONS) $(cards) $(OUT)/settings
	@$(BIN)/label-ingest --questions $(QUESTIONS) --only $(QUESTION) $(cards:%=--cards %) -o $@ -- $(LABELS)
	@[ -s $@ ] || { echo "fit: no label of question $(QUESTION) in $(LABELS)" >&2; exit 3; }

$(OUT)/prompts.jsonl: $(OUT)/items.jsonl $(wildcard $(MODEL))
	@$(BIN)/prompt-build $(prompt_model) --questions $(QUESTIONS) $(ask) -o $@ $<

$(OUT)/filled.jsonl: $(OUT)/prompts.jsonl
	@$(prefill) -o $@ $<

# The artifact's name appears last: it stands for both files.
.SECONDARY:
$(OUT)/head.jsonl: $(OUT)/filled.jsonl
	@$(BIN)/head-fit --level $(LEVEL) --leave-one-out card --artifact $@ --seed $(SEED) --calibrate $(CALIBRATE) --risk $(RISK) --delta $(DELTA) $(threads) \
		-o $(OUT)/held-out.jsonl $< 2> $(OUT)/skipped.txt || { rc=$$?; cat $(OUT)/skipped.txt >&2; exit $$rc; }

$(OUT)/bundle: $(OUT)/head.jsonl
	@rm -f $(OUT)/results.json $(OUT)/results.md
	@if [ -s $(OUT)/held-out.jsonl ]; then \
		printf '{"lock_sha":"%s"}\n' "$$(sed -nE 's/.*"lock_sha": *"([0-9a-f]+)".*/\1/p' $(QUESTIONS:.json=.lock.json) | head -n 1)" > $(OUT)/environment.json; \
		$(BIN)/score --environment $(OUT)/environment.json --plot $(OUT) -o $(OUT)/results.json $(OUT)/held-out.jsonl 2>/dev/null; \
		$(BIN)/score --environment $(OUT)/environment.json --format md -o $(OUT)/results.md $(OUT)/held-out.jsonl 2>/dev/null; \
		$(BIN)/bundle-pack create $(bundle_store) --results $(OUT)/results.json -o $@ $<; \
	else \
		echo "fit: every fold was skipped: there are no held-out figures" >&2; \
		$(BIN)/bundle-pack create $(bundle_store) -o $@ $<; \
	fi
