#include "core/train/rollout_source.h"

#include <algorithm>

#include "core/learn/rollout/policy_step.h"
#include "core/learn/rollout/same_weights.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/members.h"
#include "core/train/checkpoint.h"

namespace forge {
namespace {

// Returns the completions to be drawn, by prompt.
std::vector<Completion> wished(const std::vector<int64_t>& prompts, int64_t draw, int64_t samples) {
  std::vector<Completion> completions;
  for (size_t place = 0; place < prompts.size(); ++place)
    for (int64_t sample = 0; sample < samples; ++sample)
      completions.push_back({.prompt = prompts[place], .draw = draw, .place = static_cast<int64_t>(place), .sample = sample});
  return completions;
}

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

constexpr auto kAheadMembers = [](auto& one, auto&& member) {
  member("rollout", one.rollout, "its number, from 0", at_least(0));
  member("step", one.step, "of the weights that draw it", at_least(0));
  member("adapter", one.adapter, "their name");
};

}  // namespace

RolloutSource::RolloutSource(Session& session, const DataSet& train, RolloutPasses& passes, const RolloutPorts& ports, StopFlag& stop)
    : session_(session),
      objective_(session.job.objective),
      config_(session.job.rollout),
      train_(train),
      passes_(passes),
      ports_(ports),
      stop_(stop),
      judges_(session),
      drawing_(session, ports.run_folder, ports.ask, stop) {
  make_directories(ports_.run_folder + "/rollouts");
}

// --- ahead ---

// Returns the names of the adapters that rollouts from this one on are drawn with.
std::vector<std::string> RolloutSource::waiting(int64_t from) const {
  std::vector<std::string> names;
  for (const AheadRollout& one : ahead_)
    if (one.rollout >= from && std::count(names.begin(), names.end(), one.adapter) == 0) names.push_back(one.adapter);
  return names;
}

// A run may go back to a checkpoint, so the adapters that a checkpoint waits for stay as long as it
// does.
std::string RolloutSource::publish(int64_t step) const {
  std::set<std::string> needed = adapters_of_checkpoints(ports_.run_folder);
  for (const std::string& name : waiting(0)) needed.insert(name);
  return drawing_.publish(step, needed);
}

DrawPurpose RolloutSource::purpose_of(const AheadRollout& one) const {
  return {.step = one.step, .rollout = one.rollout, .split = "train", .adapter = one.adapter, .waiting = waiting(0)};
}

void RolloutSource::look_ahead(const TrainState& state, int64_t number, int64_t first) {
  const int64_t most = config_.server.max_staleness, each = steps_per_rollout(objective_.as<PolicyConfig>());
  if (most == 0) return;
  std::erase_if(ahead_, [&](const AheadRollout& one) { return one.rollout < number; });
  for (int64_t next = ahead_.empty() ? number : ahead_.back().rollout + 1; next <= number + most; ++next) {
    FORGE_CHECK(state.step == number * each, "the weights of a rollout that is drawn ahead are gone");
    ahead_.push_back({.rollout = next, .step = state.step, .adapter = publish(state.step)});
  }
  // Beyond the last step the weights are chosen, since a run may be extended, but nothing is drawn.
  const int64_t steps = session_.plan.steps;
  for (AheadRollout& one : ahead_) {
    if (one.begun || one.rollout < first || (steps > 0 && one.rollout * each >= steps)) continue;
    one.wished = wished(prompts_[one.rollout], one.rollout, config_.samples_per_prompt);
    drawing_.begin(train_, purpose_of(one), RecordedRollout(rollout_path(ports_.run_folder, one.rollout)), one.wished);
    one.begun = true;
  }
}

Json RolloutSource::ahead(const TrainState& state) const {
  Json list = Json::array();
  for (const AheadRollout& one : ahead_)
    if (one.rollout * steps_per_rollout(objective_.as<PolicyConfig>()) >= state.step) list.push_back(write_members(one, kAheadMembers));
  return list;
}

void RolloutSource::restore_ahead(const Json& list) {
  for (const Json& item : list) {
    read_members(item, ahead_.emplace_back(), kAheadMembers);
    drawing_.folder_of(ahead_.back().adapter);
  }
}

// --- a rollout ---

Rollout RolloutSource::draw(const TrainState& state, int64_t number) {
  Rollout rollout{.number = number, .drawn = state.drawn, .rounds = 0};
  const AheadRollout* ahead = ahead_.empty() ? nullptr : &ahead_.front();
  FORGE_CHECK(!ahead || (ahead->rollout == number && ahead->begun && state.drawn == number), "another rollout was drawn ahead");
  if (ahead) rollout.staleness = number - ahead->step / steps_per_rollout(objective_.as<PolicyConfig>());
  std::vector<Completion> all;  // what the file tells of
  const RecordedRollout recorded(rollout_path(ports_.run_folder, number));
  if (recorded.damaged() > 0)
    ports_.warn(rollout_path(ports_.run_folder, number) + ": " + format_count(recorded.damaged()) +
          " recorded completions are damaged; they are drawn and scored again");
  const bool chooses = config_.dynamic_sampling.reward.has_value();
  const int64_t most_rounds = chooses ? config_.dynamic_sampling.max_rounds : 1;
  int64_t wanted = 0;
  while (rollout.rounds < most_rounds && (rollout.rounds == 0 || rollout.groups_drawn() < wanted)) {
    std::vector<Completion> drawn =
        ahead ? ahead->wished : wished(prompts_[rollout.drawn], rollout.drawn, config_.samples_per_prompt);
    if (rollout.rounds == 0) wanted = static_cast<int64_t>(drawn.size()) / config_.samples_per_prompt;
    drawing_.draw(train_, ahead ? purpose_of(*ahead) : DrawPurpose{.step = state.step, .rollout = number, .split = "train"}, recorded, drawn,
                  rollout.cost);
    if (config_.provider == RolloutProvider::http) require_served(rollout, drawn);
    if (drawing_.is_recorded()) write_rollout(number, all, drawn);
    const auto scoring = Clock::now();
    for (Completion& c : drawn) recorded.take_scores(session_.job.rewards, c);
    score(drawn, "train", number, state.step + 1);
    rollout.score_seconds += seconds_since(scoring);
    const std::vector<size_t> kept = kept_groups(drawn, wanted - rollout.groups_drawn(), rollout);
    for (const size_t i : kept) rollout.completions.push_back(drawn[i]);
    all.insert(all.end(), std::make_move_iterator(drawn.begin()), std::make_move_iterator(drawn.end()));
    write_rollout(number, all, {});
    ++rollout.drawn;
    ++rollout.rounds;
  }
  if (config_.provider == RolloutProvider::here) passes_.add_logps(rollout, needs_old_logps(objective_), passes_.has_base());
  if (session_.value) passes_.add_values(rollout);
  give_advantages(objective_, rollout);
  return rollout;
}

std::vector<Completion> RolloutSource::greedy(const DataSet& data, int64_t prompts, int64_t step, DrawCost& cost) {
  std::vector<Completion> completions = wished(numbers_below(prompts), 0, 1);
  DrawPurpose purpose{.step = step, .split = "eval", .greedy = true};
  if (config_.server.max_staleness > 0) {
    const int64_t each = steps_per_rollout(objective_.as<PolicyConfig>());
    purpose.adapter = publish(step);
    purpose.waiting = waiting((step + each - 1) / each);
  }
  drawing_.draw(data, purpose, {}, completions, cost);
  score(completions, "eval", 0, step);
  return completions;
}

// Compares what a server drew with the trainer's own log-probabilities, which every completion then
// has. Only completions that pass are recorded: after the server was repaired, a run that continues
// asks it again.
void RolloutSource::require_served(Rollout& rollout, std::vector<Completion>& drawn) {
  Rollout part{.number = rollout.number};
  part.completions = std::move(drawn);
  passes_.add_logps(part, true, true);
  if (rollout.staleness > 0) passes_.add_drawn_logps(part, drawing_.folder_of(part.completions.front().adapter));
  rollout.old_seconds += part.old_seconds;
  rollout.base_seconds += part.base_seconds;
  require_same_weights(part, config_.server);
  drawn = std::move(part.completions);
}

void RolloutSource::score(std::vector<Completion>& completions, const char* split, int64_t number, int64_t step) {
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

void RolloutSource::write_rollout(int64_t number, const std::vector<Completion>& before, const std::vector<Completion>& drawn) const {
  std::string text;
  for (const auto* part : {&before, &drawn})
    for (const Completion& c : *part) text += dump_json(rollout_line(c, session_.job.rewards)) + "\n";
  write_file_durably(rollout_path(ports_.run_folder, number), text);
}

// Returns the completions of the groups that the rollout takes, at most `room` groups; numbers the
// groups.
std::vector<size_t> RolloutSource::kept_groups(std::vector<Completion>& completions, int64_t room, Rollout& rollout) const {
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

}  // namespace forge
