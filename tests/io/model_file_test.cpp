#include "core/lib/io/model_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/lib/io/safetensors.h"
#include "tests/io/bytes.h"
#include "tests/test.h"

using namespace forge;

namespace {

const char* const kIndex = "model.safetensors.index.json";

std::string one_tensor(const std::string& name) {
  return safetensors_bytes("{" + entry(name, "F32", "[1]", 0, 4) + "}", little(1.0f));
}

// Returns the message of opening the folder, without its path.
std::string problem(const TemporaryFolder& folder) {
  std::string message = error_of([&] { open_model(folder.path()); });
  size_t at = 0;
  while ((at = message.find(folder.path())) != message.npos) message.erase(at, folder.path().size());
  return message;
}

std::string hint(const std::string& path) {
  try {
    open_model(path);
  } catch (const Error& error) {
    return error.hint();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a folder is its model.safetensors, or its index and shards, or nothing") {
  TemporaryFolder folder;
  CHECK_THAT(problem(folder), Catch::Contains("holds no weights, expected model.safetensors"));
  folder.write("model-00001-of-00002.safetensors", one_tensor("a"));
  CHECK_THAT(problem(folder),
             Catch::Contains("but neither model.safetensors nor model.safetensors.index.json"));
  folder.write("model-00002-of-00002.safetensors", one_tensor("b"));
  folder.write(kIndex, R"({"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
                       R"("b":"model-00002-of-00002.safetensors"}})");
  auto model = open_model(folder.path());
  CHECK(model->tensors().size() == 2);
  CHECK(model->bytes(static_cast<size_t>(model->find("b"))) == little(1.0f));
  CHECK(model->file_bytes() == 2 * static_cast<int64_t>(one_tensor("a").size()));
  std::string hash = model->header_hash();
  folder.write("model.safetensors", one_tensor("whole"));
  CHECK(open_model(folder.path())->find("whole") == 0);
  CHECK(open_model(folder.path())->header_hash() != hash);
  CHECK(model_format(folder.path()) == ModelFormat::hugging_face);
}

TEST_CASE(
    "files beside a model's weights are not read, and say what is missing where they are alone") {
  TemporaryFolder folder;
  folder.write("consolidated.safetensors", one_tensor("layers.0.wq"));
  CHECK_THAT(problem(folder),
             Catch::Contains("weights under Mistral's own names, expected model.safetensors"));
  folder.write("model.safetensors", one_tensor("a"));
  folder.write("pytorch_model.bin", std::string("\x80\x02") + "}q.");
  folder.write("adapter_model.safetensors", one_tensor("base_model.model.a"));
  folder.write("model-00003-of-00002.safetensors", one_tensor("stray"));
  const auto model = open_model(folder.path());
  REQUIRE(model->tensors().size() == 1);
  CHECK(model->tensors()[0].name == "a");
  CHECK(weight_file_names(folder.path()) == std::vector<std::string>{"model.safetensors"});
  std::filesystem::rename(folder.path("model.safetensors"), folder.path("s1.safetensors"));
  folder.write(kIndex, R"({"weight_map":{"a":"s1.safetensors"}})");
  CHECK(open_model(folder.path())->tensors().size() == 1);
}

TEST_CASE("a GGUF is known by its first bytes") {
  CHECK(model_format(golden("types.gguf")) == ModelFormat::gguf);
  CHECK(open_model(golden("types.gguf"))->find("lm_head.weight") >= 0);
  TemporaryFolder folder;
  CHECK(open_model(folder.write("noname", content_of(golden("types.gguf"))))->find("lm_head.weight") >= 0);
  CHECK_THAT(error_of([&] { open_model(folder.write("x.gguf", "hello, world")); }),
             Catch::Contains("neither a Hugging Face folder nor a GGUF file"));
  CHECK_THAT(error_of([&] { open_model(folder.path("absent")); }),
             Catch::Contains("there is no such file or folder"));
  folder.write("y.gguf", "");
  CHECK_THAT(hint(folder.path()), Catch::StartsWith("write model.path: "));
  CHECK(hint(folder.write("model.safetensors", one_tensor("a"))) == "write model.path: " + folder.path());
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { open_model(folder.path("pipe")); }), Catch::Contains("not a regular file"));
}

