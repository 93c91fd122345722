//! Weights from safetensors files.

use octile::{Block, Error, Weight, bf16};
use safetensors::{Dtype, serialize, tensor::TensorView};

/// A file with a weight of `[n, k]` and scales of some type and shape.
fn file(shape: [usize; 2], scales: (&str, Dtype, [usize; 2], &[u8])) -> Vec<u8> {
    let codes = vec![0x38; shape[0] * shape[1]];
    let (name, dtype, scale_shape, bytes) = scales;
    let tensors = [
        ("up.weight", TensorView::new(Dtype::F8_E4M3, shape.to_vec(), &codes).unwrap()),
        (name, TensorView::new(dtype, scale_shape.to_vec(), bytes).unwrap()),
    ];
    serialize(tensors, None).unwrap()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn both_names_and_every_scale_type_are_read() {
    let halves: Vec<u8> = [1.5f32, 2.0].iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect();
    let files = [
        file([3, 200], ("up.weight_scale_inv", Dtype::F32, [1, 2], &floats(&[1.5, 2.0]))),
        file([3, 200], ("up.weight_scale", Dtype::BF16, [1, 2], &halves)),
    ];
    for file in &files {
        let weight = Weight::from_safetensors(file, "up").unwrap();
        assert_eq!((weight.shape(), weight.block()), ([3, 200], Block::B128));
        assert_eq!(weight.scales(), [1.5, 2.0]);
    }
    let powers = file([300, 1], ("up.weight_scale_inv", Dtype::F8_E8M0, [2, 1], &[127, 130]));
    let weight = Weight::from_safetensors(&powers, "up").unwrap();
    assert_eq!((weight.block(), weight.scales()), (Block::B256, &[1.0, 8.0][..]));
}

#[test]
fn other_files_are_refused() {
    let good = file([3, 200], ("up.weight_scale_inv", Dtype::F32, [1, 2], &floats(&[1.0; 2])));
    let text = |file: &[u8], name: &str| Weight::from_safetensors(file, name).unwrap_err().to_string();
    assert!(text(&good, "down").starts_with("tensor down.weight: not in this file"));
    assert!(text(&good[..good.len() - 1], "up").starts_with("not a safetensors file: "));
    for end in 0..good.len() {
        assert!(Weight::from_safetensors(&good[..end], "up").is_err());
    }
    let alone = file([3, 200], ("other", Dtype::F32, [1, 2], &floats(&[1.0; 2])));
    assert!(text(&alone, "up").starts_with("tensor up.weight_scale_inv: not in this file"));
    let channels = file([3, 200], ("up.weight_scale", Dtype::F32, [3, 1], &floats(&[1.0; 3])));
    assert!(text(&channels, "up").contains("scales of [3, 1] for [3, 200]"));
    let integers = file([3, 200], ("up.weight_scale", Dtype::I8, [1, 2], &[1, 1]));
    assert!(text(&integers, "up").contains("dtype I8"));
    let nan = file([3, 200], ("up.weight_scale", Dtype::F32, [1, 2], &floats(&[1.0, f32::NAN])));
    assert!(matches!(Weight::from_safetensors(&nan, "up"), Err(Error::Values(_))));
    // The weight is the tensor of scales: not 8-bit.
    let wide = file([1, 2], ("x.weight", Dtype::F32, [1, 2], &floats(&[1.0; 2])));
    assert!(text(&wide, "x").starts_with("tensor x.weight_scale_inv: not in this file"));
}
