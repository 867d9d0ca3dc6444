#include "kernels/lora/folded_op.h"

#include <algorithm>

#include "kernels/linear/products.h"
#include "kernels/lora/folded_space.h"
#include "kernels/lora/lora_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace flops {

double adapter_sums(const Graph& graph, const Op& op, double rows, double) {
  const Sides s = sides(graph, op);
  return 2 * rows * s.ranks * s.in;
}

}  // namespace flops

namespace bind {
namespace {

// Adapted modules that one product may compute together.
struct Run {
  size_t module = 0;                // the first
  int64_t row = 0, rows = 0;        // of W, through which they reach
  int64_t rank_row = 0, ranks = 0;  // of A
};

// Returns runs of neighbours among the adapted modules, as long as `joins(module, next module)`.
template <class Joins>
std::vector<Run> runs_of(const Call& c, Joins joins) {
  std::vector<Run> runs;
  int64_t row = 0, rank_row = 0;
  size_t last = 0;
  for (size_t i = 0; i < c.op.modules.size(); row += c.use(i).out, rank_row += c.use(i).rank, ++i) {
    if (c.use(i).rank == 0) continue;
    if (runs.empty() || !joins(last, i)) runs.push_back({i, row, 0, rank_row, 0});
    runs.back().rows = row + c.use(i).out - runs.back().row;
    runs.back().ranks = rank_row + c.use(i).rank - runs.back().rank_row;
    last = i;
  }
  return runs;
}

std::vector<Run> runs_of_one_scale(const Call& c) {
  return runs_of(c, [&](size_t i, size_t next) { return c.module(i).scale == c.module(next).scale; });
}

// Returns runs of modules whose gradients of A are consecutive in memory.
std::vector<Run> runs_of_gradients(const Call& c) {
  return runs_of(c, [&](size_t i, size_t next) {
    return c.module(i).d_a + c.use(i).rank * c.use(i).in == c.module(next).d_a;
  });
}

// Returns `width` columns of a part, from `column` on.
Part columns_of(const Call& c, const Part& part, int64_t column, int64_t width) {
  return {from_column(c, part, column).data, part.stride, width};
}

// Returns runs of neighbours of one shape whose gradients of B have equal distances, forward in
// memory.
std::vector<Run> runs_of_equals(const Call& c) {
  return runs_of(c, [&](size_t i, size_t next) {
    const bool equal = next == i + 1 && c.use(i).out == c.use(next).out && c.use(i).rank == c.use(next).rank &&
                       c.module(i).d_b <= c.module(next).d_b;
    const bool first = i == 0 || c.use(i - 1).rank != c.use(i).rank || c.use(i - 1).out != c.use(i).out;
    return equal && (first || c.module(i).d_b - c.module(i - 1).d_b == c.module(next).d_b - c.module(i).d_b);
  });
}

// Returns the arguments of the device's kernel, without the operands.
template <class Args>
Args sums_of(const Call& c) {
  Args args{.type = c.type(), .tokens = c.tokens(), .planned = c.planned_tokens()};
  args.multiprocessors = c.m.capacity.multiprocessors;
  args.members = static_cast<int64_t>(c.op.modules.size());
  for (size_t i = 0; i < c.op.modules.size() && i < kMaxFoldedMembers; ++i)
    args.member[i] = {
        .out = c.use(i).out, .rank = c.use(i).rank, .scale = c.module(i).scale, .d_b = c.module(i).d_b};
  args.counters = c.counters, args.workspace = c.workspace;
  return args;
}

}  // namespace

Packed packed(const Call& c) {
  const OpModule& first = c.module();
  Packed p{static_cast<char*>(const_cast<void*>(first.weight)),
           first.stride,
           outs_of(c.m.graph, c.op),
           ranks_of(c.m.graph, c.op),
           c.use().in,
           c.bytes()};
  FORGE_CHECK(first.held == c.type() && p.stride >= p.in + p.ranks,
              c.use().path << " has no room for adapters in its weight");
  return p;
}

Gemm folded_linear(const Call& c) {
  const Packed w = packed(c);
  const Part x = columns_of(c, whole(c, c.in(0)), 0, w.in + w.ranks);
  return plus(product(c, c.tokens(), whole(c, c.out(0)), x, {w.data, w.outs, w.stride}, c.module().bias != nullptr), added(c), c.workspace);
}

Gemm folded_input_gradient(const Call& c) {
  const Packed w = packed(c);
  const Part d_x = columns_of(c, whole(c, c.out(0)), 0, w.in);
  return input_gradient(c, c.tokens(), d_x, whole(c, c.in(0)), {w.data, w.outs + w.ranks, w.stride}, c.op.attributes.accumulate);
}

AdapterSums adapter_sums(const Call& c) {
  const Packed w = packed(c);
  const Part x = whole(c, c.in(0)), s = whole(c, c.out(0)),
             kept = c.op.out.size() > 1 ? whole(c, c.out(1)) : Part{};
  auto args = sums_of<AdapterSums>(c);
  args.width = x.width, args.x = x.data, args.x_stride = x.stride, args.a = w.at(w.outs, 0),
  args.a_stride = w.stride;
  args.s = s.data, args.s_stride = s.stride, args.kept = kept.data, args.kept_stride = kept.stride;
  return args;
}

std::vector<Gemm> adapter_sums_products(const Call& c) {
  const Packed w = packed(c);
  const Part x = whole(c, c.in(0)), s = whole(c, c.out(0));
  std::vector<Gemm> products;
  for (const Run& run : runs_of_one_scale(c)) {
    const Weight a{w.at(w.outs + run.rank_row, 0), run.ranks, w.stride};
    const Part to = columns_of(c, s, run.rank_row, run.ranks);
    products.push_back(product(c, c.tokens(), to, columns_of(c, x, 0, w.in), a, false));
    products.back().alpha = c.module(run.module).scale;
  }
  return products;
}

AdapterSumsGradient adapter_sums_gradient(const Call& c) {
  const Packed w = packed(c);
  const Part d_y = whole(c, c.in(0)), s = whole(c, c.in(1)), d_s = whole(c, c.out(0));
  auto args = sums_of<AdapterSumsGradient>(c);
  args.d_y = d_y.data, args.d_y_stride = d_y.stride, args.b = w.at(0, w.in), args.b_stride = w.stride;
  args.s = s.data, args.s_stride = s.stride, args.d_s = d_s.data, args.d_s_stride = d_s.stride;
  return args;
}

std::vector<Gemm> adapter_sums_gradient_products(const Call& c) {
  const Packed w = packed(c);
  const Part d_y = whole(c, c.in(0)), s = whole(c, c.in(1)), d_s = whole(c, c.out(0));
  std::vector<Gemm> products;
  for (const Run& run : runs_of_one_scale(c)) {
    const Weight b{w.at(run.row, w.in + run.rank_row), run.rows, w.stride};
    const Part to = columns_of(c, d_s, run.rank_row, run.ranks), from = columns_of(c, d_y, run.row, run.rows);
    products.push_back(input_gradient(c, c.tokens(), to, from, b, false));
    products.back().alpha = c.module(run.module).scale;
  }
  for (const Run& run : runs_of_equals(c)) {
    const int64_t out = c.use(run.module).out, rank = c.use(run.module).rank;
    Gemm product = weight_gradient(c, c.tokens(), c.module(run.module).d_b, columns_of(c, d_y, run.row, out), columns_of(c, s, run.rank_row, rank));
    product.batch = run.rows / out, product.a_step = out, product.b_step = rank;
    if (product.batch > 1) product.out_step = c.module(run.module + 1).d_b - c.module(run.module).d_b;
    products.push_back(product);
  }
  return products;
}

std::vector<Gemm> adapter_input_gradient(const Call& c) {
  const Part d_s = whole(c, c.in(0)), x = whole(c, c.in(1));
  std::vector<Gemm> products;
  for (const Run& run : runs_of_gradients(c))
    products.push_back(weight_gradient(c, c.tokens(), c.module(run.module).d_a, columns_of(c, d_s, run.rank_row, run.ranks), x));
  return products;
}

void place_adapters(const OpRun& linear) {
  const Packed w = packed(linear);
  for (const Run& one : runs_of(linear, [](size_t, size_t) { return false; })) {
    const OpModule& m = linear.module(one.module);
    const Part a{const_cast<void*>(m.a), w.in, w.in}, b{const_cast<void*>(m.b), one.ranks, one.ranks};
    linear.device.run(copy(linear, one.ranks, a, {w.at(w.outs + one.rank_row, 0), w.stride}));
    linear.device.run(copy(linear, one.rows, b, {w.at(one.row, w.in + one.rank_row), w.stride}));
  }
}

}  // namespace bind

