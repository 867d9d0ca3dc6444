#include "core/learn/rollout/recorded.h"

#include <algorithm>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 30;

std::vector<IdSpan> spans_of(const Json& line) {
  std::vector<IdSpan> spans;
  for (const Json& span : line.value("inserted", Json::array())) spans.push_back({span.at(0).get<int64_t>(), span.at(1).get<int64_t>()});
  return spans;
}

}  // namespace

RecordedRollout::RecordedRollout(const std::string& path) {
  if (!file_exists(path)) return;
  const std::vector<std::string> texts = split(read_file(path, kLargestFile, ErrorKind::environment), '\n');
  for (size_t i = 0; i < texts.size(); ++i) try {
      if (texts[i].empty()) continue;
      damaged_ += i + 1 < texts.size();  // until it turns out to be whole
      Json line = parse_json(texts[i], path, ErrorKind::environment);
      if (!line.is_object() || line.value("hash", Json()) != hash_of_line(line)) continue;
      const auto key = std::tuple(line.at("prompt").get<int64_t>(), line.at("draw").get<int64_t>(), line.at("place").get<int64_t>(),
                                  line.at("sample").get<int64_t>());
      lines_[key] = std::move(line);
      damaged_ -= i + 1 < texts.size();
    } catch (const Error&) {
    } catch (const Json::exception&) {
    }
}

template <class Read>
auto RecordedRollout::read_line(const Completion& c, Read read) const -> decltype(read(Json())) {
  const auto found = lines_.find({c.prompt, c.draw, c.place, c.sample});
  if (found != lines_.end()) try {
      return read(found->second);
    } catch (const Json::exception&) {
    }
  return {};
}

bool RecordedRollout::take_scores(const std::vector<RewardConfig>& rewards, Completion& c) const {
  return read_line(c, [&](const Json& line) {
    if (line.at("ids").get<std::vector<int32_t>>() != c.ids || line.at("rewards").size() != rewards.size()) return false;
    std::vector<RewardPart> parts;
    for (const RewardConfig& reward : rewards) {
      const Json& part = line["rewards"].at(reward.name);
      parts.push_back({});
      if (!part.at("score").is_null()) parts.back().score = part["score"].get<double>();
      parts.back().reason = part.at("reason").get<std::string>();
    }
    c.reward = line.at("reward").is_null() ? std::nullopt : std::optional(line["reward"].get<double>());
    c.unscored_reason = line.at("unscored").get<std::string>();
    c.prompt_text = line.at("prompt_text").get<std::string>();
    c.text = line.at("text").get<std::string>();
    c.transcript = line.value("transcript", "");
    c.parts = std::move(parts);
    return true;
  });
}

bool RecordedRollout::take_draw(const std::string& adapter, Completion& c) const {
  return read_line(c, [&](const Json& line) {
    if (line.at("adapter") != adapter) return false;
    Completion drawn = c;
    drawn.ids = line.at("ids").get<std::vector<int32_t>>();
    drawn.sampler_logps = line.at("sampler_logps").get<std::vector<float>>();
    drawn.inserted = spans_of(line);
    drawn.turns = line.value("turns", int64_t{1});
    drawn.text_begin = line.value("text_begin", int64_t{0});
    drawn.text_tokens = line.at("tokens").get<int64_t>();
    drawn.truncated = line.at("finish") == "length";
    drawn.failure = line.value("failure", "");
    drawn.adapter = adapter;
    auto count = static_cast<int64_t>(drawn.ids.size());
    for (const IdSpan& span : drawn.inserted) count -= span.end - span.begin;
    if (count != drawn.tokens()) return false;
    c = std::move(drawn);
    return true;
  });
}

std::optional<RecordedRollout::Answer> RecordedRollout::tool_answer(const Completion& c) const {
  return read_line(c, [&](const Json& line) -> std::optional<Answer> {
    const auto ids = line.at("ids").get<std::vector<int32_t>>();
    const auto here = static_cast<int64_t>(c.ids.size());
    if (ids.size() < c.ids.size() || !std::equal(c.ids.begin(), c.ids.end(), ids.begin())) return std::nullopt;
    if (ids.size() == c.ids.size())
      return Answer{.over = true, .truncated = line.at("finish") == "length", .failure = line.value("failure", "")};
    for (const IdSpan& span : spans_of(line))
      if (span.begin == here && span.end > span.begin && span.end <= static_cast<int64_t>(ids.size()))
        return Answer{.ids = {ids.begin() + span.begin, ids.begin() + span.end}};
    return std::nullopt;
  });
}

}  // namespace forge
