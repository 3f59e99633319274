"""Speed of prefill-local against llama.cpp: the same files, the same token ids, the same number of threads, in
alternation, medians. Ours is timed as a process, less the time of a process that has nothing to do; llama.cpp inside
this process, with the model loaded. Writes OUT/speed.json and OUT/speed.md, and the table to standard output."""
import argparse
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import time

import llama_cpp as lc

WORDS = "the column of a dataset holds values that were measured in the field by hand or by an instrument each day at plot level".split()
FORMS = {"F32": 0, "BF16": 32, "Q8_0": 7}  # llama.cpp's numbers of file types


@lc.llama_log_callback
def silent(level, text, data):
    pass


def convert(source, form, target):
    if os.path.exists(target):
        return
    p = lc.llama_model_quantize_default_params()
    p.ftype, p.allow_requantize, p.pure = FORMS[form], True, True
    part = target + ".part"
    if lc.llama_model_quantize(source.encode(), part.encode(), ctypes.byref(p)) != 0:
        sys.exit(f"speed: cannot convert {source} to {form}")
    os.rename(part, target)


def words(rng, n):
    return " ".join(rng.choice(WORDS) + str(rng.randrange(10)) for _ in range(n))


LONG, LONG_PAIRS = "1 prompt of 4096", [("BF16", "f32"), ("Q8_0", "int8")]  # minutes each: not for every pair


def workloads():
    rng = random.Random(1)
    texts = {
        "2 prompts of 512": [words(rng, 256) for _ in range(2)],
        LONG: [words(rng, 2048)],
    }
    shared = words(rng, 400)
    texts["24 x 60 on a shared 800"] = [shared + " " + words(rng, 30) for _ in range(24)]
    return texts


