"""to_f16: a GGUF file's weights as 16-bit floats, by llama.cpp itself: to_f16.py FROM TO"""
import sys

import llama_cpp

params = llama_cpp.llama_model_quantize_default_params()
params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_F16
params.allow_requantize = True
sys.exit(llama_cpp.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), params))
