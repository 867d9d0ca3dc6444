#include "core/train/rollout_steps.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/data/batch/order.h"
#include "core/io/members.h"
#include "core/rollout/rollout_metrics.h"
#include "core/rollout/same_weights.h"
#include "core/tensor/device.h"
#include "core/train/policy_head.h"
#include "core/train/value_network.h"

namespace forge {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// More than rounding: the mean difference of the decoder's log-probabilities and the trainer's.
double gap_bound(Precision precision) { return precision == Precision::fp32 ? 1e-3 : 0.1; }
constexpr int64_t kFlatRollouts = 5;  // in a row, before anybody is told

Json score_item(const Completion& c, size_t id) {
  Json item{{"id", id},
            {"prompt", c.prompt},
            {"group", c.place},
            {"sample", c.sample},
            {"ids", std::vector<int32_t>(c.ids.begin() + c.text_begin, c.ids.begin() + c.text_begin + c.text_tokens)},
            {"finish", c.truncated ? "length" : "stop"}};
  if (c.turns > 1) item["whole"] = c.ids;
  return item;
}

void take_answer(const Json& answer, std::vector<Completion*>& asked) {
  const Json& items = answer.at("items");
  FORGE_CHECK(items.size() == asked.size(), items.size() << " scores for " << asked.size() << " completions");
  for (size_t i = 0; i < items.size(); ++i) {
    Completion& c = *asked[i];
    const Json& item = items[i];
    c.parts.clear();
    for (const Json& part : item.at("parts")) {
      c.parts.push_back({});
      if (!part.at("score").is_null()) c.parts.back().score = part["score"].get<double>();
      c.parts.back().reason = part.at("reason").get<std::string>();
    }
    c.reward = item.at("total").is_null() ? std::nullopt : std::optional(item["total"].get<double>());
    c.unscored_reason = item.at("reason").get<std::string>();
    c.text = item.at("text").get<std::string>();
    c.transcript = item.at("transcript").get<std::string>();
    if (!c.failure.empty()) {
      c.reward.reset();
      c.unscored_reason = "rollout.tools: " + c.failure;
    }
    c.prompt_text = item.at("prompt_text").get<std::string>();
  }
}

}  // namespace

RolloutSteps::RolloutSteps(Session& session, const DataSet& train, const DataSet* eval, RolloutPorts ports, StopFlag& stop)
    : session_(session),
      objective_(session.job.objective),
      config_(session.job.rollout),
      train_(train),
      eval_(eval),
      ports_(std::move(ports)),
      stop_(stop),
      base_(open_base_logps(session)),
      judges_(session),
      drawing_(session, ports_.run_folder, ports_.ask, stop) {
  make_directories(ports_.run_folder + "/rollouts");
}

