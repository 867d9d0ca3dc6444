// Linear layers whose adapters are folded into their products (core/graph/fold_adapters.h).
#include <algorithm>

#include "core/base/error.h"
#include "core/graph/fold_adapters.h"
#include "core/graph/fold_gates.h"
#include "core/model/forward.h"
#include "providers/fused/folded_sums.h"
#include "providers/fused/gated_sizes.h"
#include "providers/fused/linear.h"
#include "providers/fused/parts.h"

namespace forge::fused {
namespace {

// A packed weight [N + R, K + R]: W with B beside it, and A below them.
struct Packed {
  char* data = nullptr;
  int64_t stride = 0, outs = 0, ranks = 0, in = 0, element_bytes = 0;

  void* at(int64_t row, int64_t column) const { return data + (row * stride + column) * element_bytes; }
};

Packed packed_of(const FusedRun& r) {
  const FusedModule& first = r.module();
  Packed p{static_cast<char*>(const_cast<void*>(first.weight)), first.stride, outs_of(r.m.graph, r.op), ranks_of(r.m.graph, r.op),
           r.use().in, r.bytes()};
  FORGE_CHECK(first.held == r.type() && p.stride >= p.in + p.ranks, r.use().path << " has no room for adapters in its weight");
  return p;
}

// Adapted modules that one product may compute together.
struct Run {
  size_t module = 0;                 // the first
  int64_t row = 0, rows = 0;         // of W, through which they reach
  int64_t rank_row = 0, ranks = 0;   // of A
};

// Returns runs of neighbours among the adapted modules, as long as `joins(module, next module)`.
template <class Joins>
std::vector<Run> runs_of(const FusedRun& r, Joins joins) {
  std::vector<Run> runs;
  int64_t row = 0, rank_row = 0;
  size_t last = 0;
  for (size_t i = 0; i < r.op.modules.size(); row += r.use(i).out, rank_row += r.use(i).rank, ++i) {
    if (r.use(i).rank == 0) continue;
    if (runs.empty() || !joins(last, i)) runs.push_back({i, row, 0, rank_row, 0});
    runs.back().rows = row + r.use(i).out - runs.back().row;
    runs.back().ranks = rank_row + r.use(i).rank - runs.back().rank_row;
    last = i;
  }
  return runs;
}

std::vector<Run> runs_of_one_scale(const FusedRun& r) {
  return runs_of(r, [&](size_t i, size_t next) { return r.module(i).scale == r.module(next).scale; });
}

// Returns runs of modules whose gradients of A are consecutive in memory.
std::vector<Run> runs_of_gradients(const FusedRun& r) {
  return runs_of(r, [&](size_t i, size_t next) { return r.module(i).d_a + r.use(i).rank * r.use(i).in == r.module(next).d_a; });
}

void* columns_from(const FusedRun& r, const Part& part, int64_t column) {
  return static_cast<char*>(part.data) + column * r.bytes();
}

// Returns the product gradient [rows, columns] += aᵀ b over all tokens.
Gemm gradient_of(const FusedRun& r, float* gradient, const GemmOperand& a, int64_t rows, const GemmOperand& b, int64_t columns) {
  return {.type = r.type(),
          .m = rows,
          .n = columns,
          .k = r.m.tokens,
          .a = {a.data, a.stride, /*transposed=*/true},
          .b = b,
          .out_type = Element::f32,
          .out = gradient,
          .out_stride = columns,
          .add = true,
          .workspace = r.workspace};
}

// Returns runs of neighbours of one shape whose gradients of B have equal distances.
std::vector<Run> runs_of_equals(const FusedRun& r) {
  return runs_of(r, [&](size_t i, size_t next) {
    const bool equal = next == i + 1 && r.use(i).out == r.use(next).out && r.use(i).rank == r.use(next).rank;
    const bool first = i == 0 || r.use(i - 1).rank != r.use(i).rank || r.use(i - 1).out != r.use(i).out;
    return equal && (first || r.module(i).d_b - r.module(i - 1).d_b == r.module(next).d_b - r.module(i).d_b);
  });
}

// Returns the arguments of the device's kernel, without the operands.
template <class Args>
Args sums_of(const FusedRun& r) {
  auto args = folded_sums<Args>(r.m.graph, r.op, r.m.capacity);
  args.type = r.type(), args.tokens = r.m.tokens;
  for (int64_t i = 0; i < std::min(args.members, kMaxFoldedMembers); ++i)
    args.member[i].scale = r.module(static_cast<size_t>(i)).scale, args.member[i].d_b = r.module(static_cast<size_t>(i)).d_b;
  args.counters = r.modules.counters(), args.workspace = r.workspace;
  return args;
}

}  // namespace

void folded_linear(const FusedRun& r) {
  const Packed w = packed_of(r);
  const Part x = whole(r, r.in(0)), y = whole(r, r.out(0));
  bool biased = false;
  for (size_t i = 0; i < r.op.modules.size(); ++i) biased |= r.module(i).bias != nullptr;
  for (size_t i = 0; biased && i < r.op.modules.size(); ++i) {
    const Part to = part(r, r.out(0), i);
    FORGE_CHECK(r.module(i).bias, "modules of one product with and without a bias");
    copy(r, r.m.tokens, {const_cast<void*>(r.module(i).bias), 0, to.width}, to);
  }
  const Gemm product{.type = r.type(),
                     .m = r.m.tokens,
                     .n = w.outs,
                     .k = w.in + w.ranks,
                     .a = {x.data, x.stride},
                     .b = {w.data, w.stride, /*transposed=*/true},
                     .out_type = r.type(),
                     .out = y.data,
                     .out_stride = y.stride,
                     .add = biased};
  r.device.run(plus(product, added(r), r.workspace));
}

void folded_input_gradient(const FusedRun& r) {
  const Packed w = packed_of(r);
  const Part d_y = whole(r, r.in(0)), d_x = whole(r, r.out(0));
  r.device.run(Gemm{.type = r.type(),
                    .m = r.m.tokens,
                    .n = w.in,
                    .k = w.outs + w.ranks,
                    .a = {d_y.data, d_y.stride},
                    .b = {w.data, w.stride},
                    .out_type = r.type(),
                    .out = d_x.data,
                    .out_stride = d_x.stride,
                    .add = r.op.attributes.accumulate});
}

void adapter_sums(const FusedRun& r) {
  const Packed w = packed_of(r);
  const Part x = whole(r, r.in(0)), s = whole(r, r.out(0)), kept = r.op.out.size() > 1 ? whole(r, r.out(1)) : Part{};
  if (auto args = sums_of<AdapterSums>(r); r.device.refusal(args).empty()) {
    args.x = x.data, args.x_stride = x.stride, args.a = w.at(w.outs, 0), args.a_stride = w.stride;
    args.s = s.data, args.s_stride = s.stride, args.kept = kept.data, args.kept_stride = kept.stride;
    return r.device.run(args);
  }
  for (const Run& run : runs_of_one_scale(r))
    r.device.run(Gemm{.type = r.type(),
                      .m = r.m.tokens,
                      .n = run.ranks,
                      .k = w.in,
                      .a = {x.data, x.stride},
                      .b = {w.at(w.outs + run.rank_row, 0), w.stride, /*transposed=*/true},
                      .out_type = r.type(),
                      .out = columns_from(r, s, run.rank_row),
                      .out_stride = s.stride,
                      .alpha = r.module(run.module).scale});
  if (kept.data) copy(r, r.m.tokens, s, kept);
}

void adapter_sums_gradient(const FusedRun& r) {
  const Packed w = packed_of(r);
  const Part d_y = whole(r, r.in(0)), s = whole(r, r.in(1)), d_s = whole(r, r.out(0));
  if (auto args = sums_of<AdapterSumsGradient>(r); r.device.refusal(args).empty()) {
    args.d_y = d_y.data, args.d_y_stride = d_y.stride, args.b = w.at(0, w.in), args.b_stride = w.stride;
    args.s = s.data, args.s_stride = s.stride, args.d_s = d_s.data, args.d_s_stride = d_s.stride;
    return r.device.run(args);
  }
  for (const Run& run : runs_of_one_scale(r))
    r.device.run(Gemm{.type = r.type(),
                      .m = r.m.tokens,
                      .n = run.ranks,
                      .k = run.rows,
                      .a = {columns_from(r, d_y, run.row), d_y.stride},
                      .b = {w.at(run.row, w.in + run.rank_row), w.stride},
                      .out_type = r.type(),
                      .out = columns_from(r, d_s, run.rank_row),
                      .out_stride = d_s.stride,
                      .alpha = r.module(run.module).scale});
  for (const Run& run : runs_of_equals(r)) {
    const int64_t out = r.use(run.module).out, rank = r.use(run.module).rank;
    Gemm product = gradient_of(r, r.module(run.module).d_b, {columns_from(r, d_y, run.row), d_y.stride}, out,
                               {columns_from(r, s, run.rank_row), s.stride}, rank);
    product.batch = run.rows / out, product.a_step = out, product.b_step = rank;
    if (product.batch > 1) product.out_step = r.module(run.module + 1).d_b - r.module(run.module).d_b;
    r.device.run(product);
  }
}

void adapter_input_gradient(const FusedRun& r) {
  const Part d_s = whole(r, r.in(0)), x = whole(r, r.in(1));
  for (const Run& run : runs_of_gradients(r))
    r.device.run(gradient_of(r, r.module(run.module).d_a, {columns_from(r, d_s, run.rank_row), d_s.stride}, run.ranks,
                             {x.data, x.stride}, x.width));
}

namespace {

template <class Args>
Args gated_of(const FusedRun& r, ValueId gate, ValueId up) {
  auto args = gated_sizes<Args>(r.m.graph, r.op, r.m.capacity);
  args.type = r.type(), args.tokens = r.m.tokens, args.function = function_of(r.op.attributes.gate);
  args.gate = r.m.data(gate), args.gate_stride = r.m.stride(gate), args.up = r.m.data(up), args.up_stride = r.m.stride(up);
  args.counters = r.modules.counters(), args.workspace = r.workspace;
  return args;
}

// Returns the run of one of the ops that were folded into r's op.
FusedRun as(const FusedRun& r, const Op& part) { return {r.device, r.m, part, r.workspace, r.modules, r.batch}; }

bool gated_sums(const FusedRun& r) {
  auto args = gated_of<GatedSums>(r, r.in(0), r.in(1));
  if (!r.device.refusal(args).empty()) return false;
  const Packed w = packed_of(r);
  const Part y = whole(r, r.out(0)), s = whole(r, r.out(1)), kept = r.op.out.size() > 2 ? whole(r, r.out(2)) : Part{};
  args.y = y.data, args.y_stride = y.stride, args.scale = r.module().scale, args.a = w.at(w.outs, 0), args.a_stride = w.stride;
  args.s = s.data, args.s_stride = s.stride, args.kept = kept.data, args.kept_stride = kept.stride;
  r.device.run(args);
  return true;
}

bool gated_gradients(const FusedRun& r) {
  auto args = gated_of<GatedGradients>(r, r.in(1), r.in(2));
  if (!r.device.refusal(args).empty()) return false;
  args.d_y = r.m.data(r.in(0)), args.d_y_stride = r.m.stride(r.in(0));
  for (const Op& part : gate_parts(r.op)) {
    const FusedRun of = as(r, part);
    if (part.kind == OpKind::adapter_input_gradient)
      args.d_s = r.m.data(part.in[0]), args.d_s_stride = r.m.stride(part.in[0]), args.d_a = of.module().d_a;
    if (part.kind != OpKind::adapter_sums_gradient) continue;
    const Packed w = packed_of(of);
    const Part s = whole(of, part.in[1]), d_s = whole(of, part.out[0]);
    int64_t row = 0, first = 0;  // of B, and of its ranks
    for (size_t i = 0; i < 2; row += of.use(i).out, first += of.use(i).rank, ++i) {
      GatedSide& side = args.side[i];
      side.scale = of.module(i).scale, side.d_b = of.module(i).d_b;
      side.b = w.at(row, w.in + first), side.b_stride = w.stride;
      side.s = columns_from(r, s, first), side.s_stride = s.stride, side.d_s = columns_from(r, d_s, first), side.d_s_stride = d_s.stride;
    }
  }
  r.device.run(args);
  return true;
}

}  // namespace

bool gate_with_adapters(const FusedRun& r) { return r.op.kind == OpKind::glu_sums ? gated_sums(r) : gated_gradients(r); }

void place_adapters(const FusedRun& r) {
  const Packed w = packed_of(r);
  for (const Run& one : runs_of(r, [](size_t, size_t) { return false; })) {
    CopyRows a{.element_bytes = r.bytes(), .rows = one.ranks, .width = w.in};
    a.x = r.module(one.module).a, a.x_stride = w.in;
    a.y = w.at(w.outs + one.rank_row, 0), a.y_stride = w.stride;
    r.device.run(a);
    CopyRows b{.element_bytes = r.bytes(), .rows = one.rows, .width = one.ranks};
    b.x = r.module(one.module).b, b.x_stride = one.ranks;
    b.y = w.at(one.row, w.in + one.rank_row), b.y_stride = w.stride;
    r.device.run(b);
  }
}

}  // namespace forge::fused
