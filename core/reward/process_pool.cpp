#include "core/reward/process_pool.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>

#include "core/base/text.h"
#include "core/reward/answer.h"
#include "core/reward/child_process.h"
#include "core/reward/reward_item.h"
#include "core/text/tokenizer/unicode.h"

namespace forge {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLeastStartSeconds = 60;  // a process may load a model first
constexpr int64_t kMostCrashes = 3;        // of one batch
constexpr int kMostTries = 2;              // of one item
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

// One process and what it still has to do. Items go one at a time, unless the process says that it takes batches; after
// a failure one at a time in any case, which finds out whose fault it is.
class ProcessPool::Worker {
 public:
  Worker(const RewardConfig& reward, const CommandContext& context, int64_t number)
      : reward_(reward), context_(context), number_(number) {}

  std::deque<size_t> queue;     // items that were not sent
  std::vector<size_t> running;  // items that were sent and not answered
  bool end_due = false;         // the process has not heard of the batch's end

  ChildProcess* child() { return child_.get(); }
  bool ready() const { return ready_; }
  bool takes_batches() const { return batch_ && !careful; }
  bool careful = false;
  Clock::time_point deadline;

  std::string name() const {
    return reward_.name + (reward_.workers > 1 ? " (process " + std::to_string(number_) + ")" : "");
  }
  void start() {
    child_ = std::make_unique<ChildProcess>(ChildSettings{reward_.command, reward_.directory.value_or(""),
                                                          reward_.environment, reward_.memory_limit});
    ready_ = batch_ = false;
    child_->send(
        dump_json({{"forge", 1}, {"reward", reward_.name}, {"job", context_.job}, {"seed", context_.seed}}));
    deadline = Clock::now() + seconds(std::max(kLeastStartSeconds, reward_.timeout));
  }
  void stop() { child_.reset(); }
  void leave() {
    if (child_) child_->end(kPatience);
    child_.reset();
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::environment, "reward " + name() + ": " + what)
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
    try {
      Json reply = parse_json(line, "reply", ErrorKind::environment, {.wide_integers = true});
      if (reply.is_object()) return reply;
    } catch (const Error&) {
    }
    const bool nan = line.find("NaN") != line.npos || line.find("Infinity") != line.npos;
    fail("it wrote " + shown(line) +
         (nan ? ", and JSON has no NaN and no infinity: \"score\": null says that there is no score"
              : ", expected one line of JSON for each completion"));
  }
  static std::string shown(const std::string& line) {
    return "\"" + shortened(valid_utf8(line) ? line : "bytes that are no UTF-8", 200) + "\"";
  }

 private:
  const RewardConfig& reward_;
  const CommandContext& context_;
  int64_t number_;
  std::unique_ptr<ChildProcess> child_;
  bool ready_ = false, batch_ = false;
};

// One call of score().
class ProcessPool::Batch {
 public:
  Batch(ProcessPool& pool, const std::vector<RewardSample>& samples, int64_t step, int64_t most_failures,
        const std::function<bool()>& stopped)
      : pool_(pool),
        samples_(samples),
        step_(step),
        most_failures_(most_failures),
        stopped_(stopped),
        scores_(samples.size()),
        tries_(samples.size()) {
    for (size_t i = 0; i < samples.size(); ++i) {
      const bool unique = places_.emplace(samples[i].id, i).second;
      FORGE_CHECK(unique, "two completions have the id " << samples[i].id);
      pool_.workers_[i % pool_.workers_.size()]->queue.push_back(i);
    }
  }

