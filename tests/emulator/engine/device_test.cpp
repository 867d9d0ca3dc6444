// Faults of order, lifetime and capture, planted in code that drives a device: the emulated runtime
// must name each.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kernels/device/captures.h"
#include "kernels/device/gemm.h"
#include "kernels/device/gpu_device.h"
#include "kernels/device/runtime.h"
#include "kernels/optimizer/optimizer_args.h"
#include "kernels/rows/rows_args.h"
#include "tests/test.h"

using namespace forge;
using Catch::Contains;

namespace {

constexpr int64_t kRows = 4, kWidth = 32, kBytes = kRows * kWidth * 4;

ComputeDevice& device() { return gpu_device(0); }

struct Numbers {
  explicit Numbers(const char* name, bool written = true) : block(device(), kBytes, name) {
    const std::vector<float> ones(kRows * kWidth, 1);
    if (written) device().write(block.as(), ones.data(), kBytes);
  }
  void* get() const { return block.as(); }
  DeviceBlock block;
};

AddRows add(const void* x, void* y) { return {Element::f32, kRows, kWidth, x, kWidth, y, kWidth}; }

// Makes all streams wait for each other, so that no work of one test remains for the next.
void settle() {
  for (Stream stream : {Stream::compute, Stream::weights, Stream::copy}) device().synchronize(stream);
}

struct Overlap {
  bool waits_for_weight = true, waits_for_reader = true;
  // Runs two products, each with a weight that another stream makes in a scratch they share.
  void run() const {
    ComputeDevice& d = device();
    Numbers packed("packed weight"), scratch("scratch", false), x("x"), y("y");
    settle();
    const Event ready = d.new_event(), read = d.new_event();
    for (int i = 0; i < 2; ++i) {
      if (i > 0 && waits_for_reader) d.wait(Stream::weights, read);
      d.run(ConvertElements{Element::f32, Element::f32, kRows * kWidth, packed.get(), scratch.get()}, Stream::weights);
      d.record(ready, Stream::weights);
      if (waits_for_weight) d.wait(Stream::compute, ready);
      d.run(add(scratch.get(), y.get()));
      d.record(read, Stream::compute);
    }
    settle();
  }
};

}  // namespace

TEST_CASE("work in order is no fault") {
  Overlap{}.run();
  Numbers x("x"), y("y");
  device().run(add(x.get(), y.get()));
  std::vector<float> host(kRows * kWidth);
  device().read(host.data(), y.get(), kBytes);
  CHECK(host[5] == 2);
  const auto captured = device().capture([&] { device().run(add(x.get(), y.get())); });
  for (int i = 0; i < 3; ++i) device().replay(*captured);
  device().read(host.data(), y.get(), kBytes);
  CHECK(host[5] == 5);
}

TEST_CASE("a product that does not wait for its weight") {
  CHECK_THROWS_WITH((Overlap{.waits_for_weight = false}.run()), Contains("add_rows") && Contains("what convert writes"));
  settle();
}

TEST_CASE("a scratch that is written again under its reader") {
  CHECK_THROWS_WITH((Overlap{.waits_for_reader = false}.run()), Contains("convert") && Contains("reads, and no wait orders them"));
  settle();
}

TEST_CASE("two streams that write one place") {
  Numbers x("x"), y("y");
  settle();
  device().clear(y.get(), kBytes, Stream::weights);
  CHECK_THROWS_WITH(device().clear(y.get(), kBytes), Contains("over what clear writes"));
  settle();
}

TEST_CASE("a moment that was marked in a capture has no time") {
  Numbers x("x"), y("y");
  settle();
  device().forget_moments();
  const Moment before = device().mark();
  Moment within;
  const auto captured = device().capture([&] {
    device().run(add(x.get(), y.get()));
    within = device().mark();
  });
  CHECK_THROWS_WITH(device().seconds(before, within), Contains("recorded in a capture"));
  device().forget_moments();
  settle();
}

TEST_CASE("an event that was recorded too early") {
  Numbers x("x"), y("y");
  settle();
  const Event ready = device().new_event();
  device().record(ready, Stream::weights);
  device().run(add(x.get(), y.get()), Stream::weights);
  device().wait(Stream::compute, ready);
  CHECK_THROWS_WITH(device().run(add(y.get(), x.get())), Contains("what add_rows writes"));
  settle();
}

