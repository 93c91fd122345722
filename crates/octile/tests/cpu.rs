//! The library on the CPU: the same bits as the layer below, from any thread, and no argument that panics.

mod common;

use common::{Bits, operands, require_same_bits, run, small, weight};
use octile::{Block, DType, Device, Error, Matmul, Plan, Scales, Strategy, Weight, bf16, f16};
use octile_core::{
    ActivationKind, Mat, MatMut, Problem,
    sample::{Activations, Operands},
};
use octile_runtime::cpu::{Activation, Cpu, Floats, Output, PackedWeight, Workspace};

const KINDS: [(DType, Scales); 6] = [
    (DType::F32, Scales::PerToken),
    (DType::BF16, Scales::PerBlock),
    (DType::F16, Scales::PerToken),
    (DType::BF16, Scales::None),
    (DType::F8E4M3, Scales::PerToken),
    (DType::F8E4M3, Scales::PerBlock),
];

/// The result of the layer below.
fn expected<T: Output + Bits>(cpu: &Cpu, strategy: Strategy, operands: &Operands) -> Vec<T> {
    let Problem { m, n, k, x: kind, .. } = operands.problem;
    let mut out = vec![T::NAN; m * n];
    let (packed, mut workspace) = (PackedWeight::new(&operands.weight), Workspace::new());
    let floats = match &operands.x {
        Activations::F32(x) => Floats::F32(Mat::new(x, m, k).unwrap()),
        Activations::Bf16(x) => Floats::Bf16(Mat::new(x, m, k).unwrap()),
        Activations::F16(x) => Floats::F16(Mat::new(x, m, k).unwrap()),
        // Not looked at.
        Activations::Fp8(_) => Floats::F32(Mat::new(&[0.0], 1, 1).unwrap()),
    };
    let x = match (&operands.x, kind) {
        (Activations::Fp8(x), _) => x.into(),
        (_, ActivationKind::Quantized(_, granularity)) => Activation::Quantize(floats, granularity),
        _ => Activation::Plain(floats),
    };
    let result = MatMut::new(&mut out, m, n).unwrap();
    match strategy {
        Strategy::Strip => cpu.multiply(strategy, x, &packed, result, &mut workspace).unwrap(),
        _ => cpu.multiply(strategy, x, &operands.weight, result, &mut workspace).unwrap(),
    }
    out
}

fn check<T: Output + Bits>(strategy: Strategy, (dtype, scales): (DType, Scales), shape: [usize; 3]) {
    let operands = operands(shape, dtype, scales, T::DTYPE);
    let matmul = Matmul::builder(&Device::cpu_with_threads(2).unwrap(), weight(&operands))
        .activations(dtype, scales)
        .output(T::DTYPE)
        .with_strategy(strategy)
        .build()
        .unwrap();
    let cpu = Cpu::builder().threads(2).build().unwrap();
    let mut out = vec![T::NAN; shape[0] * shape[1]];
    run(&matmul, &operands.x, &mut out).unwrap();
    let what = format!("{strategy}, {dtype} {scales:?}, {shape:?}");
    require_same_bits(&out, &expected::<T>(&cpu, strategy, &operands), &what);
}

#[test]
fn results_have_the_bits_of_the_layer_below() {
    for strategy in Strategy::ALL {
        for kind in KINDS {
            check::<f32>(strategy, kind, [3, 40, 200]);
            check::<bf16>(strategy, kind, [130, 33, 257]);
            check::<f16>(strategy, kind, [1, 300, 128]);
        }
    }
}

#[test]
fn several_threads_multiply_at_once() {
    let all: Vec<Operands> =
        [1, 2, 5, 64, 130].map(|m| operands([m, 70, 300], DType::BF16, Scales::PerToken, DType::BF16)).into();
    let cpu = Cpu::builder().threads(2).build().unwrap();
    let matmul = Matmul::builder(&Device::cpu_with_threads(2).unwrap(), weight(&all[0])).build().unwrap();
    std::thread::scope(|scope| {
        for first in 0..8 {
            let (matmul, all, cpu) = (&matmul, &all, &cpu);
            scope.spawn(move || {
                for round in 0..10 {
                    let operands = &all[(first + round) % all.len()];
                    let mut out = vec![bf16::NAN; operands.problem.m * 70];
                    run(matmul, &operands.x, &mut out).unwrap();
                    require_same_bits(&out, &expected(cpu, Strategy::Strip, operands), "beside others");
                }
            });
        }
    });
}

#[test]
fn everything_can_be_sent_and_shared() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Weight>();
    shared::<Device>();
    shared::<Matmul>();
    shared::<Plan>();
    shared::<Error>();
}

