#include "core/lib/io/safetensors.h"

#include <sys/stat.h>

#include "core/lib/base/file.h"
#include "tests/io/bytes.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns the message of opening a file with these bytes, without the folder; "no error".
std::string problem(const std::string& bytes, Data data = Data::required) {
  TemporaryFolder folder;
  std::string path = folder.write("x.safetensors", bytes);
  std::string message = error_of([&] { open_safetensors(path, data); });
  size_t at = 0;
  while ((at = message.find(folder.path() + "/")) != message.npos)
    message.erase(at, folder.path().size() + 1);
  return message;
}

std::string header_problem(const std::string& header, const std::string& data = "") {
  return problem(safetensors_bytes(header, data));
}

std::vector<SafetensorsEntry> entries_of(const SafetensorsFile& file) {
  std::vector<SafetensorsEntry> entries;
  for (size_t i = file.tensors().size(); i-- > 0;) entries.push_back({file.tensors()[i], file.bytes(i)});
  return entries;
}

}  // namespace

TEST_CASE("files of the Python package read, and write back to the same bytes") {
  for (std::string name : {"all_types", "metadata", "empty"}) {
    INFO(name);
    std::string path = golden(name + ".safetensors");
    auto file = open_safetensors(path);
    TemporaryFolder folder;
    write_safetensors(folder.path("copy"), entries_of(*file), file->metadata());
    CHECK(content_of(folder.path("copy")) == content_of(path));
  }
}

TEST_CASE("a file's tensors have names, types, shapes and bytes") {
  auto file = open_safetensors(golden("all_types.safetensors"));
  CHECK(file->tensors().size() == 28);
  auto scalar = static_cast<size_t>(file->find("scalar"));
  CHECK(file->tensors()[scalar].shape.empty());
  CHECK(file->bytes(scalar).size() == 4);
  auto nothing = static_cast<size_t>(file->find("nothing"));
  CHECK(file->tensors()[nothing].shape == std::vector<int64_t>{0, 5});
  CHECK(file->tensors()[nothing].dtype == DType::f16);
  CHECK(file->bytes(nothing).empty());
  CHECK(file->find("snow ☃ 😀") >= 0);
  CHECK(file->find("absent") == -1);
  CHECK(file->file_bytes() == file_size(golden("all_types.safetensors")));
  CHECK(file->header_hash().size() == 32);
  CHECK(open_safetensors(golden("metadata.safetensors"))->metadata().at("format") == "pt");
}

// The twelve negative tests of the reference implementation (safetensors/src/tensor.rs), in its
// order and by its names.
TEST_CASE("what the reference implementation refuses is refused") {
  using Catch::Contains;
  SECTION("gpt2-like lengths: test_gpt2_tiny is positive; a lying offset is not") {
    CHECK_THAT(header_problem("{" + entry("a", "F32", "[2]", 0, 4) + "}", "1234"), Contains("span 4 bytes"));
  }
  SECTION("test_empty_shapes_allowed: the byte count still counts") {
    CHECK(header_problem("{" + entry("a", "I32", "[]", 0, 4) + "}", "1234") == "no error");
    CHECK_THAT(header_problem("{" + entry("a", "I32", "[]", 0, 8) + "}", "12345678"),
               Contains("span 8 bytes"));
  }
  SECTION("test_metadata_incomplete_buffer: extra data after the tensors") {
    CHECK_THAT(header_problem("{" + entry("a", "I32", "[2,2]", 0, 16) + "}", std::string(16, 0) + "extra"),
               Contains("its header needs exactly"));
  }
  SECTION("test_metadata_incomplete_buffer: missing data") {
    CHECK_THAT(header_problem("{" + entry("a", "I32", "[2,2]", 0, 16) + "}", std::string(8, 0)),
               Contains("its header needs exactly"));
  }
  SECTION("test_header_too_large") {
    CHECK(problem(little<uint64_t>(~0ull)) ==
          "x.safetensors: not a safetensors file: its header would have "
          "18446744073709551615 bytes, the limit is 100,000,000");
    CHECK_THAT(problem(little<uint64_t>(100'000'001) + "{}"), Contains("the limit is 100,000,000"));
  }
  SECTION("test_header_too_small") {
    CHECK_THAT(problem(""), Contains("it has 0 bytes"));
    CHECK_THAT(problem("1234567"), Contains("it has 7 bytes, expected at least 8"));
  }
  SECTION("test_invalid_header_length") {
    CHECK_THAT(problem(little<uint64_t>(60)), Contains("the header has 60 bytes, but only 0 follow"));
  }
  SECTION("test_invalid_header_non_utf8") {
    CHECK_THAT(header_problem("\xff"), Contains("does not begin with '{'"));
    CHECK_THAT(header_problem("{\"\xff\":0}"), Contains("not valid UTF-8"));
  }
  SECTION("test_invalid_header_not_json") { CHECK_THAT(header_problem("{"), Contains("(header):1:")); }
  SECTION("test_zero_sized_tensor") {
    CHECK(header_problem("{" + entry("a", "I32", "[2,0]", 0, 0) + "}") == "no error");
  }
  SECTION("test_invalid_info: a zero-sized tensor with bytes") {
    CHECK_THAT(header_problem("{" + entry("a", "I32", "[2,0]", 0, 4) + "}", "1234"),
               Contains("span 4 bytes"));
  }
  SECTION("test_validation_overflow: of the shape, and of shape times dtype") {
    CHECK_THAT(
        header_problem("{" + entry("a", "I32", "[2,18446744073709551614]", 0, 16) + "}", std::string(16, 0)),
        Contains("expected sizes from 0"));
    CHECK_THAT(
        header_problem("{" + entry("a", "I32", "[4,4611686018427387904]", 0, 16) + "}", std::string(16, 0)),
        Contains("more elements than 64 bits can count"));
    CHECK_THAT(
        header_problem("{" + entry("a", "I32", "[2,3611686018427387904]", 0, 16) + "}", std::string(16, 0)),
        Contains("more bytes than 64 bits can count"));
  }
}

