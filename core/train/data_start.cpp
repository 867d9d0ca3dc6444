#include "core/train/data_start.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>

#include "core/data/batch/order.h"
#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/model/adapter/input_svd.h"
#include "core/model/dtype.h"
#include "core/model/families/step.h"
#include "core/model/forward.h"
#include "kernels/linear/linear_op.h"

namespace forge {
namespace {

// Directions settle within some ten micro-batches. Those of inputs with fewer directions than ranks
// never do.
constexpr int64_t kMostBatches = 256;

// Returns the model without its adapter, whose magnitudes would add rounding.
Model without_adapter(const Session& session) {
  Model base = session.model;
  for (const AdapterSite& site : session.sites) {
    LinearSpec& linear = *find_linear(base, site.module);
    linear.lora_a = linear.lora_b = linear.magnitude = at::Tensor();
  }
  return base;
}

// Returns the rows that count. PEFT's mask is over a text's own tokens, not over those that predict
// them. Labels of an encoder-decoder belong to the rows that predict.
std::vector<int32_t> trained_rows(const Batch& batch) {
  const int64_t shift = batch.source_ids.empty() ? 1 : 0;
  std::vector<int32_t> rows;
  for (int64_t t = 0; t < batch.tokens(); ++t)
    if (batch.loss_weights[static_cast<size_t>(t)] != 0) rows.push_back(static_cast<int32_t>(t + shift));
  return rows;
}

// Layers that read the same value.
struct Reader {
  size_t op = 0;
  bool source = false;  // it is the encoder's, which no label belongs to
  std::vector<const AdapterSite*> sites;
  InputSvd svd;
};

class InputLook {
 public:
  InputLook(const Session& session)
      : session_(session),
        base_(without_adapter(session)),
        list_(forward_list({session.plan.model, {}, {}, residual_of(session.job)})),
        modules_(bind_modules(list_.modules, base_, nullptr)) {
    std::map<std::string, const AdapterSite*> sites;
    for (const AdapterSite& site : session.sites) sites[site.module] = &site;
    for (size_t i = 0; i < list_.ops.size(); ++i) {
      const Op& op = list_.ops[i];
      if (op.kind != &ops::linear) continue;
      for (size_t m = 0; m < op.modules.size(); ++m)
        if (const auto site = sites.find(list_.module(op, m).path); site != sites.end()) add(i, site->second);
    }
  }

  std::vector<Reader>& readers() { return readers_; }
  bool settled(const Reader& reader) const { return reader.svd.settled(session_.job.adapter.eva.tau); }
  bool settled() const {
    return std::all_of(readers_.begin(), readers_.end(), [&](const Reader& reader) { return settled(reader); });
  }

  void look(const Batch& batch) {
    const BatchTensors tensors = to_tensors(batch, session_.plan.model, base_.type, session_.device);
    at::Tensor rows;
    if (session_.job.adapter.eva.use_label_mask) rows = to_device(trained_rows(batch), at::kLong, session_.device);
    ForwardRun run{list_, base_, modules_, tensors, packed_attend(tensors)};
    size_t end = 0;
    for (const Reader& reader : readers_)
      if (!settled(reader)) end = std::max(end, reader.op + 1);
    run.watch = [&](size_t op, const at::Tensor& x) {
      for (Reader& reader : readers_)
        if (reader.op == op && !settled(reader)) reader.svd.add(rows.defined() && !reader.source ? x.index_select(0, rows) : x);
    };
    run_forward(run, 0, end, kNoValue);
  }

 private:
  // Adds a site to the reader of its input value, which several products may read.
  void add(size_t op, const AdapterSite* site) {
    const ValueId x = list_.ops[op].in[0];
    auto reader = std::find_if(readers_.begin(), readers_.end(), [&](const Reader& r) { return list_.ops[r.op].in[0] == x; });
    if (reader == readers_.end())
      reader = readers_.insert(readers_.end(), {op, list_.buffer_of(x).rows == Rows::source, {}, {site->rank, session_.job.seed, site->module}});
    if (reader->svd.rank() < site->rank) reader->svd = {site->rank, session_.job.seed, site->module};
    reader->sites.push_back(site);
  }

  const Session& session_;
  const Model base_;
  const Graph list_;
  const std::vector<BoundModule> modules_;
  std::vector<Reader> readers_;
};

void set_first_values(Session& session, const Reader& reader) {
  at::Tensor a = reader.svd.directions();
  if (session.job.adapter.eva.whiten) a = a / reader.svd.singular_values().sqrt().unsqueeze(1);
  for (const AdapterSite* site : reader.sites) {
    Trainable* item = session.trainables->find(site->adapter + ".lora_A.weight");
    FORGE_CHECK(item, "the parameter list lacks the adapter of " << site->module);
    item->master.copy_(a.narrow(0, 0, site->rank));
  }
}

}  // namespace

DataStart start_from_inputs(Session& session, const DataSet& data, const std::function<Parts(const std::vector<int64_t>&)>& cut) {
  c10::NoGradGuard no_grad;
  InputLook look(session);
  DataStart start{.layers = static_cast<int64_t>(session.sites.size())};
  for (int64_t epoch = 0; start.batches < kMostBatches && !look.settled(); ++epoch)
    for (const std::vector<int64_t>& step : epoch_steps(data.atom_lengths(), session.job, epoch))
      for (const std::vector<int64_t>& atoms : cut(step)) {
        if (start.batches == kMostBatches || look.settled()) break;
        look.look(make_batch(data, atoms));
        ++start.batches;
      }
  for (const Reader& reader : look.readers()) {
    if (reader.svd.empty())
      throw Error(ErrorKind::data, "adapter.init: eva: no micro-batch has the " + format_count(reader.svd.rank()) + " tokens that rank " +
                                       format_count(reader.svd.rank()) + " of " + reader.sites[0]->module + " needs")
          .hint("lower adapter.rank, raise train.micro_batch_size, or set adapter.eva.use_label_mask: false to look at prompts too");
    if (look.settled(reader)) start.settled += static_cast<int64_t>(reader.sites.size());
    set_first_values(session, reader);
  }
  session.trainables->publish();
  return start;
}

}  // namespace forge
