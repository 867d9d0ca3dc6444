#pragma once
// Backends that execute ops under test. An op is identified by the type of its arguments: one
// struct of pointers and sizes that the CPU version, the CUDA launcher and the emulated launcher
// all take.
//
//   Backend cpu("cpu/avx2");
//   cpu.add<RmsNormForward>([](const RmsNormForward& a) { rms_norm_forward_cpu(a, CpuLevel::avx2); });
//   if (cpu.refusal(arguments).empty()) cpu.run(arguments);
//
// A backend whose pointers are not plain host memory, or that needs the bounds of every operand,
// has its own Memory. A new backend is one more entry of all_backends().
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <vector>

namespace forge::kernel_test {

// The region of one operand that an op may touch: from its first to past its last element, gaps
// between rows included.
struct Region {
  std::string name;
  void* begin = nullptr;
  int64_t bytes = 0;
  bool writable = false;
  int64_t element_bytes = 1;
};

// The memory of the pointers that a backend receives. This class: host memory.
class Memory {
 public:
  virtual ~Memory();
  // Allocates memory aligned to 256 bytes. The last `guard` bytes do not belong to the operand: a
  // subclass may forbid access to them (expose).
  virtual void* allocate(int64_t bytes, int64_t guard);
  virtual void write(void* to, const void* host, int64_t bytes);
  virtual void read(void* host, const void* from, int64_t bytes);
  virtual void expose(const Region&) {}  // before the run, once for each operand and the workspace
  virtual void clear();                  // after the comparison: frees all and forgets all regions

 private:
  std::vector<void*> blocks_;
};

// Returns host memory in which an access past an operand's end crashes: a protected page begins
// there. Operands are therefore aligned only to their elements; workspaces are like in plain
// memory.
std::shared_ptr<Memory> fenced_memory();

// The parts of an op's contract that a backend does not support. Both kinds are checked: the counts
// are printed, and the memory of missing outputs must stay untouched.
template <class Args>
struct Restrictions {
  // Returns why the backend cannot run these arguments; "" if it can. It may look at sizes and at
  // which pointers are null, but not dereference pointers: they are placeholders.
  std::function<std::string(const Args&)> refusal;
  std::vector<std::string> without;  // outputs that it does not give
};

class Backend {
 public:
  explicit Backend(std::string name, std::shared_ptr<Memory> memory = std::make_shared<Memory>())
      : name_(std::move(name)), memory_(std::move(memory)) {}

  // Adds an op. `workspace` returns the bytes that Args::workspace must have. `rounds_between`:
  // results between the op's steps, which the CPU keeps in fp32, are stored in the operands' type
  // (Tolerance::between).
  template <class Args>
  Backend& add(std::function<void(const Args&)> run, std::function<int64_t(const Args&)> workspace = {},
               bool rounds_between = false, Restrictions<Args> restrictions = {}) {
    Op& op = ops_[typeid(Args)];
    op.without = restrictions.without;
    op.refusal = [refusal = restrictions.refusal](const void* args) {
      return refusal ? refusal(*static_cast<const Args*>(args)) : std::string();
    };
    op.rounds_between = rounds_between;
    op.run = [run](const void* args) { run(*static_cast<const Args*>(args)); };
    op.workspace = [workspace](const void* args) {
      return workspace ? workspace(*static_cast<const Args*>(args)) : int64_t{0};
    };
    return *this;
  }
  // Returns "" if it can run these arguments, else why not.
  template <class Args>
  std::string refusal(const Args& args) const {
    auto op = ops_.find(typeid(Args));
    return op == ops_.end() ? "it has no such op" : op->second.refusal(&args);
  }
  template <class Args>
  const std::vector<std::string>& without() const {
    return ops_.at(typeid(Args)).without;
  }
  // Runs an op and returns when the results can be read. Throws the faults that the backend finds
  // (a deadlock, a wild pointer).
  template <class Args>
  void run(const Args& args) const {
    ops_.at(typeid(Args)).run(&args);
  }
  template <class Args>
  int64_t workspace_bytes(const Args& args) const {
    return ops_.at(typeid(Args)).workspace(&args);
  }

  template <class Args>
  bool rounds_between() const {
    return ops_.at(typeid(Args)).rounds_between;
  }

  const std::string& name() const { return name_; }
  Memory& memory() const { return *memory_; }

 private:
  struct Op {
    std::function<void(const void*)> run;
    std::function<int64_t(const void*)> workspace;
    std::function<std::string(const void*)> refusal;
    std::vector<std::string> without;
    bool rounds_between = false;
  };
  std::string name_;
  std::shared_ptr<Memory> memory_;
  std::map<std::type_index, Op> ops_;
};

// Returns the CPU versions at every level that this machine has.
std::vector<Backend> cpu_backends();
// Returns the implementation that `provider: reference` trains with, forward and autograd.
Backend reference_backend();
// Returns all backends that this build can execute.
std::vector<Backend> all_backends();

}  // namespace forge::kernel_test
