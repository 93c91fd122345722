//! Kernels as JAX lowers them whose expected results are computed here, in f64, from the definition of what
//! they compute. `lowered.rs` compares the others with tensors from numpy.

mod support;

use octile_core::device::tpu::TpuChip;
use octile_mosaic::{
    Float,
    interpret::{Element, Options, Outcome, Tensor, simulate},
    parse,
};
use support::text;

/// Reproducible numbers in -1..1, rounded to `float`.
fn numbers(seed: u64, float: Float, shape: &[usize]) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let values = (0..shape.iter().product()).map(|_| next()).collect();
    Tensor::from_f32(Element::Float(float), shape, values)
}

fn integers(bytes: usize, shape: &[usize], values: &[i32]) -> Tensor {
    let values = values.iter().map(|&value| value as f32).collect();
    Tensor::from_f32(Element::Integer(bytes), shape, values)
}

fn run(kernel: &str, operands: &[Tensor], results: &[&[usize]]) -> Outcome {
    let module = parse(&text("lowered", kernel)).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let output_shapes = Some(results.iter().map(|shape| shape.to_vec()).collect());
    let chip = TpuChip::named("tpu7x").expect("the chip is known");
    let options = Options { output_shapes, ..Options::for_chip(chip) };
    simulate(&module, operands, &options).unwrap_or_else(|error| panic!("{kernel}: {error}"))
}

/// Runs a kernel that has no defect.
fn run_clean(kernel: &str, operands: &[Tensor], results: &[&[usize]]) -> Vec<Tensor> {
    let outcome = run(kernel, operands, results);
    assert_eq!((outcome.findings, outcome.completed), (Vec::new(), true), "{kernel}");
    outcome.outputs
}

fn assert_close(kernel: &str, ours: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), expected.len(), "{kernel}");
    for (index, (a, b)) in ours.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{kernel}: element {index} is {a}, expected {b}");
    }
    // A comparison of zeros with zeros would show nothing.
    assert!(expected.iter().filter(|value| value.abs() > 10.0 * tolerance).count() * 2 > expected.len());
}

/// `m x k` times `k x n`.
fn product(a: &[f64], b: &[f64], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let element = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
    (0..m).flat_map(|i| (0..n).map(move |j| element(i, j))).collect()
}

/// Attention of one query to keys and values of `width` each.
fn attention(query: &[f64], keys: &[&[f64]], values: &[&[f64]]) -> Vec<f64> {
    let scores: Vec<f64> =
        keys.iter().map(|key| key.iter().zip(query).map(|(k, q)| k * q).sum::<f64>()).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let column = |j: usize| weights.iter().zip(values).map(|(w, value)| w * value[j]).sum::<f64>() / total;
    (0..query.len()).map(column).collect()
}

#[test]
fn blocked_matmuls_multiply() {
    let sizes @ [m, n, k] = [256, 256, 512];
    let kernels = [
        ("bsmm_bf16", Float::Bf16),
        ("bsmm_fp8", Float::F8E4M3FN),
        ("bsmm_fp8e5", Float::F8E5M2),
        ("emit_pipeline", Float::Bf16),
    ];
    for (kernel, float) in kernels {
        let (a, b) = (numbers(1, float, &[m, k]), numbers(2, float, &[k, n]));
        let expected = product(&a.to_f64(), &b.to_f64(), sizes);
        let outputs = run_clean(kernel, &[a, b], &[&[m, n]]);
        assert_close(kernel, &outputs[0].to_f64(), &expected, 1e-4);
    }
}

#[test]
fn a_batched_matmul_multiplies_each_batch() {
    let shape = [4, 128, 128];
    let (a, b) = (numbers(1, Float::Bf16, &shape), numbers(2, Float::Bf16, &shape));
    let (x, y) = (a.to_f64(), b.to_f64());
    let matrices = x.chunks(128 * 128).zip(y.chunks(128 * 128));
    let expected: Vec<f64> = matrices.flat_map(|(x, y)| product(x, y, [128, 128, 128])).collect();
    let outputs = run_clean("batched_dot", &[a, b], &[&shape]);
    assert_close("batched_dot", &outputs[0].to_f64(), &expected, 1e-4);
}

#[test]
fn softmax_gives_probabilities() {
    let x = numbers(3, Float::F32, &[256, 512]);
    let softmax = |row: &[f64]| {
        let total: f64 = row.iter().map(|value| value.exp()).sum();
        row.iter().map(|value| value.exp() / total).collect::<Vec<_>>()
    };
    let expected: Vec<f64> = x.to_f64().chunks(512).flat_map(softmax).collect();
    let outputs = run_clean("softmax", &[x], &[&[256, 512]]);
    assert_close("softmax", &outputs[0].to_f64(), &expected, 1e-8);
}

