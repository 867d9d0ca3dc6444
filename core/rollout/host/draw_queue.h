#pragma once
// Draws that were begun before anybody waits for them, one after the other in a thread of their own.
//
//   DrawQueue queue;
//   queue.add(event, [&](const auto& stopped) { return draw(event, stopped); });
//   if (std::optional<Json> answer = queue.take(event, stopped)) …   // waits
//
// Only what was begun is in the background, never which weights draw what: a draw that is taken is one whose event asked for the same.
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/io/json.h"

namespace forge {

class DrawQueue {
 public:
  // → {"items": […]}. Throws what it likes; take() throws it on.
  using Draw = std::function<Json(const std::function<bool()>& stopped)>;

  DrawQueue() = default;
  // Has the draw at hand stop, and waits until it has.
  ~DrawQueue();
  DrawQueue(const DrawQueue&) = delete;

  void add(Json event, Draw draw);
  // The answer to the draw that was added with these items, adapter and rollout, with "seconds", the time that it took; nothing if none
  // was. Throws what the draw threw, and ScoringStopped once `stopped` says so.
  std::optional<Json> take(const Json& event, const std::function<bool()>& stopped);

 private:
  struct Entry {
    Json event;
    Draw draw;
    bool done = false;
    Json answer;
    std::exception_ptr problem;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;  // a deque: places stay where they are
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace forge
