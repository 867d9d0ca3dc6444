#pragma once
// Converts frozen weights that are held in blocks or in another type to the compute type while the
// product before them runs: on the device's second stream, into two alternating places.
//
//   WeightsAhead ahead(device, bytes_of_the_largest, decode);
//   ahead.begin(order);                    the weights of a list, in the order in which its ops read them
//   const void* w = ahead.next(module);    for products on the compute stream until the next call
//
// A weight is decoded after the products that read the previous weight from its place, and is read
// after its decoding.
#include <functional>
#include <vector>

#include "kernels/device/device.h"

namespace forge {

class WeightsAhead {
 public:
  using Decode = std::function<void(int32_t module, void* to, Stream stream)>;

  // Without `ahead` there is one place, and the compute stream decodes.
  WeightsAhead(ComputeDevice& device, int64_t bytes, bool ahead, Decode decode);
  ~WeightsAhead();
  WeightsAhead(const WeightsAhead&) = delete;
  WeightsAhead& operator=(const WeightsAhead&) = delete;

  // `order` must outlive its reading. A list that was not read to its end is abandoned. A list that
  // is read to its end leaves no work on the second stream that the compute stream does not wait
  // for, so both can be captured together.
  void begin(const std::vector<int32_t>& order);
  const void* next(int32_t module);
  // Decodes a weight that is in no order, such as that of an expert that gets rows. Not allowed if
  // weights are decoded ahead.
  const void* at_once(const std::function<void(void* to, Stream stream)>& decode);

 private:
  void decode_ahead(size_t number);
  void* place(size_t number) const { return places_[number % 2].as(); }

  ComputeDevice& device_;
  Decode decode_;
  DeviceBlock places_[2];
  Event ready_[2], read_;
  const std::vector<int32_t>* order_ = nullptr;
  size_t at_ = 0;
};

}  // namespace forge
