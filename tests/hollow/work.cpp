#include "tests/hollow/work.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/hollow/card.h"
#include "tests/hollow/report.h"

namespace forge::hollow {
namespace {

using Time = std::chrono::steady_clock::time_point;
// For each stream, the number of its captured works that precede a point.
using Clock = std::map<cudaStream_t, int64_t>;

struct Graph {
  std::vector<std::function<void()>> runs;
  std::map<std::string, int64_t> names;
  std::map<Work, int64_t> sizes;
};

struct Capture {
  unsigned long long id = 0;
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  // The streams that take part, and the work that precedes their next one.
  std::map<cudaStream_t, Clock> streams;
  Graph graph;
  cudaError_t invalid = cudaSuccess;
};

struct Event {
  unsigned long long capture = 0;  // that it was recorded in; 0: none
  Clock clock;
  Time time;
  int card = 0;
};
struct Stream {
  bool blocking = true;  // waits for the null stream's work
  int card = 0;
};

struct State {
  std::recursive_mutex mutex;
  unsigned long long captures = 0;
  uintptr_t handles = 0x1000;
  std::vector<std::unique_ptr<Capture>> open;
  std::map<cudaStream_t, Stream> streams;
  std::map<cudaEvent_t, Event> events;
  std::map<cudaGraph_t, Graph> graphs;
  std::map<cudaGraphExec_t, Graph> runnable;
};
// Returns the state, which is never destroyed: LibTorch's threads may outlive main.
State& state() {
  static auto* const instance = new State;
  return *instance;
}

thread_local int card = 0;
thread_local cudaError_t last = cudaSuccess;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

template <class Handle>
Handle new_handle() {
  return reinterpret_cast<Handle>(state().handles += 16);
}

Capture* capture_of(cudaStream_t stream) {
  for (const auto& capture : state().open)
    if (capture->streams.count(stream)) return capture.get();
  return nullptr;
}

void join(Clock& into, const Clock& other) {
  for (const auto& [stream, work] : other) into[stream] = std::max(into[stream], work);
}

bool blocking_capture() {
  for (const auto& capture : state().open)
    for (const auto& [stream, clock] : capture->streams)
      if (state().streams[stream].blocking) return true;
  return false;
}

const char* kNames[] = {"kernel ", "product ", "copy "};

}  // namespace

int current_card() { return card; }

cudaError_t fails(cudaError_t error) { return last = error; }
cudaError_t broken(cudaError_t error, const std::string& rule) {
  violation(rule);
  return fails(error);
}

bool is_captured(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  return capture_of(stream) != nullptr;
}

// Follows CUDA's manual at cudaThreadExchangeStreamCaptureMode.
bool forbidden_in_capture(const char* call) {
  const std::lock_guard lock(state().mutex);
  if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
  for (const auto& capture : state().open) {
    const bool own = capture->thread == std::this_thread::get_id() &&
                     capture->mode != cudaStreamCaptureModeRelaxed;
    const bool global =
        thread_mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (!own && !global) continue;
    capture->invalid = cudaErrorStreamCaptureInvalidated;
    broken(cudaErrorStreamCaptureUnsupported, std::string(call) + " during a capture");
    return true;
  }
  return false;
}

cudaError_t give(cudaStream_t stream, Work work, const std::string& name,
                 std::function<void()> run) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (stream == nullptr && blocking_capture())
    return broken(cudaErrorStreamCaptureImplicit,
                  name + " on the null stream, which a captured stream waits for");
  if (const auto known = s.streams.find(stream);
      known != s.streams.end() && known->second.card != card)
    broken(cudaErrorInvalidResourceHandle, name + " on a stream of card " +
                                               std::to_string(known->second.card) + " while card " +
                                               std::to_string(card) + " is current");
  count_on_card("work", card);
  if (Capture* capture = capture_of(stream)) {
    ++capture->streams[stream][stream];
    ++capture->graph.sizes[work];
    ++capture->graph.names[kNames[static_cast<int>(work)] + name];
    if (run) capture->graph.runs.push_back(std::move(run));
    return cudaSuccess;
  }
  count(kNames[static_cast<int>(work)] + name);
  if (stream == nullptr) count("on the null stream");
  if (run) run();
  return cudaSuccess;
}

}  // namespace forge::hollow

using namespace forge::hollow;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last; }

cudaError_t cudaGetDevice(int* device) {
  *device = card;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= machine().cards) return fails(cudaErrorInvalidDevice);
  card = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (forbidden_in_capture("cudaDeviceSynchronize")) return last;
  count("host waits for the card");
  return cudaSuccess;
}

