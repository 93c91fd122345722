//! Statistics of f8e4m3fn codes, from their histogram.

use octile_core::E4m3;

/// Code of 448, the largest magnitude.
pub(super) const LARGEST: u8 = 0x7e;
/// Code of NaN, without its sign.
pub(super) const NAN: u8 = 0x7f;

/// Tiles with fewer elements are summed code by code: a histogram would cost more.
const SMALL: usize = 1024;

/// Squares of the values, and the expected squares of their rounding errors, by magnitude.
pub(super) struct Tables {
    square: [f32; 128],
    noise: [f32; 128],
}

/// What the codes of one tile show.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Tile {
    /// Largest magnitude, as a code without its sign; NaN is not counted.
    pub max: u8,
    /// Sum of the squares of the values, in units of the scale.
    pub power: f64,
    /// Expected sum of the squares of the rounding errors, in units of the scale.
    pub noise: f64,
}

/// Number of codes by magnitude.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram(pub [u64; 128]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; 128])
    }
}

impl Histogram {
    /// Number of codes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Number of zeros of either sign.
    pub fn zeros(&self) -> u64 {
        self.0[0]
    }

    /// Number of codes of magnitude 448.
    pub fn saturated(&self) -> u64 {
        self.0[usize::from(LARGEST)]
    }

    /// Number of NaN codes.
    pub fn nans(&self) -> u64 {
        self.0[usize::from(NAN)]
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Whether values beyond the largest magnitude were clipped, judged by the shape of the tail.
    ///
    /// With a scale of the block's largest magnitude, a block has a few codes of 448, and the bin beside it,
    /// which is twice as wide, has about as many as its width tells. Weights of few distinct values (binary,
    /// ternary) have no tail.
    pub(super) fn is_clipped(&self, blocks: u64) -> bool {
        let [.., beside, largest, _nan] = self.0;
        let nonzero = self.total() - self.zeros() - self.nans();
        let distinct = self.0[1..usize::from(NAN)].iter().filter(|count| **count > 0).count();
        largest * 100 > nonzero && largest > 8 * beside + 8 * blocks && distinct > 32
    }
}

impl Tables {
    pub(super) fn new() -> Self {
        let value = |code: u8| E4m3::from_bits(code).to_f32();
        let (mut square, mut noise) = ([0.0; 128], [0.0; 128]);
        for code in 0..=LARGEST {
            // Distance to the next larger magnitude; the largest one has the same exponent as its neighbour.
            let step = if code < LARGEST { value(code + 1) - value(code) } else { 32.0 };
            square[usize::from(code)] = value(code) * value(code);
            noise[usize::from(code)] = step * step / 12.0;
        }
        Self { square, noise }
    }

    /// Adds the codes of a tile, given by its rows, to the histogram, and summarizes them.
    pub(super) fn tile<'a>(
        &self,
        rows: impl Iterator<Item = &'a [u8]>,
        elements: usize,
        histogram: &mut Histogram,
    ) -> Tile {
        let mut tile = Tile::default();
        let mut add = |magnitude: usize, count: u64| {
            histogram.0[magnitude] += count;
            if magnitude != usize::from(NAN) {
                tile.power += count as f64 * f64::from(self.square[magnitude]);
                tile.noise += count as f64 * f64::from(self.noise[magnitude]);
                tile.max = tile.max.max(magnitude as u8);
            }
        };
        if elements < SMALL {
            rows.flatten().for_each(|code| add(usize::from(code & 0x7f), 1));
        } else {
            let counts = count(rows);
            for magnitude in 0..128 {
                let of_sign = |sign: usize| counts.iter().map(move |part| u64::from(part[sign + magnitude]));
                let count: u64 = of_sign(0).chain(of_sign(128)).sum();
                if count > 0 {
                    add(magnitude, count);
                }
            }
        }
        if tile.max == 0 {
            // A block of zeros is exact.
            tile.noise = 0.0;
        }
        tile
    }
}

/// Counts codes in four tables, so that equal neighbours do not wait for each other.
fn count<'a>(rows: impl Iterator<Item = &'a [u8]>) -> [[u32; 256]; 4] {
    let mut counts = [[0u32; 256]; 4];
    let [a, b, c, d] = &mut counts;
    for row in rows {
        let (chunks, rest) = row.as_chunks::<8>();
        for chunk in chunks {
            a[usize::from(chunk[0])] += 1;
            b[usize::from(chunk[1])] += 1;
            c[usize::from(chunk[2])] += 1;
            d[usize::from(chunk[3])] += 1;
            a[usize::from(chunk[4])] += 1;
            b[usize::from(chunk[5])] += 1;
            c[usize::from(chunk[6])] += 1;
            d[usize::from(chunk[7])] += 1;
        }
        rest.iter().for_each(|code| a[usize::from(*code)] += 1);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_counting_agree() {
        let codes: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let tables = Tables::new();
        let (mut whole, mut parts) = (Histogram::default(), Histogram::default());
        let tile = tables.tile(codes.chunks(61), codes.len(), &mut whole);
        let sum = codes.chunks(512).fold(Tile::default(), |sum, codes| {
            let tile = tables.tile([codes].into_iter(), codes.len(), &mut parts);
            Tile { max: sum.max.max(tile.max), power: sum.power + tile.power, noise: sum.noise + tile.noise }
        });
        assert_eq!(whole, parts);
        assert_eq!((tile.max, whole.total()), (LARGEST, 4096));
        assert!((tile.power / sum.power - 1.0).abs() < 1e-9 && (tile.noise / sum.noise - 1.0).abs() < 1e-9);
        assert_eq!(whole.nans(), codes.iter().filter(|code| **code & 0x7f == NAN).count() as u64);
    }

    #[test]
    fn steps_are_those_of_the_format() {
        let tables = Tables::new();
        assert_eq!(tables.noise[0], 2f32.powi(-18) / 12.0);
        assert_eq!(tables.noise[usize::from(LARGEST)], 32.0 * 32.0 / 12.0);
        assert_eq!(tables.square[usize::from(LARGEST)], 448.0 * 448.0);
    }

    #[test]
    fn only_a_clipped_tail_is_reported() {
        let mut gaussian = Histogram::default();
        (0..=usize::from(LARGEST)).for_each(|code| gaussian.0[code] = 10_000 - 79 * code as u64);
        assert!(!gaussian.is_clipped(10));
        let mut clipped = gaussian.clone();
        clipped.0[usize::from(LARGEST)] = 100_000;
        assert!(clipped.is_clipped(10));
        let mut binary = Histogram::default();
        binary.0[usize::from(LARGEST)] = 100_000;
        assert!(!binary.is_clipped(6), "weights of one magnitude are not clipped");
    }
}
