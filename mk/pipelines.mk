# The recipes: each pipeline is a makefile of its own under pipelines/, which also runs when installed.
# Variables given on the command line (CARDS, MODEL, LEVEL, OUT, ...) reach it by themselves.
MODEL ?= $(SMALL_MODEL)
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
