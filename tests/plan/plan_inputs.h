#pragma once
// The inputs of the tests' plans: a device, data and a model of tests/plan/models.
#include "core/plan/machine/gpu_database.h"
#include "core/plan/plan.h"
#include "providers/providers.h"

namespace forge {

inline constexpr int64_t kGib = int64_t{1} << 30;

inline Device cpu(int64_t free_bytes = 16 * kGib) {
  Device device;
  device.cpu = {"Test CPU", 2, 32 * kGib, free_bytes, {"avx2", "avx512_bf16", "fast_avx512_bf16"}};
  return device;
}

inline Device card(const std::string& name) {
  Hardware hardware;
  hardware.cpu = cpu().cpu;
  return device_by_name(hardware, name);
}

inline DataSummary data(int64_t examples, int64_t mean, int64_t longest) {
  DataSummary summary;
  summary.content_hash = "abc";
  summary.format = "messages";
  summary.rows = summary.examples = examples;
  summary.tokens = examples * mean;
  summary.supervised_tokens = summary.tokens / 2;
  summary.longest = longest;
  return summary;
}

inline PlanInput input(const std::string& model, Device device) {
  PlanInput input;
  input.providers = providers();
  input.job.name = "test";
  input.job.model.path = "/models/" + model;
  input.job.data.train = {{"/data/train.jsonl"}};
  input.job.adapter.type = AdapterType::lora;
  input.job.adapter.target_modules = {"all-linear"};
  input.device = std::move(device);
  input.profile = pick_profile(input.device, input.job.hardware);
  input.model = read_model_spec(std::string(FORGE_SOURCE_DIR) + "/tests/plan/models/" + model);
  input.model_hash = "header";
  input.model_bytes = 1000;
  input.train = data(1000, 200, 1024);
  return input;
}

inline PlanInput qlora(const std::string& model, Device device) {
  PlanInput result = input(model, std::move(device));
  result.job.model.quantization = Quantization::nf4;
  result.job.model.double_quantization = true;
  return result;
}

}  // namespace forge
