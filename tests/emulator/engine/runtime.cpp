// CUDA's runtime over the emulator. Work runs when it is queued, in one of many legal orders.
// Vector clocks decide whether another order would be legal, too: of two accesses to the same two
// bytes, one of them a write, that no wait orders, the second is a fault.
#include "kernels/device/runtime.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "tests/emulator/engine/recording.h"
#include "tests/emulator/engine/tensors.h"
#include "tests/emulator/grid.h"
#include "tests/emulator/memory.h"
#include "tests/recording/recorder.h"

namespace forge::runtime {
namespace {

using emulator::Allocation;
using emulator::Fault;
using recording::Graph;

constexpr size_t kStreamsAtMost = 3;
// The host, the streams, and their parts in a graph that is replayed.
constexpr size_t kQueues = 1 + 2 * kStreamsAtMost;
constexpr size_t kHost = 0, kCompute = 1;
constexpr size_t kGranule = 2;  // bytes: the smallest element
using Clock = std::array<uint32_t, kQueues>;

void join(Clock& into, const Clock& other) {
  for (size_t i = 0; i < kQueues; ++i) into[i] = std::max(into[i], other[i]);
}

// An event's last record outside of captures.
struct EventState {
  Clock at{};
  bool timed = false;
  std::chrono::steady_clock::time_point time;  // work runs when it is queued
};

// The last write of two bytes, and the last read by each queue.
struct Word {
  uint32_t time = 0, work = 0;
  uint8_t queue = kHost;
  Clock reads{};
};

struct State {
  recording::Recorder recorder;
  std::array<Clock, kQueues> seen{};  // the work that precedes the next one of each queue
  size_t streams = 0;
  std::unordered_map<const Allocation*, std::vector<Word>> words;
  std::vector<std::string> works{"nothing"};
  std::vector<size_t> timed;    // works so far at each record of a timed event
  std::optional<Word> running;  // the work that runs now, as the words that it writes
  std::string late;  // a fault of a release, thrown by a later call since destructors may not throw
  size_t deaf_stream = 0;
  bool refuses_captures = false;
};
State& state() {
  static State instance;
  return instance;
}

// Returns the stream's queue, which is the number that its handle is.
size_t queue_of(recording::Stream stream) {
  const auto queue = reinterpret_cast<size_t>(stream);
  if (queue == 0 || queue > state().streams)
    throw Fault("on the default stream, or on one that nobody made");
  return queue;
}

// Returns a queue whose last read is not in what was seen; kQueues if there is none.
size_t reader_not_in(const Clock& seen, const Word& word) {
  size_t queue = 0;
  while (queue < kQueues && word.reads[queue] <= seen[queue]) ++queue;
  return queue;
}

void access(Allocation& allocation, size_t offset, size_t bytes, bool writes) {
  State& s = state();
  if (!s.running) return;
  const Word& running = *s.running;
  const Clock& seen = s.seen[running.queue];
  std::vector<Word>& words = s.words[&allocation];
  if (words.empty()) words.resize((allocation.bytes + kGranule) / kGranule + 1);
  for (size_t i = offset / kGranule; i <= (offset + bytes - 1) / kGranule; ++i) {
    Word& w = words[i];
    if (w.time > seen[w.queue])
      throw Fault((writes ? "over what " : "what ") + s.works[w.work] +
                  " writes, and no wait orders them");
    if (!writes) {
      w.reads[running.queue] = running.time;
      continue;
    }
    if (const size_t reader = reader_not_in(seen, w); reader != kQueues)
      throw Fault("over what work of stream " + std::to_string(reader) +
                  " reads, and no wait orders them");
    w = running;
  }
}

void forget(const Allocation* allocation) { state().words.erase(allocation); }

// Runs `action` as work of a queue.
void run_as(size_t queue, const std::string& what, const std::function<void()>& action) {
  State& s = state();
  s.works.push_back(what);
  s.running = Word{++s.seen[queue][queue], static_cast<uint32_t>(s.works.size() - 1),
                   static_cast<uint8_t>(queue)};
  try {
    action();
  } catch (const std::exception& error) {
    s.running.reset();
    throw Fault(what + ": " + error.what());
  }
  s.running.reset();
}

void throw_late() {
  if (!state().late.empty()) throw Fault(std::exchange(state().late, ""));
}

void queue_work(const char* what, CudaStream stream, std::function<void()> work) {
  throw_late();
  State& s = state();
  const size_t queue = queue_of(stream);
  if (Graph* graph = s.recorder.graph_of(stream)) {
    graph->nodes.push_back({what, stream, std::move(work)});
    return;
  }
  // Replays would not contain this work.
  if (!s.recorder.open().empty())
    throw Fault(std::string(what) + " on a stream that takes no part in what is captured");
  join(s.seen[queue], s.seen[kHost]);  // the host's clock when it queued
  run_as(queue, what, work);
}

void not_captured(const char* what) {
  throw_late();
  if (!state().recorder.open().empty()) throw Fault(std::string(what) + " while work is captured");
}

EventState& event_of(EventHandle event) { return *static_cast<EventState*>(event); }

// Returns an event that the host asks for.
const EventState& asked(EventHandle event) {
  if (state().recorder.is_captured(event))
    throw Fault("the host asks for an event that was recorded in a capture");
  return event_of(event);
}

// Lets the host wait; noted unless it knows the work to be done.
void host_waits(const Clock& until) {
  Clock& known = state().seen[kHost];
  const Clock before = known;
  join(known, until);
  if (known != before) state().works.push_back("the host waits");
}

void copy(const char* what, void* to, const void* from, int64_t bytes, CudaStream stream) {
  emulator::queue(what, stream, [=] {
    emulator::touch_by_copy(what, from, bytes, /*writes=*/false);
    emulator::touch_by_copy(what, to, bytes, /*writes=*/true);
    std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(to));
  });
}

}  // namespace

