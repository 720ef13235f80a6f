// Lanes that change places.
#pragma once
#include "vector.h"

// Blocks of STEP lanes of `a` and `b` in turn: the first of each pair of blocks, or the second.
template <int STEP, bool SECOND, class V, int... I>
INLINE V blocks_of(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int COUNT = sizeof...(I);
  return __builtin_shufflevector(a, b, ((I & STEP ? COUNT + (I ^ STEP) : I) | (SECOND ? STEP : 0))...);
}

// Rows become columns: as many as a vector has lanes.
template <int STEP = 1, class V, int COUNT>
INLINE void transpose(V (&row)[COUNT]) {
  if constexpr (are_halves<V>) {
    using Half = decltype(V::low);
    constexpr int HALF = COUNT / 2;
    Half quarters[2][2][HALF];
    UNROLL
    for (int i = 0; i < HALF; i++) {
      quarters[0][0][i] = row[i].low;
      quarters[0][1][i] = row[i].high;
      quarters[1][0][i] = row[HALF + i].low;
      quarters[1][1][i] = row[HALF + i].high;
    }
    transpose(quarters[0][0]);
    transpose(quarters[0][1]);
    transpose(quarters[1][0]);
    transpose(quarters[1][1]);
    UNROLL
    for (int i = 0; i < HALF; i++) {
      row[i] = {quarters[0][0][i], quarters[1][0][i]};
      row[HALF + i] = {quarters[0][1][i], quarters[1][1][i]};
    }
  } else if constexpr (STEP < COUNT) {
    constexpr auto LANE = std::make_integer_sequence<int, COUNT>{};
    UNROLL
    for (int i = 0; i < COUNT; i++) {
      if (i & STEP) continue;
      V first = blocks_of<STEP, false>(row[i], row[i + STEP], LANE);
      row[i + STEP] = blocks_of<STEP, true>(row[i], row[i + STEP], LANE);
      row[i] = first;
    }
    transpose<2 * STEP>(row);
  }
}

template <bool SECOND, class V, int... I>
INLINE V words_in_turn(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int COUNT = sizeof...(I);
  return __builtin_shufflevector(a, b, (I / 2 + I % 2 * COUNT + (SECOND ? COUNT / 2 : 0))...);
}

// Words of sixteen bits of two rows side by side, those of `one` in the lower halves.
template <class V>
INLINE void pair_words(V one, V two, uint32_t *to) {
  if constexpr (are_halves<V>) {
    pair_words(one.low, two.low, to);
    pair_words(one.high, two.high, to + sizeof(one.low) / 2);
  } else {
    constexpr int COUNT = sizeof(V) / 2;
    using Words = typename Vector<uint16_t, sizeof(V)>::type;
    constexpr auto LANE = std::make_integer_sequence<int, COUNT>{};
    write(to, words_in_turn<false>((Words)one, (Words)two, LANE));
    write(to + COUNT / 2, words_in_turn<true>((Words)one, (Words)two, LANE));
  }
}
