#pragma once
// Frozen weights that are held in blocks or in another type, brought into the compute type while the product before them runs: on the
// device's second stream, into two places that take turns.
//
//   WeightsAhead ahead(device, bytes_of_the_largest, decode);
//   ahead.begin(order);                    the weights of a list, in the order in which its ops read them
//   const void* w = ahead.next(module);    for products that are queued on the compute stream, until the next call
//
// A weight is decoded behind the products that read the one before the last out of its place, and read behind its decoding.
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

  // `order` must outlive its reading. A list that was not read to its end is left. One that is read to its end leaves no work on the
  // second stream that the compute stream does not wait for, so both can be captured together.
  void begin(const std::vector<int32_t>& order);
  const void* next(int32_t module);
  // A weight that no order foretells, such as that of an expert which rows reach; where nothing runs ahead.
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