namespace {

// Counts d s by all of B, whose blocks are beside zeros, and the gradient of each block.
double sums_gradient(const Graph& graph, const Op& op, double rows, double) {
  const flops::Sides s = flops::sides(graph, op);
  return 2 * rows * (s.ranks * s.out + flops::factors(graph, op)) - flops::adapter_sums(graph, op, rows, 0);
}

void run_sums(const OpRun& r) {
  if (const AdapterSums args = bind::adapter_sums(r); r.device.refusal(args).empty())
    return r.device.run(args);
  for (const Gemm& product : bind::adapter_sums_products(r)) r.device.run(product);
  if (r.op.out.size() > 1) r.device.run(bind::copy(r, r.tokens(), whole(r, r.out(0)), whole(r, r.out(1))));
}

void run_sums_gradient(const OpRun& r) {
  if (const AdapterSumsGradient args = bind::adapter_sums_gradient(r); r.device.refusal(args).empty())
    return r.device.run(args);
  for (const Gemm& product : bind::adapter_sums_gradient_products(r)) r.device.run(product);
}

void run_input_gradient(const OpRun& r) {
  for (const Gemm& product : bind::adapter_input_gradient(r)) r.device.run(product);
}

// Returns the workspace of products that one kernel computes; a library's products need none.
template <class Args>
int64_t thin(const Args& args) {
  return thin_refusal(args).empty() ? 4 * thin_cut(args).numbers : 0;
}

int64_t sums_workspace(const Call& c) { return c.m.capacity.gpu ? thin(bind::adapter_sums(c)) : 0; }

int64_t sums_gradient_workspace(const Call& c) {
  return c.m.capacity.gpu ? thin(bind::adapter_sums_gradient(c)) : most_workspace(bind::adapter_sums_gradient_products(c));
}

int64_t input_gradient_workspace(const Call& c) { return c.m.capacity.gpu ? 0 : most_workspace(bind::adapter_input_gradient(c)); }

}  // namespace

const OpRecord ops::adapter_sums{.name = "adapter sums",
                                 .flops = flops::adapter_sums,
                                 .bulk = Bulk::products,
                                 .reads = Reads::factors,
                                 .run = run_sums,
                                 .workspace = sums_workspace};
const OpRecord ops::adapter_sums_gradient{.name = "adapter d s, d B",
                                          .flops = sums_gradient,
                                          .bulk = Bulk::products,
                                          .reads = Reads::factors,
                                          .run = run_sums_gradient,
                                          .workspace = sums_gradient_workspace};
const OpRecord ops::adapter_input_gradient{.name = "adapter d A",
                                           .flops = flops::adapter_sums,
                                           .bulk = Bulk::products,
                                           .reads = Reads::factors,
                                           .run = run_input_gradient,
                                           .workspace = input_gradient_workspace};

}  // namespace forge
