// CUDA's runtime over the emulator. Work runs when it is queued, in one of many legal orders.
// Vector clocks decide whether another order would be legal, too: of two accesses to the same two
// bytes, one of them a write, that no wait orders, the second is a fault.
#include "kernels/device/runtime.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/emulator/engine/recording.h"
#include "tests/emulator/engine/tensors.h"
#include "tests/emulator/grid.h"
#include "tests/emulator/memory.h"

namespace forge::runtime {
namespace {

using emulator::Allocation;
using emulator::Fault;

constexpr size_t kStreamsAtMost = 3;
constexpr size_t kQueues = 1 + 2 * kStreamsAtMost;  // the host, the streams, and their part in a graph that is replayed
constexpr size_t kHost = 0;
constexpr size_t kGranule = 2;  // bytes: the smallest element
using Clock = std::array<uint32_t, kQueues>;

void join(Clock& into, const Clock& other) {
  for (size_t i = 0; i < kQueues; ++i) into[i] = std::max(into[i], other[i]);
}

struct EventState {
  Clock at{};
  size_t capture = 0;  // that it was last recorded in, by number; 0: none
  bool timed = false;
  std::chrono::steady_clock::time_point time;  // work runs when it is queued
};

// Work on its stream, or a step of order between streams, in which `run` is null.
struct Node {
  std::string what;
  size_t queue = kHost;
  std::function<void()> run;
  EventState* recorded = nullptr;
  EventState* awaited = nullptr;
};
struct Graph {
  size_t number = 0;  // of captures, from 1
  size_t origin = kHost;
  std::vector<Node> nodes;
  std::array<bool, kQueues> takes_part{};
  std::array<Clock, kQueues> seen{};  // what each of its streams has waited for, by the number of nodes
};

struct Queue {
  Clock seen{};
};

// The last write of two bytes, and the last read by each queue.
struct Word {
  uint32_t write_time = 0, write_work = 0;
  uint8_t write_queue = 0;
  Clock reads{};
};

struct State {
  std::vector<Queue> queues = std::vector<Queue>(kQueues);  // the host's first
  size_t streams = 0;
  std::unique_ptr<Graph> capturing;
  size_t captures = 0;
  std::map<const Allocation*, std::vector<Word>> words;
  const Allocation* last = nullptr;  // the last accessed allocation, cached with its words
  std::vector<Word>* last_words = nullptr;
  std::vector<std::string> works{"nothing"};
  std::vector<size_t> timed;  // works so far at each record of a timed event
  // The work that runs now.
  size_t queue = kHost;
  uint32_t time = 0, work = 0;
  bool running = false;
  std::string late;  // a fault of a release, thrown by a later call since destructors may not throw
};
State& state() {
  static State instance;
  return instance;
}

CudaStream stream_of(size_t queue) { return reinterpret_cast<CudaStream>(queue); }
size_t number_of(CudaStream stream) {
  const auto number = reinterpret_cast<size_t>(stream);
  if (number == 0 || number > state().streams) throw Fault("on the default stream, or on one that nobody made");
  return number;
}
Queue& queue_of(CudaStream stream) { return state().queues[number_of(stream)]; }

std::vector<Word>& words_of(const Allocation& allocation) {
  State& s = state();
  if (s.last == &allocation) return *s.last_words;
  std::vector<Word>& words = s.words[&allocation];
  if (words.empty()) words.resize((allocation.bytes + kGranule) / kGranule + 1);
  s.last = &allocation, s.last_words = &words;
  return words;
}

void access(Allocation& allocation, size_t offset, size_t bytes, bool writes) {
  State& s = state();
  if (!s.running) return;
  const Clock& seen = s.queues[s.queue].seen;
  std::vector<Word>& words = words_of(allocation);
  for (size_t i = offset / kGranule; i <= (offset + bytes - 1) / kGranule; ++i) {
    Word& w = words[i];
    if (w.write_time > seen[w.write_queue])
      throw Fault((writes ? "over what " : "what ") + s.works[w.write_work] + " writes, and no wait orders them");
    if (writes) {
      for (size_t q = 0; q < kQueues; ++q)
        if (w.reads[q] > seen[q]) throw Fault("over what work of stream " + std::to_string(q) + " reads, and no wait orders them");
      w = {s.time, s.work, static_cast<uint8_t>(s.queue), {}};
    } else {
      w.reads[s.queue] = s.time;
    }
  }
}

// Runs `action` as work of a queue.
void run_as(size_t queue, const std::string& what, const std::function<void()>& action) {
  State& s = state();
  s.works.push_back(what);
  s.queue = queue, s.work = static_cast<uint32_t>(s.works.size() - 1);
  s.time = ++s.queues[queue].seen[queue];
  s.running = true;
  try {
    action();
  } catch (const std::exception& error) {
    s.running = false;
    throw Fault(what + ": " + error.what());
  }
  s.running = false;
}

void throw_late() {
  if (!state().late.empty()) throw Fault(std::exchange(state().late, ""));
}

// Returns the graph that this stream's work goes to; null: it runs.
Graph* captured_by(CudaStream stream) {
  const size_t number = number_of(stream);
  Graph* graph = state().capturing.get();
  return graph && graph->takes_part[number] ? graph : nullptr;
}

void queue_work(const char* what, CudaStream stream, std::function<void()> work) {
  throw_late();
  const size_t number = number_of(stream);
  if (Graph* graph = captured_by(stream)) {
    graph->nodes.push_back({what, number, std::move(work)});
    ++graph->seen[number][number];
    return;
  }
  // Replays would not contain this work.
  if (state().capturing) throw Fault(std::string(what) + " on a stream that takes no part in what is captured");
  join(state().queues[number].seen, state().queues[kHost].seen);  // the host's clock when it queued
  run_as(number, what, work);
}

void forget(const Allocation* allocation) {
  State& s = state();
  s.words.erase(allocation);
  if (s.last == allocation) s.last = nullptr, s.last_words = nullptr;
}

void not_captured(const char* what) {
  throw_late();
  if (state().capturing) throw Fault(std::string(what) + " while work is captured");
}

EventState* event_of(EventHandle event) { return static_cast<EventState*>(event); }

Allocation* adopted(const void* pointer) { return emulator::adopt_tensor(pointer); }

}  // namespace

CudaStream use(int gpu) {
  static CudaStream compute = nullptr;
  if (!compute) {
    emulator::runtime_hooks() = {queue_work, access, adopted, forget};
    compute = new_stream(gpu);
  }
  return compute;
}

int64_t multiprocessors(int) { return emulator::multiprocessors(); }
int64_t capability(int) { return 89; }

CudaStream new_stream(int) {
  State& s = state();
  if (s.streams == kStreamsAtMost) throw Fault("more streams than the emulator has clocks for");
  return stream_of(++s.streams);
}

void* allocate(int64_t bytes, const std::string& line, CudaStream) {
  not_captured("memory is allocated");
  return emulator::allocate(static_cast<size_t>(bytes), line);
}

// Releases memory. The allocator reuses it in the order of the compute stream: other streams must
// have finished with it by then.
void release(void* pointer) {
  const Allocation* allocation = emulator::find_allocation(pointer);
  if (!allocation) throw Fault("releases what is not device memory");
  try {
    emulator::check_guards(pointer);
  } catch (const std::exception& error) {
    state().late = error.what();
  }
  if (const auto found = state().words.find(allocation); found != state().words.end()) {
    constexpr size_t kCompute = 1;
    Clock known = state().queues[kHost].seen;
    join(known, state().queues[kCompute].seen);
    for (const Word& w : found->second) {
      bool busy = w.write_time > known[w.write_queue];
      for (size_t q = 0; q < kQueues; ++q) busy |= w.reads[q] > known[q];
      if (busy && std::uncaught_exceptions() == 0)
        state().late = allocation->name + " is released while another stream works on it";
    }
  }
  emulator::release(pointer);
}

void* allocate_pinned(int64_t bytes) {
  void* pointer = allocate_visible(bytes, "pinned memory");
  emulator::find_allocation(pointer)->for_copies = true;
  return pointer;
}
void release_pinned(void* pointer) { release(pointer); }
void* allocate_visible(int64_t bytes, const std::string& line) {
  not_captured("memory is allocated");
  return emulator::allocate(static_cast<size_t>(bytes), line);
}
void release_visible(void* pointer) { release(pointer); }

void host_touches(const void* pinned, int64_t bytes, bool writes) {
  run_as(kHost, "the host", [&] { emulator::touch_by_copy("the host", pinned, bytes, writes); });
}

namespace {

void copy(const char* what, void* to, const void* from, int64_t bytes, CudaStream stream) {
  emulator::queue(what, stream, [=] {
    emulator::touch_by_copy(what, from, bytes, /*writes=*/false);
    emulator::touch_by_copy(what, to, bytes, /*writes=*/true);
    std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(to));
  });
}

}  // namespace

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
void record(EventHandle event, CudaStream stream) {
  EventState* to = event_of(event);
  Graph* graph = captured_by(stream);
  to->capture = graph ? graph->number : 0;
  to->at = graph ? graph->seen[number_of(stream)] : queue_of(stream).seen;
  if (graph) graph->nodes.push_back({"an event is recorded", number_of(stream), nullptr, to});
  if (!to->timed) return;
  to->time = std::chrono::steady_clock::now();
  state().timed.push_back(state().works.size());
}
void wait(CudaStream stream, EventHandle event) {
  const size_t number = number_of(stream);
  if (number == emulator::deaf_stream()) return;
  const EventState* of = event_of(event);
  Graph* graph = state().capturing.get();
  if (of->capture && (!graph || of->capture != graph->number)) throw Fault("a wait for an event of a capture that is over");
  if (!of->capture) {
    if (captured_by(stream)) throw Fault("captured work waits for an event that was recorded outside of the capture");
    return join(queue_of(stream).seen, of->at);
  }
  graph->takes_part[number] = true;
  join(graph->seen[number], of->at);
  graph->nodes.push_back({"a wait", number, nullptr, nullptr, event_of(event)});
}
namespace {
// Notes a wait for work that the host does not know to be done.
void note_wait(const Clock& until) {
  const Clock& known = state().queues[kHost].seen;
  for (size_t q = 0; q < kQueues; ++q)
    if (q != kHost && until[q] > known[q]) return state().works.push_back("the host waits");
}
}  // namespace

