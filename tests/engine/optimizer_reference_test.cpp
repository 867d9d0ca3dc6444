// Compares each optimizer with fifty updates of its reference implementation, and each schedule
// with transformers' rates (tests/parity/make_optimizer_goldens.py).
#include <ATen/ATen.h>

#include "core/lib/io/safetensors.h"
#include "core/train/optim/optimizer.h"
#include "core/train/optim/schedule.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kGolden = std::string(FORGE_SOURCE_DIR) + "/tests/engine/goldens/optimizers.safetensors";
constexpr int64_t kSteps = 50;
constexpr double kRate = 0.02;

at::Tensor golden(const std::string& name) {
  static const auto file = open_safetensors(kGolden);
  const int64_t index = file->find(name);
  INFO(name);
  REQUIRE(index >= 0);
  at::Tensor values = at::empty(file->tensors()[static_cast<size_t>(index)].shape, at::kFloat);
  file->read_f32(static_cast<size_t>(index), values.data_ptr<float>());
  return values;
}

std::vector<Parameter> parameters() {
  const auto row = [](const char* name, std::vector<int64_t> shape, Role role, int64_t layer, bool decay) {
    return Parameter{.name = name, .shape = std::move(shape), .role = role, .layer = layer, .trainable = true, .weight_decay = decay};
  };
  return {row("square", {12, 12}, Role::linear, 0, true), row("wide", {12, 20}, Role::linear, 0, true),
          row("a", {4, 20}, Role::lora_a, 0, true),       row("b", {24, 4}, Role::lora_b, 0, true),
          row("norm", {12}, Role::norm, 0, false),        row("embedding", {30, 8}, Role::embedding, -1, true)};
}

struct Run {
  OptimizerConfig config;
  TrainableSet set;
  Optimizer optimizer;
  std::vector<char> workspace;

  explicit Run(OptimizerType type)
      : config{.type = type, .learning_rate = kRate, .weight_decay = 0.1, .momentum = momentum_of(type)},
        set(trained_layout(parameters(), config), at::kFloat, c10::Device(c10::DeviceType::CPU), true),
        optimizer(config, 1, set),
        workspace(static_cast<size_t>(optimizer.norm_workspace())) {
    set.zero_grad();
    for (Trainable& item : set.items()) item.master.copy_(golden("start." + item.parameter.name));
  }
  static std::optional<double> momentum_of(OptimizerType type) {
    return type == OptimizerType::sgd ? std::optional(0.9) : std::nullopt;
  }
  void step(int64_t number) {
    for (Trainable& item : set.items()) item.grad.copy_(golden("grads." + item.parameter.name)[number]);
    optimizer.measure(1, 0, workspace.data());
    optimizer.update(kRate * std::min(1.0, static_cast<double>(number) / 5), number + 1);
  }
  // Returns the largest distance from the reference's weights, as a share of the largest change
  // since the start.
  double distance(const std::string& stage) {
    double worst = 0;
    for (Trainable& item : set.items()) {
      const std::string& name = item.parameter.name;
      const at::Tensor reference = golden(stage + "." + name);
      const double change = (reference - golden("start." + name)).abs().max().item<double>();
      const double apart = (item.master - reference).abs().max().item<double>();
      INFO(stage << " " << name << ": " << apart << " of " << change);
      CHECK((stage.find(".1.") != std::string::npos || change > 0.01));
      if (change > 0) worst = std::max(worst, apart / change);
    }
    return worst;
  }
  // Returns the larger of the distances after 10 and 50 updates.
  double follow(const std::string& name) {
    double worst = 0;
    for (int64_t number = 0; number < kSteps; ++number) {
      step(number);
      if (number + 1 == 10 || number + 1 == kSteps) worst = std::max(worst, distance(name + "." + std::to_string(number + 1)));
    }
    return worst;
  }
};

}  // namespace

TEST_CASE("adamw, sgd and lion follow torch.optim and lion-pytorch for fifty updates") {
  CHECK(Run(OptimizerType::adamw).follow("adamw") < 2e-5);
  CHECK(Run(OptimizerType::sgd).follow("sgd") < 2e-5);
  CHECK(Run(OptimizerType::lion).follow("lion") < 2e-5);
}

