#pragma once
// A pool of the user's processes that answer lines of JSON: those that score completions, and tools
// that a model calls. docs/rewards.md has the protocol.
//
//   ChildPool pool({.name = "reward tests", .child = {.command = {"python3", "tests.py"}}, .greeting = {{"forge", 1}}});
//   std::vector<ChildReply> replies = pool.ask(items, {{"end", 12}}, most_failures, check);   // in the order of items
//
// Item k goes to process k modulo `workers`, even if another is free: the items of a process do not
// depend on timing. A process that hangs or ends is started again and its item tried once more;
// then the item has failed.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/learn/reward/child_process.h"
#include "core/learn/reward/score.h"
#include "core/lib/io/json.h"

namespace forge {

struct ChildPoolSettings {
  std::string name;  // in messages: "reward tests"
  ChildSettings child;
  int64_t workers = 1;
  double timeout = 60;      // seconds an item
  double least_start = 60;  // seconds to the greeting at least: a process may load a model first
  Json greeting;            // the first line; the process answers {"ready": 1}
  std::string nan_hint{};   // follows the message that JSON has no NaN
};

struct ChildItem {
  Json line;          // with a whole number as "id", unique in its batch
  std::string place;  // of its row, for messages
};

// The reply of a process, or why there is none.
struct ChildReply {
  Json reply;
  std::string failure;
};

// Returns what is wrong with a reply that does not itself report a failure; empty if nothing is.
// Wrong replies stop the run whatever on_error says, since no later reply could be trusted. Also
// drops unused members of a reply, since the replies of a whole batch are held.
using ReplyCheck = std::function<std::string(Json& reply)>;

struct PoolCounts {
  int64_t timeouts = 0, crashes = 0;
};

class ChildPool {
 public:
  explicit ChildPool(ChildPoolSettings settings);
  ~ChildPool();

  // Returns the replies, in the order of the items. Processes are started when first needed, and
  // stay. Throws Error(environment) with the process's last output when it does not start, breaks
  // the protocol or ends three times, and once more than `most_failures` items have failed. Throws
  // ScoringStopped within a tenth of a second after `stopped` returns true; processes that were
  // asked are then ended with the pool.
  std::vector<ChildReply> ask(const std::vector<ChildItem>& items, const Json& end, int64_t most_failures, const ReplyCheck& check,
                              const std::function<bool()>& stopped = {});
  const PoolCounts& counts() const { return counts_; }

 private:
  class Worker;
  class Batch;
  ChildPoolSettings settings_;
  std::vector<std::unique_ptr<Worker>> workers_;
  PoolCounts counts_;
};

}  // namespace forge