TEST_CASE("a result that is copied while it is made") {
  Numbers x("x"), y("y");
  settle();
  device().run(add(x.get(), y.get()));
  std::vector<float> host(kRows * kWidth);
  CHECK_THROWS_WITH(device().read(host.data(), y.get(), kBytes, Stream::copy), Contains("copy from the device") && Contains("add_rows"));
  settle();
}

TEST_CASE("a pinned buffer that is filled again while its copy is under way, or read before") {
  Numbers x("x");
  settle();
  void* pinned = runtime::allocate_pinned(kBytes);
  runtime::host_touches(pinned, kBytes, true);
  runtime::copy_in(x.get(), pinned, kBytes, device().native(Stream::copy));
  CHECK_THROWS_WITH(runtime::host_touches(pinned, kBytes, true), Contains("the host") && Contains("reads, and no wait"));
  settle();
  runtime::copy_out(pinned, x.get(), kBytes, device().native(Stream::copy));
  CHECK_THROWS_WITH(runtime::host_touches(pinned, kBytes, false), Contains("the host") && Contains("copy from the device"));
  settle();
  runtime::host_touches(pinned, kBytes, false);
  runtime::release_pinned(pinned);
}

TEST_CASE("a kernel or a product that touches memory for copies") {
  Numbers x("x"), y("y");
  settle();
  void* pinned = runtime::allocate_pinned(kBytes);
  runtime::host_touches(pinned, kBytes, true);
  const auto refused = [](const std::string& who, const std::function<void()>& work) {
    CHECK_THROWS_WITH(work(), Contains(who) && Contains("pinned memory") && Contains("for copies alone"));
  };
  refused("add_rows", [&] { device().run(add(pinned, y.get())); });
  refused("add_rows", [&] { device().run(add(x.get(), pinned)); });
  refused("clear", [&] { device().clear(pinned, kBytes); });
  Gemm product{Element::f32, kRows, kWidth, kRows};
  product.a = {x.get(), kWidth}, product.b = {pinned, kWidth};
  product.out = y.get(), product.out_stride = kWidth;
  refused("product", [&] { device().run(product); });
  settle();
  runtime::release_pinned(pinned);
}

namespace {

// Lion whose state is in the host's memory. Gradients are 1, so that it is 1 - 0.99^n after n
// updates.
struct Offloaded {
  Numbers weight{"weight"}, grad{"grad"};
  DeviceBlock verdict{device(), 3 * sizeof(float), "verdict"}, numbers{device(), sizeof(UpdateNumbers), "numbers"};
  float* state = static_cast<float*>(device().allocate_on_host(kBytes, "state"));
  LionUpdate update{.count = kRows * kWidth, .beta2 = 0.99};

  Offloaded() {
    const float kept[] = {1, 1, 1};
    const UpdateNumbers rate{.lr = 0.5f};
    device().write(verdict.as(), kept, verdict.bytes());
    device().write(numbers.as(), &rate, numbers.bytes());
    device().host_touches(state, kBytes, /*writes=*/true);
    std::fill_n(state, kRows * kWidth, 0.0f);
    update.weight = static_cast<float*>(weight.get()), update.grad = static_cast<const float*>(grad.get());
    update.mean = state;
    update.verdict = verdict.as<float>(), update.numbers = numbers.as<UpdateNumbers>();
  }
  ~Offloaded() {
    settle();
    device().release_on_host(state);
  }
};

}  // namespace

TEST_CASE("a kernel updates what lies in the host's memory") {
  Offloaded offloaded;
  device().run(offloaded.update);
  const auto captured = device().capture([&] { device().run(offloaded.update); });
  device().replay(*captured);
  device().synchronize(Stream::compute);
  device().host_touches(offloaded.state, kBytes, /*writes=*/false);
  CHECK(offloaded.state[7] == Approx(1 - 0.99 * 0.99));
  std::vector<float> weights(kRows * kWidth);
  device().read(weights.data(), offloaded.weight.get(), kBytes);
  CHECK(weights[7] == 0);  // two steps of 0.5
}

