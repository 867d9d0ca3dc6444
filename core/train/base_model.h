#pragma once
// A session's base by itself, without what is trained: its own weights and the provider that
// computes with them.
#include <memory>

#include "core/train/session.h"

namespace forge {

class BaseModel {
 public:
  // session.base must be there. Both share the session's arena, in turn.
  explicit BaseModel(const Session& session);
  Network& network() { return network_; }

 private:
  Model model_;
  TrainableSet nothing_;
  std::unique_ptr<StepProvider> provider_;
  Network network_;
};

}  // namespace forge
