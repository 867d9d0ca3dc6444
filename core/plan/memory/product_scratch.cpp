#include "core/plan/memory/product_scratch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>

#include "core/job/names.h"
#include "core/lib/base/ceil_div.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// Names and arithmetic, single precision too, are oneDNN's (src/cpu/x64/matmul): another rounding
// picks another block.
constexpr int64_t kElement = 2, kSum = 4;   // bf16, and the fp32 it is summed in
constexpr int64_t kAlignment = 128;         // added to every part
constexpr int64_t kBatchElement = 16 * 40;  // a thread's list of blocks, for each block at a time
constexpr int64_t kColumnBlock = 64, kInnerGranularity = 32;

int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
bool power_of_two(int64_t n) { return n > 0 && std::has_single_bit(static_cast<uint64_t>(n)); }

// Returns the bytes of parts of the scratchpad, of which each thread has its own.
int64_t booked(int64_t threads, std::initializer_list<int64_t> parts) {
  int64_t sum = 0;
  for (int64_t bytes : parts)
    if (bytes > 0) sum += threads * bytes + kAlignment;
  return sum;
}

// Returns the length of a copied block's row: a power of two would map every row to the same lines
// of the cache.
int64_t copied_row(int64_t inner) {
  const int64_t row = round_up(inner, 64 / kElement);
  return row >= 512 && power_of_two(row) ? row + 64 / kElement : row;
}

// True if rows are so long, or of such power-of-two lengths, that the first factor is copied even
// though its layout is right.
bool strides_collide(const Product& p) {
  return !p.transposed && power_of_two(p.inner) && p.inner >= 8192 / kElement && p.rows >= 1024;
}

// Returns the bytes for avx512: the result in fp32, each thread's part of it rounded up.
int64_t whole_result(const Product& p, int64_t threads) {
  const int64_t whole = p.rows * p.columns;
  int64_t part = ceil_div(whole, threads);
  if (part >= p.columns) part = part / p.columns * p.columns;
  return std::max(round_up(whole, 64), round_up(part, 64) * threads) * kSum + kAlignment;
}

// The split of a product: blocks of rows, columns and inner elements; a `chunk` is the blocks that
// one thread works on together.
struct Blocks {
  int64_t rows = 1, columns = 1, inner = 1;
  int64_t row_chunk = 1, column_chunk = 1;
  int64_t inner_batch = 1;    // inner blocks at a time
  int64_t inner_threads = 1;  // threads that share one block of the result
};

// The blocking of avx512_bf16: compute_blocking_heuristic_avx512.
class VectorBlocking {
 public:
  VectorBlocking(const Product& p, int64_t threads) : p_(p), threads_(threads) {}

  int64_t bytes() const {
    const bool copies = p_.transposed || strides_collide(p_);
    const Blocks b = best(copies);
    // Sums are of the whole product if threads share it, of a chunk if the inner dimension is
    // split, else of a block.
    const int64_t sums = b.inner_threads > 1  ? p_.rows * p_.columns
                         : b.inner < p_.inner ? b.rows * b.columns * b.column_chunk
                                              : b.rows * b.columns;
    return booked(threads_, {kBatchElement, copies ? kElement * b.rows * copied_row(b.inner) : 0,
                             kElement * kColumnBlock * round_up(b.inner, kInnerGranularity), kSum * sums});
  }

 private:
  Blocks best(bool copies) const {
    const int64_t columns = std::min(kColumnBlock, p_.columns), column_blocks = ceil_div(p_.columns, columns);
    const int64_t inner = std::min<int64_t>(p_.inner, p_.inner > 1024 && !p_.transposed ? 1024 : 512);
    const bool little_work = threads_ > column_blocks;
    const int64_t least_rows = std::min<int64_t>(p_.rows, little_work ? 16 : 32);
    const int64_t most_rows = std::min<int64_t>(p_.rows, 256);
    const bool shares = little_work && p_.transposed && power_of_two(p_.inner) && p_.inner >= 2048;
    const int64_t most_shares = shares ? std::min<int64_t>(threads_, 4) : 1;
    Blocks best;
    float least = 1;
    for (int64_t share = most_shares; share >= 1; --share) {
      bool found = false;
      const auto consider = [&](const Blocks& blocks) {
        const float imbalance = imbalance_of(blocks);
        if (imbalance >= least) return;
        least = imbalance;
        best = blocks;
        found = true;
      };
      for (int64_t chunk = std::min<int64_t>(copies ? 16 : 1, column_blocks); chunk >= 1; --chunk)
        for (int64_t rows = most_rows; rows >= least_rows; --rows) {
          const int64_t work = ceil_div(p_.rows, rows) * ceil_div(p_.columns, columns * chunk);
          const int64_t workers = threads_ / share;
          if (work < workers * 3 && work % workers != 0 && most_shares == 1) continue;
          consider({rows, columns, inner, 1, chunk, 1, share});
        }
      if (!found) consider({least_rows, columns, inner, 1, 1, 1, share});
    }
    return best;
  }

