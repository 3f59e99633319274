"""SmolLM2-135M-Instruct from its GGUF: token ids by Hugging Face tokenizers and label log-probabilities by
transformers in float32, both built from the same file.

    python make_smollm2.py PATH/SmolLM2-135M-Instruct.Q4_1.gguf      (versions: requirements.txt)

smollm2_tokens.jsonl: {"text", "ids"}, control tokens parsed. smollm2_logprobs.jsonl: {"prefix", "ids", "labels", "logprobs"}."""
import json
import os
import sys

import torch
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))


def strings(reader, key):
    f = reader.fields[key]
    return [bytes(f.parts[i]).decode("utf-8") for i in f.data]


def tokenizer(path):
    r = GGUFReader(path)
    tokens, merges = strings(r, "tokenizer.ggml.tokens"), strings(r, "tokenizer.ggml.merges")
    types = [int(r.fields["tokenizer.ggml.token_type"].parts[i][0]) for i in r.fields["tokenizer.ggml.token_type"].data]
    vocab = {t: i for i, t in enumerate(tokens)}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ", 1)) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(tokens[i], special=True, normalized=False) for i, k in enumerate(types) if k == 3])
    return t


def texts():
    base = ["", " ", "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "a", "A b", "Hello, world!", "don't DON'T I'll I'LL we've WE'VE it's IT'S they're 'tis",
            "0", "12", "123456789", "3.14159e-10", "2024-06-01T12:00:00Z", "x1y22z333", "1\u00bd \u2460 \u0663\u0664 \u096a \u2168",
            "caf\u00e9", "cafe\u0301", "\u00c5ngstr\u00f6m A\u030angstro\u0308m", "\u1e9b\u0323", "na\u00efve r\u00e9sum\u00e9",
            "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
            "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05dc\u05d5\u05dd",
            "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0", "\u1f00\u03c1\u03c7\u03ae",
            "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\u2764\ufe0f", "\U0001d54f\U00020000",
            "\u0085", "a\u0085b", "\ufeff", "\ufeffabc", "a\u0000b", "\u0000", "\u200b \u200c\u200d", "\u00a0x\u00a0", "\u2003wide\u3000space", "\u2028line\u2029para", "\u180e", "\u001f",
            "int main(void) {\n\treturn 0; /* ok */\n}\n", "def f(x):\n    return x**2  # square\n", "SELECT * FROM t WHERE a >= 10;", "<html><body class=\"x\">&amp;</body></html>",
            "{\"a\": [1, 2.5, null], \"b\": \"c\\n\"}", "https://example.org/a?b=c&d=%20e#f", "C:\\Users\\x", "a_b-c.d/e\\f|g", "snake_case camelCase PascalCase kebab-case", "DP1.10003.001.brd_countdata",
            "taxonID siteID plotID decimalLatitude", "n=2928, min=80.1, max=93.2", "...", "!!!???", "---\n***\n___", "$100.00 \u20ac50 \u00a330", "50% \u00b0C \u00b5m \u03bcm m\u00b2",
            "<|im_start|>", "<|im_end|>", "<|im_start|>user\nhi<|im_end|>\n", "a<|im_end|>b", "<|im_start", "|im_end|>", "< |im_end|>", "<|endoftext|>", "<|IM_END|>",
            "'", "''", "'s", " 's", "S's", "x'", "'S 'T 'RE", "\u2019s don\u2019t", "\u017f's '\u017f", "\u212a\u212b", "\u0130\u0131", "\u00df\u1e9e", "\ufb01\ufb03",
            "trailing ", " leading", "two  spaces", "three   spaces", "tab\tand space", "end\n", "\n\nstart", "mix \n\t \r\n x", "x" * 5000, " " * 300, "\n" * 100, "ab" * 800, "1" * 200,
            "\u00e9" * 300, "\U0001f600" * 50, "." * 257, "'" * 64, "a " * 200, "\ud7ff\ue000\ufffd\uffff", "\U0010ffff", "q\u0307\u0323 q\u0323\u0307", "\u1100\u1161\u11a8", "\u0344\u0374\u2126"]
    words = "Barometric pressure is available as one- and thirty-minute averages for station pressure, determined from 0.1 Hz observations".split()
    for i in range(1, 60):
        base.append(" ".join(words[j % len(words)] for j in range(i, 2 * i)) + ("" if i % 3 else "\n" * (i % 5)))
    for i in range(60):
        base.append("".join(chr(c) for c in range(0x80 + 37 * i, 0x80 + 37 * i + 24) if not 0xd800 <= c <= 0xdfff))
    return base


CARD = """{
  "card": {
    "dataset": "LK.0007.stream_chemistry",
    "product_title": "Stream water chemistry",
    "rows": 1284,
    "columns": ["uid", "siteID", "waterTemp", "nitrate", "fishSpecies"]
  },
  "column": {"name": "%s", "description": "%s", "dtype": "%s", "unit": "%s"}
}"""
COLUMNS = [("waterTemp", "Temperature of the stream water", "real", "degree Celsius"), ("nitrate", "Concentration of nitrate as nitrogen", "real", "milligram per litre"),
           ("fishSpecies", "Fish seen at the reach, by scientific name", "string", ""), ("sampleMedium", "What was sampled", "string", ""),
           ("qcFlag", "Whether the value passed the quality check", "string", "")]
QUESTIONS = [("Does this column need an ontology term?", ["Yes", "No"], "Yes\nNo\n\nReply with Yes or No."),
             ("Does this column need an ontology term?", ["No", "Yes"], "No\nYes\n\nReply with Yes or No."),
             ("Which aspect does this column describe?", list("ABCDEFGH"),
              "A. taxon\nB. environment\nC. method\nD. measurement\nE. unit\nF. data_type\nG. location\nH. other\n\nReply with the letter of the best answer."),
             ("How sure is the description?", list("12345"), "1. not at all\n2. little\n3. fairly\n4. well\n5. fully\n\nReply with the label of the best answer.")]


def main():
    path = sys.argv[1]
    t = tokenizer(path)
    with open(os.path.join(HERE, "smollm2_tokens.jsonl"), "w") as out:
        for text in texts():
            out.write(json.dumps({"text": text, "ids": t.encode(text, add_special_tokens=False).ids}) + "\n")
    torch.set_num_threads(2)
    model = AutoModelForCausalLM.from_pretrained(os.path.dirname(os.path.abspath(path)), gguf_file=os.path.basename(path), dtype=torch.float32)
    model.eval()
    with open(os.path.join(HERE, "smollm2_logprobs.jsonl"), "w") as out:
        for column in COLUMNS:
            for question, labels, options in QUESTIONS:
                prefix = ("<|im_start|>system\nYou answer questions about data. Reply with the label of one answer and nothing else.<|im_end|>\n"
                          "<|im_start|>user\nWhat is known:\n%s\n\nQuestion: %s\n\nAnswers to choose from:\n%s<|im_end|>\n<|im_start|>assistant\n"
                          % (CARD % column, question, options))
                ids = t.encode(prefix, add_special_tokens=False).ids
                with torch.no_grad():
                    logits = model(torch.tensor([ids])).logits[0, -1].double()
                lp = torch.log_softmax(logits, -1)
                label_ids = [t.encode(x, add_special_tokens=False).ids for x in labels]
                assert all(len(x) == 1 for x in label_ids)
                out.write(json.dumps({"prefix": prefix, "ids": ids, "labels": labels, "logprobs": [lp[x[0]].item() for x in label_ids]}) + "\n")


if __name__ == "__main__":
    main()