StepStats RolloutSteps::step(TrainState& state, int64_t divisor) {
  const auto start = Clock::now();
  const int64_t each = steps_per_rollout(objective_), number = state.step / each, update = state.step % each;
  if (!rollout_ || rollout_->number != number) {
    FORGE_CHECK(update == 0, "a rollout that is partly trained is not there");
    rollout_ = draw_rollout(state, number);
  }
  PolicyStep step = policy_step(objective_, config_.max_new_tokens, *rollout_, update);
  StepStats stats;
  stats.rests = session_.value && state.step < objective_.value.pretrain_steps;
  if (stats.rests) step.trained.clear();
  if (step.divisor == 0) {
    if (rollout_->groups > 0 && objective_.mask_truncated)
      throw Error(ErrorKind::diverged, "step " + std::to_string(state.step + 1) +
                                           ": every completion was cut at rollout.max_new_tokens, and "
                                           "objective.mask_truncated leaves none to train on")
          .hint("raise rollout.max_new_tokens");
    stats.skipped = true;  // nothing was scored: the weights stay
  }
  gap_sum_ = gap_most_ = gap_ratios_ = entropy_sum_ = 0;
  gap_tokens_ = 0;
  if (update == 0) stats.examples = rollout_->groups_drawn() + rollout_->discarded;
  begin_update(session_, state);
  const auto training = Clock::now();
  for (const std::vector<size_t>& which : batches(*rollout_, step.trained, divisor)) {
    if (stop_.requested) throw StepInterrupted{};
    train_batch(step, which, state, stats);
  }
  for (const std::vector<size_t>& which : batches(*rollout_, step.valued, divisor)) {
    if (stop_.requested) throw StepInterrupted{};
    train_value(step, which, state, stats);
  }
  if (step.divisor > 0) {
    stats.loss /= step.divisor;
    finish_update(session_, state, stats);
  }
  synchronize(session_.device);
  const double train_seconds = seconds_since(training);
  if (update == 0) {
    state.drawn = rollout_->drawn;
    stats.data_seconds = rollout_->score_seconds;
    Json event{{"event", "rollout"}, {"step", state.step + 1}, {"rollout", number}};
    event.update(rollout_facts(rollout_->completions, session_.job.rewards));
    event.update({{"groups", rollout_->groups},
                  {"flat_groups", rollout_->flat_groups},
                  {"dropped_groups", rollout_->dropped_groups},
                  {"rounds", rollout_->rounds},
                  {"discarded_groups", rollout_->discarded},
                  {"slots", rollout_->cost.slots},
                  {"waves", session_.plan.rollout.waves},
                  {"advantage", advantage_facts(rollout_->completions)},
                  {"sample_seconds", rollout_->cost.seconds},
                  {"score_seconds", rollout_->score_seconds},
                  {"old_seconds", rollout_->old_seconds},
                  {"base_seconds", rollout_->base_seconds},
                  {"train_seconds", train_seconds}});
    if (config_.lookup_tokens > 0)
      event.update({{"lookup_guessed", rollout_->cost.guessed}, {"lookup_right", rollout_->cost.guessed_right}});
    if (session_.value) event.update(value_facts(rollout_->completions));
    if (!config_.tools.command.empty()) event.update(turn_facts(rollout_->completions));
    int64_t drawn_tokens = 0;
    for (const Completion& c : rollout_->completions) drawn_tokens += c.tokens();
    event["sample_tokens_per_second"] = static_cast<double>(drawn_tokens) / std::max(1e-9, rollout_->cost.seconds);
    const auto tokens = static_cast<double>(gap_tokens_);
    event["sampler_gap"] = gap_tokens_ > 0 ? Json(gap_sum_ / tokens) : Json(nullptr);
    event["sampler_gap_most"] = gap_tokens_ > 0 ? Json(gap_most_) : Json(nullptr);
    event["sampler_ratio"] = gap_tokens_ > 0 ? Json(gap_ratios_ / tokens) : Json(nullptr);
    event["entropy"] = gap_tokens_ > 0 ? Json(entropy_sum_ / tokens) : Json(nullptr);
    ports_.record(std::move(event));
    watch(*rollout_);
  }
  stats.seconds = seconds_since(start);
  return stats;
}

// --- drawing ---

std::vector<int64_t> RolloutSteps::prompts_of(int64_t draw) {
  if (draw < epoch_begin_) epoch_ = -1, epoch_begin_ = 0, epoch_batches_.clear();
  while (draw >= epoch_begin_ + static_cast<int64_t>(epoch_batches_.size())) {
    epoch_begin_ += static_cast<int64_t>(epoch_batches_.size());
    epoch_batches_ = prompt_batches(train_.lengths(), session_.job, ++epoch_);
    FORGE_CHECK(!epoch_batches_.empty(), "an epoch without prompts");
  }
  return epoch_batches_[static_cast<size_t>(draw - epoch_begin_)];
}

