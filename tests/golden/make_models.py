"""Tiny random models in Hugging Face form, for the forward pass: tests/golden/models/NAME-{f32,bf16}/.

    python make_models.py            (versions: requirements.txt)

Seeds are fixed; weights are scaled so that logits differ by several units and errors show."""
import json
import os
import shutil
import sys

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

HERE = os.path.dirname(os.path.abspath(__file__))
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def tokenizer():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=310, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(["Yes No Yes No YesNo"] * 50 + ["the column of a dataset has a name and a unit"] * 5, trainer)
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return t


def common(**more):
    return dict(vocab_size=320, hidden_size=48, intermediate_size=80, num_hidden_layers=3, max_position_embeddings=512,
                rms_norm_eps=1e-6, bos_token_id=None, eos_token_id=None, pad_token_id=None, **more)


def rope(theta, **scaling):
    return {"rope_theta": theta, **({"rope_type": "default"} if not scaling else scaling)}


MODELS = {
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**common(num_attention_heads=4, num_key_value_heads=2, head_dim=20,
                                                           tie_word_embeddings=True, rope_parameters=rope(1e6)))),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**common(num_attention_heads=4, num_key_value_heads=2,
                                                           tie_word_embeddings=False, rope_parameters=rope(1e6)))),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**common(
        num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=False,
        rope_parameters=rope(5e5, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=64)))),
    "llama-linear": lambda: LlamaForCausalLM(LlamaConfig(**common(
        num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=True, rope_parameters=rope(1e4, rope_type="linear", factor=2.0)))),
    "llama-yarn": lambda: LlamaForCausalLM(LlamaConfig(**common(
        num_attention_heads=4, num_key_value_heads=1, tie_word_embeddings=True,
        rope_parameters=rope(1e4, rope_type="yarn", factor=4.0, original_max_position_embeddings=64)))),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**common(num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                                                 tie_word_embeddings=False, sliding_window=None,
                                                                 rope_parameters=rope(1e6)))),
}


def main():
    out = os.path.join(HERE, "models")
    for seed, (name, make) in enumerate(MODELS.items()):
        torch.manual_seed(1000 + seed)
        model = make()
        with torch.no_grad():
            for key, p in model.named_parameters():
                if "norm" in key:
                    p.copy_(1 + 0.3 * torch.randn_like(p))
                elif key.endswith("bias"):
                    p.copy_(0.5 * torch.randn_like(p))
                elif "embed" in key:
                    p.copy_(0.7 * torch.randn_like(p))
                else:
                    p.copy_(torch.randn_like(p) * (1.4 / p.shape[-1] ** 0.5))
        for dtype, suffix in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            folder = os.path.join(out, f"{name}-{suffix}")
            shutil.rmtree(folder, ignore_errors=True)
            m = make()
            m.load_state_dict(model.state_dict())
            m.to(dtype)
            total = sum(p.numel() * p.element_size() for p in m.parameters())
            m.save_pretrained(folder, max_shard_size=int(total * 0.6))
            for extra in ("generation_config.json",):
                path = os.path.join(folder, extra)
                if os.path.exists(path):
                    os.remove(path)
            tokenizer().save(os.path.join(folder, "tokenizer.json"))
            with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
                json.dump({"chat_template": TEMPLATE}, f)
            print(name, suffix, sorted(os.listdir(folder)), file=sys.stderr)


if __name__ == "__main__":
    main()
