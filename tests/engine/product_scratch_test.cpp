// Compares the planned memory of a product with the memory that LibTorch's allocator hands out, on
// this processor or on the instruction set that FORGE_CPU states.
#include "core/plan/memory/product_scratch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/lib/tensor/counting_allocator.h"
#include "core/plan/machine/hardware.h"
#include "kernels/product/gemm_tiles.h"
#include "tests/test.h"

namespace forge {
namespace {

enum class Call { linear, plain, added, weight_gradient };

at::Tensor matrix(int64_t rows, int64_t columns) { return at::zeros({rows, columns}, at::kBFloat16); }

int64_t allocated(Call call, const Product& p) {
  const at::Tensor x = call == Call::weight_gradient ? matrix(p.inner, p.rows).t() : matrix(p.rows, p.inner);
  const at::Tensor w = call == Call::linear ? matrix(p.columns, p.inner).t() : matrix(p.inner, p.columns);
  at::Tensor y = matrix(p.rows, p.columns);
  reset_allocator_peak();
  const int64_t before = allocator_stats().live_bytes;
  if (call == Call::added)
    at::addmm_out(y, y, x, w, 1, 1);
  else
    at::mm_out(y, x, w);
  return allocator_stats().peak_bytes - before;
}

}  // namespace

TEST_CASE("products take what the plan says", "[products]") {
  install_counting_allocator();
  const auto stated = stated_instructions();
  const InstructionSet set =
      stated ? std::min(stated->set, processor_instructions()) : processor_instructions();
  const int threads_before = at::get_num_threads();
  for (int threads : {1, 2, 5, 16}) {
    at::set_num_threads(threads);
    ProductScratch scratch(set, threads);
    for (int64_t rows : {40, 507, 1024, 2048})
      for (int64_t inner : {16, 96, 704, 4096})
        for (int64_t columns : {8, 64, 300}) {
          for (Call call : {Call::linear, Call::plain, Call::added, Call::weight_gradient}) {
            const Product product{rows, inner, columns, call == Call::weight_gradient};
            const int64_t bytes = allocated(call, product), planned = scratch.bytes(product);
            INFO(name_of(set) << ", " << threads << " threads: " << rows << " × " << inner << " × " << columns
                              << ", call " << static_cast<int>(call));
            if (scratch.measured())
              CHECK(planned == bytes);
            else
              CHECK(planned >= bytes);
          }
        }
  }
  at::set_num_threads(threads_before);
}

TEST_CASE("the plan and the kernels choose the same products for bf16", "[products]") {
  CHECK(bf16_tiles(probe_hardware().cpu) == gemm_tiles_pay(Element::bf16));
}

}  // namespace forge
