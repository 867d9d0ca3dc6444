// Compares the metrics with torchmetrics' SQuAD and rouge_score
// (tests/parity/make_metric_goldens.py).
#include "core/run/evaluate/text_metrics.h"

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"
#include "tests/test.h"

using namespace forge;

TEST_CASE("metrics of answers are those of torchmetrics and rouge_score") {
  const std::string path = std::string(FORGE_SOURCE_DIR) + "/tests/evaluate/goldens/metrics.jsonl";
  int64_t cases = 0, between = 0;
  for (const std::string& line : split(read_file(path, 1 << 20, ErrorKind::data), '\n')) {
    if (line.empty()) continue;
    const Json row = parse_json(line, path, ErrorKind::data);
    const TextMetrics got =
        text_metrics(row["answer"].get<std::string>(), row["references"].get<std::vector<std::string>>());
    INFO(line);
    CHECK(got.exact_match == row["exact_match"].get<double>());
    CHECK(got.f1 == Approx(row["f1"].get<double>()).epsilon(1e-6));
    CHECK(got.rouge_l == Approx(row["rouge_l"].get<double>()).epsilon(1e-12));
    ++cases;
    between += got.f1 > 0 && got.f1 < 1 && got.rouge_l > 0 && got.rouge_l < 1;
  }
  CHECK(cases == 300);
  CHECK(between > 100);
}
