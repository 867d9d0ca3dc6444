#pragma once
// Captures and graphs by CUDA's rules, for the runtimes that tests put in place of CUDA's own.
//
//   recorder.begin(stream);
//   if (Graph* graph = recorder.graph_of(stream)) graph->nodes.push_back({"copy", stream, run});
//   const auto ended = recorder.end(stream);  // the graph, or the rule that was broken
//
// The emulated engine's runtime (tests/emulator/engine/runtime.cpp) adds memory and clocks, the
// hollow GPU's (tests/hollow/work.cpp) cards and error codes. One thread may call at a time.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace forge::recording {

// Handles of the runtime; they are compared and never followed.
using Stream = const void*;
using Event = const void*;

// Work, or a step of order between streams: an event that is recorded or awaited, nothing to run.
struct Node {
  std::string name;  // of work
  Stream stream = nullptr;
  std::function<void()> run;  // may be null
  Event recorded = nullptr, awaited = nullptr;
  bool is_work() const { return !recorded && !awaited; }
};

// A replay visits the nodes in order; an awaited event is the one that was recorded last before.
struct Graph {
  uint64_t capture = 0;      // its number, from 1
  Stream origin = nullptr;   // the stream that the capture began on
  std::set<Stream> streams;  // all that take part
  std::vector<Node> nodes;
};

// Names and numbers are those of CUDA's errors: cudaErrorIllegalState, cudaErrorStreamCaptureMerge.
enum class Rule {
  illegal_state = 401, unsupported = 900, merge = 902, unmatched, unjoined, isolation,
  captured_event = 907
};
struct Broken {
  Rule rule;
  std::string what;  // happened; names a stream by the number that its handle is
};

class Recorder {
 public:
  std::optional<Broken> begin(Stream origin);
  // Ends the capture that began on the stream, which is over even if a stream is not joined.
  std::variant<Graph, Broken> end(Stream origin);
  void abandon(Stream origin);

  void record(Event event, Stream stream);
  // Lets the stream take part in the capture that the event was recorded in, if it was in one.
  std::optional<Broken> wait(Stream stream, Event event);
  // True if the event was last recorded in a capture, which may be over.
  bool is_captured(Event event) const { return captures_.count(event) != 0; }

  // Returns the graph that the stream's work belongs in; null if the work runs at once. Valid until
  // the next begin or end.
  Graph* graph_of(Stream stream);
  const std::vector<Graph>& open() const { return open_; }

 private:
  std::vector<Graph> open_;
  uint64_t last_capture_ = 0;
  std::map<Event, uint64_t> captures_;  // that events were last recorded in
};

}  // namespace forge::recording
