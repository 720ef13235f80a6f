// Rows of x as a quantised weight takes them.
//
// With byte dot products a row is integers of sixteen bits and one scale: x = scale * (256 * high +
// low), both signed bytes. [inputs / 4][high, low][4]; then for each group of inputs where the sums
// of its products begin, and its sum. With dot products of words only, the integers lie one after the
// other, and their sums are those of blocks: a group, or the parts of a long one. Without both, or for
// codes that are no steps, a row is fp32, and its groups' sums.
//
// Rounded to eight bits a row is signed bytes with a scale for each block of inputs.
#pragma once
#include <vector>

#include "linear.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define HAS_BYTE_DOT 1
#else
#define HAS_BYTE_DOT 0
#endif
#if !HAS_BYTE_DOT && defined(__AVX2__) && defined(__F16C__)
#define HAS_WORD_DOT 1
#else
#define HAS_WORD_DOT 0
#endif

constexpr int STEP = 8;  // inputs at a time: groups end at multiples of it
constexpr float MOST_VALUE = 32639.0f;  // 127 * 256 + 127
constexpr int MOST_BLOCK = 128;  // inputs with one scale of eight bits; their word products fit an int32

struct GroupStart {
  int32_t high, low;
  float sum;  // of the group, in the row's scale
};

struct BlockStart {
  int32_t start;
  float scale, sum;  // the sum is in steps
};

enum class RowKind { FLOATS, HALVES, WORDS, BYTES };

// How the rows of one linear are laid out, in bytes.
struct CodeRows {
  int inputs, padded, group, groups, middle;
  RowKind kind;
  int block;
  size_t starts, scale, stride;

  explicit CodeRows(const Linear &linear) {
    inputs = linear.inputs;
    padded = (inputs + STEP - 1) / STEP * STEP;
    group = linear.group;
    groups = (padded + group - 1) / group;
    middle = linear.bits == 8 ? 128 : 8;
    if (linear.coding != Coding::STEPS || !(HAS_BYTE_DOT || HAS_WORD_DOT))
      kind = RowKind::FLOATS;
    else if (HAS_WORD_DOT)
      kind = RowKind::WORDS;
    else
      kind = linear.row_bits == 8 ? RowKind::BYTES : RowKind::HALVES;
    block = std::min(group, MOST_BLOCK);
    starts = (size_t)padded * (kind == RowKind::FLOATS ? sizeof(float) : kind == RowKind::BYTES ? 1 : 2);
    if (kind == RowKind::WORDS || kind == RowKind::BYTES)
      scale = starts + groups * ((group + block - 1) / block) * sizeof(BlockStart);
    else
      scale = starts + groups * sizeof(GroupStart);
    stride = (scale + sizeof(float) + 63) / 64 * 64;
  }

  // Where the block ends that begins at an input.
  int block_end(int at) const {
    int from = at / group * group;
    return std::min({padded, from + group, at + block});
  }
};

// The scale of integers up to `most`, and its inverse; what is no number, or has no end, makes the
// scale no number, and with it all that is multiplied by it.
struct RowScale {
  float value;
  f32 turn;

  template <class T>
  RowScale(const T *x, int count, float most) {
    f32 size = all(0), faults = all(0);
    for (int k = 0; k < count; k += LANES) {
      f32 value = take(x + k, count - k);
      size = largest(size, largest(value, -value));
      faults += value * all(0);
    }
    float scale = top(size) / most;
    float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    turn = all(inverse <= 3.0e38f ? inverse : 0.0f);  // else all is tiny
    value = scale + sum(faults);
  }
};

#if HAS_BYTE_DOT
template <class T>
static void take_row_of_halves(const CodeRows &how, const T *x, char *row) {
  RowScale scale(x, how.inputs, MOST_VALUE);
  for (int k = 0; k < how.padded; k += LANES) {
    f32 value = k < how.inputs ? take(x + k, how.inputs - k) * scale.turn : all(0);
    __m512i whole = _mm512_cvtps_epi32((__m512)value);
    __m512i high = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
    __m512i low = _mm512_sub_epi32(whole, _mm512_slli_epi32(high, 8));
    __m128i h = _mm512_cvtepi32_epi8(high), l = _mm512_cvtepi32_epi8(low);
    _mm_storeu_si128((__m128i *)(row + 2 * k), _mm_unpacklo_epi32(h, l));
    if (k + STEP < how.padded)
      _mm_storeu_si128((__m128i *)(row + 2 * k + 16), _mm_unpackhi_epi32(h, l));
  }
  GroupStart *starts = (GroupStart *)(row + how.starts);
  for (int g = 0; g < how.groups; g++) {
    int at = 2 * g * how.group, past = std::min(2 * how.padded, at + 2 * how.group);
    __m512i sums = _mm512_setzero_si512();
    for (; at < past; at += 64) {
      __mmask64 there = past - at >= 64 ? ~0ull : (1ull << (past - at)) - 1;
      sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1), _mm512_maskz_loadu_epi8(there, row + at));
    }
    // Words take turns, high and low: fold them down to two.
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    int64_t both = _mm_cvtsi128_si64(_mm_add_epi32(four, _mm_unpackhi_epi64(four, four)));
    int32_t high = (int32_t)both, low = (int32_t)(both >> 32);
    starts[g] = {-how.middle * high, -how.middle * low, 256.0f * (float)high + (float)low};
  }
  memcpy(row + how.scale, &scale.value, sizeof(float));
}

