#include "tests/emulator/fiber.h"

#include <sys/mman.h>

#include <cstring>
#include <stdexcept>

#if defined(__x86_64__) && !defined(FORGE_PORTABLE_FIBERS)
#define FORGE_FIBER_ASSEMBLY 1
#else
#include <ucontext.h>
#endif

namespace forge::emulator {

constexpr uint64_t kCanary = 0x5AFE57AC5AFE57ACull;

#ifdef FORGE_FIBER_ASSEMBLY

struct FiberContext {
  void* stack_pointer = nullptr;
};

// forge_switch_stack(save, load): the System V registers that a callee keeps, then the stack
// pointer. A new stack starts at forge_fiber_start with the entry in r12 and its argument in r13.
extern "C" void forge_switch_stack(void** save, void* load);
extern "C" void forge_fiber_start();
asm(R"(
.text
.globl forge_switch_stack
.type forge_switch_stack, @function
forge_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size forge_switch_stack, .-forge_switch_stack
.globl forge_fiber_start
.type forge_fiber_start, @function
forge_fiber_start:
  movq %r13, %rdi
  callq *%r12
  ud2
.size forge_fiber_start, .-forge_fiber_start
)");

namespace {
void make_context(FiberContext& context, unsigned char* stack, size_t bytes, void (*entry)(void*),
                  void* argument) {
  // After the seven pops the stack pointer is a multiple of 16, as forge_fiber_start's call
  // expects.
  void** top = reinterpret_cast<void**>(stack + bytes - 72);
  void* frame[7] = {nullptr,
                    nullptr,
                    argument,
                    reinterpret_cast<void*>(entry),
                    nullptr,
                    nullptr,
                    reinterpret_cast<void*>(&forge_fiber_start)};
  std::memcpy(top, frame, sizeof frame);
  top[7] = nullptr;
  context.stack_pointer = top;
}
void swap(FiberContext& from, FiberContext& to) { forge_switch_stack(&from.stack_pointer, to.stack_pointer); }
}  // namespace

#else

// Other machines: correct, but slow because of the signal mask's system call.
struct FiberContext {
  ucontext_t context{};
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
};

namespace {
void start(unsigned high, unsigned low) {
  auto* fiber = reinterpret_cast<FiberContext*>(static_cast<uintptr_t>(high) << 32 | low);
  fiber->entry(fiber->argument);
}
void make_context(FiberContext& context, unsigned char* stack, size_t bytes, void (*entry)(void*),
                  void* argument) {
  getcontext(&context.context);
  context.context.uc_stack.ss_sp = stack;
  context.context.uc_stack.ss_size = bytes;
  context.context.uc_link = nullptr;
  context.entry = entry;
  context.argument = argument;
  auto address = reinterpret_cast<uintptr_t>(&context);
  makecontext(&context.context, reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
}
void swap(FiberContext& from, FiberContext& to) { swapcontext(&from.context, &to.context); }
}  // namespace

#endif

FiberPool::FiberPool() : scheduler_(std::make_unique<FiberContext>()) {}

FiberPool::~FiberPool() {
  if (memory_ != nullptr) munmap(memory_, mapped_);
}

void FiberPool::reserve(int count) {
  size_t bytes = static_cast<size_t>(count) * kStackBytes;
  if (bytes > mapped_) {
    if (memory_ != nullptr) munmap(memory_, mapped_);
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("emulator: no memory for the stacks of a block");
    memory_ = static_cast<unsigned char*>(memory);
    mapped_ = bytes;
  }
  while (fibers_.size() < static_cast<size_t>(count)) fibers_.push_back(std::make_unique<FiberContext>());
}

void FiberPool::prepare(int index, void (*entry)(void*), void* argument) {
  // CUDA's largest block, so that no later call moves a stack.
  if (memory_ == nullptr) reserve(1024);
  unsigned char* stack = memory_ + static_cast<size_t>(index) * kStackBytes;
  std::memcpy(stack, &kCanary, sizeof kCanary);
  make_context(*fibers_[static_cast<size_t>(index)], stack, kStackBytes, entry, argument);
}

void FiberPool::switch_in(int index) {
  running_ = index;
  swap(*scheduler_, *fibers_[static_cast<size_t>(index)]);
}

void FiberPool::switch_out() { swap(*fibers_[static_cast<size_t>(running_)], *scheduler_); }

bool FiberPool::intact(int index) const {
  return std::memcmp(memory_ + static_cast<size_t>(index) * kStackBytes, &kCanary, sizeof kCanary) == 0;
}

}  // namespace forge::emulator