CudaStream use(int gpu) {
  emulator::runtime_hooks() = {queue_work, access, emulator::adopt_tensor, forget};
  static const CudaStream compute = new_stream(gpu);
  return compute;
}

int64_t multiprocessors(int) { return emulator::multiprocessors(); }
int64_t capability(int) { return 89; }

CudaStream new_stream(int) {
  if (state().streams == kStreamsAtMost) throw Fault("more streams than there are clocks for");
  return reinterpret_cast<CudaStream>(++state().streams);
}

void* allocate(int64_t bytes, const std::string& line, CudaStream) {
  return allocate_visible(bytes, line);
}
void* allocate_pinned(int64_t bytes) {
  void* pointer = allocate_visible(bytes, "pinned memory");
  emulator::find_allocation(pointer)->for_copies = true;
  return pointer;
}
void* allocate_visible(int64_t bytes, const std::string& line) {
  not_captured("memory is allocated");
  return emulator::allocate(static_cast<size_t>(bytes), line);
}

// Releases memory. The allocator reuses it in the order of the compute stream: other streams must
// have finished with it by then.
void release(void* pointer) {
  State& s = state();
  const Allocation* allocation = emulator::find_allocation(pointer);
  if (!allocation) throw Fault("releases what is not device memory");
  try {
    emulator::check_guards(pointer);
  } catch (const std::exception& error) {
    s.late = error.what();
  }
  Clock known = s.seen[kHost];
  join(known, s.seen[kCompute]);
  const bool busy = std::ranges::any_of(s.words[allocation], [&](const Word& w) {
    return w.time > known[w.queue] || reader_not_in(known, w) != kQueues;
  });
  if (busy && std::uncaught_exceptions() == 0)
    s.late = allocation->name + " is released while another stream works on it";
  emulator::release(pointer);
}
void release_pinned(void* pointer) { release(pointer); }
void release_visible(void* pointer) { release(pointer); }

void host_touches(const void* pinned, int64_t bytes, bool writes) {
  run_as(kHost, "the host", [&] { emulator::touch_by_copy("the host", pinned, bytes, writes); });
}

void library_touches(const void* rows, int64_t count, int64_t bytes, int64_t stride_bytes, bool writes, CudaStream stream) {
  emulator::queue("LibTorch", stream, [=] { emulator::touch("LibTorch", rows, count, bytes, stride_bytes, writes); });
}

