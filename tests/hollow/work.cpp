#include "tests/hollow/work.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "tests/hollow/card.h"
#include "tests/hollow/report.h"
#include "tests/recording/recorder.h"

namespace forge::hollow {
namespace {

using recording::Broken;
using recording::Graph;
using recording::Node;
using recording::Rule;

struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalid = false;  // since a call was made that it forbids
  std::map<Work, int64_t> sizes;
};
struct Stream {
  bool blocking = true;  // waits for the null stream's work
  int card = 0;
};

struct State {
  std::recursive_mutex mutex;
  recording::Recorder recorder;
  std::map<recording::Stream, Capture> captures;  // the last that began on a stream
  uintptr_t handles = 0x1000;
  std::map<recording::Stream, Stream> streams;
  std::map<recording::Event, std::chrono::steady_clock::time_point> events;  // last records
  std::map<const void*, Graph> graphs;  // recorded and runnable ones
};
// Returns the state, which is never destroyed: LibTorch's threads may outlive main.
State& state() {
  static auto* const instance = new State;
  return *instance;
}
// The state, for this thread alone.
struct Locked {
  std::lock_guard<std::recursive_mutex> lock{state().mutex};
  State* operator->() const { return &state(); }
};

thread_local int card = 0;
thread_local cudaError_t last = cudaSuccess;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

template <class Handle>
Handle new_handle() {
  return reinterpret_cast<Handle>(Locked()->handles += 16);
}

// Returns success, once the argument is done.
template <class Done>
cudaError_t succeeds(Done&&) {
  return cudaSuccess;
}

bool blocking_capture() {
  for (const Graph& graph : state().recorder.open())
    for (const recording::Stream stream : graph.streams)
      if (state().streams[stream].blocking) return true;
  return false;
}

// Returns the error of a broken rule, with a report; success if none is broken.
cudaError_t error_of(const std::optional<Broken>& rule) {
  static_assert(static_cast<int>(Rule::unjoined) == cudaErrorStreamCaptureUnjoined);
  return rule ? broken(static_cast<cudaError_t>(rule->rule), rule->what) : cudaSuccess;
}

// Returns the error of a call by which the host asks for an event.
cudaError_t ask_for(cudaEvent_t event, const char* call) {
  if (Locked()->recorder.is_captured(event))
    return broken(cudaErrorCapturedEvent, std::string(call) + " of a captured event");
  return forbidden_in_capture(call) ? last : cudaSuccess;
}

const char* kNames[] = {"kernel ", "product ", "copy "};

}  // namespace

int current_card() { return card; }

cudaError_t fails(cudaError_t error) { return last = error; }
cudaError_t broken(cudaError_t error, const std::string& rule) {
  violation(rule);
  return fails(error);
}

bool is_captured(cudaStream_t stream) { return Locked()->recorder.graph_of(stream) != nullptr; }

// Follows CUDA's manual at cudaThreadExchangeStreamCaptureMode.
bool forbidden_in_capture(const char* call) {
  const Locked s;
  if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
  for (const Graph& graph : s->recorder.open()) {
    Capture& capture = s->captures[graph.origin];
    const bool own = capture.thread == std::this_thread::get_id() &&
                     capture.mode != cudaStreamCaptureModeRelaxed;
    const bool global =
        thread_mode == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal;
    if (!own && !global) continue;
    capture.invalid = true;
    broken(cudaErrorStreamCaptureUnsupported, std::string(call) + " during a capture");
    return true;
  }
  return false;
}

cudaError_t give(cudaStream_t stream, Work work, const std::string& name,
                 std::function<void()> run) {
  const Locked s;
  if (stream == nullptr && blocking_capture())
    return broken(cudaErrorStreamCaptureImplicit,
                  name + " on the null stream, which a captured stream waits for");
  if (const auto known = s->streams.find(stream);
      known != s->streams.end() && known->second.card != card)
    broken(cudaErrorInvalidResourceHandle, name + " on a stream of card " +
                                               std::to_string(known->second.card) + " while card " +
                                               std::to_string(card) + " is current");
  count_on_card("work", card);
  const std::string full_name = kNames[static_cast<int>(work)] + name;
  if (Graph* graph = s->recorder.graph_of(stream)) {
    graph->nodes.push_back({full_name, stream, std::move(run)});
    ++s->captures[graph->origin].sizes[work];
    return cudaSuccess;
  }
  count(full_name);
  if (stream == nullptr) count("on the null stream");
  if (run) run();
  return cudaSuccess;
}

}  // namespace forge::hollow

