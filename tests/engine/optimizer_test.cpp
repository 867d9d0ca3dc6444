#include "core/train/optim/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "core/job/names.h"
#include "core/train/optim/schedule.h"
#include "tests/test.h"

using namespace forge;

namespace {
Parameter parameter(const char* name, int64_t count, Role role, bool decay) {
  return {.name = name, .shape = {count}, .role = role, .trainable = true, .weight_decay = decay};
}
// Returns parameters that are large enough for 8-bit state or too small for it, an embedding, and a
// factor of LoRA+; with and without decay.
std::vector<Parameter> parameters() {
  return {parameter("a", 4'500, Role::lora_a, true), parameter("b", 5'001, Role::lora_b, true),
          parameter("n", 40, Role::norm, false), parameter("e", 6'000, Role::embedding, true),
          parameter("w", 70'000, Role::linear, true)};
}

OptimizerConfig config_of(OptimizerType type) {
  OptimizerConfig config{.type = type, .learning_rate = 0.1, .weight_decay = 0.05};
  if (type == OptimizerType::sgd) config.momentum = 0.9;
  return config;
}

struct Trained {
  TrainableSet set;
  Optimizer optimizer;
  std::vector<char> workspace;

  Trained(OptimizerType type, c10::ScalarType compute, bool masters)
      : set(trained_layout(parameters(), config_of(type)), compute, c10::Device(c10::DeviceType::CPU), masters),
        optimizer(config_of(type), 4.0, set),
        workspace(static_cast<size_t>(optimizer.norm_workspace())) {
    set.zero_grad();
    at::manual_seed(6);
    for (Trainable& item : set.items()) item.master.copy_(at::randn(item.master.sizes()));
    set.publish();
  }
  void step(int number) {
    take_gradients(number);
    update(number);
  }
  void take_gradients(int number) {
    at::manual_seed(static_cast<uint64_t>(number));
    // The blocks of a tensor differ in magnitude, like in training.
    for (Trainable& item : set.items())
      item.grad.copy_(at::randn(item.grad.sizes()) * (at::arange(item.grad.numel()) / 300 + 1).view(item.grad.sizes()));
  }
  void update(int number) {
    optimizer.measure(0.5, 0, workspace.data());
    optimizer.update(0.1, number);
  }
};

constexpr OptimizerType kTypes[] = {OptimizerType::adamw, OptimizerType::adamw_8bit, OptimizerType::lion, OptimizerType::sgd};
constexpr OptimizerType kAllTypes[] = {OptimizerType::adamw,     OptimizerType::adamw_8bit, OptimizerType::lion,         OptimizerType::sgd,
                                       OptimizerType::adafactor, OptimizerType::muon,       OptimizerType::schedule_free};

}  // namespace

TEST_CASE("AdamW follows its formula in fp64 for ten steps, group by group") {
  Trained run(OptimizerType::adamw, at::kFloat, true);
  std::vector<std::vector<double>> weight, mean, square;
  for (Trainable& item : run.set.items()) {
    const float* values = item.master.const_data_ptr<float>();
    weight.emplace_back(values, values + item.master.numel());
    mean.emplace_back(weight.back().size());
    square.emplace_back(weight.back().size());
  }
  for (int step = 1; step <= 10; ++step) {
    run.step(step);
    for (size_t k = 0; k < weight.size(); ++k) {
      const float* grad = run.set.items()[k].grad.const_data_ptr<float>();
      const double rate = 0.1 * (k == 1 ? 4 : 1), decay = k == 2 ? 0 : 0.05;
      for (size_t i = 0; i < weight[k].size(); ++i) {
        const double g = grad[i] * 0.5;
        mean[k][i] = 0.9 * mean[k][i] + 0.1 * g;
        square[k][i] = 0.999 * square[k][i] + 0.001 * g * g;
        const double m = mean[k][i] / (1 - std::pow(0.9, step)), v = square[k][i] / (1 - std::pow(0.999, step));
        weight[k][i] -= rate * (decay * weight[k][i] + m / (std::sqrt(v) + 1e-8));
      }
    }
  }
  double worst = 0;
  for (size_t k = 0; k < weight.size(); ++k)
    for (size_t i = 0; i < weight[k].size(); ++i)
      worst = std::max(worst, std::abs(run.set.items()[k].master.const_data_ptr<float>()[i] - weight[k][i]) /
                                  std::max(1.0, std::abs(weight[k][i])));
  CHECK(worst < 1e-5);
}

TEST_CASE("the kernels update as the composed rules do") {
  for (const OptimizerType type : kTypes) {
    CAPTURE(name_of(type));
    Trained run(type, at::kFloat, true);
    const OptimizerRule rule = rule_of(config_of(type));
    // Separate buffers, updated by the composed rules.
    std::vector<at::Tensor> states;
    for (const at::Tensor& state : run.optimizer.states()) states.push_back(state.clone());
    at::Tensor weights = run.set.master().clone();
    for (int number = 1; number <= 5; ++number) {
      run.take_gradients(number);
      const at::Tensor gradients = run.set.grad().clone();
      run.update(number);
      const float verdict[3] = {1, 0.5f, 1};
      for (const TrainedSlice& slice : run.set.layout().slices) {
        UpdateStretch stretch{weights.narrow(0, slice.offset, slice.padded),
                              gradients.narrow(0, slice.offset, slice.padded)};
        stretch.kind = slice.state, stretch.elements = slice.parameter.count(), stretch.rows = slice.rows(), stretch.columns = slice.columns();
        for (size_t i = 0; i < states.size(); ++i) {
          const StatePart& part = run.set.layout().state[i];
          if (part.kind == slice.state)
            stretch.state.push_back(states[i].narrow(0, part.begin(slice), slice.padded / part.block));
        }
        stretch.ends = {slice.padded};
        stretch.rate_factors = {slice.parameter.role == Role::lora_b ? 4.0f : 1.0f};
        stretch.decays = {slice.parameter.weight_decay ? 0.05f : 0.0f};
        update_composed(rule, {.learning_rate = 0.1, .number = number, .verdict = verdict}, stretch);
      }
    }
    // A code or a sign on a boundary may go either way.
    const at::Tensor apart = ((weights - run.set.master()).abs() > 1e-5 * weights.abs().clamp_min(1)).to(at::kFloat);
    CHECK(apart.mean().item<float>() < (type == OptimizerType::adamw || type == OptimizerType::sgd ? 1e-9f : 1e-3f));
    CHECK_FALSE(at::equal(weights, Trained(type, at::kFloat, true).set.master()));
  }
}

TEST_CASE("without masters the same update is rounded once a step") {
  for (const OptimizerType type : kAllTypes) {
    CAPTURE(name_of(type));
    Trained narrow(type, at::kBFloat16, false), wide(type, at::kFloat, true);
    wide.set.master().copy_(narrow.set.master());
    narrow.step(1);
    wide.step(1);
    CHECK(at::equal(narrow.set.master(), wide.set.master().to(at::kBFloat16)));
  }
}

TEST_CASE("with masters the layers' copy is the rounded master after an update") {
  for (const OptimizerType type : kAllTypes) {
    Trained run(type, at::kBFloat16, true);
    run.step(1);
    CHECK(at::equal(run.set.copy(), run.set.master().to(at::kBFloat16)));
  }
}

TEST_CASE("8-bit state takes a quarter, and leaves small tensors and embeddings in fp32") {
  const TrainedLayout layout = trained_layout(parameters(), config_of(OptimizerType::adamw_8bit));
  std::vector<std::string> coded;
  for (const TrainedSlice& slice : layout.slices)
    if (slice.state == StateKind::coded) coded.push_back(slice.parameter.name);
  CHECK(coded == std::vector<std::string>{"a", "b", "w"});
  CHECK(layout.state.size() == 6);
  int64_t bytes = 0;
  Trained run(OptimizerType::adamw_8bit, at::kFloat, true);
  for (const at::Tensor& state : run.optimizer.states())
    bytes += static_cast<int64_t>(state.nbytes());
  CHECK(bytes == layout.state_bytes());
  // 4,608, 5,120 and 70,144 in codes, 256 and 6,144 in fp32
  CHECK(bytes == 79'872 * 2 + 79'872 / 256 * 8 + 6'400 * 8);
}

TEST_CASE("schedules count as transformers counts them") {
  ScheduleConfig linear{.type = ScheduleType::linear};
  CHECK(learning_rate_factor(linear, 0, 20) == 1);
  CHECK(learning_rate_factor(linear, 5, 20) == Approx(0.75));
  ScheduleConfig cosine{.type = ScheduleType::cosine, .warmup_steps = 4};
  CHECK(learning_rate_factor(cosine, 0, 20) == 0);
  CHECK(learning_rate_factor(cosine, 3, 20) == Approx(0.75));
  CHECK(learning_rate_factor(cosine, 12, 20) == Approx(0.5));
  ScheduleConfig wsd{.type = ScheduleType::wsd, .min_lr_ratio = 0.1, .decay_ratio = 0.25};
  CHECK(learning_rate_factor(wsd, 14, 20) == 1);
  CHECK(learning_rate_factor(wsd, 19, 20) == Approx(0.1 + 0.9 * 0.2));
  // A warmup as long as the run leaves nothing after it.
  CHECK(learning_rate_factor({.type = ScheduleType::linear, .warmup_steps = 4}, 3, 4) == Approx(0.75));
  CHECK(learning_rate_factor({.type = ScheduleType::linear, .warmup_steps = 4}, 4, 4) == 1);
  ScheduleConfig ratio{.type = ScheduleType::constant, .warmup_ratio = 0.03};
  CHECK(warmup_steps(ratio, 100) == 3);
  CHECK(warmup_steps(ratio, 101) == 4);
}

TEST_CASE("schedules follow the clock where only the clock ends a run") {
  const auto at = [](const ScheduleConfig& schedule, double seconds, int64_t step = 1000) {
    return learning_rate_factor_by_clock(schedule, step, seconds, 200);
  };
  CHECK(at({.type = ScheduleType::linear}, 0) == 1);
  CHECK(at({.type = ScheduleType::linear}, 50) == Approx(0.75));
  CHECK(at({.type = ScheduleType::linear}, 201) == 0);
  CHECK(at({.type = ScheduleType::cosine, .warmup_ratio = 0.2}, 10) == Approx(0.25));
  CHECK(at({.type = ScheduleType::cosine, .warmup_ratio = 0.2}, 120) == Approx(0.5));
  CHECK(at({.type = ScheduleType::linear, .warmup_steps = 4}, 50, 3) == Approx(0.75));
  CHECK(at({.type = ScheduleType::linear, .warmup_steps = 4}, 50, 4) == Approx(0.75));
  CHECK(at({.type = ScheduleType::wsd, .min_lr_ratio = 0.1, .decay_ratio = 0.25}, 149) == 1);
  CHECK(at({.type = ScheduleType::wsd, .min_lr_ratio = 0.1, .decay_ratio = 0.25}, 190) == Approx(0.1 + 0.9 * 0.2));
  CHECK(at({.type = ScheduleType::constant}, 150) == 1);
}

TEST_CASE("the gradients' verdict sees every element, clips and finds what is not finite") {
  Trained run(OptimizerType::adamw, at::kFloat, true);
  run.set.grad().fill_(0.01f);
  const auto measure = [&](double unscale, double limit) {
    return run.optimizer.measure(unscale, limit, run.workspace.data());
  };
  const double norm = 0.01 * std::sqrt(static_cast<double>(run.set.elements()));
  CHECK(measure(1, 0).norm() == Approx(norm).epsilon(1e-6));
  CHECK(measure(1, 0).scale() == 1);
  CHECK(measure(0.5, 0.25).norm() == Approx(norm / 2).epsilon(1e-6));
  CHECK(measure(0.5, 0.25).scale() == Approx(0.5 * 0.25 / (norm / 2 + 1e-6)).epsilon(1e-6));
  run.set.grad()[run.set.elements() - 1] = 100;
  CHECK(measure(1, 0).norm() > 100);
  CHECK(measure(1, 0).finite());
  run.set.grad()[7] = std::numeric_limits<float>::infinity();
  CHECK_FALSE(measure(1, 0).finite());
  const at::Tensor before = run.set.master().clone();
  run.optimizer.update(0.1, 1);
  CHECK(at::equal(before, run.set.master()));
}
