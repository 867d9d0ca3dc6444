#include "core/learn/reward/child_pool.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "core/learn/reward/answer.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr int64_t kMostCrashes = 3;  // of one batch
constexpr int kMostTries = 2;        // of one item
constexpr auto kTurn = std::chrono::milliseconds(100);
constexpr auto kPatience = std::chrono::milliseconds(1000);  // to leave once there is nothing more to do

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(count, 1e8)));
}

std::string last_words(const ChildProcess& child) {
  const std::string text(trim(child.standard_error()));
  if (text.empty()) return "it wrote nothing to its standard error";
  constexpr size_t kShown = 2000;
  const size_t from = text.size() > kShown ? text.find('\n', text.size() - kShown) : std::string::npos;
  return "its standard error ends with:\n" + (from == std::string::npos ? text : text.substr(from + 1));
}

}  // namespace

// A process and its remaining items. Items are sent one at a time, unless the process says that it
// takes batches, so that a time-out or a crash has one culprit. After a failure they are sent one
// at a time in any case, which shows which item caused it.
class ChildPool::Worker {
 public:
  Worker(const ChildPoolSettings& settings, int64_t number) : settings_(settings), number_(number) {}

  std::deque<size_t> queue;     // items that were not sent
  std::vector<size_t> running;  // items that were sent and not answered
  bool end_due = false;         // the process has not heard of the batch's end

  ChildProcess* child() { return child_.get(); }
  bool ready() const { return ready_; }
  bool takes_batches() const { return batch_ && !careful; }
  bool careful = false;
  Clock::time_point deadline;

  std::string name() const {
    return settings_.name + (settings_.workers > 1 ? " (process " + std::to_string(number_) + ")" : "");
  }
  void start() {
    child_ = std::make_unique<ChildProcess>(settings_.child);
    ready_ = batch_ = false;
    child_->send(dump_json(settings_.greeting));
    deadline = Clock::now() + seconds(std::max(settings_.least_start, settings_.timeout));
  }
  void stop() { child_.reset(); }
  // Waits for the process to end until `until`, a time that all processes of a pool share.
  void leave(Clock::time_point until) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (child_) child_->end(std::max(left, std::chrono::milliseconds(0)));
    child_.reset();
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::environment, name() + ": " + what)
        .hint(child_ ? last_words(*child_) : "");
  }
  void greet(const std::string& line) {
    const Json greeting = parse(line);
    if (!greeting.contains("ready") || greeting["ready"] != 1)
      fail("its first line is " + shown(line) + ", expected {\"ready\":1}");
    batch_ = greeting.value("batch", Json(false)) == true;
    ready_ = true;
  }
  Json parse(const std::string& line) const {
    if (std::optional<Json> reply = try_json(line); reply && reply->is_object()) return std::move(*reply);
    const bool nan = line.find("NaN") != line.npos || line.find("Infinity") != line.npos;
    fail("it wrote " + shown(line) +
         (nan ? ", and JSON has no NaN and no infinity" + settings_.nan_hint : ", expected one line of JSON for each completion"));
  }
  static std::string shown(const std::string& line) {
    return in_quotes(valid_utf8(line) ? line : "bytes that are not UTF-8", 200);
  }

 private:
  const ChildPoolSettings& settings_;
  int64_t number_;
  std::unique_ptr<ChildProcess> child_;
  bool ready_ = false, batch_ = false;
};

// One call of ask().
class ChildPool::Batch {
 public:
  Batch(ChildPool& pool, const std::vector<ChildItem>& items, const Json& end, int64_t most_failures, const ReplyCheck& check,
        const std::function<bool()>& stopped)
      : pool_(pool),
        items_(items),
        end_(end),
        most_failures_(most_failures),
        check_(check),
        stopped_(stopped),
        replies_(items.size()),
        tries_(items.size()) {
    for (size_t i = 0; i < items.size(); ++i) {
      const bool unique = places_.emplace(items[i].line.at("id").get<int64_t>(), i).second;
      FORGE_CHECK(unique, "two completions have the id " << items[i].line.at("id"));
      pool_.workers_[i % pool_.workers_.size()]->queue.push_back(i);
    }
  }

