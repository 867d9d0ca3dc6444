#include "kernels/embedding/embedding_op.h"

#include "core/graph/gradients.h"
#include "kernels/call/run.h"
#include "kernels/embedding/embedding_args.h"

namespace forge {

ValueId embed(Recorder& g, const std::string& module, int64_t vocabulary, int64_t hidden, double scale, int64_t frozen_row, Rows rows) {
  ValueId h = g.graph.new_value(g.name(rows == Rows::source ? "source embedded" : "embedded"), rows, hidden, g.stream);
  const int32_t at = g.module_at(module, ModuleKind::embedding, hidden, vocabulary);
  Attributes& a = g.push(&ops::embed, {}, {h}, {at}).attributes;
  a.scale = scale;
  a.frozen_row = frozen_row;
  return h;
}

ValueId embed_positions(Recorder& g, const std::string& module, int64_t positions, int64_t hidden, int64_t offset, Rows rows) {
  ValueId h = embed(g, module, positions, hidden, 1, -1, rows);
  g.graph.ops.back().attributes.by_position = true;
  g.graph.ops.back().attributes.position_offset = offset;
  return h;
}

namespace {

void derive_embed(Gradients& g, const Op& forward) {
  g.push(g.with_modules(&ops::embed_backward, forward, {g.gradient(forward.out[0])}));
}

// Returns the factor rounded to the stream's type, in which transformers multiplies.
float factor_of(double scale, Element type) {
  const auto wide = static_cast<float>(scale);
  if (type == Element::f32) return wide;
  Bf16 bf16{};
  F16 f16{};
  from_float(wide, bf16), from_float(wide, f16);
  return type == Element::bf16 ? to_float(bf16) : to_float(f16);
}

// Returns the address of the row that number 0 reads.
template <class T>
T* first_row(const Call& c, T* table, int64_t bytes, ValueId row) {
  if (!table) return table;
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(table) + static_cast<uintptr_t>(c.op.attributes.position_offset * c.m.width(row) * bytes));
}

// Returns the arguments that the lookup of `rows` and its gradient share.
template <class Args>
Args lookup(const Call& c, ValueId rows) {
  Args args{.type = c.m.element(rows), .tokens = c.tokens(), .width = c.m.width(rows)};
  args.vocab = c.module().rows - c.op.attributes.position_offset;
  args.ids = c.op.attributes.by_position ? c.rows().position_ids : c.rows().ids;
  args.scale = factor_of(c.op.attributes.scale, args.type);
  return args;
}

EmbeddingForward embed_args(const Call& c) {
  auto args = lookup<EmbeddingForward>(c, c.out(0));
  const OpModule& m = c.module();
  args.table = first_row(c, m.weight, bytes_of(m.held), c.out(0)), args.table_type = m.held;
  c.place(c.out(0), args.y, args.y_stride);
  return args;
}

EmbeddingBackward embed_backward_args(const Call& c) {
  auto args = lookup<EmbeddingBackward>(c, c.in(0));
  args.d_table = first_row(c, c.module().d_weight, sizeof(float), c.in(0));
  args.frozen = c.op.attributes.frozen_row;
  c.place(c.in(0), args.d_y, args.d_y_stride);
  return args;
}

}  // namespace

const OpRecord ops::embed{.name = "embed", .derive = derive_embed, .run = by<embed_args>};
const OpRecord ops::embed_backward{.name = "embed backward", .types = types::any, .run = by<embed_backward_args>, .copies = {.results = 0, .wide = 1}};

}  // namespace forge
