# backend: how the recipes fill prompts. BACKEND=local reads the weights of MODEL on this host; gateway asks the server
# at URL for the model SERVED (MODEL is then the tokenizer and the chat template of that model, and optional: without it
# the server renders); composite takes the log-probabilities of the server and the hidden states of MODEL; fake answers from planted
# biases. DEVICE=cuda (or cuda:N) has local weights run on a GPU. FAKE and GATEWAY hold more options of prefill-fake and prefill-gateway. A recipe includes this file and writes
#   @$(prefill) -o $@ $<
# The server's answers stay in a journal beside the output: an interrupted run does not ask twice.
BACKEND ?= local
MODEL   ?=
THREADS ?=
DEVICE  ?=
FAKE    ?=
URL     ?=
SERVED  ?=
WORKERS ?=
GATEWAY ?=

threads := $(if $(THREADS),--threads $(THREADS))

prefill_local = $(BIN)/prefill-local --model $(MODEL) $(threads) $(if $(DEVICE),--device $(DEVICE))
prefill_fake  = $(BIN)/prefill-fake $(FAKE)
ask_server    = $(BIN)/prefill-gateway --url '$(URL)' $(if $(SERVED),--served-model '$(SERVED)') $(if $(MODEL),--tokenizer $(MODEL),--api chat) \
	$(if $(WORKERS),--workers $(WORKERS)) --journal $@.$(journal) $(GATEWAY)
prefill_gateway   = $(ask_server)
prefill_composite = fill() { $(ask_server) --only logprobs -- "$$3" | $(prefill_local) --only hidden -o "$$2"; }; fill
prefill = $(or $(prefill_$(BACKEND)),$(error unknown BACKEND '$(BACKEND)': expected local, gateway, composite or fake))

# prompt-build reads the chat template and the tokenizer from the model where there is one; fake wraps prompts in no
# template, and a gateway without a model has the server render.
prompt_model = $(if $(filter fake,$(BACKEND))$(if $(MODEL),,$(filter gateway,$(BACKEND))),--template none,--model $(MODEL))
# What was asked of the backend, for a recipe's settings; a journal belongs to one server, model and tokenizer.
served_by := $(filter gateway composite,$(BACKEND))
backend_said = $(strip $(BACKEND) $(if $(filter local composite,$(BACKEND)),$(filter-out cpu,$(DEVICE))) $(if $(served_by),$(URL) $(SERVED) $(GATEWAY),$(FAKE)))
journal := $(if $(served_by),journal-$(shell printf '%s\n' '$(URL) $(SERVED) $(MODEL) $(GATEWAY)' | cksum | cut -d' ' -f1))

# What a recipe needs to be told before it starts.
need_model = $(if $(prefill),)$(if $(filter fake,$(BACKEND)),true,$(if $(served_by),$(need_url)) $(if $(filter gateway,$(BACKEND)),true,$(need_weights)))
need_url = [ -n '$(strip $(URL))' ] || { echo "$1: name the server, as in URL=http://127.0.0.1:8000" >&2; exit 2; };
need_weights = [ -n '$(strip $(MODEL))' ] || { echo "$1: name the model, as in MODEL=models/x.gguf" >&2; exit 2; }

# What was learnt from labels. BUNDLES is where bundle-pack keeps it; BUNDLE names one bundle (or folder) outright. Level auto, L1
# and L2 take the version in service for MODEL (fake has its own).
BUNDLES   ?= bundles
BUNDLE    ?=
QUESTIONS ?= $(pipelines)/questions.json
bundle_store = --home $(BUNDLES) --model $(if $(filter fake,$(BACKEND)),fake,$(MODEL)) --questions $(QUESTIONS)
# Expanded in a recipe: the option, or an end with the reason why there is none.
learnt = $(if $(filter auto L1 L2,$(LEVEL)),--bundle $(or $(BUNDLE),"$$($(BIN)/bundle-pack current $(bundle_store))"))
