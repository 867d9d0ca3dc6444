#include "core/train/drawing.h"


#include <algorithm>
#include <filesystem>

#include "core/lib/base/clock.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/random.h"
#include "core/model/adapter/adapter_file.h"
#include "core/model/generate.h"
#include "core/run/run_folder.h"
#include "core/run/staging.h"
#include "providers/engine_providers.h"

namespace forge {
namespace {

constexpr size_t kKeptAdapters = 2;  // the one in use, and the one before: a server may still read it

std::string name_of_draw(const Completion& c) {
  std::string name = "completion/" + std::to_string(c.draw) + "/" + std::to_string(c.place) + "/" + std::to_string(c.prompt) + "/" +
                     std::to_string(c.sample);
  return c.turns == 0 ? name : name + "/" + std::to_string(c.turns);
}

// Returns a seed of 31 bits. vLLM takes seeds of 64 bits; 31 bits suit all servers.
int64_t seed_of(int64_t seed, uint64_t stream) {
  return static_cast<int64_t>(stream_of(std::to_string(seed) + "/" + std::to_string(stream)) & 0x7fffffff);
}

}  // namespace

// One answer of the model, to be drawn.
struct Drawing::Turn {
  Completion* completion = nullptr;
  std::vector<int32_t> prompt;  // all tokens before the turn
  int64_t room = 0;             // tokens that the completion may have in all
  uint64_t stream = 0;
  int32_t ended_by = -1;     // the end token
  int64_t stop_tokens = 0;   // of a text that ended it
  bool ended = false;        // not at a limit

