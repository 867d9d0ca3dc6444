"""Finds places where a gradient jumps: a clamp's bounds, and the choice between two experts.

Rounding alone sends a value that lies on one to either side, which differs between processors; no
golden may depend on that.
"""
import torch

NEAR = 1e-5  # about ten times the error of an activation by rounding after ten steps


class Edges:
    """Records in `closest`, while it is entered, the least distance of a clamped or chosen value to
    its edge.
    """

    def __init__(self):
        self.closest = float("inf")

    def note(self, distances: torch.Tensor) -> None:
        if distances.numel():
            self.closest = min(self.closest, distances.abs().min().item())

    def __enter__(self):
        self.clamp, self.topk = torch.Tensor.clamp, torch.topk
        self.method = torch.Tensor.topk

        def clamp(x, min=None, max=None):
            if torch.is_grad_enabled() and x.is_floating_point():
                for bound in (min, max):
                    if isinstance(bound, (int, float)):
                        self.note(x.detach() - bound)
            return self.clamp(x, min, max)

        def topk(x, k, *rest, **named):
            if k < x.shape[-1]:
                ranked = x.detach().float().sort(-1, descending=True)[0]
                gap = ranked[..., k - 1] - ranked[..., k]
                self.note(gap[gap.isfinite()])
            return self.topk(x, k, *rest, **named)

        torch.Tensor.clamp, torch.topk, torch.Tensor.topk = clamp, topk, topk
        return self

    def __exit__(self, *_):
        torch.Tensor.clamp, torch.topk, torch.Tensor.topk = self.clamp, self.topk, self.method
