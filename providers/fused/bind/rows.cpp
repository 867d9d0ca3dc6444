#include "providers/fused/bind.h"

namespace forge::bind {

namespace {

// Returns the factor rounded to the stream's type, in which transformers multiplies.
float factor_of(double scale, Element type) {
  const auto wide = static_cast<float>(scale);
  if (type == Element::f32) return wide;
  Bf16 bf16{};
  F16 f16{};
  from_float(wide, bf16), from_float(wide, f16);
  return type == Element::bf16 ? to_float(bf16) : to_float(f16);
}

const int64_t* rows_read(const Call& c) {
  return c.op.attributes.by_position ? c.rows().position_ids : c.rows().ids;
}

// Returns the address of the row that number 0 reads.
template <class T>
T* first_row(const Call& c, T* table, int64_t bytes, ValueId row) {
  if (!table) return table;
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(table) + static_cast<uintptr_t>(c.op.attributes.position_offset * c.m.width(row) * bytes));
}

CopyRows copy_of(const Call& c, ValueId from, ValueId to) {
  return {.element_bytes = bytes_of(c.m.element(from)),
          .rows = c.m.targets,
          .width = c.m.width(from),
          .x = c.m.data(from),
          .x_stride = c.m.stride(from),
          .y = c.m.data(to),
          .y_stride = c.m.stride(to)};
}

}  // namespace

EmbeddingForward embed(const Call& c) {
  const Element type = c.m.element(c.out(0));
  return {.type = type,
          .tokens = c.tokens(),
          .width = c.m.width(c.out(0)),
          .vocab = c.module().rows - c.op.attributes.position_offset,
          .ids = rows_read(c),
          .table = first_row(c, c.module().weight, bytes_of(c.module().held), c.out(0)),
          .y = c.m.data(c.out(0)),
          .y_stride = c.m.stride(c.out(0)),
          .scale = factor_of(c.op.attributes.scale, type),
          .table_type = c.module().held};
}

EmbeddingBackward embed_backward(const Call& c) {
  const Element type = c.m.element(c.in(0));
  return {.type = type,
          .tokens = c.tokens(),
          .width = c.m.width(c.in(0)),
          .vocab = c.module().rows - c.op.attributes.position_offset,
          .ids = rows_read(c),
          .d_y = c.m.data(c.in(0)),
          .d_y_stride = c.m.stride(c.in(0)),
          .d_table = first_row(c, c.module().d_weight, sizeof(float), c.in(0)),
          .scale = factor_of(c.op.attributes.scale, type),
          .frozen = c.op.attributes.frozen_row};
}

CopyRows gather(const Call& c) {
  CopyRows args = copy_of(c, c.in(0), c.out(0));
  args.from = c.batch.loss_positions;
  return args;
}

CopyRows scatter(const Call& c) {
  FORGE_CHECK(!c.op.attributes.accumulate, "supervised rows of a value that has another gradient");
  CopyRows args = copy_of(c, c.in(0), c.out(0));
  args.to = c.batch.loss_positions;
  return args;
}

CopyRows copy(const Call& c, int64_t rows, const Part& from, const Part& to) {
  return {.element_bytes = c.bytes(),
          .rows = rows,
          .width = from.width,
          .x = from.data,
          .x_stride = from.stride,
          .y = to.data,
          .y_stride = to.stride};
}

// The first output is in the memory of the second input (add) or of the first (add_gradient);
// if the types differ, in its own.
AddRows add(const Call& c) {
  const ValueId sum = c.out(0);
  const bool apart = c.m.graph.buffer_of(c.in(1)).type != c.m.graph.buffer_of(sum).type;
  const ValueId more = c.op.kind == OpKind::add && !apart ? c.in(0) : c.in(1);
  AddRows args{c.m.element(sum), c.m.rows(sum), c.m.width(sum), c.m.data(more),
               c.m.stride(more), c.m.data(sum), c.m.stride(sum)};
  args.x_type = c.m.element(more);
  if (apart) args.to = c.m.data(c.in(0)), args.to_stride = c.m.stride(c.in(0));
  return args;
}

// Scales in place, from one type to the other, or adds to a gradient.
ScaleRows scale(const Call& c) {
  const ValueId x = c.in(0), y = c.out(0);
  return {.type = c.m.element(y),
          .rows = c.m.rows(x),
          .width = c.m.width(x),
          .x = c.m.data(x),
          .x_stride = c.m.stride(x),
          .y = c.m.data(y),
          .y_stride = c.m.stride(y),
          .factor = static_cast<float>(c.op.attributes.scale),
          .accumulate = c.op.attributes.accumulate,
          .x_type = c.m.element(x)};
}

}  // namespace forge::bind
