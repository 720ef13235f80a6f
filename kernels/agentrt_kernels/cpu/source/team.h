// Threads that work on one call together. Work is claimed piece by piece, so that a thread which the
// system has put aside holds up one piece and not its whole share. A waiting thread spins a while
// and then sleeps, so that a core that others need is given up.
#pragma once
#include <atomic>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <pthread.h>
#include <sched.h>

#include "vector.h"

static std::atomic<int> spin_turns{4000};
constexpr int64_t WORTH_PRODUCTS = 100000;  // multiplications before threads pay

INLINE void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A number that threads wait on to change.
struct Gate {
  alignas(64) std::atomic<uint32_t> value{0};
  std::atomic<int> sleepers{0};

  void wait_past(uint32_t seen) {
    for (int turn = spin_turns.load(std::memory_order_relaxed); turn > 0; turn--) {
      if (value.load(std::memory_order_acquire) != seen) return;
      pause_briefly();
    }
    while (value.load(std::memory_order_acquire) == seen) {
#if defined(__linux__)
      sleepers.fetch_add(1);
      syscall(SYS_futex, (uint32_t *)&value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
      sleepers.fetch_sub(1);
#else
      sched_yield();
#endif
    }
  }

  void open() {
    value.fetch_add(1);
    wake();
  }

  // Count one of those that `wait_for_none` waits for as done.
  void leave() {
    if (value.fetch_sub(1) == 1) wake();
  }

  // Wait until the value is 0. It is the count itself that is waited on: a thread that is put aside
  // behind `leave` has nothing left to say, so that its late waking disturbs no later wait.
  void wait_for_none() {
    while (uint32_t left = value.load(std::memory_order_acquire)) wait_past(left);
  }

 private:
  void wake() {
#if defined(__linux__)
    if (sleepers.load() > 0)
      syscall(SYS_futex, (uint32_t *)&value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
#endif
  }
};

struct Team {
  int threads = 1;
  alignas(64) std::atomic<int> next[2];
  alignas(64) std::atomic<int> arrived{0};
  Gate gate;
  std::vector<char> room;  // of what all threads read in one part of the work

  Team() {
    next[0] = 0;
    next[1] = 0;
  }
};

// One thread's part in a call.
struct Worker {
  Team *team;
  int index;
  int phase = 0;

  // Wait until all threads have finished the work before.
  void meet() {
    if (team->threads > 1) {
      uint32_t seen = team->gate.value.load(std::memory_order_acquire);
      if (team->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == team->threads) {
        team->arrived.store(0, std::memory_order_relaxed);
        team->next[phase & 1].store(0, std::memory_order_relaxed);
        team->gate.open();
      } else {
        team->gate.wait_past(seen);
      }
    }
    phase++;
  }

  // Pieces 0 .. count, each done by one thread; returns when all are done.
  template <class Work>
  void share(int count, Work work) {
    if (team->threads == 1) {
      for (int piece = 0; piece < count; piece++) work(piece);
      return;
    }
    std::atomic<int> &next = team->next[phase & 1];
    for (;;) {
      int piece = next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= count) break;
      work(piece);
    }
    meet();
  }

  // Run by one thread; the others wait.
  template <class Work>
  void once(Work work) {
    if (index == 0) work();
    meet();
  }
};

// Memory for rows, which begins a line of the cache, and which `work` fills, given a row and its place.
// Up to `few` rows are filled by every thread for itself, which costs less than to meet.
template <class Work>
static char *filled_rows(Worker &me, int rows, int few, size_t row_bytes, Work work) {
  static thread_local std::vector<char> mine;
  bool alone = me.team->threads == 1 || rows <= few;
  size_t bytes = rows * row_bytes + 64;
  std::vector<char> &room = alone ? mine : me.team->room;
  auto grow = [&] {
    if (room.size() < bytes) room.resize(bytes);
  };
  if (alone)
    grow();
  else
    me.once(grow);
  char *first = room.data();
  first += (64 - (uintptr_t)first % 64) % 64;
  auto fill = [&](int row) { work(row, first + row * row_bytes); };
  if (alone)
    for (int row = 0; row < rows; row++) fill(row);
  else
    me.share(rows, fill);
  return first;
}

typedef void (*Job)(void *arguments, Worker &worker);

// Threads that stay; callers other than the first at the same time work alone.
class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {
    for (int index = 1; index < threads; index++)
      std::thread([this, index] { serve(index); }).detach();
  }

  bool run(Job job, void *arguments) {
    std::unique_lock<std::mutex> mine(busy_, std::try_to_lock);
    if (!mine.owns_lock()) return false;
    job_ = job;
    arguments_ = arguments;
    team_.threads = threads_;
    team_.next[0].store(0);
    team_.next[1].store(0);
    running_.value.store(threads_ - 1);
    begun_.open();
    Worker worker{&team_, 0};
    job(arguments, worker);
    running_.wait_for_none();
    return true;
  }

  int threads() const { return threads_; }

 private:
  void serve(int index) {
    uint32_t seen = 0;
    for (;;) {
      begun_.wait_past(seen);
      seen++;
      Worker worker{&team_, index};
      job_(arguments_, worker);
      running_.leave();
    }
  }

  int threads_;
  std::mutex busy_;
  Job job_ = nullptr;
  void *arguments_ = nullptr;
  Team team_;
  Gate begun_;
  Gate running_;  // threads beside the caller's that are still in the job
};

static std::atomic<Pool *> pool{nullptr};

// After a fork the child has no threads: it makes its own at the next `agentrt_threads`.
static void forget_pool() { pool.store(nullptr); }

// Call `job` on every thread; alone if the work is not worth their meeting.
template <class Work>
static void together(bool worth, Work &work) {
  Job job = [](void *arguments, Worker &worker) { (*(Work *)arguments)(worker); };
  Pool *threads = worth ? pool.load(std::memory_order_acquire) : nullptr;
  if (threads != nullptr && threads->run(job, &work)) return;
  Team alone;
  Worker worker{&alone, 0};
  work(worker);
}