  std::vector<Score> run() {
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
    std::vector<Score> scores;
    for (std::optional<Score>& score : scores_) scores.push_back(std::move(*score));
    return scores;
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
        worker.child()->send(dump_json(reward_item(samples_[item], step_)));
      }
      worker.deadline = Clock::now() + seconds(pool_.reward_.timeout * static_cast<double>(count));
      worker.end_due = true;
    }
    // A process that gathers its batch waits for the end; one that failed gets each item as a batch of its own.
    const bool last = worker.queue.empty() || worker.careful;
    if (worker.end_due && last && (worker.running.empty() || worker.takes_batches() || worker.careful)) {
      worker.child()->send(dump_json({{"end", step_}}));
      worker.end_due = false;
    }
    worker.child()->exchange();
  }

  void take(Worker& worker, const std::string& line) {
    const Json reply = worker.parse(line);
    const auto number = reply.find("id");
    if (number == reply.end() || !number->is_number_integer())
      worker.fail("its reply has no whole number as id: " + Worker::shown(line));
    const auto place = places_.find(number->get<int64_t>());
    const auto found = place == places_.end()
                           ? worker.running.end()
                           : std::find(worker.running.begin(), worker.running.end(), place->second);
    if (found == worker.running.end()) {
      const bool again = place != places_.end() && scores_[place->second];
      worker.fail("it answered id " + dump_json(*number) +
                  (again ? " twice" : ", which it was not asked for"));
    }
    const size_t item = *found;
    worker.running.erase(found);
    settle(worker, item, score_of(worker, reply, line));
  }

  Score score_of(const Worker& worker, const Json& reply, const std::string& line) const {
    const std::string info =
        reply.contains("info") && reply["info"].is_string() ? reply["info"].get<std::string>() : "";
    if (const auto error = reply.find("error"); error != reply.end() && !error->is_null())
      return Score::failed(error->is_string() ? error->get<std::string>() : dump_json(*error),
                           ErrorKind::environment);
    const auto value = reply.find("score");
    if (value == reply.end()) worker.fail("its reply has neither score nor error: " + Worker::shown(line));
    if (value->is_null()) return Score::declined(info.empty() ? "it gave no score" : info);
    if (!value->is_number() || !std::isfinite(value->get<double>()))
      worker.fail("its score is no finite number: " + Worker::shown(line));
    Score score = Score::of(value->get<double>(), info);
    if (const auto parts = reply.find("parts"); parts != reply.end() && !parts->is_null()) {
      const bool numbers =
          parts->is_object() && std::all_of(parts->begin(), parts->end(), [](const Json& part) {
            return part.is_number() && std::isfinite(part.get<double>());
          });
      if (!numbers) worker.fail("its parts are no numbers by name: " + Worker::shown(line));
      score.parts = *parts;
    }
    return score;
  }

  void settle(const Worker& worker, size_t item, Score score) {
    if (score.failure && ++failures_ > most_failures_)
      worker.fail(samples_[item].place + ": " + score.reason);
    scores_[item] = std::move(score);
  }

  void late(Worker& worker) {
    const std::string limit = format_seconds(pool_.reward_.timeout);
    if (!worker.ready())
      worker.fail("it did not say {\"ready\":1} in " +
                  format_seconds(std::max(kLeastStartSeconds, pool_.reward_.timeout)));
    ++pool_.counts_.timeouts;
    retry(worker, "no answer within " + limit);
  }

  void crashed(Worker& worker) {
    const std::string why = worker.child()->why_ended();
    if (!worker.ready()) worker.fail("it " + why + " before it said {\"ready\":1}");
    if (worker.running.empty()) {  // it had answered everything
      worker.stop();
      return;
    }
    ++pool_.counts_.crashes;
    if (++crashes_ >= kMostCrashes) worker.fail("it " + why + "; that was the third time in one batch");
    retry(worker, "the process " + why);
  }

  // Those that were not answered go first, one by one.
  void retry(Worker& worker, const std::string& why) {
    const bool alone = worker.running.size() == 1;
    std::vector<size_t> again;
    for (const size_t item : worker.running) {
      tries_[item] += alone || tries_[item] == 0;
      if (tries_[item] >= kMostTries)
        settle(worker, item, Score::failed(why + ", twice", ErrorKind::environment));
      else
        again.push_back(item);
    }
    worker.queue.insert(worker.queue.begin(), again.begin(), again.end());
    worker.running.clear();
    worker.careful = true;
    worker.end_due = false;
    worker.stop();
  }

  ProcessPool& pool_;
  const std::vector<RewardSample>& samples_;
  const int64_t step_, most_failures_;
  const std::function<bool()>& stopped_;
  std::vector<std::optional<Score>> scores_;
  std::vector<int> tries_;
  std::map<int64_t, size_t> places_;
  int64_t failures_ = 0, crashes_ = 0;
};

ProcessPool::ProcessPool(RewardConfig reward, CommandContext context)
    : reward_(std::move(reward)), context_(std::move(context)) {
  // One text is a command line of plain words.
  if (reward_.command.size() == 1) {
    std::vector<std::string> words;
    for (const std::string& word : split(reward_.command[0], ' '))
      if (!word.empty()) words.push_back(word);
    reward_.command = std::move(words);
  }
  for (int64_t i = 0; i < reward_.workers; ++i)
    workers_.push_back(std::make_unique<Worker>(reward_, context_, i + 1));
}

ProcessPool::~ProcessPool() {
  for (auto& worker : workers_) worker->leave();
}

std::vector<Score> ProcessPool::score(const std::vector<RewardSample>& samples, int64_t step,
                                      int64_t most_failures, const std::function<bool()>& stopped) {
  for (auto& worker : workers_) worker->queue.clear(), worker->running.clear(), worker->end_due = false;
  return Batch(*this, samples, step, most_failures, stopped).run();
}

}  // namespace forge
