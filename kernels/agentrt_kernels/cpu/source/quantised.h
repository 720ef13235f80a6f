// x @ weight.T of a weight that stays in codes of eight or four bits.
//
// A panel is 32 columns of the result, as in linear.h. Codes of eight bits: [panel][K / 4][32][4];
// of four bits: [panel][K / 8][32][4], four inputs in the lower halves of the bytes and the next
// four in the upper ones. K ends at a multiple of 8. A weight is
// (code - middle - zero) * scale * factor: scales and zeros [panel][group][32] fp16, factors
// [panel][32]. The factors are powers of two that keep the scales within the range of fp16. Codes that
// are no steps stand for a value themselves, without a middle and a zero.
#pragma once
#include "code_panel.h"
#include "e4m3.h"
#include "lora.h"
#include "word_products.h"

constexpr int MOST_CODE_ROWS = HAS_BYTE_DOT || HAS_WORD_DOT ? 6 : 2;
constexpr int MOST_VALUE_ROWS = HAS_BYTE_DOT ? 6 : 2;  // by fp32: as many as leave sums in registers

#if HAS_BYTE_DOT
// The codes of eight inputs, four in each half. Memory `ahead` bytes on is prefetched.
template <int BITS>
INLINE void load_codes(const char *codes, int64_t ahead, __m512i (&w)[2][WIDE]) {
  UNROLL
  for (int v = 0; v < WIDE; v++) {
    if (BITS == 8) {
      UNROLL
      for (int half = 0; half < 2; half++) {
        const char *from = codes + (half * WIDE + v) * 64;
        w[half][v] = _mm512_loadu_si512(from);
        __builtin_prefetch(from + ahead, 0, 2);
      }
    } else {
      const __m512i mask = _mm512_set1_epi8(15);
      __m512i both = _mm512_loadu_si512(codes + v * 64);
      __builtin_prefetch(codes + v * 64 + ahead, 0, 2);
      w[0][v] = _mm512_and_si512(both, mask);
      w[1][v] = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
    }
  }
}

// Products of ROWS rows and one group of a panel. Few rows sum in two places, so that no sum waits
// for the one before.
template <int CODE_BITS, int ROWS>
struct StepSums {
  static constexpr int BITS = CODE_BITS;
  static constexpr int PLACES = ROWS <= 2 ? 2 : 1;
  __m512i high[ROWS][WIDE][PLACES], low[ROWS][WIDE][PLACES];

  __attribute__((always_inline)) void begin(const CodePanel &, const char *rows, size_t stride,
                                            size_t starts, int group) {
    UNROLL
    for (int row = 0; row < ROWS; row++) {
      const GroupStart &start = ((const GroupStart *)(rows + row * stride + starts))[group];
      UNROLL
      for (int v = 0; v < WIDE; v++) {
        UNROLL
        for (int place = 0; place < PLACES; place++) {
          high[row][v][place] = _mm512_set1_epi32(place == 0 ? start.high : 0);
          low[row][v][place] = _mm512_set1_epi32(place == 0 ? start.low : 0);
        }
      }
    }
  }

  // Eight inputs.
  __attribute__((always_inline)) void add(const char *rows, size_t stride, int k, const char *codes,
                                          int64_t ahead) {
    __m512i w[2][WIDE];
    load_codes<BITS>(codes, ahead, w);
    UNROLL
    for (int row = 0; row < ROWS; row++) {
      UNROLL
      for (int half = 0; half < 2; half++) {
        const int32_t *x = (const int32_t *)(rows + row * stride + 2 * k) + 2 * half;
        __m512i h = _mm512_set1_epi32(x[0]), l = _mm512_set1_epi32(x[1]);
        UNROLL
        for (int v = 0; v < WIDE; v++) {
          __m512i &to_high = high[row][v][half % PLACES], &to_low = low[row][v][half % PLACES];
          to_high = _mm512_dpbusd_epi32(to_high, w[half][v], h);
          to_low = _mm512_dpbusd_epi32(to_low, w[half][v], l);
        }
      }
    }
  }

  __attribute__((always_inline)) f32 value(int row, int v) const {
    __m512i h = high[row][v][0], l = low[row][v][0];
    if (PLACES == 2) {
      h = _mm512_add_epi32(h, high[row][v][PLACES - 1]);
      l = _mm512_add_epi32(l, low[row][v][PLACES - 1]);
    }
    return (f32)_mm512_cvtepi32_ps(h) * all(256.0f) + (f32)_mm512_cvtepi32_ps(l);
  }
};
#endif