Rollout RolloutSteps::draw_rollout(const TrainState& state, int64_t number) {
  Rollout rollout{.number = number, .drawn = state.drawn, .rounds = 0};
  std::vector<Completion> all;  // what the file tells of
  const RecordedRollout recorded(rollout_path(ports_.run_folder, number));
  const bool chooses = config_.dynamic_sampling.reward.has_value();
  const int64_t most_rounds = chooses ? config_.dynamic_sampling.max_rounds : 1;
  int64_t wanted = 0;
  while (rollout.rounds < most_rounds && (rollout.rounds == 0 || rollout.groups_drawn() < wanted)) {
    const std::vector<int64_t> prompts = prompts_of(rollout.drawn);
    if (rollout.rounds == 0) wanted = static_cast<int64_t>(prompts.size());
    std::vector<Completion> drawn = wished(prompts, rollout.drawn, config_.samples_per_prompt);
    drawing_.draw(train_, {.step = state.step, .rollout = number, .split = "train"}, recorded, drawn, rollout.cost);
    if (config_.provider == RolloutProvider::http) require_served(rollout, drawn);
    if (drawing_.is_recorded()) write_rollout(number, all, drawn);
    const auto scoring = Clock::now();
    for (Completion& c : drawn) recorded.take_scores(session_.job.rewards, c);
    score(drawn, train_, "train", number, state.step + 1);
    rollout.score_seconds += seconds_since(scoring);
    const std::vector<size_t> kept = kept_groups(drawn, wanted - rollout.groups_drawn(), rollout);
    for (const size_t i : kept) rollout.completions.push_back(drawn[i]);
    all.insert(all.end(), std::make_move_iterator(drawn.begin()), std::make_move_iterator(drawn.end()));
    write_rollout(number, all, {});
    ++rollout.drawn;
    ++rollout.rounds;
  }
  if (config_.provider == RolloutProvider::here) add_logps(rollout, needs_old_logps(objective_), base_ != nullptr);
  if (session_.value) add_values(rollout);
  give_advantages(objective_, rollout);
  return rollout;
}

std::vector<Completion> RolloutSteps::wished(const std::vector<int64_t>& prompts, int64_t draw, int64_t samples) {
  std::vector<Completion> completions;
  for (size_t place = 0; place < prompts.size(); ++place)
    for (int64_t sample = 0; sample < samples; ++sample)
      completions.push_back({.prompt = prompts[place], .draw = draw, .place = static_cast<int64_t>(place), .sample = sample});
  return completions;
}

// What a server drew is compared with the trainer's own log-probabilities, which every completion then has. Only what passes is
// recorded: a run that goes on asks a server anew that has been mended.
void RolloutSteps::require_served(Rollout& rollout, std::vector<Completion>& drawn) {
  Rollout part{.number = rollout.number};
  part.completions = std::move(drawn);
  add_logps(part, true, true);
  rollout.old_seconds += part.old_seconds;
  rollout.base_seconds += part.base_seconds;
  require_same_weights(part, config_.server);
  drawn = std::move(part.completions);
}

// --- scoring ---

void RolloutSteps::score(std::vector<Completion>& completions, const DataSet&, const char* split, int64_t number, int64_t step) {
  std::vector<Completion*> asked;
  Json items = Json::array();
  for (Completion& c : completions) {
    if (!c.parts.empty()) continue;  // recorded
    items.push_back(score_item(c, asked.size()));
    asked.push_back(&c);
  }
  if (asked.empty()) return;
  Json answer = ports_.ask({{"event", "score"}, {"rollout", number}, {"step", step}, {"split", split}, {"items", std::move(items)}});
  while (answer.contains("judge"))
    answer = ports_.ask({{"event", "judged"}, {"scores", judges_.scores(answer["judge"], answer.at("texts").get<std::vector<std::vector<int32_t>>>(), stop_)}});
  take_answer(answer, asked);
}

void RolloutSteps::write_rollout(int64_t number, const std::vector<Completion>& before, const std::vector<Completion>& drawn) const {
  std::string text;
  for (const auto* part : {&before, &drawn})
    for (const Completion& c : *part) text += dump_json(rollout_line(c, session_.job.rewards)) + "\n";
  write_file_durably(rollout_path(ports_.run_folder, number), text);
}

