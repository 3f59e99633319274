#!/usr/bin/env python3
"""fault_server: a model server on loopback that fails in named ways, for the tests of prefill-gateway.

    fault_server.py PORT_FILE [DELAY_MS [IDS_FILE]]

Listens on a free port, which it writes to PORT_FILE. The first part of a path names what goes wrong and which shape
answers have, joined by '+': http://127.0.0.1:PORT/429+ids/v1/completions. Numbers are drawn from the prompt, so
that the same prompt always gets the same. GET /NAMES/stats tells how many requests and how many different prompts
there were. IDS_FILE holds {label: id} of a real tokenizer, for the name true-ids. Needs the standard library only.
"""
import asyncio
import collections
import email.utils
import hashlib
import json
import math
import os
import socket
import struct
import sys
import time

TOKENS = ["A", "B", "C", "D", "E", "F", "G", "H", "Yes", "No", "1", "2", "3", "4", "5", "\u00e9\u2713", " A", "the", "I", "\n"]
IDS = {t: 100 + i for i, t in enumerate(TOKENS)}
LABELS = [chr(65 + i) for i in range(26)] + ["Yes", "No"] + [str(i) for i in range(1, 10)]
for i, t in enumerate(LABELS):
    IDS.setdefault(t, 500 + i)
TRUE_IDS = json.load(open(sys.argv[3])) if len(sys.argv) > 3 else {}


def id_of(faults, token):
    n = TRUE_IDS.get(token, 9) if "true-ids" in faults else IDS.get(token, 7)
    return n + (1 if "wrong-c" in faults and token == "C" else 0)


def numbers(prompt, mass=0.999):
    """Log-probabilities of TOKENS after this prompt."""
    h = hashlib.sha256(prompt.encode()).digest()
    w = [math.exp(h[i % 32] / 40 - i * 0.05) for i in range(len(TOKENS))]
    return [(t, math.log(mass * x / sum(w))) for t, x in zip(TOKENS, w)]


class World:
    """What is remembered per name."""

    def __init__(self):
        self.requests = 0
        self.prompts = {}
        self.lists = 0
        self.last = {}


WORLDS = {}


class Raw:
    """An answer that is not an ordinary one: bytes, and whether to close (or reset) behind them."""

    def __init__(self, data, close=True, reset=False, pieces=None):
        self.data, self.close, self.reset, self.pieces = data, close, reset, pieces


def http(status, body, headers=(), kind="application/json"):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def knowing(faults, text):
    """Numbers of a model that can read: Yes where the state says so."""
    yes = ("Yes. Yes." in text) != ("lies" in faults)
    good = {"Yes": -0.2 if yes else -3.0, "No": -3.0 if yes else -0.2}
    return [(t, good.get(t, -6.0 - i / 10)) for i, t in enumerate(TOKENS)]


def shape(faults, path, top, pairs, asked):
    """An answer in the shape that faults name, else in the one of the path."""
    usage = {"prompt_tokens": 3 if "cut" in faults else 100000, "completion_tokens": 1}
    pairs = sorted(pairs, key=lambda p: -p[1])[:top]
    entry = lambda t, p: {"token": t, "logprob": p, "bytes": list(t.encode())}  # noqa: E731
    with_id = lambda t, p: {"id": id_of(faults, t), **entry(t, p)}  # noqa: E731
    if "ids" in faults:
        first = {**with_id(*pairs[0]), "top_logprobs": [with_id(t, p) for t, p in pairs]}
        return {"choices": [{"index": 0, "text": "x", "logprobs": {"content": [first]}}], "usage": usage}
    if "native" in faults:
        return {"completion_probabilities": [{"id": 1, "token": "x", "logprob": -1, "top_logprobs": [with_id(t, p) for t, p in pairs]}], "tokens_evaluated": 100000}
    if "linear" in faults:
        return {"completion_probabilities": [{"content": "x", "probs": [{"tok_str": t, "prob": math.exp(p)} for t, p in pairs]}]}
    if path.endswith("/chat/completions"):
        return {"choices": [{"message": {"content": "x"}, "logprobs": {"content": [{**entry(*pairs[0]), "top_logprobs": [entry(t, p) for t, p in pairs]}]}}], "usage": usage}
    table = {(f"token_id:{id_of(faults, t)}" if "token-ids" in faults else t): p for t, p in pairs}
    return {"choices": [{"index": 0, "text": "x", "logprobs": {"tokens": ["x"], "top_logprobs": [table]}}], "usage": usage}


