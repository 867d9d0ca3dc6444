// CUDA's rules of capture, each broken once (programming guide, "Stream capture").
#include "tests/recording/recorder.h"

#include "tests/test.h"

using namespace forge::recording;

namespace {

const char handles[6] = {};
const Stream a = &handles[0], b = &handles[1], c = &handles[2];
const Event e = &handles[3], f = &handles[4];

std::optional<Rule> rule_of(const std::optional<Broken>& broken) {
  return broken ? std::optional(broken->rule) : std::nullopt;
}
std::optional<Rule> rule_of(const std::variant<Graph, Broken>& ended) {
  const auto* broken = std::get_if<Broken>(&ended);
  return broken ? std::optional(broken->rule) : std::nullopt;
}

// A recorder that captures on `a`.
struct Capturing : Recorder {
  Capturing() { begin(a); }
  void work(Stream stream) { graph_of(stream)->nodes.push_back({"work", stream}); }
  std::optional<Rule> after(Stream first, Event event, Stream second) {
    record(event, first);
    return rule_of(wait(second, event));
  }
};

}  // namespace

TEST_CASE("a capture begins once, on a stream that is not the null stream, and ends there") {
  Capturing r;
  CHECK(rule_of(r.begin(nullptr)) == Rule::unsupported);
  CHECK(rule_of(r.begin(a)) == Rule::illegal_state);
  CHECK(rule_of(r.end(b)) == Rule::illegal_state);
  r.after(a, e, b);
  CHECK(rule_of(r.begin(b)) == Rule::illegal_state);
  CHECK(rule_of(r.end(b)) == Rule::unmatched);
  CHECK(rule_of(r.end(a)) == std::nullopt);
  CHECK(r.graph_of(b) == nullptr);
}

TEST_CASE("a forked stream's work is joined, if need be through another stream") {
  Capturing joined, late, lost, through;
  for (Capturing* r : {&joined, &late, &lost, &through}) r->after(a, e, b), r->work(b);
  joined.after(b, f, a);
  CHECK(rule_of(joined.end(a)) == std::nullopt);
  late.record(f, b), late.work(b), late.wait(a, f);
  CHECK(rule_of(late.end(a)) == Rule::unjoined);
  lost.record(f, b), lost.after(a, f, a);  // the awaited record is the second one
  CHECK(rule_of(lost.end(a)) == Rule::unjoined);
  through.after(b, e, c), through.work(c), through.after(c, e, a);
  CHECK(rule_of(through.end(a)) == std::nullopt);
  CHECK(through.graph_of(c) == nullptr);
}

TEST_CASE("events are awaited in the capture that they were recorded in") {
  Capturing r;
  CHECK(r.after(b, f, c) == std::nullopt);
  CHECK(rule_of(r.wait(a, f)) == Rule::isolation);
  r.record(e, a);
  r.begin(b);
  CHECK(rule_of(r.wait(b, e)) == Rule::merge);
  r.end(a);
  CHECK(rule_of(r.wait(c, e)) == Rule::captured_event);
  CHECK(r.is_captured(e));
  r.record(e, c);
  CHECK(!r.is_captured(e));
  CHECK(rule_of(r.wait(a, e)) == std::nullopt);
}
