//! Operands with an exact product: the product is the oracle's, and no two blocks share a scale in every
//! draw.

use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity,
    bound::Accumulator,
    exact::ExactOperands,
    oracle::{self, OracleInput},
};

const FLOATS: [FloatKind; 3] = [FloatKind::F32, FloatKind::Bf16, FloatKind::F16];

fn kinds() -> Vec<ActivationKind> {
    let scaled = [ScaleGranularity::Block, ScaleGranularity::Token].into_iter().flat_map(|granularity| {
        let quantized = FLOATS.map(|float| ActivationKind::Quantized(float, granularity));
        quantized.into_iter().chain([ActivationKind::Fp8(granularity)])
    });
    scaled.chain(FLOATS.map(ActivationKind::Plain)).collect()
}

fn problem(m: usize, n: usize, k: usize, quant_block: QuantBlock) -> Problem {
    Problem::new(m, n, k, quant_block).unwrap()
}

fn draws(problem: Problem) -> Vec<ExactOperands> {
    let count = ExactOperands::draws(&problem);
    assert!(count > 0, "{problem}");
    (0..count).map(|draw| ExactOperands::new(problem, draw, 1)).collect()
}

#[test]
fn the_oracle_agrees_to_the_bit() {
    for quant_block in QuantBlock::ALL {
        for x in kinds() {
            for (out, (m, n, k)) in FLOATS.into_iter().zip([(1, 150, 1000), (7, 65, 129), (131, 140, 700)]) {
                let problem = problem(m, n, k, quant_block).with_x(x).with_out(out);
                for exact in draws(problem) {
                    let input = exact.operands.oracle_input();
                    let reference =
                        oracle::multiply(&input, m, &exact.operands.weight, Accumulator::F32, out);
                    for (at, value) in reference.values.iter().enumerate() {
                        assert_eq!(*value as f32 as f64, *value, "{problem} {x} {at}: not exact in f32");
                        let expected = exact.expected(at / n, at % n);
                        assert_eq!(out.round(*value as f32), expected, "{problem} {x} {at}");
                        assert!(expected.is_finite(), "{problem} {x} {at}: {expected}");
                    }
                }
            }
        }
    }
}

/// Whether some draw tells every two of these scales apart; gives a pair that none does.
fn shared(scales: &[Vec<f32>]) -> Option<(usize, usize)> {
    let mut seen = std::collections::HashMap::new();
    (0..scales[0].len()).find_map(|at| {
        let of_draws: Vec<u32> = scales.iter().map(|scales| scales[at].to_bits()).collect();
        seen.insert(of_draws, at).map(|other| (other, at))
    })
}

#[test]
fn every_block_and_row_has_a_scale_of_its_own() {
    let shapes = [
        problem(512, 512, 512, QuantBlock::B128),
        problem(1024, 1024, 1024, QuantBlock::B256),
        problem(2048, 512, 2048, QuantBlock::B512),
        problem(256, 4096, 2048, QuantBlock::B512),
        problem(1, 1024, 1024, QuantBlock::B128),
        problem(17, 640, 1100, QuantBlock::B512),
        problem(300, 400, 7168, QuantBlock::B128),
    ];
    for shape in shapes {
        let Problem { m, n, k, quant_block, .. } = shape;
        for granularity in [ScaleGranularity::Block, ScaleGranularity::Token] {
            for out in FLOATS {
                let with = |m, n| {
                    let x = ActivationKind::Fp8(granularity);
                    draws(problem(m, n, k, quant_block).with_x(x).with_out(out))
                };
                let w: Vec<_> =
                    with(1, n).iter().map(|draw| draw.operands.weight.scales().to_vec()).collect();
                assert_eq!(shared(&w), None, "{shape} out {out}: weight scales");
                // Results in f16 leave few exponents: there, tokens 81 rows apart may share their scales.
                if out == FloatKind::F16 && granularity == ScaleGranularity::Token {
                    continue;
                }
                let x: Vec<_> = with(m, 1).iter().map(x_scales).collect();
                assert_eq!(shared(&x), None, "{shape} out {out}: activation scales");
            }
        }
    }
}

fn x_scales(exact: &ExactOperands) -> Vec<f32> {
    let OracleInput::Fp8(x) = exact.operands.oracle_input() else { panic!("8-bit activations") };
    x.scales().to_vec()
}

#[test]
fn the_standard_shapes_take_one_draw() {
    for (m, n, k, quant_block) in [
        (512, 512, 512, QuantBlock::B128),
        (2048, 2048, 2048, QuantBlock::B512),
        (1024, 4096, 2048, QuantBlock::B512),
        (1, 1024, 1024, QuantBlock::B128),
    ] {
        assert_eq!(ExactOperands::draws(&problem(m, n, k, quant_block)), 1);
    }
}

#[test]
fn a_sum_too_long_to_be_exact_is_refused() {
    assert!(ExactOperands::draws(&problem(1, 1, 1 << 20, QuantBlock::B128)) > 0);
    assert_eq!(ExactOperands::draws(&problem(1, 1, 1 << 24, QuantBlock::B128)), 0);
    assert_eq!(ExactOperands::draws(&problem(1, 1, 1 << 40, QuantBlock::B512)), 0);
}

#[test]
fn one_wrong_element_is_named() {
    let exact = &draws(problem(3, 5, 300, QuantBlock::B128))[0];
    let mut result: Vec<f32> = (0..15).map(|at| exact.expected(at / 5, at % 5) as f32).collect();
    assert_eq!(exact.compare(&result).wrong, 0);
    result[7] = result[7].next_up();
    result[9] = f32::NAN;
    let comparison = exact.compare(&result);
    let first = comparison.first.unwrap();
    assert_eq!((comparison.wrong, first.row, first.col), (2, 1, 2));
    assert_eq!(first.result, f64::from(result[7]));
}
