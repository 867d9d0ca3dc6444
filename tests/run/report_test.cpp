#include "core/run/report.h"

#include <cmath>
#include <sstream>

#include "core/base/file.h"
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

std::vector<Json> sample_events() { return {eval(0, 5), step(1, 4), step(2, 3.5), eval(2, 3), step(3, 3), eval(3, 3.25)}; }

Json sample_plan() {
  return {{"job", {{"name", "<devil> & co"}}},
          {"profile", "cpu"},
          {"parameters", {{"total", 1000}, {"trainable", 10}}},
          {"memory", {{"predicted_peak_bytes", 2000}, {"lines", {{{"name", "weights"}, {"bytes", 1500}}}}}}};
}

}  // namespace

TEST_CASE("A report sums the steps and keeps first, best and last evaluation") {
  Json report = make_report(sample_plan(), sample_events(), {.seconds = 4});
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

TEST_CASE("The bottleneck names what took the time") {
  CHECK(bottleneck({}, 0) == "No step was taken.");
  CHECK(bottleneck({step(1, 1, 2, 1)}, 2).find("50 % of the step time was spent waiting for data") != std::string::npos);
  CHECK(bottleneck({step(1, 1, 2)}, 2) == "Arithmetic was the bottleneck: 100 % of the time went into the steps.");
  CHECK(bottleneck({step(1, 1, 1)}, 10).find("90 % of the time") != std::string::npos);
}

TEST_CASE("report.html escapes what users wrote and needs no network") {
  Json report = make_report(sample_plan(), sample_events(),
                            {.samples = Json::array({{{"prompt", "</pre><script>alert(1)</script>"}}})});
  std::string html = report_html(report, sample_events());
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("&lt;devil&gt; &amp; co") != std::string::npos);
  CHECK(html.find("http") == html.find("http-equiv"));
  CHECK(html.find("https") == std::string::npos);
  CHECK(html.find("<path d='M") != std::string::npos);
  CHECK(html.find("predicted peak") != std::string::npos);
}

TEST_CASE("A metrics file whose last line a crash cut short is read up to it") {
  TemporaryFolder folder;
  std::string path = folder.write("metrics.jsonl", "{\"event\":\"step\"}\n{\"event\":\"ev");
  CHECK(read_metrics(path).size() == 1);
  folder.write("metrics.jsonl", "{\"event\":\n{}\n");
  CHECK(error_of([&] { read_metrics(path); }).find(path + ":1:") == 0);
  CHECK(read_metrics(folder.path("none")).empty());
}

TEST_CASE("A run without steps and with non-finite losses still has a report") {
  Json empty = make_report(Json::object(), {}, {});
  CHECK(empty["steps"] == 0);
  CHECK(!report_html(empty, {}).empty());
  std::vector<Json> broken{{{"event", "step"}, {"step", 1}, {"loss", nullptr}}};
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
