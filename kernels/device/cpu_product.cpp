#include "kernels/device/cpu_product.h"

#include <cstring>

#include "core/lib/base/error.h"
#include "kernels/common/add_narrow.h"
#include "kernels/device/gemm_tensors.h"
#include "kernels/product/gemm_tiles.h"

namespace forge {

namespace {

// Adds to a copy of c. Only tests that run a GPU's lists on a CPU need it; a CPU saves nothing by
// an addend apart from the result.
void add_to_copy(Gemm g) {
  const int64_t bytes = bytes_of(g.out_type);
  for (int64_t i = 0; i < g.m; ++i)
    std::memcpy(static_cast<char*>(g.out) + i * g.out_stride * bytes, static_cast<const char*>(g.c) + i * g.c_stride * bytes,
                static_cast<size_t>(g.n * bytes));
  g.c = nullptr;
  product_cpu(g);
}

}  // namespace

void product_cpu(const Gemm& g) {
  if (g.add && g.c) return add_to_copy(g);
  if (g.batch > 1) {
    for (int64_t i = 0; i < g.batch; ++i) product_cpu(g.one(i));
    return;
  }
  if (gemm_tiles_pay(g.type) || (g.apart && gemm_tiles_work(g.type))) return gemm_tiles_cpu(g);
  FORGE_CHECK(g.tail_count == 0, "tails of a product that is not forge's own tiles'");
  c10::NoGradGuard no_grad;
  GemmTensors t = tensors_of(g, at::kCPU);
  if (g.out_type == g.type) {
    at::addmm_out(t.out, t.out, t.a, t.b, g.add ? 1 : 0, g.alpha);
    return;
  }
  at::Tensor rounded = at::from_blob(g.workspace, {g.m, g.n}, t.a.options());
  at::addmm_out(rounded, rounded, t.a, t.b, 0, g.alpha);
  if (g.add && t.out.is_contiguous())
    add_narrow(t.out, rounded);
  else if (g.add)
    t.out.add_(rounded);
  else
    t.out.copy_(rounded);
}

void products_cpu(const GemmGroup& group) {
  for (int64_t i = 0; i < group.count; ++i) FORGE_CHECK(!group.products[i].c, "a group of products with an addend of their own");
  if (gemm_tiles_share(group)) return gemm_tiles_group_cpu(group);
  for (int64_t i = 0; i < group.count; ++i) product_cpu(group.products[i]);
}

}  // namespace forge
