#pragma once
// Work that answers the engine while the program keeps listening, such as scores that a judge takes
// time for.
//
//   AnswerThread answers;
//   answers.begin([](const AnswerPort& c) { return score(c.stopped); });
//   poll(answers.descriptor()); while (auto line = answers.next()) send(*line);
//
// One piece of work runs at a time, all in one thread, which lives as long as the object: processes
// that the work starts die with the thread.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/lib/io/json.h"

namespace forge {

// Calls that the work may make before it has its answer.
struct AnswerPort {
  std::function<bool()> stopped;                 // true if nobody waits for the answer any more
  // Sends a question to the engine and waits for its reply. Throws ScoringStopped if nobody waits
  // for the answer any more.
  std::function<Json(const Json& question)> ask;
};

class AnswerThread {
 public:
  using Work = std::function<Json(const AnswerPort&)>;

  AnswerThread();
  ~AnswerThread();
  AnswerThread(const AnswerThread&) = delete;

  void begin(Work work);
  // Passes the engine's reply to the work that asked.
  void hear(Json reply);
  // Returns the next line to send, a question or the answer, or nothing. Throws what the work
  // threw.
  std::optional<Json> next();
  // Readable when next() has something to return or to throw.
  int descriptor() const { return descriptor_; }
  // Makes the work stop, waits until it has, and forgets what it said.
  void cancel();

 private:
  void run();
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
