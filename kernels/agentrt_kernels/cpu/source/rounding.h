// Rounding of a matrix to codes of eight or four bits, with a scale for each group of inputs.
//
// With four bits several scales are tried for a group: those that put its largest value so many
// steps from zero. The best is the one whose codes leave the smallest squared error, each input's
// weighed by its importance, once the scale is fitted to them.
#pragma once
#include <vector>

#include "shuffle.h"

struct RoundCall {
  const void *weight;
  const float *importance;  // of each input, or null
  const float *ends;        // steps from zero at which a group's largest value may lie
  uint8_t *codes;           // a row: bytes, or two codes a byte; or null
  float *scales;            // a row: one a group
  int64_t weight_stride, code_stride;  // in values, in bytes
  int32_t rows, inputs, group, end_count, bits, kind;
};

// The nearest integers, ties to even. Adding and subtracting a large number would do it too, but
// compilers would fuse the product before it with the sum, and round once instead of twice.
INLINE f32 nearest(f32 x) {
#if defined(__AVX512F__)
  return (f32)_mm512_roundscale_ps((__m512)x, 0);
#elif defined(__AVX2__)
  constexpr int EVEN = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {(decltype(x.low))_mm256_round_ps((__m256)x.low, EVEN),
          (decltype(x.low))_mm256_round_ps((__m256)x.high, EVEN)};
#else
  float values[LANES];
  write(values, x);
  for (float &value : values) value = __builtin_nearbyintf(value);
  return read<f32>(values);
#endif
}

INLINE f32 code_of(f32 value, f32 turn, f32 least, f32 most) {
  f32 code = nearest(value * turn);
  code = chosen(code < least, least, code);
  return chosen(code > most, most, code);
}

// A group of fp32 values, with zeros up to a multiple of LANES.
struct Group {
  const float *values, *importance;
  int padded;
};

static float largest_value(const Group &group) {
  f32 most = all(0);
  for (int k = 0; k < group.padded; k += LANES) {
    f32 value = load(group.values + k);
    most = largest(most, largest(value, -value));
  }
  float size = top(most);
  for (int k = 0; k < group.padded; k++)
    if (group.values[k] == size || group.values[k] == -size) return group.values[k];
  return size;  // no number
}

struct Fit {
  float squares, along;  // of the codes, and their products with the values
};

template <bool WEIGHED>
static Fit fit(const Group &group, float scale) {
  f32 turn = all(scale == 0 ? 0.0f : 1.0f / scale), squares = all(0), along = all(0);
  for (int k = 0; k < group.padded; k += LANES) {
    f32 value = load(group.values + k);
    f32 code = code_of(value, turn, all(-8), all(7));
    f32 weighed = WEIGHED ? code * load(group.importance + k) : code;
    squares += weighed * code;
    along += weighed * value;
  }
  return {sum(squares), sum(along)};
}

// The codes, as bytes.
static void write_codes(const Group &group, float scale, float least, float most, int count,
                        int8_t *to) {
  f32 turn = all(scale == 0 ? 0.0f : 1.0f / scale);
  for (int k = 0; k < count; k += LANES) {
    f32 code = code_of(load(group.values + k), turn, all(least), all(most));
    auto narrow = converted_to<Lanes<int8_t, LANES>>(converted_to<i32>(code));
    memcpy(to + k, &narrow, std::min(LANES, count - k));
  }
}

template <bool WEIGHED>
static float round_four_bits(const RoundCall &call, const Group &group, int count, int8_t *codes) {
  float most = largest_value(group), best = -1.0f, used = most / -call.ends[0], fitted = 0.0f;
  for (int end = 0; end < call.end_count; end++) {
    float scale = most / -call.ends[end];
    Fit found = fit<WEIGHED>(group, scale);
    float squares = found.squares > 1e-30f ? found.squares : 1e-30f;
    float gained = found.along * found.along / squares;  // what the fitted scale takes off the error
    if (gained > best) {
      best = gained;
      used = scale;
      fitted = found.along / squares;
    }
  }
  if (codes != nullptr) write_codes(group, used, -8, 7, count, codes);
  return fitted;
}

static float round_eight_bits(const Group &group, int count, int8_t *codes) {
  float most = largest_value(group);
  float scale = (most < 0 ? -most : most) / 127.0f;
  if (codes != nullptr) write_codes(group, scale, -127, 127, count, codes);
  return scale;
}

// Sixteen groups side by side, a lane each: what is one number of a group is one vector here.
constexpr int MOST_LANE_GROUP = 512;  // so that they stay in the cache

static bool fits_lanes(const RoundCall &call) {
  return call.bits == 4 && call.group % LANES == 0 && call.group <= MOST_LANE_GROUP &&
         call.inputs % call.group == 0 && call.weight_stride == call.inputs;
}

// Values of groups `[LANES][group]` as `[group][LANES]`.
template <class T, class From>
static void turn_lanes(int group, From from, float *to) {
  for (int k = 0; k < group; k += LANES) {
    u32 row[LANES];
    for (int lane = 0; lane < LANES; lane++) row[lane] = (u32)load((const T *)from(lane) + k);
    transpose(row);
    for (int i = 0; i < LANES; i++) store_bits(to + (k + i) * LANES, row[i]);
  }
}

