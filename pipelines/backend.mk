# backend: how the recipes fill prompts. BACKEND=local reads the weights of MODEL on this host; fake answers from
# planted biases (FAKE holds more options of prefill-fake). A recipe includes this file and writes
#   @$(prefill) -o $@ $<
BACKEND ?= local
MODEL   ?=
THREADS ?=
FAKE    ?=

threads := $(if $(THREADS),--threads $(THREADS))

prefill_local = $(BIN)/prefill-local --model $(MODEL) $(threads)
prefill_fake  = $(BIN)/prefill-fake $(FAKE)
prefill = $(or $(prefill_$(BACKEND)),$(error unknown BACKEND '$(BACKEND)': expected local or fake))

# prompt-build reads the chat template and the tokenizer from the model where there is one; fake wraps prompts in no template.
prompt_model = $(if $(filter fake,$(BACKEND)),--template none,--model $(MODEL))
# What a recipe needs to be told before it starts.
need_model = $(if $(prefill),)$(if $(filter fake,$(BACKEND)),true,[ -n '$(strip $(MODEL))' ] || { echo "$1: name the model, as in MODEL=models/x.gguf" >&2; exit 2; })