TEST_CASE("state in the host's memory that is read or written while a kernel updates it") {
  Offloaded offloaded;
  settle();
  device().run(offloaded.update);
  CHECK_THROWS_WITH(device().host_touches(offloaded.state, kBytes, false), Contains("the host") && Contains("what lion writes"));
  settle();
  device().host_touches(offloaded.state, kBytes, true);
  device().run(add(offloaded.state, offloaded.weight.get()));
  CHECK_THROWS_WITH(device().host_touches(offloaded.state, kBytes, true), Contains("the host") && Contains("reads, and no wait orders them"));
  settle();
}

namespace {

enum class Forgotten { nothing, computed, stored, place, loaded };

// Keeps a value in the host's memory while its buffer holds another value.
void wait_on_host(Forgotten forgotten) {
  Numbers h("h"), y("y");
  const HostBlock host(device(), kBytes, "layer inputs");
  const Event computed = device().new_event(), copied = device().new_event();
  const auto behind = [&](Forgotten what, Event event, Stream first, Stream second) {
    device().record(event, first);
    if (what != forgotten) device().wait(second, event);
  };
  const auto work = [&] {
    device().run(add(y.get(), h.get()));
    behind(Forgotten::computed, computed, Stream::compute, Stream::copy);
    device().store(host.as(), h.get(), kBytes, Stream::copy);
    behind(Forgotten::stored, copied, Stream::copy, Stream::compute);
    device().clear(h.get(), kBytes);
    device().run(add(h.get(), y.get()));
    behind(Forgotten::place, computed, Stream::compute, Stream::copy);
    device().load(h.get(), host.as(), kBytes, Stream::copy);
    behind(Forgotten::loaded, copied, Stream::copy, Stream::compute);
    device().run(add(h.get(), y.get()));
  };
  try {
    work();
    const auto captured = device().capture(work);
    device().replay(*captured);
    device().replay(*captured);
  } catch (...) {
    settle();
    throw;
  }
  settle();
}

}  // namespace

TEST_CASE("a value that waits in the host's memory, with each wait forgotten in turn") {
  CHECK_NOTHROW(wait_on_host(Forgotten::nothing));
  CHECK_THROWS_WITH(wait_on_host(Forgotten::computed), Contains("copy from the device") && Contains("what add_rows writes"));
  CHECK_THROWS_WITH(wait_on_host(Forgotten::stored), Contains("clear: over what work of stream") && Contains("reads"));
  CHECK_THROWS_WITH(wait_on_host(Forgotten::place), Contains("copy to the device: over what"));
  CHECK_THROWS_WITH(wait_on_host(Forgotten::loaded), Contains("add_rows") && Contains("what copy to the device writes"));
}

TEST_CASE("work on the default stream") {
  Numbers x("x");
  CHECK_THROWS_WITH(runtime::clear(x.get(), kBytes, nullptr), Contains("default stream"));
}

TEST_CASE("memory that is released while another stream works on it") {
  auto* x = device().allocate(kBytes, "weights ahead");
  device().clear(x, kBytes, Stream::weights);
  device().release(x);
  CHECK_THROWS_WITH(device().synchronize(Stream::compute), Contains("weights ahead is released while another stream works on it"));
  settle();
}

TEST_CASE("memory that was released") {
  Numbers y("y");
  void* x = device().allocate(kBytes, "x");
  device().clear(x, kBytes);
  device().release(x);
  CHECK_THROWS_WITH(device().run(add(x, y.get())), Contains("not device memory"));
}

TEST_CASE("numbers that nobody wrote, by kernels and by products") {
  Numbers nothing("fresh", false), y("y");
  CHECK_THROWS_WITH(device().run(add(nothing.get(), y.get())), Contains("uninitialised"));
  Gemm product{Element::f32, kRows, kWidth, kRows};
  product.a = {nothing.get(), kWidth}, product.b = {y.get(), kWidth};
  product.out = y.get(), product.out_stride = kWidth;
  CHECK_THROWS_WITH(device().run(product), Contains("product") && Contains("nobody wrote"));
}

namespace {

// x y + c, in a memory of its own.
struct Addend {
  Numbers x{"x"}, y{"y"}, c{"stream"}, sum{"sum", false};
  DeviceBlock workspace;
  Gemm product{Element::f32, kRows, kWidth, kRows};

