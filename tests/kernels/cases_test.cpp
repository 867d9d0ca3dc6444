// Runs every case on every backend. In a sample (tests/sample.h) every case runs on the CPU and on
// an emulated GPU, and some of them in other orders of its warps, with other numbers of threads,
// and against results that are slightly wrong.
#include <ATen/ATen.h>
#include <omp.h>

#include <cstdio>
#include <ctime>
#include <set>

#include "tests/kernels/attention_stand_ins.h"
#include "tests/kernels/case.h"
#include "tests/kernels/cuda_backends.h"
#include "tests/sample.h"
#include "tests/test.h"

using namespace forge;
using namespace forge::kernel_test;

namespace {

constexpr uint64_t kCommits = 4;  // of so many, one has a case that is sampled

// The cases that a test runs: in a sample the first of each op and, depending on the commit,
// others.
class Chosen {
 public:
  explicit Chosen(std::string test) : test_(std::move(test)) {}
  ~Chosen() {
    if (left_ > 0)
      std::printf("%lld of %lld cases left for another commit: %s\n", static_cast<long long>(left_), static_cast<long long>(seen_), test_.c_str());
  }
  bool operator()(const Case& c) {
    const bool runs = ops_.insert(c.op).second || in_sample(test_ + "\n" + c.op + " " + c.name, kCommits);
    ++seen_;
    left_ += !runs;
    return runs;
  }

 private:
  std::string test_;
  std::set<std::string> ops_;
  int64_t seen_ = 0, left_ = 0;
};

bool other_order(const Backend& backend) { return backend.name() == "emulated/reverse" || backend.name() == "emulated/seeded"; }

}  // namespace

TEST_CASE("every op equals its float64 oracle on every backend") {
  std::vector<Case> cases = all_cases();
  std::vector<Backend> backends = all_backends();
  REQUIRE(!cases.empty());
  REQUIRE(!backends.empty());
  std::map<std::string, int64_t> runs, of_op;
  std::map<std::string, double> seconds;  // of the processor, by op
  std::map<std::string, std::map<std::string, int64_t>> refusals;  // of backend and reason, by op
  std::set<std::string> without;
  std::vector<std::string> faults;
  Chosen chosen("other orders of a GPU's warps");
  int64_t same_in_every_order = 0;
  for (const Case& c : cases) {
    const std::clock_t began = std::clock();
    Tensors expected = expected_outputs(c);
    ++of_op[c.op];
    const bool in_every_order = chosen(c);
    std::vector<unsigned char> first;  // bytes of the first order
    for (const Backend& backend : backends) {
      if (std::string reason = c.refusal(backend); !reason.empty()) {
        ++refusals[backend.name() + ": " + reason][c.op];
        continue;
      }
      if (other_order(backend) && !in_every_order) continue;
      ++runs[backend.name()];
      for (const std::string& output : c.without(backend))
        without.insert(backend.name() + ", " + c.op + ": " + output);
      std::vector<unsigned char> bytes;
      for (const std::string& fault : run_case(c, backend, expected, &bytes))
        faults.push_back(backend.name() + ": " + c.op + " " + c.name + ": " + fault);
      if (!c.ordered) continue;
      if (backend.name() == "emulated/forward") first = bytes;
      if (!other_order(backend)) continue;
      ++same_in_every_order;
      if (bytes != first) faults.push_back(backend.name() + ": " + c.op + " " + c.name + ": other bits than in another order");
    }
    seconds[c.op] += static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  }
  for (const auto& [op, count] : of_op)
    std::printf("%5lld cases of %s, %.1f s\n", static_cast<long long>(count), op.c_str(), seconds.at(op));
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
  CHECK((std::getenv("FORGE_KERNEL_CASES") || same_in_every_order > 20));
}

// Resume is bit-exact for any number of threads: a result may not depend on how work was split.
TEST_CASE("results do not depend on the number of threads") {
  std::vector<Case> cases = all_cases();
  Backend backend = cpu_backends().back();
  int before = omp_get_max_threads();
  int64_t compared = 0;
  Chosen chosen("other numbers of threads");
  for (const Case& c : cases) {
    // LibTorch's own products are skipped, since their sums depend on the threads on some
    // processors; a run's plan states the number of threads.
    if (c.op == "lora" && c.name.rfind("linear ", 0) == 0) continue;
    if (!c.supported(backend) || !chosen(c)) continue;
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

// A tolerance that accepts anything tests nothing: results that are off by a few units of their
// type must be refused.
TEST_CASE("every case notices a result that is slightly wrong") {
  std::vector<Case> cases = all_cases();
  const Backend cpu = cpu_backends().back(), gpu = cuda_backends().front();
  std::vector<Backend> rounding = attention_backends();
  for (Backend& flash : flash_backends()) rounding.push_back(std::move(flash));
  rounding.push_back(reference_backend());
  std::vector<std::string> blind;
  int64_t tried = 0;
  Chosen chosen("results that are slightly wrong");
  auto try_all = [&](const Case& c, const Backend& backend, Tensors& expected) {
    const std::vector<std::string> without = c.without(backend);
    for (const Operand& operand : c.operands) {
      if (operand.role == Role::in || operand.value.numel() <= 1 ||
          std::find(without.begin(), without.end(), operand.name) != without.end())
        continue;  // one value may be all cancellation
      at::Tensor& value = expected.at(operand.name);
      double largest = value.to(at::kDouble).nan_to_num(0, 0, 0).abs().max().item<double>();
      if (largest < 1e-6 || value.scalar_type() == at::kLong) continue;
      // Where one word dominates, the remaining entropy is less than the rounding of its logits.
      if (c.rounds_between(backend) && c.name.starts_with("large logits") && operand.name == "entropy")
        continue;
      // Differences below the intermediate type's rounding cannot be detected; and where terms
      // cancel, Σ |terms| of those roundings is several times the result.
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
    if (!chosen(c)) continue;
    Tensors expected = expected_outputs(c);
    if (c.supported(cpu) || c.supported(gpu)) try_all(c, c.supported(cpu) ? cpu : gpu, expected);
    for (const Backend& backend : rounding)
      if (c.supported(backend)) try_all(c, backend, expected);
  }
  for (size_t i = 0; i < std::min<size_t>(blind.size(), 40); ++i) UNSCOPED_INFO(blind[i]);
  INFO(blind.size() << " of " << tried << " outputs");
  CHECK(blind.empty());
}
