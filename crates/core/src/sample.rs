//! Repeatable test data that makes a wrong scale visible.

use half::{bf16, f16};

use crate::{
    ActivationKind, FloatKind, Mat, Problem, QuantBlock, QuantizedActivation, QuantizedWeight,
    oracle::OracleInput,
};

/// SplitMix64, written out so that a seed in an old record always gives the same matrices.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Seeds a generator for one matrix.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Roughly normal, mean 0 and variance 1: the sum of four uniform numbers.
    pub fn bell(&mut self) -> f32 {
        let bits = self.next_u64();
        let sum: u32 = (0..4).map(|part| (bits >> (16 * part)) as u32 & 0xffff).sum();
        // Four uniforms on 0..65536 have mean 2 * 65536 and variance 65536^2 / 3.
        (sum as f32 - 131_070.0) * (1.732_050_8 / 65_536.0)
    }
}

/// Random values whose magnitude differs by up to 64 times between `qb x qb` blocks, so that a kernel with a
/// wrong scale index is far off.
pub fn values(rows: usize, cols: usize, quant_block: QuantBlock, rng: &mut Rng) -> Vec<f32> {
    let qb = quant_block.size();
    let mut values = Vec::with_capacity(rows * cols);
    let mut magnitudes = Vec::new();
    for row in 0..rows {
        if row % qb == 0 {
            magnitudes =
                (0..quant_block.count(cols)).map(|_| 2f32.powi((rng.next_u64() % 7) as i32 - 3)).collect();
        }
        values.extend((0..cols).map(|col| rng.bell() * magnitudes[col / qb]));
    }
    values
}

/// The operands of one problem.
#[derive(Debug, Clone)]
pub struct Operands {
    /// The problem.
    pub problem: Problem,
    /// The weight.
    pub weight: QuantizedWeight,
    /// The activations.
    pub x: Activations,
}

/// Activations in the caller's type.
#[derive(Debug, Clone)]
pub enum Activations {
    /// Already quantized.
    Fp8(QuantizedActivation),
    /// 32-bit floats.
    F32(Vec<f32>),
    /// bfloat16.
    Bf16(Vec<bf16>),
    /// IEEE half precision.
    F16(Vec<f16>),
}

impl Activations {
    /// Rounds floats to a type.
    pub fn narrowed(float: FloatKind, values: impl Iterator<Item = f32>) -> Self {
        match float {
            FloatKind::F32 => Self::F32(values.collect()),
            FloatKind::Bf16 => Self::Bf16(values.map(bf16::from_f32).collect()),
            FloatKind::F16 => Self::F16(values.map(f16::from_f32).collect()),
        }
    }
}

impl Operands {
    /// Random operands for a seed.
    pub fn random(problem: Problem, seed: u64) -> Self {
        let Problem { n, k, quant_block, .. } = problem;
        let weight = values(n, k, quant_block, &mut Rng::new(seed, 1));
        let weight =
            QuantizedWeight::quantize(matrix(&weight, n, k), quant_block).expect("sample weights are finite");
        Self::with_weight(problem, weight, seed)
    }

    /// Random activations for a seed, and this weight.
    ///
    /// # Panics
    /// If the weight does not have the problem's shape.
    pub fn with_weight(problem: Problem, weight: QuantizedWeight, seed: u64) -> Self {
        let Problem { m, n, k, quant_block, .. } = problem;
        assert_eq!((weight.rows(), weight.cols(), weight.quant_block()), (n, k, quant_block));
        let x = values(m, k, quant_block, &mut Rng::new(seed, 2));
        let x = match problem.x {
            ActivationKind::Fp8(granularity) => Activations::Fp8(
                QuantizedActivation::quantize(matrix(&x, m, k), quant_block, granularity)
                    .expect("sample activations are finite"),
            ),
            ActivationKind::Quantized(float, _) | ActivationKind::Plain(float) => {
                Activations::narrowed(float, x.into_iter())
            }
        };
        Self { problem, weight, x }
    }

    /// The activations after quantization, for the reference.
    pub fn oracle_input(&self) -> OracleInput {
        let Problem { m, k, quant_block, .. } = self.problem;
        let wide: Vec<f32> = match &self.x {
            Activations::Fp8(x) => return OracleInput::Fp8(x.clone()),
            Activations::F32(x) => x.clone(),
            Activations::Bf16(x) => x.iter().map(|v| v.to_f32()).collect(),
            Activations::F16(x) => x.iter().map(|v| v.to_f32()).collect(),
        };
        match self.problem.x {
            ActivationKind::Quantized(_, granularity) => OracleInput::Fp8(
                QuantizedActivation::quantize(matrix(&wide, m, k), quant_block, granularity)
                    .expect("sample activations are finite"),
            ),
            ActivationKind::Plain(_) | ActivationKind::Fp8(_) => OracleInput::Plain(wide),
        }
    }
}

fn matrix<T>(data: &[T], rows: usize, cols: usize) -> Mat<'_, T> {
    Mat::new(data, rows, cols).expect("a problem's dimensions fit its operands")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        // The published outputs of SplitMix64 for seed 0.
        let mut rng = Rng::new(0, 0);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn values_are_centred_and_blocks_differ() {
        let values = values(256, 256, QuantBlock::B128, &mut Rng::new(1, 1));
        let mean: f32 = values.iter().sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.1, "{mean}");
        let power = |row: usize, col: usize| -> f32 {
            (0..128).flat_map(|r| &values[(row + r) * 256 + col..][..128]).map(|v| v * v).sum()
        };
        let powers = [power(0, 0), power(0, 128), power(128, 0), power(128, 128)];
        assert!(powers.iter().any(|p| p / powers[0] > 1.5 || p / powers[0] < 0.6), "{powers:?}");
    }
}
