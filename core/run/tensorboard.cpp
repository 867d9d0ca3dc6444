#include "core/run/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <concepts>
#include <cstring>

#include "core/lib/base/error.h"

namespace forge {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they lie in memory");

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

template <class T>
void append_bytes(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Protocol buffers: a field is a key (number << 3 | wire type) and a value.
enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void append_key(std::string& out, int field, Wire wire) {
  append_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

template <std::floating_point T>
void append_field(std::string& out, int field, T value) {
  append_key(out, field, sizeof value == 8 ? Wire::fixed64 : Wire::fixed32);
  append_bytes(out, value);
}

void append_field(std::string& out, int field, int64_t value) {
  append_key(out, field, Wire::varint);
  append_varint(out, static_cast<uint64_t>(value));
}

void append_field(std::string& out, int field, std::string_view value) {
  append_key(out, field, Wire::bytes);
  append_varint(out, value.size());
  out.append(value);
}

std::string record(std::string_view data) {
  std::string out;
  append_bytes(out, static_cast<uint64_t>(data.size()));
  append_bytes(out, masked(crc32c(out)));
  out.append(data);
  append_bytes(out, masked(crc32c(data)));
  return out;
}

// Returns the bytes of Event {wall_time = 1, step = 2, file_version = 3, summary = 5}.
std::string event_of(double wall_time, int64_t step) {
  std::string event;
  append_field(event, 1, wall_time);
  append_field(event, 2, step);
  return event;
}

// Returns an event with Summary {repeated Value value = 1}; Value {tag = 1, simple_value = 2,
// tensor = 8, metadata = 9}.
std::string summary_event(double wall_time, int64_t step, std::string_view value) {
  std::string summary, event = event_of(wall_time, step);
  append_field(summary, 1, value);
  append_field(event, 5, std::string_view(summary));
  return event;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = 0xFFFFFFFFu;
  for (char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

struct TensorBoardWriter::State {
  std::string path;
  int descriptor = -1;
  int64_t size = 0;

  ~State() {
    if (descriptor >= 0) ::close(descriptor);
  }
  [[noreturn]] void fail(const char* action) const {
    throw Error(ErrorKind::environment, path + ": cannot " + action + ": " + std::strerror(errno));
  }
  // Writes each record with one write(), so that a reader that follows the file sees whole records.
  void append(const std::string& bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      ssize_t count = ::write(descriptor, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("write");
      done += static_cast<size_t>(count);
    }
    size += static_cast<int64_t>(bytes.size());
  }
};

TensorBoardWriter::TensorBoardWriter(const std::string& path, double wall_time, int64_t resume_at)
    : state_(std::make_unique<State>()) {
  state_->path = path;
  bool resumes = resume_at >= 0;
  state_->descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (resumes ? 0 : O_EXCL), 0666);
  if (state_->descriptor < 0) state_->fail(resumes ? "open" : "create");
  if (resumes) {
    off_t size = ::lseek(state_->descriptor, 0, SEEK_END);
    if (size < resume_at)
      throw Error(ErrorKind::environment, path + ": is shorter than its checkpoint says (" +
                                              std::to_string(size) + " bytes, expected at least " +
                                              std::to_string(resume_at) + ")");
    if (::ftruncate(state_->descriptor, resume_at) != 0) state_->fail("cut");
    ::lseek(state_->descriptor, 0, SEEK_END);
    state_->size = resume_at;
  }
  if (state_->size > 0) return;
  std::string event = event_of(wall_time, 0);
  append_field(event, 3, std::string_view("brain.Event:2"));
  state_->append(record(event));
}

TensorBoardWriter::~TensorBoardWriter() = default;
TensorBoardWriter::TensorBoardWriter(TensorBoardWriter&&) noexcept = default;

void TensorBoardWriter::scalar(std::string_view tag, int64_t step, double value, double wall_time) {
  std::string entry;
  append_field(entry, 1, tag);
  append_field(entry, 2, static_cast<float>(value));
  state_->append(record(summary_event(wall_time, step, entry)));
}

void TensorBoardWriter::text(std::string_view tag, int64_t step, std::string_view content, double wall_time) {
  // TensorProto {dtype = 1 (DT_STRING = 7), tensor_shape = 2 {dim {size: 1}}, string_val = 8}
  std::string dimension, shape, tensor, plugin, metadata, entry;
  append_field(dimension, 1, int64_t{1});
  append_field(shape, 2, std::string_view(dimension));
  append_field(tensor, 1, int64_t{7});
  append_field(tensor, 2, std::string_view(shape));
  append_field(tensor, 8, content);
  append_field(plugin, 1, std::string_view("text"));  // SummaryMetadata {plugin_data = 1 {plugin_name = 1}}
  append_field(metadata, 1, std::string_view(plugin));
  append_field(entry, 1, tag);
  append_field(entry, 8, std::string_view(tensor));
  append_field(entry, 9, std::string_view(metadata));
  state_->append(record(summary_event(wall_time, step, entry)));
}

int64_t TensorBoardWriter::flush() {
  if (::fsync(state_->descriptor) != 0) state_->fail("flush");
  return state_->size;
}

std::string tensorboard_file_name(double wall_time) {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  std::string name = host;
  for (char& letter : name)
    if (letter == '/') letter = '-';
  return "events.out.tfevents." + std::to_string(static_cast<int64_t>(wall_time)) + "." + name;
}

}  // namespace forge