// ---- Streams

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  const std::lock_guard lock(state().mutex);
  *stream = new_handle<cudaStream_t>();
  state().streams[*stream] = {!(flags & cudaStreamNonBlocking), card};
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  state().streams.erase(stream);
  return cudaSuccess;
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
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const Event& e = s.events[event];
  Capture* capture = capture_of(stream);
  if (e.capture == 0) {
    if (capture)
      return broken(cudaErrorStreamCaptureIsolation,
                    "a captured stream waits for an event from outside");
    return cudaSuccess;
  }
  for (const auto& open : s.open) {
    if (open->id != e.capture) continue;
    if (capture && capture != open.get())
      return broken(cudaErrorStreamCaptureMerge,
                    "a captured stream waits for an event of another capture");
    join(open->streams[stream], e.clock);  // it takes part from here on
    return cudaSuccess;
  }
  return broken(cudaErrorCapturedEvent, "a wait for an event of a capture that has ended");
}

// ---- Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const std::lock_guard lock(state().mutex);
  *event = new_handle<cudaEvent_t>();
  state().events[*event] = {0, {}, std::chrono::steady_clock::now(), card};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(state().mutex);
  state().events.erase(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.events.find(event);
  if (found == s.events.end())
    return broken(cudaErrorInvalidResourceHandle, "a record of an event that is not");
  Event& e = found->second;
  const Capture* capture = capture_of(stream);
  e.capture = capture ? capture->id : 0;
  e.clock = capture ? capture->streams.at(stream) : Clock();
  e.time = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  {
    const std::lock_guard lock(state().mutex);
    if (state().events[event].capture != 0)
      return broken(cudaErrorCapturedEvent, "a query of a captured event");
  }
  return forbidden_in_capture("cudaEventQuery") ? last : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  {
    const std::lock_guard lock(state().mutex);
    if (state().events[event].capture != 0)
      return broken(cudaErrorCapturedEvent, "the host waits for a captured event");
  }
  if (forbidden_in_capture("cudaEventSynchronize")) return last;
  count("host waits for an event");
  return cudaSuccess;
}
// Returns the host's time between the records.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(state().mutex);
  const auto time = state().events[end].time - state().events[begin].time;
  *milliseconds = std::chrono::duration<float, std::milli>(time).count();
  return cudaSuccess;
}

// ---- Captures and graphs

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  const std::lock_guard lock(state().mutex);
  const Capture* capture = capture_of(stream);
  *status = capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (id) *id = capture ? capture->id : 0;
  if (graph) *graph = nullptr;
  if (nodes) *nodes = nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (stream == nullptr)
    return broken(cudaErrorStreamCaptureUnsupported, "a capture of the null stream");
  if (capture_of(stream))
    return broken(cudaErrorIllegalState, "a capture of a stream that is captured");
  auto capture = std::make_unique<Capture>();
  capture->id = ++s.captures, capture->origin = stream, capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams[stream] = {};
  s.open.push_back(std::move(capture));
  count("captures");
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *graph = nullptr;
  Capture* capture = capture_of(stream);
  if (!capture) return broken(cudaErrorIllegalState, "the end of a capture that never began");
  if (capture->origin != stream)
    return broken(cudaErrorStreamCaptureUnmatched, "a capture is ended on another stream");
  Clock origin = capture->streams.at(stream);
  bool joined = true;
  for (const auto& [other, clock] : capture->streams)
    if (const auto own = clock.find(other); own != clock.end())
      joined = joined && origin[other] >= own->second;
  const cudaError_t invalid = capture->invalid;
  if (invalid == cudaSuccess && joined) {
    *graph = new_handle<cudaGraph_t>();
    captured(capture->graph.sizes[Work::kernel], capture->graph.sizes[Work::product],
             capture->graph.sizes[Work::copy]);
    s.graphs[*graph] = std::move(capture->graph);
  }
  std::erase_if(s.open, [&](const auto& open) { return open.get() == capture; });
  if (invalid != cudaSuccess) return fails(invalid);
  if (!joined)
    return broken(cudaErrorStreamCaptureUnjoined, "a captured stream's work is joined by none");
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* runnable, cudaGraph_t graph, unsigned long long) {
  const std::lock_guard lock(state().mutex);
  *runnable = new_handle<cudaGraphExec_t>();
  state().runnable[*runnable] = state().graphs.at(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* runnable, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(runnable, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t stream) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (capture_of(stream)) return broken(cudaErrorStreamCaptureUnsupported, "a graph in a capture");
  const auto found = s.runnable.find(runnable);
  if (found == s.runnable.end())
    return broken(cudaErrorInvalidResourceHandle, "a replay of a graph that is not");
  count("replays");
  for (const auto& [name, times] : found->second.names) count("replayed " + name, times);
  for (const auto& run : found->second.runs) run();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(state().mutex);
  state().graphs.erase(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable) {
  const std::lock_guard lock(state().mutex);
  state().runnable.erase(runnable);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  const std::lock_guard lock(state().mutex);
  *count = 0;
  for (const auto& [work, size] : state().graphs[graph].sizes) *count += static_cast<size_t>(size);
  return cudaSuccess;
}

}  // extern "C"