  Addend() {
    product.a = {x.get(), kWidth}, product.b = {y.get(), kWidth};
    product.out = sum.get(), product.out_stride = kWidth;
    product.add = true, product.c = c.get(), product.c_stride = kWidth;
    workspace = DeviceBlock(device(), device().workspace(product), "sums of products");
    product.workspace = workspace.as();
  }
};

}  // namespace

TEST_CASE("a product that adds another matrix than its result") {
  Addend a;
  CHECK(device().workspace(a.product) == 8 * kRows * kWidth);
  a.product.alpha = 0.5f;
  std::vector<float> host(kRows * kWidth);
  for (const Gemm& product : {a.product, a.product}) {  // no sum of its own from before
    device().run(product);
    device().read(host.data(), a.sum.get(), kBytes);
    CHECK(host == std::vector<float>(kRows * kWidth, 0.5f * kRows + 1));
  }
  device().read(host.data(), a.c.get(), kBytes);
  CHECK(host == std::vector<float>(kRows * kWidth, 1));
  // In bf16 the sum is rounded once: 256 + 1 + 1 is 258, and 256 + 1 would be 256.
  const std::vector<Bf16> ones(kRows * kWidth, Bf16{0x3f80}), many(kRows * kWidth, Bf16{0x4380});
  std::vector<Bf16> sums(kRows * kWidth);
  for (void* to : {a.x.get(), a.y.get()}) device().write(to, ones.data(), kBytes / 2);
  device().write(a.c.get(), many.data(), kBytes / 2);
  a.product.type = a.product.out_type = Element::bf16, a.product.k = 2, a.product.alpha = 1;
  device().run(a.product);
  device().read(sums.data(), a.sum.get(), kBytes / 2);
  CHECK(to_float(sums[5]) == 258);
  settle();
}

TEST_CASE("what a product that adds another matrix reads and writes") {
  Addend a;
  Numbers nothing("fresh", false);
  settle();
  Gemm fresh = a.product, past = a.product, homeless = a.product;
  fresh.c = nothing.get();
  CHECK_THROWS_WITH(device().run(fresh), Contains("product: reads fresh where nobody wrote"));
  past.c = static_cast<float*>(a.c.get()) + 1;
  CHECK_THROWS_WITH(device().run(past), Contains("product: past the end of stream"));
  homeless.workspace = nullptr;
  CHECK_THROWS_WITH(device().run(homeless), Contains("product: writes what is not device memory"));
  settle();
  device().run(add(a.x.get(), a.c.get()), Stream::weights);
  CHECK_THROWS_WITH(device().run(a.product), Contains("product") && Contains("what add_rows writes"));
  settle();
}

TEST_CASE("a product past the end of its operand") {
  Numbers x("x"), y("y");
  Gemm product{Element::f32, kRows + 1, kWidth, kRows};
  product.a = {x.get(), kWidth}, product.b = {x.get(), kWidth};
  product.out = y.get(), product.out_stride = kWidth;
  CHECK_THROWS_WITH(device().run(product), Contains("past the end of") || Contains("not device memory"));
}

TEST_CASE("what a capture may not hold") {
  Numbers x("x"), y("y");
  std::vector<float> host(kRows * kWidth);
  const auto refused = [&](auto work, const char* what) {
    CHECK_THROWS_WITH(device().capture(work), Contains(what) && Contains("captured"));
    settle();
  };
  refused([&] { device().synchronize(Stream::compute); }, "the host waits");
  refused([&] { device().read(host.data(), y.get(), kBytes); }, "the host waits");
  refused([&] { DeviceBlock block(device(), kBytes, "scratch"); }, "memory is allocated");
}

namespace {

// A product whose weight another stream makes, captured: forked to and joined again, or not.
struct Forked {
  bool waits_for_fork = true, waits_for_weight = true;
  Event fork = device().new_event(), ready = device().new_event();
  Numbers packed{"packed weight"}, scratch{"scratch", false}, y{"y"};

  void queue() const {
    ComputeDevice& d = device();
    d.record(fork, Stream::compute);
    if (waits_for_fork) d.wait(Stream::weights, fork);
    d.run(ConvertElements{Element::f32, Element::f32, kRows * kWidth, packed.get(), scratch.get()}, Stream::weights);
    d.record(ready, Stream::weights);
    if (waits_for_weight) d.wait(Stream::compute, ready);
    d.run(add(scratch.get(), y.get()));
  }
};

}  // namespace

