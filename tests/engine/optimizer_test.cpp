#include "core/optim/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "core/optim/schedule.h"
#include "tests/test.h"

using namespace forge;

namespace {
Parameter parameter(const char* name, int64_t count, Role role, bool decay) {
  return {.name = name, .shape = {count}, .role = role, .trainable = true, .weight_decay = decay};
}
}  // namespace

TEST_CASE("AdamW follows its formula in fp64 for ten steps, group by group") {
  TrainableSet set({parameter("a", 5, Role::lora_a, true), parameter("b", 3, Role::lora_b, true), parameter("n", 4, Role::norm, false)},
                   at::kFloat, c10::Device(c10::DeviceType::CPU), true);
  at::manual_seed(6);
  OptimizerConfig config{.learning_rate = 0.1, .weight_decay = 0.05};
  Optimizer optimizer(config, 4.0, set);
  set.zero_grad();
  std::vector<std::vector<double>> weight, mean, square;
  for (Trainable& item : set.items()) {
    item.master.copy_(at::randn(item.master.sizes()));
    std::vector<double> values;
    for (int64_t i = 0; i < item.master.numel(); ++i) values.push_back(item.master[i].item<float>());
    weight.push_back(values);
    mean.emplace_back(values.size());
    square.emplace_back(values.size());
  }
  for (int step = 1; step <= 10; ++step) {
    for (size_t k = 0; k < 3; ++k) {
      Trainable& item = set.items()[k];
      item.grad.copy_(at::randn(item.grad.sizes()));
      double rate = 0.1 * (k == 1 ? 4 : 1), decay = k == 2 ? 0 : 0.05;
      for (size_t i = 0; i < weight[k].size(); ++i) {
        double g = item.grad[static_cast<int64_t>(i)].item<float>() * 0.5;
        mean[k][i] = 0.9 * mean[k][i] + 0.1 * g;
        square[k][i] = 0.999 * square[k][i] + 0.001 * g * g;
        double m = mean[k][i] / (1 - std::pow(0.9, step)), v = square[k][i] / (1 - std::pow(0.999, step));
        weight[k][i] -= rate * (decay * weight[k][i] + m / (std::sqrt(v) + 1e-8));
      }
    }
    optimizer.update(0.1, 0.5, step);
  }
  for (size_t k = 0; k < 3; ++k)
    for (size_t i = 0; i < weight[k].size(); ++i)
      CHECK(set.items()[k].master[static_cast<int64_t>(i)].item<float>() == Approx(weight[k][i]).epsilon(1e-5).margin(1e-6));
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
  // A warmup as long as the run leaves no rest.
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

TEST_CASE("the gradient norm is fp64 and sees every element") {
  at::Tensor flat = at::full({200'003}, 0.01f);
  CHECK(gradient_norm(flat) == Approx(0.01 * std::sqrt(200'003.0)).epsilon(1e-7));
  flat[200'002] = 100;
  CHECK(gradient_norm(flat) > 100);
}