TEST_CASE("index and shards agree on every tensor") {
  using Catch::Contains;
  TemporaryFolder folder;
  folder.write("s1.safetensors", one_tensor("a"));
  folder.write("s2.safetensors", one_tensor("b"));
  auto with = [&](const std::string& map) {
    folder.write(kIndex, "{\"weight_map\":" + map + "}");
    return problem(folder);
  };
  CHECK(with(R"({"a":"s1.safetensors","b":"s2.safetensors"})") == "no error");
  CHECK_THAT(with(R"({"a":"s1.safetensors","b":"s2.safetensors","c":"s2.safetensors"})"),
             Contains("tensor \"c\" is missing from s2.safetensors"));
  CHECK_THAT(with(R"({"a":"s1.safetensors","c":"s2.safetensors"})"),
             Contains("tensor \"c\" is missing from s2.safetensors") &&
                 Contains("tensor \"b\" of s2.safetensors is not in the index"));
  CHECK_THAT(with(R"({"a":"s2.safetensors","b":"s1.safetensors"})"),
             Contains("tensor \"a\" is in s1.safetensors, expected in s2.safetensors"));
  CHECK_THAT(
      with(R"({"a":"s1.safetensors","b":"s3.safetensors","c":"s4.safetensors"})"),
      Contains("the shard s3.safetensors is not in the folder") && Contains("the shard s4.safetensors"));
  CHECK_THAT(with(R"({"a":"s1.safetensors","a":"s2.safetensors"})"), Contains("appears twice"));
  CHECK_THAT(with(R"({"a":3})"), Contains("expected the name of a shard"));
  CHECK_THAT(with("{}"), Contains("weight_map names no tensor"));
  CHECK_THAT(with("[]"), Contains("expected an object with \"weight_map\""));
  folder.write("s2.safetensors", one_tensor("a"));
  CHECK_THAT(with(R"({"a":"s1.safetensors","b":"s2.safetensors"})"),
             Contains("tensor \"a\" is in s1.safetensors and also in s2.safetensors"));
  folder.write("s2.safetensors", one_tensor("b").substr(0, 40));
  CHECK_THAT(with(R"({"a":"s1.safetensors","b":"s2.safetensors"})"),
             Contains("s2.safetensors: the header has"));
}

TEST_CASE("a shard's name stays in the folder") {
  using Catch::Contains;
  TemporaryFolder outside, folder;
  outside.write("w.safetensors", one_tensor("a"));
  for (std::string name : {"../w.safetensors", "/etc/passwd", "sub/w.safetensors", "..", ".", "", "-rf",
                           "a\\\\b", "a\\u0000b.safetensors"}) {
    INFO(name);
    folder.write(kIndex, "{\"weight_map\":{\"a\":\"" + name + "\"}}");
    CHECK_THAT(problem(folder), Contains("is not a plain file name in the same folder"));
  }
  folder.write(kIndex, R"({"weight_map":{"a":"link.safetensors"}})");
  REQUIRE(symlink(outside.path("w.safetensors").c_str(), folder.path("link.safetensors").c_str()) == 0);
  CHECK_THAT(problem(folder), Contains("outside its folder"));
  unlink(folder.path("link.safetensors").c_str());
  REQUIRE(mkfifo(folder.path("link.safetensors").c_str(), 0600) == 0);
  CHECK_THAT(problem(folder), Contains("not a regular file"));
  unlink(folder.path("link.safetensors").c_str());
  std::filesystem::create_directory(folder.path("link.safetensors"));
  CHECK_THAT(problem(folder), Contains("is a folder"));
  std::filesystem::remove(folder.path("link.safetensors"));
  folder.write("real.safetensors", one_tensor("a"));
  REQUIRE(symlink("real.safetensors", folder.path("link.safetensors").c_str()) == 0);
  CHECK(problem(folder) == "no error");
}

TEST_CASE("a Hugging Face cache links its snapshots to its blobs") {
  TemporaryFolder cache;
  cache.write("blobs/0123", one_tensor("a"));
  cache.write("snapshots/main/model.safetensors.index.json", R"({"weight_map":{"a":"s.safetensors"}})");
  std::string shard = cache.path("snapshots/main/s.safetensors");
  REQUIRE(symlink("../../blobs/0123", shard.c_str()) == 0);
  CHECK(open_model(cache.path("snapshots/main"))->find("a") == 0);
}

TEST_CASE("pickled models are refused with the command that converts them") {
  for (std::string name :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "consolidated.00.pth"}) {
    INFO(name);
    TemporaryFolder folder;
    folder.write(name, "anything");
    CHECK_THAT(problem(folder),
               Catch::Contains(name + ": is a pickle, a program that runs when it is loaded"));
    CHECK_THAT(hint(folder.path()), Catch::Contains("save_pretrained('" + folder.path() + "-safetensors')"));
    CHECK_THAT(error_of([&] { open_model(folder.path(name)); }), Catch::Contains("is a pickle"));
  }
  TemporaryFolder pointer;
  pointer.write("pytorch_model.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  CHECK_THAT(problem(pointer), Catch::Contains("pytorch_model.bin: is a Git LFS pointer"));
  TemporaryFolder folder;
  folder.write("model.safetensors", std::string("PK\x03\x04") + std::string(30, '\0'));
  CHECK_THAT(problem(folder), Catch::Contains("model.safetensors: is a pickle"));
  CHECK_THAT(error_of([&] {
               open_model(folder.write("x.gguf", std::string("\x80\x04\x95") + std::string(30, '\0')));
             }),
             Catch::Contains("is a pickle"));
  folder.write("model.safetensors", one_tensor("a"));
  folder.write("pytorch_model.bin", "anything");
  CHECK(problem(folder) == "no error");
  TemporaryFolder index;
  index.write(kIndex, R"({"weight_map":{"a":"pytorch_model-00001-of-00001.bin"}})");
  CHECK_THAT(problem(index), Catch::Contains("is a pickle"));
}