  int64_t left() const { return room - static_cast<int64_t>(completion->ids.size()); }
  // Closes the turn after it is drawn.
  void close(bool stopped) {
    Completion& c = *completion;
    ended = stopped;
    c.truncated = !stopped;
    c.text_tokens = static_cast<int64_t>(c.ids.size()) - c.text_begin - stop_tokens - (ended_by >= 0);
    ++c.turns;
  }
};

Drawing::Drawing(Session& session, std::string run_folder, Ask ask, StopFlag& stop)
    : session_(session),
      config_(session.job.rollout),
      run_folder_(std::move(run_folder)),
      ask_(std::move(ask)),
      stop_(stop),
      served_(config_.provider == RolloutProvider::http),
      has_tools_(!config_.tools.command.empty()) {}

void Drawing::draw(const DataSet& data, const DrawPurpose& purpose, const RecordedRollout& recorded, std::vector<Completion>& completions,
                   DrawCost& cost) {
  const auto start = Clock::now();
  const int64_t samples = purpose.greedy ? 1 : config_.samples_per_prompt;
  std::vector<Turn> turns = first_turns(data, completions);
  if (served_) take_recorded(recorded, purpose.adapter.empty() ? publish(purpose.step, {}) : purpose.adapter, turns);
  std::optional<double> ahead_seconds;
  for (int64_t group = samples; !turns.empty(); group = 1) {
    if (served_) {
      const Json answer = draw_served(turns, purpose);
      if (answer.contains("seconds")) ahead_seconds = answer["seconds"].get<double>();
    } else
      draw_here(turns, purpose, group, cost);
    if (!has_tools_) break;
    turns = called(std::move(turns), purpose, recorded);
  }
  const double waited = seconds_since(start);
  cost.seconds += ahead_seconds.value_or(waited);
  cost.wait_seconds += waited;
}

void Drawing::begin(const DataSet& data, const DrawPurpose& purpose, const RecordedRollout& recorded, std::vector<Completion> completions) {
  std::vector<Turn> turns = first_turns(data, completions);
  take_recorded(recorded, purpose.adapter, turns);
  if (!turns.empty()) ask_(request_of("draw_ahead", turns, purpose));
}

void Drawing::take_recorded(const RecordedRollout& recorded, const std::string& adapter, std::vector<Turn>& turns) {
  std::erase_if(turns, [&](const Turn& turn) {
    turn.completion->adapter = adapter;
    return recorded.take_draw(adapter, *turn.completion);
  });
}

std::vector<Drawing::Turn> Drawing::first_turns(const DataSet& data, std::vector<Completion>& completions) const {
  std::vector<Turn> turns;
  for (Completion& c : completions) {
    Turn turn{.completion = &c, .prompt = data.example(c.prompt).ids, .stream = stream_of(name_of_draw(c))};
    turn.room = std::min(config_.max_new_tokens, session_.job.data.max_length - static_cast<int64_t>(turn.prompt.size()));
    turns.push_back(std::move(turn));
  }
  return turns;
}

void Drawing::draw_here(std::vector<Turn>& turns, const DrawPurpose& purpose, int64_t samples, DrawCost& cost) {
  std::vector<std::vector<int32_t>> prompts;
  SamplingConfig sampling{.temperature = purpose.greedy ? 0 : config_.temperature,
                          .seed = session_.job.seed,
                          .stop_ids = session_.plan.rollout.stop_ids,
                          .stop_sequences = session_.plan.rollout.stop_sequences,
                          .samples = samples,
                          .lookup_tokens = config_.lookup_tokens};
  for (size_t i = 0; i < turns.size(); ++i) {
    if (i % static_cast<size_t>(samples) == 0) prompts.push_back(turns[i].prompt);
    sampling.streams.push_back(turns[i].stream);
    sampling.limits.push_back(turns[i].left());
  }
  const GenerationEvents events{
      .token =
          [&](int64_t text, int32_t id, float logp) {
            stop_.interrupt_if_requested();
            Turn& turn = turns[static_cast<size_t>(text)];
            turn.completion->ids.push_back(id);
            turn.completion->sampler_logps.push_back(logp);
            return true;
          },
      .end =
          [&](int64_t text, const GenerationEnd& end) {
            Turn& turn = turns[static_cast<size_t>(text)];
            if (end.reason == TextEnd::not_finite)
              throw Error(ErrorKind::diverged, "a completion's token " + std::to_string(end.tokens + 1) + ": no logit is a number")
                  .hint("lower optimizer.learning_rate");
            turn.stop_tokens = end.stop_tokens;
            turn.ended_by = end.stop_id;
            if (end.stop_id >= 0) {
              turn.completion->ids.push_back(end.stop_id);
              turn.completion->sampler_logps.push_back(end.stop_logp);
            }
            turn.close(end.reason == TextEnd::stop);
          }};
  const auto decoder = make_decoder(session_.plan.provider_name(), session_.model, *session_.trainables,
                                    step_options(session_.plan.model, session_.job, session_.sites, Checkpointing::none));
  const int64_t slots = std::max(samples, *config_.slots / samples * samples);
  const GenerationStats generated = generate(*decoder, prompts, sampling, {slots, session_.plan.rollout.prompt_tokens}, events);
  cost.prompt_tokens += generated.prompt_tokens;
  cost.cache_bytes = std::max(cost.cache_bytes, generated.cache_bytes);
  cost.guessed += generated.guessed;
  cost.guessed_right += generated.guessed_right;
  cost.slots = std::max(cost.slots, slots);
}

// --- by a server ---

constexpr size_t kHashDigits = 8;

// True if the folder's adapter is the one that its name says.
static bool is_whole_adapter(const std::string& folder) {
  const std::string file = folder + "/adapter_model.safetensors";
  return file_exists(file) && folder.ends_with("-" + hash_file(file).substr(0, kHashDigits));
}

std::string Drawing::publish(int64_t step, const std::set<std::string>& needed) const {
  const std::string root = RunPaths{run_folder_}.served_adapters();
  make_directories(root);
  const std::string temporary = make_temporary_sibling(root + "/adapter");
  save_adapter(temporary, *session_.trainables, session_.sites, session_.job.adapter, session_.model_name, session_.residual,
               session_.plan.model);
  const std::string name = fmt::format("step-{:06}-{}", step, hash_file(temporary + "/adapter_model.safetensors").substr(0, kHashDigits));
  if (is_whole_adapter(root + "/" + name))  // the server may be reading it
    std::filesystem::remove_all(temporary);
  else
    replace_directory(temporary, root + "/" + name);
  std::vector<std::string> others;
  for (const auto& entry : std::filesystem::directory_iterator(root))
    if (entry.path().filename() != name && !needed.contains(entry.path().filename())) others.push_back(entry.path().string());
  std::sort(others.rbegin(), others.rend());
  for (size_t i = kKeptAdapters - 1; i < others.size(); ++i) std::filesystem::remove_all(others[i]);
  return name;
}

std::string Drawing::folder_of(const std::string& adapter) const {
  const std::string folder = RunPaths{run_folder_}.served_adapters() + "/" + adapter;
  if (!is_whole_adapter(folder))
    throw Error(ErrorKind::environment, folder + ": the adapter that a pending rollout is drawn with is gone or damaged")
        .hint("delete the newest checkpoint to continue from the one before it, or start over with --fresh");
  return folder;
}

Json Drawing::request_of(const char* event, const std::vector<Turn>& turns, const DrawPurpose& purpose) const {
  std::vector<int32_t> stop_ids = session_.plan.rollout.stop_ids;
  for (const std::vector<int32_t>& sequence : session_.plan.rollout.stop_sequences) stop_ids.push_back(sequence.at(0));
  Json items = Json::array();
  for (const Turn& turn : turns)
    items.push_back({{"ids", turn.prompt}, {"max_tokens", turn.left()}, {"seed", seed_of(session_.job.seed, turn.stream)}});
  const std::string name = turns.front().completion->adapter;
  return {{"event", event},
          {"rollout", purpose.rollout},
          {"step", purpose.step},
          {"split", purpose.split},
          {"adapter", name},
          {"folder", RunPaths{run_folder_}.served_adapters() + "/" + name},
          {"waiting", purpose.waiting},
          {"temperature", purpose.greedy ? 0 : config_.temperature},
          {"stop_ids", stop_ids},
          {"items", std::move(items)}};
}

Json Drawing::draw_served(std::vector<Turn>& turns, const DrawPurpose& purpose) {
  const Json answer = ask_(request_of("draw", turns, purpose));
  FORGE_CHECK(answer.at("items").size() == turns.size(), answer.at("items").size() << " completions for " << turns.size() << " prompts");
  for (size_t i = 0; i < turns.size(); ++i) {
    const Json& item = answer["items"][i];
    Completion& c = *turns[i].completion;
    for (const Json& id : item.at("ids")) c.ids.push_back(id.get<int32_t>());
    for (const Json& logp : item.at("logps")) c.sampler_logps.push_back(logp.get<float>());
    const bool stopped = item.at("stopped");
    const auto& ends = session_.plan.rollout.stop_ids;
    if (stopped && std::count(ends.begin(), ends.end(), c.ids.back()) > 0) turns[i].ended_by = c.ids.back();
    else if (stopped) turns[i].stop_tokens = 1;
    turns[i].close(stopped);
  }
  return answer;
}

// --- tools ---

// Asks the tools about the turns that ended. Returns the turns that go on, each with the tool's
// answer in its prompt.
std::vector<Drawing::Turn> Drawing::called(std::vector<Turn> turns, const DrawPurpose& purpose, const RecordedRollout& recorded) {
  std::erase_if(turns, [&](const Turn& turn) {
    return !turn.ended || turn.left() <= 0 || turn.completion->turns >= config_.tools.max_turns;
  });
  std::vector<std::optional<RecordedRollout::Answer>> answers;
  Json items = Json::array();
  for (const Turn& turn : turns) {
    const Completion& c = *turn.completion;
    answers.push_back(recorded.tool_answer(c));
    if (!answers.back())
      items.push_back({{"id", items.size()},
                       {"prompt", c.prompt},
                       {"group", c.place},
                       {"sample", c.sample},
                       {"ids", std::vector<int32_t>(c.ids.begin() + c.text_begin, c.ids.end())},
                       {"ended_by", turn.ended_by}});
  }
  if (!items.empty()) {
    const int64_t turn = turns.front().completion->turns;
    const size_t asked = items.size();
    const Json said = ask_({{"event", "call"}, {"rollout", purpose.rollout}, {"step", purpose.step + 1}, {"split", purpose.split}, {"turn", turn},
                            {"items", std::move(items)}}).at("items");
    FORGE_CHECK(said.size() == asked, said.size() << " answers for " << asked << " calls");
    size_t next = 0;
    for (auto& answer : answers) {
      if (answer) continue;
      const Json& item = said[next++];
      answer = RecordedRollout::Answer{.over = item.at("ids").is_null(), .failure = item.at("failure")};
      if (!answer->over) answer->ids = item["ids"].get<std::vector<int32_t>>();
    }
  }
  std::vector<Turn> next;
  for (size_t i = 0; i < turns.size(); ++i) {
    const RecordedRollout::Answer& answer = *answers[i];
    Completion& c = *turns[i].completion;
    c.failure = answer.failure;
    // The text of the tool must leave room for an answer to it.
    if (answer.over || std::ssize(answer.ids) >= turns[i].left()) {
      c.truncated = !answer.over || answer.truncated;
      continue;
    }
    Turn turn{.completion = &c, .prompt = turns[i].prompt, .room = turns[i].room, .stream = stream_of(name_of_draw(c))};
    c.ids.insert(c.ids.end(), answer.ids.begin(), answer.ids.end());
    turn.prompt.insert(turn.prompt.end(), c.ids.begin() + c.text_begin, c.ids.end());
    c.text_begin = std::ssize(c.ids);
    c.inserted.push_back({c.text_begin - std::ssize(answer.ids), c.text_begin});
    next.push_back(std::move(turn));
  }
  return next;
}

}  // namespace forge