TEST_CASE("offsets follow each other from 0 without hole or overlap") {
  using Catch::Contains;
  std::string data(12, 0);
  CHECK(header_problem("{" + entry("b", "F32", "[1]", 4, 8) + "," + entry("a", "F32", "[1]", 0, 4) + "}",
                       data.substr(0, 8)) == "no error");
  CHECK(header_problem("{" + entry("a", "F32", "[1]", 0, 4) + "," + entry("b", "F32", "[1]", 8, 12) + "}",
                       data) == "x.safetensors: tensor \"b\": begins at 8, expected 4 (a hole)");
  CHECK_THAT(header_problem("{" + entry("a", "F32", "[1]", 4, 8) + "}", data.substr(0, 8)),
             Contains("(a hole)"));
  CHECK_THAT(header_problem(
                 "{" + entry("a", "F32", "[2]", 0, 8) + "," + entry("b", "F32", "[2]", 4, 12) + "}", data),
             Contains("tensor \"b\": begins at 4, expected 8 (it overlaps the one before)"));
  CHECK_THAT(
      header_problem("{" + entry("a", "F32", "[1]", 0, 4) + "," + entry("b", "F32", "[1]", 0, 4) + "}", data),
      Contains("overlaps"));
  CHECK_THAT(header_problem("{" + entry("a", "F32", "[1]", 4, 0) + "}", data), Contains("span -4 bytes"));
}

TEST_CASE("a header's keys, types and lists are what the format says") {
  using Catch::Contains;
  std::string a = entry("a", "F32", "[0]", 0, 0);
  CHECK_THAT(header_problem("{" + a + "," + a + "}"), Contains("\"a\" appears twice"));
  CHECK_THAT(header_problem(" {" + a + "}"), Contains("does not begin with '{'"));
  CHECK(header_problem("{" + a + "}     ") == "no error");
  CHECK_THAT(header_problem("{" + a + "}{}"), Contains("(header):1:"));
  CHECK(header_problem("{" + entry("a", "F4", "[0]", 0, 0) + "," + entry("b", "C64", "[0]", 0, 0) + "}") ==
        "x.safetensors: tensor \"a\": dtype \"F4\" is not supported, expected one of BOOL, U8, I8, F8_E5M2, "
        "F8_E4M3, F8_E8M0, "
        "I16, F16, BF16, I32, F32, F64, I64\n"
        "x.safetensors: tensor \"b\": dtype \"C64\" is not supported, expected one of BOOL, U8, I8, F8_E5M2, "
        "F8_E4M3, F8_E8M0, "
        "I16, F16, BF16, I32, F32, F64, I64");
  CHECK_THAT(header_problem("{" + entry("a", "F32", "[1.0]", 0, 4) + "}"), Contains("shape holds \"1.0\""));
  CHECK_THAT(header_problem("{" + entry("a", "F32", "[-1]", 0, 4) + "}"), Contains("shape holds \"-1\""));
  CHECK_THAT(header_problem("{" + entry("a", "F32", "3", 0, 4) + "}"),
             Contains("shape is missing or not a list"));
  CHECK_THAT(header_problem(R"({"a":{"dtype":"F32","shape":[]}})"), Contains("data_offsets is missing"));
  CHECK_THAT(header_problem(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4,8]}})"),
             Contains("not two offsets"));
  CHECK_THAT(header_problem(R"({"a":{"shape":[],"data_offsets":[0,4]}})"), Contains("dtype is missing"));
  CHECK_THAT(header_problem(R"({"a":3})"), Contains("expected an object with dtype"));
  CHECK_THAT(header_problem(R"({"__metadata__":{"a":1}})"), Contains("__metadata__ \"a\" is not a string"));
  CHECK_THAT(header_problem(R"({"__metadata__":[]})"), Contains("__metadata__ is not an object"));
  CHECK_THAT(header_problem("{\"a\":{\"shape\":" + std::string(100, '[')), Contains("nested deeper"));
}