using namespace forge::hollow;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last; }

cudaError_t cudaGetDevice(int* device) { return succeeds(*device = card); }
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= machine().cards) return fails(cudaErrorInvalidDevice);
  return succeeds(card = device);
}
cudaError_t cudaDeviceSynchronize() {
  if (forbidden_in_capture("cudaDeviceSynchronize")) return last;
  count("host waits for the card");
  return cudaSuccess;
}

// ---- Streams

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  const Locked s;
  *stream = new_handle<cudaStream_t>();
  return succeeds(s->streams[*stream] = {!(flags & cudaStreamNonBlocking), card});
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return succeeds(Locked()->streams.erase(stream));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (is_captured(stream))
    return broken(cudaErrorStreamCaptureUnsupported, "cudaStreamQuery of a captured stream");
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (is_captured(stream))
    return broken(cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize of a captured stream");
  if (forbidden_in_capture("cudaStreamSynchronize")) return last;
  count("host waits for a stream");
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return error_of(Locked()->recorder.wait(stream, event));
}

// ---- Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new_handle<cudaEvent_t>();
  return succeeds(Locked()->events[*event] = std::chrono::steady_clock::now());
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return succeeds(Locked()->events.erase(event)); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Locked s;
  const auto found = s->events.find(event);
  if (found == s->events.end())
    return broken(cudaErrorInvalidResourceHandle, "a record of an event that is not");
  s->recorder.record(event, stream);
  return succeeds(found->second = std::chrono::steady_clock::now());
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return ask_for(event, "cudaEventQuery"); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = ask_for(event, "cudaEventSynchronize")) return error;
  count("host waits for an event");
  return cudaSuccess;
}
// Returns the host's time between the records.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Locked s;
  const auto time = s->events[end] - s->events[begin];
  return succeeds(*milliseconds = std::chrono::duration<float, std::milli>(time).count());
}

// ---- Captures and graphs

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return succeeds(*mode = std::exchange(thread_mode, *mode));
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  const Locked s;
  const Graph* captured = s->recorder.graph_of(stream);
  if (id) *id = captured ? captured->capture : 0;
  const auto clear = [](auto* out) { if (out) *out = {}; };
  clear(graph), clear(nodes), clear(edges), clear(count);
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Locked s;
  if (const cudaError_t error = error_of(s->recorder.begin(stream))) return error;
  s->captures[stream] = {mode, std::this_thread::get_id()};
  count("captures");
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Locked s;
  *graph = nullptr;
  auto ended = s->recorder.end(stream);
  const auto* rule = std::get_if<Broken>(&ended);
  Capture& capture = s->captures[stream];
  if (capture.invalid && (!rule || rule->rule == Rule::unjoined))
    return fails(cudaErrorStreamCaptureInvalidated);
  if (rule) return error_of(*rule);
  captured(capture.sizes[Work::kernel], capture.sizes[Work::product], capture.sizes[Work::copy]);
  *graph = new_handle<cudaGraph_t>();
  return succeeds(s->graphs[*graph] = std::get<Graph>(std::move(ended)));
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long) {
  const Locked s;
  *runnable = new_handle<cudaGraphExec_t>();
  return succeeds(s->graphs[*runnable] = s->graphs.at(graph));
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* runnable, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(runnable, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t stream) {
  const Locked s;
  if (is_captured(stream)) return broken(cudaErrorStreamCaptureUnsupported, "a graph in a capture");
  const auto found = s->graphs.find(runnable);
  if (found == s->graphs.end())
    return broken(cudaErrorInvalidResourceHandle, "a replay of a graph that is not");
  count("replays");
  for (const Node& node : found->second.nodes) {
    if (node.is_work()) count("replayed " + node.name);
    if (node.run) node.run();
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return succeeds(Locked()->graphs.erase(graph)); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable) {
  return succeeds(Locked()->graphs.erase(runnable));
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  const Locked s;
  return succeeds(*count = std::ranges::count_if(s->graphs[graph].nodes, &Node::is_work));
}

}  // extern "C"