void copy_in(void* to, const void* pinned, int64_t bytes, CudaStream stream) {
  copy("copy to the device", to, pinned, bytes, stream);
}
void copy_out(void* pinned, const void* from, int64_t bytes, CudaStream stream) {
  copy("copy from the device", pinned, from, bytes, stream);
}
void clear(void* at, int64_t bytes, CudaStream stream) {
  emulator::queue("clear", stream, [=] {
    emulator::touch("clear", at, 1, bytes, 0, /*writes=*/true);
    std::fill_n(static_cast<char*>(at), bytes, 0);
  });
}

EventHandle new_event() { return new EventState; }
EventHandle new_timed_event() { return new EventState{.timed = true}; }

void record(EventHandle event, CudaStream stream) {
  State& s = state();
  EventState& to = event_of(event);
  to.at = s.seen[queue_of(stream)];
  s.recorder.record(event, stream);
  to.time = std::chrono::steady_clock::now();
  if (to.timed) s.timed.push_back(s.works.size());
}
void wait(CudaStream stream, EventHandle event) {
  State& s = state();
  const size_t queue = queue_of(stream);
  if (queue == s.deaf_stream) return;
  if (const auto broken = s.recorder.wait(stream, event)) throw Fault(broken->what);
  if (!s.recorder.is_captured(event)) join(s.seen[queue], event_of(event).at);
}
void wait_for(EventHandle event) {
  not_captured("the host waits");
  host_waits(asked(event).at);
}
void synchronize(CudaStream stream) {
  not_captured("the host waits");
  host_waits(state().seen[queue_of(stream)]);
}
double seconds_between(EventHandle from, EventHandle to) {
  wait_for(to);
  return std::chrono::duration<double>(asked(to).time - asked(from).time).count();
}

void begin_capture(CudaStream stream) {
  if (state().refuses_captures) throw Fault("this device captures nothing");
  not_captured("a capture begins");
  if (const auto broken = state().recorder.begin(stream)) throw Fault(broken->what);
}
GraphHandle end_capture(CudaStream stream) {
  auto ended = state().recorder.end(stream);
  if (const auto* broken = std::get_if<recording::Broken>(&ended)) throw Fault(broken->what);
  return new Graph(std::get<Graph>(std::move(ended)));
}
void abandon_capture(CudaStream stream) { state().recorder.abandon(stream); }

// Replays a graph. The streams that it forks to are its own: work on the device's streams of the
// same numbers is not ordered with them.
void replay(GraphHandle handle, CudaStream stream) {
  State& s = state();
  not_captured("a graph is replayed");
  s.works.push_back("a graph is replayed");
  const Graph& graph = *static_cast<const Graph*>(handle);
  const size_t origin = queue_of(stream);
  const auto queue = [&](recording::Stream of) {
    return of == graph.origin ? origin : kStreamsAtMost + queue_of(of);
  };
  join(s.seen[origin], s.seen[kHost]);
  for (const recording::Stream part : graph.streams) join(s.seen[queue(part)], s.seen[origin]);
  std::unordered_map<recording::Event, Clock> recorded;
  for (const recording::Node& node : graph.nodes) {
    Clock& seen = s.seen[queue(node.stream)];
    if (node.recorded) recorded[node.recorded] = seen;
    if (node.awaited) join(seen, recorded.at(node.awaited));
    if (!node.is_work()) continue;
    try {
      run_as(queue(node.stream), node.name, node.run);
    } catch (...) {  // a wait for the stream then covers the whole graph
      for (const recording::Stream part : graph.streams) join(s.seen[origin], s.seen[queue(part)]);
      throw;
    }
  }
}
void destroy(GraphHandle graph) { delete static_cast<Graph*>(graph); }

}  // namespace forge::runtime

namespace forge::emulator {

size_t& deaf_stream() { return runtime::state().deaf_stream; }
bool& refuses_captures() { return runtime::state().refuses_captures; }
size_t works() { return runtime::state().works.size(); }
const std::vector<size_t>& works_at_moments() { return runtime::state().timed; }
std::vector<std::string> works_from(size_t first) {
  const std::vector<std::string>& all = runtime::state().works;
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()};
}

}  // namespace forge::emulator
