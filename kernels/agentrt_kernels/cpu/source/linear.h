// x @ weight.T with the weight packed so that it is read once, from its beginning to its end.
//
// A panel is 32 columns of the result. fp32: [panel][K][32]; bf16: [panel][K / 2][32][2], two
// neighbours of K side by side, as the dot product of pairs takes them. Where that is slow or missing a
// shift and a mask make them fp32, and rows are made fp32 before. Columns past the last are zero.
#pragma once
#include <type_traits>

#include "team.h"
#include "vector.h"

constexpr int PANEL = 32;
constexpr int64_t AHEAD = 4096;  // bytes
constexpr int WIDE = PANEL / LANES;
// Rows whose sums stay in registers, and how many vectors of a panel's columns pass them at once.
constexpr int MOST_ROWS = REGISTER_BYTES == 64 ? 12 : REGISTER_BYTES == 32 ? 4 : 2;
constexpr int vectors_at_once(int rows) { return REGISTER_BYTES == 64 || rows == 1 ? WIDE : 1; }

// How the columns of a panel become a result.
enum class After : int32_t { STORE = 0, ADD = 1, GATE = 2 };

// What a code of a quantised weight stands for: a step from the middle code, a value of a table of
// sixteen, or a number of eight bits with four of exponent and three of mantissa.
enum class Coding : int32_t { STEPS = 0, TABLE = 1, E4M3 = 2 };

struct Linear {
  const void *weight;  // packed
  const uint16_t *scales, *zeros;  // fp16 of a quantised weight, see quantised.h; zeros may be null
  const float *factors;
  const void *bias;    // [N] of the weight's type, gates first if it is gated, or null
  const int32_t *order;  // the input of x that each input of a quantised weight takes; null for the same
  const float *table;    // [16] values of codes, or null
  int32_t inputs, outputs;
  int32_t bits, group;  // of a quantised weight: bits of a code, inputs that share a scale; or 0
  int32_t row_bits;     // to which rows are rounded for a quantised weight: 16 or 8
  Coding coding;
  After after;
  float scale;  // of what is stored or added
  Activation activation;  // of what is gated
};

INLINE int panels_of(int outputs) { return (outputs + PANEL - 1) / PANEL; }

template <class T>
INLINE size_t panel_values(int inputs) {
  return (size_t)inputs * PANEL;
}

// Rows `row_of(n)` of a [N, K] matrix, as a panel.
template <class T, class RowOf>
static void pack_panel(const T *weight, int64_t stride, int inputs, RowOf row_of, T *panel) {
  constexpr int PAIR = sizeof(T) == 2 ? 2 : 1;
  for (int column = 0; column < PANEL; column++) {
    int64_t row = row_of(column);
    for (int k = 0; k < inputs; k++) {
      T value{};
      if (row >= 0) value = weight[row * stride + k];
      panel[(size_t)(k / PAIR) * PANEL * PAIR + column * PAIR + k % PAIR] = value;
    }
  }
}

// Sums of ROWS rows times AT_ONCE vectors of a panel's columns, from the first of them on. Memory
// `ahead` bytes on is prefetched.
template <int ROWS, int AT_ONCE>
INLINE void add_products(const float *x, int64_t stride, const float *columns, int inputs, int64_t ahead,
                         f32 (&sums)[ROWS][AT_ONCE]) {
  for (int k = 0; k < inputs; k++) {
    f32 w[AT_ONCE];
    UNROLL
    for (int v = 0; v < AT_ONCE; v++) {
      const float *from = columns + (size_t)k * PANEL + v * LANES;
      w[v] = load(from);
      __builtin_prefetch((const char *)from + ahead, 0, 2);
    }
    UNROLL
    for (int row = 0; row < ROWS; row++) {
      f32 value = all(x[row * stride + k]);
      UNROLL
      for (int v = 0; v < AT_ONCE; v++) sums[row][v] += value * w[v];
    }
  }
}

