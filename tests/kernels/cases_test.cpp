// Every case on every backend.
#include <ATen/ATen.h>
#include <omp.h>

#include <cstdio>

#include "tests/kernels/case.h"
#include "tests/test.h"

using namespace forge;
using namespace forge::kernel_test;

TEST_CASE("every op equals its float64 oracle on every backend") {
  std::vector<Case> cases = all_cases();
  std::vector<Backend> backends = all_backends();
  REQUIRE(!cases.empty());
  REQUIRE(!backends.empty());
  std::map<std::string, int64_t> runs, of_op;
  std::vector<std::string> faults;
  for (const Case& c : cases) {
    Tensors expected = expected_outputs(c);
    ++of_op[c.op];
    for (const Backend& backend : backends) {
      if (!c.supported(backend)) continue;
      ++runs[backend.name()];
      for (const std::string& fault : run_case(c, backend, expected))
        faults.push_back(backend.name() + ": " + c.op + " " + c.name + ": " + fault);
    }
  }
  for (const auto& [op, count] : of_op)
    std::printf("%5lld cases of %s\n", static_cast<long long>(count), op.c_str());
  for (const auto& [backend, count] : runs)
    std::printf("%5lld runs on %s\n", static_cast<long long>(count), backend.c_str());
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