  static float spatial_imbalance(int64_t work, int64_t part) {
    const int64_t over = work % part;
    return static_cast<float>(work < part ? part - over : std::min(part - over, over)) /
           static_cast<float>(part);
  }

  float imbalance_of(const Blocks& b) const {
    const int64_t workers = threads_ / b.inner_threads, blocks = ceil_div(p_.columns, b.columns);
    const int64_t work = ceil_div(p_.rows, b.rows) * ceil_div(p_.columns, b.columns * b.column_chunk);
    const float rows =
        static_cast<float>(b.rows * ceil_div(p_.rows, b.rows) % p_.rows) / static_cast<float>(p_.rows);
    const float columns =
        (static_cast<float>(ceil_div(blocks, b.column_chunk)) * static_cast<float>(b.column_chunk) -
         static_cast<float>(blocks)) /
        static_cast<float>(blocks);
    const float inner = spatial_imbalance(p_.inner, b.inner_threads * b.inner);
    const float idle =
        static_cast<float>(threads_ - workers * b.inner_threads) / static_cast<float>(threads_);
    return (spatial_imbalance(work, workers) + rows + columns + idle + inner) / 5;
  }

  const Product p_;
  const int64_t threads_;
};

// Returns the bytes for avx512_bf16. A factor of one row or column has both layouts, and oneDNN may
// take either; one column alone has a routine of its own, which needs no more than two columns do.
int64_t blocked(Product p, int64_t threads) {
  p.columns = std::max<int64_t>(p.columns, 2);
  int64_t most = VectorBlocking(p, threads).bytes();
  if (!p.transposed || (p.rows > 1 && p.inner > 1)) return most;
  p.transposed = false;
  return std::max(most, VectorBlocking(p, threads).bytes());
}

// The blocking of amx_bf16: matmul_amx_blocking_params_micro_t, for a processor with `l2_bytes` of
// second-level cache a core.
class TileBlocking {
 public:
  TileBlocking(const Product& p, int64_t threads, int64_t l2_bytes)
      : p_(p), threads_(threads), l2_(3 * l2_bytes / 4), copies_(p.transposed || strides_collide(p)) {}

  int64_t bytes() const {
    const Candidate best = search();
    const Blocks& b = best.blocks;
    const int64_t threads = threads_ / b.inner_threads * b.inner_threads;
    int64_t sums = 0;
    if (sums_kept(b)) {
      sums = b.inner_threads > 1 ? p_.rows * p_.columns
                                 : round_up(b.columns, std::min<int64_t>(32, b.columns)) * b.rows;
      if (b.inner_threads == 1 && cut_inner(b) < p_.inner) sums *= b.row_chunk * b.column_chunk;
    }
    const int64_t copy = kElement * b.rows * copied_row(b.inner) * b.inner_batch * b.row_chunk;
    // Room for four accumulator tiles, and one for a partial block.
    return booked(threads, {kBatchElement * b.inner_batch, best.copies ? copy : 0,
                            kElement * kColumnBlock * round_up(b.inner, kInnerGranularity) * b.inner_batch,
                            kSum * sums, 5 * 1024});
  }

 private:
  struct Candidate {
    Blocks blocks;
    bool copies = false;
    float score = 0;
  };

  static int64_t cut_inner(const Blocks& b) { return b.inner * b.inner_batch; }
  bool sums_kept(const Blocks& b) const { return p_.inner > cut_inner(b) || p_.inner % b.inner > 0; }

  int64_t usual_rows() const {
    for (int64_t tile = 16; tile >= 13; --tile)
      for (int64_t tiles = 4; tiles >= 2; --tiles)
        if (p_.rows % (tile * tiles) == 0) return tile * tiles;
    return std::min<int64_t>(p_.rows, 64);
  }

