#include "core/run/host/draw_queue.h"

#include <algorithm>
#include <chrono>

#include "core/learn/reward/score.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/wait.h"

namespace forge {
namespace {

using namespace std::chrono_literals;

bool same_draw(const Json& a, const Json& b) {
  return std::ranges::all_of(std::initializer_list<const char*>{"rollout", "split", "adapter", "temperature", "stop_ids", "items"},
                             [&](const char* key) { return a.at(key) == b.at(key); });
}

}  // namespace

DrawQueue::~DrawQueue() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DrawQueue::add(Json event, Draw draw) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({.event = std::move(event), .draw = std::move(draw), .answer = {}, .problem = {}});
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void DrawQueue::run() {
  const auto stopped = [this] {
    const std::lock_guard lock(mutex_);
    return ends_;
  };
  std::unique_lock lock(mutex_);
  while (true) {
    const auto next = [this] { return std::ranges::find_if(entries_, [](const Entry& entry) { return !entry.done; }); };
    wait_until_true(changed_, lock, [&] { return ends_ || next() != entries_.end(); });
    if (ends_) return;
    // Only done entries are taken out, and they are before this one.
    Entry& entry = *next();
    const Draw draw = std::move(entry.draw);
    lock.unlock();
    const auto start = Clock::now();
    Json answer;
    std::exception_ptr problem;
    try {
      answer = draw(stopped);
      answer["seconds"] = seconds_since(start);
    } catch (...) {
      problem = std::current_exception();
    }
    lock.lock();
    Entry& drawn = *next();
    drawn.answer = std::move(answer);
    drawn.problem = problem;
    drawn.done = true;
    changed_.notify_all();
  }
}

std::optional<Json> DrawQueue::take(const Json& event, const std::function<bool()>& stopped) {
  std::unique_lock lock(mutex_);
  const auto same = [&](const Entry& entry) { return same_draw(entry.event, event); };
  if (std::ranges::none_of(entries_, same)) return std::nullopt;
  const auto found = [&] { return std::ranges::find_if(entries_, same); };
  while (!found()->done) {
    if (stopped()) throw ScoringStopped{};
    changed_.wait_for(lock, 50ms);
  }
  const auto place = found();
  const Entry entry = std::move(*place);
  entries_.erase(place);
  if (entry.problem) std::rethrow_exception(entry.problem);
  return entry.answer;
}

}  // namespace forge
