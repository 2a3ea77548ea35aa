//! numpy's legacy generator, `RandomState`, as far as a shuffle needs it: the Mersenne Twister
//! MT19937 of Matsumoto and Nishimura.

use std::array;
use std::cell::Cell;
use std::iter;

/// Words of the state, and of each block that it gives.
const WORDS: usize = 624;
/// How far apart the words are that are mixed.
const DISTANCE: usize = 397;

/// The endless 32-bit words of a seed.
///
/// numpy seeds by one number as `init_genrand` does, never by an array.
pub(crate) fn words(seed: u32) -> impl Iterator<Item = u32> {
    let mut state = seeded(seed);
    iter::repeat_with(move || {
        twist(&mut state);
        state
    })
    .flatten()
    .map(temper)
}

/// `RandomState(seed).shuffle(order)`.
pub(crate) fn shuffle(order: &mut [u32], seed: u32) {
    let mut words = words(seed);
    for last in (1..order.len()).rev() {
        let Ok(bound) = u32::try_from(last) else {
            // numpy draws 64 bits there; the sampler takes no list of that length.
            continue;
        };
        let mask = u32::MAX >> bound.leading_zeros();
        // The words never end, and at least every second one is small enough.
        let mut draws = words.by_ref().map(|word| word & mask);
        if let Some(other) = draws.find(|draw| *draw <= bound) {
            order.swap(last, other as usize);
        }
    }
}

fn seeded(seed: u32) -> [u32; WORDS] {
    let mut next = seed;
    let mut position = 0u32;
    array::from_fn(|_| {
        let word = next;
        position += 1;
        next = 1_812_433_253_u32
            .wrapping_mul(word ^ (word >> 30))
            .wrapping_add(position);
        word
    })
}

/// Makes the next block in place: words further on are still those of the last block, words
/// that were passed are new.
fn twist(state: &mut [u32; WORDS]) {
    let cells = Cell::from_mut(state.as_mut_slice()).as_slice_of_cells();
    let next = cells.iter().cycle().skip(1);
    let distant = cells.iter().cycle().skip(DISTANCE);
    for ((word, next), distant) in cells.iter().zip(next).zip(distant) {
        let joined = (word.get() & 0x8000_0000) | (next.get() & 0x7fff_ffff);
        let odd = (joined & 1).wrapping_neg() & 0x9908_b0df;
        word.set(distant.get() ^ (joined >> 1) ^ odd);
    }
}

fn temper(mut word: u32) -> u32 {
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c_5680;
    word ^= (word << 15) & 0xefc6_0000;
    word ^ (word >> 18)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc32::Crc32;

    fn permutation(length: u32, seed: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..length).collect();
        shuffle(&mut order, seed);
        order
    }

    #[test]
    fn the_first_words() {
        let first: Vec<u32> = words(0).take(3).collect();
        assert_eq!(first, [2_357_136_044, 2_546_248_239, 3_071_714_933]);
    }

    /// The reference implementation's own: the seed that it takes when none is given, and the
    /// number that the C++ standard asks of `mt19937`.
    #[test]
    fn the_ten_thousandth_word() {
        assert_eq!(words(5489).nth(9_999), Some(4_123_659_995));
    }

    #[test]
    fn permutations_of_ten() {
        assert_eq!(permutation(10, 0), [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]);
        assert_eq!(permutation(10, 1), [2, 9, 6, 4, 0, 3, 1, 7, 8, 5]);
        assert_eq!(permutation(10, 7), [8, 5, 0, 2, 1, 9, 7, 3, 6, 4]);
    }

    #[test]
    fn permutations_of_many() {
        let checksum = |seed| {
            let mut crc = Crc32::new();
            for index in permutation(128_660, seed) {
                crc.update(&index.to_le_bytes());
            }
            crc.finish()
        };
        assert_eq!(checksum(0), 0xa355_108a);
        assert_eq!(checksum(1), 0x41d7_dc68);
        assert_eq!(checksum(7), 0x6034_a51f);
    }

    #[test]
    fn nothing_to_shuffle() {
        assert_eq!(permutation(0, 3), [0; 0]);
        assert_eq!(permutation(1, 3), [0]);
    }
}
