#include "core/learn/reward/http_reward.h"

#include <algorithm>
#include <cmath>

#include "core/learn/reward/answer.h"
#include "core/learn/reward/child_process.h"
#include "core/lib/base/text.h"
#include "core/lib/net/http_many.h"

namespace forge {
namespace {

HttpRequest request_of(const HttpReward& reward, const std::string& name, const RewardSample& sample, int64_t step) {
  Json item = reward_item(sample, step);
  item["reward"] = name;
  HttpRequest request{.url = *reward.url, .method = "POST", .headers = {"Content-Type: application/json", "Expect:"}, .body = dump_json(item)};
  for (const auto& [header, value] : reward.headers) request.headers.push_back(header + ": " + value);
  request.follow = false;
  request.most_bytes = static_cast<int64_t>(kLongestLine);
  request.connect_seconds = std::min(request.connect_seconds, reward.timeout);
  request.idle_seconds = request.total_seconds = reward.timeout;
  return request;
}

Score failed(const std::string& why) { return Score::failed(why, ErrorKind::environment); }

const Json* find(const Json& answer, const std::string& path) {
  const Json* at = &answer;
  for (const std::string& name : split(path, '.')) {
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &(*at)[name];
  }
  return at;
}

}  // namespace

Score score_of(const HttpReward& reward, const HttpAnswer& answer) {
  if (!answer.failure.empty()) return failed(*reward.url + ": " + answer.failure);
  if (answer.status < 200 || answer.status > 299)
    return failed(*reward.url + ": status " + std::to_string(answer.status) + ", " + shown_body(answer.body));
  const std::optional<Json> json = try_json(answer.body);
  if (!json) return failed(*reward.url + ": answered " + shown_body(answer.body) + ", expected JSON");
  if (const Json* error = find(*json, "error"); error && !error->is_null())
    return failed(kept_info(error->is_string() ? error->get<std::string>() : dump_json(*error)));
  const Json* info = find(*json, "info");
  const std::string reason = info && info->is_string() ? kept_info(info->get<std::string>()) : "";
  const Json* value = find(*json, reward.field);
  if (!value) return failed(*reward.url + ": answered " + shown_body(answer.body) + ", which has no " + reward.field);
  if (value->is_null()) return Score::declined(reason.empty() ? "it gave no score" : reason);
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    return failed(*reward.url + ": " + reward.field + " is not a finite number: " + shown_body(answer.body));
  return Score::of(value->get<double>(), reason);
}

std::vector<Score> score_by_http(const RewardConfig& config, const std::vector<RewardSample>& samples, int64_t step,
                                 const std::function<bool()>& stopped) {
  const auto& reward = config.as<HttpReward>();
  std::vector<HttpRequest> requests;
  for (const RewardSample& sample : samples) requests.push_back(request_of(reward, config.name, sample, step));
  std::vector<Score> scores(samples.size());
  http_requests(std::move(requests), reward.concurrency, stopped,
                [&](size_t i, const HttpAnswer& answer) { scores[i] = score_of(reward, answer); });
  return scores;
}

}  // namespace forge
