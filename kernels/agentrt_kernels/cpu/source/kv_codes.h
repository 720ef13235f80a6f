// Keys and values as codes of eight bits, each head of a token with a bf16 scale; see `kv_codes.py`.
//
// A code is exact in bf16 and in fp32, so that products are taken of codes as of values; the scale of
// a key multiplies its score, that of a value its weight.
#pragma once
#include <cmath>

#include "shuffle.h"

constexpr float MOST_CODE = 127.0f;
constexpr float TINY_SCALE = 1e-30f;

INLINE f32 load(const int8_t *from) {
#if defined(__AVX512F__)
  return (f32)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
#else
  return converted_to<f32>(widened_from<i32, int8_t>(from));
#endif
}
INLINE float widen(int8_t x) { return x; }

INLINE f32 converted(i32 whole) {
#if defined(__AVX512F__)
  return (f32)_mm512_cvtepi32_ps((__m512i)whole);
#else
  return converted_to<f32>(whole);
#endif
}

// Two fp32 whose lower halves are empty, as a pair of bf16.
INLINE u32 paired(f32 low, f32 high) { return ((u32)low >> 16) | (u32)high; }

// Two values as a pair of bf16.
INLINE uint32_t pair_at(const bf16 *from) { return from[0].bits | ((uint32_t)from[1].bits << 16); }
INLINE uint32_t pair_at(const int8_t *from) {
  float low = from[0], high = from[1];
  uint32_t a, b;
  memcpy(&a, &low, 4);
  memcpy(&b, &high, 4);
  return (a >> 16) | b;
}
INLINE uint32_t pair_at(const float *) { return 0; }  // never computed as pairs

// Thirty-two values as pairs of bf16.
INLINE u32 load_pairs(const bf16 *from) { return load_bits(from); }
INLINE u32 load_pairs(const int8_t *from) {
  i32 both = (i32)load_words(from);
  return paired(converted((both << 24) >> 24), converted((both << 16) >> 24));
}
INLINE u32 load_pairs(const float *) { return all_bits(0); }

// Sixty-four codes as thirty-two-bit words hold four each: the pairs of the first or last two.
INLINE u32 first_pair(u32 four) {
  return paired(converted((i32)(four << 24) >> 24), converted((i32)(four << 16) >> 24));
}
INLINE u32 last_pair(u32 four) {
  return paired(converted((i32)(four << 8) >> 24), converted((i32)four >> 24));
}

// The scale of a head, rounded up; NaN if a value is not finite.
static float scale_of(const float *x, int dim) {
  f32 most = all(0), faults = all(0);
  float top_of_rest = 0, fault = 0;
  int at = 0;
  for (; at + LANES <= dim; at += LANES) {
    f32 v = load(x + at);
    most = largest(most, largest(v, -v));
    faults += v * all(0);
  }
  for (; at < dim; at++) {
    top_of_rest = std::fmax(top_of_rest, std::fabs(x[at]));
    fault += x[at] * 0;
  }
  float exact = std::fmax(top(most), top_of_rest) / MOST_CODE + sum(faults) + fault;
  if (exact < TINY_SCALE) return 0;
  uint32_t bits;
  memcpy(&bits, &exact, 4);
  if (exact == exact) bits = (bits + 0xffffu) & 0xffff0000u;
  memcpy(&exact, &bits, 4);
  return exact;
}

// Codes of a head, and its scale.
static void encode_head(const float *x, int dim, int8_t *codes, bf16 *to_scale) {
  float scale = scale_of(x, dim);
  narrow(to_scale, scale);
  bool is_finite = scale == scale;
  float step = scale > 0 ? scale : 1.0f;
  int at = 0;
#if defined(__AVX512F__)
  for (; at + LANES <= dim; at += LANES) {
    f32 turned = is_finite ? load(x + at) / all(step) : all(0);
    __m128i whole = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32((__m512)turned));
    _mm_storeu_si128((__m128i *)(codes + at), whole);
  }
#endif
  for (; at < dim; at++) codes[at] = is_finite ? (int8_t)std::nearbyint(x[at] / step) : 0;
}
