// Tests the gate of a base in fp8: the pass over the file's weights, and its verdict.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <filesystem>

#include "core/lib/tensor/counting_allocator.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/drawn_weights.h"
#include "core/train/fp8_gate.h"
#include "core/train/layer_by_layer.h"
#include "tests/oracle/whole_layers.h"
#include "tests/engine/batch_of.h"
#include "tests/fixtures/variants.h"
#include "tests/test.h"

using namespace forge;

namespace {

const c10::Device kCpu(c10::DeviceType::CPU);

// Returns the log-probabilities of a model whose weights are all in memory.
std::vector<at::Tensor> logps_in_memory(const TensorFile& file, const ModelSpec& spec, const std::vector<BatchTensors>& batches) {
  const Job job;
  Model model = load_model(spec, file, at::kFloat, kCpu);
  TrainableSet nothing(trained_layout({}), at::kFloat, kCpu, true);
  const auto provider = whole_layers(model, nothing, step_options(spec, job, {}, Checkpointing::none));
  Network network(model, nothing, *provider, job);
  std::vector<at::Tensor> logps;
  for (const BatchTensors& batch : batches) logps.push_back(network.rows(batch).logp);
  return logps;
}

std::vector<BatchTensors> two_batches(const ModelSpec& spec) {
  return {to_tensors(batch_of(2, 9, 100), spec, at::kFloat, kCpu), to_tensors(batch_of(1, 14, 90), spec, at::kFloat, kCpu)};
}

Json verdict(double difference, double error) {
  return {{"loss", 2.0}, {"fp8_loss", 2.0 * (1 + difference)}, {"difference", difference}, {"standard_error", error},
          {"tolerance", 0.005}, {"split", "eval"}, {"supervised_tokens", 4000}};
}

}  // namespace

TEST_CASE("a model that passes layer by layer gives what it gives in memory") {
  int64_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-variants")) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem();
    CAPTURE(name);
    const ModelSpec spec = model_spec_from_config(variant_config(name), name);
    if (spec.reads_source()) continue;
    const auto file = drawn_weights(spec, 3);
    const std::vector<BatchTensors> batches = two_batches(spec);
    const StopFlag stop;
    const auto passed = logps_layer_by_layer(*file, spec, Residual::compute, at::kFloat, kCpu, batches, stop), whole = logps_in_memory(*file, spec, batches);
    REQUIRE(passed.size() == 2);
    for (size_t i = 0; i < passed.size(); ++i) CHECK(at::equal(passed[i], whole[i]));
    CHECK_FALSE(at::equal(passed[0][0], passed[0][1]));
    ++models;
  }
  CHECK(models > 50);
}

TEST_CASE("a pass layer by layer never holds the model") {
  install_counting_allocator();
  Json config = variant_config("tied");
  config["num_hidden_layers"] = 24;
  const ModelSpec spec = model_spec_from_config(config, "tied");
  const auto file = drawn_weights(spec, 3);
  int64_t bytes = 0;
  for (const Parameter& parameter : base_parameters(spec)) bytes += 4 * parameter.count();
  const std::vector<BatchTensors> batches = two_batches(spec);
  const StopFlag stop;
  const int64_t before = allocator_stats().live_bytes;
  reset_allocator_peak();
  logps_layer_by_layer(*file, spec, Residual::compute, at::kFloat, kCpu, batches, stop);
  CHECK(allocator_stats().peak_bytes - before < bytes / 2);
  CHECK(allocator_stats().live_bytes == before);
}

TEST_CASE("a pass layer by layer heeds a stop") {
  const ModelSpec spec = model_spec_from_config(variant_config("tied"), "tied");
  StopFlag stop;
  stop.requested = true;
  CHECK_THROWS_AS(logps_layer_by_layer(*drawn_weights(spec, 3), spec, Residual::compute, at::kFloat, kCpu, two_batches(spec), stop), StepInterrupted);
}

TEST_CASE("the gate's event") {
  // Differences 0.25, −0.25, 0.5, 0.5: their mean is 0.25, and their deviation √0.09375.
  const Json event = fp8_gate_event({-1, -2, -2, -3}, {-1.25f, -1.75f, -2.5f, -3.5f}, {{"split", "train"}});
  CHECK(event["event"] == "fp8_gate");
  CHECK(event["split"] == "train");
  CHECK(event["loss"] == 2.0);
  CHECK(event["fp8_loss"] == 2.25);
  CHECK(event["difference"] == 0.125);
  CHECK(event["standard_error"].get<double>() == Approx(std::sqrt(0.09375 / 4) / 2));
  CHECK(event["supervised_tokens"] == 4);
  CHECK(fp8_gate_event({-2.5f}, {-2}, {})["difference"] == 0.2);  // of a better one too
}

TEST_CASE("the gate's verdict") {
  CHECK_NOTHROW(require_close(verdict(0.0029, 0.001)));
  CHECK_NOTHROW(require_close(verdict(0.005, 0)));
  const auto refused = [](double difference, double error) {
    try {
      require_close(verdict(difference, error));
    } catch (const Error& thrown) {
      CHECK(thrown.kind() == ErrorKind::gate);
      return std::string(thrown.what()) + " / " + thrown.hint();
    }
    return std::string("let through");
  };
  CHECK(refused(0.0051, 0) ==
        "model.quantization: fp8: the base's loss is 2.00000 with the file's weights and 2.01020 in fp8, on 4,000 tokens of data.eval: they differ by 0.51 %, "
        "by up to 0.51 % with twice the standard error, and at most 0.5 % is allowed (model.fp8_tolerance) / use model.quantization: nf4, int8 or "
        "none; or allow as much with model.fp8_tolerance: 0.0051");
  // Too few tokens give too large an error.
  CHECK_THAT(refused(0.0001, 0.0025), Catch::Contains("by up to 0.51 %") && Catch::Contains("fp8_tolerance: 0.0051"));
  CHECK_THAT(refused(std::nan(""), std::nan("")), Catch::Contains("they differ by nan %") && !Catch::Contains("allow as much"));
}
