#pragma once
// A queue of draws that begin before anybody waits for them, one after the other in a thread of
// their own.
//
//   DrawQueue queue;
//   queue.add(event, [&](const auto& stopped) { return draw(event, stopped); });
//   if (std::optional<Json> answer = queue.take(event, stopped)) …   // waits
//
// The queue moves draws into the background and never changes which weights draw: take() returns
// only a draw whose event asked for the same.
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/lib/io/json.h"

namespace forge {

class DrawQueue {
 public:
  // Returns {"items": […]}. May throw anything; take() throws it on.
  using Draw = std::function<Json(const std::function<bool()>& stopped)>;

  DrawQueue() = default;
  // Makes the current draw stop, and waits until it has.
  ~DrawQueue();
  DrawQueue(const DrawQueue&) = delete;

  void add(Json event, Draw draw);
  // Returns the answer to the draw that was added with these items, adapter and rollout, with
  // "seconds", the time that it took. Returns nothing if there was no such draw. Throws what the
  // draw threw, and ScoringStopped once `stopped` returns true.
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
  std::deque<Entry> entries_;  // a deque: its elements keep their addresses
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace forge