// Of the groups that were drawn those that the rollout takes, at most `room`; numbers them.
std::vector<size_t> RolloutSteps::kept_groups(std::vector<Completion>& completions, int64_t room, Rollout& rollout) const {
  const DynamicSamplingConfig& dynamic = config_.dynamic_sampling;
  std::vector<size_t> kept;
  int64_t next = rollout.groups_drawn();
  const auto samples = static_cast<size_t>(config_.samples_per_prompt);
  for (size_t begin = 0; begin < completions.size(); begin += samples) {
    bool keeps = room > 0;
    if (keeps && dynamic.reward) {
      size_t which = 0;
      while (session_.job.rewards.at(which).name != *dynamic.reward) ++which;
      double sum = 0, count = 0;
      for (size_t i = begin; i < begin + samples; ++i)
        if (const auto& score = completions[i].parts.at(which).score) sum += *score, ++count;
      keeps = count > 0 && sum / count > dynamic.keep[0] && sum / count < dynamic.keep[1];
    }
    for (size_t i = begin; i < begin + samples; ++i) {
      completions[i].kept = keeps;
      completions[i].group = next;
      if (keeps) kept.push_back(i);
    }
    next += keeps;
    room -= keeps;
    rollout.discarded += !keeps;
  }
  return kept;
}

// --- training ---

std::vector<std::vector<size_t>> RolloutSteps::batches(const Rollout& rollout, const std::vector<size_t>& which,
                                                       int64_t divisor) const {
  std::vector<int64_t> lengths, items;
  for (const size_t i : which) {
    const Completion& c = rollout.completions[i];
    items.push_back(static_cast<int64_t>(items.size()));
    lengths.push_back(train_.length(c.prompt) + static_cast<int64_t>(c.ids.size()));
  }
  Job job = session_.job;
  if (job.train.micro_batch_size) *job.train.micro_batch_size = std::max<int64_t>(1, *job.train.micro_batch_size / divisor);
  *job.train.micro_batch_tokens = std::max<int64_t>(1, *job.train.micro_batch_tokens / divisor);
  std::vector<std::vector<size_t>> result;
  for (const std::vector<int64_t>& part : micro_batches(items, lengths, job)) {
    result.emplace_back();
    for (const int64_t item : part) result.back().push_back(which[static_cast<size_t>(item)]);
  }
  return result;
}

Batch RolloutSteps::batch_of(const Rollout& rollout, const std::vector<size_t>& which) const {
  Batch batch;
  for (const size_t i : which) {
    const Completion& c = rollout.completions[i];
    Example example{static_cast<int64_t>(i), train_.example(c.prompt).ids, {}};
    example.supervised.assign(example.ids.size(), 0);
    example.ids.insert(example.ids.end(), c.ids.begin(), c.ids.end());
    example.supervised.resize(example.ids.size(), 1);
    const auto behind = example.supervised.end() - static_cast<int64_t>(c.ids.size());
    for (const IdSpan& span : c.inserted) std::fill(behind + span.begin, behind + span.end, uint8_t{0});
    batch.append(example);
  }
  return batch;
}