// The values of code `input` of eight in each word: of eight bits four a word, of four bits all.
template <Coding CODING, int BITS>
INLINE f32 code_values(u32 words, int input, f32 table) {
  if (CODING == Coding::E4M3) {
    return e4m3_values(words << (24 - input % 4 * 8));
  }
  u32 code = words >> (input % 4 * 8 + (BITS == 4 ? input / 4 * 4 : 0));
  if (CODING == Coding::TABLE) return looked_up(table, code);
  constexpr int MIDDLE = BITS == 8 ? 128 : 8;
  return converted_to<f32>((i32)(code & (BITS == 8 ? 255u : 15u)) - MIDDLE);
}

// The same by fp32, of any coding.
template <Coding CODING, int CODE_BITS, int ROWS>
struct ValueSums {
  static constexpr int BITS = CODE_BITS;
  f32 sums[ROWS][WIDE], table;

  __attribute__((always_inline)) void begin(const CodePanel &panel, const char *, size_t, size_t, int) {
    if (CODING == Coding::TABLE) table = load(panel.table);
    UNROLL
    for (int row = 0; row < ROWS; row++)
      UNROLL
      for (int v = 0; v < WIDE; v++) sums[row][v] = all(0);
  }

  // Eight inputs.
  __attribute__((always_inline)) void add(const char *rows, size_t stride, int k, const char *codes,
                                          int64_t ahead) {
    constexpr int LINES = BITS == 8 ? 2 : 1;
    u32 w[LINES][WIDE];
    UNROLL
    for (int line = 0; line < LINES; line++)
      UNROLL
      for (int v = 0; v < WIDE; v++) {
        const char *from = codes + (line * WIDE + v) * 64;
        w[line][v] = load_bits(from);
        __builtin_prefetch(from + ahead, 0, 2);
      }
    UNROLL
    for (int input = 0; input < STEP; input++) {
      UNROLL
      for (int v = 0; v < WIDE; v++) {
        f32 weight = code_values<CODING, BITS>(w[BITS == 8 ? input / 4 : 0][v], input, table);
        UNROLL
        for (int row = 0; row < ROWS; row++)
          sums[row][v] += weight * all(((const float *)(rows + row * stride))[k + input]);
      }
    }
  }

  __attribute__((always_inline)) f32 value(int row, int v) const { return sums[row][v]; }
};

#if !HAS_BYTE_DOT
template <int BITS, int ROWS>
using StepSums = ValueSums<Coding::STEPS, BITS, ROWS>;
#endif

// Sums of ROWS rows times one panel, `[ROWS][PANEL]`. Memory `ahead` bytes on is prefetched.
template <class Sums, bool ZEROS, int ROWS>
static __attribute__((noinline)) void multiply_codes(const CodeRows &how, const char *rows,
                                                     CodePanel panel, int64_t ahead, float *out) {
  constexpr int STEP_BYTES = STEP * PANEL * Sums::BITS / 8;
  const char *codes = panel.codes;
  for (int at = 0; at < ROWS * PANEL; at += LANES) store(out + at, all(0));
  for (int group = 0, k = 0; group < how.groups; group++) {
    int past = std::min(how.padded, k + how.group);
    Sums sums;
    sums.begin(panel, rows, how.stride, how.starts, group);
    for (; k < past; k += STEP, codes += STEP_BYTES) sums.add(rows, how.stride, k, codes, ahead);
    UNROLL
    for (int v = 0; v < WIDE; v++) {
      f32 scale = load_halves(panel.scales + group * PANEL + v * LANES), zero;
      if (ZEROS) zero = load_halves(panel.zeros + group * PANEL + v * LANES);
      UNROLL
      for (int row = 0; row < ROWS; row++) {
        f32 value = sums.value(row, v);
        if (ZEROS) {
          const GroupStart *starts = (const GroupStart *)(rows + row * how.stride + how.starts);
          value -= zero * all(starts[group].sum);
        }
        float *to = out + row * PANEL + v * LANES;
        store(to, load(to) + value * scale);
      }
    }
  }
  UNROLL
  for (int v = 0; v < WIDE; v++) {
    f32 factor = load(panel.factors + v * LANES);
    UNROLL
    for (int row = 0; row < ROWS; row++) {
      float scale;
      memcpy(&scale, rows + row * how.stride + how.scale, sizeof(float));
      float *to = out + row * PANEL + v * LANES;
      store(to, load(to) * factor * all(scale));
    }
  }
}