def decision(faults, asked):
    q = asked["questions"]["decision"]
    h = hashlib.sha256(json.dumps(asked["state"]).encode()).digest()
    if q["type"] == "noul" and "knows" in faults:
        return {"answers": {"decision": {"type": "noul", "noul": 0.9 if "Yes. Yes." in asked["state"] else 0.1}}}
    if q["type"] == "noul":
        return {"answers": {"decision": {"type": "noul", "noul": round(h[0] / 255, 2)}}}
    names = list(q["criteria"])
    w = [1 + h[i] for i in range(len(names))]
    p = [x / sum(w) for x in w]
    return {"answers": {"decision": {"type": q["type"], "probabilities": p if q["type"] == "score" else dict(zip(names, p))}}}


def bad_text(faults, pairs):
    """Answers that are text already: what json.dumps would not write."""
    wrap = lambda inner: ('{"choices":[{"logprobs":' + inner + "}]}").encode()  # noqa: E731
    table = {
        "nan": wrap('{"top_logprobs":[{"A":NaN,"B":-1.0}]}'),
        "null": wrap('{"top_logprobs":[{"A":null,"B":-1.0}]}'),
        "sentinel": wrap('{"top_logprobs":[{"A":-9999.0,"B":-1.0}]}'),
        "positive": wrap('{"top_logprobs":[{"A":0.5,"B":-1.0}]}'),
        "too-much": wrap('{"top_logprobs":[{"A":-0.1,"B":-0.1}]}'),
        "no-logprobs": wrap("null"),
        "no-list": wrap('{"top_logprobs":[null]}'),
        "empty": wrap('{"content":[]}'),
        "no-choices": b'{"id":"x"}',
        "error-200": b'{"error":{"message":"out of memory"}}',
        "twice": wrap('{"top_logprobs":[{"A":-2.0,"B":-1.0,"A":-2.0,"C":-4.0}]}'),
        "think": wrap('{"top_logprobs":[{"<think>":-0.01,"A":-6.0,"B":-7.0,"C":-8.0,"Yes":-8,"No":-9}]}'),
        "prob-zero": b'{"completion_probabilities":[{"probs":[{"tok_str":"A","prob":0.0}]}]}',
        "prob-two": b'{"completion_probabilities":[{"probs":[{"tok_str":"A","prob":2.0}]}]}',
        "few": wrap('{"top_logprobs":[{"A":-0.5,"the":-2.0,"B":-3.0}]}'),
        "spaced": wrap('{"top_logprobs":[{" A":-0.5,"B":-2.0,"C":-3.0," B":-4.0}]}'),
    }
    for name, text in table.items():
        if name in faults:
            return text
    return None


def refuse(faults, asked, headers):
    """4xx answers."""
    if "401" in faults:
        return http(401, {"error": {"message": f"Incorrect API key provided: {headers.get('authorization', 'none')[7:]}. Find yours in the console."}})
    if "key" in faults and headers.get("authorization") != "Bearer right-key":
        return http(401, {"error": {"message": "no such key"}})
    if "400" in faults or ("400-some" in faults and "item 3" in json.dumps(asked)):
        return http(400, {"detail": "the prompt is " + "very " * 200 + "long"})
    if "redirect" in faults:
        return http(302, b"", ["Location: http://example.org/"])
    n = asked.get("top_logprobs") or asked.get("logprobs") or 0
    if "cap5" in faults and n is not True and n > 5:
        return http(400, {"error": {"message": f"logprobs: {n} is more than the 5 that are allowed"}})
    for name in ("top_k", "min_p", "chat_template_kwargs"):
        if "strict" in faults and name in asked:
            return http(422, {"detail": [{"loc": ["body", name], "msg": "Extra inputs are not permitted"}]})
    return None


