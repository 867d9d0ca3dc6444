#include "core/run/report.h"

#include <sys/resource.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "core/lib/base/file.h"
#include "core/plan/machine/device.h"
#include "core/run/event_fields.h"
#include "core/run/svg.h"
#include "tests/test.h"

using namespace forge;

namespace {

Json step(int64_t number, double loss, double seconds = 1, double waiting = 0) {
  return {{"event", "step"},     {"step", number},         {"steps", 3},
          {"epoch", number / 3.0}, {"loss", loss},         {"learning_rate", 1e-3},
          {"grad_norm", 1.5},    {"examples", 8},          {"tokens", 100},
          {"supervised_tokens", 60}, {"tokens_per_second", 100 / seconds}, {"step_seconds", seconds},
          {"data_wait_seconds", waiting}, {"peak_memory_bytes", 1000 + number}};
}

Json eval(int64_t step, double loss) { return {{"event", "eval"}, {"step", step}, {"eval_loss", loss}, {"seconds", 0.1}}; }

// Returns the peak memory of this process.
int64_t peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

RunMetrics metrics_of(const std::vector<Json>& events) {
  RunMetrics metrics;
  for (const Json& event : events) metrics.add(event);
  return metrics;
}

RunMetrics sample_metrics() {
  return metrics_of({eval(0, 5), step(1, 4), step(2, 3.5), eval(2, 3), step(3, 3), eval(3, 3.25)});
}

Json sample_plan() {
  return {{"job", {{"name", "<devil> & co"}}},
          {"profile", "cpu"},
          {"parameters", {{"total", 1000}, {"trainable", 10}}},
          {"memory", {{"predicted_peak_bytes", 2000}, {"lines", {{{"name", "weights"}, {"bytes", 1500}}}}}}};
}

}  // namespace

TEST_CASE("A report that somebody edited makes a page, whatever stands in it") {
  const Json whole = make_report(sample_plan(), sample_metrics(), {.seconds = 4, .samples = {{{"prompt", "p"}}}, .amendments = {{{"kind", "extend"}}}});
  const Json flat = whole.flatten();
  std::set<std::string> places{""};
  for (const auto& [place, value] : flat.items())
    for (std::string at = place; !at.empty(); at.resize(at.rfind('/'))) places.insert(at);
  REQUIRE(places.size() > 40);
  const Json others[] = {nullptr, true, -3, 1e308, 18446744073709551615u, "x", Json::array(), {1, 2}, Json::object(), {{"a", {{"b", 1}}}}};
  for (const std::string& place : places) {
    const Json::json_pointer at(place);
    INFO(place);
    for (const Json& other : others) {
      Json edited = whole;
      edited[at] = other;
      CHECK_FALSE(report_html(edited, sample_metrics()).empty());
    }
    if (place.empty()) continue;
    Json edited = whole;
    Json& holder = edited[at.parent_pointer()];
    if (holder.is_object()) holder.erase(at.back());
    CHECK_FALSE(report_html(edited, sample_metrics()).empty());
  }
}

TEST_CASE("A report sums the steps and keeps first, best and last evaluation") {
  Json report = make_report(sample_plan(), sample_metrics(), {.seconds = 4});
  CHECK(report["steps"] == 3);
  CHECK(report["tokens"] == 300);
  CHECK(report["supervised_tokens"] == 180);
  CHECK(report["tokens_per_second"] == 100.0);
  CHECK(report["loss"]["first"] == 4.0);
  CHECK(report["loss"]["last"] == 3.0);
  CHECK(dump_json(report["eval"]) ==
        R"({"first":{"step":0,"eval_loss":5.0},"best":{"step":2,"eval_loss":3.0},"last":{"step":3,"eval_loss":3.25}})");
  CHECK(report["memory"]["measured_peak_bytes"] == 1003);
  CHECK(report["memory"]["predicted_peak_bytes"] == 2000);
  CHECK(report["profile"] == "cpu");
}

TEST_CASE("A report holds a step's planned time against the measured") {
  Json plan = sample_plan();
  CHECK(make_report(plan, sample_metrics(), {.seconds = 4})["time"].dump() ==
        R"({"planned_step_seconds":null,"step_seconds":1.0})");
  plan["time"] = {{"step_seconds", 0.9}, {"run_seconds", 2.7}, {"reason", ""}};
  CHECK(make_report(plan, sample_metrics(), {.seconds = 4})["time"]["planned_step_seconds"] == 0.9);
}

TEST_CASE("The bottleneck names what took the time") {
  CHECK(bottleneck({}, 0) == "No step was taken.");
  CHECK(bottleneck(metrics_of({step(1, 1, 2, 1)}), 2).find("50 % of the step time was spent waiting for data") != std::string::npos);
  CHECK(bottleneck(metrics_of({step(1, 1, 2)}), 2) == "Arithmetic was the bottleneck: 100 % of the time went into the steps.");
  CHECK(bottleneck(metrics_of({step(1, 1, 1)}), 10).find("90 % of the time") != std::string::npos);
}

TEST_CASE("report.html escapes what users wrote and needs no network") {
  Json report = make_report(sample_plan(), sample_metrics(),
                            {.samples = Json::array({{{"prompt", "</pre><script>alert(1)</script>"}}})});
  std::string html = report_html(report, sample_metrics());
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("&lt;devil&gt; &amp; co") != std::string::npos);
  CHECK(html.find("http") == html.find("http-equiv"));
  CHECK(html.find("https") == std::string::npos);
  CHECK(html.find("<path d='M") != std::string::npos);
  CHECK(html.find("predicted peak") != std::string::npos);
}