void RolloutSteps::train_batch(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state,
                               StepStats& stats) {
  const Batch batch = batch_of(*rollout_, which);
  const BatchTensors tensors = to_tensors(batch, session_.model.spec, session_.model.type, session_.device);
  stats.tokens += batch.tokens();
  stats.supervised_tokens += batch.supervised_tokens();
  PolicyTask task{.temperature = config_.temperature, .loss_scale = state.loss_scale, .entropy = objective_.entropy_weight > 0};
  const auto completion = [&](size_t i) -> const Completion& { return rollout_->completions[i]; };
  // Asked once, with all log-probabilities of the micro-batch in the order of `which`.
  PolicyCotangents cotangents;
  const auto judge = [&](const std::vector<double>& logps) {
    size_t begin = 0;
    for (const size_t i : which) {
      const size_t end = begin + completion(i).sampler_logps.size();
      const PolicyTokens tokens = policy_tokens(objective_, step, completion(i), {logps.begin() + static_cast<int64_t>(begin), logps.begin() + static_cast<int64_t>(end)});
      for (const double value : tokens.cotangents) cotangents.logp.push_back(static_cast<float>(value));
      if (task.entropy) cotangents.entropy.resize(end, static_cast<float>(tokens.entropy_cotangent));
      stats.loss += tokens.loss;
      add(stats.metrics, tokens.metrics);
      begin = end;
    }
    return cotangents;
  };
  if (step.known)
    for (const size_t i : which)
      for (const double value : known_cotangents(objective_, step, completion(i))) task.known.push_back(static_cast<float>(value));
  task.ask = judge;
  const PolicyRows rows = session_.network->policy_forward_backward(tensors, task);
  if (step.known) judge(rows.logps);
  double entropy = 0;
  for (const double value : rows.entropies) entropy += value;
  add(stats.metrics, {{"entropy", {entropy, static_cast<double>(rows.entropies.size())}}});
  if (objective_.entropy_weight > 0)
    for (size_t t = 0, k = 0; k < which.size(); ++k)
      for (size_t n = 0; n < completion(which[k]).sampler_logps.size(); ++n, ++t)
        stats.loss -= objective_.entropy_weight * token_weight(objective_.mean, completion(which[k]).tokens()) * rows.entropies[t];
  if (!step.first) return;
  size_t t = 0;
  for (const size_t i : which)
    for (const float sampled : completion(i).sampler_logps) {
      const double off = rows.logps[t++] - sampled, gap = std::abs(off);
      gap_sum_ += gap;
      gap_most_ = std::max(gap_most_, gap);
      gap_ratios_ += std::exp(off);
      ++gap_tokens_;
    }
  entropy_sum_ += entropy;
}

void RolloutSteps::train_value(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state, StepStats& stats) {
  const Batch batch = batch_of(*rollout_, which);
  const BatchTensors tensors = to_tensors(batch, session_.model.spec, session_.model.type, session_.device);
  if (stats.rests) stats.tokens += batch.tokens(), stats.supervised_tokens += batch.supervised_tokens();
  session_.value->forward_backward(tensors, state.loss_scale, [&](const std::vector<double>& values) {
    std::vector<double> cotangents;
    share_out(*rollout_, which, values, [&](Completion& c, const double* begin, const double* end) {
      const PolicyTokens tokens = value_tokens(objective_, step, c, {begin, end});
      cotangents.insert(cotangents.end(), tokens.cotangents.begin(), tokens.cotangents.end());
      add(stats.metrics, tokens.metrics);
    });
    return cotangents;
  });
}

void RolloutSteps::share_out(Rollout& rollout, const std::vector<size_t>& which, const std::vector<double>& numbers, const Give& give) {
  const double* next = numbers.data();
  for (const size_t i : which) {
    Completion& c = rollout.completions[i];
    give(c, next, next + c.tokens());
    next += c.tokens();
  }
  FORGE_CHECK(next == numbers.data() + numbers.size(), "numbers of other positions");
}

