// Tests the rates of a machine: the work of an op, its time as computed from measured ones, and
// files that are rejected.
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "core/graph/op_record.h"
#include "core/lib/base/file.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/parameters.h"
#include "core/model/families/step.h"
#include "core/model/families/trained_layout.h"
#include "core/plan/machine/rate_models.h"
#include "core/plan/machine/rates.h"
#include "core/plan/step_time.h"
#include "kernels/dora/dora_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lm_head/head_op.h"
#include "tests/fixtures/variants.h"
#include "tests/test.h"

using namespace forge;

namespace {

const Machine kHere{"a processor", "avx2", 4};

// Returns rates that are half below 1,000 rows, so operations take twice as long there.
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

namespace {

// Returns a step of two layers of width 32, with an adapter of rank 3 in the second one's q_proj.
Graph step_with_an_adapter(bool dora) {
  ModelSpec spec{.family = "llama"};
  spec.vocab_size = 100, spec.hidden_size = 32, spec.intermediate_size = 80, spec.num_layers = 2;
  spec.num_heads = 4, spec.num_kv_heads = 2, spec.head_dim = 8;
  ModuleTraining training;
  training.adapters["model.layers.1.self_attn.q_proj"] = {3, ""};
  training.dora = dora;
  return training_step({spec, training});
}

}  // namespace

TEST_CASE("the work of a step's list is every product once, and an adapter's beside it") {
  const Graph step = step_with_an_adapter(false);
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

TEST_CASE("a list's operations are two for each weight and row, an adapter's too, a head's in both directions, and a DoRA ratio's of its factors") {
  const Graph step = step_with_an_adapter(true);
  std::map<OpKind, double> flops;
  for (const Op& op : step.ops) flops[op.kind] += cost_of(step, op, {10, 5}, 4).flops;
  const double layer = 32 * (32 + 2 * 16) + 32 * 32 + 3 * 32 * 80;
  CHECK(flops[&ops::linear] == 2 * 10 * (2 * layer + 3 * (32 + 32)));
  CHECK(flops[&ops::head] == 2 * 2 * 5 * 32 * 100);
  CHECK(flops[&ops::dora_ratio] == 2 * (3 + 1) * 32 * 32);
}

TEST_CASE("a token attends to its own sequence") {
  CHECK(mean_attended_length({10, 10}) == 10);
  CHECK(mean_attended_length({30, 10}) == Approx(25));
  CHECK(mean_attended_length({}) == 1);
}

// A rate model that a new op needs is one line in rate_models.cpp.
TEST_CASE("every op of every family under fused has a rate, with and without an adapter") {
  const auto kinds_of = [](const ModelSpec& spec, RateAdapter adapter, std::set<std::string>& kinds) {
    const AdapterConfig config = adapter_config(adapter);
    std::vector<AdapterSite> sites;
    if (config.type == AdapterType::lora) sites = adapter_sites(spec, config);
    const TrainedLayout layout = trained_layout(run_parameters(spec, config, Quantization::none));
    const Graph step = training_step({spec, module_training(spec, config, sites), {.trained = trained_size(layout, Precision::fp32)}});
    for (const Op& op : step.ops)
      for (const Work& work : work_of(step, op, {64, 32}, 16)) kinds.insert(work.kind);
  };
  std::set<std::string> measured;
  for (const RateModel& model : rate_models()) {
    kinds_of(model.spec, RateAdapter::none, measured);
    for (const RateAdapter adapter : rate_adapters(model)) kinds_of(model.spec, adapter, measured);
  }
  int64_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FORGE_SOURCE_DIR "/tests/fixtures/tiny-variants")) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    const ModelSpec spec = model_spec_from_config(variant_config(name), name);
    ++seen;
    for (const RateAdapter adapter : {RateAdapter::none, RateAdapter::lora, RateAdapter::dora}) {
      std::set<std::string> kinds;
      kinds_of(spec, adapter, kinds);
      for (const std::string& kind : kinds) {
        INFO(name << " has " << kind);
        CHECK(measured.contains(kind));
      }
    }
  }
  CHECK(seen > 20);
}
