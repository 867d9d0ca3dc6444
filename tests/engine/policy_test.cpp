// Compares gradients of sampled completions: with weighted likelihood, between the code paths of
// the head, and on average with the exact gradient of the expected reward.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "core/model/adapter/lora.h"
#include "core/lib/base/file.h"
#include "core/lib/base/random.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/value_model.h"
#include "core/lib/io/json.h"
#include "core/lib/io/model_file.h"
#include "core/model/generate.h"
#include "core/learn/rollout/policy_step.h"
#include "core/train/network.h"
#include "core/train/head.h"
#include "core/train/session.h"
#include "providers/engine_providers.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kModel = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";

struct Trained {
  Job job;
  ModelSpec spec = read_model_spec(kModel);
  Model model;
  std::unique_ptr<TrainableSet> trainables;
  std::vector<AdapterSite> sites;
  std::unique_ptr<StepProvider> provider;
  std::unique_ptr<Network> network;

  // `full`: every weight is trained, the head too.
  explicit Trained(const ObjectiveConfig& objective, bool full = false, const std::string& provider_name = "fused") {
    at::set_num_threads(1);
    job.objective = objective;
    job.adapter.type = full ? AdapterType::none : AdapterType::lora;
    job.adapter.rank = 5;
    c10::NoGradGuard no_grad;
    model = load_model(spec, *open_model(kModel), at::kFloat, c10::Device(c10::DeviceType::CPU));
    trainables = std::make_unique<TrainableSet>(trained_layout(run_parameters(spec, job.adapter, Quantization::none)), at::kFloat,
                                                model.device, true);
    at::manual_seed(7);
    if (full) {
      for (Trainable& item : trainables->items()) {
        at::Tensor* slot = find_weight(model, base_name(item.parameter));
        item.master.copy_(*slot);
        *slot = item.leaf;
      }
    } else {
      sites = adapter_sites(spec, job.adapter);
      attach_adapter(model, *trainables, sites, job.adapter);
      for (Trainable& item : trainables->items()) item.master.copy_(at::randn(item.master.sizes()) * 0.1);
    }
    trainables->publish();
    provider = make_step_provider(provider_name, model, *trainables, step_options(spec, job, sites, Checkpointing::none));
    network = std::make_unique<Network>(model, *trainables, *provider, job);
  }

  BatchTensors tensors(const Batch& batch) const { return to_tensors(batch, spec, at::kFloat, model.device); }
  at::Tensor gradient() const {
    std::vector<at::Tensor> all;
    for (const Trainable& item : trainables->items()) all.push_back(item.grad.flatten().clone());
    return at::cat(all);
  }
};

// Two groups of two completions after different prompts.
struct Drawn {
  Rollout rollout;
  std::vector<std::vector<int32_t>> prompts;
  Batch batch;

  Drawn() {
    const int64_t lengths[] = {5, 2, 7, 4};
    const double rewards[] = {1, 0, 0.5, 2};
    for (int64_t i = 0; i < 4; ++i) {
      Completion c{.prompt = i / 2, .group = i / 2, .sample = i % 2};
      for (int64_t t = 0; t < lengths[i]; ++t) c.ids.push_back(static_cast<int32_t>((37 * i + 11 * t * t + 9) % 380));
      c.sampler_logps.resize(c.ids.size());
      c.reward = rewards[i];
      for (int64_t t = 0; t < lengths[i]; ++t) c.old_logps.push_back(-5.0F - 0.3F * static_cast<float>((t + i) % 5)),
                                               c.base_logps.push_back(-5.5F);
      rollout.completions.push_back(std::move(c));
      Example example{i, {}, {}};
      for (int64_t t = 0; t < 4 + i / 2; ++t) example.ids.push_back(static_cast<int32_t>((13 * (i / 2) + 5 * t + 3) % 380));
      example.supervised.assign(example.ids.size(), 0);
      example.ids.insert(example.ids.end(), rollout.completions.back().ids.begin(), rollout.completions.back().ids.end());
      example.supervised.resize(example.ids.size(), 1);
      batch.append(example);
    }
  }
};

