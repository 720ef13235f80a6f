// Low-rank adapters (LoRA) of a linear: rows of several adapters in one batch, as in the kernels of
// Punica and S-LoRA. A row is first multiplied down to the ranks of its own adapter; what comes back
// up is added to the sums of each panel, before a gate opens or anything is scaled. Rows without an
// adapter pay one look.
#pragma once
#include <algorithm>

#include "linear.h"

// A panel's part of the matrix up: its columns see some of the ranks, one after the other.
struct LoraPanel {
  int64_t offset;  // in values, of `[past - first][PANEL]`
  int32_t first, past;
};

// The part of one adapter in one linear.
struct LoraMatrix {
  const void *down;     // [ranks][inputs] of the rows' type
  const float *scales;  // [ranks]
  const void *up;       // of the rows' type, panel by panel
  const LoraPanel *panels;
  int32_t ranks;  // 0: the adapter leaves this linear alone
};

// The adapters of the rows of one linear.
struct LoraRows {
  const LoraMatrix *matrices;  // by number of the adapter, from 1 on
  const int32_t *adapters;     // [rows], 0: none
  float *lowered;              // [rows][stride]
  int64_t stride;
};

constexpr int RANKS_A_PIECE = 8, ROWS_TOGETHER = 4;

// One row times COUNT rows of the matrix down.
template <int COUNT, class T>
INLINE void lower_ranks(const T *x, const T *down, int inputs, const float *scales, float *out) {
  f32 sums[COUNT];
  UNROLL
  for (int at = 0; at < COUNT; at++) sums[at] = all(0);
  int k = 0;
  for (; k + LANES <= inputs; k += LANES) {
    f32 value = load(x + k);
    UNROLL
    for (int at = 0; at < COUNT; at++) sums[at] += value * load(down + (int64_t)at * inputs + k);
  }
  UNROLL
  for (int at = 0; at < COUNT; at++) {
    float total = sum(sums[at]);
    for (int rest = k; rest < inputs; rest++)
      total += widen(x[rest]) * widen(down[(int64_t)at * inputs + rest]);
    out[at] = total * scales[at];
  }
}

// Multiply rows down to their ranks, by the whole team.
template <class T>
static void lower_rows(Worker &me, const LoraRows &lora, int inputs, const T *x, int64_t x_stride,
                       int rows) {
  int pieces = (int)((lora.stride + RANKS_A_PIECE - 1) / RANKS_A_PIECE);
  int chunk = rows > 16 * me.team->threads ? ROWS_TOGETHER : 1;
  int chunks = (rows + chunk - 1) / chunk;
  me.share(chunks * pieces, [&](int piece) {
    int first = piece % pieces * RANKS_A_PIECE;
    int past_row = std::min(rows, piece / pieces * chunk + chunk);
    for (int row = piece / pieces * chunk; row < past_row; row++) {
      if (lora.adapters[row] == 0) continue;
      const LoraMatrix &matrix = lora.matrices[lora.adapters[row] - 1];
      int past = std::min(matrix.ranks, first + RANKS_A_PIECE);
      float *out = lora.lowered + row * lora.stride;
      const T *from = x + row * x_stride, *down = (const T *)matrix.down;
      int rank = first;
      for (; rank + 4 <= past; rank += 4)
        lower_ranks<4>(from, down + (int64_t)rank * inputs, inputs, matrix.scales + rank, out + rank);
      for (; rank < past; rank++)
        lower_ranks<1>(from, down + (int64_t)rank * inputs, inputs, matrix.scales + rank, out + rank);
    }
  });
}

// Add what comes back up to the sums of a panel, `[rows][PANEL]`.
template <class T>
static void raise_rows(const LoraRows &lora, int first_row, int rows, int panel, float *sums) {
  for (int row = 0; row < rows; row++, sums += PANEL) {
    int adapter = lora.adapters[first_row + row];
    if (adapter == 0) continue;
    const LoraMatrix &matrix = lora.matrices[adapter - 1];
    if (matrix.ranks == 0) continue;
    LoraPanel part = matrix.panels[panel];
    const float *lowered = lora.lowered + (first_row + row) * lora.stride;
    const T *up = (const T *)matrix.up + part.offset;
    f32 total[WIDE];
    UNROLL
    for (int v = 0; v < WIDE; v++) total[v] = load(sums + v * LANES);
    for (int rank = part.first; rank < part.past; rank++, up += PANEL) {
      f32 value = all(lowered[rank]);
      UNROLL
      for (int v = 0; v < WIDE; v++) total[v] += value * load(up + v * LANES);
    }
    UNROLL
    for (int v = 0; v < WIDE; v++) store(sums + v * LANES, total[v]);
  }
}