  Candidate search() const {
    const int64_t usual = usual_rows(), columns = std::min(kColumnBlock, p_.columns);
    const int64_t most_shares = std::min(std::clamp<int64_t>(threads_ / 8, 1, 7), ceil_div(p_.inner, 1024));
    Candidate best;
    for (int64_t share = 1; share <= most_shares; ++share) {
      const int64_t row_blocks = ceil_div(p_.rows, usual), column_blocks = ceil_div(p_.columns, columns);
      const int64_t work = row_blocks * column_blocks * std::min(ceil_div(p_.inner, 1024), share);
      const bool little_work = static_cast<float>(work) < 1.5f * static_cast<float>(threads_);
      const int64_t least_rows = little_work && usual > 32 ? ceil_div(usual, 2) : usual;
      const int64_t row_chunks = std::min<int64_t>(4, row_blocks),
                    column_chunks = std::min<int64_t>(work > 16 * threads_ ? 6 : 4, column_blocks);
      bool found = false;
      for (int rows : row_candidates(usual, least_rows))
        for (int64_t column_chunk = column_chunks; column_chunk >= 1; --column_chunk)
          for (int64_t row_chunk = row_chunks; row_chunk >= 1; --row_chunk) {
            const int64_t chunks =
                ceil_div(p_.rows, rows * row_chunk) * ceil_div(p_.columns, columns * column_chunk);
            const int64_t workers = threads_ / share;
            if (chunks < workers * 3 && chunks % workers != 0 && most_shares == 1) continue;
            const Candidate next = candidate({rows, columns, 1, row_chunk, column_chunk, 1, share});
            if (next.score <= best.score) continue;
            best = next;
            found = true;
          }
      if (found) continue;
      const Candidate next = candidate({least_rows, columns, 1, 1, 1, 1, share});
      if (next.score > best.score) best = next;
    }
    return best;
  }

  // The first of equal scores wins, in the order of oneDNN's own set.
  std::unordered_set<int> row_candidates(int64_t usual, int64_t least) const {
    std::unordered_set<int> candidates;
    for (int64_t rows = usual; rows >= least; rows = rows > 1 ? ceil_div(rows, 2) : rows - 1)
      candidates.insert(static_cast<int>(rows));
    if (p_.rows > 16)
      for (int64_t rows = std::min<int64_t>(p_.rows / 16 * 16, 64); rows >= round_up(least, 16); rows -= 16)
        candidates.insert(static_cast<int>(rows));
    return candidates;
  }

  Candidate candidate(Blocks b) const {
    Candidate result;
    bool extended = false;
    if (p_.inner < kInnerGranularity) {
      b.inner = round_up(p_.inner, 2);
    } else {
      b.inner = std::min(round_up(ceil_div(p_.inner, b.inner_threads), 2), kInnerGranularity);
      b.inner_batch = ceil_div(ceil_div(p_.inner, b.inner), b.inner_threads);
      fit_cache(b);
      const int64_t whole = cut_inner(b), over = p_.inner % b.inner;
      extended = p_.inner % kInnerGranularity != 0 && whole > kInnerGranularity && !copies_;
      if (extended) {
        b.inner = whole >= p_.inner ? p_.inner : whole;
        b.inner_batch = 1;
      } else if (over == 0 && p_.inner % whole == 0) {
        b.inner = whole;
        b.inner_batch = 1;
      } else if (b.inner_threads == 1 && p_.inner == whole + over) {
        b.inner = whole;
        b.inner_batch = 2;
      }
    }
    result.blocks = b;
    result.copies = copies_ || (!extended && p_.inner % 2 != 0);
    result.score = score(result);
    return result;
  }

  // Takes fewer inner blocks at a time if a chunk would not fit into the cache.
  void fit_cache(Blocks& b) const {
    const int64_t chunk = chunk_bytes(b, copies_), least = chunk / l2_, most = ceil_div(chunk, l2_);
    const int64_t wanted = ceil_div(ceil_div(p_.inner, b.inner), b.inner_threads);
    const bool collide = !p_.transposed && power_of_two(p_.inner) && p_.inner >= 8192 / kElement;
    if (least <= (collide ? 2 : 0) || b.inner_batch <= 1) return;
    const int64_t first = std::max<int64_t>(b.inner_batch / least, 1), second = ceil_div(b.inner_batch, most);
    const int64_t first_over = wanted % first, second_over = wanted % second;
    b.inner_batch = !(first_over == 0 || second_over < first_over) || second_over == 0 ? second : first;
  }

