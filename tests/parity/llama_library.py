"""Calls llama.cpp by its C interface, through any shared library that holds it.

Structs are passed as they come from the library's own defaults, so that their layout does not
matter here.

    library = LlamaCpp("libllama.so")
    model = library.load("model.gguf")
    model.tokenize("Hello"), model.logits([1, 2, 3])     # [tokens, vocab], after every token
"""
import ctypes

import numpy as np


class Opaque(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * 1024)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32)] + [(name, ctypes.c_void_p) for name in
                                                 ("token", "embd", "pos", "n_seq_id", "seq_id", "logits")]


def in_f32(parameters: Opaque) -> Opaque:
    """Sets keys and values to f32, and no flash attention, which rounds queries to f16.

    The types are found as the one place after the scalars where f16 (1), their default, occurs
    twice in a row. Flash attention is the last of the four choices that are left open (-1)."""
    words = (ctypes.c_int32 * 256).from_buffer(parameters)
    cache = next(i for i in range(16, 64) if words[i] == 1 and words[i + 1] == 1)
    words[cache] = words[cache + 1] = 0
    choices = next(i for i in range(4, 32) if all(words[i + k] == -1 for k in range(4)))
    words[choices + 3] = 0
    return parameters


def in_plain_buffers(parameters: Opaque) -> Opaque:
    """Switches use_extra_bufts off, which crashes on processors with AMX.

    It is the last switch that is on by default, in the group of switches after the pointers."""
    group = next(i for i in range(48, 128, 8) if any(parameters.bytes[i:i + 8]))
    last = max(i for i in range(group, group + 8) if parameters.bytes[i] == 1)
    parameters.bytes[last] = 0
    return parameters


class LlamaCpp:
    def __init__(self, path: str):
        self.c = c = ctypes.CDLL(path)
        pointer, integer, text = ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p

        def declare(name, result, *arguments):
            getattr(c, name).restype, getattr(c, name).argtypes = result, list(arguments)

        declare("llama_model_default_params", Opaque)
        declare("llama_context_default_params", Opaque)
        declare("llama_model_load_from_file", pointer, text, Opaque)
        declare("llama_init_from_model", pointer, pointer, Opaque)
        declare("llama_model_get_vocab", pointer, pointer)
        declare("llama_vocab_n_tokens", integer, pointer)
        declare("llama_tokenize", integer, pointer, text, integer, pointer, integer, ctypes.c_bool, ctypes.c_bool)
        declare("llama_batch_get_one", Batch, pointer, integer)
        declare("llama_decode", integer, pointer, Batch)
        declare("llama_get_logits_ith", pointer, pointer, integer)
        declare("llama_get_memory", pointer, pointer)
        declare("llama_memory_clear", None, pointer, ctypes.c_bool)
        declare("llama_adapter_lora_init", pointer, pointer, text)
        declare("llama_set_adapters_lora", integer, pointer, ctypes.POINTER(pointer), ctypes.c_size_t,
                ctypes.POINTER(ctypes.c_float))
        declare("llama_set_n_threads", None, pointer, integer, integer)
        declare("llama_free", None, pointer)
        declare("llama_model_free", None, pointer)
        self.said: list[str] = []

        def hear(level: int, message: bytes, data) -> None:
            if level >= 3:  # warnings and errors
                self.said.append(message.decode(errors="replace"))

        self.heard_by = ctypes.CFUNCTYPE(None, ctypes.c_int, text, pointer)(hear)
        c.llama_log_set(self.heard_by, None)
        c.llama_backend_init()

    def load(self, path, context: int = 512) -> "Model":
        return Model(self, str(path), context)


class Model:
    def __init__(self, library: LlamaCpp, path: str, context: int):
        self.c = c = library.c
        self.model = c.llama_model_load_from_file(path.encode(), in_plain_buffers(c.llama_model_default_params()))
        assert self.model, f"llama.cpp does not load {path}: {''.join(library.said[-3:])}"
        parameters = in_f32(c.llama_context_default_params())
        (ctypes.c_int32 * 256).from_buffer(parameters)[0] = context  # the first member
        self.context = c.llama_init_from_model(self.model, parameters)
        c.llama_set_n_threads(self.context, 1, 1)  # several threads would spin and wait for each other on a busy machine
        self.vocab = c.llama_model_get_vocab(self.model)
        self.size = c.llama_vocab_n_tokens(self.vocab)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.c.llama_free(self.context)
        self.c.llama_model_free(self.model)

    def tokenize(self, text: str, add_special: bool = True) -> list[int]:
        raw = text.encode()
        out = (ctypes.c_int32 * (len(raw) + 8))()
        count = self.c.llama_tokenize(self.vocab, raw, len(raw), out, len(out), add_special, True)
        return list(out[:count])

    def _next(self, token: int) -> np.ndarray:
        array = (ctypes.c_int32 * 1)(token)
        assert self.c.llama_decode(self.context, self.c.llama_batch_get_one(array, 1)) == 0
        row = ctypes.cast(self.c.llama_get_logits_ith(self.context, -1), ctypes.POINTER(ctypes.c_float))
        return np.ctypeslib.as_array(row, (self.size,)).copy()

    def logits(self, tokens: list[int]) -> np.ndarray:
        self.c.llama_memory_clear(self.c.llama_get_memory(self.context), True)
        return np.stack([self._next(token) for token in tokens])

    def greedy(self, tokens: list[int], count: int) -> list[int]:
        row, answer = self.logits(tokens)[-1], []
        for _ in range(count):
            answer.append(int(row.argmax()))
            row = self._next(answer[-1])
        return answer

    def set_lora(self, path, scale: float = 1.0) -> None:
        adapter = self.c.llama_adapter_lora_init(self.model, str(path).encode())
        assert adapter, f"llama.cpp does not load the adapter {path}"
        adapters, scales = (ctypes.c_void_p * 1)(adapter), (ctypes.c_float * 1)(scale)
        assert self.c.llama_set_adapters_lora(self.context, adapters, 1, scales) == 0
