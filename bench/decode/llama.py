"""Decodes many prompts at once, greedily, by llama.cpp through its C interface.

Reads one JSON request from standard input, {"library", "model", "threads", "tokens", "prompts"},
and writes one answer, {"seconds", "texts"}. Runs in a process of its own, because llama.cpp's
threads wait busily.

All of llama.cpp's defaults are kept (cache in f16, its attention), except for the numbers of
sequences and tokens, which the request decides.
"""
import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))
from llama_library import Batch, LlamaCpp  # noqa: E402

# The first fields of llama_context_params: n_ctx, n_batch, n_ubatch, n_seq_max.
DEFAULTS = [512, 2048, 512, 1]


class Sequences:
    def __init__(self, request: dict):
        self.library = LlamaCpp(request["library"])  # holds the log's callback
        self.c = c = self.library.c
        c.llama_batch_init.restype, c.llama_batch_init.argtypes = Batch, [ctypes.c_int32] * 3
        parameters = c.llama_context_default_params()
        words = (ctypes.c_int32 * 256).from_buffer(parameters)
        assert list(words[:4]) == DEFAULTS, f"another layout of llama_context_params: {list(words[:4])}"
        longest = max(map(len, request["prompts"])) + request["tokens"]
        words[0] = (longest + 255) // 256 * 256 * len(request["prompts"])
        words[3] = len(request["prompts"])
        self.model = c.llama_model_load_from_file(request["model"].encode(), c.llama_model_default_params())
        assert self.model, f"llama.cpp does not load {request['model']}"
        self.context = c.llama_init_from_model(self.model, parameters)
        assert self.context, "llama.cpp makes no context"
        c.llama_set_n_threads(self.context, request["threads"], request["threads"])
        self.vocab = c.llama_vocab_n_tokens(c.llama_model_get_vocab(self.model))
        self.batch = c.llama_batch_init(2048, 0, 1)

    def best(self, tokens: list[tuple[int, int, int, bool]]) -> list[int]:
        """Decodes tokens (id, position, sequence, is_asked); returns the likeliest next id after
        each asked one.
        """
        assert len(tokens) <= 2048
        b, integers = self.batch, ctypes.POINTER(ctypes.c_int32)
        ids, positions, counts = (ctypes.cast(p, integers) for p in (b.token, b.pos, b.n_seq_id))
        sequences, asked = ctypes.cast(b.seq_id, ctypes.POINTER(integers)), ctypes.cast(b.logits, ctypes.POINTER(ctypes.c_int8))
        b.n_tokens = len(tokens)
        for i, (token, position, sequence, wanted) in enumerate(tokens):
            ids[i], positions[i], counts[i], asked[i] = token, position, 1, wanted
            sequences[i][0] = sequence
        assert self.c.llama_decode(self.context, b) == 0
        rows = (ctypes.cast(self.c.llama_get_logits_ith(self.context, i), ctypes.POINTER(ctypes.c_float))
                for i, token in enumerate(tokens) if token[3])
        return [int(np.ctypeslib.as_array(row, (self.vocab,)).argmax()) for row in rows]


def main() -> None:
    request = json.loads(sys.stdin.readline())
    prompts, model = request["prompts"], Sequences(request)
    began = time.monotonic()
    # Reads the prompts in as many rounds as their tokens need.
    last, waiting = [0] * len(prompts), list(range(len(prompts)))
    while waiting:
        tokens, taken = [], []
        while waiting and len(tokens) + len(prompts[waiting[0]]) <= 2048:
            taken.append(waiting.pop(0))
            prompt = prompts[taken[-1]]
            tokens += [(token, i, taken[-1], i + 1 == len(prompt)) for i, token in enumerate(prompt)]
        for number, token in zip(taken, model.best(tokens)):
            last[number] = token
    texts = [[token] for token in last]
    for step in range(request["tokens"] - 1):
        last = model.best([(token, len(prompts[i]) + step, i, True) for i, token in enumerate(last)])
        for text, token in zip(texts, last):
            text.append(token)
    print(json.dumps({"seconds": time.monotonic() - began, "texts": texts}))


if __name__ == "__main__":
    main()