  int64_t chunk_bytes(const Blocks& b, bool copies) const {
    const int64_t inner = cut_inner(b), rows = b.rows * b.row_chunk, columns = b.columns * b.column_chunk;
    return kElement * inner * rows + (copies ? kElement * copied_row(b.inner) * b.inner_batch * rows : 0) +
           kElement * inner * columns + kElement * b.columns * inner + kElement * rows * columns +
           (sums_kept(b) ? kSum * rows * columns : 0);
  }

  float score(const Candidate& c) const {
    const Blocks& b = c.blocks;
    const float threads = static_cast<float>(std::min<int64_t>(threads_, 100));
    const float balance = (threads - 1) / threads, cache = 1 / threads;
    float sum = cache * cache_score(c) + reuse_score(c);
    if (balance > 0) sum += balance * balance_score(b);
    return sum / (1 + balance + cache);
  }

  float cache_score(const Candidate& c) const {
    const int64_t chunk = chunk_bytes(c.blocks, c.copies);
    return 1 - std::fabs(static_cast<float>(l2_) - static_cast<float>(chunk)) /
                   static_cast<float>(std::max(l2_, chunk));
  }

  float reuse_score(const Candidate& c) const {
    const Blocks& b = c.blocks;
    const auto share = [](int64_t chunk, int64_t whole, int64_t most) {
      return std::min(static_cast<float>(chunk) / static_cast<float>(std::min(whole, most)), 1.0f);
    };
    return 0.5f * (share(b.rows * b.row_chunk, p_.rows, 256) +
                   share(b.columns * b.column_chunk, p_.columns, c.copies ? 256 : 64));
  }

  float balance_score(const Blocks& b) const {
    const int64_t rows = b.rows * b.row_chunk, columns = b.columns * b.column_chunk,
                  workers = threads_ / b.inner_threads;
    const int64_t chunks = ceil_div(p_.rows, rows) * ceil_div(p_.columns, columns);
    float score = static_cast<float>(p_.rows) / static_cast<float>(rows) *
                  (static_cast<float>(p_.columns) / static_cast<float>(columns)) /
                  static_cast<float>(round_up(chunks, workers)) * static_cast<float>(workers);
    if (b.inner_threads > 1) {
      const int64_t parts = ceil_div(p_.inner, cut_inner(b));
      score *= 0.8f * (static_cast<float>(p_.inner) / static_cast<float>(cut_inner(b))) /
               static_cast<float>(round_up(parts, b.inner_threads)) * static_cast<float>(b.inner_threads);
    }
    return score / static_cast<float>(threads_);
  }

  const Product p_;
  const int64_t threads_, l2_;
  const bool copies_;
};

// Returns the bytes for amx_bf16. The cache decides only the size of a chunk: this is the largest
// over the caches that processors with AMX have, and virtual ones report.
int64_t tiled(const Product& p, int64_t threads) {
  int64_t most = 0;
  for (int64_t mebibytes : {1, 2, 4})
    most = std::max(most, TileBlocking(p, threads, mebibytes << 20).bytes());
  return most;
}

}  // namespace

int64_t ProductScratch::bytes(const Product& product) {
  if (set_ < InstructionSet::avx512 || product.rows * product.inner * product.columns == 0) return 0;
  const auto found = known_.find(product);
  if (found != known_.end()) return found->second;
  const int64_t bytes = set_ == InstructionSet::avx512        ? whole_result(product, threads_)
                        : set_ == InstructionSet::avx512_bf16 ? blocked(product, threads_)
                                                              : tiled(product, threads_);
  return known_[product] = bytes;
}

std::string product_formula(Precision precision, InstructionSet set, int64_t threads) {
  return "oneDNN's memory for a product in " + name_of(precision) + " with " + name_of(set) + ", " +
         format_count(threads) + (threads == 1 ? " thread" : " threads") +
         (ProductScratch(set, threads).measured() ? ""
                                                  : "; from its source, not measured on such a processor");
}

}  // namespace forge
