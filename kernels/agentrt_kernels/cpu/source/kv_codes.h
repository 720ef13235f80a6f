// Keys and values as codes of eight bits, each head of a token with a bf16 scale; see `kv_codes.py`.
//
// A code is exact in bf16 and in fp32, so that products are taken of codes as of values; the scale of
// a key multiplies its score, that of a value its weight. The type of a code says what it stands
// for: int8_t for an integer, e4m3 for a float.
#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "e4m3.h"
#include "shuffle.h"

enum class KvCoding : int32_t { NONE = 0, STEPS = 1, E4M3 = 2 };

template <class C>
constexpr bool are_floats() {
  return std::is_same<C, e4m3>::value;
}
constexpr float MOST_STEPS = 127.0f;
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

// Values of the codes in the top bytes of words.
template <class C>
INLINE f32 top_values(u32 top) {
  return are_floats<C>() ? e4m3_values(top) : converted((i32)top >> 24);
}

// Two fp32 whose lower halves are empty, as a pair of bf16.
INLINE u32 paired(f32 low, f32 high) { return ((u32)low >> 16) | (u32)high; }

// Two values as a pair of bf16.
INLINE uint32_t pair_at(const bf16 *from) { return from[0].bits | ((uint32_t)from[1].bits << 16); }
template <class C>
INLINE uint32_t pair_at(const C *from) {
  float low = widen(from[0]), high = widen(from[1]);
  uint32_t a, b;
  memcpy(&a, &low, 4);
  memcpy(&b, &high, 4);
  return (a >> 16) | b;
}
INLINE uint32_t pair_at(const float *) { return 0; }  // never computed as pairs

// Sixty-four codes as thirty-two-bit words hold four each: the pairs of the first or last two.
template <class C>
INLINE u32 first_pair(u32 four) {
#if defined(__AVX512BW__)
  if (are_floats<C>()) return e4m3_words(spread_bytes<0>(four));
#endif
  return paired(top_values<C>(four << 24), top_values<C>(four << 16));
}
template <class C>
INLINE u32 last_pair(u32 four) {
#if defined(__AVX512BW__)
  if (are_floats<C>()) return e4m3_words(spread_bytes<2>(four));
#endif
  return paired(top_values<C>(four << 8), top_values<C>(four));
}

// Sixteen pairs of codes of two rows.
template <class C>
INLINE u32 row_pairs(const C *one, const C *two) {
  return paired(load(one), load(two));
}
INLINE u32 row_pairs(const e4m3 *one, const e4m3 *two) {
#if defined(__AVX512BW__)
  return e4m3_words(load_bytes(one) | (load_bytes(two) << 16));
#else
  return paired(load(one), load(two));
#endif
}

// Thirty-two values as pairs of bf16.
INLINE u32 load_pairs(const bf16 *from) { return load_bits(from); }
template <class C>
INLINE u32 load_pairs(const C *from) {
  return first_pair<C>(load_words(from));
}
INLINE u32 load_pairs(const float *) { return all_bits(0); }

// What the largest value of a head is of the largest code; NaN if a value is not finite.
static float exact_scale(const float *x, int dim, float most_code) {
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
  float exact = std::fmax(top(most), top_of_rest) / most_code + sum(faults) + fault;
  return exact < TINY_SCALE ? 0 : exact;
}

// The next bf16 that is not below `x`, which has no sign.
INLINE float rounded_up(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = (bits + 0xffffu) & 0xffff0000u;
  memcpy(&x, &bits, 4);
  return x;
}

// The nearest codes, each in a word.
template <class C>
INLINE i32 nearest_codes(f32 value) {
  if (are_floats<C>()) return (i32)e4m3_codes(value);
#if defined(__AVX512F__)
  return (i32)_mm512_cvtps_epi32((__m512)value);
#else
  float values[LANES];
  int32_t whole[LANES];
  store(values, value);
  for (int i = 0; i < LANES; i++) whole[i] = (int32_t)std::nearbyint(values[i]);
  return (i32)load_bits(whole);
#endif
}

// Codes of a head, and its scale: of integers one that clips none, of floats the one that fits best.
template <class C>
static void encode_head(const float *x, int dim, C *codes, bf16 *to_scale) {
  constexpr bool FLOATS = are_floats<C>();
  float scale = exact_scale(x, dim, FLOATS ? MOST_E4M3 : MOST_STEPS);
  bool is_whole = scale > 0;  // neither without values nor with one that is not finite
  if (!FLOATS && is_whole) scale = rounded_up(scale);
  f32 step = all(is_whole ? scale : 1.0f), along = all(0), squares = all(0);
  for (int at = 0; at < dim; at += LANES) {
    int count = std::min(LANES, dim - at);
    f32 turned = is_whole ? take(x + at, count) / step : all(0);
    i32 whole = nearest_codes<C>(turned);
    if (FLOATS) {
      f32 code = e4m3_values((u32)whole << 24);
      along += turned * code;
      squares += code * code;
    }
#if defined(__AVX512F__)
    __m128i bytes = _mm512_cvtepi32_epi8((__m512i)whole);
#else
    auto bytes = converted_to<Lanes<int8_t, LANES>>(whole);
#endif
    memcpy(codes + at, &bytes, count);
  }
  if (FLOATS && is_whole) scale *= sum(along) / sum(squares);
  narrow(to_scale, scale);
}
