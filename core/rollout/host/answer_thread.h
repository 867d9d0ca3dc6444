#pragma once
// Work that answers the engine while the program keeps listening: scores that a judge takes its time for.
//
//   AnswerThread answers;
//   answers.begin([](const AnswerPort& c) { return score(c.stopped); });
//   poll(answers.descriptor()); while (auto line = answers.next()) send(*line);
//
// One piece of work at a time, all in one thread, which lives as long as the object: processes that it starts die with it.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/io/json.h"

namespace forge {

// What work may do beside its answer.
struct AnswerPort {
  std::function<bool()> stopped;                 // nobody waits for the answer any more
  std::function<Json(const Json& question)> ask;  // says something to the engine first and waits for what it answers. Throws
                                                 // ScoringStopped when nobody waits any more
};

class AnswerThread {
 public:
  using Work = std::function<Json(const AnswerPort&)>;

  AnswerThread();
  ~AnswerThread();
  AnswerThread(const AnswerThread&) = delete;

  void begin(Work work);
  // The engine's answer to a question.
  void hear(Json reply);
  // What is to be sent now: a question or the answer. Throws what the work threw.
  std::optional<Json> next();
  // Readable when there is something.
  int descriptor() const { return descriptor_; }
  // Has the work stop, waits until it has, and forgets what it said.
  void cancel();

 private:
  void run();
  void say(Json line);
  Json ask(const Json& question);

  int descriptor_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Work> waiting_;
  std::deque<Json> said_;
  std::optional<Json> heard_;
  std::exception_ptr problem_;
  bool working_ = false, ends_ = false;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};

}  // namespace forge