HeadTask task_of(const ObjectiveConfig& objective, const PolicyStep& step, const Rollout& rollout, bool known) {
  HeadTask task{.needs = policy_needs(1), .keeps_entropy = true};
  if (known)
    for (const Completion& c : rollout.completions)
      for (const double value : known_cotangents(objective, step, c)) task.known.push_back(value);
  task.pulls_entropy = objective.as<PolicyConfig>().entropy_weight > 0;
  task.from_rows = [&objective, &step, &rollout](const TokenOutputs& rows) {
    RowCotangents all;
    const std::vector<double> logps = host_doubles(rows.logp);
    auto at = logps.begin();
    for (const Completion& c : rollout.completions) {
      const PolicyTokens tokens = policy_tokens(objective, step, c, {at, at + c.tokens()});
      at += c.tokens();
      for (const double value : tokens.cotangents) {
        all.logp.push_back(value);
        if (objective.as<PolicyConfig>().entropy_weight > 0) all.entropy.push_back(tokens.entropy_cotangent);
      }
    }
    return all;
  };
  return task;
}

at::Tensor policy_gradient(const Trained& trained, const Drawn& drawn, const PolicyStep& step, bool known) {
  trained.trainables->zero_grad();
  trained.network->rows_forward_backward(trained.tensors(drawn.batch),
                                    task_of(trained.job.objective, step, drawn.rollout, known));
  return trained.gradient();
}

ObjectiveConfig grpo() { return GrpoConfig(); }

double distance(const at::Tensor& a, const at::Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

}  // namespace

TEST_CASE("the first step of grpo is likelihood weighted by −A/D, to the bit") {
  for (const bool full : {false, true})
    for (const char* provider : {"fused", "reference"}) {
      INFO(provider << (full ? ", full" : ", lora"));
      Drawn drawn;
      Trained policy(grpo(), full, provider);
      give_advantages(policy.job.objective, drawn.rollout);
      const PolicyStep step = policy_step(policy.job.objective, 8, drawn.rollout, 0);
      REQUIRE(step.known);
      REQUIRE(step.divisor == 18);
      const at::Tensor mine = policy_gradient(policy, drawn, step, true);
      Trained likelihood({}, full, provider);
      Batch weighted = drawn.batch;
      size_t at = 0;
      for (const Completion& c : drawn.rollout.completions)
        for (size_t t = 0; t < c.ids.size(); ++t, ++at) {
          while (weighted.loss_weights[at] == 0) ++at;
          weighted.loss_weights[at] = static_cast<float>(c.advantage / step.divisor);
        }
      likelihood.trainables->zero_grad();
      likelihood.network->forward_backward(likelihood.tensors(weighted), {.divisor = 1});
      CHECK(at::equal(mine, likelihood.gradient()));
      CHECK(mine.norm().item<double>() > 1e-3);
    }
}

TEST_CASE("gradients that wait for log-probabilities are those that were known, in every way through the head") {
  for (const bool full : {false, true}) {
    INFO((full ? "full: the head is visited twice" : "lora: rows wait in their place"));
    Drawn drawn;
    Trained policy(grpo(), full);
    give_advantages(policy.job.objective, drawn.rollout);
    const PolicyStep step = policy_step(policy.job.objective, 8, drawn.rollout, 0);
    const at::Tensor known = policy_gradient(policy, drawn, step, true);
    CHECK(distance(policy_gradient(policy, drawn, step, false), known) < 1e-5);
  }
}