#if HAS_BYTE_DOT
// The same for rows rounded to eight bits, whose sums stay in registers over all blocks.
template <int BITS, bool ZEROS, int ROWS>
static __attribute__((noinline)) void multiply_bytes(const CodeRows &how, const char *rows,
                                                     CodePanel panel, int64_t ahead, float *out) {
  constexpr int STEP_BYTES = STEP * PANEL * BITS / 8, PLACES = ROWS <= 2 ? 2 : 1;
  const char *codes = panel.codes;
  f32 values[ROWS][WIDE] = {};
  for (int block = 0, k = 0; k < how.padded; block++) {
    int group = k / how.group, past = how.block_end(k);
    auto start_of = [&](int row) -> const BlockStart & {
      return ((const BlockStart *)(rows + row * how.stride + how.starts))[block];
    };
    __m512i sums[ROWS][WIDE][PLACES];
    UNROLL
    for (int row = 0; row < ROWS; row++)
      UNROLL
      for (int v = 0; v < WIDE; v++)
        UNROLL
        for (int place = 0; place < PLACES; place++)
          sums[row][v][place] = _mm512_set1_epi32(place == 0 ? start_of(row).start : 0);
    for (; k < past; k += STEP, codes += STEP_BYTES) {
      __m512i w[2][WIDE];
      load_codes<BITS>(codes, ahead, w);
      UNROLL
      for (int row = 0; row < ROWS; row++) {
        const int32_t *x = (const int32_t *)(rows + row * how.stride + k);
        UNROLL
        for (int half = 0; half < 2; half++) {
          __m512i values_of_x = _mm512_set1_epi32(x[half]);
          UNROLL
          for (int v = 0; v < WIDE; v++) {
            __m512i &to = sums[row][v][half % PLACES];
            to = _mm512_dpbusd_epi32(to, w[half][v], values_of_x);
          }
        }
      }
    }
    UNROLL
    for (int v = 0; v < WIDE; v++) {
      f32 scale = load_halves(panel.scales + group * PANEL + v * LANES), zero;
      if (ZEROS) zero = load_halves(panel.zeros + group * PANEL + v * LANES);
      UNROLL
      for (int row = 0; row < ROWS; row++) {
        const BlockStart &start = start_of(row);
        __m512i whole = sums[row][v][0];
        if (PLACES == 2) whole = _mm512_add_epi32(whole, sums[row][v][PLACES - 1]);
        f32 value = (f32)_mm512_cvtepi32_ps(whole);
        if (ZEROS) value -= zero * all(start.sum);
        values[row][v] += value * (scale * all(start.scale));
      }
    }
  }
  UNROLL
  for (int v = 0; v < WIDE; v++) {
    f32 factor = load(panel.factors + v * LANES);
    UNROLL
    for (int row = 0; row < ROWS; row++)
      store(out + row * PANEL + v * LANES, values[row][v] * factor);
  }
}
#endif

template <Coding CODING, int BITS, bool ZEROS, int ROWS>
static void multiply_code_rows(const CodeRows &how, const char *rows, const CodePanel &panel,
                               int64_t ahead, float *out) {
  if constexpr (CODING == Coding::STEPS) {
#if HAS_BYTE_DOT
    if (how.kind == RowKind::BYTES) return multiply_bytes<BITS, ZEROS, ROWS>(how, rows, panel, ahead, out);
#endif
#if HAS_WORD_DOT
    multiply_words<BITS, ZEROS, ROWS>(how, rows, panel, ahead, out);
#else
    multiply_codes<StepSums<BITS, ROWS>, ZEROS, ROWS>(how, rows, panel, ahead, out);
#endif
  } else if constexpr (ROWS > MOST_VALUE_ROWS) {
    constexpr int SOME = MOST_VALUE_ROWS;
    multiply_code_rows<CODING, BITS, ZEROS, SOME>(how, rows, panel, 0, out);
    multiply_code_rows<CODING, BITS, ZEROS, ROWS - SOME>(how, rows + SOME * how.stride, panel, ahead,
                                                         out + SOME * PANEL);
  } else {
    multiply_codes<ValueSums<CODING, BITS, ROWS>, ZEROS, ROWS>(how, rows, panel, ahead, out);
  }
}

template <Coding CODING, int BITS, bool ZEROS>
static void multiply_code_rows(int count, const CodeRows &how, const char *rows,
                               const CodePanel &panel, int64_t ahead, float *out) {
#define ROWS_ARE(N) \
  case N: return multiply_code_rows<CODING, BITS, ZEROS, N>(how, rows, panel, ahead, out);
  switch (count) {
    ROWS_ARE(1)
    ROWS_ARE(2)
#if HAS_BYTE_DOT || HAS_WORD_DOT
    ROWS_ARE(3)
    ROWS_ARE(4)
    ROWS_ARE(5)
    ROWS_ARE(6)
#endif
  }
#undef ROWS_ARE
}

using MultiplyCodeRows = void (*)(int, const CodeRows &, const char *, const CodePanel &, int64_t, float *);

