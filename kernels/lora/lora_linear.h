#pragma once
// The two schedules of lora_linear_args.h as products of `multiply(Gemm)`, whoever computes them.
#include "kernels/lora/lora_linear_args.h"

namespace forge {

// Element (row, column) of a matrix, as the begin of an operand.
inline GemmOperand part(const LoraLinear& l, const void* base, int64_t stride, int64_t row, int64_t column,
                        bool transposed = false) {
  return {static_cast<const char*>(base) + (row * stride + column) * bytes_of(l.type), stride, transposed};
}

template <class Multiply>
void lora_linear_forward(const LoraLinear& l, Multiply multiply) {
  const int64_t outs = l.outs(), ranks = l.ranks(), bytes = bytes_of(l.type);
  const bool concatenated = l.schedule == LoraSchedule::concatenated;
  const GemmOperand x = part(l, l.x, l.x_stride, 0, 0),
                    weights = part(l, l.packed, l.packed_stride, 0, 0, true);
  char* s = static_cast<char*>(l.x) + l.width * bytes;
  multiply(Gemm{l.type, l.tokens, ranks, l.width, x, part(l, l.packed, l.packed_stride, outs, 0, true),
                l.type, s, l.x_stride});
  multiply(Gemm{l.type, l.tokens, outs, concatenated ? l.width + ranks : l.width, x, weights, l.type, l.y,
                l.y_stride});
  if (concatenated) return;
  multiply(Gemm{l.type,
                l.tokens,
                outs,
                ranks,
                {s, l.x_stride},
                part(l, l.packed, l.packed_stride, 0, l.width, true),
                l.type,
                l.y,
                l.y_stride,
                1,
                /*add=*/true});
}

template <class Multiply>
void lora_linear_backward(const LoraLinearBackward& args, Multiply multiply) {
  const LoraLinear& l = args.linear;
  const int64_t outs = l.outs(), ranks = l.ranks(), bytes = bytes_of(l.type);
  const bool concatenated = l.schedule == LoraSchedule::concatenated;
  const GemmOperand d_y = part(l, l.y, l.y_stride, 0, 0);
  char* d_s = static_cast<char*>(l.y) + outs * bytes;
  multiply(Gemm{l.type, l.tokens, ranks, outs, d_y, part(l, l.packed, l.packed_stride, 0, l.width), l.type,
                d_s, l.y_stride});
  multiply(Gemm{l.type,
                ranks,
                l.width,
                l.tokens,
                {d_s, l.y_stride, true},
                part(l, l.x, l.x_stride, 0, 0),
                Element::f32,
                args.d_a,
                l.width,
                1,
                /*add=*/true});
  for (int64_t i = 0, first = 0; i < l.members; first += l.out[i++])
    multiply(Gemm{l.type, l.out[i], l.rank, l.tokens, part(l, l.y, l.y_stride, 0, first, true),
                  part(l, l.x, l.x_stride, 0, l.width + i * l.rank), Element::f32, args.d_b + first * l.rank,
                  l.rank, l.scale, /*add=*/true});
  if (!args.d_x) return;
  const GemmOperand weights = part(l, l.packed, l.packed_stride, 0, 0);
  multiply(Gemm{l.type, l.tokens, l.width, concatenated ? outs + ranks : outs, d_y, weights, l.type, args.d_x,
                args.d_x_stride});
  if (concatenated) return;
  multiply(Gemm{l.type,
                l.tokens,
                l.width,
                ranks,
                {d_s, l.y_stride},
                part(l, l.packed, l.packed_stride, outs, 0),
                l.type,
                args.d_x,
                args.d_x_stride,
                1,
                /*add=*/true});
}

}  // namespace forge
