#include "train/stop_signal.h"

#include <unistd.h>

#include <ctime>

namespace flashbert {
namespace {

/// timeout, mpirun and schedulers signal a process and then its group: the same wish, told twice in a moment.
constexpr double kSameWish_s = 1.0;

volatile std::sig_atomic_t g_received = 0;
volatile double g_received_s = 0.0;  // written and read by handlers only, which do not interrupt each other

double clock_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // may be called by a handler
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void note_signal(int number) {
  if (g_received == 0) {
    g_received_s = clock_s();
    g_received = number;
    constexpr char kNote[] = "stopping after this step; once more to end at once\n";
    static_cast<void>(!::write(STDERR_FILENO, kNote, sizeof kNote - 1));
  } else if (clock_s() - g_received_s >= kSameWish_s) {
    static_cast<void>(std::signal(number, SIG_DFL));
    static_cast<void>(std::raise(number));
  }
}

}  // namespace

StopSignal::StopSignal() {
  g_received = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

int StopSignal::received() const { return g_received; }

}  // namespace flashbert