class Ours:
    def __init__(self, args, file, compute):
        self.command = [os.path.join(args.bin, "prefill-local"), "--model", file, "--compute", compute]
        subprocess.run(self.command + ["--pack"], check=True, stderr=subprocess.DEVNULL)

    def run(self, path, threads, extra=()):
        """Seconds."""
        start = time.perf_counter()
        subprocess.run(self.command + ["--threads", str(threads), *extra, path], stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    def peak(self, path, threads):
        """KiB of a run of its own, asked for while it runs: what wait() tells counts this process from before exec, too."""
        p = subprocess.Popen(self.command + ["--threads", str(threads), path], stdout=subprocess.DEVNULL)
        most = 0
        while p.poll() is None:
            with open(f"/proc/{p.pid}/status") as f:
                most = max([most] + [int(line.split()[1]) for line in f if line.startswith("VmHWM:")])
            time.sleep(0.002)
        return most


class Theirs:
    def __init__(self, file, threads, n_ctx, n_seq, flash):
        self.model = lc.llama_model_load_from_file(file.encode(), lc.llama_model_default_params())
        p = lc.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = n_ctx, n_ctx, 512, n_seq
        p.n_threads = p.n_threads_batch = threads
        p.kv_unified = True
        p.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else lc.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.ctx = lc.llama_init_from_model(self.model, p)
        self.batch = lc.llama_batch_init(n_ctx, 0, 1)
        if not self.ctx:
            sys.exit("speed: llama.cpp gives no context")

    def decode(self, rows):
        """rows: (token, position, sequence, wants logits)"""
        b = self.batch
        b.n_tokens = len(rows)
        for i, (token, pos, seq, logits) in enumerate(rows):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, pos, 1, logits
            b.seq_id[i][0] = seq
        if lc.llama_decode(self.ctx, b) != 0:
            sys.exit("speed: llama_decode failed")

    def run(self, prompts):
        memory = lc.llama_get_memory(self.ctx)
        lc.llama_memory_clear(memory, True)
        start = time.perf_counter()
        if len(prompts) > 4:  # a shared prefix: once, copied to all sequences, the tails in one batch
            n = os.path.commonprefix(prompts)
            self.decode([(t, i, 0, False) for i, t in enumerate(n)])
            for s in range(1, len(prompts)):
                lc.llama_memory_seq_cp(memory, 0, s, -1, -1)
            self.decode([(t, i, s, i == len(p) - 1) for s, p in enumerate(prompts) for i, t in enumerate(p) if i >= len(n)])
        else:
            for p in prompts:
                self.decode([(t, i, 0, i == len(p) - 1) for i, t in enumerate(p)])
                lc.llama_get_logits(self.ctx)
                lc.llama_memory_clear(memory, False)
        lc.llama_synchronize(self.ctx)
        return time.perf_counter() - start

    def close(self):
        lc.llama_batch_free(self.batch)
        lc.llama_free(self.ctx)
        lc.llama_model_free(self.model)


def distinct(prompts):
    """Tokens that are computed once each when prefixes are shared."""
    seen = set()
    for p in prompts:
        h = 0
        for t in p:
            h = hash((h, t))
            seen.add(h)
    return len(seen)


def spread(xs):
    return {"median": statistics.median(xs), "min": min(xs), "max": max(xs)}


def main():
    a = argparse.ArgumentParser()
    for name in ("bin", "model", "work", "out"):
        a.add_argument("--" + name, required=True)
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = a.parse_args()
    os.makedirs(args.work, exist_ok=True)
    os.makedirs(args.out, exist_ok=True)
    lc.llama_log_set(silent, ctypes.c_void_p(0))
    lc.llama_backend_init()

    files = {"Q4_1": os.path.join(args.work, os.path.basename(args.model))}
    if not os.path.exists(files["Q4_1"]):
        os.link(args.model, files["Q4_1"]) if os.stat(args.model).st_dev == os.stat(args.work).st_dev and not os.path.islink(args.model) else os.symlink(args.model, files["Q4_1"])
    for form in FORMS:
        files[form] = os.path.join(args.work, f"model.{form}.gguf")
        convert(args.model, form, files[form])

    inputs, ids = {}, {}
    for name, texts in workloads().items():
        path = os.path.join(args.work, name.replace(" ", "-") + ".jsonl")
        with open(path, "w") as f:
            for i, text in enumerate(texts):
                f.write(json.dumps({"type": "prompt", "id": str(i), "prefix": text, "suffix": "", "labels": ["A", "B"]}) + "\n")
        out = subprocess.run([os.path.join(args.bin, "tokenize"), "--model", files["Q4_1"], path], check=True, capture_output=True).stdout
        inputs[name], ids[name] = path, [json.loads(line)["ids"] for line in out.splitlines()]
    empty = os.path.join(args.work, "empty.jsonl")
    open(empty, "w").close()

    system = lc.llama_print_system_info().decode().strip()
    results = {"threads": args.threads, "rounds": args.rounds, "llama_cpp_python": lc.__version__, "llama_cpp_system": system, "runs": [], "scaling": []}
    pairs = [("F32", "f32"), ("BF16", "f32"), ("Q8_0", "int8"), ("Q4_1", "f32"), ("Q4_1", "int8")]
    for form, compute in pairs:
        ours = Ours(args, files[form], compute)
        for name, prompts in ids.items():
            if name == LONG and (form, compute) not in LONG_PAIRS:
                continue
            n_ctx = max(sum(map(len, prompts)) if len(prompts) > 4 else max(map(len, prompts)), 512) + 512
            theirs = {flash: Theirs(files[form], args.threads, n_ctx, len(prompts), flash) for flash in (True, False)}
            times = {"ours": [], "start": [], True: [], False: []}
            peak = ours.peak(inputs[name], args.threads)
            for t in theirs.values():
                t.run(prompts)
            for _ in range(args.rounds):
                for flash, t in theirs.items():
                    times[flash].append(t.run(prompts))
                times["ours"].append(ours.run(inputs[name], args.threads))
                times["start"].append(ours.run(empty, args.threads))
            for t in theirs.values():
                t.close()
            start = statistics.median(times["start"])
            mine = [t - start for t in times["ours"]]
            best = min((True, False), key=lambda f: statistics.median(times[f]))
            tokens = distinct(prompts)
            run = {"weights": form, "compute": compute, "workload": name, "prompts": len(prompts), "tokens": sum(map(len, prompts)), "distinct": tokens,
                   "ours_s": spread(mine), "start_s": start, "llama_s": spread(times[best]), "llama_flash": best, "ours_tok_s": tokens / statistics.median(mine),
                   "llama_tok_s": tokens / statistics.median(times[best]), "ratio": statistics.median(times[best]) / statistics.median(mine),
                   "ratio_of_fastest": min(times[best]) / min(mine), "peak_mib": peak / 1024, "weights_mib": os.path.getsize(files[form]) / 2**20}
            results["runs"].append(run)
            print(f"speed: {form} {compute} {name}: {run['ratio']:.2f}", file=sys.stderr)
    # Threads, and the same workload without the tree (a batch for every prompt).
    ours = Ours(args, files["Q4_1"], "f32")
    name = "24 x 60 on a shared 800"
    for threads in sorted({1, args.threads}):
        xs = [ours.run(inputs[name], threads) for _ in range(args.rounds)]
        results["scaling"].append({"threads": threads, "workload": name, "tree": True, "s": spread(xs)})
    xs = [ours.run(inputs[name], args.threads, ("--batch-tokens", "1")) for _ in range(max(1, args.rounds // 2))]
    results["scaling"].append({"threads": args.threads, "workload": name, "tree": False, "s": spread(xs)})

    lines = ["| weights | compute | workload | ours, tokens/s | llama.cpp, tokens/s | ratio | of the fastest | ours, s (min to max) | llama.cpp, s (min to max) | peak MiB (weights) |",
             "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for r in results["runs"]:
        o, t = r["ours_s"], r["llama_s"]
        lines.append(f"| {r['weights']} | {r['compute']} | {r['workload']} | {r['ours_tok_s']:.0f} | {r['llama_tok_s']:.0f} | {r['ratio']:.2f} | {r['ratio_of_fastest']:.2f} | {o['median']:.2f} ({o['min']:.2f} to {o['max']:.2f}) "
                     f"| {t['median']:.2f} ({t['min']:.2f} to {t['max']:.2f}) | {r['peak_mib']:.0f} ({r['weights_mib']:.0f}) |")
    lines += ["", "| threads | workload | tree | s |", "| ---: | --- | --- | ---: |"]
    for r in results["scaling"]:
        lines.append(f"| {r['threads']} | {r['workload']} | {'yes' if r['tree'] else 'no'} | {r['s']['median']:.2f} |")
    lines += ["", f"{args.threads} threads; tokens are distinct ones; llama.cpp at its better setting of flash attention; {system}"]
    table = "\n".join(lines) + "\n"
    with open(os.path.join(args.out, "speed.json"), "w") as f:
        json.dump(results, f, indent=1)
    with open(os.path.join(args.out, "speed.md"), "w") as f:
        f.write(table)
    print(table, end="")


main()
