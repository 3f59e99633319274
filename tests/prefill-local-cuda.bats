#!/usr/bin/env bats
# prefill-local --device cuda, on the emulation: the shared object's own driver code and kernels, compiled for the host.
load helper

EMU=${BUILD:-$ROOT/build}/libanyjev_cuda_emu.so

setup() { [ -e "$EMU" ] || skip "needs the emulation (make $EMU)"; }

prompts() { # N: items with a shared state, as prompts for the tiny models; hidden states of all blocks too
    for i in $(seq "$1"); do
        printf '{"type":"item","id":"i%d","question":{"kind":"choice","text":"Which?","options":["ab","cd","ef"]},"state":{"n":%d,"text":"the column of a dataset"}}\n' "$i" "$i"
    done | prompt-build --template chatml | sed 's/"need":{[^}]*}/"need":{"logprobs":true,"hidden":[0,1,2,3]}/'
}
# The emulation changes fibers often, which the address sanitizer makes slow; the kernels themselves are checked under it in unit/cuda_kernels.
not_sanitized() { [ -z "${ANYJEV_SANITIZE:-}" ] || skip "too slow under the sanitizers"; }
cuda() { ANYJEV_CUDA_LIB=$EMU prefill-local --device cuda "$@"; }
numbers() { jq -S -c 'del(.n_reused)' | sort; }

@test "every tiny model: float32 within 1e-4 of the CPU, bfloat16 within what rounding the factors to 8 bits costs" {
    names="llama llama-linear llama-yarn mistral qwen2 qwen3"
    prompts 2 >"$TMP/p"
    if [ -n "${ANYJEV_SANITIZE:-}" ]; then
        names=qwen3
        sed -i 2q "$TMP/p"
    fi
    for name in $names; do
        m=$GOLDEN/models/$name-bf16
        prefill-local -m "$m" "$TMP/p" >"$TMP/cpu"
        cuda -m "$m" --compute f32 "$TMP/p" >"$TMP/f32"
        cuda -m "$m" "$TMP/p" >"$TMP/bf16"
        f32=$(python3 "$ROOT/tests/compare_filled.py" "$TMP/cpu" "$TMP/f32" logprob=1e-4 hidden=1e-4) || fail "$name: $f32"
        bf16=$(python3 "$ROOT/tests/compare_filled.py" "$TMP/cpu" "$TMP/bf16" logprob=0.2 logprob_rms=0.08 hidden=0.04 hidden_mean=0.015) || fail "$name: $bf16"
        echo "# $name: $f32 $bf16" >&3
        [[ "$f32" == *'"cuda-f32"'* && "$bf16" == *'"cuda-bf16"'* ]]
        # What is no number is as on the CPU.
        cmp <(jq -c 'del(.logprobs, .answer_mass, .hidden, .model.compute)' "$TMP/cpu") <(jq -c 'del(.logprobs, .answer_mass, .hidden, .model.compute)' "$TMP/bf16")
    done
}

@test "alone, in company, shuffled, in small batches: the same bytes, on tensor cores and off" {
    not_sanitized
    prompts 4 >"$TMP/p"
    for name in mistral qwen3; do
        m=$GOLDEN/models/$name-bf16
        cuda -m "$m" "$TMP/p" | numbers >"$TMP/all"
        for i in 1 8; do
            sed -n "${i}p" "$TMP/p" | cuda -m "$m" | numbers >"$TMP/one"
            grep -qxF -f "$TMP/one" "$TMP/all" || fail "$name: prompt $i alone differs"
        done
        tac "$TMP/p" | cuda -m "$m" --batch-tokens 150 | numbers | cmp - "$TMP/all" || fail "$name: small batches differ"
    done
}

@test "early exit: prompts that need fewer blocks leave, the others do not notice" {
    not_sanitized
    m=$GOLDEN/models/mistral-bf16
    prompts 3 >"$TMP/p"
    cuda -m "$m" "$TMP/p" | jq -c '.hidden' >"$TMP/all"
    # the even ones stop after block 1, one after none
    awk 'NR == 3 {sub(/"need":[{][^}]*[}]/, "\"need\":{\"hidden\":[0]}")} NR % 2 == 0 {sub(/"need":[{][^}]*[}]/, "\"need\":{\"hidden\":[1]}")} {print}' "$TMP/p" >"$TMP/q"
    cuda -m "$m" "$TMP/q" >"$TMP/some"
    assert_equal "$(jq -c '.blocks' "$TMP/some" | tr '\n' ' ')" "3 1 0 1 3 1 3 1 3 "
    for i in $(seq 9); do
        a=$(sed -n "${i}p" "$TMP/some" | jq -c '.hidden')
        b=$(sed -n "${i}p" "$TMP/all" | jq -c --argjson some "$a" 'with_entries(select(.key as $k | $some | has($k)))')
        assert_equal "$a" "$b"
    done
}