TEST_CASE("many faults are all counted and ten are shown") {
  std::string header = "{";
  for (int i = 0; i < 25; ++i) header += (i ? "," : "") + entry(std::to_string(i), "F32", "[1]", 0, 3);
  CHECK_THAT(header_problem(header + "}"), Catch::EndsWith("… and 15 more"));
}

TEST_CASE("names from a file cannot write to the terminal") {
  CHECK_THAT(header_problem("{" + entry("\\u001b[2J", "F32", "[1]", 0, 3) + "}"),
             Catch::Contains("\"\\x1b[2J\""));
}

TEST_CASE("headers alone are enough for a plan") {
  TemporaryFolder folder;
  std::string header =
      "{" + entry("a", "F32", "[2]", 0, 8) + "," + entry("b", "BF16", "[1024,1024]", 8, 2097160) + "}";
  const std::string bytes = safetensors_bytes(header, std::string(8, 1));
  std::string path = folder.write("x.safetensors", bytes);
  const SafetensorsHeader read = parse_safetensors_header(bytes, path);
  CHECK(read.tensors.size() == 2);
  CHECK(read.file_bytes == static_cast<int64_t>(8 + header.size()) + 2097160);
  CHECK_THAT(error_of([&] { open_safetensors(path); }), Catch::Contains("its header needs exactly"));
  auto file = open_safetensors(path, Data::optional);
  CHECK(file->data_missing());
  CHECK(file->bytes(0) == std::string(8, 1));
  CHECK_THAT(error_of([&] { file->bytes(1); }), Catch::Contains("the data of tensor \"b\" is not there"));
  CHECK_THAT(problem(safetensors_bytes("{}", "x"), Data::optional), Catch::Contains("exactly"));
  CHECK_FALSE(open_safetensors(golden("all_types.safetensors"), Data::optional)->data_missing());
}

TEST_CASE("a writer replaces the file whose mapping it reads, and litters nothing") {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  std::string values = little(1.0f) + little(2.0f);
  write_safetensors(path, {{{"w", {2}, DType::f32}, values}}, {{"format", "pt"}});
  auto file = open_safetensors(path);
  write_safetensors(path, entries_of(*file), {{"step", "2"}});
  auto second = open_safetensors(path);
  CHECK(second->bytes(0) == values);
  CHECK(file->bytes(0) == values);
  CHECK(second->metadata().at("step") == "2");
  size_t files = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(folder.path())) ++files;
  CHECK(files == 1);
  CHECK_THROWS(write_safetensors(path, {{{"w", {3}, DType::f32}, values}}));
  CHECK(open_safetensors(path)->metadata().at("step") == "2");
  CHECK_THAT(error_of([&] { write_safetensors(folder.path("none/w"), std::vector<SafetensorsEntry>{}); }),
             Catch::Contains("cannot create"));
}

TEST_CASE("pickles and pipes are refused whatever they are called") {
  CHECK_THAT(problem("PK\x03\x04 archive/data.pkl"), Catch::Contains("is a pickle"));
  CHECK_THAT(problem(std::string("\x80\x02}q\x00", 5) + "abcdefgh"), Catch::Contains("is a pickle"));
  TemporaryFolder folder;
  REQUIRE(mkfifo(folder.path("pipe.safetensors").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { open_safetensors(folder.path("pipe.safetensors")); }),
             Catch::Contains("not a regular file"));
}
