#include "core/lib/net/http_many.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "core/lib/base/text.h"

namespace forge {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kPauses[] = {500ms, 2000ms};  // before the second and the third time

// Calls work(0) … work(count − 1) in at most `concurrency` threads. Throws the first exception
// after all have ended.
void in_threads(size_t count, int64_t concurrency, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> problems(count);
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        problems[i] = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t t = 1; t < std::min(count, static_cast<size_t>(concurrency)); ++t) threads.emplace_back(run);
    run();
  }
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
}

}  // namespace

bool worth_another(const HttpAnswer& answer) {
  return !answer.failure.empty() || answer.status == 408 || answer.status == 429 || answer.status >= 500;
}

void http_requests(std::vector<HttpRequest> requests, int64_t concurrency, const std::function<bool()>& asked_to_stop,
                   const TakeAnswer& take) {
  const auto stopped = [&] { return asked_to_stop && asked_to_stop(); };
  std::vector<size_t> open;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].stopped = stopped;
    open.push_back(i);
  }
  for (int sends = 0; sends < kMostSends && !open.empty() && !stopped(); ++sends) {
    if (sends > 0)
      for (auto left = kPauses[sends - 1]; left > 0ms && !stopped(); left -= 50ms) std::this_thread::sleep_for(50ms);
    const bool last = sends + 1 == kMostSends;
    std::vector<char> again(open.size());  // not bool, whose neighbours share a byte
    in_threads(open.size(), concurrency, [&](size_t k) {
      if (stopped()) return;
      HttpAnswer answer = http_request(requests[open[k]]);
      again[k] = !last && worth_another(answer);
      if (!again[k]) take(open[k], std::move(answer));
    });
    std::vector<size_t> left;
    for (size_t k = 0; k < open.size(); ++k)
      if (again[k]) left.push_back(open[k]);
    open = std::move(left);
  }
}

std::string shown_body(const std::string& body) {
  constexpr size_t kShown = 200;  // bytes
  if (body.empty()) return "nothing";
  if (!valid_utf8(body)) return "\"bytes that are not UTF-8\"";
  size_t end = std::min(body.size(), kShown);
  while (end < body.size() && (body[end] & 0xc0) == 0x80) --end;  // between characters
  std::string text(trim(body.substr(0, end)));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return "\"" + text + (end < body.size() ? "…\"" : "\"");
}

}  // namespace forge
