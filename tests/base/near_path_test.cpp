#include "core/lib/base/near_path.h"

#include "tests/test.h"

using namespace forge;

TEST_CASE("a path that is not there is answered with the one that is nearest") {
  TemporaryFolder folder;
  folder.write("data/train.jsonl", "");
  folder.write("data/eval.jsonl", "");
  folder.write("models/SmolLM2-135M/config.json", "");
  const auto meant = [&](const std::string& path) { return near_path(folder.path(path)); };
  CHECK(meant("data/trian.jsonl") == folder.path("data/train.jsonl"));
  CHECK(meant("data/train.json") == folder.path("data/train.jsonl"));
  CHECK(meant("data/Train.jsonl") == folder.path("data/train.jsonl"));
  CHECK(meant("dta/train.jsonl") == folder.path("data/train.jsonl"));
  CHECK(meant("dta/other.jsonl") == folder.path("data"));
  CHECK(meant("models/SmolLM2-135m") == folder.path("models/SmolLM2-135M"));
  CHECK(meant("data/rows.parquet").empty());
  // Another number is another file.
  folder.write("parts/train-00000.jsonl", "");
  folder.write("parts/model-1.5B/config.json", "");
  CHECK(meant("parts/train-00001.jsonl").empty());
  CHECK(meant("parts/train-00000.json") == folder.path("parts/train-00000.jsonl"));
  CHECK(meant("parts/trian-00000.jsonl") == folder.path("parts/train-00000.jsonl"));
  CHECK(meant("parts/model-1.7B").empty());
  CHECK(meant("parts/model-1.5b") == folder.path("parts/model-1.5B"));
  CHECK(meant("models/SmolLM2-360M").empty());
  CHECK(meant("data/train2.jsonl") == folder.path("data/train.jsonl"));
  CHECK(meant("data/*.json").empty());
  CHECK(near_path_hint(folder.path("data/x"), "look again") == "look again");
  CHECK(near_path_hint(folder.path("data/train.json")) == "did you mean " + folder.path("data/train.jsonl") + "?");
}
