#include "core/run/host/reward_host.h"

#include <filesystem>

#include "core/data/read/row_stream.h"
#include "core/data/rows/mapping.h"
#include "core/job/environment.h"
#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); }

std::string text_of(const Json& prompt) {
  if (prompt.is_string()) return prompt.get<std::string>();
  return prompt.is_object() && prompt.contains("content") && prompt["content"].is_string() ? prompt["content"].get<std::string>() : "";
}

// Returns the secrets with those that the job passes to processes by the names of their variables.
std::vector<Secret> with_named(std::vector<Secret> secrets, const Job& job) {
  std::vector<std::string> names = job.rollout.tools.environment;
  for (const RewardConfig& reward : job.rewards) {
    const auto& command = reward.as<CommandReward>();
    names.insert(names.end(), command.environment.begin(), command.environment.end());
  }
  const Environment environment = process_environment();
  for (const std::string& name : names)
    if (const std::optional<std::string> value = environment(name); value && looks_secret(name, *value)) secrets.push_back({name, *value});
  return secrets;
}

}  // namespace

RewardHost::RewardHost(const Plan& plan, std::vector<Secret> secrets)
    : secrets_(with_named(std::move(secrets), plan.job)),
      text_(open_model_text(plan.job.model.path, template_choice(plan.job))), rewards_(plan.job) {
  const Job& job = plan.job;
  if (const ToolsConfig& tools = job.rollout.tools; !tools.command.empty()) {
    tools_.emplace(ChildPoolSettings{.name = "rollout.tools",
                                     .child = {tools.command, tools.directory.value_or(""), tools.environment, tools.memory_limit},
                                     .workers = tools.workers,
                                     .timeout = tools.timeout,
                                     .greeting = {{"forge", 1}, {"tools", true}, {"job", job.name}, {"seed", job.seed}}});
    tools_must_answer_ = tools.on_error == OnRewardError::stop;
  }
  for (const JudgeModel& judge : judges_of(job)) judges_.emplace(judge.reward, JudgeText(judge, longest_judged(job, judge.spec)));
  sides_.emplace("train", read_side(DataSet::open(plan.train.cache_path), job.data.train));
  if (plan.eval.examples > 0)
    sides_.emplace("eval", read_side(DataSet::open(plan.eval.cache_path), job.data.eval.empty() ? job.data.train : job.data.eval));
}

RewardHost::Side RewardHost::read_side(const DataSet& data, const std::vector<DataSource>& sources) const {
  Side side{data, std::vector<PromptRow>(static_cast<size_t>(data.size()))};
  const auto named = [&](const std::string& path) { return absolute(redacted(std::filesystem::absolute(path).string(), secrets_)); };
  std::map<std::pair<std::string, int64_t>, std::vector<size_t>> wanted;  // a row may occur several times in training
  for (int64_t i = 0; i < data.size(); ++i)
    wanted[{named(data.source_path(i)), data.source_line(i)}].push_back(static_cast<size_t>(i));
  RowStream stream(expand_sources(sources));
  for (RowChunk chunk; stream.next(chunk);) {
    const SourceFile& file = stream.files()[chunk.source];
    const std::string path = named(file.path);
    const RowMapping mapping(file.source, row_kind(file.path));
    for (const SourceRow& source : chunk.rows) {
      const auto found = wanted.find({path, source.line});
      if (found == wanted.end()) continue;
      auto row = std::make_shared<const Json>(parse_row(source, file.path));
      RowFaults faults;
      const Json mapped = mapping.apply(*row, faults);
      PromptRow made{row, "", nullptr, file.path + ":" + std::to_string(source.line)};
      if (mapped.is_object() && mapped.contains("prompt")) {
        const Json& prompt = mapped["prompt"];
        if (prompt.is_array() && !prompt.empty()) made.messages = prompt;
        made.prompt = text_of(prompt.is_array() && !prompt.empty() ? prompt.back() : prompt);
      }
      for (const size_t i : found->second) side.rows[i] = made;
    }
  }
  for (size_t i = 0; i < side.rows.size(); ++i)
    if (!side.rows[i].row)
      throw Error(ErrorKind::data, data.source_path(static_cast<int64_t>(i)) + ":" +
                                       std::to_string(data.source_line(static_cast<int64_t>(i))) +
                                       ": the row that a prompt was made of is gone");
  return side;
}

RewardSample RewardHost::sample_of(const Json& item, const Side& side) const {
  const PromptRow& row = side.rows.at(item.at("prompt").get<size_t>());
  const auto ids = item.at("ids").get<std::vector<int32_t>>();
  RewardSample sample;
  sample.id = item.at("id");
  sample.group = item.at("group");
  sample.prompt = row.prompt;
  sample.messages = row.messages;
  sample.completion = text_.tokenizer.decode(ids, /*skip_special=*/true);
  if (item.contains("whole"))
    sample.transcript = text_.tokenizer.decode(item["whole"].get<std::vector<int32_t>>(), /*skip_special=*/false);
  sample.tokens = static_cast<int64_t>(ids.size());
  sample.truncated = item.at("finish") == "length";
  sample.row = row.row;
  sample.place = row.place;
  return sample;
}

