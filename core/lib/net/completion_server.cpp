#include "core/lib/net/completion_server.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"
#include "core/lib/net/http_many.h"

namespace forge {
namespace {

// A log-probability may be above 0 because of rounding.
constexpr double kRounding = 1e-3;

// Limits of an answer in bytes: its text, and a token with its id, its text and its
// log-probability.
constexpr int64_t kMostAnswer = 1 << 20, kMostPerToken = 1 << 10;

bool is_list(const Json& object, const char* key) { return object.is_object() && object.contains(key) && object[key].is_array(); }

// Returns the ids, which are on the choice itself or, as "token_id:17", in place of tokens' texts;
// none if these are texts. −1 stands for a value that is no whole number.
std::vector<int64_t> ids_of(const Json& choice) {
  std::vector<int64_t> ids;
  const auto whole = [](const Json& id) { return id.is_number_integer() ? id.get<int64_t>() : -1; };
  if (is_list(choice, "token_ids")) {
    for (const Json& id : choice["token_ids"]) ids.push_back(whole(id));
  } else if (choice.contains("logprobs") && is_list(choice["logprobs"], "tokens")) {
    constexpr std::string_view kBefore = "token_id:";
    for (const Json& token : choice["logprobs"]["tokens"]) {
      const std::string text = token.is_string() ? token.get<std::string>() : "";
      const std::string digits = starts_with(text, kBefore) ? text.substr(kBefore.size()) : "";
      const bool number = !digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos;
      if (!number) return {};
      ids.push_back(std::stoll(digits));
    }
  }
  return ids;
}

std::string other_prompt(const Json& choice, const std::vector<int32_t>& prompt) {
  if (!is_list(choice, "prompt_token_ids")) return "";
  const Json& read = choice["prompt_token_ids"];
  for (size_t i = 0; i < std::min(read.size(), prompt.size()); ++i)
    if (read[i] != prompt[i])
      return "read other prompt ids than it was sent: " + dump_json(read[i]) + " at place " + std::to_string(i) + ", sent " + std::to_string(prompt[i]);
  return read.size() == prompt.size() ? ""
                                      : "read " + format_count(static_cast<int64_t>(read.size())) + " prompt ids, sent " +
                                            format_count(static_cast<int64_t>(prompt.size()));
}

std::string wrong_end(const Json& choice, const AskedCompletion& asked, const DrawSettings& settings, DrawnCompletion& drawn) {
  const std::string finish = choice.contains("finish_reason") && choice["finish_reason"].is_string() ? choice["finish_reason"].get<std::string>() : "";
  const auto stops = [&](int32_t id) { return std::count(settings.stop_ids.begin(), settings.stop_ids.end(), id) > 0; };
  const auto stop = std::find_if(drawn.ids.begin(), drawn.ids.end(), stops);
  if (stop != drawn.ids.end() && stop + 1 != drawn.ids.end())
    return "went on after the stop token " + std::to_string(*stop);
  drawn.stopped = finish == "stop";
  if (drawn.stopped && stop == drawn.ids.end())
    return "ended by \"stop\" after the token " + std::to_string(drawn.ids.back()) + ", which is not a stop token of the job";
  if (finish == "length" && static_cast<int64_t>(drawn.ids.size()) != asked.max_tokens)
    return "ended by \"length\" after " + format_count(static_cast<int64_t>(drawn.ids.size())) + " of " + format_count(asked.max_tokens) + " tokens";
  if (!drawn.stopped && finish != "length") return "ended by \"" + finish + "\", expected stop or length";
  drawn.stopped = stop != drawn.ids.end();
  return "";
}

}  // namespace

std::string completion_fault(const std::string& body, const AskedCompletion& asked, const DrawSettings& settings, DrawnCompletion& drawn) {
  Json answer;
  try {
    answer = parse_json(body, "answer", ErrorKind::environment, {.wide_integers = true});
  } catch (const Error&) {
    const bool nan = body.find("NaN") != body.npos || body.find("Infinity") != body.npos;
    return "answered " + shown_body(body) + (nan ? ", in which a number is not finite" : ", expected JSON");
  }
  if (!is_list(answer, "choices") || answer["choices"].size() != 1 || !answer["choices"][0].is_object())
    return "answered " + (is_list(answer, "choices") ? format_count(static_cast<int64_t>(answer["choices"].size())) + " choices" : shown_body(body)) +
           ", expected one choice";
  if (answer.contains("model") && answer["model"].is_string() && answer["model"] != settings.adapter)
    return "answered by " + answer["model"].get<std::string>() + ", expected " + settings.adapter;
  const Json& choice = answer["choices"][0];
  if (std::string fault = other_prompt(choice, asked.prompt); !fault.empty()) return fault;
  const std::vector<int64_t> ids = ids_of(choice);
  if (ids.empty()) return "gave no token ids (token_ids, or logprobs.tokens as token_id:N): " + shown_body(body);
  if (static_cast<int64_t>(ids.size()) > asked.max_tokens)
    return "gave " + format_count(static_cast<int64_t>(ids.size())) + " tokens, expected at most " + format_count(asked.max_tokens);
  for (const int64_t id : ids) {
    if (id < 0 || id >= settings.vocab_size)
      return "gave a token that the model does not have: " + (id < 0 ? "no whole number" : std::to_string(id) + " of " + std::to_string(settings.vocab_size));
    drawn.ids.push_back(static_cast<int32_t>(id));
  }
  if (!choice.contains("logprobs") || !is_list(choice["logprobs"], "token_logprobs")) return "gave no log-probabilities (logprobs.token_logprobs)";
  const Json& logps = choice["logprobs"]["token_logprobs"];
  if (logps.size() != ids.size())
    return "gave " + format_count(static_cast<int64_t>(logps.size())) + " log-probabilities for " + format_count(static_cast<int64_t>(ids.size())) + " tokens";
  for (const Json& logp : logps) {
    if (!logp.is_number() || !std::isfinite(logp.get<float>()) || logp.get<double>() > kRounding)
      return "gave " + dump_json(logp) + " as a log-probability";
    drawn.logps.push_back(logp.get<float>());
  }
  return wrong_end(choice, asked, settings, drawn);
}

HttpRequest CompletionServer::request(const std::string& path, const std::string& body) const {
  HttpRequest request{.url = settings_.url + path, .method = "POST", .headers = {"Content-Type: application/json", "Expect:"}, .body = body};
  for (const auto& [name, value] : settings_.headers) request.headers.push_back(name + ": " + value);
  request.follow = false;
  request.connect_seconds = std::min(request.connect_seconds, settings_.timeout);
  request.idle_seconds = request.total_seconds = settings_.timeout;
  return request;
}

HttpAnswer CompletionServer::post(const std::string& path, const std::string& body, const std::function<bool()>& stopped) const {
  HttpAnswer answer;
  http_requests({request(path, body)}, 1, stopped, [&](size_t, HttpAnswer came) { answer = std::move(came); });
  return answer;
}

CompletionServer::~CompletionServer() {
  constexpr double kPatience = 2;
  std::vector<HttpRequest> last;
  for (const std::string& name : held_) {
    last.push_back(request("/unload_lora_adapter", dump_json({{"lora_name", name}})));
    last.back().connect_seconds = last.back().idle_seconds = last.back().total_seconds = std::min(settings_.timeout, kPatience);
  }
  // Each request is sent once and all at the same time, so that a server that is gone delays
  // nothing.
  std::vector<std::jthread> threads;
  for (const HttpRequest& one : last)
    threads.emplace_back([&one] {
      try {
        http_request(one);
      } catch (const Error&) {  // the component is there, or no adapter would be
      }
    });
}

static std::string failure_of(const HttpAnswer& answer) {
  if (!answer.failure.empty()) return answer.failure;
  return answer.status / 100 == 2 ? "" : "status " + std::to_string(answer.status) + ", " + shown_body(answer.body);
}

void CompletionServer::hold(const std::string& name, const std::string& folder, const std::set<std::string>& needed,
                            const std::function<bool()>& stopped) {
  if (held_.contains(name)) return;
  const HttpAnswer answer = post("/load_lora_adapter", dump_json({{"lora_name", name}, {"lora_path", folder}}), stopped);
  if (stopped && stopped()) return;
  // The name contains the adapter's hash, so an adapter with that name is this one, loaded before
  // the run was killed.
  const bool there = answer.status == 400 && answer.body.find("already been loaded") != std::string::npos;
  if (const std::string failure = failure_of(answer); !failure.empty() && !there)
    throw Error(ErrorKind::environment, settings_.url + "/load_lora_adapter: " + failure + " (adapter " + folder + ")")
        .hint("the server must allow adapters to be loaded, have places for " + std::to_string(settings_.most_adapters) +
              " of them (--max-loras) and see that folder: docs/rollout-server.md");
  // An adapter that is not unloaded costs the server a place. The server reports it when no place
  // is left.
  std::erase_if(held_, [&](const std::string& other) {
    if (needed.contains(other)) return false;
    post("/unload_lora_adapter", dump_json({{"lora_name", other}}), stopped);
    return true;
  });
  held_.insert(name);
}

std::vector<DrawnCompletion> CompletionServer::draw(const std::vector<AskedCompletion>& asked, const DrawSettings& settings,
                                                    const std::function<bool()>& stopped) const {
  std::vector<HttpRequest> requests;
  for (const AskedCompletion& one : asked) {
    // Every value that a server might take from the model's own settings is stated.
    requests.push_back(request("/completions", dump_json({{"model", settings.adapter},
                                                          {"prompt", one.prompt},
                                                          {"max_tokens", one.max_tokens},
                                                          {"n", 1},
                                                          {"temperature", settings.temperature},
                                                          {"top_p", 1},
                                                          {"top_k", -1},
                                                          {"min_p", 0},
                                                          {"repetition_penalty", 1},
                                                          {"seed", one.seed},
                                                          {"logprobs", 0},
                                                          {"stop_token_ids", settings.stop_ids},
                                                          {"ignore_eos", true},
                                                          {"add_special_tokens", false},
                                                          {"return_token_ids", true},
                                                          {"return_tokens_as_token_ids", true}})));
    requests.back().most_bytes = kMostAnswer + kMostPerToken * (std::ssize(one.prompt) + one.max_tokens);
  }
  std::vector<DrawnCompletion> drawn(asked.size());
  std::vector<std::string> faults(asked.size());
  http_requests(std::move(requests), settings_.concurrency, stopped, [&](size_t i, const HttpAnswer& answer) {
    faults[i] = failure_of(answer);
    if (faults[i].empty()) faults[i] = completion_fault(answer.body, asked[i], settings, drawn[i]);
  });
  if (stopped && stopped()) return drawn;
  for (size_t i = 0; i < asked.size(); ++i)
    if (!faults[i].empty())
      throw Error(ErrorKind::environment, settings_.url + "/completions: completion " + std::to_string(i + 1) + " of " + std::to_string(asked.size()) +
                                              ": " + faults[i])
          .hint("nothing was trained on it; docs/rollout-server.md says what the server must answer");
  return drawn;
}

}  // namespace forge
