# Speed of prefill-local against llama.cpp (llama-cpp-python, compiled for this processor's vector units once) on the same files.
BENCH_VENV := .venv-bench
BENCH_LOCK := bench/speed.lock
# Named, not GGML_NATIVE: some virtual machines name units (AMX) that they do not run.
BENCH_CMAKE := -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON \
	$(if $(shell grep -m1 -o avx512_vnni /proc/cpuinfo),-DGGML_AVX512=ON -DGGML_AVX512_VNNI=ON) \
	-DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_CURL=OFF

.PHONY: bench-speed
$(BENCH_VENV)/lock: $(BENCH_LOCK)
	@command -v g++ >/dev/null || { echo "bench-speed: no C++ compiler; type: apt-get install -y g++" >&2; exit 2; }
	@rm -rf $(BENCH_VENV)
	@python3 -m venv $(BENCH_VENV)
	@echo "bench-speed: installing $$(wc -l < $(BENCH_LOCK)) packages, and compiling llama.cpp (minutes)"
	@CMAKE_BUILD_PARALLEL_LEVEL=$$(nproc) CMAKE_ARGS='$(BENCH_CMAKE)' $(BENCH_VENV)/bin/python -m pip install -q --disable-pip-version-check \
		--no-cache-dir -r $(BENCH_LOCK) || { echo "bench-speed: pip failed" >&2; exit 5; }
	@cp $(BENCH_LOCK) $@

bench-speed: all $(SMALL_MODEL) $(BENCH_VENV)/lock ## prefill against llama.cpp, same weights, prompts and threads: JSON and a Markdown table in out/bench-speed
	@$(BENCH_VENV)/bin/python bench/speed.py --bin $(abspath $(BIN)) --model $(abspath $(SMALL_MODEL)) --work $(BENCH_VENV)/models --out out/bench-speed
