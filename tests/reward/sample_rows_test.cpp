#include "core/data/read/sample_rows.h"

#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns "group prompt > completion" of every sample, joined by " | "; or the error.
std::string samples(const std::string& rows, const SampleRowOptions& options = {}) {
  TemporaryFolder folder;
  const std::string path = folder.write("rows.jsonl", rows);
  std::string text;
  try {
    for (const RewardSample& sample : read_samples(path, options))
      text += (text.empty() ? "" : " | ") + std::to_string(sample.group) + " " + sample.prompt + " > " +
              sample.completion + (sample.truncated ? " (cut)" : "");
  } catch (const Error& error) {
    text = error.what();
    for (size_t at = text.find(folder.path()); at != text.npos; at = text.find(folder.path()))
      text.erase(at, folder.path().size() + 1);
  }
  return text;
}

}  // namespace

TEST_CASE("rows with completions") {
  CHECK(samples(R"({"prompt": "p", "completion": "c"})") == "0 p > c");
  CHECK(samples(R"({"prompt": "p", "completions": ["a", "b"]})"
                "\n"
                R"({"prompt": "q", "completion": "c", "finish": "length"})") ==
        "0 p > a | 0 p > b | 1 q > c (cut)");
  CHECK(
      samples(
          R"({"prompt": [{"role": "user", "content": "hi"}], "completion": [{"role": "assistant", "content": "c"}]})") ==
      "0 hi > c");
  CHECK(samples(R"({"completion": ""})") == "0  > ");
  CHECK(samples(R"({"question": "q", "out": {"text": "c"}})",
                {.prompt = "question", .completion = "out.text"}) == "0 q > c");
  CHECK(samples("{\"completion\": \"a\"}\n{\"completion\": \"b\"}", {.limit = 1}) == "0  > a");
}

TEST_CASE("the shapes of training data") {
  CHECK(
      samples(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})") ==
      "0 q > a");
  CHECK(samples(R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})") ==
        "0 q > a");
  CHECK(samples(R"({"instruction": "q", "input": "", "output": "a"})") == "0 q > a");
  CHECK(samples(R"({"prompt": "p", "chosen": "good", "rejected": "bad"})") == "0 p > good | 0 p > bad");
}

TEST_CASE("rows without a completion are named") {
  CHECK(samples(R"({"prompt": "p", "answer": "4"})") ==
        "rows.jsonl:1:1: the row has no completion, only prompt, answer");
  CHECK(samples("{\"completion\": \"a\"}\n{\"completion\": 3}\n[1]\n{\"completions\": [\"a\", 4]}") ==
        "rows.jsonl:2:16: completion is neither a text nor a list of texts\nrows.jsonl:3:1: the row is not an object\n"
        "rows.jsonl:4:23: a completion is not a text");
  CHECK(samples("{\"completion\": \"a\"").starts_with("rows.jsonl:1:"));
  CHECK(samples(R"({"messages": [{"role": "user", "content": "q"}]})") ==
        "rows.jsonl:1:1: the conversation does not end with an answer of the assistant");
  CHECK(samples("\n") == "rows.jsonl: holds no rows, expected at least one");
}
