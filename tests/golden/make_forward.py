"""Hidden states and logits of the tiny models by transformers in float32: tests/golden/forward.jsonl.

    python make_forward.py           (versions: requirements.txt; after make_models.py)

One line per model and prompt: {"model", "ids", "hidden": {block: base64 of little-endian float32}, "logits": the same}, of the
last position; block 0 is the embeddings, b what stands after block b, the last after the final norm."""
import base64
import json
import os

import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))


def b64(x):
    return base64.b64encode(x.to(torch.float32).numpy().astype("<f4").tobytes()).decode()


def main():
    torch.set_num_threads(1)
    models = os.path.join(HERE, "models")
    with open(os.path.join(HERE, "forward.jsonl"), "w") as out:
        for name in sorted(os.listdir(models)):
            model = AutoModelForCausalLM.from_pretrained(os.path.join(models, name), dtype=torch.float32, attn_implementation="eager")
            model.eval()
            gen = torch.Generator().manual_seed(7)
            for n in (1, 2, 17, 150):
                ids = torch.randint(0, 300, (1, n), generator=gen)
                with torch.no_grad():
                    r = model(ids, output_hidden_states=True)
                line = {"model": name, "ids": ids[0].tolist(),
                        "hidden": {str(i): b64(h[0, -1]) for i, h in enumerate(r.hidden_states)}, "logits": b64(r.logits[0, -1])}
                out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