@test "a GGUF with quantised weights and paired rotation: as on the CPU" {
    need_model
    not_sanitized
    printf '{"type":"prompt","id":"1","prefix":"The capital of France is","suffix":"","labels":["A"," Paris"]}\n' >"$TMP/p"
    prefill-local -m "$MODEL" "$TMP/p" >"$TMP/cpu"
    cuda -m "$MODEL" --compute f32 --batch-tokens 64 "$TMP/p" >"$TMP/gpu"
    out=$(python3 "$ROOT/tests/compare_filled.py" "$TMP/cpu" "$TMP/gpu" logprob=1e-3) || fail "$out"
}

@test "a device that is too small is refused before anything runs (4), with the figures and the option that helps" {
    not_sanitized
    m=$GOLDEN/models/qwen3-bf16
    prompts 1 >"$TMP/p"
    ANYJEV_EMULATED_MEMORY=1000000 run --separate-stderr cuda -m "$m" "$TMP/p"
    assert_failure 4
    assert_output ""
    [[ "$stderr" =~ "prefill-local: --device cuda: not enough memory on the device: 0."[0-9]+" GB for weights and 0."[0-9]+" GB for a batch of "[0-9]+" tokens, 0.001 GB are free: 0."[0-9]+" GB are missing; --batch-tokens "([0-9]+)" fits" ]] || fail "$stderr"
    ANYJEV_EMULATED_MEMORY=1000000 run --separate-stderr cuda -m "$m" --batch-tokens "${BASH_REMATCH[1]}" "$TMP/p"
    assert_success
    ANYJEV_EMULATED_MEMORY=10000 run --separate-stderr cuda -m "$m" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"no option makes this model fit"* ]] || fail "$stderr"
    # One prompt that is longer than the batch: its room is looked for before the first batch runs.
    printf '{"type":"prompt","id":"long","prefix":"%s","suffix":"","labels":["A"]}\n' "$(head -c 500 /dev/zero | tr '\0' q)" >"$TMP/long"
    ANYJEV_EMULATED_MEMORY=500000 run --separate-stderr cuda -m "$m" --batch-tokens 48 "$TMP/p" "$TMP/long"
    assert_failure 4
    assert_output ""
    [[ "$stderr" == *"GB are missing"* ]] || fail "$stderr"
}

@test "a device number that does not exist (4), a device that is none, bf16 on the CPU (2)" {
    m=$GOLDEN/models/qwen3-bf16
    ANYJEV_CUDA_LIB=$EMU run --separate-stderr prefill-local -m "$m" --device cuda:1 /dev/null
    assert_failure 4
    [[ "$stderr" == *"device 1 does not exist: this host has 1"* ]] || fail "$stderr"
    for d in gpu cuda: cuda:x cuda:-1 cuda:99999 cudax; do
        run --separate-stderr prefill-local -m "$m" --device "$d" /dev/null
        assert_failure 2
        [[ "$stderr" == *"'$d' is none of cpu, cuda, cuda:N"* ]] || fail "$stderr"
    done
    run --separate-stderr prefill-local -m "$m" --compute bf16 /dev/null
    assert_failure 2
}

@test "no shared object, one that is none, one of something else: refused (4) in one line that says what helps" {
    m=$GOLDEN/models/qwen3-bf16
    echo hello >"$TMP/text.so"
    for lib in "$TMP/none.so" "$TMP/text.so" "$(ldd "$EMU" | awk '/libm.so/ {print $3}')"; do
        ANYJEV_CUDA_LIB=$lib run --separate-stderr prefill-local -m "$m" --device cuda /dev/null
        assert_failure 4
        assert_output ""
        assert_equal "$(wc -l <<<"$stderr")" 1
        [[ "$stderr" == "prefill-local: --device cuda: "*"make CUDA=1"* ]] || fail "$stderr"
    done
}