template <class T>
static void take_row_of_bytes(const CodeRows &how, const T *x, char *row) {
  BlockStart *start = (BlockStart *)(row + how.starts);
  for (int from = 0; from < how.padded; start++) {
    int past = how.block_end(from), there = std::min(past, how.inputs);
    RowScale scale(x + from, there - from, 127.0f);
    __m512i sums = _mm512_setzero_si512();
    for (int k = from; k < past; k += LANES) {
      f32 value = k < there ? take(x + k, there - k) * scale.turn : all(0);
      __m512i whole = _mm512_cvtps_epi32((__m512)value);
      sums = _mm512_add_epi32(sums, whole);
      __m128i narrow = _mm512_cvtepi32_epi8(whole);
      if (past - k >= LANES)
        _mm_storeu_si128((__m128i *)(row + k), narrow);
      else
        _mm_storel_epi64((__m128i *)(row + k), narrow);
    }
    int32_t whole_sum = _mm512_reduce_add_epi32(sums);
    *start = {-how.middle * whole_sum, scale.value, (float)whole_sum};
    from = past;
  }
}
#endif

#if HAS_WORD_DOT
template <class T>
static void take_row_of_words(const CodeRows &how, const T *x, char *row) {
  RowScale scale(x, how.inputs, MOST_VALUE);
  for (int k = 0; k < how.padded; k += LANES) {
    f32 value = k < how.inputs ? take(x + k, how.inputs - k) * scale.turn : all(0);
    __m256 part[2];
    memcpy(part, &value, sizeof value);
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(part[0]), _mm256_cvtps_epi32(part[1]));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    memcpy(row + 2 * k, &words, 2 * std::min(LANES, how.padded - k));
  }
  BlockStart *start = (BlockStart *)(row + how.starts);
  for (int k = 0; k < how.padded; start++) {
    int32_t sum = 0;
    for (int past = how.block_end(k); k < past; k++) sum += ((const int16_t *)row)[k];
    *start = {-how.middle * sum, 1.0f, (float)sum};
  }
  memcpy(row + how.scale, &scale.value, sizeof(float));
}
#endif

template <class T>
static void take_row_of_floats(const CodeRows &how, const T *x, char *row) {
  float *to = (float *)row;
  for (int k = 0; k < how.padded; k++) to[k] = k < how.inputs ? widen(x[k]) : 0.0f;
  GroupStart *starts = (GroupStart *)(row + how.starts);
  for (int g = 0; g < how.groups; g++) {
    int at = g * how.group, past = std::min(how.padded, at + how.group);
    starts[g].sum = 0;
    for (; at < past; at++) starts[g].sum += to[at];
  }
  float scale = 1.0f;
  memcpy(row + how.scale, &scale, sizeof(float));
}

// The inputs of a row as a weight takes them, until this thread asks for the next row.
template <class T>
static const T *in_order(const Linear &linear, const T *x) {
  static thread_local std::vector<T> room;
  if (linear.order == nullptr) return x;
  if (room.size() < (size_t)linear.inputs) room.resize(linear.inputs);
  for (int k = 0; k < linear.inputs; k++) room[k] = x[linear.order[k]];
  return room.data();
}

// All rows, where `row_of` gives their values, for the whole team.
template <class T, class RowOf>
static const char *take_rows(Worker &me, const CodeRows &how, int rows, RowOf row_of) {
  constexpr int FEW_ROWS = 4;
  return filled_rows(me, rows, FEW_ROWS, how.stride, [&](int row, char *to) {
    const T *from = row_of(row);
#if HAS_BYTE_DOT
    if (how.kind == RowKind::BYTES) return take_row_of_bytes(how, from, to);
    if (how.kind == RowKind::HALVES) return take_row_of_halves(how, from, to);
#endif
#if HAS_WORD_DOT
    if (how.kind == RowKind::WORDS) return take_row_of_words(how, from, to);
#endif
    take_row_of_floats(how, from, to);
  });
}
