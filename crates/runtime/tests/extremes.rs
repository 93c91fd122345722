//! Values at the ends of the f32 range give the same results on every ISA.

mod common;

use common::{Case, cpus};
use half::bf16;
use octile_core::{
    QuantizedActivation, QuantizedWeight,
    sample::{Activations, Operands},
};
use octile_runtime::cpu::{
    Activation, ActivationKind, E4m3, FloatKind, Mat, MatMut, PackedWeight, Problem, QuantBlock,
    ScaleGranularity, Strategy, Workspace,
};

/// A weight of 40 x 130 values with these two scales.
fn weight(value: f32, scales: [f32; 2]) -> QuantizedWeight {
    let codes = [E4m3::from_f32(value).to_bits(); 40 * 130];
    QuantizedWeight::from_parts(Mat::new(&codes, 40, 130).unwrap(), &scales, QuantBlock::B128).unwrap()
}

/// Multiplies 3 x 130 activations with every ISA and strategy.
fn results(x: Activations, kind: ActivationKind, weight: QuantizedWeight) -> Vec<(String, Vec<f32>)> {
    let problem = Problem::new(3, 40, 130, QuantBlock::B128).unwrap().with_x(kind);
    let case = Case { packed: PackedWeight::new(&weight), operands: Operands { problem, weight, x } };
    let reference = case.reference();
    let mut results = Vec::new();
    for cpu in cpus(1) {
        for strategy in Strategy::ALL {
            let result: Vec<f32> = case.multiply(&cpu, strategy, &mut Workspace::new());
            assert!(reference.compare(&result).passed(), "{} {strategy}", cpu.dispatch());
            results.push((format!("{} {strategy}", cpu.dispatch()), result));
        }
    }
    results
}

/// bf16 dot products flush subnormals to zero, so every ISA must.
#[test]
fn subnormal_plain_activations_count_as_zero() {
    let largest_subnormal = bf16::from_bits(0x007f).to_f32();
    let smallest_normal = f32::MIN_POSITIVE;
    for float in [FloatKind::Bf16, FloatKind::F32] {
        for sign in [1.0, -1.0] {
            let of = |value: f32| {
                let x = Activations::narrowed(float, vec![sign * value; 3 * 130].into_iter());
                results(x, ActivationKind::Plain(float), weight(2.0, [2f32.powi(100); 2]))
            };
            for (name, result) in of(largest_subnormal) {
                assert!(result.iter().all(|v| *v == 0.0), "{float} {name}: {}", result[0]);
            }
            // 130 products of 2^-125, scaled.
            let expected = sign * 260.0 * smallest_normal * 2f32.powi(100);
            for (name, result) in of(smallest_normal) {
                assert!(result.iter().all(|v| *v == expected), "{float} {name}: {}", result[0]);
            }
        }
    }
}

/// A subnormal f16 is a normal f32.
#[test]
fn subnormal_f16_activations_keep_their_value() {
    let smallest = 2f32.powi(-24);
    let x = Activations::narrowed(FloatKind::F16, vec![smallest; 3 * 130].into_iter());
    for (name, result) in results(x, ActivationKind::Plain(FloatKind::F16), weight(1.0, [1.0; 2])) {
        assert!(result.iter().all(|v| *v == 130.0 * smallest), "{name}: {}", result[0]);
    }
}

#[test]
fn subnormal_activations_are_quantized_alike() {
    for float in [FloatKind::Bf16, FloatKind::F32] {
        let x = Activations::narrowed(float, vec![f32::MIN_POSITIVE / 2.0; 3 * 130].into_iter());
        let kind = ActivationKind::Quantized(float, ScaleGranularity::Token);
        let results = results(x, kind, weight(1.0, [2f32.powi(100); 2]));
        for (name, result) in &results {
            assert!(result[0] > 0.0 && *result == results[0].1, "{name}");
        }
    }
}

#[test]
fn scales_that_overflow_together_are_refused() {
    // Zeros: the accumulator is zero, and infinity times zero would be NaN.
    let zeros = [0; 3 * 130];
    let zeros = Mat::new(&zeros, 3, 130).unwrap();
    let scales = [1e20, 1.0, 1.0, 1.0, 1.0, 1.0];
    let x =
        QuantizedActivation::from_parts(zeros, &scales, QuantBlock::B128, ScaleGranularity::Token).unwrap();
    let floats = vec![1e38f32; 3 * 130];
    let floats = Activation::Quantize(Mat::new(&floats, 3, 130).unwrap().into(), ScaleGranularity::Token);
    for cpu in cpus(1) {
        let multiply = |x: Activation<'_>, scales| {
            let mut out = [f32::NAN; 3 * 40];
            let out_mat = MatMut::new(&mut out, 3, 40).unwrap();
            let result =
                cpu.multiply(Strategy::Auto, x, &weight(0.0, scales), out_mat, &mut Workspace::new());
            result.map(|()| out).map_err(|error| error.to_string())
        };
        let message = "activation scale 1e20 of block (0, 0) times weight scale 1e20 of block (0, 0) \
                       overflows f32: make one of them smaller";
        assert_eq!(multiply((&x).into(), [1e20, 1.0]), Err(message.to_owned()));
        // Both largest scales, in different k-blocks.
        assert_eq!(multiply((&x).into(), [1.0, 1e20]), Ok([0.0; 120]));
        assert!(multiply(floats, [1.0, 1e20]).unwrap_err().contains("times weight scale 1e20"));
        assert_eq!(multiply(floats, [1.0, 1.0]), Ok([0.0; 120]));
    }
}