TEST_CASE("a whole step of a tiny Llama is TRL's") {
  const std::string path = std::string(FORGE_SOURCE_DIR) + "/tests/rollout/goldens/policy.json";
  const Json goldens = parse_json(read_file(path, 1 << 24, ErrorKind::internal), path, ErrorKind::internal);
  for (const auto& [name, golden] : goldens["steps"].items()) {
    INFO(name);
    GrpoConfig o;
    o.epochs_per_rollout = 2;  // its second step is the one with a ratio
    if (name != "dr_grpo") o.clip_high = 0.2;
    if (name == "grpo") o.mean = MeanOf::sequence;
    if (name == "dapo") o.clip_high = 0.28;
    if (name == "dr_grpo") o.mean = MeanOf::constant, o.advantage_scale = AdvantageScale::none;
    if (name == "gspo")
      o.ratio = PolicyRatio::sequence, o.mean = MeanOf::sequence, o.clip_low = 3e-4, o.clip_high = 4e-4;
    if (name == "cispo") o.policy = PolicyTerm::cispo, o.clip_high = 1;
    if (name == "rloo")
      o.ratio = PolicyRatio::sum, o.mean = MeanOf::sequence, o.baseline = Baseline::others,
      o.advantage_scale = AdvantageScale::none;
    const ObjectiveConfig objective = o;
    Drawn drawn;
    drawn.rollout.completions.clear();
    drawn.batch = {};
    for (size_t g = 0; g < golden["ids"].size(); ++g)
      for (size_t i = 0; i < golden["ids"][g].size(); ++i) {
        Completion c{.group = static_cast<int64_t>(g), .sample = static_cast<int64_t>(i)};
        c.ids = golden["ids"][g][i].get<std::vector<int32_t>>();
        c.sampler_logps.resize(c.ids.size());
        c.reward = goldens["rewards"][g][i].get<double>();
        for (const Json& value : golden["old_logps"][drawn.rollout.completions.size()]) c.old_logps.push_back(static_cast<float>(value.get<double>()));
        Example example{0, golden["prompts"][g].get<std::vector<int32_t>>(), {}};
        example.supervised.assign(example.ids.size(), 0);
        example.ids.insert(example.ids.end(), c.ids.begin(), c.ids.end());
        example.supervised.resize(example.ids.size(), 1);
        drawn.batch.append(example);
        drawn.rollout.completions.push_back(std::move(c));
      }
    Trained policy(objective, /*full=*/true);
    give_advantages(objective, drawn.rollout);
    const PolicyStep step = policy_step(objective, goldens["max_new_tokens"], drawn.rollout, 1);
    HeadTask task = task_of(objective, step, drawn.rollout, false);
    task.needs.temperature = golden["temperature"];
    double loss = 0;
    const auto ask = task.from_rows;
    task.from_rows = [&](const TokenOutputs& rows) {
      const std::vector<double> logps = host_doubles(rows.logp);
      auto at = logps.begin();
      for (const Completion& c : drawn.rollout.completions) {
        loss += policy_tokens(objective, step, c, {at, at + c.tokens()}).loss / step.divisor;
        at += c.tokens();
      }
      return ask(rows);
    };
    policy.trainables->zero_grad();
    policy.network->rows_forward_backward(policy.tensors(drawn.batch), task);
    CHECK(loss == Approx(golden["loss"].get<double>()).margin(1e-6).epsilon(0));
    double all = 0;
    for (const auto& [tensor, numbers] : golden["gradient"].items()) all += std::pow(numbers[0].get<double>(), 2);
    size_t compared = 0;
    for (const Trainable& item : policy.trainables->items()) {
      const Json& numbers = golden["gradient"].at(item.parameter.name);
      const at::Tensor grad = item.grad.flatten().to(at::kDouble);
      const double wave = (grad * at::arange(grad.numel(), at::kDouble).cos()).sum().item<double>();
      INFO(item.parameter.name);
      CHECK(std::abs(grad.norm().item<double>() - numbers[0].get<double>()) < 1e-5 * std::sqrt(all));
      CHECK(std::abs(wave - numbers[1].get<double>()) < 1e-5 * std::sqrt(all));
      ++compared;
    }
    CHECK(compared == golden["gradient"].size());
  }
}

