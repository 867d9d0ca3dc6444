"""A server of completions for tests: a tiny Llama in plain Python behind vLLM's endpoints, with
every fault that a server can have. Standard library only.

    with Server(MODEL) as server:
        server.mode = "late"
        job["rollout"] = {"provider": "http", "server": {"url": server.url}}
"""
import hashlib
import json
import math
import random
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import mul
from pathlib import Path


def tensors(path: Path) -> dict:
    """Reads tensors: matrices as lists of rows, vectors as lists."""
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    found = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", entry
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        flat = struct.unpack(f"<{(end - begin) // 4}f", raw[begin:end])
        shape = entry["shape"]
        found[name] = [list(flat[i * shape[1]:(i + 1) * shape[1]]) for i in range(shape[0])] if len(shape) == 2 else list(flat)
    return found


def times(rows: list, vector: list) -> list:
    return [sum(map(mul, row, vector)) for row in rows]


class Llama:
    def __init__(self, folder: Path):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = tensors(folder / "model.safetensors")

    def linear(self, name: str, x: list, adapter) -> list:
        y = times(self.weights[name + ".weight"], x)
        if adapter and name in adapter["pairs"]:
            a, b = adapter["pairs"][name]
            y = [u + adapter["scale"] * v for u, v in zip(y, times(b, times(a, x)))]
        return y

    def norm(self, name: str, x: list) -> list:
        scale = 1 / math.sqrt(sum(map(mul, x, x)) / len(x) + self.config["rms_norm_eps"])
        return [w * v * scale for w, v in zip(self.weights[name], x)]

    def rotated(self, vector: list, position: int) -> list:
        width = self.config["head_dim"]
        half, out = width // 2, []
        for head in range(0, len(vector), width):
            x = vector[head:head + width]
            angles = [position / 10000.0 ** (2 * i / width) for i in range(half)]
            out += [x[i] * math.cos(a) - x[i + half] * math.sin(a) for i, a in enumerate(angles)]
            out += [x[i + half] * math.cos(a) + x[i] * math.sin(a) for i, a in enumerate(angles)]
        return out

    def step(self, token: int, cache: list, adapter) -> list:
        """Returns the logits after one more token; `cache` holds keys and values of each layer."""
        c = self.config
        width, groups = c["head_dim"], c["num_attention_heads"] // c["num_key_value_heads"]
        x = self.weights["model.embed_tokens.weight"][token]
        for layer in range(c["num_hidden_layers"]):
            at, (keys, values) = f"model.layers.{layer}.", cache[layer]
            h = self.norm(at + "input_layernorm.weight", x)
            position = len(keys)
            query = self.rotated(self.linear(at + "self_attn.q_proj", h, adapter), position)
            keys.append(self.rotated(self.linear(at + "self_attn.k_proj", h, adapter), position))
            values.append(self.linear(at + "self_attn.v_proj", h, adapter))
            mixed = []
            for head in range(c["num_attention_heads"]):
                own, kv = query[head * width:(head + 1) * width], head // groups * width
                scores = [sum(map(mul, own, key[kv:kv + width])) / math.sqrt(width) for key in keys]
                weights = [math.exp(s - max(scores)) for s in scores]
                total = sum(weights)
                mixed += [sum(w * value[kv + i] for w, value in zip(weights, values)) / total for i in range(width)]
            x = [u + v for u, v in zip(x, self.linear(at + "self_attn.o_proj", mixed, adapter))]
            h = self.norm(at + "post_attention_layernorm.weight", x)
            gate, up = self.linear(at + "mlp.gate_proj", h, adapter), self.linear(at + "mlp.up_proj", h, adapter)
            x = [u + v for u, v in zip(x, self.linear(at + "mlp.down_proj", [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)], adapter))]
        return times(self.weights["lm_head.weight"], self.norm("model.norm.weight", x))

    def complete(self, prompt: list, adapter, count: int, temperature: float, seed: int, stops: list):
        """Samples a completion; returns its ids and their log-probabilities at the temperature."""
        cache = [([], []) for _ in range(self.config["num_hidden_layers"])]
        for token in prompt:
            logits = self.step(token, cache, adapter)
        draw, ids, logps = random.Random(seed), [], []
        while len(ids) < count:
            scaled = [v / (temperature or 1) for v in logits]
            top = max(scaled)
            norm = top + math.log(sum(math.exp(v - top) for v in scaled))
            if temperature == 0:
                ids.append(scaled.index(top))
            else:
                rest, token = draw.random(), 0
                while token < len(scaled) - 1 and (rest := rest - math.exp(scaled[token] - norm)) > 0:
                    token += 1
                ids.append(token)
            logps.append(scaled[ids[-1]] - norm)
            if ids[-1] in stops:
                return ids, logps, "stop"
            if len(ids) < count:
                logits = self.step(ids[-1], cache, adapter)
        return ids, logps, "length"


def read_adapter(folder: Path) -> dict:
    config = json.loads((folder / "adapter_config.json").read_text())
    found, pairs = tensors(folder / "adapter_model.safetensors"), {}
    for name in found:
        if name.endswith(".lora_A.weight"):
            module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            pairs[module] = (found[name], found[name.replace("lora_A", "lora_B")])
    assert len(found) == 2 * len(pairs)
    return {"scale": config["lora_alpha"] / config["r"], "pairs": pairs,
            "hash": hashlib.sha256((folder / "adapter_model.safetensors").read_bytes()).hexdigest()}


