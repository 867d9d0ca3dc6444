#pragma once
// The signals by which a run is asked to stop: people send INT and TERM, queues TERM, USR1, USR2 or
// XCPU before they kill, a terminal that closes sends HUP. All are handled alike: with a checkpoint
// if there is one to write.
#include <array>
#include <csignal>

namespace forge {

constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

// True for signals whose second arrival means "leave now". A closing terminal sends HUP twice (the
// shell and the kernel), and queues repeat theirs to every process of a job, so a second one of
// those has no further meaning.
constexpr bool means_now(int number) { return number == SIGINT || number == SIGTERM; }

// False for a signal that the process's starter made it ignore: nohup, trap '' USR1. A shell script
// ignores INT for processes that it starts with &, though kill -INT is still answered.
inline bool is_answered(int number) {
  struct sigaction action {};
  return means_now(number) || ::sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_IGN;
}

// Returns the set of stop signals that this process answers.
inline sigset_t answered_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : kStopSignals)
    if (is_answered(number)) sigaddset(&set, number);
  return set;
}

}  // namespace forge
