#include "core/net/http_many.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "core/base/text.h"

namespace forge {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kPauses[] = {500ms, 2000ms};  // before the second and the third time

std::vector<HttpAnswer> send_once(const std::vector<HttpRequest>& requests, const std::vector<size_t>& which, int64_t concurrency) {
  std::vector<HttpAnswer> answers(which.size());
  std::vector<std::exception_ptr> problems(which.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < which.size(); i = next++) try {
        if (requests[which[i]].stopped()) continue;
        answers[i] = http_request(requests[which[i]]);
      } catch (...) {
        problems[i] = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t t = 1; t < std::min(which.size(), static_cast<size_t>(concurrency)); ++t) threads.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
  return answers;
}

}  // namespace

bool worth_another(const HttpAnswer& answer) {
  return !answer.failure.empty() || answer.status == 408 || answer.status == 429 || answer.status >= 500;
}

std::vector<HttpAnswer> http_requests(std::vector<HttpRequest> requests, int64_t concurrency, const std::function<bool()>& asked_to_stop) {
  const auto stopped = [&] { return asked_to_stop && asked_to_stop(); };
  std::vector<HttpAnswer> answers(requests.size());
  std::vector<size_t> open;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].stopped = stopped;
    open.push_back(i);
  }
  for (int sends = 0; sends < kMostSends && !open.empty() && !stopped(); ++sends) {
    if (sends > 0)
      for (auto left = kPauses[sends - 1]; left > 0ms && !stopped(); left -= 50ms) std::this_thread::sleep_for(50ms);
    std::vector<HttpAnswer> came = send_once(requests, open, concurrency);
    std::vector<size_t> again;
    for (size_t k = 0; k < open.size(); ++k) {
      if (worth_another(came[k])) again.push_back(open[k]);
      answers[open[k]] = std::move(came[k]);
    }
    open = std::move(again);
  }
  return answers;
}

std::string shown_body(const std::string& body) {
  constexpr size_t kShown = 200;  // bytes
  if (body.empty()) return "nothing";
  if (!valid_utf8(body)) return "\"bytes that are no UTF-8\"";
  size_t end = std::min(body.size(), kShown);
  while (end < body.size() && (body[end] & 0xc0) == 0x80) --end;  // between characters
  std::string text(trim(body.substr(0, end)));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return "\"" + text + (end < body.size() ? "…\"" : "\"");
}

}  // namespace forge
