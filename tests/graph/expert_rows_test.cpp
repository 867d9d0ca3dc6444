// Proves that a plan may count the experts of a layer in rows: everything that it reads of a model
// and its lists is the same as with a module for each expert, and does not grow with their number.
#include <numeric>
#include <set>

#include "core/graph/layout.h"
#include "core/model/families/expert_rows.h"
#include "core/model/families/modules.h"
#include "core/model/families/trained_layout.h"
#include "core/model/graph/print.h"
#include "providers/fused/fused_plan.h"
#include "tests/graph/lists_of.h"
#include "tests/test.h"

namespace forge {
namespace {

StepShape shape_of(const ModelSpec& spec, const AdapterConfig& adapter, Experts experts) {
  const std::vector<AdapterSite> sites = adapter.type == AdapterType::none
                                             ? std::vector<AdapterSite>{}
                                             : adapter_sites(spec, adapter, experts);
  StepShape shape{spec, module_training(spec, adapter, sites, Quantization::none, experts)};
  shape.recompute = recomputed_by(shape, Checkpointing::selective);
  return shape;
}

AdapterConfig with_regex(const std::string& target) {
  AdapterConfig adapter = lora({target});
  adapter.target_is_regex = true;
  return adapter;
}

// Adapters that treat all experts of a layer alike, and some that do not.
std::vector<AdapterConfig> alike() {
  AdapterConfig ranks = lora(), saved = lora({"o_proj"}), dora = lora();
  ranks.rank_pattern.emplace_back("(up_proj|w3)", 2);
  saved.modules_to_save = {"lm_head"};
  dora.use_dora = true;
  return {AdapterConfig{},
          lora(),
          lora({"o_proj"}),
          ranks,
          saved,
          dora,
          with_regex(".*(o_proj|gate_proj|w1)")};
}
std::vector<AdapterConfig> telling_apart() {
  AdapterConfig ranks = lora(), excluded = lora(), alphas = lora();
  ranks.rank_pattern.emplace_back("experts.1.[a-z0-9_]*", 2);
  alphas.alpha_pattern.emplace_back("experts.[01].*", 3),
      alphas.alpha_pattern.emplace_back("experts.*", 3);
  excluded.exclude_modules = {"experts.0.up_proj", "experts.0.w3"};
  return {ranks, excluded, alphas, with_regex(".*experts.[0-1].*")};
}

int64_t total_copies(const std::vector<AdapterSite>& sites) {
  return std::accumulate(sites.begin(), sites.end(), int64_t{0},
                         [](int64_t sum, const AdapterSite& site) { return sum + site.copies; });
}

void check_numbers(const ModelSpec& spec, const AdapterConfig& adapter) {
  for (const Quantization quantization : {Quantization::none, Quantization::nf4}) {
    const std::vector<Parameter> each = run_parameters(spec, adapter, quantization),
                                 rows =
                                     run_parameters(spec, adapter, quantization, Experts::in_rows);
    CHECK(count_parameters(rows).total == count_parameters(each).total);
    CHECK(count_parameters(rows).trainable == count_parameters(each).trainable);
    for (const OptimizerType type : {OptimizerType::adamw, OptimizerType::adamw_8bit,
                                     OptimizerType::adafactor, OptimizerType::muon}) {
      const TrainedLayout whole = trained_layout(each, {.type = type}),
                          counted = trained_layout(rows, {.type = type});
      CHECK(counted.elements == whole.elements);
      CHECK(counted.state_bytes() == whole.state_bytes());
      CHECK(counted.working_bytes == whole.working_bytes);
    }
  }
  if (adapter.type != AdapterType::none)
    CHECK(total_copies(adapter_sites(spec, adapter, Experts::in_rows)) ==
          std::ssize(adapter_sites(spec, adapter)));
}

void check_lists(const ModelSpec& spec, const AdapterConfig& adapter) {
  const StepShape each = shape_of(spec, adapter, Experts::one_by_one),
                  rows = shape_of(spec, adapter, Experts::in_rows);
  CHECK(each.recompute == rows.recompute);
  const Graph whole = training_step(each), counted = training_step(rows);
  REQUIRE(counted.ops.size() == whole.ops.size());
  for (const bool gpu : {false, true}) {
    const StepSizes sizes{
        .tokens = 100, .targets = 60, .compute_bytes = 2, .threads = 2, .gpu = gpu};
    for (size_t i = 0; i < whole.ops.size(); ++i) {
      INFO(whole.ops[i].kind->name);
      CHECK(counted.ops[i].kind == whole.ops[i].kind);
      const Cost of_whole = cost_of(whole, whole.ops[i], sizes, 50),
                 of_counted = cost_of(counted, counted.ops[i], sizes, 50);
      CHECK(of_counted.flops == of_whole.flops);
      CHECK(of_counted.bytes == of_whole.bytes);
    }
    const Layout as_run = lay_out(whole, sizes, fused_workspace),
                 as_planned = lay_out(counted, sizes, fused_workspace);
    CHECK(as_planned.offsets == as_run.offsets);
    CHECK(as_planned.workspaces == as_run.workspaces);
    CHECK(print(counted, sizes, 50, &as_planned) == print(whole, sizes, 50, &as_run));
  }
}

bool has_rows(const std::vector<ModuleUse>& modules) {
  return std::ranges::any_of(modules, [](const ModuleUse& module) { return module.copies > 1; });
}

}  // namespace

TEST_CASE("experts in rows are counted like experts one by one") {
  const std::string name = GENERATE("mixtral", "qwen2-moe", "qwen3-moe", "qwen3-moe-sparse",
                                    "deepseek-v2", "deepseek-v2-groups", "deepseek-v3",
                                    "glm4-moe", "olmoe", "ernie-moe", "minimax-m2", "dots1",
                                    "hunyuan-moe", "flex-olmo", "deepseek-v32", "glm-5");
  const ModelSpec spec = variant(name);
  for (const AdapterConfig& adapter : alike()) {
    INFO(name << ": " << adapter.target_modules.at(0));
    CHECK(has_rows(modules_for(spec, adapter, Experts::in_rows)));
    CHECK(rows_apart(spec, adapter).empty());
    check_numbers(spec, adapter);
    check_lists(spec, adapter);
  }
}

TEST_CASE("experts that an adapter's names tell apart are no row") {
  const std::string name = GENERATE("mixtral", "qwen3-moe", "deepseek-v3");
  const ModelSpec spec = variant(name);
  for (const AdapterConfig& adapter : telling_apart()) {
    INFO(name << ": " << adapter.target_modules.at(0));
    CHECK_FALSE(rows_apart(spec, adapter).empty());
    if (error_of([&] { adapter_sites(spec, adapter); }) != "no error") {
      CHECK(error_of([&] { adapter_sites(spec, adapter, Experts::in_rows); }) ==
            error_of([&] { adapter_sites(spec, adapter); }));
      continue;
    }
    check_numbers(spec, adapter);
    check_lists(spec, adapter);
  }
}

TEST_CASE("the paths of a row are those of its modules") {
  const ModelSpec spec = variant("deepseek-v3");
  std::set<std::string> each, rows;
  for (const ModuleUse& module : modules_of(spec)) each.insert(module.path);
  for (const ModuleUse& module : modules_of(spec, Experts::in_rows))
    for (int64_t copy = 0; copy < module.copies; ++copy) rows.insert(module.path_of(copy));
  CHECK(rows == each);
}

TEST_CASE("what a plan walks does not grow with the number of experts") {
  const auto walked = [](int64_t experts) {
    ModelSpec spec = variant("qwen3-moe");
    spec.num_experts = experts;
    const StepShape shape = shape_of(spec, lora(), Experts::in_rows);
    size_t modules = 0;
    const Graph step = training_step(shape);
    for (const Op& op : step.ops) modules += op.modules.size();
    return std::vector<size_t>{
        modules, step.modules.size(), shape.training.adapters.size(),
        modules_of(spec, Experts::in_rows).size(),
        run_parameters(spec, lora(), Quantization::none, Experts::in_rows).size()};
  };
  CHECK(walked(384) == walked(8));
}

}  // namespace forge
