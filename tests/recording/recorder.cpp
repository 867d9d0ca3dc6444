#include "tests/recording/recorder.h"

#include <algorithm>
#include <utility>

namespace forge::recording {
namespace {

// Returns a stream with work that the end of the origin does not wait for. Walks back from the end:
// a joined stream's wait joins what precedes the event's last record before it.
std::optional<Stream> unjoined(const Graph& graph) {
  std::set<Stream> joined{graph.origin};
  std::set<Event> awaited;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->recorded && awaited.erase(node->recorded)) joined.insert(node->stream);
    const bool is_joined = joined.count(node->stream) != 0;
    if (node->awaited && is_joined) awaited.insert(node->awaited);
    if (node->is_work() && !is_joined) return node->stream;
  }
  return std::nullopt;
}

}  // namespace

Graph* Recorder::graph_of(Stream stream) {
  for (Graph& graph : open_)
    if (graph.streams.count(stream)) return &graph;
  return nullptr;
}

std::optional<Broken> Recorder::begin(Stream origin) {
  if (!origin) return Broken{Rule::unsupported, "a capture of the null stream"};
  if (graph_of(origin)) return Broken{Rule::illegal_state, "a capture of a captured stream"};
  open_.push_back({++last_capture_, origin, {origin}, {}});
  return std::nullopt;
}

std::variant<Graph, Broken> Recorder::end(Stream origin) {
  Graph* open = graph_of(origin);
  if (!open) return Broken{Rule::illegal_state, "the end of a capture that never began"};
  if (open->origin != origin) return Broken{Rule::unmatched, "a capture ends on another stream"};
  Graph graph = std::move(*open);
  abandon(origin);
  if (const auto stream = unjoined(graph))
    return Broken{Rule::unjoined, "the capture ends before its first stream waits for stream " +
                                      std::to_string(reinterpret_cast<uintptr_t>(*stream))};
  return graph;
}

void Recorder::abandon(Stream origin) {
  std::erase_if(open_, [&](const Graph& graph) { return graph.origin == origin; });
}

void Recorder::record(Event event, Stream stream) {
  captures_.erase(event);
  if (Graph* graph = graph_of(stream)) {
    captures_[event] = graph->capture;
    graph->nodes.push_back({.stream = stream, .recorded = event});
  }
}

std::optional<Broken> Recorder::wait(Stream stream, Event event) {
  const Graph* waiting = graph_of(stream);
  if (!is_captured(event) && !waiting) return std::nullopt;
  if (!is_captured(event))
    return Broken{Rule::isolation, "a captured wait for an event recorded outside of the capture"};
  const auto graph = std::ranges::find(open_, captures_.at(event), &Graph::capture);
  if (graph == open_.end())
    return Broken{Rule::captured_event, "a wait for an event of a capture that is over"};
  if (waiting && waiting != &*graph)
    return Broken{Rule::merge, "a captured wait for an event of another capture"};
  graph->streams.insert(stream);
  graph->nodes.push_back({.stream = stream, .awaited = event});
  return std::nullopt;
}

}  // namespace forge::recording