// The same of pairs, by dot products, or in fp32 for rows that are.
template <int ROWS, int AT_ONCE, class Row>
INLINE void add_products(const Row *x, int64_t stride, const bf16 *columns, int inputs, int64_t ahead,
                         f32 (&sums)[ROWS][AT_ONCE]) {
  for (int k = 0; k < inputs; k += 2) {
    u32 w[AT_ONCE];
    f32 even[AT_ONCE], odd[AT_ONCE];
    UNROLL
    for (int v = 0; v < AT_ONCE; v++) {
      const bf16 *from = columns + (size_t)k * PANEL + v * 2 * LANES;
      w[v] = load_bits(from);
      __builtin_prefetch((const char *)from + ahead, 0, 2);
      even[v] = first_of(w[v]);
      odd[v] = second_of(w[v]);
    }
    UNROLL
    for (int row = 0; row < ROWS; row++) {
      const Row *here = x + row * stride + k;
      if constexpr (std::is_same_v<Row, float>) {
        f32 one = all(here[0]), two = all(here[1]);
        UNROLL
        for (int v = 0; v < AT_ONCE; v++) sums[row][v] = sums[row][v] + one * even[v] + two * odd[v];
      } else {
        uint32_t pair;
        memcpy(&pair, here, 4);
        u32 value = all_bits(pair);
        UNROLL
        for (int v = 0; v < AT_ONCE; v++) sums[row][v] = dot(sums[row][v], w[v], value);
      }
    }
  }
}

// Sums of ROWS rows times one panel, `[ROWS][PANEL]`.
template <int ROWS, class T, class Row>
static __attribute__((noinline)) void multiply(const Row *x, int64_t stride, const T *panel, int inputs,
                                               int64_t ahead, float *out) {
  constexpr int AT_ONCE = vectors_at_once(ROWS);
  constexpr int EACH = LANES * sizeof(float) / sizeof(T);  // values of a vector of columns
  for (int first = 0; first < WIDE; first += AT_ONCE) {
    f32 sums[ROWS][AT_ONCE] = {};
    add_products(x, stride, panel + first * EACH, inputs, ahead, sums);
    UNROLL
    for (int row = 0; row < ROWS; row++)
      UNROLL
      for (int v = 0; v < AT_ONCE; v++) store(out + row * PANEL + (first + v) * LANES, sums[row][v]);
  }
}

template <class T, class Row>
static void multiply_rows(int rows, const Row *x, int64_t stride, const T *panel, int inputs,
                          int64_t ahead, float *out) {
#define ROWS_ARE(N) \
  case N:           \
    if constexpr (N <= MOST_ROWS) return multiply<N>(x, stride, panel, inputs, ahead, out);
  switch (rows) {
    ROWS_ARE(1)
    ROWS_ARE(2)
    ROWS_ARE(3)
    ROWS_ARE(4)
    ROWS_ARE(5)
    ROWS_ARE(6)
    ROWS_ARE(7)
    ROWS_ARE(8)
    ROWS_ARE(9)
    ROWS_ARE(10)
    ROWS_ARE(11)
    ROWS_ARE(12)
  }
#undef ROWS_ARE
}

// Write the sums of a panel.
template <class T, class Out>
static void finish_panel(const Linear &linear, const float *sums, int rows, int panel, Out *out,
                         int64_t out_stride) {
  if (linear.after == After::GATE) {  // sixteen gates, then the sixteen values they open for
    int first = panel * LANES, left = linear.outputs - first;
    for (int row = 0; row < rows; row++, sums += PANEL) {
      f32 gate = load(sums), value = load(sums + LANES);
      if (linear.bias != nullptr) {
        const T *bias = (const T *)linear.bias + first;
        gate += take(bias, left);
        value += take(bias + linear.outputs, left);
      }
      put(out + row * out_stride + first, opened(linear.activation, gate, value), left);
    }
    return;
  }
  int first = panel * PANEL, left = linear.outputs - first;
  for (int row = 0; row < rows; row++, sums += PANEL) {
    Out *to = out + row * out_stride + first;
    for (int v = 0; v < WIDE && left > v * LANES; v++) {
      int count = left - v * LANES;
      f32 value = load(sums + v * LANES);
      if (linear.bias != nullptr)
        value += take((const T *)linear.bias + first + v * LANES, count);
      value *= all(linear.scale);
      if (linear.after == After::ADD) value += take(to + v * LANES, count);
      put(to + v * LANES, value, count);
    }
  }
}

