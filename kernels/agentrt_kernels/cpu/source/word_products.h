// Products of codes and rows of sixteen bits, where the processor multiplies pairs of words and adds
// them (AVX2) and has no dot products of bytes.
//
// The four codes of a column are widened to words and multiplied by four words of the row: two sums a
// column, which are added at the end of a block. Sums are exact within a block.
#pragma once
#include "code_panel.h"

#if HAS_WORD_DOT
constexpr int NARROW = 8;  // columns of a register

// Four codes of each of eight columns as words: columns 0, 1, 4, 5, then 2, 3, 6, 7.
INLINE void widen_codes(__m256i codes, __m256i (&words)[2]) {
  words[0] = _mm256_unpacklo_epi8(codes, _mm256_setzero_si256());
  words[1] = _mm256_unpackhi_epi8(codes, _mm256_setzero_si256());
}

// Sums of ROWS rows times one panel, `[ROWS][PANEL]`, as many columns at a time as leave the sums of
// all rows in registers. Memory `ahead` bytes on is prefetched.
template <int BITS, bool ZEROS, int ROWS>
static __attribute__((noinline)) void multiply_words(const CodeRows &how, const char *rows,
                                                     const CodePanel &panel, int64_t ahead,
                                                     float *out) {
  constexpr int AT_ONCE = ROWS == 1 ? 4 : ROWS <= 3 ? 2 : 1;
  constexpr int LINE = PANEL * 4, STEP_BYTES = STEP * PANEL * BITS / 8;
  for (int first = 0; first < PANEL; first += AT_ONCE * NARROW) {
    const char *codes = panel.codes + first * 4;
    __m256 values[ROWS][AT_ONCE] = {};
    for (int block = 0, k = 0; k < how.padded; block++) {
      int group = k / how.group, past = how.block_end(k);
      __m256i sums[ROWS][AT_ONCE][2] = {};
      for (; k < past; k += STEP, codes += STEP_BYTES) {
        UNROLL
        for (int half = 0; half < 2; half++) {
          __m256i words[AT_ONCE][2];
          UNROLL
          for (int v = 0; v < AT_ONCE; v++) {
            const char *from = codes + (BITS == 8 ? half * LINE : 0) + v * NARROW * 4;
            __m256i four = _mm256_loadu_si256((const __m256i *)from);
            if (v % 2 == 0 && (BITS == 8 || half == 0)) __builtin_prefetch(from + ahead, 0, 2);
            if (BITS == 4) {
              if (half == 1) four = _mm256_srli_epi16(four, 4);
              four = _mm256_and_si256(four, _mm256_set1_epi8(15));
            }
            widen_codes(four, words[v]);
          }
          UNROLL
          for (int row = 0; row < ROWS; row++) {
            int64_t of_row;
            memcpy(&of_row, rows + row * how.stride + 2 * (k + 4 * half), sizeof of_row);
            __m256i x = _mm256_set1_epi64x(of_row);
            UNROLL
            for (int v = 0; v < AT_ONCE; v++)
              UNROLL
              for (int part = 0; part < 2; part++)
                sums[row][v][part] = _mm256_add_epi32(sums[row][v][part],
                                                      _mm256_madd_epi16(words[v][part], x));
          }
        }
      }
      UNROLL
      for (int v = 0; v < AT_ONCE; v++) {
        size_t at = (size_t)group * PANEL + first + v * NARROW;
        __m256 scale = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(panel.scales + at))), zero;
        if (ZEROS) zero = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(panel.zeros + at)));
        UNROLL
        for (int row = 0; row < ROWS; row++) {
          const BlockStart &start =
              ((const BlockStart *)(rows + row * how.stride + how.starts))[block];
          __m256i whole = _mm256_add_epi32(_mm256_hadd_epi32(sums[row][v][0], sums[row][v][1]),
                                           _mm256_set1_epi32(start.start));
          __m256 value = _mm256_cvtepi32_ps(whole);
          if (ZEROS) value -= zero * _mm256_set1_ps(start.sum);
          values[row][v] += value * scale;
        }
      }
    }
    UNROLL
    for (int v = 0; v < AT_ONCE; v++) {
      __m256 factor = _mm256_loadu_ps(panel.factors + first + v * NARROW);
      UNROLL
      for (int row = 0; row < ROWS; row++) {
        float scale;
        memcpy(&scale, rows + row * how.stride + how.scale, sizeof(float));
        _mm256_storeu_ps(out + row * PANEL + first + v * NARROW,
                         values[row][v] * factor * _mm256_set1_ps(scale));
      }
    }
  }
}
#endif