TEST_CASE("gradients of every objective are the slope of its loss") {
  std::vector<GrpoConfig> grpos(7);
  grpos[0].epochs_per_rollout = 2;
  grpos[1].epochs_per_rollout = 2, grpos[1].ratio = PolicyRatio::sequence, grpos[1].mean = MeanOf::sequence;
  grpos[2].ratio = PolicyRatio::group, grpos[2].clip_high = 100, grpos[2].clip_low = 0.9999;
  grpos[3].epochs_per_rollout = 2, grpos[3].policy = PolicyTerm::sapo;
  grpos[4].kl.weight = 0.3;
  grpos[5].epochs_per_rollout = 2, grpos[5].entropy_weight = 0.2;
  grpos[6].epochs_per_rollout = 2, grpos[6].mean = MeanOf::constant, grpos[6].entropy_weight = 0.1;
  const std::vector<ObjectiveConfig> objectives(grpos.begin(), grpos.end());
  for (size_t k = 0; k < objectives.size(); ++k) {
    INFO("objective " << k);
    Drawn drawn;
    Trained policy(objectives[k]);
    const int64_t update = objectives[k].as<PolicyConfig>().epochs_per_rollout - 1;
    // The old log-probabilities are those of a policy that a step has moved a little.
    const std::vector<double> now = host_doubles(policy.network->rows(policy.tensors(drawn.batch)).logp);
    size_t at = 0;
    for (Completion& c : drawn.rollout.completions)
      for (size_t t = 0; t < c.ids.size(); ++t, ++at) {
        c.old_logps[t] = static_cast<float>(now[at] + 0.05 * static_cast<double>(t % 3) - 0.04);
        c.base_logps[t] = static_cast<float>(now[at] + (t % 2 == 0 ? 0.2 : -0.3));
        if (objectives[k].as<PolicyConfig>().kl.weight == 0) c.base_logps.clear();
      }
    give_advantages(objectives[k], drawn.rollout);
    const PolicyStep step = policy_step(objectives[k], 8, drawn.rollout, update);
    REQUIRE_FALSE(step.known);
    const at::Tensor gradient = policy_gradient(policy, drawn, step, false);
    // k3's gradient is that of the divergence itself, not of its estimate: compared by its own
    // formula elsewhere.
    if (objectives[k].as<PolicyConfig>().kl.weight > 0) {
      CHECK(gradient.norm().item<double>() > 0);
      continue;
    }
    const auto loss = [&] {
      const TokenOutputs rows = policy.network->rows(policy.tensors(drawn.batch), policy_needs(1));
      const std::vector<double> logps = host_doubles(rows.logp), entropies = host_doubles(rows.entropy);
      double sum = 0;
      auto next = logps.begin();
      size_t e = 0;
      for (const Completion& c : drawn.rollout.completions) {
        const PolicyTokens tokens = policy_tokens(objectives[k], step, c, {next, next + c.tokens()});
        next += c.tokens();
        sum += tokens.loss / step.divisor;
        for (size_t t = 0; t < c.ids.size(); ++t) sum += tokens.entropy_cotangent * entropies[e++];
      }
      return sum;
    };
    at::manual_seed(3);
    const at::Tensor direction = at::randn_like(gradient);
    const auto move = [&](double by) {
      c10::NoGradGuard no_grad;
      int64_t offset = 0;
      for (Trainable& item : policy.trainables->items()) {
        item.master.add_(direction.narrow(0, offset, item.master.numel()).view(item.master.sizes()), by);
        offset += item.master.numel();
      }
      policy.trainables->publish();
    };
    constexpr double h = 5e-4;  // four times as far the loss is already a tenth off its slope
    move(h);
    const double above = loss();
    move(-2 * h);
    const double below = loss();
    const double slope = (above - below) / (2 * h), mine = (gradient * direction).sum().item<double>();
    CHECK(mine == Approx(slope).epsilon(0.02).margin(2e-4));
  }
}

namespace {

// The value network, over the tiny model.
struct Foreseeing {
  Job job;
  Model model;
  ValueModel value;
  std::unique_ptr<TrainableSet> trainables;
  std::unique_ptr<StepProvider> provider;
  std::unique_ptr<Network> network;

