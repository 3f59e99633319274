# helper.bash: loaded by every bats file (`load helper`).
bats_require_minimum_version 1.5.0
BATS_LIB_PATH=${BATS_LIB_PATH:-/usr/lib/bats}
bats_load_library bats-support
bats_load_library bats-assert

ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
BIN=${BIN:-$ROOT/bin}
SHARED=${SHARED:-$ROOT/../shared}
FIXTURES=$ROOT/tests/fixtures
GOLDEN=$ROOT/tests/golden
MODEL=${MODEL:-$ROOT/models/SmolLM2-135M-Instruct.Q4_1.gguf}
PATH=$BIN:$PATH
TMP=${BATS_TEST_TMPDIR:-/tmp}

# need_shared FILE: skips the test when the shared data is not beside the checkout.
need_shared() { [ -e "$SHARED/data/$1" ] || skip "needs ../shared/data/$1"; }
# need_model: skips the test when `make model` has not been run.
need_model() { [ -e "$MODEL" ] || skip "needs the small model (make model)"; }
