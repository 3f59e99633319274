# Real servers for the tests: llama.cpp's, by its Python binding, and LiteLLM's proxy in front of it, in a virtual
# environment of their own. The binding is compiled from source, once (minutes); a new lock file starts anew.
PEERS      := .venv-peers
PEERS_LOCK := tests/peers/requirements.lock
# The same instructions on every machine of the last ten years: nothing is asked of the processor at hand, some of whose
# units (AMX) a virtual machine may name and not run.
PEERS_CMAKE := -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_CURL=OFF
PEERS_MODEL := $(PEERS)/SmolLM2-135M-Instruct.f16.gguf

.PHONY: setup-peers check-peers
setup-peers: $(PEERS)/lock $(PEERS_MODEL) ## make the virtual environment of the servers that check-peers talks to

$(PEERS)/lock: $(PEERS_LOCK)
	@command -v g++ >/dev/null || { echo "setup-peers: no C++ compiler; type: apt-get install -y g++" >&2; exit 2; }
	@rm -rf $(PEERS)
	@python3 -m venv $(PEERS)
	@echo "setup-peers: installing $$(wc -l < $(PEERS_LOCK)) packages, and compiling llama.cpp (minutes)"
	@CMAKE_BUILD_PARALLEL_LEVEL=$$(nproc) CMAKE_ARGS='$(PEERS_CMAKE)' $(PEERS)/bin/python -m pip install -q --disable-pip-version-check -r $(PEERS_LOCK) \
		|| { echo "setup-peers: pip failed" >&2; exit 5; }
	@cp $(PEERS_LOCK) $@

# llama.cpp multiplies 4-bit weights with inputs that it rounds to 8 bits, which moves log-probabilities by a quarter; the same
# weights as 16-bit floats are multiplied nearly exactly. Its own quantiser writes them.
$(PEERS_MODEL): $(PEERS)/lock $(SMALL_MODEL) tests/peers/to_f16.py
	@$(PEERS)/bin/python tests/peers/to_f16.py $(SMALL_MODEL) $@.part 2>/dev/null || { echo "setup-peers: cannot convert $(SMALL_MODEL)" >&2; exit 3; }
	@mv $@.part $@

check-peers: all setup-peers ## compare with the numbers of a real llama.cpp server and LiteLLM proxy
	@PEERS=$(abspath $(PEERS)) PEERS_MODEL=$(abspath $(PEERS_MODEL)) $(RUN_TESTS) tests/peers/peers.bats