  std::vector<ChildReply> run() {
    for (auto& worker : pool_.workers_) worker->careful = false;
    for (bool busy = true; busy;) {
      if (stopped_ && stopped_()) throw ScoringStopped{};
      busy = false;
      std::vector<ChildProcess*> children;
      for (auto& worker : pool_.workers_) {
        advance(*worker);
        if (worker->queue.empty() && worker->running.empty() && !worker->end_due) continue;
        busy = true;
        if (worker->child()) children.push_back(worker->child());
      }
      if (busy) wait_for_any(children, std::min<std::chrono::milliseconds>(kTurn, until_deadline()));
    }
    std::vector<ChildReply> replies;
    for (std::optional<ChildReply>& reply : replies_) replies.push_back(std::move(*reply));
    return replies;
  }

 private:
  std::chrono::milliseconds until_deadline() const {
    auto least = std::chrono::duration_cast<std::chrono::milliseconds>(kTurn);
    for (const auto& worker : pool_.workers_)
      if (worker->child() && !worker->running.empty())
        least = std::min(
            least, std::chrono::duration_cast<std::chrono::milliseconds>(worker->deadline - Clock::now()));
    return std::max(least, std::chrono::milliseconds(0));
  }

  void advance(Worker& worker) {
    const bool needed = !worker.queue.empty() || !worker.running.empty();
    if (worker.child() && !worker.child()->alive() && worker.running.empty())
      worker.stop();  // between two batches
    if (!worker.child() && needed) worker.start();
    if (!worker.child()) {
      worker.end_due = false;
      return;
    }
    worker.child()->exchange();
    read(worker);
    if (worker.child()->babbles()) worker.fail("it wrote a line of more than " + format_bytes(kLongestLine));
    if (!worker.child()->alive()) return crashed(worker);
    if ((!worker.ready() || !worker.running.empty()) && Clock::now() > worker.deadline) return late(worker);
    if (worker.ready()) send(worker);
  }

  void read(Worker& worker) {
    while (std::optional<std::string> line = worker.child()->next_line()) {
      if (trim(*line).empty()) continue;
      worker.ready() ? take(worker, *line) : worker.greet(*line);
    }
  }

  void send(Worker& worker) {
    if (worker.running.empty() && !worker.queue.empty()) {
      const size_t count = worker.takes_batches() ? worker.queue.size() : 1;
      for (size_t i = 0; i < count; ++i) {
        const size_t item = worker.queue.front();
        worker.queue.pop_front();
        worker.running.push_back(item);
        worker.child()->send(dump_json(items_[item].line));
      }
      worker.deadline = Clock::now() + seconds(pool_.settings_.timeout * static_cast<double>(count));
      worker.end_due = true;
    }
    // A process that gathers its batch waits for the end; one that failed gets each item as a batch
    // of its own.
    const bool last = worker.queue.empty() || worker.careful;
    if (worker.end_due && last && (worker.running.empty() || worker.takes_batches() || worker.careful)) {
      worker.child()->send(dump_json(end_));
      worker.end_due = false;
    }
    worker.child()->exchange();
  }