@test "the object made by nvcc: without a GPU it says so in one line (4)" {
    [ -e "$BIN/libanyjev_cuda.so" ] || skip "needs nvcc"
    if [ -e /dev/nvidiactl ]; then skip "this host has a GPU (make gpu-check)"; fi
    run --separate-stderr prefill-local -m "$GOLDEN/models/qwen3-bf16" --device cuda /dev/null
    assert_failure 4
    assert_output ""
    assert_equal "$(wc -l <<<"$stderr")" 1
    [[ "$stderr" == "prefill-local: --device cuda: "*"--device cpu" ]] || fail "$stderr"
    # It offers one function and nothing that could meet another library's names.
    assert_equal "$(nm -D --defined-only "$BIN/libanyjev_cuda.so" | awk '{print $3}')" anyjev_cuda_api
}

@test "a NaN in the weights is an error that names the model and the prompt (3)" {
    not_sanitized
    cp -r "$GOLDEN/models/qwen3-bf16" "$TMP/m"
    chmod u+w "$TMP/m"/*
    size=$(stat -c %s "$TMP/m/model-00002-of-00002.safetensors")
    printf '\xff\xff\xff\xff' | dd of="$TMP/m/model-00002-of-00002.safetensors" bs=1 seek=$((size - 4)) conv=notrunc status=none
    prompts 1 | head -n 1 >"$TMP/p"
    for need in '{"logprobs":true}' '{"hidden":[3]}'; do
        sed 's/"need":{[^}]*}/"need":'"$need"'/' "$TMP/p" >"$TMP/q"
        run --separate-stderr cuda -m "$TMP/m" "$TMP/q"
        assert_failure 3
        assert_output ""
        [[ "$stderr" == "prefill-local: $TMP/q:1: "*"NaN or an infinity"* ]] || fail "$stderr"
    done
}

@test "killed while it loads or waits for input: no file appears" {
    mkfifo "$TMP/in"
    ANYJEV_CUDA_LIB=$EMU prefill-local -m "$GOLDEN/models/qwen3-bf16" --device cuda -o "$TMP/out" "$TMP/in" 3>&- &
    pid=$!
    sleep 0.3
    kill -9 "$pid"
    wait "$pid" || true
    [ ! -e "$TMP/out" ]
}

@test "a recipe with DEVICE=cuda runs there, and its settings say so" {
    ANYJEV_CUDA_LIB=$TMP/none.so run make -s -f "$ROOT/pipelines/annotate.mk" BIN="$BIN" CARDS="$ROOT/tests/fixtures/cards/tiny-crlf.md" MODEL="$GOLDEN/models/qwen3-bf16" DEVICE=cuda OUT="$TMP/out"
    assert_failure
    assert_output --partial "--device cuda: $TMP/none.so is missing"
    grep -qxF 'backend: local cuda' "$TMP/out/settings"
}

@test "gpu-check: without a GPU one line and status 4; its steps pass on the emulation" {
    not_sanitized
    if ! nvidia-smi -L >/dev/null 2>&1; then
        run --separate-stderr "$ROOT/tests/gpu_check.sh"
        assert_failure 4
        assert_equal "$stderr" "gpu-check: no GPU on this host (nvidia-smi -L shows none)"
    fi
    OUT=$TMP/check.json run "$ROOT/tests/gpu_check.sh" --emulation
    assert_success
    jq -e '(.checks | length == 9 and all(.passed)) and .speed.same_bits_alone and (.speed.workloads | length == 2)' "$TMP/check.json" >/dev/null
}

@test "compare_filled: other numbers, other prompts and missing ones are told" {
    prompts 1 >"$TMP/p"
    prefill-local -m "$GOLDEN/models/qwen3-bf16" "$TMP/p" >"$TMP/a"
    python3 "$ROOT/tests/compare_filled.py" "$TMP/a" "$TMP/a" logprob=0 hidden=0
    jq -c '.logprobs[1] += 0.01' "$TMP/a" >"$TMP/b"
    run python3 "$ROOT/tests/compare_filled.py" "$TMP/a" "$TMP/b" logprob=0.009
    assert_failure 1
    head -n 2 "$TMP/a" >"$TMP/b"
    run python3 "$ROOT/tests/compare_filled.py" "$TMP/a" "$TMP/b"
    assert_failure 1
    jq -c 'del(.hidden["1"])' "$TMP/a" >"$TMP/b"
    run python3 "$ROOT/tests/compare_filled.py" "$TMP/a" "$TMP/b"
    assert_failure 1
}
