#include "kernels/call/weights_ahead.h"

#include "core/lib/base/error.h"

namespace forge {

WeightsAhead::WeightsAhead(ComputeDevice& device, int64_t bytes, bool ahead, Decode decode) : device_(device), decode_(std::move(decode)) {
  places_[0] = DeviceBlock(device, bytes, "weight conversion");
  if (bytes == 0 || !ahead) return;
  places_[1] = DeviceBlock(device, bytes, "weight conversion ahead");
  for (Event* event : {&ready_[0], &ready_[1], &read_}) *event = device.new_event();
}

// Memory is released in the order of the compute stream.
WeightsAhead::~WeightsAhead() {
  if (!places_[1].as()) return;
  device_.record(read_, Stream::weights);
  device_.wait(Stream::compute, read_);
}

void WeightsAhead::begin(const std::vector<int32_t>& order) {
  order_ = &order, at_ = 0;
  if (places_[1].as() && !order.empty()) decode_ahead(0);
}

// All work that reads the weight's place has been enqueued before.
void WeightsAhead::decode_ahead(size_t number) {
  device_.record(read_, Stream::compute);
  device_.wait(Stream::weights, read_);
  decode_((*order_)[number], place(number), Stream::weights);
  device_.record(ready_[number % 2], Stream::weights);
}

const void* WeightsAhead::at_once(const std::function<void(void* to, Stream stream)>& decode) {
  FORGE_CHECK(!places_[1].as(), "a weight out of order among those that are decoded ahead");
  decode(places_[0].as(), Stream::compute);
  return places_[0].as();
}

const void* WeightsAhead::next(int32_t module) {
  if (!places_[1].as()) {
    decode_(module, places_[0].as(), Stream::compute);
    return places_[0].as();
  }
  FORGE_CHECK(order_ && at_ < order_->size() && (*order_)[at_] == module, "a weight is read out of the order of its list");
  device_.wait(Stream::compute, ready_[at_ % 2]);
  const void* weight = place(at_++);
  if (at_ < order_->size()) decode_ahead(at_);
  return weight;
}

}  // namespace forge