void wait_for(EventHandle event) {
  not_captured("the host waits");
  note_wait(event_of(event)->at);
  join(state().queues[kHost].seen, event_of(event)->at);
}
void synchronize(CudaStream stream) {
  not_captured("the host waits");
  note_wait(queue_of(stream).seen);
  join(state().queues[kHost].seen, queue_of(stream).seen);
}

EventHandle new_timed_event() {
  auto* event = new EventState;
  event->timed = true;
  return event;
}
double seconds_between(EventHandle from, EventHandle to) {
  for (const EventState* event : {event_of(from), event_of(to)})
    if (event->capture) throw Fault("the time of an event that was recorded in a capture");
  wait_for(to);
  return std::chrono::duration<double>(event_of(to)->time - event_of(from)->time).count();
}

void begin_capture(CudaStream stream) {
  if (emulator::refuses_captures()) throw Fault("this device captures nothing");
  state().capturing = std::make_unique<Graph>();
  state().capturing->number = ++state().captures;
  state().capturing->origin = number_of(stream);
  state().capturing->takes_part[number_of(stream)] = true;
}
GraphHandle end_capture(CudaStream) {
  const std::unique_ptr<Graph> graph = std::move(state().capturing);
  for (size_t q = 0; q < kQueues; ++q)
    if (graph->seen[q][q] > graph->seen[graph->origin][q])
      throw Fault("the capture ends before its first stream waits for stream " + std::to_string(q));
  return std::make_unique<Graph>(*graph).release();
}
void abandon_capture(CudaStream) { state().capturing = nullptr; }