  void take(Worker& worker, const std::string& line) {
    Json reply = worker.parse(line);
    const auto number = reply.find("id");
    if (number == reply.end() || !number->is_number_integer())
      worker.fail("its reply has no whole number as id: " + Worker::shown(line));
    const auto place = places_.find(number->get<int64_t>());
    const auto found = place == places_.end()
                           ? worker.running.end()
                           : std::find(worker.running.begin(), worker.running.end(), place->second);
    if (found == worker.running.end()) {
      const bool again = place != places_.end() && replies_[place->second];
      worker.fail("it answered id " + dump_json(*number) +
                  (again ? " twice" : ", which it was not asked for"));
    }
    const size_t item = *found;
    worker.running.erase(found);
    if (const auto error = reply.find("error"); error != reply.end() && !error->is_null())
      return settle(worker, item, {nullptr, error->is_string() && *error != "" ? error->get<std::string>() : "error " + dump_json(*error)});
    if (const std::string fault = check_(reply); !fault.empty()) worker.fail(fault + ": " + Worker::shown(line));
    settle(worker, item, {std::move(reply), ""});
  }

  void settle(const Worker& worker, size_t item, ChildReply reply) {
    if (!reply.failure.empty() && ++failures_ > most_failures_) worker.fail(items_[item].place + ": " + reply.failure);
    replies_[item] = std::move(reply);
  }

  void late(Worker& worker) {
    if (!worker.ready())
      worker.fail("it did not say {\"ready\":1} in " +
                  format_seconds(std::max(pool_.settings_.least_start, pool_.settings_.timeout)));
    ++pool_.counts_.timeouts;
    retry(worker, "no answer within " + format_seconds(pool_.settings_.timeout));
  }

  void crashed(Worker& worker) {
    const std::string why = worker.child()->why_ended();
    if (!worker.ready()) worker.fail("it " + why + " before it said {\"ready\":1}");
    if (worker.running.empty()) return worker.stop();  // it had answered everything
    ++pool_.counts_.crashes;
    if (++crashes_ >= kMostCrashes) worker.fail("it " + why + "; that was the third time in one batch");
    retry(worker, "the process " + why);
  }

  // Puts the unanswered items at the front of the queue, to be sent one at a time.
  void retry(Worker& worker, const std::string& why) {
    const bool alone = worker.running.size() == 1;
    std::vector<size_t> again;
    for (const size_t item : worker.running) {
      tries_[item] += alone || tries_[item] == 0;
      if (tries_[item] >= kMostTries)
        settle(worker, item, {nullptr, why + ", twice"});
      else
        again.push_back(item);
    }
    worker.queue.insert(worker.queue.begin(), again.begin(), again.end());
    worker.running.clear();
    worker.careful = true;
    worker.end_due = false;
    worker.stop();
  }

  ChildPool& pool_;
  const std::vector<ChildItem>& items_;
  const Json& end_;
  const int64_t most_failures_;
  const ReplyCheck& check_;
  const std::function<bool()>& stopped_;
  std::vector<std::optional<ChildReply>> replies_;
  std::vector<int> tries_;
  std::map<int64_t, size_t> places_;
  int64_t failures_ = 0, crashes_ = 0;
};

ChildPool::ChildPool(ChildPoolSettings settings) : settings_(std::move(settings)) {
  // A command of one text is split at its blanks.
  std::vector<std::string>& command = settings_.child.command;
  if (command.size() == 1) {
    std::vector<std::string> words;
    for (const std::string& word : split(command[0], ' '))
      if (!word.empty()) words.push_back(word);
    command = std::move(words);
  }
  for (int64_t i = 0; i < settings_.workers; ++i) workers_.push_back(std::make_unique<Worker>(settings_, i + 1));
}

ChildPool::~ChildPool() {
  for (auto& worker : workers_)
    if (worker->child()) worker->child()->close_input();
  const Clock::time_point until = Clock::now() + kPatience;
  for (auto& worker : workers_) worker->leave(until);
}

std::vector<ChildReply> ChildPool::ask(const std::vector<ChildItem>& items, const Json& end, int64_t most_failures, const ReplyCheck& check,
                                       const std::function<bool()>& stopped) {
  for (auto& worker : workers_) worker->queue.clear(), worker->running.clear(), worker->end_due = false;
  return Batch(*this, items, end, most_failures, check, stopped).run();
}

}  // namespace forge