TEST_CASE("two streams in one capture, again and again") {
  const Forked forked;
  const auto captured = device().capture([&] { forked.queue(); });
  for (int i = 0; i < 3; ++i) device().replay(*captured);
  std::vector<float> host(kRows * kWidth);
  device().read(host.data(), forked.y.get(), kBytes);
  CHECK(host[7] == 4);
}

TEST_CASE("a capture that another stream is not joined to, or not part of") {
  const Forked alone{.waits_for_weight = false}, apart{.waits_for_fork = false};
  CHECK_THROWS_WITH(device().capture([&] { alone.queue(); }), Contains("ends before its first stream waits for stream 2"));
  CHECK_THROWS_WITH(device().capture([&] { apart.queue(); }), Contains("convert on a stream that takes no part in what is captured"));
  settle();
}

TEST_CASE("captured work that waits for what was recorded outside of it, and others for what was recorded inside") {
  const Forked forked;
  device().record(forked.ready, Stream::weights);
  CHECK_THROWS_WITH(device().capture([&] { device().wait(Stream::compute, forked.ready); }), Contains("recorded outside of the capture"));
  const auto captured = device().capture([&] { forked.queue(); });
  CHECK_THROWS_WITH(device().wait(Stream::compute, forked.ready), Contains("an event of a capture that is over"));
}

// Its reader waits for the stream before the weight is made, so the capture ends joined and the
// replay is out of order.
TEST_CASE("a replay that reads what no captured wait orders") {
  const Forked f;
  const auto captured = device().capture([&] {
    ComputeDevice& d = device();
    d.record(f.fork, Stream::compute);
    d.wait(Stream::weights, f.fork);
    d.run(ConvertElements{Element::f32, Element::f32, kRows * kWidth, f.packed.get(), f.scratch.get()}, Stream::weights);
    d.record(f.ready, Stream::weights);
    d.run(add(f.packed.get(), f.y.get()));
    d.run(add(f.scratch.get(), f.y.get()));
    d.wait(Stream::compute, f.ready);
  });
  CHECK_THROWS_WITH(device().replay(*captured), Contains("add_rows") && Contains("what convert writes"));
}

TEST_CASE("a replay beside another stream that writes what it reads") {
  const Forked forked;
  const auto captured = device().capture([&] { forked.queue(); });
  settle();
  device().clear(forked.packed.get(), kBytes, Stream::weights);
  CHECK_THROWS_WITH(device().replay(*captured), Contains("convert") && Contains("what clear writes"));
  settle();
}

TEST_CASE("a replay of work in memory that was released") {
  Numbers y("y");
  void* x = device().allocate(kBytes, "x");
  device().clear(x, kBytes);
  const auto captured = device().capture([&] { device().run(add(x, y.get())); });
  device().release(x);
  CHECK_THROWS_WITH(device().replay(*captured), Contains("add_rows") && Contains("of x, which was released"));
}

TEST_CASE("work whose capture is refused is queued each time, and that is said once") {
  Numbers x("x"), y("y");
  Captures<int> captures, others;
  const auto run = [&](Captures<int>& c, int key) {
    c.run(device(), key, [&] {
      DeviceBlock scratch(device(), kBytes, "scratch");
      device().run(add(x.get(), y.get()));
    });
  };
  for (int i = 0; i < 3; ++i) run(captures, 1), run(captures, 2), run(others, 1);
  std::vector<float> host(kRows * kWidth);
  device().read(host.data(), y.get(), kBytes);
  CHECK(host[0] == 10);
  const std::vector<std::string> said = device().take_sayings();
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Contains("graphs are not used") && Contains("memory is allocated while work is captured"));
  CHECK(device().take_sayings().empty());
}

TEST_CASE("captures are told apart by their keys, and the oldest is made anew") {
  Numbers x("x"), y("y");
  Captures<int> captures;
  int queued = 0;
  const auto run = [&](int key) { captures.run(device(), key, [&] { ++queued, device().run(add(x.get(), y.get())); }); };
  for (int i = 0; i < 4; ++i) run(1), run(2);
  CHECK(queued == 4);  // each queued once and captured once
  for (int key = 3; key < 18; ++key) run(key);  // 17 in all: the first goes
  queued = 0;
  run(2), run(1);
  CHECK(queued == 1);
  settle();
}