// Adds nothing to the sums of a panel: a linear as it is.
struct NoAddend {
  void operator()(int, int, int, float *) const {}
};

// A value of a row as a plain weight of type T takes it.
template <class T>
using PlainValue = std::conditional_t<QUICK_BF16_DOT, T, float>;

// All rows, in blocks that differ by one row at most, times one panel. `add` changes the sums of
// some rows, given the first of them, their number and the panel.
template <class T, class Out, class Add = NoAddend>
static void rows_by_panel(const Linear &linear, const PlainValue<T> *x, int64_t x_stride, int rows,
                          int panel, Out *out, int64_t out_stride, Add add = Add{}) {
  alignas(64) float sums[MOST_ROWS * PANEL];
  size_t values = panel_values<T>(linear.inputs);
  const T *weight = (const T *)linear.weight + panel * values;
  int blocks = (rows + MOST_ROWS - 1) / MOST_ROWS;
  for (int at = 0, left = blocks; left > 0; left--) {
    int count = (rows - at + left - 1) / left;
    // One block reads what comes from memory a little ahead; of several the last has the panel near
    // and brings the next one.
    int64_t ahead = blocks == 1 ? AHEAD : left == 1 ? (int64_t)(values * sizeof(T)) : 0;
    multiply_rows(count, x + at * x_stride, x_stride, weight, linear.inputs, ahead, sums);
    add(at, count, panel, sums);
    finish_panel<T>(linear, sums, count, panel, out + at * out_stride, out_stride);
    at += count;
  }
}

INLINE int panels_of(const Linear &linear) {
  return linear.after == After::GATE ? (linear.outputs + LANES - 1) / LANES
                                     : panels_of(linear.outputs);
}

// Rows in bands, so that a band stays near while panels pass.
constexpr int BAND = 192;

// Call `work` with the first of some rows, their number, and a panel, by the whole team.
template <class Work>
static void share_panels(Worker &me, const Linear &linear, int rows, Work work) {
  int panels = panels_of(linear);
  int bands = (rows + BAND - 1) / BAND;
  int chunk = 1;
  while (rows <= 4 * MOST_ROWS && chunk < 8 && panels / (chunk * 2) >= 8 * me.team->threads) chunk *= 2;
  int chunks = (panels + chunk - 1) / chunk;
  me.share(chunks * bands, [&](int piece) {
    int at = piece / chunks * BAND, first = piece % chunks * chunk;
    int count = rows - at < BAND ? rows - at : BAND;
    int past = first + chunk < panels ? first + chunk : panels;
    for (int panel = first; panel < past; panel++) work(at, count, panel);
  });
}

// Rows in fp32, one behind the other, where `row_of` gives their values, for the whole team.
template <class T, class RowOf>
static const float *widened_rows(Worker &me, int rows, int inputs, RowOf row_of) {
  constexpr int FEW_ROWS = 16;
  auto widen_row = [&](int row, char *to) {
    const T *from = row_of(row);
    for (int k = 0; k < inputs; k += LANES)
      put((float *)to + k, take(from + k, inputs - k), inputs - k);
  };
  return (const float *)filled_rows(me, rows, FEW_ROWS, inputs * sizeof(float), widen_row);
}

// One linear of a plain weight by the whole team.
template <class T, class Out, class Add>
static void apply_plain(Worker &me, const Linear &linear, const T *x, int64_t x_stride, int rows,
                        Out *out, int64_t out_stride, Add add) {
  const PlainValue<T> *taken;
  int64_t stride;
  if constexpr (std::is_same_v<T, PlainValue<T>>) {
    taken = x;
    stride = x_stride;
  } else {
    taken = widened_rows<T>(me, rows, linear.inputs, [&](int row) { return x + row * x_stride; });
    stride = linear.inputs;
  }
  share_panels(me, linear, rows, [&](int at, int count, int panel) {
    auto here = [&](int first, int some, int which, float *sums) { add(at + first, some, which, sums); };
    rows_by_panel<T, Out>(linear, taken + at * stride, stride, count, panel, out + at * out_stride,
                          out_stride, here);
  });
}
