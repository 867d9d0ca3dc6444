#include "core/reward/http_reward.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <thread>

#include "core/base/text.h"
#include "core/net/http.h"
#include "core/reward/answer.h"
#include "core/reward/reward_item.h"
#include "core/text/tokenizer/unicode.h"

namespace forge {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kPauses[] = {500ms, 2000ms};  // before the second and the third time

// At most `concurrency` on their way at the same time.
std::vector<HttpAnswer> post_all(const std::vector<HttpRequest>& requests, int64_t concurrency) {
  std::vector<HttpAnswer> answers(requests.size());
  std::vector<std::exception_ptr> problems(requests.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < requests.size(); i = next++) try {
        if (requests[i].stopped()) continue;
        answers[i] = http_request(requests[i]);
      } catch (...) {
        problems[i] = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t t = 1; t < std::min(requests.size(), static_cast<size_t>(concurrency)); ++t) threads.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
  return answers;
}

HttpRequest request_of(const RewardConfig& reward, const RewardSample& sample, int64_t step, const std::function<bool()>& stopped) {
  Json item = reward_item(sample, step);
  item["reward"] = reward.name;
  HttpRequest request{.url = *reward.url, .method = "POST", .headers = {"Content-Type: application/json", "Expect:"}, .body = dump_json(item)};
  for (const auto& [name, value] : reward.headers) request.headers.push_back(name + ": " + value);
  request.follow = false;
  request.connect_seconds = std::min(request.connect_seconds, reward.timeout);
  request.idle_seconds = request.total_seconds = reward.timeout;
  request.stopped = stopped;
  return request;
}

bool worth_another(const HttpAnswer& answer) {
  return !answer.failure.empty() || answer.status == 408 || answer.status == 429 || answer.status >= 500;
}

std::string shown(const std::string& body) {
  return body.empty() ? "nothing" : "\"" + shortened(valid_utf8(body) ? body : "bytes that are no UTF-8", 200) + "\"";
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

Score score_of(const RewardConfig& reward, const HttpAnswer& answer) {
  if (!answer.failure.empty()) return failed(*reward.url + ": " + answer.failure);
  if (answer.status < 200 || answer.status > 299)
    return failed(*reward.url + ": status " + std::to_string(answer.status) + ", " + shown(answer.body));
  Json json;
  try {
    json = parse_json(answer.body, "answer", ErrorKind::environment, {.wide_integers = true});
  } catch (const Error&) {
    return failed(*reward.url + ": answered " + shown(answer.body) + ", expected JSON");
  }
  if (const Json* error = find(json, "error"); error && !error->is_null())
    return failed(error->is_string() ? error->get<std::string>() : dump_json(*error));
  const Json* info = find(json, "info");
  const std::string reason = info && info->is_string() ? info->get<std::string>() : "";
  const Json* value = find(json, reward.field);
  if (!value) return failed(*reward.url + ": answered " + shown(answer.body) + ", which has no " + reward.field);
  if (value->is_null()) return Score::declined(reason.empty() ? "it gave no score" : reason);
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    return failed(*reward.url + ": " + reward.field + " is no finite number: " + shown(answer.body));
  return Score::of(value->get<double>(), reason);
}

}  // namespace

std::vector<Score> score_by_http(const RewardConfig& reward, const std::vector<RewardSample>& samples, int64_t step,
                                 const std::function<bool()>& asked_to_stop) {
  const auto stopped = [&] { return asked_to_stop && asked_to_stop(); };
  std::vector<HttpAnswer> answers(samples.size());
  std::vector<size_t> open(samples.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  for (int sends = 0; sends < kMostSends && !open.empty() && !stopped(); ++sends) {
    if (sends > 0)
      for (auto left = kPauses[sends - 1]; left > 0ms && !stopped(); left -= 50ms) std::this_thread::sleep_for(50ms);
    std::vector<HttpRequest> requests;
    for (const size_t i : open) requests.push_back(request_of(reward, samples[i], step, stopped));
    const std::vector<HttpAnswer> came = post_all(requests, reward.concurrency);
    std::vector<size_t> again;
    for (size_t k = 0; k < open.size(); ++k) {
      answers[open[k]] = came[k];
      if (worth_another(came[k])) again.push_back(open[k]);
    }
    open = std::move(again);
  }
  std::vector<Score> scores;
  for (const HttpAnswer& answer : answers) scores.push_back(score_of(reward, answer));
  return scores;
}

}  // namespace forge
