//! Mutation tests of the suite: a plain kernel passes, and each deliberate mistake fails.

use std::time::Duration;

use octile_core::{
    ActivationKind, E4m3, FloatKind, Problem, QuantBlock, QuantizedWeight, ScaleGranularity, Strategy,
    bound::Accumulator,
    oracle::OracleInput,
    quantize::scale_of,
    sample::{Activations, Operands},
};

use octile_harness::{
    Result,
    backend::{Backend, Contender, OutputBuffer, Peak, Setup},
    case::{StrategyChoice, named_cases},
    correctness::{TestReport, TestRequest, run},
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    None,
    /// Uses the weight scale of the next k-block.
    WrongScaleIndex,
    /// Applies the scales of the last k-block to the whole sum, as the original kernel did.
    LastBlockScalesOnly,
    /// Reads the scales transposed.
    TransposedScales,
    /// Drops the partial k-block.
    DroppedRaggedEdge,
    /// Truncates activations instead of rounding to nearest.
    WrongRounding,
    /// Never writes the last row.
    MissingRow,
    /// Returns other bits on every run.
    Unrepeatable,
    /// Drops one k-block in one tile.
    OneTileDropsABlock,
    /// Uses the next block's weight scale for one k-block of one tile.
    OneTileTakesTheNextScale,
}

const MISTAKES: [Mistake; 7] = [
    Mistake::WrongScaleIndex,
    Mistake::LastBlockScalesOnly,
    Mistake::TransposedScales,
    Mistake::DroppedRaggedEdge,
    Mistake::WrongRounding,
    Mistake::MissingRow,
    Mistake::Unrepeatable,
];

/// Mistakes that a loose bound hides: they must be detected with every accumulator.
const IN_ONE_TILE: [Mistake; 2] = [Mistake::OneTileDropsABlock, Mistake::OneTileTakesTheNextScale];

const ACCUMULATORS: [Accumulator; 3] =
    [Accumulator::F32, Accumulator::HopperTensorCore { promote_every: 128 }, Accumulator::Bf16Operands];

struct Mutant(Mistake, Accumulator);

impl Backend for Mutant {
    fn setup(&self) -> Setup {
        Setup::Cpu { cpu_model: String::new(), isa: String::new(), threads: 1, pinned: false }
    }

    fn accumulator(&self) -> Accumulator {
        self.1
    }

    fn best(&self, _: &Problem) -> Strategy {
        Strategy::Auto
    }

    fn peak(&self, _: &Problem) -> Result<Peak> {
        Ok(Peak { tflops: 1.0, read_gbytes: 1.0 })
    }

    fn prepare<'a>(&'a self, _: Strategy, operands: &'a Operands) -> Result<Box<dyn Contender + 'a>> {
        let problem = operands.problem;
        let output = OutputBuffer::poisoned(problem.out, problem.m * problem.n);
        Ok(Box::new(Naive { mistake: self.0, operands, output, runs: 0 }))
    }
}

struct Naive<'a> {
    mistake: Mistake,
    operands: &'a Operands,
    output: OutputBuffer,
    runs: u32,
}

impl Naive<'_> {
    /// Codes of x, and the scale of every row and k-block.
    fn activations(&self) -> (Vec<u8>, Vec<f32>) {
        let Problem { m, k, quant_block, .. } = self.operands.problem;
        if let (Mistake::WrongRounding, Activations::F32(x)) = (self.mistake, &self.operands.x) {
            return truncated(x, k, quant_block);
        }
        let OracleInput::Fp8(x) = self.operands.oracle_input() else {
            panic!("all cases below multiply fp8")
        };
        (x.codes().to_vec(), (0..m).flat_map(|row| x.scales_of_row(row)).copied().collect())
    }

    fn weight_scale(&self, weight: &QuantizedWeight, nb: usize, kb: usize, in_tile: bool) -> f32 {
        let (rows, cols) = self.operands.problem.w_scale_shape();
        let flat = match self.mistake {
            Mistake::OneTileTakesTheNextScale if in_tile => nb * cols + (kb + 1) % cols,
            Mistake::WrongScaleIndex => nb * cols + (kb + 1) % cols,
            Mistake::LastBlockScalesOnly => nb * cols + cols - 1,
            Mistake::TransposedScales => kb % cols * rows + nb % rows,
            _ => nb * cols + kb,
        };
        weight.scales()[flat % weight.scales().len()]
    }
}

