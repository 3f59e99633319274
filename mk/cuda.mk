# libanyjev_cuda.so is built when nvcc is there (CUDA=0 leaves it out, CUDA=1 insists); the build says which it did.
# prefill-local opens it for --device cuda only. Machine code for every architecture below that this nvcc knows, and
# PTX of the newest for those to come.
comma := ,
NVCC  ?= nvcc
CUDA ?= $(if $(shell command -v $(NVCC) 2>/dev/null),1,0)
CU_SRC    := $(sort $(wildcard lib/kernel/cuda/*.cu))
CU_HEAD   := $(wildcard lib/kernel/cuda/*.h lib/kernel/cuda/*.cuh) lib/base/status.h
CU_OBJ    := $(CU_SRC:%.cu=$(BUILD)/%.o)
CU_ARCHES := 80 86 89 90 100 120 121
CU_WANT    = $(filter $(CU_ARCHES:%=sm_%),$(shell $(NVCC) --list-gpu-code))
CU_NEWEST  = $(lastword $(CU_WANT:sm_%=%))
CU_CODE    = $(foreach a,$(CU_WANT:sm_%=%),-gencode arch=compute_$a,code=sm_$a) -gencode arch=compute_$(CU_NEWEST),code=compute_$(CU_NEWEST)
CU_FLAGS  := -std=c++17 -O3 -Ilib -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra$(if $(WERROR),$(comma)-Werror)

ifeq ($(CUDA),1)
CUDA_SAY = echo "build: CUDA built with nvcc"
all: $(BIN)/libanyjev_cuda.so
else
CUDA_SAY = echo "build: CUDA left out (no nvcc, or CUDA=0)"
endif

$(BUILD)/nvcc.ok: mk/cuda.mk
	@mkdir -p $(@D)
	@command -v $(NVCC) >/dev/null || { echo "build: CUDA=1, but there is no '$(NVCC)'; put the CUDA toolkit's bin in PATH, or NVCC=/path/to/nvcc" >&2; exit 2; }
	@touch $@

$(CU_OBJ): $(BUILD)/%.o: %.cu $(CU_HEAD) $(BUILD)/nvcc.ok
	@mkdir -p $(@D)
	$(NVCC) $(CU_FLAGS) $(CU_CODE) -t 2 -c -o $@ $<

# The runtime is inside; cuBLASLt is looked for beside the object, then where the system has it.
$(BIN)/libanyjev_cuda.so: $(CU_OBJ)
	@mkdir -p $(@D)
	$(NVCC) -shared -cudart static -o $@ $^ -lcublasLt -Xlinker '-rpath=$$ORIGIN,--exclude-libs=ALL'

# --- the emulation: the same kernels and the same driver code by a plain C++ compiler, for the tests ---
ifeq ($(origin CXX),default)
CXX       := g++
endif
EMU_FLAGS := -std=c++17 $(OPT) -g -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing -Wall -Wextra -Wshadow -Wno-unknown-pragmas $(if $(WERROR),-Werror) $(SAN)
EMU       := $(BUILD)/libanyjev_cuda_emu.so
EMU_UNITS := $(patsubst tests/unit/%.cpp,%,$(wildcard tests/unit/*.cpp))
UNITS     += $(EMU_UNITS)

$(EMU): lib/kernel/cuda/engine.cu lib/kernel/cuda/gpu_emu.cpp $(CU_HEAD)
	@mkdir -p $(@D)
	$(CXX) -DCUDA_EMULATION -Ilib $(EMU_FLAGS) -shared -o $@ -x c++ $(filter %.cu %.cpp,$^)

$(EMU_UNITS:%=$(BUILD)/unit/%): $(BUILD)/unit/%: tests/unit/%.cpp $(LIB) $(CU_HEAD) $(wildcard lib/model/*.h lib/kernel/*.h) tests/unit/test.h
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) -DCUDA_EMULATION $(EMU_FLAGS) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)

check-built: $(EMU)

# --- on a GPU machine ---
.PHONY: gpu-check
$(BUILD)/bench/gpu $(BUILD)/bench/gpu_model: $(BUILD)/bench/%: $(BUILD)/bench/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)

gpu-check: ## on a GPU machine: numbers, bits and speed of --device cuda; a table, and JSON in out/gpu-check.json
	@BIN=$(BIN) BUILD=$(BUILD) NVCC=$(NVCC) tests/gpu_check.sh

check-built: $(BUILD)/bench/gpu $(BUILD)/bench/gpu_model