  Foreseeing(bool full, const std::string& provider_name) {
    at::set_num_threads(1);
    c10::NoGradGuard no_grad;
    const ModelSpec spec = read_model_spec(kModel);
    job.objective.become(ObjectiveType::ppo);
    job.adapter.type = full ? AdapterType::none : AdapterType::lora;
    job.adapter.rank = 5;
    value = value_model(spec, job);
    job.adapter = value.adapter;
    model = load_model(spec, *open_model(kModel), at::kFloat, c10::Device(c10::DeviceType::CPU));
    model.spec = value.spec;
    model.head = at::zeros({1, spec.hidden_size});
    trainables = std::make_unique<TrainableSet>(value.layout, at::kFloat, model.device, true);
    adopt_trained_weights(model, *trainables, false);
    if (!full) attach_adapter(model, *trainables, value.sites, job.adapter);
    at::manual_seed(7);
    // A head that is not zero, without which no layer learns.
    for (Trainable& item : trainables->items())
      if (!full || base_name(item.parameter) == "score.weight") item.master.copy_(at::randn(item.master.sizes()) * 0.1);
    trainables->publish();
    provider = make_step_provider(provider_name, model, *trainables, step_options(value.spec, job, value.sites, Checkpointing::none));
    network = std::make_unique<Network>(model, *trainables, *provider, job);
  }
};

}  // namespace

TEST_CASE("the value network's gradients are the slope of its loss, at every drawn token") {
  const ModelSpec spec = read_model_spec(kModel);
  for (const bool full : {false, true})
    for (const char* provider : {"fused", "reference"}) {
      INFO(provider << (full ? ", every weight" : ", an adapter"));
      Foreseeing one(full, provider);
      Drawn drawn;
      const BatchTensors tensors = to_tensors(drawn.batch, spec, at::kFloat, one.model.device);
      // ½ Σ (V − t / 3)²
      const auto target = [](size_t t) { return static_cast<double>(t % 5) / 3; };
      const auto loss = [&] {
        double sum = 0;
        const std::vector<double> values = host_doubles(one.network->rows(tensors).logp);
        for (size_t t = 0; t < values.size(); ++t) sum += 0.5 * (values[t] - target(t)) * (values[t] - target(t));
        return sum;
      };
      one.trainables->zero_grad();
      size_t asked = 0;
      HeadTask task;
      task.from_rows = [&](const TokenOutputs& rows) {
        RowCotangents cotangents;
        for (const double value : host_doubles(rows.logp)) cotangents.logp.push_back(value - target(asked++));
        return cotangents;
      };
      one.network->rows_forward_backward(tensors, task);
      CHECK(asked == 18);
      std::vector<at::Tensor> all;
      for (const Trainable& item : one.trainables->items()) {
        INFO(item.parameter.name);
        all.push_back(item.grad.flatten().clone());
        CHECK(all.back().norm().item<double>() > 0);
      }
      const at::Tensor gradient = at::cat(all);
      at::manual_seed(3);
      const at::Tensor direction = at::randn_like(gradient) / std::sqrt(static_cast<double>(gradient.numel()));
      const auto move = [&](double by) {
        c10::NoGradGuard no_grad;
        int64_t offset = 0;
        for (Trainable& item : one.trainables->items()) {
          item.master.add_(direction.narrow(0, offset, item.master.numel()).view(item.master.sizes()), by);
          offset += item.master.numel();
        }
        one.trainables->publish();
      };
      constexpr double h = 1e-2;
      move(h);
      const double above = loss();
      move(-2 * h);
      const double below = loss();
      CHECK((gradient * direction).sum().item<double>() == Approx((above - below) / (2 * h)).epsilon(0.02).margin(2e-4));
    }
}