struct LaneScales {
  f32 used, fitted;  // by which the codes are chosen, and the one that fits them
};

template <bool WEIGHED>
static LaneScales search_lanes(const RoundCall &call, const float *values, const float *importance) {
  f32 size = all(0), most = all(0);
  for (int k = 0; k < call.group; k++) {
    f32 value = load(values + k * LANES), without_sign = largest(value, -value);
    most = chosen(without_sign > size, value, most);
    size = largest(size, without_sign);
  }
  f32 best = all(-1.0f);
  LaneScales found{most / all(-call.ends[0]), all(0)};
  for (int end = 0; end < call.end_count; end++) {
    f32 scale = most / all(-call.ends[end]), squares = all(0), along = all(0);
    f32 turn = chosen(scale == all(0), all(0), all(1.0f) / scale);
    for (int k = 0; k < call.group; k++) {
      f32 value = load(values + k * LANES), code = code_of(value, turn, all(-8), all(7));
      f32 weighed = WEIGHED ? code * load(importance + k * LANES) : code;
      squares += weighed * code;
      along += weighed * value;
    }
    squares = largest(squares, all(1e-30f));
    f32 gained = along * along / squares;
    found.used = chosen(gained > best, scale, found.used);
    found.fitted = chosen(gained > best, along / squares, found.fitted);
    best = largest(best, gained);
  }
  return found;
}

// Groups `first` and on, at most LANES of them, counted over all rows.
template <class T>
static void round_lanes(const RoundCall &call, int64_t first, int64_t all_groups) {
  static thread_local std::vector<float> room;
  int group = call.group, groups = call.inputs / group;
  if ((int)room.size() < 2 * group * LANES) room.resize(2 * group * LANES);
  float *values = room.data(), *importance = room.data() + group * LANES;
  int64_t last = all_groups - 1;
  auto number = [&](int lane) { return std::min(first + lane, last); };
  turn_lanes<T>(
      group, [&](int lane) { return (const T *)call.weight + number(lane) * group; }, values);
  LaneScales scales;
  if (call.importance == nullptr) {
    scales = search_lanes<false>(call, values, nullptr);
  } else {
    turn_lanes<float>(
        group, [&](int lane) { return call.importance + number(lane) % groups * group; },
        importance);
    scales = search_lanes<true>(call, values, importance);
  }
  int count = (int)std::min<int64_t>(LANES, all_groups - first);
  float fitted[LANES];
  store(fitted, scales.fitted);
  memcpy(call.scales + first, fitted, count * sizeof(float));
  if (call.codes == nullptr) return;
  f32 turn = chosen(scales.used == all(0), all(0), all(1.0f) / scales.used);
  for (int k = 0; k < group; k += LANES) {
    u32 row[LANES];
    for (int i = 0; i < LANES; i++) {
      f32 code = code_of(load(values + (k + i) * LANES), turn, all(-8), all(7)) + all(8);
      row[i] = (u32)converted_to<i32>(code);
    }
    transpose(row);
    for (int lane = 0; lane < count; lane++) {
      uint32_t codes[LANES];
      store_bits(codes, row[lane]);
      uint8_t *to = call.codes + ((first + lane) * group + k) / 2;
      for (int i = 0; i < LANES / 2; i++)
        to[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
    }
  }
}

template <class T>
static void round_row(const RoundCall &call, int row) {
  static thread_local std::vector<float> room;
  static thread_local std::vector<int8_t> codes;
  int size = (call.group + LANES - 1) / LANES * LANES;
  if ((int)room.size() < 2 * size) room.resize(2 * size);
  if ((int)codes.size() < call.inputs) codes.resize(call.inputs);
  const T *from = (const T *)call.weight + row * call.weight_stride;
  int groups = (call.inputs + call.group - 1) / call.group;
  for (int at = 0; at < groups; at++) {
    int first = at * call.group, count = std::min(call.group, call.inputs - first);
    Group group{room.data(), room.data() + size, (count + LANES - 1) / LANES * LANES};
    for (int k = 0; k < group.padded; k += LANES) {
      store(room.data() + k, take(from + first + k, count - k));
      if (call.importance != nullptr)
        store(room.data() + size + k, take(call.importance + first + k, count - k));
    }
    int8_t *to = call.codes == nullptr ? nullptr : codes.data() + first;
    float *scale = call.scales + (int64_t)row * groups + at;
    if (call.bits == 8)
      *scale = round_eight_bits(group, count, to);
    else if (call.importance != nullptr)
      *scale = round_four_bits<true>(call, group, count, to);
    else
      *scale = round_four_bits<false>(call, group, count, to);
  }
  if (call.codes == nullptr) return;
  uint8_t *to = call.codes + row * call.code_stride;
  if (call.bits == 8) {
    memcpy(to, codes.data(), call.inputs);
  } else {
    for (int k = 0; k < call.inputs / 2; k++)
      to[k] = (uint8_t)((codes[2 * k] + 8) | (codes[2 * k + 1] + 8) << 4);
  }
}
