// Deterministic damage: a misspelt key is always named, and no content of a file crashes or hangs
// the reader.
#include <set>

#include "core/job/diagnostics.h"
#include "core/job/field.h"
#include "core/job/load.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Every key that one valid job can have.
constexpr const char* kGolden = R"(version: 1
name: golden
seed: 7
output_dir: runs
provider: auto
model:
  path: m
  quantization: nf4
  double_quantization: true
adapter:
  type: lora
  rank: 8
  alpha: 16
  dropout: 0.1
  target_modules: [q_proj, v_proj]
  exclude_modules: [k_proj]
  modules_to_save: [lm_head]
  use_rslora: true
  use_dora: false
  init: gaussian
  lora_plus_ratio: 4
  rank_pattern: {q_proj: 4}
  alpha_pattern: {q_proj: 4.5}
  layers_to_transform: [0, 1]
objective:
  type: sft
  train_on: assistant
  label_smoothing: 0.1
  z_loss: 1e-4
data:
  train:
    - path: a.jsonl
      format: messages
      limit: 100
  eval: [b.jsonl, {path: c.jsonl}]
  template: auto
  max_length: 512
  overlong: truncate
  truncation_side: left
  packing: true
  group_by_length: false
  shuffle: true
  on_bad_row: skip
train:
  epochs: 2
  max_steps: 100
  max_tokens: 1000000
  max_time: 2h
  global_batch_size: 8
  micro_batch_size: 4
  activation_checkpointing: selective
  precision: bf16
  master_weights: false
  max_grad_norm: 0.5
  neftune_alpha: 5
  on_nan: skip
  deterministic: true
  threads: 2
optimizer:
  type: adamw
  learning_rate: 1e-4
  betas: [0.9, 0.95]
  eps: 1e-6
  weight_decay: 0.1
schedule:
  type: wsd
  warmup_steps: 10
  min_lr_ratio: 0.1
  decay_ratio: 0.2
checkpoint:
  every_steps: 10
  keep_last: 3
  keep_best: 2
eval:
  every_steps: 10
  at_start: true
  early_stopping:
    patience: 3
    min_delta: 0.01
log:
  every_steps: 5
  tensorboard: false
hardware:
  profile: auto
  device: cpu
  memory_limit: 8GiB
)";

struct Loader {
  TemporaryFolder folder;
  std::string error(const std::string& text, const std::string& name = "job.yaml") {
    folder.write(name, text);
    return error_of([&] {
      load_job(name, {.cwd = folder.path(), .environment = [](const std::string&) { return std::nullopt; }});
    });
  }
};

}  // namespace

TEST_CASE("the golden job is valid") { CHECK(Loader().error(kGolden) == "no error"); }

TEST_CASE("a key misspelt by one character is reported with its right name") {
  Loader loader;
  std::vector<std::string> lines = split(kGolden, '\n');
  std::set<std::string> names;
  for (const std::string& key : dotted_keys(job_fields())) names.insert(key.substr(key.rfind('.') + 1));
  int tried = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    size_t begin = lines[i].find_first_not_of(" -"), end = lines[i].find(':');
    if (begin == std::string::npos || end == std::string::npos) continue;
    std::string key = lines[i].substr(begin, end - begin);
    std::vector<std::string> wrong;
    for (size_t at = 0; at < key.size(); ++at) {
      std::string changed = key, dropped = key, doubled = key;
      changed[at] = changed[at] == 'q' ? 'x' : 'q';
      dropped.erase(at, 1);
      doubled.insert(at, 1, key[at]);
      wrong.insert(wrong.end(), {changed, dropped, doubled});
      if (at + 1 < key.size() && key[at] != key[at + 1]) {
        std::string swapped = key;
        std::swap(swapped[at], swapped[at + 1]);
        wrong.push_back(swapped);
      }
    }
    for (const std::string& word : wrong) {
      if (word == key || names.contains(word)) continue;
      std::vector<std::string> text = lines;
      text[i] = lines[i].substr(0, begin) + word + lines[i].substr(end);
      std::string first = loader.error(join(text, "\n"));
      INFO(word << " for " << key << ":\n" << first);
      std::string place = "job.yaml:" + std::to_string(i + 1) + ":" + std::to_string(begin + 1) + ": ";
      size_t at = first.find(place);
      REQUIRE(at != std::string::npos);
      std::string line = first.substr(at, first.find('\n', at) - at);
      CHECK_THAT(line, Catch::Contains("unknown key"));
      // The hint contains the right name, not only as part of the misspelt key.
      CHECK_THAT(line.substr(line.find("unknown key")), Catch::Contains(key));
      ++tried;
    }
  }
  CHECK(tried > 1500);
}

TEST_CASE("damaged files are refused or read, never worse") {
  Loader loader;
  const std::string golden = kGolden;
  const std::string pieces[] = {"\"",       "'",
                                "{",        "}",
                                "[",        "]",
                                ": ",       "- ",
                                "&a ",      "*a",
                                "<<: ",     "!!x ",
                                "\n---\n",  "|\n",
                                ">\n",      "? ",
                                "#",        "\t",
                                "\xFF",     std::string(1, '\0'),
                                "\x04",     "%",
                                "@",        "`",
                                "${env:X}", "${",
                                "null",     "~",
                                ".nan",     "010",
                                "1e999",    "\r",
                                "\xC3\xA9", "\xE2\x80\xA8",
                                ",",        "\\",
                                "auto",     "-"};
  uint64_t state = 42;
  auto random = [&](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  int refused = 0, accepted = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text = golden;
    for (uint64_t n = 1 + random(3); n > 0; --n) {
      size_t at = random(text.size());
      switch (random(4)) {
        case 0:
          text.insert(at, pieces[random(std::size(pieces))]);
          break;
        case 1:
          text.erase(at, 1 + random(20));
          break;
        case 2:
          text[at] = static_cast<char>(random(256));
          break;
        default:
          text.insert(at, text.substr(random(text.size()), random(60)));
          break;
      }
    }
    std::string error = loader.error(text);
    (error == "no error" ? accepted : refused)++;
    // Every fault has a position.
    if (error != "no error") CHECK_THAT(error, Catch::StartsWith("job.yaml:"));
  }
  CHECK(refused > 500);
  CHECK(accepted > 0);
}

TEST_CASE("damaged JSON jobs are refused or read, never worse") {
  Loader loader;
  const std::string golden =
      R"({"model": {"path": "m", "quantization": "nf4"}, "adapter": {"type": "lora", "rank": 8, "rank_pattern": {"a": 1}},
 "data": {"train": ["a.jsonl", {"path": "b\u00e9.jsonl", "limit": 3}]}, "optimizer": {"betas": [0.9, 9.5e-1]}, "seed": null})";
  CHECK(loader.error(golden, "job.json") == "no error");
  uint64_t state = 7;
  auto random = [&](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  for (int i = 0; i < 1500; ++i) {
    std::string text = golden;
    for (uint64_t n = 1 + random(3); n > 0; --n) {
      size_t at = random(text.size());
      if (random(2))
        text.erase(at, 1 + random(8));
      else
        text.insert(at, 1, "\"{}[]:,\\0e.-tn\xFF "[random(17)]);
    }
    std::string error = loader.error(text, "job.json");
    if (error != "no error") CHECK_THAT(error, Catch::StartsWith("job.json:"));
  }
}
