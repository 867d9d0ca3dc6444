// Tests the harness itself: a right kernel passes, and each kind of fault is caught.
#include <ATen/ATen.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>

#include "tests/kernels/case.h"
#include "tests/test.h"

using namespace forge;
using namespace forge::kernel_test;

namespace {

struct DoubleArgs {
  int64_t rows, width;
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
  void* workspace = nullptr;
};

Case double_case(const Layout& layout, at::Tensor x) {
  std::vector<int64_t> shape = x.sizes().vec();
  return make_case<DoubleArgs>(
      "double", layout.name,
      {laid(input("x", Store::f32, x), layout),
       laid(output("y", Store::f32, shape, {.roundings = 1, .sums = 0, .reason = "one multiply"}), layout)},
      [](const Tensors& in) {
        return Tensors{{"y", in.at("x") * 2}};
      },
      std::function<DoubleArgs(Pointers&)>([=](Pointers& p) {
        return DoubleArgs{shape[0], shape[1], p["x"], p.stride("x"), p["y"], p.stride("y")};
      }));
}

void right(const DoubleArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.width; ++c) a.y[r * a.y_stride + c] = 2 * a.x[r * a.x_stride + c];
}

// Returns the first fault of a kernel that does `wrong` after the right thing; "none" when it
// passes.
std::string fault_of(std::function<void(const DoubleArgs&)> wrong, const Layout& layout = kDense,
                     at::Tensor x = normal({4, 7}, 3)) {
  Backend backend("planted");
  backend.add<DoubleArgs>(
      [=](const DoubleArgs& a) {
        right(a);
        if (wrong) wrong(a);
      },
      [](const DoubleArgs&) { return int64_t{24}; });
  Case c = double_case(layout, x);
  auto faults = run_case(c, backend, expected_outputs(c));
  return faults.empty() ? "none" : faults.front();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a right kernel passes in every layout, with no rows, and with values that are not finite") {
  for (const Layout& layout : kLayouts) {
    CHECK(fault_of({}, layout) == "none");
    CHECK(fault_of({}, layout, at::empty({0, 7}, at::kDouble)) == "none");
    CHECK(fault_of({}, layout, at::full({2, 3}, std::numeric_limits<double>::quiet_NaN(), at::kDouble)) ==
          "none");
    CHECK(fault_of({}, layout, at::full({2, 3}, -HUGE_VAL, at::kDouble)) == "none");
  }
}

TEST_CASE("planted faults are caught and named") {
  for (const Layout& layout : kLayouts) {
    INFO(layout.name);
    auto last = [](const DoubleArgs& a) { return (a.rows - 1) * a.y_stride + a.width - 1; };
    CHECK(has(fault_of([&](const DoubleArgs& a) { a.y[last(a)] *= 1.000001f; }, layout), "row 3, column 6"));
    CHECK(has(fault_of([&](const DoubleArgs& a) { a.y[last(a)] = std::nanf(""); }, layout),
              "1 of 28 values wrong"));
    CHECK(has(fault_of([&](const DoubleArgs& a) { a.y[0] = HUGE_VALF; }, layout), "row 0, column 0"));
    CHECK(has(fault_of([&](const DoubleArgs& a) { a.y[last(a) + 1] = 0; }, layout), "past its end"));
    CHECK(has(fault_of([&](const DoubleArgs& a) { a.y[-1] = 0; }, layout), "before its begin"));
    CHECK(
        has(fault_of([&](const DoubleArgs& a) { const_cast<float*>(a.x)[2] = 0; }, layout), "x was written"));
    CHECK(has(fault_of([&](const DoubleArgs& a) { static_cast<char*>(a.workspace)[24] = 1; }, layout),
              "workspace was written"));
    CHECK(
        has(fault_of([&](const DoubleArgs&) { throw std::runtime_error("deadlock"); }, layout), "deadlock"));
  }
  CHECK(
      has(fault_of([](const DoubleArgs& a) { a.y[a.width] = 0; }, kLayouts[1]), "row 0, column 7"));  // a gap
}

