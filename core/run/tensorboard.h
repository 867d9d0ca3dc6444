#pragma once
// TensorBoard's event file: scalars by tag and step, readable by `tensorboard --logdir`.
//
//   TensorBoardWriter writer(folder + "/events.out.tfevents.forge", wall_time);
//   writer.scalar("train/loss", 12, 2.31, wall_time);
//   int64_t offset = writer.flush();                       // goes into the checkpoint
//   TensorBoardWriter writer(path, wall_time, offset);     // a resumed run goes on from there
//
// Format: records of length, masked CRC-32C of the length, bytes, masked CRC-32C of the bytes
// (little endian), like tensorflow/core/lib/io/record_writer.cc; each record is an Event of
// tensorflow/core/util/event.proto.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace forge {

class TensorBoardWriter {
 public:
  // Creates the file, which must not exist unless `resume_at` is given: then everything after that
  // many bytes is cut off. `wall_time` is in seconds since 1970. Throws Error(environment).
  TensorBoardWriter(const std::string& path, double wall_time, int64_t resume_at = -1);
  ~TensorBoardWriter();
  TensorBoardWriter(TensorBoardWriter&&) noexcept;

  void scalar(std::string_view tag, int64_t step, double value, double wall_time);
  // Writes a text for TensorBoard's text tab (Markdown).
  void text(std::string_view tag, int64_t step, std::string_view content, double wall_time);
  // Makes all records so far durable and returns the size of the file in bytes. Throws
  // Error(environment).
  int64_t flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns "events.out.tfevents.<seconds>.<host>", the name that TensorBoard looks for.
std::string tensorboard_file_name(double wall_time);

// Returns the CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) of bytes.
uint32_t crc32c(std::string_view bytes);

}  // namespace forge
