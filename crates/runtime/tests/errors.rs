//! Wrong arguments give an error of one sentence, never a panic.

mod common;

use common::{cpu, isas};
use octile_core::QuantizedActivation;
use octile_runtime::cpu::{
    Activation, Cpu, Floats, Isa, Mat, MatMut, MultiplyError, PackedWeight, QuantBlock, QuantizedWeight,
    ScaleGranularity, Strategy, Workspace, available,
};

fn weight(n: usize, k: usize) -> QuantizedWeight {
    QuantizedWeight::quantize(Mat::new(&vec![1.0; n * k], n, k).unwrap(), QuantBlock::B128).unwrap()
}

/// Multiplies a plain x of `rows x cols` with a weight of 4 x 8 into an output of `out`.
fn multiply(x: &[f32], rows: usize, out: (usize, usize), strategy: Strategy) -> Result<(), MultiplyError> {
    let (weight, mut result) = (weight(4, 8), vec![0.0f32; out.0 * out.1]);
    let x = Activation::Plain(Mat::new(x, rows, x.len() / rows).unwrap().into());
    let out = MatMut::new(&mut result, out.0, out.1).unwrap();
    cpu(Isa::Portable, 1).multiply(strategy, x, &weight, out, &mut Workspace::new())
}

#[test]
fn shapes_that_do_not_fit() {
    let message = |result: Result<(), MultiplyError>| result.unwrap_err().to_string();
    assert_eq!(
        message(multiply(&[0.0; 18], 2, (2, 4), Strategy::Auto)),
        "x has 9 columns but the weight has 8: both must be K"
    );
    assert_eq!(
        message(multiply(&[0.0; 16], 2, (3, 4), Strategy::Auto)),
        "the result is 2 x 4, but the output is 3 x 4: pass an output of the result's shape"
    );
    assert_eq!(
        message(multiply(&[0.0; 16], 2, (2, 4), Strategy::Strip)),
        "strategy strip needs a packed weight: pass a PackedWeight"
    );
    assert_eq!(multiply(&[0.0; 16], 2, (2, 4), Strategy::Dma), Ok(()));
}

#[test]
fn a_packed_weight_is_for_strip_only() {
    let packed = PackedWeight::new(&weight(4, 8));
    let mut out = [0.0f32; 4];
    let x = Activation::Plain(Mat::new(&[0.0f32; 8], 1, 8).unwrap().into());
    let out = MatMut::new(&mut out, 1, 4).unwrap();
    let result = cpu(Isa::Portable, 1).multiply(Strategy::Smem, x, &packed, out, &mut Workspace::new());
    assert_eq!(
        result.unwrap_err().to_string(),
        "strategy smem needs a row-major weight: pass the QuantizedWeight"
    );
}

#[test]
fn blocks_of_different_size() {
    let x = Mat::new(&[1.0; 8], 1, 8).unwrap();
    let x = QuantizedActivation::quantize(x, QuantBlock::B512, ScaleGranularity::Token).unwrap();
    let mut out = [0.0f32; 4];
    let out = MatMut::new(&mut out, 1, 4).unwrap();
    let result =
        cpu(Isa::Portable, 1).multiply(Strategy::Auto, &x, &weight(4, 8), out, &mut Workspace::new());
    assert_eq!(
        result.unwrap_err().to_string(),
        "x has quantization blocks of 512, but the weight of 128: quantize both alike"
    );
}

#[test]
fn activations_that_cannot_be_quantized_are_named() {
    let (m, k) = (300, 400);
    for isa in isas() {
        for threads in [1, 3] {
            for (row, col, value) in
                [(0, 0, f32::NAN), (299, 399, f32::INFINITY), (130, 257, f32::NEG_INFINITY)]
            {
                for granularity in [ScaleGranularity::Block, ScaleGranularity::Token] {
                    let mut x = vec![1.0f32; m * k];
                    // The error must name the first value.
                    x[m * k - 1] = f32::NAN;
                    x[row * k + col] = value;
                    let mut out = vec![0.0f32; m * 4];
                    let floats = Floats::F32(Mat::new(&x, m, k).unwrap());
                    let result = cpu(isa, threads).multiply(
                        Strategy::Auto,
                        Activation::Quantize(floats, granularity),
                        &weight(4, k),
                        MatMut::new(&mut out, m, 4).unwrap(),
                        &mut Workspace::new(),
                    );
                    assert_eq!(
                        result.unwrap_err().to_string(),
                        format!(
                            "activation holds {value} at row {row}, column {col}: only finite numbers can be quantized"
                        )
                    );
                }
            }
        }
    }
}

#[test]
fn plain_activations_carry_nan_and_infinity_to_their_own_row() {
    let (m, n, k) = (9, 40, 300);
    let mut x = vec![1.0f32; m * k];
    x[2 * k + 131] = f32::NAN;
    x[5 * k + 299] = f32::INFINITY;
    for isa in isas() {
        let mut out = vec![0.0f32; m * n];
        let weight = weight(n, k);
        let x = Activation::Plain(Mat::new(&x, m, k).unwrap().into());
        let view = MatMut::new(&mut out, m, n).unwrap();
        cpu(isa, 1).multiply(Strategy::Auto, x, &weight, view, &mut Workspace::new()).unwrap();
        for (row, out) in out.chunks(n).enumerate() {
            let as_expected = |v: &f32| match row {
                2 => v.is_nan(),
                5 => *v == f32::INFINITY,
                _ => (*v - 300.0).abs() < 0.01,
            };
            assert!(out.iter().all(as_expected), "{isa} row {row}: {out:?}");
        }
    }
}

#[test]
fn a_backend_that_cannot_be_made() {
    let error = Cpu::builder().threads(0).build().unwrap_err();
    assert_eq!(error.to_string(), "the thread count is 0: use at least 1");
    for isa in Isa::ALL.into_iter().filter(|isa| !available().contains(isa)) {
        let error = Cpu::builder().isa(isa).build().unwrap_err().to_string();
        assert!(error.starts_with(&format!("this CPU does not support {isa}: use one of portable")));
    }
}
