# How fast records are decided and scored, beside jq on the same files.
.PHONY: bench-speed-records
bench-speed-records: all ## time score and head-apply beside jq
	@bench/records.sh $(abspath $(BIN))

.PHONY: bench-speed-fit
bench-speed-fit: all ## time head-fit beside anyjev's NumPy, and stopping early beside a full pass
	@bench/fit.sh $(abspath $(BIN)) $(SMALL_MODEL)
