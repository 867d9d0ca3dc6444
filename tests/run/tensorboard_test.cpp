// The golden was read back, value by value, with tensorboard's EventAccumulator by
// tests/parity/check_tensorboard.py.
#include "core/run/tensorboard.h"

#include "core/lib/base/file.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string content(const std::string& path) { return read_file(path, 1 << 20, ErrorKind::environment); }

// Writes the contents of tests/run/goldens/events.bin.
void write_sample(TensorBoardWriter& writer) {
  writer.scalar("train/loss", 1, 4.25, 1700000001.5);
  writer.scalar("train/loss", 2, 3.5, 1700000002.5);
  writer.scalar("eval/loss", 300, 1e-30, 1700000003);
  writer.text("samples", 2, "**before** ümlaut", 1700000004);
}

}  // namespace

TEST_CASE("CRC-32C has the values of RFC 3720") {
  CHECK(crc32c("") == 0u);
  CHECK(crc32c("123456789") == 0xE3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAu);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62A8AB43u);
}

TEST_CASE("An event file is byte for byte what TensorBoard reads") {
  TemporaryFolder folder;
  TensorBoardWriter writer(folder.path("events"), 1700000000);
  write_sample(writer);
  CHECK(writer.flush() == file_size(folder.path("events")));
  CHECK(content(folder.path("events")) == content(FORGE_SOURCE_DIR "/tests/run/goldens/events.bin"));
}

TEST_CASE("A resumed event file is cut back to the checkpoint's offset and goes on") {
  TemporaryFolder folder;
  int64_t offset = 0;
  {
    TensorBoardWriter writer(folder.path("events"), 1700000000);
    writer.scalar("train/loss", 1, 4.25, 1700000001.5);
    offset = writer.flush();
    writer.scalar("train/loss", 2, 99, 1700000099);
    writer.flush();
  }
  TensorBoardWriter writer(folder.path("events"), 1700000500, offset);
  writer.scalar("train/loss", 2, 3.5, 1700000002.5);
  writer.scalar("eval/loss", 300, 1e-30, 1700000003);
  writer.text("samples", 2, "**before** ümlaut", 1700000004);
  writer.flush();
  CHECK(content(folder.path("events")) == content(FORGE_SOURCE_DIR "/tests/run/goldens/events.bin"));
}

TEST_CASE("An event file that is shorter than its checkpoint says is refused") {
  TemporaryFolder folder;
  folder.write("events", "short");
  CHECK(error_of([&] { TensorBoardWriter(folder.path("events"), 0, 100); }) ==
        folder.path("events") + ": is shorter than its checkpoint says (5 bytes, expected at least 100)");
}

TEST_CASE("An existing event file is never overwritten") {
  TemporaryFolder folder;
  folder.write("events", "precious");
  CHECK(error_of([&] { TensorBoardWriter(folder.path("events"), 0); }) ==
        folder.path("events") + ": cannot create: File exists");
}
