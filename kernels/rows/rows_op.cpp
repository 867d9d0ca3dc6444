#include "kernels/rows/rows_op.h"

#include "core/lib/base/error.h"
#include "kernels/call/derive.h"
#include "kernels/call/run.h"

namespace forge {

ValueId add(Recorder& g, ValueId a, ValueId b) {
  const Value in_place = g.graph.value(b);
  const ValueType type = g.graph.buffer_of(a).type;
  FORGE_CHECK(type == g.graph.buffer_of(b).type || type == ValueType::fp32, in_place.name << " is the stream, and comes first in a sum");
  ValueId sum = type == g.graph.buffer_of(b).type
                    ? g.graph.add_value(g.name("stream"), in_place.buffer, in_place.column, in_place.width)
                    : g.like("stream", a, in_place.width, type);
  g.push(&ops::add, {a, b}, {sum});
  return sum;
}

ValueId scale(Recorder& g, ValueId x, double factor) {
  const Value in_place = g.graph.value(x);
  ValueId y = g.graph.add_value(in_place.name + ".scaled", in_place.buffer, in_place.column, in_place.width);
  g.push(&ops::scale, {x}, {y}).attributes.scale = factor;
  return y;
}

ValueId scale_parts(Recorder& g, ValueId x, const PartFactors& factors) {
  const Value in_place = g.graph.value(x);
  ValueId y = g.graph.add_value(in_place.name + ".scaled", in_place.buffer, in_place.column, in_place.width);
  g.push(&ops::scale_parts, {x}, {y}).attributes.factors = std::make_shared<PartFactors>(factors);
  return y;
}

ValueId scale_by(Recorder& g, ValueId x, const std::string& module) {
  const int32_t at = g.module_at(module, ModuleKind::vector, 0, 1);
  g.use_at(at).constant = true, g.use_at(at).trained = false;
  ValueId y = g.over(g.name("scaled stream"), x);
  g.push(&ops::scale, {x}, {y}, {at});
  return y;
}

static ValueId in_type(Recorder& g, ValueId x, ValueType type) {
  if (g.graph.buffer_of(x).type == type) return x;
  ValueId y = g.like("cast", x, g.graph.value(x).width, type);
  g.push(&ops::cast, {x}, {y});
  return y;
}
ValueId in_compute_type(Recorder& g, ValueId x) { return in_type(g, x, ValueType::compute); }
ValueId in_stream_type(Recorder& g, ValueId x) { return in_type(g, x, g.stream); }

ValueId gather(Recorder& g, ValueId h) {
  ValueId rows = g.graph.new_value(g.name("supervised"), Rows::targets, g.graph.value(h).width, g.graph.buffer_of(h).type);
  g.push(&ops::gather, {h}, {rows});
  return rows;
}

namespace {

bool all_of_one_type(const Graph& graph, const Op& op) {
  return types::of_result(graph, op) && graph.buffer_of(op.in[1]).type == graph.buffer_of(op.in[0]).type;
}

bool cast_to_gradient(const Graph& graph, const Op& op) {
  return types::other_than_result(graph, op) && (op.in.size() == 1 || graph.buffer_of(op.in[1]).type == graph.buffer_of(op.out[0]).type);
}

// A branch is of the compute type; the stream, which numbers of the file multiply, may be fp32.
bool branch_or_stream(const Graph& graph, const Op& op) {
  return op.modules.empty() ? types::compute(graph, op) : types::of_result(graph, op);
}

void derive_add(Gradients& g, const Op& forward) {
  const ValueId d_sum = g.gradient(forward.out[0]);
  for (ValueId part : forward.in)
    if (g.wants(part)) g.pass_on(part, d_sum);
}

template <const OpRecord* backward>
void derive_scale(Gradients& g, const Op& forward) {
  // The value that the result was added to may have the same gradient, in the place that would be
  // this one's. Then this one gets another place.
  if (g.shared(forward.out[0])) g.mirror_anew(forward.in[0]);
  derive::added<backward>(g, forward);
}

CopyRows copy_of(const Call& c, ValueId from, ValueId to) {
  CopyRows args = bind::copy(c, c.m.targets, whole(c, from), whole(c, to));
  args.element_bytes = bytes_of(c.m.element(from));
  return args;
}

CopyRows gather_args(const Call& c) {
  CopyRows args = copy_of(c, c.in(0), c.out(0));
  args.from = c.batch.loss_positions;
  return args;
}

// The rows that are not supervised must be zeros before.
CopyRows supervised(const Call& c) {
  FORGE_CHECK(!c.op.attributes.accumulate, "supervised rows of a value that has another gradient");
  CopyRows args = copy_of(c, c.in(0), c.out(0));
  args.to = c.batch.loss_positions;
  return args;
}

// The first output is in the memory of the second input (add) or of the first (add_gradient);
// if the types differ, in its own.
AddRows add_args(const Call& c) {
  const ValueId sum = c.out(0);
  const bool apart = c.m.graph.buffer_of(c.in(1)).type != c.m.graph.buffer_of(sum).type;
  const ValueId more = c.op.kind == &ops::add && !apart ? c.in(0) : c.in(1);
  AddRows args{c.m.element(sum), c.m.rows(sum), c.m.width(sum), c.m.data(more),
               c.m.stride(more), c.m.data(sum), c.m.stride(sum)};
  args.x_type = c.m.element(more);
  if (apart) c.place(c.in(0), args.to, args.to_stride);
  return args;
}

// Scales in place, from one type to the other, or adds to a gradient.
ScaleRows scale_args(const Call& c) {
  auto args = over_rows<ScaleRows>(c, c.in(0));
  args.type = c.m.element(c.out(0)), args.x_type = c.m.element(c.in(0));
  c.place(c.in(0), args.x, args.x_stride);
  c.place(c.out(0), args.y, args.y_stride);
  args.factor = static_cast<float>(c.op.attributes.scale);
  args.accumulate = c.op.attributes.accumulate;
  return args;
}

void run_scale_parts(const OpRun& r) {
  ScaleRows args = scale_args(r);
  const int64_t x_bytes = bytes_of(r.m.element(r.in(0))), y_bytes = bytes_of(r.m.element(r.out(0)));
  const char* x = static_cast<const char*>(args.x);
  char* y = static_cast<char*>(args.y);
  for (const auto& [width, factor] : *r.op.attributes.factors) {
    args.x = x, args.y = y, args.width = width, args.factor = static_cast<float>(factor);
    r.device.run(args);
    x += width * x_bytes, y += width * y_bytes;
  }
}

void run_scatter(const OpRun& r) {
  const ValueId all = r.out(0);
  r.device.clear(r.m.data(all), r.tokens() * r.m.stride(all) * bytes_of(r.m.element(all)));
  r.device.run(supervised(r));
}

}  // namespace

namespace bind {

CopyRows copy(const Call& c, int64_t rows, const Part& from, const Part& to) {
  return {.element_bytes = c.bytes(),
          .rows = rows,
          .width = from.width,
          .x = from.data,
          .x_stride = from.stride,
          .y = to.data,
          .y_stride = to.stride};
}

}  // namespace bind

const OpRecord ops::gather{.name = "gather", .types = types::of_result, .derive = derive::added<&ops::scatter>, .run = by<gather_args>};
const OpRecord ops::scatter{.name = "scatter", .types = types::of_result, .run = run_scatter};
const OpRecord ops::add{.name = "add", .flops = flops::elementwise, .types = types::of_result, .derive = derive_add, .run = by<add_args>};
const OpRecord ops::add_gradient{.name = "add gradient", .flops = flops::elementwise, .types = all_of_one_type, .run = by<add_args>};
const OpRecord ops::cast{.name = "cast", .types = types::other_than_result, .derive = derive::added<&ops::cast_backward>, .run = by<scale_args>};
const OpRecord ops::cast_backward{.name = "cast backward", .flops = flops::elementwise, .types = cast_to_gradient, .run = by<scale_args>};
const OpRecord ops::scale{.name = "scale", .flops = flops::elementwise, .types = branch_or_stream, .derive = derive_scale<&ops::scale_backward>, .run = by<scale_args>};
const OpRecord ops::scale_backward{.name = "scale backward", .flops = flops::elementwise, .types = branch_or_stream, .run = by<scale_args>};
const OpRecord ops::scale_parts{.name = "scale parts", .flops = flops::elementwise, .derive = derive_scale<&ops::scale_parts_backward>, .run = run_scale_parts};
const OpRecord ops::scale_parts_backward{.name = "scale parts backward", .flops = flops::elementwise, .run = run_scale_parts};

}  // namespace forge
