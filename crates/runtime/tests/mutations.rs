//! Mutation tests of the checks: each mistake that a kernel could make must exceed the error bound.
//!
//! A correct kernel on wrong operands computes what a wrong kernel computes on correct ones. So the mistakes
//! are made in the operands, and results are compared with the reference of the correct ones.

mod common;

use common::{Case, cpus};
use half::bf16;
use octile_core::{QuantizedActivation, QuantizedWeight, sample::Activations};
use octile_runtime::cpu::{
    ActivationKind, E4m3, FloatKind, Mat, PackedWeight, Problem, QuantBlock, ScaleGranularity, Strategy,
    Workspace,
};

/// Ragged in every direction, with as many block rows as block columns.
fn case(x: ActivationKind) -> Case {
    Case::new(Problem::new(300, 270, 333, QuantBlock::B128).unwrap().with_x(x), 9)
}

/// Whether the result of `mutant` is rejected against the reference of `right`, for every ISA.
fn all_caught(right: &Case, mutant: &Case) -> bool {
    let reference = right.reference();
    cpus(1).iter().zip(Strategy::ALL.into_iter().cycle()).all(|(cpu, strategy)| {
        let good: Vec<f32> = right.multiply(cpu, strategy, &mut Workspace::new());
        assert!(reference.compare(&good).passed(), "{} {strategy}", cpu.dispatch());
        let bad: Vec<f32> = mutant.multiply(cpu, strategy, &mut Workspace::new());
        !reference.compare(&bad).passed()
    })
}

/// The case with other weight codes and scales.
fn with_weight(x: ActivationKind, change: impl FnOnce(&mut Vec<u8>, &mut Vec<f32>)) -> Case {
    let mut case = case(x);
    let weight = &case.operands.weight;
    let (n, k) = (weight.rows(), weight.cols());
    let (mut codes, mut scales) = (weight.codes().to_vec(), weight.scales().to_vec());
    change(&mut codes, &mut scales);
    let weight = QuantizedWeight::from_parts(Mat::new(&codes, n, k).unwrap(), &scales, QuantBlock::B128);
    case.operands.weight = weight.unwrap();
    case.packed = PackedWeight::new(&case.operands.weight);
    case
}

/// The case with other activation codes and scales.
fn with_x(x: ActivationKind, change: impl FnOnce(&mut Vec<u8>, &mut Vec<f32>)) -> Case {
    let mut case = case(x);
    let Activations::Fp8(old) = &case.operands.x else { panic!("only quantized activations have codes") };
    let (mut codes, mut scales) = (old.codes().to_vec(), old.scales().to_vec());
    change(&mut codes, &mut scales);
    let codes = Mat::new(&codes, old.rows(), old.cols()).unwrap();
    let x = QuantizedActivation::from_parts(codes, &scales, QuantBlock::B128, old.granularity()).unwrap();
    case.operands.x = Activations::Fp8(x);
    case
}

const BLOCK: ActivationKind = ActivationKind::Fp8(ScaleGranularity::Block);
const TOKEN: ActivationKind = ActivationKind::Fp8(ScaleGranularity::Token);
/// Blocks along N, and along K.
const SIDE: usize = 3;

#[test]
fn wrong_scale_index() {
    for x in [BLOCK, TOKEN] {
        assert!(all_caught(&case(x), &with_weight(x, |_, scales| scales.rotate_left(1))));
        assert!(all_caught(&case(x), &with_weight(x, |_, scales| scales.rotate_left(SIDE))));
        assert!(all_caught(&case(x), &with_x(x, |_, scales| scales.rotate_left(1))));
        assert!(all_caught(&case(x), &with_x(x, |_, scales| scales.rotate_left(SIDE))));
    }
}

#[test]
fn one_wrong_scale_of_many() {
    for at in 0..SIDE * SIDE {
        assert!(all_caught(&case(BLOCK), &with_weight(BLOCK, |_, scales| scales[at] *= 1.001)));
        assert!(all_caught(&case(BLOCK), &with_x(BLOCK, |_, scales| scales[at] *= 1.001)));
    }
}