def fail_once(faults, first, body):
    """What goes wrong at the first attempt of every prompt (or always)."""
    if "always-503" in faults or (first and "503" in faults):
        return http(503, {"error": "loading"})
    if first and "429" in faults:
        return http(429, {"error": {"message": "slow down"}})
    if first and "retry-after" in faults:
        return http(429, {"error": "slow down"}, ["Retry-After: 1"])
    if first and "retry-date" in faults:
        return http(503, {"error": "slow down"}, ["Retry-After: " + email.utils.formatdate(time.time() + 2, usegmt=True)])
    if first and "retry-long" in faults:
        return http(429, {"error": "slow down"}, ["Retry-After: 3600"])
    if first and "reset" in faults:
        return Raw(b"", reset=True)
    if first and "undrawn" in faults:  # the end of the text was drawn: some servers tell nothing then
        return http(200, {"choices": [{"text": "", "finish_reason": "stop", "logprobs": {"tokens": [], "top_logprobs": []}}]})
    if first and "half" in faults:
        whole = http(200, body)
        return Raw(whole[: len(whole) - 20])
    if first and "torn" in faults:
        return http(200, body[: len(body) // 2])
    if "html" in faults:
        return http(200, b"<html><body>Welcome</body></html>", kind="text/html")
    if "huge" in faults:
        return http(200, b" " * (17 << 20))
    return None


def split_utf8(body):
    """Chunks whose borders lie inside characters."""
    at = next(i for i, c in enumerate(body) if c >= 0x80) + 1
    head = b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = lambda b: b"%x\r\n%s\r\n" % (len(b), b)  # noqa: E731
    return Raw(b"", close=False, pieces=[head + chunk(body[:at]), chunk(body[at : at + 1]), chunk(body[at + 1 :]) + b"0\r\n\r\n"])


def models(faults, world):
    world.lists += 1
    if "no-models" in faults:
        return http(404, {"error": "not found"})
    moved = "moved" in faults and world.lists > 1
    entry = {"id": "tiny", "object": "model", "created": int(time.time()), "root": "org/other" if moved else "org/tiny", "max_model_len": 4096}
    listed = [entry, {"id": "second"}] if "two-models" in faults else [entry]
    return http(200, {"object": "list", "data": listed})


def tokenize(faults, asked):
    if "tokenize" not in faults:
        return http(404, {"error": "not found"})
    text = asked.get("content", "")
    ids = [1] if "bos" in faults else []
    if text:
        ids.append(id_of(faults, text))
    return http(200, {"tokens": ids})


def answer(path, headers, raw):
    """The reply to one request: bytes, or Raw, and the seconds to wait."""
    name, _, rest = path.lstrip("/").partition("/")
    faults = set(name.split("+"))
    world = WORLDS.setdefault(name, World())
    if path == "/fixed/stats":
        return http(200, {"answers": Clock.count, "mean_ms": 1000 * Clock.total / max(1, Clock.count)}), 0
    if rest == "stats":
        return http(200, {"requests": world.requests, "prompts": len(world.prompts), "last": world.last}), 0
    if rest == "v1/models":
        bad = refuse(faults & {"401", "key", "redirect"}, {}, headers)
        return bad or models(faults, world), 0
    asked = json.loads(raw)
    if rest.endswith("tokenize"):
        return tokenize(faults, asked), 0
    if not rest.startswith("v1/"):
        return http(404, {"error": "no such path"}), 0
    text = asked.get("prompt") or json.dumps(asked.get("messages") or asked.get("state"))
    probe = "shines by its own light" in text
    bad = refuse(faults, asked, headers)
    if bad and not (probe and "400-some" in faults):
        return bad, 0
    if not probe:
        world.requests += 1
        world.last = asked
    first = not world.prompts.get(text)
    if not probe:
        world.prompts[text] = world.prompts.get(text, 0) + 1
    if "drift" in faults and probe and world.requests:
        text += "another model"
    pairs = numbers(text, 0.01 if "thin" in faults else 0.999)
    if "knows" in faults:
        pairs = knowing(faults, text)
    top = asked.get("top_logprobs") or asked.get("logprobs") or 5
    body = (None if probe else bad_text(faults, pairs)) or json.dumps(
        decision(faults, asked) if rest == "v1/systemone" else shape(faults, path, top, pairs, asked), ensure_ascii=False
    ).encode()
    wait = 30 if first and not probe and "slow" in faults else 0
    if "crawl" in faults and not probe:
        wait = 0.05
    if "uneven" in faults and not probe:
        wait = hashlib.sha256(text.encode()).digest()[5] / 2000
    if probe:
        return http(200, body), 0
    if "gone-after-20" in faults and world.requests > 20:
        return Raw(b"", reset=True), 0
    if "split" in faults:
        return split_utf8(body), wait
    return fail_once(faults, first, body) or http(200, body), wait


FIXED = http(200, shape(set(), "/v1/completions", 20, numbers("fixed"), {}))


class Clock:
    """Answers FIXED after a fixed time: one timer for all. A loop wakes on whole milliseconds, so what is due within
    half of one goes too; the mean time that answers really took is told by GET /fixed/stats."""

    delay = 0.0
    waiting = collections.deque()
    armed = False
    count, total = 0, 0.0

    @classmethod
    def add(cls, loop, transport):
        cls.waiting.append((loop.time(), transport))
        if not cls.armed:
            cls.armed = True
            loop.call_at(cls.waiting[0][0] + cls.delay - 0.0005, cls.fire, loop)

    @classmethod
    def fire(cls, loop):
        now = loop.time()
        while cls.waiting and cls.waiting[0][0] + cls.delay - 0.0005 <= now:
            came, transport = cls.waiting.popleft()
            transport.write(FIXED)
            cls.count += 1
            cls.total += now - came
        cls.armed = bool(cls.waiting)
        if cls.armed:
            loop.call_at(cls.waiting[0][0] + cls.delay - 0.0005, cls.fire, loop)


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data):
        self.data = self.data + data if self.data else data
        while True:
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return
            # The speed measurement asks for nothing but a fixed answer after a fixed time.
            at = self.data.find(b"Content-Length: ", 0, end)
            length = int(self.data[at + 16 : self.data.index(b"\r", at)]) if at >= 0 else 0
            if len(self.data) < end + 4 + length:
                return
            head, body, self.data = self.data[:end], self.data[end + 4 : end + 4 + length], self.data[end + 4 + length :]
            if head.startswith(b"POST /fixed/v1/completions"):
                Clock.add(asyncio.get_running_loop(), self.transport)
                continue
            lines = head.decode().split("\r\n")
            headers = {k.strip().lower(): v.strip() for k, v in (x.split(":", 1) for x in lines[1:])}
            reply, wait = answer(lines[0].split()[1], headers, body)
            asyncio.get_running_loop().create_task(self.send(reply, wait))

    async def send(self, reply, wait):
        if wait:
            await asyncio.sleep(wait)
        t = self.transport
        if t.is_closing():
            return
        if not isinstance(reply, Raw):
            t.write(reply)
            return
        for piece in reply.pieces or [reply.data]:
            t.write(piece)
            await asyncio.sleep(0.01)
        if reply.reset:
            t.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            t.abort()
        elif reply.close:
            t.close()


async def main():
    Clock.delay = float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.0
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=1024)
    with open(sys.argv[1] + ".new", "w") as f:
        print(server.sockets[0].getsockname()[1], file=f)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    parent = os.getppid()
    while os.getppid() == parent:  # ends with the tests that started it
        await asyncio.sleep(1)


asyncio.run(main())
