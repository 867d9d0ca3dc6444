// Tests the emulator on kernels with planted faults: each fault is reported, and its correct
// counterpart is not.
#include <cmath>
#include <limits>

#include "kernels/device/numbers.cuh"
#include "kernels/device/reduce.cuh"
#include "tests/emulator/device_buffer.h"
#include "tests/test.h"

using namespace forge;
using Catch::Contains;

namespace {

constexpr CudaStream kStream = nullptr;

struct WithOrder {
  explicit WithOrder(emulator::Order order, uint64_t seed = 1) { emulator::schedule() = {order, seed}; }
  ~WithOrder() { emulator::schedule() = {}; }
};

template <class Action>
std::string fault_of(Action action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no fault";
}

std::vector<float> counted(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

// ---- kernels; `wrong` plants the fault

__global__ void scale(Global<const float> x, Global<float> y, int count, bool wrong) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (wrong ? i <= count : i < count) y[i] = 2 * x[i];
}

__global__ void reverse_block(Global<const float> x, Global<float> y, bool wrong) {
  FORGE_SHARED(float, tile, 64);
  tile[threadIdx.x] = x[threadIdx.x];
  if (!wrong) __syncthreads();
  y[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void divergent_barrier(Global<float> y, bool wrong) {
  FORGE_SHARED(float, value, 1);
  if (threadIdx.x == 0) value[0] = 7;
  if (wrong && threadIdx.x < 16) __syncthreads();
  __syncthreads();
  y[threadIdx.x] = value[0];
}

__global__ void barrier_against_warp(Global<float> y, bool wrong) {
  if (wrong && threadIdx.x == 0) __syncthreads();
  y[threadIdx.x] = static_cast<float>(__shfl_sync(kAllLanes, static_cast<int>(threadIdx.x), 0));
}

__global__ void masked_shuffle(Global<float> y, uint32_t mask) {
  float value = static_cast<float>(threadIdx.x);
  if (threadIdx.x < 16) value = __shfl_xor_sync(mask, value, 1);
  y[threadIdx.x] = value;
}

__global__ void shuffle_from_outside(Global<float> y, int source) {
  float value = static_cast<float>(threadIdx.x);
  if (threadIdx.x < 8) value = __shfl_sync(0xFFu, value, source);
  y[threadIdx.x] = value;
}

__global__ void copy_vectors(Global<const float> x, Global<float> y, int offset) {
  store_vector(y + 4 * threadIdx.x, load_vector<4>(x + offset + 4 * threadIdx.x));
}

__global__ void copy_all_but(Global<const float> x, Global<float> y, int skipped) {
  if (static_cast<int>(threadIdx.x) != skipped) y[threadIdx.x] = x[threadIdx.x];
}

// The last writer wins: the value depends on the order of the warps.
__global__ void last_writer(Global<float> y, bool wrong) {
  if (!wrong && threadIdx.x != 0) return;
  atomicExch(y, static_cast<float>(threadIdx.x / kWarp));
}

__global__ void shared_out_of_bounds(Global<float> y, int index) {
  FORGE_SHARED(float, tile, 32);
  tile[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = tile[index];
}

__global__ void votes(Global<int> y) {
  int t = static_cast<int>(threadIdx.x);
  y[t * 8 + 0] = __syncthreads_count(t % 3 == 0);
  y[t * 8 + 1] = __syncthreads_or(t == 40);
  y[t * 8 + 2] = __syncthreads_and(t != 40);
  y[t * 8 + 3] = static_cast<int>(__ballot_sync(kAllLanes, t % 2));
  y[t * 8 + 4] = __any_sync(kAllLanes, t == 3);
  y[t * 8 + 5] = __all_sync(kAllLanes, t < 32);
  y[t * 8 + 6] = static_cast<int>(__reduce_add_sync(kAllLanes, static_cast<uint32_t>(t)));
  y[t * 8 + 7] = __reduce_min_sync(kAllLanes, 5 - t);
}

__global__ void sum_of_block(Global<const float> x, Global<float> total) {
  FORGE_SHARED(float, scratch, 32);
  float sum = reduce_block(static_cast<float>(x[threadIdx.x]), 0.0f, Sum(), scratch);
  atomicAdd(total + blockIdx.x, threadIdx.x == 0 ? sum : 0.0f);
}

__global__ void early_exit(Global<float> y) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void dynamic_tile(Global<const float> x, Global<float> y, int last) {
  Shared<float> tile = dynamic_shared<float>();
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[last - static_cast<int>(threadIdx.x)];
}

__global__ void __launch_bounds__(64) bounded(Global<float> y) {
  y[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

// Two blocks write the same address.
__global__ void all_to_one(Global<float> y, bool wrong) {
  if (wrong || blockIdx.x == 0) y[threadIdx.x] = static_cast<float>(threadIdx.x);
}

__global__ void count_threads(Global<int> y, bool wrong) {
  if (wrong)
    y[0] = y[0] + 1;
  else
    atomicAdd(y, 1);
}

// The last block adds the results of the others.
__global__ void last_block_adds(Global<float> parts, Global<int> finished, Global<float> total,
                                bool publishes, bool acquires) {
  if (threadIdx.x != 0) return;
  parts[blockIdx.x] = static_cast<float>(blockIdx.x + 1);
  if (publishes) __threadfence();
  if (atomicAdd(finished, 1) != static_cast<int>(gridDim.x) - 1) return;
  if (acquires) __threadfence();
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i];
  total[0] = sum;
}

// Shifts in place: a thread overwrites the value that its neighbour reads.
__global__ void shift_in_place(Global<float> x, bool wrong) {
  const float next = x[(threadIdx.x + 1) % 64];
  if (!wrong) __syncthreads();
  x[threadIdx.x] = next;
}
__global__ void shift_in_warp(Global<float> x, bool wrong) {
  const float next = x[(threadIdx.x + 1) % 32];
  if (!wrong) __syncwarp();
  x[threadIdx.x] = next;
}

}  // namespace

TEST_CASE("a launch that the driver would refuse is refused") {
  DeviceBuffer<float> y(128);
  auto refused = [&](auto kernel, LaunchShape shape) {
    return fault_of([&] { launch("bounded", kernel, shape, kStream, y.get()); });
  };
  CHECK(refused(bounded, {2, 64}) == "no fault");
#if defined(__x86_64__)
  CHECK_THAT(refused(bounded, {1, 65}), Contains("__launch_bounds__ are 64 threads"));
  CHECK_THAT(refused(bounded, {1, 128}), Contains("__launch_bounds__ are 64 threads"));
#endif
  CHECK_THAT(refused(early_exit, {1, 1025}), Contains("1 to 1024 threads"));
  CHECK_THAT(refused(bounded, {0, 64}), Contains("at least one block"));
  CHECK_THAT(refused(bounded, {1, 64, 0, 65536}), Contains("65535 high"));
  CHECK_THAT(refused(bounded, {0x80000000u, 64}), Contains("2147483647 blocks wide"));
  CHECK_THAT(refused(bounded, {1, 64, 48 * 1024 + 4}), Contains("48 KiB of shared memory"));
}

TEST_CASE("work on another stream than the one that was given is reported") {
  const auto given = reinterpret_cast<CudaStream>(uintptr_t{1});
  DeviceBuffer<float> y(64);
  auto on = [&](CudaStream stream) {
    return fault_of([&] {
      launch("bounded", bounded, {1, 64}, stream, y.get());
      clear_device(y.get(), 64 * sizeof(float), stream);
    });
  };
  CHECK(on(kStream) == "no fault");
  emulator::only_stream() = given;
  CHECK(on(given) == "no fault");
  CHECK_THAT(on(kStream), Contains("default stream"));
  CHECK_THAT(on(reinterpret_cast<CudaStream>(uintptr_t{2})), Contains("another stream"));
  CHECK_THAT(fault_of([&] { clear_device(y.get(), 4, kStream); }), Contains("clear: on the default stream"));
  emulator::only_stream() = nullptr;
}

TEST_CASE("accesses of global memory that nothing orders are a race in every order") {
  for (auto order : {emulator::Order::forward, emulator::Order::reverse, emulator::Order::seeded}) {
    WithOrder scope(order);
    auto fault = [&](auto action) { return fault_of(action); };
    for (bool wrong : {false, true}) {
      DeviceBuffer<float> y(64), x(counted(64), "x"), warp(counted(32), "warp");
      DeviceBuffer<int> count(std::vector<int>{0}, "count");
      const std::string expected = wrong ? "race" : "no fault";
      CHECK_THAT(fault([&] {
                   launch("all_to_one", all_to_one, {2, 64}, kStream, y.get(), wrong);
                 }),
                 Contains(expected));
      CHECK_THAT(fault([&] {
                   launch("count", count_threads, {2, 32}, kStream, count.get(), wrong);
                 }),
                 Contains(expected));
      CHECK_THAT(fault([&] {
                   launch("shift", shift_in_place, {1, 64}, kStream, x.get(), wrong);
                 }),
                 Contains(expected));
      CHECK_THAT(fault([&] {
                   launch("shift", shift_in_warp, {1, 32}, kStream, warp.get(), wrong);
                 }),
                 Contains(expected));
      // Launches of one stream follow each other.
      if (!wrong) launch("all_to_one", all_to_one, {2, 64}, kStream, y.get(), wrong);
      if (!wrong) CHECK(count.read()[0] == 64);
    }
  }
}

TEST_CASE("what a block leaves for the last one is published and acquired") {
  auto run = [](bool publishes, bool acquires) {
    DeviceBuffer<float> parts(5), total(1);
    DeviceBuffer<int> finished(std::vector<int>{0}, "finished");
    return fault_of([&] {
      launch("last", last_block_adds, {5, 32}, kStream, parts.get(), finished.get(), total.get(), publishes,
             acquires);
      if (total.read()[0] != 15) throw std::runtime_error("wrong sum");
    });
  };
  CHECK(run(true, true) == "no fault");
  CHECK_THAT(run(false, true), Contains("race"));
  CHECK_THAT(run(true, false), Contains("race"));
}

TEST_CASE("an index one past the end is named, with thread and offset") {
  DeviceBuffer<float> x(counted(100), "x"), y(100, "y");
  launch("scale", scale, {4, 32}, kStream, x.get(), y.get(), 100, false);
  CHECK(y.read()[99] == 200);
  std::string fault = fault_of([&] {
    launch("scale", scale, {4, 32}, kStream, x.get(), y.get(), 100, true);
  });
  CHECK_THAT(fault, Contains("scale, block (3, 0, 0), thread (4, 0, 0)") && Contains("out of bounds: read") &&
                        Contains("offset 400 of x (400 bytes)"));
}

TEST_CASE("a missing barrier is a race or a read of nothing in every order") {
  DeviceBuffer<float> x(counted(64), "x");
  for (auto order : {emulator::Order::forward, emulator::Order::reverse, emulator::Order::seeded}) {
    WithOrder scope(order);
    DeviceBuffer<float> y(64);
    launch("reverse_block", reverse_block, {1, 64}, kStream, x.get(), y.get(), false);
    CHECK(y.read()[0] == 64);
    std::string fault = fault_of([&] {
      launch("reverse_block", reverse_block, {1, 64}, kStream, x.get(), y.get(), true);
    });
    CHECK_THAT(fault, Contains("race") || Contains("uninitialised"));
  }
}

TEST_CASE("a barrier in a divergent branch is a deadlock that names both lines") {
  DeviceBuffer<float> y(64);
  launch("divergent_barrier", divergent_barrier, {1, 64}, kStream, y.get(), false);
  CHECK(y.read()[63] == 7);
  std::string fault = fault_of([&] {
    launch("divergent_barrier", divergent_barrier, {1, 64}, kStream, y.get(), true);
  });
  CHECK_THAT(fault, Contains("deadlock") &&
                        Contains("16 threads from thread (0, 0, 0) on wait at the barrier of "
                                 "emulator_test.cpp:") &&
                        Contains("48 threads from thread (16, 0, 0)"));
}

TEST_CASE("a barrier that part of a warp waits at while the rest shuffles is a deadlock") {
  DeviceBuffer<float> y(32);
  launch("barrier_against_warp", barrier_against_warp, {1, 32}, kStream, y.get(), false);
  CHECK(y.read()[31] == 0);
  std::string fault = fault_of([&] {
    launch("barrier_against_warp", barrier_against_warp, {1, 32}, kStream, y.get(), true);
  });
  CHECK_THAT(fault, Contains("deadlock") && Contains("1 threads") && Contains("31 threads") &&
                        Contains("__shfl_sync at emulator_test.cpp"));
}

TEST_CASE("a wrong shuffle mask is reported") {
  DeviceBuffer<float> y(32);
  launch("masked_shuffle", masked_shuffle, {1, 32}, kStream, y.get(), 0xFFFFu);
  CHECK(y.read()[0] == 1);
  // Lanes 16 to 31 never come.
  CHECK_THAT(fault_of([&] {
               launch("masked_shuffle", masked_shuffle, {1, 32}, kStream, y.get(), kAllLanes);
             }),
             Contains("deadlock") && Contains("0xffffffff"));
  CHECK_THAT(fault_of([&] {
               launch("masked_shuffle", masked_shuffle, {1, 32}, kStream, y.get(), 0xFF00u);
             }),
             Contains("not in its own mask"));
  launch("shuffle_from_outside", shuffle_from_outside, {1, 32}, kStream, y.get(), 3);
  CHECK(y.read()[0] == 3);
  CHECK_THAT(fault_of([&] {
               launch("shuffle_from_outside", shuffle_from_outside, {1, 32}, kStream, y.get(), 9);
             }),
             Contains("reads lane 9, which is not in the mask"));
}

TEST_CASE("an unaligned vector access is reported") {
  DeviceBuffer<float> x(counted(132), "x"), y(128);
  launch("copy_vectors", copy_vectors, {1, 32}, kStream, x.get(), y.get(), 4);
  CHECK(y.read()[0] == 5);
  CHECK_THAT(fault_of([&] {
               launch("copy_vectors", copy_vectors, {1, 32}, kStream, x.get(), y.get(), 1);
             }),
             Contains("unaligned: read of 16 bytes"));
  DeviceBuffer<float> moved(counted(128), "moved", 4);
  CHECK_THAT(fault_of([&] {
               launch("copy_vectors", copy_vectors, {1, 32}, kStream, moved.get(), y.get(), 0);
             }),
             Contains("unaligned"));
}

TEST_CASE("an output that is not written whole is reported") {
  DeviceBuffer<float> x(counted(32), "x"), y(32), z(32);
  launch("copy_all_but", copy_all_but, {1, 32}, kStream, x.get(), y.get(), -1);
  CHECK(y.read().size() == 32);
  launch("copy_all_but", copy_all_but, {1, 32}, kStream, x.get(), z.get(), 20);
  CHECK_THAT(fault_of([&] { z.read(); }), Contains("element 20 was never written"));
  CHECK_THAT(fault_of([&] {
               launch("copy_all_but", copy_all_but, {1, 32}, kStream, z.get(), y.get(), -1);
             }),
             Contains("uninitialised: read of 4 bytes at offset 80"));
}

TEST_CASE("a result that depends on the order of warps differs between orders") {
  auto run = [](emulator::Order order, bool wrong) {
    WithOrder scope(order);
    DeviceBuffer<float> y(std::vector<float>{0}, "y");
    launch("last_writer", last_writer, {1, 128}, kStream, y.get(), wrong);
    return y.read()[0];
  };
  CHECK(run(emulator::Order::forward, true) == 3);
  CHECK(run(emulator::Order::reverse, true) == 0);
  CHECK(run(emulator::Order::forward, false) == run(emulator::Order::reverse, false));
}

TEST_CASE("seeded orders differ by seed and repeat by seed") {
  std::vector<float> values;
  for (uint64_t seed : {1, 1, 2, 3, 4, 5, 6, 7}) {
    WithOrder scope(emulator::Order::seeded, seed);
    DeviceBuffer<float> y(std::vector<float>{0}, "y");
    launch("last_writer", last_writer, {1, 128}, kStream, y.get(), true);
    values.push_back(y.read()[0]);
  }
  CHECK(values[0] == values[1]);
  CHECK(std::count(values.begin(), values.end(), values[0]) < 8);
}

TEST_CASE("shared memory is bounded and holds nothing at first") {
  DeviceBuffer<float> y(32);
  launch("shared_out_of_bounds", shared_out_of_bounds, {1, 32}, kStream, y.get(), 31);
  CHECK(y.read()[0] == 1);
  CHECK_THAT(fault_of([&] {
               launch("shared_out_of_bounds", shared_out_of_bounds, {1, 32}, kStream, y.get(), 32);
             }),
             Contains("out of bounds") && Contains("shared memory"));
  DeviceBuffer<float> x(counted(32), "x");
  launch("dynamic_tile", dynamic_tile, {1, 32, 128}, kStream, x.get(), y.get(), 31);
  CHECK(y.read()[0] == 32);
  CHECK_THAT(fault_of([&] {
               launch("dynamic_tile", dynamic_tile, {1, 32, 124}, kStream, x.get(), y.get(), 31);
             }),
             Contains("out of bounds") && Contains("shared memory (124 bytes)"));
}

TEST_CASE("a pointer of the host, or null, is not device memory") {
  float host = 1;
  DeviceBuffer<float> y(1);
  CHECK_THAT(fault_of([&] {
               launch("scale", scale, {1, 32}, kStream, &host, y.get(), 1, false);
             }),
             Contains("not device memory"));
  const float* nothing = nullptr;
  CHECK_THAT(fault_of([&] {
               launch("scale", scale, {1, 32}, kStream, nothing, y.get(), 1, false);
             }),
             Contains("null pointer"));
}

TEST_CASE("barrier variants, votes and reductions answer as CUDA's") {
  DeviceBuffer<int> y(64 * 8);
  launch("votes", votes, {1, 64}, kStream, y.get());
  std::vector<int> v = y.read();
  auto of = [&](int thread, int what) { return v[static_cast<size_t>(thread * 8 + what)]; };
  CHECK((of(9, 0) == 22 && of(9, 1) == 1 && of(9, 2) == 0));
  CHECK(of(5, 3) == static_cast<int>(0xAAAAAAAA));
  CHECK((of(5, 4) == 1 && of(50, 4) == 0 && of(5, 5) == 1 && of(50, 5) == 0));
  CHECK((of(1, 6) == 496 && of(33, 6) == 496 + 32 * 32));
  CHECK((of(1, 7) == 5 - 31 && of(33, 7) == 5 - 63));
}

TEST_CASE("a block reduction is right in every order, and exited threads do not hold a barrier") {
  std::vector<float> ones(256, 1);
  for (auto order : {emulator::Order::forward, emulator::Order::reverse, emulator::Order::seeded}) {
    WithOrder scope(order);
    DeviceBuffer<float> x(ones, "x"), total(std::vector<float>(3, 0.0f), "total");
    launch("sum_of_block", sum_of_block, {3, 256}, kStream, x.get(), total.get());
    CHECK(total.read() == std::vector<float>(3, 256.0f));
    DeviceBuffer<float> y(40);
    launch("early_exit", early_exit, {1, 64}, kStream, y.get());
    CHECK(y.read()[39] == 1);
  }
}

#ifdef __FLT16_MANT_DIG__
TEST_CASE("fp16 converts as the compiler's own type does") {
  for (uint32_t half = 0; half < 65536; ++half) {
    _Float16 expected;
    auto bits = static_cast<uint16_t>(half);
    std::memcpy(&expected, &bits, 2);
    float value = widen(fp16{bits});
    if (std::isnan(value)) continue;
    REQUIRE(value == static_cast<float>(expected));
    REQUIRE(narrow<fp16>(value).bits == bits);
  }
  for (uint64_t i = 0; i < 400000; ++i) {
    float value = __uint_as_float(static_cast<uint32_t>(i * 2654435761u));
    if (std::isnan(value)) continue;
    auto expected = static_cast<_Float16>(value);
    uint16_t bits;
    std::memcpy(&bits, &expected, 2);
    REQUIRE(narrow<fp16>(value).bits == bits);
  }
}
#endif

TEST_CASE("bf16 rounds to nearest even and keeps what is not finite") {
  auto round_trip = [](float value) { return rounded<bf16>(value); };
  CHECK(round_trip(1.0f + 0x1p-8f) == 1.0f);                // a tie: to even
  CHECK(round_trip(1.0f + 3 * 0x1p-8f) == 1.0f + 0x1p-6f);  // a tie: to even, upwards
  CHECK(round_trip(1.0f + 0x1p-8f + 0x1p-20f) == 1.0f + 0x1p-7f);
  CHECK(round_trip(std::numeric_limits<float>::infinity()) == std::numeric_limits<float>::infinity());
  CHECK(round_trip(std::numeric_limits<float>::max()) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(round_trip(std::numeric_limits<float>::quiet_NaN())));
  CHECK(widen(narrow<bf16>(3) * narrow<bf16>(5)) == 15);
}