class Server:
    def __init__(self, model: Path, most_adapters: int = 2):
        self.llama, self.adapters, self.most_adapters = Llama(model), {}, most_adapters
        self.mode, self.known, self.asked, self.names = "", {}, [], []
        self.on_asked = lambda count: None
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    server.answer(self, body)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the client was killed

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    @staticmethod
    def send(handler, status: int, body: bytes, cut: bool = False) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:len(body) // 2] if cut else body)
        if cut:
            handler.wfile.flush()
            handler.connection.close()

    def answer(self, handler, body: dict) -> None:
        if handler.path == "/v1/load_lora_adapter":
            return self.load(handler, body)
        if handler.path == "/v1/unload_lora_adapter":
            self.adapters.pop(body["lora_name"], None)
            return self.send(handler, 200, b"Success")
        assert handler.path == "/v1/completions", handler.path
        self.asked.append(body)
        self.on_asked(len(self.asked))
        if self.mode.startswith("status"):
            return self.send(handler, int(self.mode.split()[1]), b'{"error": "out of order"}')
        if self.mode == "late":
            time.sleep(30)
        if self.mode == "slow":  # sometimes, by a varying time
            time.sleep(random.choice([0, 0, 0, 0.15]))
        if body["model"] not in self.adapters:
            return self.send(handler, 404, b'{"message": "The model does not exist"}')
        answer = self.completion(body)
        self.spoil(body, answer)
        written = b" " * (2 << 20) * (self.mode == "large") + json.dumps(answer).encode()
        self.send(handler, 200, b"<html>" if self.mode == "no json" else written, cut=self.mode == "cut")

    def load(self, handler, body: dict) -> None:
        name = body["lora_name"]
        if self.mode == "loads nothing":
            return self.send(handler, 404, b'{"detail": "Not Found"}')
        if name in self.adapters:
            return self.send(handler, 400, f"The lora adapter '{name}' has already been loaded.".encode())
        if len(self.adapters) >= self.most_adapters:
            return self.send(handler, 400, b"no place for another adapter")
        try:
            self.adapters[name] = read_adapter(Path(body["lora_path"]))
        except OSError as error:
            return self.send(handler, 404, str(error).encode())
        self.names.append(name)
        self.send(handler, 200, b"Success: LoRA adapter added")

    def completion(self, body: dict) -> dict:
        adapter = None if self.mode == "ignores the adapter" else self.adapters[body["model"]]
        key = json.dumps([adapter and adapter["hash"], body["prompt"], body["max_tokens"], body["temperature"], body["seed"], body["stop_token_ids"]])
        with self.lock:
            if key not in self.known:
                self.known[key] = self.llama.complete(body["prompt"], adapter, body["max_tokens"], body["temperature"], body["seed"],
                                                      body["stop_token_ids"])
        ids, logps, finish = self.known[key]
        choice = {"index": 0, "text": "…", "finish_reason": finish, "token_ids": list(ids), "prompt_token_ids": list(body["prompt"]),
                  "logprobs": {"token_logprobs": list(logps), "tokens": [f"token_id:{i}" for i in ids]}}
        return {"model": body["model"], "choices": [choice]}

    def spoil(self, body: dict, answer: dict) -> None:
        choice, mode = answer["choices"][0], self.mode
        logps = choice["logprobs"]["token_logprobs"]
        if mode == "other ids":
            choice["token_ids"] = [3 + (i * 7 + 11) % 300 for i in choice["token_ids"]]
            choice["finish_reason"] = "length" if len(choice["token_ids"]) == body["max_tokens"] else choice["finish_reason"]
        elif mode == "too few logps":
            logps.pop()
        elif mode == "nan":
            logps[0] = float("nan")
        elif mode == "null":
            logps[0] = None
        elif mode == "positive":
            logps[0] = 0.5
        elif mode == "below every float":
            logps[0] = -1e308
        elif mode == "two choices":
            answer["choices"] *= 2
        elif mode == "other model":
            answer["model"] = "base"
        elif mode == "other prompt":
            choice["prompt_token_ids"] = [1, *choice["prompt_token_ids"]]
        elif mode == "too long":
            choice["token_ids"] = choice["token_ids"] * (body["max_tokens"] + 1)
        elif mode == "unknown id":
            choice["token_ids"][0] = 384
        elif mode == "texts alone":
            del choice["token_ids"]
            choice["logprobs"]["tokens"] = ["a" for _ in logps]
        elif mode == "no logps":
            choice["logprobs"] = None
        elif mode == "past the stop":
            choice["token_ids"][0] = body["stop_token_ids"][0]
        elif mode == "cut short":
            choice["token_ids"], logps[:] = choice["token_ids"][:1], logps[:1]
            choice["finish_reason"] = "length"
        elif mode == "aborted":
            choice["finish_reason"] = "abort"
        elif mode == "only token_id":
            del choice["token_ids"]
