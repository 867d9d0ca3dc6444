// Thousands of broken files, the same ones in every run: each is either read or refused with an
// Error. Under the sanitizers (cmake -DFORGE_SANITIZE=ON) this shows that no reader accesses memory
// outside of its file.
#include <array>

#include "core/lib/base/random.h"
#include "core/lib/io/byte_reader.h"
#include "core/lib/io/gguf_tensors.h"
#include "core/lib/io/model_file.h"
#include "core/lib/io/safetensors.h"
#include "tests/io/bytes.h"
#include "tests/io/pack.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Reads all contents of a file.
void read_all(const TensorFile& file) {
  std::vector<float> values;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    values.resize(static_cast<size_t>(file.tensors()[i].count()));
    file.read_f32(i, values.data());
    REQUIRE(file.find(file.tensors()[i].name) >= 0);
  }
}

template <class Action>
bool read_or_refused(Action action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    REQUIRE(error.kind() != ErrorKind::internal);
    REQUIRE(std::string(error.what()).size() > 10);
    return false;
  }
}

void read_gguf(const std::string& path) {
  read_or_refused([&] {
    Gguf gguf(path);
    for (const std::string& key : gguf.keys()) {
      read_or_refused([&] { gguf.get_int(key, 0); });
      read_or_refused([&] { gguf.get_number(key, 0); });
      read_or_refused([&] { gguf.get_bool(key, false); });
      read_or_refused([&] { gguf.get_string(key, ""); });
      read_or_refused([&] { gguf.get_ints(key); });
      read_or_refused([&] { gguf.get_numbers(key); });
      read_or_refused([&] { gguf.get_strings(key); });
    }
  });
  read_or_refused([&] {
    auto file = open_gguf(path);
    file->rope_factors();
    read_all(*file);
  });
  read_or_refused([&] { open_gguf(path, Data::optional); });
}

void read_safetensors(const std::string& path) {
  read_or_refused([&] { read_all(*open_safetensors(path)); });
  read_or_refused([&] { read_all(*open_safetensors(path, Data::optional)); });
}

// Calls `read` for every position with every kind of damage, every length, and pairs of random
// damage.
template <class Read>
void mutate(const std::string& bytes, Read read) {
  TemporaryFolder folder;
  const std::string path = folder.path("x");
  auto attempt = [&](const std::string& broken) {
    std::filesystem::remove(path);  // truncating in place would wait for the disk
    folder.write("x", broken);
    read(path);
  };
  attempt(bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    attempt(bytes.substr(0, i));
    for (int xored : {0x01, 0x02, 0x20, 0x80, 0xff}) {
      std::string broken = bytes;
      broken[i] = static_cast<char>(broken[i] ^ xored);
      attempt(broken);
    }
  }
  for (size_t i = 0; i + 8 <= bytes.size(); ++i) {
    for (uint64_t word : {0ull, 1ull << 31, 1ull << 62, ~0ull, ~0ull >> 1}) {
      std::string broken = bytes;
      std::memcpy(broken.data() + i, &word, 8);
      attempt(broken);
    }
  }
  for (uint64_t round = 0; round < 2000; ++round) {
    std::string broken = bytes;
    for (uint32_t word : philox(5, stream_of("mutation"), round))
      broken[word % bytes.size()] ^= static_cast<char>(word >> 24);
    attempt(broken);
  }
}

std::string small_gguf() {
  GgufBytes file;
  file.string_key("general.architecture", "llama").u32_key("llama.attention.head_count", 2);
  file.key("s", 9, little(8u) + little<uint64_t>(2) + GgufBytes::text("ab") + GgufBytes::text(""));
  file.key("n", 9, little(6u) + little<uint64_t>(2) + little(1.0f) + little(2.0f)).key("b", 7, "\1");
  file.key("a", 9, little(9u) + little<uint64_t>(1) + little(0u) + little<uint64_t>(1) + "x");
  file.f32("blk.0.attn_q.weight", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  file.entry("output.weight", {32, 1}, 3, 32);
  file.data += std::string(32, '\x11');
  file.entry("rope_freqs.weight", {2}, 0, 64);
  file.data += little(1.0f) + little(8.0f);
  return file.bytes();
}

}  // namespace

TEST_CASE("a damaged GGUF is read or refused") {
  TemporaryFolder folder;
  REQUIRE(open_gguf(folder.write("x", small_gguf()))->tensors().size() == 2);
  mutate(small_gguf(), read_gguf);
}

TEST_CASE("a damaged safetensors file is read or refused") {
  mutate(safetensors_bytes("{\"__metadata__\":{\"a\":\"b\"}," + entry("w", "F16", "[2,3]", 0, 12) + "," +
                               entry("v", "BOOL", "[1]", 12, 13) + "}  ",
                           std::string(13, '\1')),
         read_safetensors);
}

TEST_CASE("a damaged index of shards is read or refused") {
  TemporaryFolder folder;
  folder.write("s.safetensors", safetensors_bytes("{" + entry("a", "U8", "[1]", 0, 1) + "}", "x"));
  const std::string index = R"({"metadata":{},"weight_map":{"a":"s.safetensors"}})";
  for (size_t i = 0; i < index.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string broken = index;
      broken[i] = static_cast<char>(byte);
      std::filesystem::remove(folder.path("model.safetensors.index.json"));
      folder.write("model.safetensors.index.json", broken);
      read_or_refused([&] { read_all(*open_model(folder.path())); });
    }
  }
}

TEST_CASE("damaged lines are read or refused") {
  mutate("\xef\xbb\xbf{\"a\": \"é😀\"}\r\n\n[1, 2]\nlast", [](const std::string& path) {
    read_or_refused([&] {
      ByteReader reader(path);
      int64_t bytes = 0;
      for (std::string line; reader.read_line(line, 1 << 20);) bytes += static_cast<int64_t>(line.size());
      REQUIRE(bytes <= reader.file_position());
    });
  });
}

TEST_CASE("damaged compressed files are read or refused") {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "{\"row\": " + std::to_string(i * i) + "}\n";
  for (const std::string& packed : {gzip_of(text), zstd_of(text), gzip_of("a\n") + gzip_of("b\n")})
    mutate(packed, [](const std::string& path) {
      read_or_refused([&] {
        ByteReader reader(path);
        for (std::string line; reader.read_line(line, 1 << 20);) REQUIRE(line.size() <= (1 << 21));
      });
    });
}
