# CUDA kernels are built when nvcc is there (CUDA=0 leaves them out); the build says which it did.
CUDA ?= $(if $(shell command -v nvcc 2>/dev/null),1,0)
CU_SRC := $(sort $(wildcard lib/kernel/cuda/*.cu))
ifeq ($(CU_SRC),)
CUDA_SAY = echo "build: CUDA left out (this version carries no CUDA kernels)"
else ifeq ($(CUDA),1)
CUDA_SAY = echo "build: CUDA built with nvcc"
else
CUDA_SAY = echo "build: CUDA left out (no nvcc)"
endif