std::vector<Score> RewardHost::judged(const RewardConfig& reward, const std::vector<RewardSample>& samples, const AnswerPort& engine) {
  const JudgedTexts texts = judges_.at(reward.name).encode(samples);
  return texts.scores(texts.ids.empty() ? Json::array() : engine.ask({{"judge", reward.name}, {"texts", texts.ids}}).at("scores"));
}

Json RewardHost::answer(const Json& event, const AnswerPort& engine) {
  const Side& side = sides_.at(event.at("split").get<std::string>());
  std::vector<RewardSample> samples;
  for (const Json& item : event.at("items")) samples.push_back(sample_of(item, side));
  const std::vector<ScoredSample> scored = rewards_.score(
      samples, {.step = event.at("step").get<int64_t>(), .stopped = engine.stopped, .judge = [&](const RewardConfig& reward, const auto& asked) {
                  return judged(reward, asked, engine);
                }});
  Json items = Json::array();
  for (size_t i = 0; i < samples.size(); ++i) {
    Json parts = Json::array();
    for (const Score& score : scored[i].parts)
      parts.push_back({{"score", score.value ? Json(*score.value) : Json(nullptr)}, {"reason", redacted(score.reason, secrets_)}});
    items.push_back({{"parts", std::move(parts)},
                     {"total", scored[i].total ? Json(*scored[i].total) : Json(nullptr)},
                     {"reason", redacted(scored[i].reason, secrets_)},
                     {"text", samples[i].completion},
                     {"transcript", samples[i].transcript},
                     {"prompt_text", samples[i].prompt}});
  }
  return {{"items", std::move(items)}};
}

static bool ends_completion(const Json& reply) { return reply.value("done", Json(false)) == true; }

static std::string tool_fault(Json& reply) {
  if (ends_completion(reply)) return "";
  if (reply.contains("done") && reply["done"] != false) return "its done is neither true nor false";
  if (!reply.contains("content") || !reply["content"].is_string()) return "its reply has neither content nor done nor error";
  if (reply["content"] == "") return "its content is empty, where {\"done\": true} ends a completion";
  if (reply.contains("role") && !reply["role"].is_string()) return "its role is not a text";
  Json kept{{"content", std::move(reply["content"])}};
  if (reply.contains("role")) kept["role"] = std::move(reply["role"]);
  reply = std::move(kept);
  return "";
}

Json RewardHost::insertion(const Json& item, const PromptRow& row, const ChildReply& answered) const {
  Json made{{"ids", nullptr}, {"failure", redacted(answered.failure, secrets_)}};
  if (!answered.failure.empty() || ends_completion(answered.reply)) return made;
  const std::string content = redacted(answered.reply["content"].get<std::string>(), secrets_);
  try {
    made["ids"] = Json::array();
    if (row.messages.is_array())
      made["ids"] = between_turns(text_, row.messages, {{"role", answered.reply.value("role", "tool")}, {"content", content}},
                                  item.at("ended_by").get<int32_t>());
    else
      for (const TokenSpan& token : text_.tokenizer.encode(content, {.parse_special = false})) made["ids"].push_back(token.id);
  } catch (const Error& error) {
    throw Error(error.kind(), row.place + ": " + error.what()).hint(error.hint());
  }
  return made;
}

Json RewardHost::answer_calls(const Json& event, const AnswerPort& engine) {
  const Side& side = sides_.at(event.at("split").get<std::string>());
  const auto row_of = [&](const Json& item) -> const PromptRow& { return side.rows.at(item.at("prompt").get<size_t>()); };
  Json made = Json::array();
  std::vector<ChildItem> asked;
  std::vector<size_t> which;
  for (const Json& item : event.at("items")) {
    const PromptRow& row = row_of(item);
    made.push_back({{"ids", nullptr}, {"failure", ""}});
    // Nothing follows a text's end token; a turn of a conversation ends by such a token.
    if (!row.messages.is_array() && item.at("ended_by") >= 0) continue;
    const std::string turn = text_.tokenizer.decode(item.at("ids").get<std::vector<int32_t>>(), /*skip_special=*/true);
    which.push_back(made.size() - 1);
    asked.push_back({{{"id", item.at("id")},
                      {"step", event.at("step")},
                      {"turn", event.at("turn")},
                      {"prompt", row.prompt},
                      {"messages", row.messages},
                      {"completion", text::replace_invalid_utf8(turn)},
                      {"row", *row.row}},
                     row.place});
  }
  const int64_t most_failures = tools_must_answer_ ? 0 : static_cast<int64_t>(asked.size());
  const std::vector<ChildReply> replies = tools_->ask(asked, {{"end", event.at("step")}}, most_failures, tool_fault, engine.stopped);
  for (size_t i = 0; i < replies.size(); ++i) {
    const Json& item = event["items"][which[i]];
    made[which[i]] = insertion(item, row_of(item), replies[i]);
  }
  return {{"items", std::move(made)}};
}

}  // namespace forge
