#!/usr/bin/env python3
"""Measures the machine's own rates with torch: measure.py copy|gemm|kconcat|attention|launch|fp8.
One JSON line a figure.

Inputs are random and rotate through more memory than L2 holds; a figure is the median of timed
repetitions."""
import json, statistics, sys

import torch
import torch.nn.functional as F

SHAPES = {  # (N, K) of the linears
    "llama-3.1-8b": {"qkv": (6144, 4096), "o": (4096, 4096), "gate_up": (28672, 4096), "down": (4096, 14336)},
    "llama-3.2-1b": {"qkv": (3072, 2048), "o": (2048, 2048), "gate_up": (16384, 2048), "down": (2048, 8192)},
    "tinyllama": {"qkv": (2560, 2048), "o": (2048, 2048), "gate_up": (11264, 2048), "down": (2048, 5632)},
}


def seconds(run, repeat=15, inner=4):
    for _ in range(5):
        run(0)
    times = []
    for r in range(repeat):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for i in range(inner):
            run(r * inner + i)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000 / inner)
    return statistics.median(times)


def show(**figure):
    print(json.dumps(figure), flush=True)


def random(*shape, stride=None, dtype=torch.bfloat16):
    """Returns a matrix whose rows are `stride` elements apart."""
    full = torch.randn(*shape[:-1], stride or shape[-1], device="cuda", dtype=dtype)
    return full[..., : shape[-1]]


def gemm(tokens_list=(2048, 4096, 8192, 16384), extras=(0,)):
    for model, shapes in SHAPES.items():
        for name, (n, k) in shapes.items():
            for extra in extras:
                for tokens in tokens_list:
                    copies = 3
                    x = [random(tokens, k + extra) for _ in range(copies)]
                    w = [random(n, k + extra) for _ in range(copies)]
                    dy = random(tokens, n)
                    for kind, run in (("nt", lambda i: torch.mm(x[i % copies], w[i % copies].t())),
                                      ("nn", lambda i: torch.mm(dy, w[i % copies]))):
                        time = seconds(run)
                        show(measure="gemm", model=model, linear=name, kind=kind, tokens=tokens, n=n, k=k, extra_k=extra,
                             microseconds=round(time * 1e6, 1),
                             useful_tflops=round(2 * tokens * n * k / time / 1e12, 1))
                    del x, w, dy


def kconcat():
    gemm(tokens_list=(2048, 8192), extras=(0, 16, 48, 64))


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
                "efficient": SDPBackend.EFFICIENT_ATTENTION}
    for head_dim in (64, 128):
        for length in (1024, 2048, 4096, 8192, 16384):
            batch = max(1, 8192 // length)
            q, k, v = (torch.randn(batch, 32, length, head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                       for _ in range(3))
            flops = 4 * batch * 32 * length * length * head_dim / 2  # causal
            for name, backend in backends.items():
                try:
                    with sdpa_kernel(backend):
                        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                        grad = torch.randn_like(out)
                        forward = seconds(lambda i: F.scaled_dot_product_attention(q, k, v, is_causal=True))
                        both = seconds(lambda i: torch.autograd.grad(
                            F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), grad))
                except RuntimeError as error:
                    show(measure="attention", backend=name, head_dim=head_dim, length=length, error=str(error)[:200])
                    continue
                show(measure="attention", backend=name, head_dim=head_dim, length=length, batch=batch,
                     forward_tflops=round(flops / forward / 1e12, 1),
                     forward_backward_tflops=round(3.5 * flops / both / 1e12, 1))


def launch():
    """Measures the cost of a kernel launch, alone and in a replayed graph."""
    x = torch.zeros(1, device="cuda")
    calls = 1000

    def eager(_):
        for _ in range(calls):
            x.add_(1)
    graph = torch.cuda.CUDAGraph()
    eager(0)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        eager(0)
    for name, run in (("eager", eager), ("graph", lambda _: graph.replay())):
        show(measure="launch", how=name, microseconds_per_call=round(seconds(run, 7, 1) / calls * 1e6, 3))


def copy():
    """Measures the bandwidth that kernels which only move memory can reach."""
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    show(measure="copy", gb_per_s=round(2 * x.nbytes / seconds(lambda _: y.copy_(x)) / 1e9))


def fp8():
    if torch.cuda.get_device_capability() < (8, 9):
        return show(measure="fp8", error="needs compute capability 8.9")
    for model in ("llama-3.1-8b", "llama-3.2-1b"):
        for name, (n, k) in SHAPES[model].items():
            for tokens in (2048, 8192):
                x = random(tokens, k).to(torch.float8_e4m3fn)
                w = random(n, k).to(torch.float8_e4m3fn)
                one = torch.ones((), device="cuda")
                rows, columns = torch.ones(tokens, 1, device="cuda"), torch.ones(1, n, device="cuda")
                for scaling, a, b in (("tensor", one, one), ("row", rows, columns)):
                    time = seconds(lambda i: torch._scaled_mm(x, w.t(), a, b, out_dtype=torch.bfloat16,
                                                              use_fast_accum=True))
                    show(measure="fp8", model=model, linear=name, tokens=tokens, scaling=scaling,
                         tflops=round(2 * tokens * n * k / time / 1e12, 1))


{"copy": copy, "gemm": gemm, "kconcat": kconcat, "attention": attention, "launch": launch, "fp8": fp8}[sys.argv[1]]()
