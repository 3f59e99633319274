"""Decisions per second of transformers (bfloat16, SDPA) on the shared-prefix workload of bench/gpu.c: 24 prompts of
800 + 60 tokens, as one batch without a shared prefix, which is what its forward pass offers. One line of JSON.

    python3 gpu_transformers.py MODEL"""
import json
import sys
import time

import torch
import transformers


def main(path):
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16, attn_implementation="sdpa").cuda().eval()
    ids = torch.randint(40, model.config.vocab_size, (24, 860), device="cuda")
    ids[:, :800] = ids[0, :800]
    times = []
    with torch.inference_mode():
        for _ in range(6):
            torch.cuda.synchronize()
            start = time.perf_counter()
            logits = model(ids, logits_to_keep=1, use_cache=False).logits
            torch.log_softmax(logits[:, -1].float(), -1)[:, 32:35].cpu()
            times.append(time.perf_counter() - start)
    median = sorted(times[1:])[2]
    print(json.dumps({"transformers": transformers.__version__, "torch": torch.__version__, "seconds": median, "decisions_per_second": 24 / median}))


if __name__ == "__main__":
    main(sys.argv[1])
