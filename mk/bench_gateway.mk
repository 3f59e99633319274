# Speed of prefill-gateway against a server on loopback that takes 10 ms for every answer.
.PHONY: bench-speed-gateway
bench-speed-gateway: all ## throughput and memory of prefill-gateway: 100,000 prompts, 64 at once, 10 ms each
	@python3 bench/gateway.py $(abspath $(BIN))