/// The grid of `dynamic_grid` covers as many blocks of 8 rows as its first operand says.
#[test]
fn a_dynamic_grid_doubles_the_rows_that_it_covers() {
    let x = numbers(4, Float::F32, &[64, 256]);
    let expected: Vec<f64> = x.to_f64().iter().map(|value| 2.0 * value).collect();
    let all = run_clean("dynamic_grid", &[integers(4, &[], &[8]), x.clone()], &[&[64, 256]]);
    assert_eq!(all[0].to_f64(), expected);
    let some = run("dynamic_grid", &[integers(4, &[], &[3]), x], &[&[64, 256]]);
    assert_eq!(some.findings.len(), 1, "the rows that no step writes are reported");
    assert_eq!(some.outputs[0].to_f64()[..24 * 256], expected[..24 * 256]);
}

/// Causal attention over 2 heads of 256 x 128, in blocks of 128: the block above the diagonal is skipped.
#[test]
fn splash_attention_attends_to_earlier_tokens() {
    let shape = [2, 256, 128];
    let [q, k, v] = [5, 6, 7].map(|seed| numbers(seed, Float::Bf16, &shape));
    let positions: Vec<i32> = (0..256).flat_map(|row| [row; 128]).collect();
    let operands = [
        integers(1, &[1, 2, 2], &[0, 0, 0, 1]),
        integers(1, &[1, 2, 2], &[1, 0, 2, 1]),
        q.clone(),
        k.clone(),
        v.clone(),
        integers(4, &[256, 128], &positions),
    ];
    let [q, k, v] = [q, k, v].map(|tensor| tensor.to_f64());
    let mut expected = Vec::new();
    for head in 0..2 {
        let [q, k, v] = [&q, &k, &v]
            .map(|data| data[head * 256 * 128..][..256 * 128].chunks(128).collect::<Vec<&[f64]>>());
        for token in 0..256 {
            expected.extend(attention(q[token], &k[..=token], &v[..=token]));
        }
    }
    let residual: &[usize] = &[128, 128];
    let outputs = run_clean("splash", &operands, &[residual, residual, residual, &shape]);
    // Weights and results are rounded to bf16.
    assert_close("splash", &outputs[3].to_f64(), &expected, 2e-2);
}

/// Two sequences, 8 query heads on 2 key heads, and keys in pages of 16 tokens.
#[test]
fn paged_attention_follows_the_page_table() {
    let query = numbers(8, Float::Bf16, &[2, 8, 1, 128]);
    let query = Tensor::from_f32(Element::Float(Float::F32), &query.shape, query.to_f32());
    let [keys, values] = [9, 10].map(|seed| numbers(seed, Float::Bf16, &[2, 16, 16, 128]));
    let (lengths, table) = ([30, 64], [3, 1, 9, 0, 12, 5, 2, 15]);
    let operands = [
        integers(4, &[2], &lengths),
        integers(4, &[8], &table),
        integers(4, &[1], &[0]),
        integers(4, &[1], &[1]),
        query.clone(),
        keys.clone(),
        values.clone(),
    ];
    let [q, k, v] = [query, keys, values].map(|tensor| tensor.to_f64());
    let mut expected = Vec::new();
    for sequence in 0..2 {
        for head in 0..8 {
            let row = |token: usize| {
                let page = table[sequence * 4 + token / 16] as usize;
                (((head / 4) * 16 + page) * 16 + token % 16) * 128
            };
            let tokens = 0..lengths[sequence] as usize;
            let keys: Vec<&[f64]> = tokens.clone().map(|token| &k[row(token)..][..128]).collect();
            let values: Vec<&[f64]> = tokens.map(|token| &v[row(token)..][..128]).collect();
            expected.extend(attention(&q[(sequence * 8 + head) * 128..][..128], &keys, &values));
        }
    }
    let result: &[usize] = &[2, 8, 1, 128];
    let outputs = run_clean("paged", &operands, &[result, result, result]);
    assert_close("paged", &outputs[0].to_f64(), &expected, 1e-2);
}

/// The chip does not specify the bits, so what can be expected of them is: they depend on the seed alone, and
/// every bit is set in about half of the elements.
#[test]
fn random_bits_depend_on_the_seed_and_are_balanced() {
    let bits = |seed: i32| -> Vec<i64> {
        let outputs = run_clean("prng", &[integers(4, &[1], &[seed])], &[&[64, 256]]);
        outputs[0].to_f64().into_iter().map(|value| value as i64).collect()
    };
    let first = bits(7);
    assert_eq!(first, bits(7));
    let other = bits(8);
    assert!(first.iter().zip(&other).filter(|(a, b)| a == b).count() < 4);
    for bit in 0..32 {
        let set = first.iter().filter(|&&value| value >> bit & 1 == 1).count();
        // Six standard deviations of 16,384 fair coins.
        assert!(set.abs_diff(8192) < 384, "bit {bit} is set in {set} elements");
    }
}
