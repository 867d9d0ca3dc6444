// Rates of a machine: the work of an op, how its time follows from measured ones, and files that are rejected.
#include <cmath>
#include <filesystem>

#include "core/base/file.h"
#include "core/families/step.h"
#include "core/plan/rates.h"
#include "core/plan/step_time.h"
#include "tests/test.h"

using namespace forge;

namespace {

const Machine kHere{"a processor", "avx2", 4};

// Below 1,000 rows the rate is half, so operations take twice as long.
Rates some_rates() {
  Rates rates{.machine = kHere, .date = "2026-01-02"};
  for (double rows : {100.0, 10000.0}) {
    const double amount = 2 * rows * 64 * 64;
    rates.points.push_back({Precision::fp32, {"linear", {rows, 64, 64}, amount}, amount / (rows < 1000 ? 1e9 : 4e9)});
  }
  return rates;
}

struct File {
  std::string path = (std::filesystem::temp_directory_path() / ("rates-test-" + std::to_string(getpid()))).string();
  explicit File(const std::string& text) { write_file_durably(path, text); }
  ~File() { std::filesystem::remove(path); }
};

std::string warning_of(const std::string& text, const Machine& machine) {
  const File file(text);
  std::string warning;
  CHECK_FALSE(read_rates(file.path, machine, &warning));
  return warning;
}

}  // namespace

TEST_CASE("a measured shape takes its measured time, one between lies between, and other work is unknown") {
  const Rates rates = some_rates();
  const auto seconds = [&](double rows) {
    const double amount = 2 * rows * 64 * 64;
    return rates.seconds({"linear", {rows, 64, 64}, amount}, Precision::fp32).value() / amount;
  };
  CHECK(seconds(100) == Approx(1e-9).epsilon(1e-3));
  CHECK(seconds(10000) == Approx(0.25e-9).epsilon(1e-3));
  CHECK(seconds(1000) == Approx(0.5e-9).epsilon(1e-3));  // the middle, in octaves
  CHECK_FALSE(rates.seconds({"linear", {100, 64, 64}, 1}, Precision::bf16));
  CHECK_FALSE(rates.seconds({"norm", {100, 1, 1}, 1}, Precision::fp32));
}

TEST_CASE("rates come back from their file, and of another machine, version or a damaged one none") {
  const std::string text = to_json(some_rates()).dump();
  {
    const File file(text);
    std::string warning;
    const auto read = read_rates(file.path, kHere, &warning);
    REQUIRE(read);
    CHECK(warning.empty());
    CHECK(to_json(*read).dump() == text);
    CHECK_FALSE(read_rates(file.path + "-none", kHere, &warning));
    CHECK(warning.empty());
  }
  Machine other = kHere;
  other.threads = 2;
  CHECK(warning_of(text, other).find("not on this machine as the job uses it") != std::string::npos);
  CHECK(warning_of(text.substr(0, text.size() / 2), kHere).find("is damaged") != std::string::npos);
  CHECK(warning_of("[]", kHere).find("is damaged") != std::string::npos);
  Json changed = to_json(some_rates());
  changed["rates"][0]["seconds"] = 0;
  CHECK(warning_of(changed.dump(), kHere).find("is damaged") != std::string::npos);
  changed = to_json(some_rates());
  changed["version"] = 99;
  CHECK(warning_of(changed.dump(), kHere).find("another version") != std::string::npos);
}

TEST_CASE("the work of a step's list is every product once, and an adapter's beside it") {
  ModelSpec spec{.family = "llama"};
  spec.vocab_size = 100, spec.hidden_size = 32, spec.intermediate_size = 80, spec.num_layers = 2;
  spec.num_heads = 4, spec.num_kv_heads = 2, spec.head_dim = 8;
  ModuleTraining training;
  training.ranks["model.layers.1.self_attn.q_proj"] = 3;
  const Graph step = training_step({spec, training});
  const StepSizes sizes{10, 5};
  double linear = 0, adapters = 0, head = 0;
  for (const Op& op : step.ops)
    for (const Work& work : work_of(step, op, sizes, 4)) {
      CHECK(work.amount > 0);
      if (work.kind == "linear") linear += work.amount;
      if (work.kind == "adapter") adapters += work.amount;
      if (work.kind == "head") head += work.amount;
    }
  const double layer = 32 * (32 + 2 * 16) + 32 * 32 + 3 * 32 * 80;
  CHECK(linear == 2 * 10 * 2 * layer);
  CHECK(adapters == 2 * 10 * 3 * (32 + 32));
  CHECK(head == 2 * 2 * 5 * 32 * 100);
}

TEST_CASE("a token attends to its own sequence") {
  CHECK(mean_attended_length({10, 10}) == 10);
  CHECK(mean_attended_length({30, 10}) == Approx(25));
  CHECK(mean_attended_length({}) == 1);
}