#[test]
fn scales_of_the_last_block_only() {
    let last_only = |_: &mut Vec<u8>, scales: &mut Vec<f32>| {
        for row in scales.chunks_mut(SIDE) {
            row.fill(row[SIDE - 1]);
        }
    };
    for x in [BLOCK, TOKEN] {
        assert!(all_caught(&case(x), &with_weight(x, last_only)));
        assert!(all_caught(&case(x), &with_x(x, last_only)));
    }
}

#[test]
fn transposed_scales() {
    let transpose = |_: &mut Vec<u8>, scales: &mut Vec<f32>| {
        let old = scales.clone();
        for (at, scale) in scales.iter_mut().enumerate() {
            *scale = old[at % SIDE * SIDE + at / SIDE];
        }
    };
    assert!(all_caught(&case(BLOCK), &with_weight(BLOCK, transpose)));
    assert!(all_caught(&case(BLOCK), &with_x(BLOCK, transpose)));
}

#[test]
fn block_scales_taken_for_token_scales() {
    let block_wise = |_: &mut Vec<u8>, scales: &mut Vec<f32>| {
        for rows in scales.chunks_mut(128 * SIDE) {
            let first = rows[..SIDE].to_vec();
            rows.chunks_mut(SIDE).for_each(|row| row.copy_from_slice(&first[..row.len()]));
        }
    };
    assert!(all_caught(&case(TOKEN), &with_x(TOKEN, block_wise)));
}

#[test]
fn dropped_ragged_edge() {
    let (k, last_k, last_n) = (333, 332, 269);
    let drop_column = |codes: &mut Vec<u8>, _: &mut Vec<f32>| {
        codes.chunks_mut(k).for_each(|row| row[last_k] = 0);
    };
    let drop_row = |codes: &mut Vec<u8>, _: &mut Vec<f32>| codes[last_n * k..].fill(0);
    for x in [BLOCK, TOKEN] {
        assert!(all_caught(&case(x), &with_weight(x, drop_column)));
        assert!(all_caught(&case(x), &with_weight(x, drop_row)));
        assert!(all_caught(&case(x), &with_x(x, drop_column)));
    }
}

#[test]
fn wrong_rounding_of_activations() {
    let quantized = ActivationKind::Quantized(FloatKind::F32, ScaleGranularity::Token);
    let right = case(quantized);
    let Activations::F32(values) = &right.operands.x else { panic!("f32 activations were asked for") };
    // The same quantization, but truncating instead of rounding to nearest.
    let Problem { m, k, quant_block, .. } = right.problem();
    let nearest =
        QuantizedActivation::quantize(Mat::new(values, m, k).unwrap(), quant_block, ScaleGranularity::Token);
    let nearest = nearest.unwrap();
    let cut_off = with_x(TOKEN, |codes, scales| {
        scales.copy_from_slice(nearest.scales());
        for (at, code) in codes.iter_mut().enumerate() {
            let scale = nearest.scales_of_row(at / k)[at % k / quant_block.size()];
            let nearest = nearest.codes()[at];
            let too_far = (E4m3::from_bits(nearest).to_f32() * scale).abs() > values[at].abs();
            *code = if too_far && nearest & 0x7f > 0 { nearest - 1 } else { nearest };
        }
    });
    assert!(all_caught(&right, &cut_off));
}

#[test]
fn wrong_rounding_of_results() {
    let problem = case(BLOCK).problem().with_out(FloatKind::Bf16);
    let right = Case::new(problem, 9);
    let reference = right.reference();
    for cpu in cpus(1) {
        let good: Vec<bf16> = right.multiply(&cpu, Strategy::Strip, &mut Workspace::new());
        assert!(reference.compare(&good).passed());
        let wide: Vec<f32> = case(BLOCK).multiply(&cpu, Strategy::Strip, &mut Workspace::new());
        let cut_off: Vec<bf16> = wide.iter().map(|v| bf16::from_bits((v.to_bits() >> 16) as u16)).collect();
        assert!(!reference.compare(&cut_off).passed());
    }
}
