// Holds the time of a plan: it must not grow with the number of experts, and little with layers.
#include <ctime>

#include "core/lib/base/file.h"
#include "core/lib/io/python_json.h"
#include "core/model/families/config_spec.h"
#include "tests/plan/plan_inputs.h"
#include "tests/test.h"

namespace forge {
namespace {

PlanInput published(const std::string& name, Device device) {
  PlanInput result = input("llama-3.1-8b", std::move(device));
  const std::string path =
      std::string(FORGE_SOURCE_DIR) + "/tests/plan/published/" + name + ".json";
  result.model = model_spec_from_config(
      parse_python_json(read_file(path, 1 << 22, ErrorKind::internal), path), name);
  return result;
}

// Returns the processor's seconds for a plan, also of one that does not fit: the least of three.
double seconds_of(const PlanInput& input) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    error_of([&] { make_plan(input); });
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

}  // namespace

TEST_CASE("a plan takes no longer for hundreds of experts than for eight") {
  for (const Device& device : {cpu(), card("H100"), card("RTX 4070")}) {
    PlanInput many = published("Kimi-K2-Instruct", device), few = many;
    few.model.num_experts = 8, few.model.expert_groups = few.model.groups_per_token = 1;
    const double seconds = seconds_of(many), of_few = seconds_of(few);
    INFO(device.name() << ": " << seconds << " s, with 8 experts " << of_few << " s");
    CHECK(seconds < 2 * of_few + 0.005);
  }
}

TEST_CASE("the largest published models are planned in a moment") {
  for (const char* name : {"Kimi-K2-Instruct", "Qwen3-235B-A22B-FP8", "Meta-Llama-3.1-405B", "GLM-5.2",
                           "MiniMax-M2.7"})
    for (const Device& device : {cpu(), card("H100"), card("RTX 4070")}) {
      const double seconds = seconds_of(published(name, device));
      INFO(name << " on " << device.name() << ": " << seconds << " s");
      CHECK(seconds < 2);  // a tenth of a second is usual
    }
}

}  // namespace forge