TEST_CASE("the mean gradient of drawn groups is that of the expected reward") {
  // Completions have one token, and two of sixteen tokens have reward 1; tokens beyond the sixteen
  // count as the sixteenth.
  at::set_num_threads(1);
  GrpoConfig o;
  o.baseline = Baseline::others, o.advantage_scale = AdvantageScale::none;
  const ObjectiveConfig objective = o;
  Trained policy(objective);
  const std::vector<int32_t> prompt{3, 50, 90};
  const auto decoder = make_decoder("fused", policy.model, *policy.trainables, step_options(policy.spec, policy.job, policy.sites, Checkpointing::none));
  // For each action: its probability, and the gradient of its log-probability along fixed
  // directions.
  const int64_t vocab = policy.spec.vocab_size;
  const at::Tensor p = decoder->next_logits({{0, prompt}})[0].to(at::kDouble).softmax(0);
  decoder->release(0);
  constexpr int64_t kDirections = 5, kRight[] = {17, 230};
  const auto reward = [&](int64_t action) { return action == kRight[0] || action == kRight[1] || p[action].item<double>() > 0.01 ? 1.0 : 0.0; };
  at::manual_seed(11);
  at::Tensor directions;
  std::vector<std::vector<double>> slopes;  // [action][direction]
  double expected_reward = 0;
  for (int64_t action = 0; action < vocab; ++action) {
    Batch batch;
    batch.append({0, {prompt[0], prompt[1], prompt[2], static_cast<int32_t>(action)}, {0, 0, 0, 1}});
    policy.trainables->zero_grad();
    HeadTask task;
    task.known = {1};
    policy.network->rows_forward_backward(policy.tensors(batch), task);
    const at::Tensor gradient = policy.gradient().to(at::kDouble);
    if (!directions.defined()) directions = at::randn({kDirections, gradient.size(0)}, at::kDouble);
    const at::Tensor along = at::mv(directions, gradient);
    slopes.emplace_back(along.data_ptr<double>(), along.data_ptr<double>() + kDirections);
    expected_reward += p[action].item<double>() * reward(action);
  }
  std::vector<double> exact(kDirections);
  for (int64_t action = 0; action < vocab; ++action)
    for (int64_t d = 0; d < kDirections; ++d)
      exact[static_cast<size_t>(d)] -= p[action].item<double>() * (reward(action) - expected_reward) * slopes[static_cast<size_t>(action)][static_cast<size_t>(d)];
  constexpr int64_t kGroups = 4096, kSamples = 4;
  SamplingConfig sampling{.max_new_tokens = 1, .temperature = 1, .seed = 9, .samples = kSamples};
  for (int64_t i = 0; i < kGroups * kSamples; ++i) sampling.streams.push_back(stream_of("bandit/" + std::to_string(i)));
  Rollout all;
  generate(*decoder, std::vector<std::vector<int32_t>>(kGroups, prompt), sampling, {.sequences = 256, .prompt_tokens = 192},
           {.token =
                [&](int64_t text, int32_t id, float) {
                  Completion c{.group = text / kSamples, .sample = text % kSamples};
                  c.ids = {id};
                  c.sampler_logps = {0};
                  c.reward = reward(id);
                  all.completions.push_back(std::move(c));
                  return true;
                },
            .end = [](int64_t, const GenerationEnd&) {}});
  std::stable_sort(all.completions.begin(), all.completions.end(),
                   [](const Completion& a, const Completion& b) { return std::pair(a.group, a.sample) < std::pair(b.group, b.sample); });
  REQUIRE(all.completions.size() == kGroups * kSamples);
  give_advantages(objective, all);
  for (int64_t d = 0; d < kDirections; ++d) {
    double sum = 0, squares = 0;
    for (int64_t g = 0; g < kGroups; ++g) {
      double own = 0;
      for (int64_t s = 0; s < kSamples; ++s) {
        const Completion& c = all.completions[static_cast<size_t>(g * kSamples + s)];
        own -= c.advantage * slopes[static_cast<size_t>(c.ids[0])][static_cast<size_t>(d)] / kSamples;
      }
      sum += own, squares += own * own;
    }
    const double mean = sum / kGroups, error = std::sqrt((squares / kGroups - mean * mean) / kGroups);
    INFO("direction " << d << ": " << mean << " ± " << error << ", exact " << exact[static_cast<size_t>(d)]);
    CHECK(error > 0);
    CHECK(std::abs(mean - exact[static_cast<size_t>(d)]) < 4 * error);
    CHECK(std::abs(exact[static_cast<size_t>(d)]) > 0);
  }
}
