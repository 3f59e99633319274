# How fast records are decided and scored, beside jq on the same files.
.PHONY: bench-speed-records
bench-speed-records: all ## time score and head-apply beside jq
	@bench/records.sh $(abspath $(BIN))