#[test]
fn lengths_and_types_that_do_not_fit_are_refused() {
    let matmul = small(&Device::cpu_with_threads(1).unwrap());
    let mut out = [0.0f32; 40];
    let refused = matmul.run(&[1.0f32; 201], &mut out).unwrap_err().to_string();
    assert_eq!(refused, "x has 201 elements, which is not a multiple of K = 200: pass whole rows");
    let refused = matmul.run(&[1.0f32; 400], &mut out).unwrap_err().to_string();
    assert_eq!(refused, "the output has 40 elements, but the result is 2 x 40: pass 80");
    let refused = matmul.run(&[bf16::ONE; 200], &mut out).unwrap_err().to_string();
    assert_eq!(refused, "x is bf16, but the multiplication was built for f32");
    let refused = matmul.run(&[1.0f32; 200], &mut [f16::ZERO; 40]).unwrap_err();
    assert!(matches!(refused, Error::ElementType { what: "the output", .. }));
    let refused = matmul.run_fp8(&[0; 200], &[1.0; 2], &mut out).unwrap_err();
    assert!(matches!(refused, Error::ElementType { given: DType::F8E4M3, .. }));
    assert!(matmul.run::<f32, f32>(&[], &mut out).is_err());
    matmul.run::<f32, f32>(&[], &mut []).expect("nothing to do for no rows");
    assert_eq!(out, [0.0; 40], "refused calls write nothing");
}

#[test]
fn values_that_cannot_be_quantized_are_refused() {
    let device = Device::cpu_with_threads(1).unwrap();
    let matmul = small(&device);
    for value in [f32::NAN, f32::INFINITY] {
        let mut x = [1.0f32; 400];
        x[207] = value;
        let refused = matmul.run(&x, &mut [0.0f32; 80]).unwrap_err();
        assert!(matches!(refused, Error::Values(_)) && refused.to_string().contains("row 1, column 7"));
    }
    let weight = Weight::quantize(&[1.0f32; 200], [1, 200], Block::B128).unwrap();
    let fp8 = Matmul::builder(&device, weight).activations(DType::F8E4M3, Scales::PerToken);
    let fp8 = fp8.output(DType::F32).build().unwrap();
    let mut out = [0.0f32];
    for (code, scales) in [(0x7f, &[1.0, 1.0][..]), (0, &[1.0]), (0, &[f32::NAN, 1.0]), (0, &[-1.0, 1.0])] {
        let refused = fp8.run_fp8(&[code; 200], scales, &mut out).unwrap_err();
        assert!(matches!(refused, Error::Values(_)), "{refused}");
    }
}

#[test]
fn numbers_of_rows_beyond_all_memory_are_refused() {
    for device in [Device::cpu_with_threads(1).unwrap(), Device::simulated_gpu(), Device::simulated_tpu()] {
        let matmul = small(&device);
        for m in [0, usize::MAX, usize::MAX / 200, usize::MAX / 3000] {
            let refused = matmul.plan(m).unwrap_err();
            assert!(matches!(refused, Error::Plan(_)), "{device}, {m}: {refused}");
            assert!(matmul.prepare(m).is_err(), "{device}, {m}");
        }
    }
}

#[test]
fn weights_of_impossible_shapes_are_refused() {
    for shape in [[0, 4], [4, 0], [3, 4], [usize::MAX, 2], [usize::MAX, usize::MAX]] {
        assert!(Weight::quantize(&[1.0f32; 8], shape, Block::B128).is_err(), "{shape:?}");
        assert!(Weight::from_parts(&[0; 8], &[1.0], shape, Block::B128).is_err(), "{shape:?}");
    }
    assert!(Weight::quantize(&[f32::NAN; 8], [2, 4], Block::B128).is_err());
    assert!(Weight::from_parts(&[0; 8], &[1.0; 2], [2, 4], Block::B128).is_err());
    assert!(Weight::from_parts(&[0; 8], &[f32::INFINITY], [2, 4], Block::B128).is_err());
}

#[test]
fn types_that_no_multiplication_has_are_refused() {
    let weight = Weight::quantize(&[1.0f32; 8], [2, 4], Block::B128).unwrap();
    let builder = || Matmul::builder(&Device::simulated_gpu(), weight.clone());
    let refused = [
        builder().activations(DType::F8E4M3, Scales::None).build(),
        builder().output(DType::F8E4M3).build(),
        builder().activations(DType::BF16, Scales::None).build(),
    ];
    let texts = refused.map(|refused| refused.unwrap_err().to_string());
    assert!(texts[0].contains("need scales") && texts[1].contains("cannot be f8e4m3"), "{texts:?}");
    assert!(texts.iter().all(|text| !text.contains("--")), "no flags of a command: {texts:?}");
}

#[test]
fn enqueue_is_for_gpus() {
    let matmul = small(&Device::cpu_with_threads(1).unwrap());
    // SAFETY: refused before anything is done.
    let refused = unsafe { matmul.enqueue(std::ptr::null_mut(), 0, 0, 1) }.unwrap_err();
    assert!(matches!(refused, Error::NoStreams { .. }));
}

#[test]
fn a_plan_is_printed_short_and_long() {
    let plan = small(&Device::cpu_with_threads(1).unwrap()).plan(16).unwrap();
    assert!(!plan.to_string().contains('\n'));
    let long = format!("{plan:#}");
    assert!(long.starts_with("16x40x200:128, strip\n  activations"), "{long}");
}
