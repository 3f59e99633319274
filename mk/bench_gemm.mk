# Speed of the matrix products against OpenBLAS and oneDNN (opened at run time; libopenblas0-pthread, libdnnl2).
.PHONY: bench-speed-gemm
$(BUILD)/bench/gemm: $(BUILD)/bench/gemm.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)

bench-speed-gemm: $(BUILD)/bench/gemm ## matrix products against OpenBLAS and oneDNN: JSON lines, and a table on stderr
	@$(BUILD)/bench/gemm