namespace {

// Returns a report like the engine writes it, with every member that a page could print verbatim.
Json full_report() {
  Json plan = sample_plan();
  plan["device"] = {{"cuda", false}, {"index", 0}, {"cpu", {{"name", "a processor"}, {"cores", 2}, {"isa", {"avx2"}}}}};
  plan["data"] = {{"train", {{"rows", 8}, {"content_hash", "abc"}, {"cache_path", "/x"}, {"dropped", 0}}},
                  {"packing", {{"step_fill", 0.5}}}};
  Device device;
  device.cpu.name = "a processor";
  RunFacts facts{.seconds = 4, .environment = environment_of(device, "2.11.0")};
  facts.samples = {{{"prompt", "one\x1b[2J"}, {"before", "two"}, {"after", "three"}}};
  facts.amendments = {{{"kind", "settings"}, {"changes", {{"log.every_steps", 2}, {"x", {1, 2}}}}, {"reason", "the job file changed"}},
                      {{"kind", "replan"}, {"plan", {{"steps", 3}}}, {"reason", "another machine"}}};
  return make_report(plan, sample_metrics(), facts);
}

bool has_type(const Json& value, const Json& types) {
  const auto is = [&](const std::string& type) {
    return type == "null" ? value.is_null() : type == "string" ? value.is_string() : type == "integer" ? value.is_number_integer()
         : type == "number" ? value.is_number() : type == "object" ? value.is_object() : type == "array" ? value.is_array()
         : value.is_boolean();
  };
  if (types.is_string()) return is(types);
  return std::any_of(types.begin(), types.end(), [&](const Json& type) { return is(type); });
}

}  // namespace

TEST_CASE("A report is what its schema says, with samples and environment") {
  const Json report = full_report(), schema = report_schema();
  for (const auto& [name, value] : report.items()) {
    INFO(name);
    REQUIRE(schema["properties"].contains(name));
    CHECK(has_type(value, schema["properties"][name]["type"]));
  }
  CHECK(report["device"] == "a processor");
  CHECK(report["environment"]["torch"] == "2.11.0");
  CHECK(report["samples"].size() == 1);
}

TEST_CASE("report.html holds words, not JSON, and no control characters") {
  const std::string html = report_html(full_report(), sample_metrics());
  const std::string body = html.substr(html.find("<body"));
  for (const char* json : {"{&quot;", "[&quot;", "&quot;:", "null", "true", "false", "{\"", "[1"}) {
    INFO(json);
    CHECK(body.find(json) == std::string::npos);
  }
  CHECK(body.find("one\\x1b[2J") != std::string::npos);
  CHECK(body.find("the job file changed") != std::string::npos);
  CHECK(body.find("abc") == std::string::npos);
}

TEST_CASE("A metrics file whose last line a crash cut short is read up to it") {
  TemporaryFolder folder;
  const auto count = [](const std::string& path) {
    int64_t events = 0;
    for_each_event(path, [&](const Json&) { ++events; });
    return events;
  };
  std::string path = folder.write("metrics.jsonl", "{\"event\":\"step\"}\n{\"event\":\"ev");
  CHECK(count(path) == 1);
  folder.write("metrics.jsonl", "{\"event\":\n{}\n");
  CHECK(error_of([&] { read_metrics(path); }).find(path + ":1:") == 0);
  CHECK(count(folder.path("none")) == 0);
}

TEST_CASE("A run without steps and with non-finite losses still has a report") {
  Json empty = make_report(Json::object(), {}, {});
  CHECK(empty["steps"] == 0);
  CHECK(!report_html(empty, {}).empty());
  const RunMetrics broken = metrics_of({{{"event", "step"}, {"step", 1}, {"loss", nullptr}}});
  CHECK(report_html(make_report(sample_plan(), broken, {}), broken).find("–") != std::string::npos);
}

TEST_CASE("A chart of many points keeps its spikes") {
  Series series{"loss", {}, {}};
  for (int i = 0; i < 100000; ++i) series.x.push_back(i), series.y.push_back(i == 54321 ? 100 : 0);
  std::string svg = line_chart({"t", "x", "y", {series}});
  CHECK(svg.size() < 40000);
  CHECK(svg.find(" 28.0L") != std::string::npos);  // the top of the frame is reached
}

TEST_CASE("Ticks are round numbers") {
  CHECK(round_ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(round_ticks(1, 1, 5).empty());
  CHECK(round_ticks(0, INFINITY, 5).empty());
}

// 49 MB of metrics took 635 MB as JSON values.
TEST_CASE("The metrics of a long run are never in memory") {
  TemporaryFolder folder;
  std::string lines;
  for (int64_t number = 1; number <= 100; ++number) lines += dump_json(step(number, 3.25)) + "\n";
  const std::string path = folder.write("metrics.jsonl", "");
  std::ofstream file(path, std::ios::binary);
  for (int part = 0; part < 600; ++part) file << lines;
  file.close();
  const int64_t before = peak_bytes();
  const RunMetrics metrics = read_metrics(path);
  write_report(folder.path(), make_report(sample_plan(), metrics, {}), metrics);
  CHECK(metrics.steps.size() == 60'000);
  CHECK(file_size(path) > 15'000'000);
#ifndef __SANITIZE_ADDRESS__  // AddressSanitizer keeps freed memory
  CHECK(peak_bytes() - before < 12'000'000);
#endif
}