TEST_CASE("adafactor follows transformers for fifty updates") { CHECK(Run(OptimizerType::adafactor).follow("adafactor") < 2e-5); }

TEST_CASE("muon follows torch.optim.Muon, and AdamW for what is no hidden matrix") {
  Run run(OptimizerType::muon);
  CHECK(run.follow("muon") < 1e-4);
  // PyTorch orthogonalizes in bf16, so its weights differ by bf16's rounding.
  CHECK(run.distance("muon_bf16.50") < 0.05);
}

TEST_CASE("schedule_free follows schedulefree, and shows the average and hides it again") {
  Run run(OptimizerType::schedule_free);
  CHECK(run.follow("schedule_free") < 2e-5);
  const at::Tensor trained = run.set.master().clone();
  {
    const AverageShown shown(run.optimizer);
    CHECK(run.distance("schedule_free.average") < 2e-5);
    CHECK_FALSE(at::equal(trained, run.set.master()));
  }
  CHECK(at::equal(trained, run.set.master()));
}

TEST_CASE("an optimizer's state has the bytes of its layout") {
  for (const OptimizerType type : {OptimizerType::adamw, OptimizerType::adamw_8bit, OptimizerType::lion, OptimizerType::sgd,
                                   OptimizerType::adafactor, OptimizerType::muon, OptimizerType::schedule_free}) {
    Run run(type);
    int64_t bytes = 0;
    for (const at::Tensor& state : run.optimizer.states()) bytes += static_cast<int64_t>(state.nbytes());
    CHECK(bytes == run.set.layout().state_bytes());
  }
  // Rows and columns in lines of 16 values: 12 + 12, 12 + 20, 4 + 20, 24 + 4, 30 + 8; a norm of 12.
  CHECK(trained_layout(parameters(), {.type = OptimizerType::adafactor}).state_bytes() == 4 * (16 * (2 + 3 + 3 + 3 + 3) + 16));
  // A momentum of the four matrices; two moments of the norm and the embedding, 16 and 240.
  CHECK(trained_layout(parameters(), {.type = OptimizerType::muon}).state_bytes() == 4 * (144 + 240 + 80 + 96 + 2 * 256));
}

TEST_CASE("schedules have transformers' rates for fifty steps") {
  struct Case {
    const char* name;
    ScheduleConfig schedule;
  };
  using enum ScheduleType;
  const Case cases[] = {
      {"constant_with_warmup", {.type = constant, .warmup_steps = 5}},
      {"linear", {.type = linear, .warmup_steps = 5}},
      {"cosine", {.type = cosine, .warmup_steps = 5}},
      {"cosine_with_restarts", {.type = cosine_with_restarts, .warmup_steps = 5, .cycles = 3}},
      {"polynomial", {.type = polynomial, .warmup_steps = 5, .min_lr_ratio = 0.1, .power = 2}},
      {"inverse_sqrt", {.type = inverse_sqrt, .warmup_steps = 5}},
      {"inverse_sqrt at once", {.type = inverse_sqrt}},
      {"cosine_with_min_lr", {.type = cosine, .warmup_steps = 5, .min_lr_ratio = 0.1}},
      {"warmup_stable_decay", {.type = wsd, .warmup_steps = 5, .decay_ratio = 0.4}},
      {"warmup_stable_decay cosine", {.type = wsd, .warmup_steps = 5, .decay_ratio = 0.4, .decay = DecayShape::cosine}},
      {"warmup_stable_decay sqrt", {.type = wsd, .min_lr_ratio = 0.1, .decay_ratio = 0.4, .decay = DecayShape::sqrt}},
  };
  for (const Case& c : cases) {
    const at::Tensor rates = golden(std::string("schedule.") + c.name);
    REQUIRE(rates.numel() == kSteps);
    for (int64_t step = 0; step < kSteps; ++step) {
      CAPTURE(c.name, step);
      CHECK(learning_rate_factor(c.schedule, step, kSteps) == Approx(rates[step].item<double>()).margin(1e-6));
    }
  }
}
