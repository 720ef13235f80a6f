// One panel of a weight in codes; quantised.h says how it is laid out.
#pragma once
#include "code_rows.h"

INLINE size_t code_bytes(int padded, int bits) { return (size_t)padded * PANEL * bits / 8; }

// Sixteen values of fp16.
INLINE f32 load_halves(const uint16_t *from) {
#if defined(__AVX512F__)
  return (f32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#else
  u32 bits = load_words(from);
  u32 sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
  f32 value = (f32)rest * all(5.192296858534828e33f);  // 2^112 moves the exponent
  return (f32)((u32)value | sign);
#endif
}

// One panel of a weight.
struct CodePanel {
  const char *codes;
  const uint16_t *scales, *zeros;
  const float *factors, *table;
};

INLINE CodePanel code_panel(const Linear &linear, const CodeRows &how, int panel) {
  size_t scales = (size_t)panel * how.groups * PANEL;
  return {(const char *)linear.weight + panel * code_bytes(how.padded, linear.bits),
          linear.scales + scales, linear.zeros == nullptr ? nullptr : linear.zeros + scales,
          linear.factors + (size_t)panel * PANEL, linear.table};
}
