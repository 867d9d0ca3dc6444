#include "core/lib/io/gguf.h"

#include <sys/stat.h>

#include <ctime>

#include "tests/io/bytes.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string problem(const std::string& bytes, Data data = Data::required) {
  TemporaryFolder folder;
  std::string path = folder.write("x.gguf", bytes);
  std::string message = error_of([&] { Gguf(path, data); });
  for (size_t at = 0; (at = message.find(folder.path() + "/")) != message.npos;)
    message.erase(at, folder.path().size() + 1);
  return message;
}

GgufBytes small() {
  GgufBytes file;
  return file.string_key("general.architecture", "llama")
      .f32("a.weight", {2}, {1, 2})
      .f32("b.weight", {1}, {3});
}

std::string array(uint32_t element, uint64_t count, const std::string& elements = "") {
  return little(element) + little(count) + elements;
}

}  // namespace

TEST_CASE("metadata of every type reads as the gguf package wrote it") {
  Gguf gguf(golden("types.gguf"));
  CHECK(gguf.architecture() == "llama");
  CHECK(gguf.get_int("test.u8", 0) == 200);
  CHECK(gguf.get_int("test.i8", 0) == -100);
  CHECK(gguf.get_int("test.u16", 0) == 60000);
  CHECK(gguf.get_int("test.i16", 0) == -30000);
  CHECK(gguf.get_int("test.u32", 0) == 4'000'000'000);
  CHECK(gguf.get_int("test.i32", 0) == -2'000'000'000);
  CHECK(gguf.get_int("test.u64", 0) == INT64_MAX);
  CHECK(gguf.get_int("test.i64", 0) == INT64_MIN);
  CHECK(gguf.get_number("test.f32", 0) == 0.5);
  CHECK(gguf.get_number("test.f64", 0) == 1e300);
  CHECK(gguf.get_number("test.u8", 0) == 200);
  CHECK(gguf.get_bool("test.bool", false));
  CHECK(gguf.get_string("test.string", "") == "naïve 😀");
  CHECK(gguf.get_ints("test.ints") == std::vector<int64_t>{1, -2, 3});
  CHECK(gguf.get_numbers("test.floats") == std::vector<double>{0.5, -1.5});
  CHECK(gguf.get_numbers("test.ints") == std::vector<double>{1, -2, 3});
  CHECK(gguf.get_strings("test.strings") == std::vector<std::string>{"a", "", "é"});
  CHECK(gguf.keys().front() == "general.architecture");
}

TEST_CASE("an absent key is its default, and a wrong type or a missing key is named") {
  Gguf gguf(golden("types.gguf"));
  auto message = [&](auto action) {
    std::string text = error_of(action);
    return text.substr(text.find("types.gguf"));
  };
  CHECK(gguf.get_int("absent", 7) == 7);
  CHECK(gguf.get_string("absent", "x") == "x");
  CHECK(gguf.get_strings("absent").empty());
  CHECK(message([&] { gguf.require_number("absent"); }) == "types.gguf: the key absent is missing");
  CHECK(message([&] { gguf.get_int("test.string", 0); }) ==
        "types.gguf: test.string is of type string, expected an integer");
  CHECK(message([&] { gguf.get_int("test.too_large", 0); }) ==
        "types.gguf: test.too_large does not fit a signed 64-bit integer");
  CHECK(message([&] { gguf.get_string("test.u8", ""); }) ==
        "types.gguf: test.u8 is of type uint8, expected a string");
  CHECK(message([&] { gguf.get_strings("test.ints"); }) ==
        "types.gguf: test.ints is of type array of int32, expected an array of strings");
  CHECK_THAT(message([&] { gguf.get_bool("test.u8", false); }), Catch::Contains("not a bool"));
  CHECK_THAT(message([&] { gguf.get_number("test.string", 0); }), Catch::Contains("not a finite number"));
  CHECK_THAT(message([&] { gguf.get_numbers("test.strings"); }),
             Catch::Contains("expected an array of numbers"));
  CHECK_THAT(message([&] { gguf.get_ints("test.bools"); }), Catch::Contains("expected an array of integers"));
}

TEST_CASE("the table of tensors has PyTorch's shapes, and version 2 reads as version 3") {
  GgufBytes file = small();
  file.f32("c.weight", {3, 2}, {1, 2, 3, 4, 5, 6});
  for (uint32_t version : {2u, 3u}) {
    file.version = version;
    TemporaryFolder folder;
    Gguf gguf(folder.write("x.gguf", file.bytes()));
    REQUIRE(gguf.tensors().size() == 3);
    CHECK(gguf.tensors()[2].shape == std::vector<int64_t>{2, 3});
    CHECK(gguf.bytes(gguf.tensors()[1]) == little(3.0f));
    CHECK(gguf.tensors()[1].begin % 32 == 0);
  }
}

TEST_CASE("not a GGUF, another version, another byte order") {
  using Catch::Contains;
  CHECK_THAT(problem(""), Contains("not a GGUF file"));
  CHECK_THAT(problem("GGU"), Contains("not a GGUF file"));
  CHECK_THAT(problem("GGUF"), Contains("the version needs 4 bytes, but only 0 are left"));
  CHECK_THAT(problem("GGUF" + little(1u)), Contains("GGUF version 1, forge reads versions 2 and 3"));
  CHECK_THAT(problem("GGUF" + little(4u)), Contains("GGUF version 4"));
  CHECK_THAT(problem("GGUF" + little(0x03000000u)), Contains("big-endian"));
  CHECK_THAT(problem("PK\x03\x04" + std::string(20, 'x')), Contains("is a pickle"));
  TemporaryFolder folder;
  REQUIRE(mkfifo(folder.path("pipe.gguf").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { Gguf(folder.path("pipe.gguf")); }), Contains("not a regular file"));
}

TEST_CASE("a count that the file cannot hold is refused before anything is allocated") {
  const std::clock_t started = std::clock();
  for (uint64_t count :
       {1ull << 31, 1ull << 32, 1ull << 62, 1ull << 63, ~0ull, ~0ull / 13 + 1, ~0ull / 24 + 1}) {
    INFO(count);
    GgufBytes keys = small(), tensors = small();
    keys.num_keys = count;
    CHECK_THAT(problem(keys.bytes()), Catch::Contains("the number of keys is " + std::to_string(count)));
    tensors.num_tensors = count;
    CHECK_THAT(problem(tensors.bytes()),
               Catch::Contains("the number of tensors is " + std::to_string(count)));
    GgufBytes text;
    text.key("k", 8, little(count) + "abc");
    CHECK_THAT(problem(text.bytes()), Catch::Contains("a string is " + std::to_string(count)));
    GgufBytes name;
    name.keys = little(count) + std::string(30, 'k');
    name.num_keys = 1;
    CHECK_THAT(problem(name.bytes()), Catch::Contains("a key is " + std::to_string(count)));
    for (uint32_t element = 0; element < 13; ++element) {
      GgufBytes list;
      list.key("k", 9, array(element, count, "abcdefgh"));
      CHECK_THAT(problem(list.bytes()),
                 Catch::Contains("the length of an array is " + std::to_string(count)));
    }
  }
  CHECK(std::clock() - started < 5 * CLOCKS_PER_SEC);
}

TEST_CASE("a count one too large for the bytes that are left is refused as a count") {
  for (uint32_t element : {4u, 8u, 9u, 10u}) {  // u32, strings and arrays (their own length at least), u64
    const uint64_t count = element == 4 ? 13 : element == 9 ? 5 : 7;
    CHECK_THAT(problem(GgufBytes().key("k", 9, array(element, count, std::string(48, '\0'))).header()),
               Catch::Contains("the length of an array is " + std::to_string(count) + ", but only 48 bytes are left"));
  }
}

TEST_CASE("a file of 43 bytes that promises keys without end is refused at once") {
  std::string file =
      "GGUF" + little(3u) + little<uint64_t>(0) + little<uint64_t>(1ull << 60) + std::string(19, '\0');
  REQUIRE(file.size() == 43);
  CHECK_THAT(problem(file),
             Catch::Contains("the number of keys is 1152921504606846976, but only 19 bytes are left"));
  file = "GGUF" + little(3u) + little<uint64_t>(0) + little<uint64_t>(1) + std::string(19, '\0');
  CHECK_THAT(problem(file), Catch::Contains("a key is empty"));
}

TEST_CASE("value and element types are checked before they are used") {
  using Catch::Contains;
  CHECK_THAT(problem(GgufBytes().key("k", 13, "12345678").bytes()), Contains("unknown value type 13"));
  CHECK_THAT(problem(GgufBytes().key("k", 0xffffffff, "12345678").bytes()),
             Contains("unknown value type 4294967295"));
  CHECK_THAT(problem(GgufBytes().key("k", 9, array(13, 0)).bytes()), Contains("unknown value type 13"));
  CHECK_THAT(problem(GgufBytes().key("k", 9, array(0x80000000, 1, "x")).bytes()),
             Contains("unknown value type"));
  std::string nested = array(0, 1, "x");
  for (int i = 0; i < 3; ++i) nested = array(9, 1, nested);
  CHECK(problem(GgufBytes().key("k", 9, nested).bytes()) == "no error");
  CHECK_THAT(problem(GgufBytes().key("k", 9, array(9, 1, nested)).bytes()), Contains("nested deeper than 4"));
  CHECK_THAT(problem(GgufBytes().u32_key("k", 1).u32_key("k", 1).bytes()),
             Contains("the key \"k\" appears twice"));
  CHECK_THAT(problem(GgufBytes().u32_key(std::string(65536, 'k'), 1).bytes()),
             Contains("the limit is 65535"));
  CHECK_THAT(problem(GgufBytes().u32_key("\xff", 1).bytes()), Contains("a key is not text: \"\\xff\""));
}

TEST_CASE("alignment is a power of two") {
  for (uint32_t alignment : {0u, 3u, 24u, 0x80000000u, 0xffffffffu}) {
    INFO(alignment);
    CHECK_THAT(problem(small().u32_key("general.alignment", alignment).bytes()),
               Catch::Contains("expected a power of two"));
  }
  CHECK_THAT(problem(small().string_key("general.alignment", "32").bytes()),
             Catch::Contains("expected an integer"));
  GgufBytes file;
  file.alignment = 8;
  CHECK(problem(file.u32_key("general.alignment", 8).f32("a", {1}, {1}).f32("b", {1}, {1}).bytes()) ==
        "no error");
}

TEST_CASE("tensors whose sizes lie are refused") {
  using Catch::Contains;
  auto one = [](const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset = 0) {
    GgufBytes file;
    file.entry("t", shape, type, offset);
    file.data = std::string(64, 0);
    return problem(file.bytes());
  };
  CHECK(one({16}, 0) == "no error");
  CHECK(one({}, 0) == "no error");
  CHECK(one({0}, 0) == "no error");
  CHECK_THAT(one({17}, 0), Contains("x.gguf: has 128 bytes, but its last tensor ends at 132"));
  CHECK_THAT(one({1ull << 31, 1ull << 33}, 0), Contains("more elements than 64 bits"));
  CHECK_THAT(one({1ull << 62}, 0), Contains("more bytes than 64 bits"));
  CHECK_THAT(one({1ull << 60}, 0), Contains("its last tensor ends at"));
  CHECK_THAT(one({(1ull << 61) - 4}, 0), Contains("2^63"));
  CHECK_THAT(one({1ull << 63}, 0), Contains("has the dimension 9223372036854775808"));
  CHECK_THAT(one({~0ull}, 0), Contains("has the dimension 18446744073709551615"));
  CHECK_THAT(one({1, 1, 1, 1, 1}, 0), Contains("has 5 dimensions, the limit is 4"));
  CHECK_THAT(one({33}, 3), Contains("q4_1 [33], has rows that are not whole blocks of 32"));
  CHECK_THAT(one({16, 2}, 2), Contains("not whole blocks of 32"));
  CHECK_THAT(one({128}, 14), Contains("not whole blocks of 256"));
  CHECK_THAT(one({16}, 0, 32), Contains("begins at 32 of the data, expected 0"));
  CHECK_THAT(one({16}, 0, ~0ull), Contains("begins at 18446744073709551615"));
  CHECK_THAT(one({16}, 99), Contains("tensor \"t\" has the unknown type 99"));
  GgufBytes overlap;
  overlap.entry("a", {16}, 0, 0).entry("b", {16}, 0, 0);
  overlap.data = std::string(128, 0);
  CHECK_THAT(problem(overlap.bytes()), Contains("tensor \"b\" begins at 0 of the data, expected 64"));
  GgufBytes twice;
  twice.entry("a", {16}, 0, 0).entry("a", {16}, 0, 64);
  CHECK_THAT(problem(twice.bytes()), Contains("tensor \"a\" appears twice"));
  GgufBytes dimensions;
  dimensions.table = GgufBytes::text("t") + little(0xffffffffu) + std::string(64, '\1');
  dimensions.num_tensors = 1;
  CHECK_THAT(problem(dimensions.bytes()), Contains("4294967295 dimensions"));
}

TEST_CASE("types that forge cannot read are all named") {
  GgufBytes file;
  file.entry("a", {256}, 10, 0).entry("b", {32}, 20, 84).entry("c", {64}, 40, 116);
  CHECK(problem(file.bytes()) ==
        "x.gguf: tensor \"a\" is of type Q2_K\nx.gguf: tensor \"b\" is of type IQ4_NL\n"
        "x.gguf: tensor \"c\" is of type NVFP4");
}

namespace {

// Returns part `number` of `count`, with a tensor `name` of two values.
std::string part_of_split(const std::string& name, uint16_t number, uint16_t count,
                          int32_t tensors = 3) {
  GgufBytes file;
  if (number == 0) file.string_key("general.architecture", "llama");
  file.key("split.no", 2, little(number)).key("split.count", 2, little(count));
  file.key("split.tensors.count", 5, little(tensors));
  return file.f32(name, {2}, {static_cast<float>(number), 5}).bytes();
}

}  // namespace

TEST_CASE("a split GGUF opens by its first part, with the tensors of all") {
  TemporaryFolder folder;
  const char* names[] = {"a.weight", "b.weight", "c.weight"};
  int64_t bytes = 0;
  for (uint16_t i = 0; i < 3; ++i) {
    const std::string part = part_of_split(names[i], i, 3);
    bytes += static_cast<int64_t>(part.size());
    folder.write("m-0000" + std::to_string(i + 1) + "-of-00003.gguf", part);
  }
  const Gguf gguf(folder.path("m-00001-of-00003.gguf"));
  CHECK(gguf.architecture() == "llama");
  CHECK(gguf.file_bytes() == bytes);
  CHECK(gguf.further_parts().size() == 2);
  REQUIRE(gguf.tensors().size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(gguf.tensors()[i].name == names[i]);
    float values[2];
    decode_to_f32(DType::f32, gguf.bytes(gguf.tensors()[i]).data(), 2, values);
    CHECK(values[0] == static_cast<float>(i));
  }
  CHECK_THAT(error_of([&] { Gguf(folder.path("m-00002-of-00003.gguf")); }),
             Catch::Contains("is part 2 of 3"));
  const std::string hash = gguf.header_hash();
  folder.write("m-00003-of-00003.gguf", part_of_split("d.weight", 2, 3));
  CHECK(Gguf(folder.path("m-00001-of-00003.gguf")).header_hash() != hash);
}

TEST_CASE(
    "parts of a split GGUF that are missing, of another split or named otherwise are refused") {
  TemporaryFolder folder;
  const auto first = folder.write("m-00001-of-00002.gguf", part_of_split("a.weight", 0, 2, 2));
  const auto error = [&] { return error_of([&] { Gguf gguf(first); }); };
  CHECK_THAT(error(), Catch::Contains("m-00002-of-00002.gguf is not beside it"));
  folder.write("m-00002-of-00002.gguf", part_of_split("b.weight", 1, 3, 2));
  CHECK_THAT(error(), Catch::Contains("is part 2 of 3, expected part 2 of 2"));
  folder.write("m-00002-of-00002.gguf", part_of_split("a.weight", 1, 2, 2));
  CHECK_THAT(error(), Catch::Contains("\"a.weight\" is in two parts"));
  const std::string whole = part_of_split("b.weight", 1, 2, 2);
  folder.write("m-00002-of-00002.gguf", whole.substr(0, whole.size() - 40));
  CHECK_THAT(error(), Catch::Contains("but its last tensor ends at"));
  CHECK(Gguf(first, Data::optional).data_missing());
  folder.write("m-00002-of-00002.gguf", whole);
  CHECK(error() == "no error");
  folder.write("m-00001-of-00002.gguf", part_of_split("a.weight", 0, 2, 7));
  CHECK_THAT(error(), Catch::Contains("hold 2 tensors, expected 7"));
  CHECK_THAT(problem(part_of_split("a.weight", 0, 2)),
             Catch::Contains("does not end with -00001-of-00002.gguf"));
}

TEST_CASE("a GGUF without its data is good for planning alone") {
  TemporaryFolder folder;
  std::string bytes = small().bytes();
  std::string path = folder.write("x.gguf", bytes.substr(0, bytes.size() - 40));
  CHECK_THAT(error_of([&] { Gguf(path, Data::required); }), Catch::Contains("but its last tensor ends at"));
  Gguf gguf(path, Data::optional);
  CHECK(gguf.data_missing());
  CHECK_THAT(error_of([&] { gguf.bytes(gguf.tensors()[1]); }), Catch::Contains("is not there"));
  CHECK_FALSE(Gguf(golden("types.gguf"), Data::optional).data_missing());
}