TEST_CASE("in fenced memory a kernel passes, and dies where it reads or writes past an operand's end") {
  // Returns the signal with which a kernel ends that does `wrong` after the right thing; 0 when it
  // passes.
  const auto signal_of = [](const Layout& layout, std::function<void(const DoubleArgs&)> wrong) {
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGSEGV, SIG_DFL);  // Catch2 has one of its own
      Backend backend("fenced", fenced_memory());
      backend.add<DoubleArgs>([=](const DoubleArgs& a) { right(a), wrong(a); });
      const Case c = double_case(layout, normal({4, 7}, 3));
      _exit(run_case(c, backend, expected_outputs(c)).empty() ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) == 0 ? 0 : -1;
  };
  for (const Layout& layout : kLayouts) {
    INFO(layout.name);
    [[maybe_unused]] static volatile float read = 0;
    CHECK(signal_of(layout, [](const DoubleArgs&) {}) == 0);
    CHECK(signal_of(layout, [](const DoubleArgs& a) { read = a.x[(a.rows - 1) * a.x_stride + a.width]; }) == SIGSEGV);
    CHECK(signal_of(layout, [](const DoubleArgs& a) { a.y[(a.rows - 1) * a.y_stride + a.width] = 0; }) == SIGSEGV);
  }
}

TEST_CASE("an output that nobody writes is caught") {
  Backend lazy("lazy");
  lazy.add<DoubleArgs>([](const DoubleArgs& a) {
    DoubleArgs fewer = a;
    --fewer.rows;
    right(fewer);
  });
  Case c = double_case(kDense, normal({4, 7}, 3));
  auto faults = run_case(c, lazy, expected_outputs(c));
  REQUIRE(faults.size() == 1);
  CHECK(has(faults[0], "7 of 28 values wrong"));
}

TEST_CASE("a backend that does less than the contract says so, and is held to it") {
  auto with = [](Restrictions<DoubleArgs> restrictions) {
    Backend backend("less");
    backend.add<DoubleArgs>(right, {}, false, restrictions);
    return backend;
  };
  Case c = double_case(kDense, normal({4, 7}, 3));
  CHECK(c.refusal(Backend("empty")) == "it has no such op");
  CHECK(c.supported(with({})));
  auto no_odd_width = [](const DoubleArgs& a) { return std::string(a.width % 2 ? "no odd width" : ""); };
  CHECK(c.refusal(with({.refusal = no_odd_width})) == "no odd width");
  CHECK(double_case(kDense, normal({4, 8}, 3)).supported(with({.refusal = no_odd_width})));
  auto faults = run_case(c, with({.without = {"y"}}), expected_outputs(c));
  REQUIRE(faults.size() == 1);
  CHECK(has(faults[0], "says it does not"));
}

TEST_CASE("an oracle whose gradient is not its difference is refused") {
  Tensors inputs{{"x", normal({3, 4}, 1)}}, cotangents{{"y", normal({3, 4}, 2)}};
  Forward right_one = [](const Tensors& in) { return Tensors{{"y", in.at("x").sin()}}; };
  CHECK(at::allclose(gradients(right_one, inputs, {"x"}, cotangents).at("x"),
                     inputs["x"].cos() * cotangents["y"]));
  Forward detached = [](const Tensors& in) { return Tensors{{"y", in.at("x").detach().sin() + in.at("x")}}; };
  CHECK(has(error_of([&] { gradients(detached, inputs, {"x"}, cotangents); }), "finite difference"));
}

TEST_CASE("16-bit conversions round to nearest even and keep what is not finite") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    F16 half{static_cast<uint16_t>(bits)}, again;
    c10::Half reference(static_cast<uint16_t>(bits), c10::Half::from_bits());
    float wide = to_float(half), expected = static_cast<float>(reference);
    if (!(std::isnan(wide) && std::isnan(expected))) REQUIRE(wide == expected);
    from_float(wide, again);
    if (!std::isnan(wide)) REQUIRE(again.bits == bits);
  }
  at::Tensor values = at::cat({at::randn({4000}), at::randn({4000}) * 1e-6, at::randn({4000}) * 4e4,
                               at::tensor({65519.996f, 65520.0f, 0x1p-25f, 0x1.8p-25f, 3.4e38f, HUGE_VALF})});
  at::Tensor halves = values.to(at::kHalf), bf16s = values.to(at::kBFloat16);
  for (int64_t i = 0; i < values.numel(); ++i) {
    F16 half;
    Bf16 bf16;
    from_float(values.const_data_ptr<float>()[i], half);
    from_float(values.const_data_ptr<float>()[i], bf16);
    REQUIRE(half.bits == halves.const_data_ptr<at::Half>()[i].x);
    REQUIRE(bf16.bits == bf16s.const_data_ptr<at::BFloat16>()[i].x);
  }
}