std::vector<std::vector<size_t>> RolloutSteps::all_batches(const Rollout& rollout) const {
  std::vector<size_t> all(rollout.completions.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return batches(rollout, all, 1);
}

void RolloutSteps::add_values(Rollout& rollout) {
  const auto start = Clock::now();
  for (const std::vector<size_t>& which : all_batches(rollout)) {
    if (stop_.requested) throw StepInterrupted{};
    const BatchTensors tensors =
        to_tensors(batch_of(rollout, which), session_.model.spec, session_.model.type, session_.device);
    share_out(rollout, which, session_.value->values(tensors),
              [](Completion& c, const double* begin, const double* end) { c.values.assign(begin, end); });
  }
  rollout.old_seconds += seconds_since(start);
}

void RolloutSteps::add_logps(Rollout& rollout, bool old, bool base) {
  if (!old && !base) return;
  for (const std::vector<size_t>& which : all_batches(rollout)) {
    if (stop_.requested) throw StepInterrupted{};
    const BatchTensors tensors =
        to_tensors(batch_of(rollout, which), session_.model.spec, session_.model.type, session_.device);
    const auto give = [&](std::vector<float> Completion::*member, const std::vector<double>& logps) {
      share_out(rollout, which, logps, [&](Completion& c, const double* begin, const double* end) { (c.*member).assign(begin, end); });
    };
    auto start = Clock::now();
    if (old) give(&Completion::old_logps, session_.network->policy_rows(tensors, config_.temperature).logps);
    rollout.old_seconds += seconds_since(start);
    start = Clock::now();
    if (base) give(&Completion::base_logps, base_->of(tensors, config_.temperature));
    rollout.base_seconds += seconds_since(start);
  }
}

// --- what is told of it ---

void RolloutSteps::watch(const Rollout& rollout) {
  for (const std::string& warning : rollout_warnings(rollout, config_)) ports_.warn(warning);
  const bool flat = rollout.groups > 0 && rollout.flat_groups == rollout.groups;
  flat_in_a_row_ = flat ? flat_in_a_row_ + 1 : 0;
  if (flat_in_a_row_ == kFlatRollouts) {
    const double reward = rollout.completions.front().reward.value_or(0);
    ports_.warn("in " + std::to_string(kFlatRollouts) +
                " rollouts in a row every group's completions had equal rewards, so nothing is learnt: " +
                (reward <= 0 ? "none is right; the task may be too hard, or a reward does not find the answer (forge rollouts)"
                             : "all are equally right; the task may be learnt already"));
  }
  const double bound = gap_bound(*session_.job.train.precision);
  if (gap_told_ || gap_tokens_ == 0 || gap_sum_ / static_cast<double>(gap_tokens_) <= bound) return;
  gap_told_ = true;
  ports_.warn("what drew the completions and what trains on them differ by " +
              format_number(gap_sum_ / static_cast<double>(gap_tokens_)) + " a token in log-probability, expected at most " +
              format_number(bound) + ": train.precision fp32 or provider: reference would show whether it is rounding");
}

RolloutEvaluation RolloutSteps::evaluate(const TrainState& state) {
  std::vector<int64_t> prompts(static_cast<size_t>(std::min(session_.job.eval.prompts, eval_->size())));
  std::iota(prompts.begin(), prompts.end(), 0);
  std::vector<Completion> completions = wished(prompts, 0, 1);
  DrawCost cost;
  drawing_.draw(*eval_, {.step = state.step, .split = "eval", .greedy = true}, {}, completions, cost);
  score(completions, *eval_, "eval", 0, state.step);
  RolloutEvaluation result;
  const Json facts = rollout_facts(completions, session_.job.rewards);
  result.reward = facts["reward"].is_null() ? std::nan("") : facts["reward"].get<double>();  // nothing was scored
  int64_t tokens = 0;
  for (const Completion& c : completions) tokens += c.tokens();
  result.event = {{"tokens", tokens}, {"seconds", cost.seconds}};
  for (const char* key : {"reward", "reward_std", "rewards", "unscored", "completions", "completion_tokens", "truncated_share", "distinct_2"})
    result.event["eval_" + std::string(key)] = facts[key];
  return result;
}

// --- checkpoints ---

Json RolloutSteps::pending(const TrainState& state) const {
  const int64_t each = steps_per_rollout(objective_);
  if (state.step % each == 0) return nullptr;
  FORGE_CHECK(rollout_ && rollout_->number == state.step / each, "the rollout that is being trained is not there");
  return *rollout_;
}

void RolloutSteps::restore(const Json& pending, const std::string& path) {
  if (pending.is_null()) return;
  try {
    rollout_ = pending.get<Rollout>();
  } catch (const MemberFault& fault) {
    throw Error(ErrorKind::environment, fault.at(path + "/rollout.json")).hint("delete its checkpoint to continue from the one before it");
  }
}

}  // namespace forge
