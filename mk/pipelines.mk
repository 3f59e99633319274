# The recipes: each pipeline is a makefile of its own under pipelines/, which also runs when installed.
# Variables given on the command line (CARDS, MODEL, LEVEL, OUT, ...) reach it by themselves.
# A server's model is not known here.
MODEL ?= $(if $(filter gateway,$(BACKEND)),,$(SMALL_MODEL))
EXAMPLE_CARD := $(firstword $(wildcard pipelines/examples/*.md))

run_pipeline = $(MAKE) --no-print-directory -f pipelines/$1.mk BIN=$(abspath $(BIN)) MODEL='$(MODEL)'

annotate: all $(if $(filter $(SMALL_MODEL),$(MODEL)),$(SMALL_MODEL)) ## annotate CARDS='a.md b.md' [MODEL=... LEVEL=L0 OUT=dir]
	@$(call run_pipeline,annotate) annotate

# One command on a fresh machine: packages, build, model, the example card.
demo: ## install what is needed, build, fetch the small model, annotate the example card
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory -j2 all
	@$(MAKE) --no-print-directory model
	@$(MAKE) --no-print-directory annotate CARDS='$(EXAMPLE_CARD)' MODEL='$(SMALL_MODEL)' OUT=out/demo LEVEL=L0

bench: all $(if $(filter $(SMALL_MODEL),$(MODEL)),$(SMALL_MODEL)) ## measure LABELS=labels.tsv [MODEL=... LEVELS=raw,L0 OUT=dir]
	@$(call run_pipeline,bench) bench

# A grid of models: each in a folder of its own under OUT; `make -j2 bench-sweep` runs two at a time.
MODELS ?= $(MODEL)
SWEEP_OUT = $(or $(OUT),out/sweep)
sweep_results := $(foreach m,$(MODELS),$(SWEEP_OUT)/$(notdir $(m))/results.json)

bench-sweep: $(SWEEP_OUT)/results.md ## measure LABELS on MODELS='a b' and put the figures into one table
	@cat $<

$(SWEEP_OUT)/%/results.json: all FORCE
	@$(MAKE) --no-print-directory -f pipelines/bench.mk BIN=$(abspath $(BIN)) MODEL='$(firstword $(foreach m,$(MODELS),$(if $(filter $*,$(notdir $(m))),$(m))))' OUT=$(SWEEP_OUT)/$* bench >/dev/null

$(SWEEP_OUT)/results.md: $(sweep_results)
	@$(BIN)/score --merge --format json -o $(SWEEP_OUT)/results.json $^
	@$(BIN)/score --merge --format md -o $@ $^

fit: all $(if $(filter $(SMALL_MODEL),$(MODEL)),$(SMALL_MODEL)) ## learn QUESTION=... from LABELS=labels.tsv [MODEL=... LEVEL=L2 OUT=dir]
	@$(call run_pipeline,fit) fit

promote: all ## put what was fitted last for MODEL into service, if it is no worse
	@$(call run_pipeline,fit) promote
