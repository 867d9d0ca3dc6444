#include "core/run/host/answer_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/learn/reward/score.h"
#include "core/lib/base/error.h"
#include "core/lib/base/wait.h"

namespace forge {

AnswerThread::AnswerThread() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) throw Error(ErrorKind::environment, std::string("cannot make an eventfd: ") + std::strerror(errno));
}

AnswerThread::~AnswerThread() {
  cancel();
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  ::close(descriptor_);
}

void AnswerThread::begin(Work work) {
  // The thread starts here and not in the constructor: most engines ask for nothing.
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  const std::lock_guard lock(mutex_);
  FORGE_CHECK(!working_ && !waiting_, "the engine asked twice");
  waiting_ = std::move(work);
  stopped_ = false;
  changed_.notify_all();
}

void AnswerThread::run() {
  while (true) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      wait_until_true(changed_, lock, [&] { return ends_ || waiting_; });
      if (!waiting_) return;
      work = std::move(*std::exchange(waiting_, std::nullopt));
      working_ = true;
    }
    std::optional<Json> answer;
    std::exception_ptr problem;
    try {
      answer = work({[this] { return stopped_.load(); }, [this](const Json& question) { return ask(question); }});
    } catch (const ScoringStopped&) {
    } catch (...) {
      problem = std::current_exception();
    }
    // One lock covers all of this: the engine may ask again as soon as it has the answer.
    const std::lock_guard lock(mutex_);
    if (answer) said_.push_back(std::move(*answer));
    problem_ = problem;
    working_ = false;
    ::eventfd_write(descriptor_, 1);
    changed_.notify_all();
  }
}

Json AnswerThread::ask(const Json& question) {
  std::unique_lock lock(mutex_);
  said_.push_back(question);
  ::eventfd_write(descriptor_, 1);
  wait_until_true(changed_, lock, [&] { return heard_ || stopped_; });
  if (!heard_) throw ScoringStopped{};
  return *std::exchange(heard_, std::nullopt);
}

void AnswerThread::hear(Json reply) {
  const std::lock_guard lock(mutex_);
  heard_ = std::move(reply);
  changed_.notify_all();
}

std::optional<Json> AnswerThread::next() {
  const std::lock_guard lock(mutex_);
  eventfd_t ignored = 0;
  ::eventfd_read(descriptor_, &ignored);
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
  if (said_.empty()) return std::nullopt;
  Json line = std::move(said_.front());
  said_.pop_front();
  return line;
}

void AnswerThread::cancel() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  waiting_.reset();
  changed_.notify_all();
  wait_until_true(changed_, lock, [&] { return !working_; });
  said_.clear();
  heard_.reset();
  problem_ = nullptr;
}

}  // namespace forge
