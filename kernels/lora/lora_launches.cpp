#include "kernels/lora/lora_cuda.h"

namespace forge {
namespace {

double x_bytes(const LoraGroup& g) { return matrix_bytes(g.type, g.tokens, g.width); }

void add_product(GpuLaunches& list, const Gemm& product) { list.push_back(launches(product).front()); }

// Adds drop(x).
void add_dropped(GpuLaunches& list, const LoraGroup& g) {
  if (g.dropout.probability > 0) list.push_back({"dropout", 2 * x_bytes(g)});
}
// Adds S in the type of its factors.
void add_narrow_sums(GpuLaunches& list, const LoraGroup& g) {
  const int64_t numbers = g.tokens * g.members * g.rank;
  if (g.s_type != g.type) list.push_back({"convert", matrix_bytes(g.s_type, numbers) + matrix_bytes(g.type, numbers)});
}

}  // namespace

GpuLaunches launches(const LoraForward& args) {
  const LoraGroup& g = args.group;
  GpuLaunches list;
  add_dropped(list, g);
  add_product(list, {.type = g.type, .m = g.tokens, .n = g.members * g.rank, .k = g.width, .b = {g.a}, .out_type = g.s_type});
  add_narrow_sums(list, g);
  for (int64_t i = 0; i < g.members; ++i)
    add_product(list, {.type = g.type, .m = g.tokens, .n = g.member[i].out, .k = g.rank, .b = {g.member[i].b}, .out_type = g.type, .add = true});
  return list;
}

GpuLaunches launches(const LoraBackward& args) {
  const LoraGroup& g = args.group;
  const int64_t ranks = g.members * g.rank;
  GpuLaunches list;
  add_dropped(list, g);
  add_narrow_sums(list, g);
  for (int64_t i = 0; i < g.members; ++i) {
    const LoraMember& m = g.member[i];
    add_product(list, {.type = g.type, .m = g.tokens, .n = g.rank, .k = m.out, .b = {m.b}, .out_type = g.type});
    add_product(list, {.type = g.type, .m = m.out, .n = g.rank, .k = g.tokens, .out_type = Element::f32, .out = m.d_b, .add = true});
  }
  add_product(list, {.type = g.type, .m = ranks, .n = g.width, .k = g.tokens, .out_type = Element::f32, .out = args.d_a, .add = true});
  if (!args.d_x) return list;
  const bool masked = g.dropout.probability > 0;
  add_product(list, {.type = g.type, .m = g.tokens, .n = g.width, .k = ranks, .b = {g.a}, .out_type = g.type, .add = !masked});
  if (masked) list.push_back({"dropout", 3 * x_bytes(g)});
  return list;
}

}  // namespace forge