// Replays a graph. The streams that it forks to are its own: work on the device's streams of the
// same numbers is not ordered with them.
void replay(GraphHandle handle, CudaStream stream) {
  State& s = state();
  if (s.capturing) throw Fault("a graph is replayed while work is captured");
  s.works.push_back("a graph is replayed");
  const Graph& graph = *static_cast<Graph*>(handle);
  const size_t origin = number_of(stream);
  join(s.queues[origin].seen, s.queues[kHost].seen);
  const auto queue = [&](size_t number) { return number == graph.origin ? origin : kStreamsAtMost + number; };
  for (size_t q = 0; q < kQueues; ++q)
    if (graph.takes_part[q]) join(s.queues[queue(q)].seen, s.queues[origin].seen);
  std::map<const EventState*, Clock> recorded;
  for (const Node& node : graph.nodes) {
    Clock& seen = s.queues[queue(node.queue)].seen;
    if (node.recorded) recorded[node.recorded] = seen;
    if (node.awaited) join(seen, recorded.at(node.awaited));
    if (!node.run) continue;
    try {
      run_as(queue(node.queue), node.what, node.run);
    } catch (...) {  // a wait for the stream then covers the whole graph
      for (size_t q = 0; q < kQueues; ++q)
        if (graph.takes_part[q]) join(s.queues[origin].seen, s.queues[queue(q)].seen);
      throw;
    }
  }
}
void destroy(GraphHandle graph) { delete static_cast<Graph*>(graph); }

}  // namespace forge::runtime

namespace forge::emulator {

size_t& deaf_stream() {
  static size_t stream = 0;
  return stream;
}
bool& refuses_captures() {
  static bool refuses = false;
  return refuses;
}
size_t works() { return runtime::state().works.size(); }
const std::vector<size_t>& works_at_moments() { return runtime::state().timed; }
std::vector<std::string> works_from(size_t first) {
  const std::vector<std::string>& all = runtime::state().works;
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()};
}

}  // namespace forge::emulator