/// Quantizes per token group, rounding every value towards zero.
fn truncated(x: &[f32], k: usize, quant_block: QuantBlock) -> (Vec<u8>, Vec<f32>) {
    let (mut codes, mut scales) = (Vec::new(), Vec::new());
    for group in x.chunks(k).flat_map(|row| row.chunks(quant_block.size())) {
        let (scale, inverse) = scale_of(group.iter().fold(0.0f32, |max, v| max.max(v.abs())));
        scales.push(scale);
        codes.extend(group.iter().map(|v| {
            let value = v * inverse;
            let nearest = E4m3::from_f32(value);
            let too_far = nearest.to_f32().abs() > value.abs();
            nearest.to_bits() - u8::from(too_far)
        }));
    }
    (codes, scales)
}

impl Contender for Naive<'_> {
    fn run(&mut self) -> Result<Duration> {
        let Problem { m, n, k, quant_block, .. } = self.operands.problem;
        let (qb, k_blocks) = (quant_block.size(), quant_block.count(k));
        let (codes, x_scales) = self.activations();
        let weight = &self.operands.weight;
        let value = |code: u8| E4m3::from_bits(code).to_f32();
        let rows = if self.mistake == Mistake::MissingRow { m - 1 } else { m };
        for (row, col) in (0..rows).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let mut sum = 0.0f32;
            for kb in 0..k_blocks {
                let block = kb * qb..k.min((kb + 1) * qb);
                if self.mistake == Mistake::DroppedRaggedEdge && block.len() < qb {
                    continue;
                }
                let in_tile = (64..128).contains(&row) && (128..192).contains(&col) && kb == 1;
                if self.mistake == Mistake::OneTileDropsABlock && in_tile {
                    continue;
                }
                let x = &codes[row * k..][block.clone()];
                let w = &weight.codes()[col * k..][block];
                let products = x.iter().zip(w).map(|(&x, &w)| value(x) * value(w));
                sum += products.sum::<f32>()
                    * (x_scales[row * k_blocks + kb] * self.weight_scale(weight, col / qb, kb, in_tile));
            }
            if self.mistake == Mistake::Unrepeatable && self.runs % 2 == 1 {
                sum = sum.next_up();
            }
            let OutputBuffer::F32(out) = &mut self.output else { panic!("all cases below return f32") };
            out[row * n + col] = sum;
        }
        self.runs += 1;
        Ok(Duration::ZERO)
    }

    fn output(&mut self) -> &mut OutputBuffer {
        &mut self.output
    }
}

/// Runs the suite on a shape with partial blocks in every dimension.
fn report(mistake: Mistake, accumulator: Accumulator) -> TestReport {
    let problem = Problem::new(131, 300, 400, QuantBlock::B128).unwrap();
    let x = ActivationKind::Quantized(FloatKind::F32, ScaleGranularity::Token);
    let cases = named_cases(&[problem.with_x(x)]);
    let request = TestRequest { cases, strategies: vec![StrategyChoice::One(Strategy::Auto)], seed: 1 };
    run(&Mutant(mistake, accumulator), &request, &()).unwrap()
}

#[test]
fn the_suite_passes_a_plain_kernel() {
    for accumulator in ACCUMULATORS {
        assert!(report(Mistake::None, accumulator).passed(), "{accumulator:?}");
    }
}

#[test]
fn the_suite_fails_every_mistake() {
    for mistake in MISTAKES {
        assert!(!report(mistake, Accumulator::F32).passed(), "{mistake:?} was not detected");
    }
}

#[test]
fn the_suite_fails_a_mistake_in_one_tile_with_any_arithmetic() {
    for (mistake, accumulator) in IN_ONE_TILE.into_iter().flat_map(|m| ACCUMULATORS.map(|a| (m, a))) {
        let report = report(mistake, accumulator);
        let (_, check) = &report.cases[0].checks[0];
        assert!(!report.passed(), "{mistake:?} was not detected with {accumulator:?}");
        // The exact check detects it, however loose the bound is.
        assert!(check.exact.is_some_and(|exact| exact.wrong >= 64 * 64), "{mistake:?}: {check:?}");
    }
}
