#include "core/lib/tensor/counting_allocator.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "tests/test.h"

using namespace forge;

TEST_CASE("the allocator counts live and peak bytes and refuses past its limit") {
  install_counting_allocator();
  int64_t before = allocator_stats().live_bytes;
  reset_allocator_peak();
  {
    at::Tensor a = at::empty({1 << 20}, at::kFloat);
    at::Tensor b = at::empty({1 << 18}, at::kFloat);
    CHECK(allocator_stats().live_bytes - before == (5 << 20));
    b = at::Tensor();
    CHECK(allocator_stats().live_bytes - before == (4 << 20));
  }
  CHECK(allocator_stats().live_bytes == before);
  CHECK(allocator_stats().peak_bytes - before == (5 << 20));
  set_allocator_limit(before + (1 << 20));
  CHECK_THROWS_AS(at::empty({1 << 20}, at::kFloat), c10::OutOfMemoryError);
  CHECK_NOTHROW(at::empty({1 << 10}, at::kFloat));
  set_allocator_limit(0);
  CHECK(allocator_stats().live_bytes == before);
}

TEST_CASE("memory that LibTorch takes without a tensor is counted too") {
  install_counting_allocator();
  const int64_t before = allocator_stats().live_bytes;
  void* scratch = c10::GetCPUAllocator()->raw_allocate(1000);
  CHECK(allocator_stats().live_bytes - before == 1000);
  c10::GetCPUAllocator()->raw_deallocate(scratch);
  CHECK(allocator_stats().live_bytes == before);
}