static MultiplyCodeRows multiply_of(const Linear &linear) {
  constexpr Coding STEPS = Coding::STEPS;
  if (linear.coding == Coding::TABLE) return multiply_code_rows<Coding::TABLE, 4, false>;
  if (linear.coding == Coding::E4M3) return multiply_code_rows<Coding::E4M3, 8, false>;
  if (linear.bits == 8)
    return linear.zeros ? multiply_code_rows<STEPS, 8, true> : multiply_code_rows<STEPS, 8, false>;
  return linear.zeros ? multiply_code_rows<STEPS, 4, true> : multiply_code_rows<STEPS, 4, false>;
}

// All rows, in blocks that differ by one row at most, times one panel of codes. `taken` are the rows
// as `how` lays them out; `add` as in `rows_by_panel`.
template <class T, class Out, class Add = NoAddend>
static void code_rows_by_panel(const Linear &linear, const CodeRows &how, const char *taken, int rows,
                               int panel, Out *out, int64_t out_stride, Add add = Add{}) {
  MultiplyCodeRows multiply = multiply_of(linear);
  alignas(64) float sums[MOST_CODE_ROWS * PANEL];
  CodePanel codes = code_panel(linear, how, panel);
  int blocks = (rows + MOST_CODE_ROWS - 1) / MOST_CODE_ROWS;
  for (int at = 0, left = blocks; left > 0; left--) {
    int count = (rows - at + left - 1) / left;
    int64_t ahead = blocks == 1 ? AHEAD : left == 1 ? (int64_t)code_bytes(how.padded, linear.bits) : 0;
    multiply(count, how, taken + at * how.stride, codes, ahead, sums);
    add(at, count, panel, sums);
    finish_panel<T>(linear, sums, count, panel, out + at * out_stride, out_stride);
    at += count;
  }
}

// One linear of a quantised weight by the whole team.
template <class T, class Out, class Add>
static void apply_quantised(Worker &me, const Linear &linear, const T *x, int64_t x_stride, int rows,
                            Out *out, int64_t out_stride, Add add) {
  CodeRows how(linear);
  const char *taken = take_rows<T>(me, how, rows, [&](int row) {
    return in_order(linear, x + row * x_stride);
  });
  share_panels(me, linear, rows, [&](int at, int count, int panel) {
    auto here = [&](int first, int some, int which, float *sums) { add(at + first, some, which, sums); };
    code_rows_by_panel<T, Out>(linear, how, taken + at * how.stride, count, panel,
                               out + at * out_stride, out_stride, here);
  });
}

// One linear by the whole team; `add` as in `rows_by_panel`.
template <class T, class Out, class Add>
static void apply_adding(Worker &me, const Linear &linear, const T *x, int64_t x_stride, int rows,
                         Out *out, int64_t out_stride, Add add) {
  if (linear.bits != 0)
    apply_quantised(me, linear, x, x_stride, rows, out, out_stride, add);
  else
    apply_plain(me, linear, x, x_stride, rows, out, out_stride, add);
}

// One linear by the whole team, with the adapters of its rows unless there are none.
template <class T, class Out>
static void apply_linear(Worker &me, const Linear &linear, const T *x, int64_t x_stride, int rows,
                         Out *out, int64_t out_stride, const LoraRows *lora = nullptr) {
  if (rows == 0) return;
  if (lora == nullptr) return apply_adding(me, linear, x, x_stride, rows, out, out_stride, NoAddend{});
  lower_rows(me, *lora, linear.inputs, x, x_stride, rows);
  apply_adding(me, linear, x, x_stride, rows, out, out_stride,
               [&](int first, int some, int panel, float *sums) {
                 raise_rows<T>(*lora, first, some, panel, sums);
               });
}

// The codes of rows `row_of(column)` of a matrix, `[N, K]` int8 or `[N, K / 2]` of two codes a byte,
// the even input in the lower half, as a panel. What is past the end has no value: a row is zero there.
template <class RowOf>
static void pack_codes(const uint8_t *values, int64_t stride, int inputs, int bits, RowOf row_of,
                       int middle, uint8_t *panel) {
  int padded = (inputs + STEP - 1) / STEP * STEP;
  for (int column = 0; column < PANEL; column++) {
    int64_t row = row_of(column);
    const uint8_t *from = values + row * stride;
    for (int k = 0; k < padded; k += 4) {
      uint8_t *to = panel + (size_t)(bits == 8 ? k / 4 : k / 8) * PANEL * 4 + column * 4;
      for (int at = 0; at < 4; at++) {
        bool there = row >= 0 && k + at < inputs;
        if (bits == 8) {
          to[at] = there ? from[k + at] ^ middle : middle;
        } else {
          int code = there ? from[(k + at) / 2] >> (k + at) % 2 * 4 & 15 : 8;
          to[at] = k % 8 == 0 ? code : to[at] | code << 4;
        }
      }
    }
  }
}
