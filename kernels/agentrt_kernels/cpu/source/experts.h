// Gated MLPs behind a router: all experts of a layer in one call.
//
// Rows are sorted by expert, so that each expert reads its weights once for all of its rows. Pieces
// of work are panels of an expert, shared among the threads whichever expert they are of.
#pragma once
#include <algorithm>
#include <iterator>
#include <vector>

#include "linear.h"
#include "quantised.h"

struct ExpertsCall {
  const Linear *gate_up, *down;  // of each expert, all of one format
  const void *x;
  void *out;
  const int64_t *chosen;  // [rows][choices] numbers of experts; `experts` is none
  const float *shares;    // [rows][choices] their weights in the sum
  int64_t x_stride, out_stride;
  int32_t rows, choices, experts, hidden, inner, kind;
};

// Some of the rows of one expert.
struct ExpertBand {
  int expert, first, rows;
};

struct ExpertsRoom {
  std::vector<int> source, place;  // row of x of each sorted row; sorted row of each choice, or -1
  std::vector<int> next;
  std::vector<ExpertBand> bands;
  std::vector<float> memory;
  void *sorted, *inner;
  float *made;
};

// Sort the choices by expert, first come first.
static int sort_choices(const ExpertsCall &call, ExpertsRoom &room) {
  int choices = call.rows * call.choices;
  auto taken = [&](int64_t expert) { return expert >= 0 && expert < call.experts; };
  room.next.assign(call.experts + 1, 0);
  for (int at = 0; at < choices; at++)
    if (taken(call.chosen[at])) room.next[call.chosen[at] + 1]++;
  room.bands.clear();
  for (int expert = 0; expert < call.experts; expert++) {
    int first = room.next[expert], rows = room.next[expert + 1];
    for (int at = 0; at < rows; at += BAND)
      room.bands.push_back({expert, first + at, std::min(BAND, rows - at)});
    room.next[expert + 1] += first;
  }
  int sorted = room.next[call.experts];
  room.source.resize(sorted);
  room.place.resize(choices);
  for (int at = 0; at < choices; at++) {
    int64_t expert = call.chosen[at];
    room.place[at] = taken(expert) ? room.next[expert]++ : -1;
    if (taken(expert)) room.source[room.place[at]] = at / call.choices;
  }
  return sorted;
}

template <class T>
static void fit_experts_room(ExpertsRoom &room, const ExpertsCall &call, int sorted) {
  size_t rows = sorted;
  size_t bytes = rows * (call.hidden * (sizeof(float) + sizeof(T)) + call.inner * sizeof(T)) + 4 * 64;
  if (room.memory.size() * sizeof(float) < bytes) room.memory.resize(bytes / sizeof(float) + 1);
  char *at = (char *)room.memory.data();
  at += (64 - (uintptr_t)at % 64) % 64;
  auto lay_out = [&](size_t size) {
    void *here = at;
    at += (size + 63) / 64 * 64;
    return here;
  };
  room.made = (float *)lay_out(rows * call.hidden * sizeof(float));
  room.inner = lay_out(rows * call.inner * sizeof(T));
  room.sorted = lay_out(rows * call.hidden * sizeof(T));
}

// One linear of each expert, `[sorted][inputs]` to `[sorted][outputs]`; `row_of` gives the rows.
template <class T, class Out, class RowOf>
static void apply_expert_linears(Worker &me, const Linear *linears, const std::vector<ExpertBand> &bands,
                                 int rows, RowOf row_of, T *gathered, Out *out, int64_t out_stride) {
  const Linear &first = linears[0];
  int panels = panels_of(first), chunk = 1;
  while (chunk < 8 && (int64_t)bands.size() * panels / (chunk * 2) >= 8 * me.team->threads) chunk *= 2;
  int chunks = (panels + chunk - 1) / chunk;
  auto share = [&](auto work) {
    me.share((int)bands.size() * chunks, [&](int piece) {
      const ExpertBand &band = bands[piece / chunks];
      int begin = piece % chunks * chunk, past = std::min(panels, begin + chunk);
      for (int panel = begin; panel < past; panel++) work(linears[band.expert], band, panel);
    });
  };
  if (first.bits != 0) {
    CodeRows how(first);
    const char *taken = take_rows<T>(me, how, rows, [&](int row) {
      auto past = std::upper_bound(bands.begin(), bands.end(), row,
                                   [](int at, const ExpertBand &band) { return at < band.first; });
      return in_order(linears[std::prev(past)->expert], row_of(row));
    });
    share([&](const Linear &linear, const ExpertBand &band, int panel) {
      code_rows_by_panel<T, Out>(linear, how, taken + band.first * how.stride, band.rows, panel,
                                 out + band.first * out_stride, out_stride);
    });
    return;
  }
  int inputs = first.inputs;
  const PlainValue<T> *x;
  if constexpr (std::is_same_v<T, PlainValue<T>>) {
    if (gathered != nullptr)
      me.share(rows, [&](int row) {
        memcpy(gathered + (int64_t)row * inputs, row_of(row), inputs * sizeof(T));
      });
    x = gathered != nullptr ? gathered : row_of(0);  // or they lie in order already
  } else {
    x = widened_rows<T>(me, rows, inputs, row_of);
  }
  share([&](const Linear &linear, const ExpertBand &band, int panel) {
    rows_by_panel<T, Out>(linear, x + (int64_t)band.first * inputs, inputs, band.rows, panel,
                          out + band.first * out_stride, out_stride);
  });
}

template <class T>
static void apply_experts(Worker &me, const ExpertsCall &call, const ExpertsRoom &room, int sorted) {
  const T *x = (const T *)call.x;
  T *inner = (T *)room.inner;
  if (sorted > 0) {
    auto token = [&](int row) { return x + room.source[row] * call.x_stride; };
    auto own = [&](int row) { return inner + (int64_t)row * call.inner; };
    apply_expert_linears<T, T>(me, call.gate_up, room.bands, sorted, token, (T *)room.sorted, inner,
                               call.inner);
    apply_expert_linears<T, float>(me, call.down, room.bands, sorted, own, (T *)nullptr, room.made,
                                   call.hidden);
  }
  me.share(call.rows, [&](int row) {
    T *out = (T *)call.out + row * call.out_stride;
    const int *place = room.place.data() + row * call.choices;
    const float *shares = call.shares + (int64_t)row * call.choices;
    for (int at = 0; at < call.hidden; at += LANES) {
      int count = call.hidden - at;
      f32 total = all(0);
      for (int choice = 0; choice < call.choices; choice++)
        if (place[choice] >= 0)
          total += take(room.made + (int64_t)place[choice] * call.hidden + at, count) *
                   all(shares[choice]);
      put(out + at, total, count);
    }
  });
}

static void run_experts(const ExpertsCall &call) {
  static thread_local ExpertsRoom room;
  int sorted = sort_choices(call, room);
  if (call.kind == 1)
    fit_experts_room<bf16>(room, call, sorted);
  else
    fit_experts_room<float>(room, call, sorted);
  const ExpertsRoom *here = &room;
  auto work = [&call, here, sorted](Worker &me) {
    if (call.kind == 1)
      apply_experts<bf16>(me, call, *here, sorted);
    else
      apply_experts<float>(me, call, *here, sorted);
  };
  together((int64_t)sorted * call.hidden * call.inner > WORTH_PRODUCTS, work);
}
