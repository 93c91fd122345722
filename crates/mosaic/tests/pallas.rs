//! Kernels of many kinds that JAX lowered, with what JAX's interpreter computed from the same operands.

mod support;

use octile_mosaic::{
    Float,
    interpret::{Element, Options, Tensor, simulate},
    parse,
    verify::verify,
};
use support::{folder, rates, tensors, text};

fn kernels() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder("pallas"))
        .expect("the folder of kernels is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
        .map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The largest difference as a part of what is allowed: some units in the last place of the type, since
/// functions such as exp are not the same to the last bit everywhere, and the same of the largest element in
/// binary32, since sums are made in another order.
fn share_of_allowed(ours: &Tensor, theirs: &Tensor) -> f64 {
    assert_eq!((ours.element, &ours.shape), (theirs.element, &theirs.shape));
    let roundoff = match ours.element {
        Element::Float(Float::F32) => 2f64.powi(-24),
        Element::Float(Float::Bf16) => 2f64.powi(-8),
        // These must be exact: they come from one rounding of the same number.
        Element::Float(Float::F8E4M3FN) | Element::Integer(_) => {
            return f64::from(u8::from(ours.bytes != theirs.bytes)) * 2.0;
        }
        other => panic!("no result is {other:?}"),
    };
    let (ours, theirs) = (ours.to_f32(), theirs.to_f32());
    let largest = theirs.iter().filter(|v| v.is_finite()).fold(0f64, |all, v| all.max(f64::from(v.abs())));
    let share = |(&a, &b): (&f32, &f32)| {
        if a == b || a.is_nan() && b.is_nan() {
            return 0.0;
        }
        let allowed = 4.0 * roundoff * f64::from(b.abs()) + 16.0 * 2f64.powi(-24) * largest;
        let share = (f64::from(a) - f64::from(b)).abs() / allowed;
        if share.is_nan() { f64::INFINITY } else { share }
    };
    ours.iter().zip(&theirs).map(share).fold(0.0, f64::max)
}

/// Kernels of the set that multiply f32 at the default precision.
const ROUNDED: [&str; 2] = ["matmul_batched", "matmul_f32_single_buffer"];

/// The same kernel with products in binary32.
fn exact(kernel: &str, module: octile_mosaic::Module) -> octile_mosaic::Module {
    match ROUNDED.contains(&kernel) {
        true => {
            let first = "dimension_numbers = ";
            let asks = format!("precision = #tpu.contract_precision<fp32>, {first}");
            let text = module.to_string();
            assert!(text.contains(first), "{kernel}");
            parse(&text.replace(first, &asks)).expect("an attribute was added")
        }
        false => module,
    }
}

/// bfloat16 keeps 8 bits: each product is off by at most 2^-8 of itself, and the sum by less of the largest
/// one.
#[test]
fn products_of_f32_are_those_of_bf16_unless_precision_is_asked_for() {
    for kernel in ROUNDED {
        let module = parse(&text("pallas", kernel)).expect("the kernel is Mosaic");
        let (operands, expected): (Vec<_>, Vec<_>) =
            tensors("pallas", kernel).into_iter().partition(|(name, _)| !name.starts_with("out"));
        let operands: Vec<Tensor> = operands.into_iter().map(|(_, tensor)| tensor).collect();
        let outcome = simulate(&module, &operands, &Options::new(rates())).expect("the kernel runs");
        assert!(
            !outcome.notes.is_empty() && outcome.notes.iter().all(|note| note.op == "tpu.matmul"),
            "{kernel}"
        );
        let (ours, theirs) = (outcome.outputs[0].to_f32(), expected[0].1.to_f32());
        let largest = theirs.iter().fold(0f32, |all, value| all.max(value.abs()));
        let difference = ours.iter().zip(&theirs).fold(0f32, |all, (a, b)| all.max((a - b).abs()));
        assert!(
            difference > 1e-5 * largest && difference < largest / 128.0,
            "{kernel}: {difference} of {largest}"
        );
    }
}

#[test]
fn kernels_of_many_kinds_give_what_jax_gives() {
    let kernels = kernels();
    assert!(kernels.len() >= 30, "{kernels:?}");
    let mut wrong = Vec::new();
    for kernel in kernels {
        let module = match parse(&text("pallas", &kernel)) {
            Ok(module) => module,
            Err(error) => {
                wrong.push(format!("{kernel}:{error}"));
                continue;
            }
        };
        let printed = module.to_string();
        assert_eq!(parse(&printed).map(|module| module.to_string()), Ok(printed), "{kernel}");
        let chip = octile_core::device::tpu::TpuChip::named("tpu7x").expect("the chip is known");
        wrong.extend(verify(&module, chip).into_iter().map(|violation| format!("{kernel}: {violation:?}")));
        // JAX's interpreter multiplied in binary32, whatever the precision; the matrix units do so only where
        // they are asked to. Kernels that do not ask are compared as if they did, and once more as
        // they are, below.
        let module = exact(&kernel, module);
        let (operands, expected): (Vec<_>, Vec<_>) =
            tensors("pallas", &kernel).into_iter().partition(|(name, _)| !name.starts_with("out"));
        let operands: Vec<Tensor> = operands.into_iter().map(|(_, tensor)| tensor).collect();
        let shapes = expected.iter().map(|(_, tensor)| tensor.shape.clone()).collect();
        let options = Options { output_shapes: Some(shapes), ..Options::new(rates()) };
        match simulate(&module, &operands, &options) {
            Err(error) => wrong.push(format!("{kernel}: {:.300}", error.to_string())),
            Ok(outcome) => {
                wrong.extend(outcome.findings.iter().map(|finding| format!("{kernel}: {finding:?}")));
                let shares = outcome
                    .outputs
                    .iter()
                    .zip(&expected)
                    .map(|(ours, (_, theirs))| share_of_allowed(ours, theirs));
                let share = shares.fold(0.0, f64::max);
                println!("{kernel}: {share:.3} of what is allowed");
                if share > 1.0 {
                    wrong.push(format!("{kernel}: {share} times what is allowed"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
