// Every case on every backend.
#include <ATen/ATen.h>
#include <omp.h>

#include <cstdio>
#include <set>

#include "tests/kernels/attention_stand_ins.h"
#include "tests/kernels/case.h"
#include "tests/kernels/cuda_backends.h"
#include "tests/test.h"

using namespace forge;
using namespace forge::kernel_test;

TEST_CASE("every op equals its float64 oracle on every backend") {
  std::vector<Case> cases = all_cases();
  std::vector<Backend> backends = all_backends();
  REQUIRE(!cases.empty());
  REQUIRE(!backends.empty());
  std::map<std::string, int64_t> runs, of_op;
  std::map<std::string, std::map<std::string, int64_t>> refusals;  // of backend and reason, by op
  std::set<std::string> without;
  std::vector<std::string> faults;
  for (const Case& c : cases) {
    Tensors expected = expected_outputs(c);
    ++of_op[c.op];
    for (const Backend& backend : backends) {
      if (std::string reason = c.refusal(backend); !reason.empty()) {
        ++refusals[backend.name() + ": " + reason][c.op];
        continue;
      }
      ++runs[backend.name()];
      for (const std::string& output : c.without(backend))
        without.insert(backend.name() + ", " + c.op + ": " + output);
      for (const std::string& fault : run_case(c, backend, expected))
        faults.push_back(backend.name() + ": " + c.op + " " + c.name + ": " + fault);
    }
  }
  for (const auto& [op, count] : of_op)
    std::printf("%5lld cases of %s\n", static_cast<long long>(count), op.c_str());
  for (const auto& [backend, count] : runs)
    std::printf("%5lld runs on %s\n", static_cast<long long>(count), backend.c_str());
  for (const auto& [reason, ops] : refusals) {
    std::printf("not run on %s (", reason.c_str());
    for (const auto& [op, count] : ops)
      std::printf("%s%s %lld", op == ops.begin()->first ? "" : ", ", op.c_str(),
                  static_cast<long long>(count));
    std::printf(")\n");
  }
  for (const std::string& output : without) std::printf("not given by %s\n", output.c_str());
  for (size_t i = 0; i < std::min<size_t>(faults.size(), 40); ++i) UNSCOPED_INFO(faults[i]);
  INFO(faults.size() << " faults");
  CHECK(faults.empty());
}

// Resume is bit-exact and says nothing about threads: a result may not depend on how work was split.
TEST_CASE("results do not depend on the number of threads") {
  std::vector<Case> cases = all_cases();
  Backend backend = cpu_backends().back();
  int before = omp_get_max_threads();
  int64_t compared = 0;
  for (const Case& c : cases) {
    // LibTorch's own products, whose sums on some processors follow the threads; a run's plan states how many those are.
    if (c.op == "lora" && c.name.rfind("linear ", 0) == 0) continue;
    if (!c.supported(backend)) continue;
    auto bytes_with = [&](int threads) {
      omp_set_num_threads(threads);
      return output_bytes(c, backend);
    };
    INFO(c.op << " " << c.name);
    auto one = bytes_with(1);
    CHECK(one == bytes_with(2));
    CHECK(one == bytes_with(3));
    ++compared;
  }
  omp_set_num_threads(before);
  CHECK(compared > 10);
}

TEST_CASE("results do not depend on the order of a GPU's warps") {
  std::vector<Backend> orders = cuda_backends();
  int64_t compared = 0;
  for (const Case& c : all_cases()) {
    if (!c.supported(orders[0]) || !c.ordered) continue;
    INFO(c.op << " " << c.name);
    auto first = output_bytes(c, orders[0]);
    for (size_t i = 1; i < orders.size(); ++i) CHECK(first == output_bytes(c, orders[i]));
    ++compared;
  }
  CHECK(compared > 10);
}

// A tolerance that lets anything pass proves nothing: results off by a few units of their type must be
// refused.
TEST_CASE("every case notices a result that is slightly wrong") {
  std::vector<Case> cases = all_cases();
  const Backend cpu = cpu_backends().back(), gpu = cuda_backends().front();
  std::vector<Backend> rounding = attention_backends();
  for (Backend& flash : flash_backends()) rounding.push_back(std::move(flash));
  rounding.push_back(reference_backend());
  std::vector<std::string> blind;
  int64_t tried = 0;
  auto try_all = [&](const Case& c, const Backend& backend, Tensors& expected) {
    const std::vector<std::string> without = c.without(backend);
    for (const Operand& operand : c.operands) {
      if (operand.role == Role::in || operand.value.numel() <= 1 ||
          std::find(without.begin(), without.end(), operand.name) != without.end())
        continue;  // one value may be all cancellation
      at::Tensor& value = expected.at(operand.name);
      double largest = value.to(at::kDouble).nan_to_num(0, 0, 0).abs().max().item<double>();
      if (largest < 1e-6 || value.scalar_type() == at::kLong) continue;
      // Where one word wins, what is left of the entropy is less than the rounding of its logits.
      if (c.rounds_between(backend) && c.name.starts_with("large logits") && operand.name == "entropy")
        continue;
      // Nobody can tell less than the type that is rounded to on the way; and where terms cancel, Σ |terms| of
      // those roundings is several times the result.
      Store type = c.rounds_between(backend) ? c.between_type : operand.store;
      double off = type == Store::bf16 ? 0x1p-5 : type == Store::f16 ? 0x1p-8 : 0x1p-10;
      if (c.rounds_between(backend) && type != Store::f32) off *= 8;
      at::Tensor right = value;
      value = right * (1 + off);
      ++tried;
      if (run_case(c, backend, expected).empty())
        blind.push_back(backend.name() + ": " + c.op + " " + c.name + ": " + operand.name);
      value = right;
    }
  };
  for (const Case& c : cases) {
    Tensors expected = expected_outputs(c);
    if (c.supported(cpu) || c.supported(gpu)) try_all(c, c.supported(cpu) ? cpu : gpu, expected);
    for (const Backend& backend : rounding)
      if (c.supported(backend)) try_all(c, backend, expected);
  }
  for (size_t i = 0; i < std::min<size_t>(blind.size(), 40); ++i) UNSCOPED_INFO(blind[i]);
  INFO(blind.size() << " of " << tried << " outputs");
  CHECK(blind.empty());
}
