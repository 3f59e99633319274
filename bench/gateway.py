#!/usr/bin/env python3
"""Speed of prefill-gateway against a loopback server that answers every request after a fixed time.

    bench/gateway.py BIN [PROMPTS [WORKERS [MILLISECONDS]]]

Prints one JSON line: throughput, its share of the ideal (workers / time of an answer), the largest resident size, the
processor time. Exits 1 when the share is under 0.9 or the size over 60 MiB.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
binaries = sys.argv[1]
prompts, workers, delay = (int(sys.argv[i]) if len(sys.argv) > i else d for i, d in ((2, 100000), (3, 64), (4, 10)))

with tempfile.TemporaryDirectory() as tmp:
    port = os.path.join(tmp, "port")
    server = subprocess.Popen([sys.executable, os.path.join(root, "tests", "fault_server.py"), port, str(delay)])
    try:
        text = "What is known:\\n" + "a column of a dataset about water " * 10
        with open(os.path.join(tmp, "prompts"), "w") as f:
            for i in range(prompts):
                f.write(
                    f'{{"type":"prompt","id":"i{i}","item":"i{i}","question":"inline","key":"0","kind":"noul","options":["Yes","No"],"perm":[0,1],'
                    f'"labels":["Yes","No"],"template":"chatml","prefix":"<|im_start|>user\\n{text} {i}","suffix":"<|im_end|>\\n","need":{{"logprobs":true}}}}\n'
                )
        while not os.path.exists(port):
            time.sleep(0.05)
        url = "http://127.0.0.1:" + open(port).read().strip() + "/fixed"
        out = os.path.join(tmp, "out")
        start = time.monotonic()
        run = subprocess.Popen([os.path.join(binaries, "prefill-gateway"), "--url", url, "--workers", str(workers), "--min-mass", "0", "-o", out, os.path.join(tmp, "prompts")])
        _, status, usage = os.wait4(run.pid, 0)
        took = time.monotonic() - start
        took_ms = json.load(urllib.request.urlopen(url + "/stats"))["mean_ms"]
        if status:
            sys.exit(f"bench: prefill-gateway ended with {os.waitstatus_to_exitcode(status)}")
        with open(out) as f:
            lines = sum(1 for _ in f)
        if lines != prompts:
            sys.exit(f"bench: {lines} records came out of {prompts}")
    finally:
        server.kill()
        server.wait()

ideal = workers * 1000 / min(delay, took_ms)
result = {
    "prompts": prompts,
    "workers": workers,
    "answer_ms": delay,
    "answer_ms_measured": round(took_ms, 2),
    "seconds": round(took, 2),
    "per_second": round(prompts / took),
    "ideal_per_second": round(ideal),
    "share": round(prompts / took / ideal, 3),
    "rss_mib": round(usage.ru_maxrss / 1024, 1),
    "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
}
print(json.dumps(result))
sys.exit(0 if result["share"] >= 0.9 and result["rss_mib"] <= 60 else 1)
