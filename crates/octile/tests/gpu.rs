//! The library on a GPU, or on the CUDA stand-in driver where there is none.

mod common;

use common::{gpu::*, operands, require_same_bits, run, small};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use octile::{DType, Device, ScaleLayout, Scales, Strategy, bf16};
use octile_core::sample::Activations;

#[test]
fn results_have_the_bits_of_the_layer_below_and_of_the_simulator() {
    let driver = driver();
    let device = Device::best().unwrap();
    let kinds = [
        (DType::F32, Scales::PerToken),
        (DType::BF16, Scales::PerBlock),
        (DType::F8E4M3, Scales::PerToken),
        (DType::F8E4M3, Scales::PerBlock),
    ];
    for kind in kinds {
        for strategy in Strategy::ALL {
            let operands = operands([3, 40, 200], kind.0, kind.1, DType::BF16);
            let expected = expected(strategy, &operands);
            // The simulator accumulates more exactly than real tensor cores.
            let simulated = driver.is_some().then(Device::simulated_gpu);
            for device in [Some(&device), simulated.as_ref()].into_iter().flatten() {
                let mut out = vec![bf16::NAN; 3 * 40];
                run(&matmul(device, strategy, &operands, kind), &operands.x, &mut out).unwrap();
                require_same_bits(&out, &expected, &format!("{device}, {strategy}, {kind:?}"));
            }
        }
    }
    require_no_faults(&driver);
}

#[test]
fn work_on_a_stream_of_another_library_can_be_captured() {
    let driver = driver();
    let (other, second) = (Other::new(), Other::new());
    let operands = floats(3);
    let expected = expected(Strategy::Strip, &operands);
    let matmul =
        matmul(&Device::gpu(0).unwrap(), Strategy::Strip, &operands, (DType::BF16, Scales::PerToken));
    let (_x, x) = other.upload(&bytes_of(&operands.x));
    let (out, out_pointer) = other.upload(&[0xff; 3 * 40 * 2]);
    // SAFETY: memory and stream live until the end of the test, and the graph is launched while `matmul`
    // lives.
    unsafe {
        matmul.enqueue(other.raw(), x, out_pointer, 3).unwrap();
        matmul.enqueue(other.raw(), x, out_pointer, 0).expect("nothing to do for no rows");
    }
    require_same_bits(&other.read(&out), &expected, "enqueued");

    let (_x2, x2) = second.upload(&bytes_of(&operands.x));
    let (out2, out2_pointer) = second.upload(&[0xff; 3 * 40 * 2]);
    second.stream.synchronize().unwrap();
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // Only what was prepared may be captured: the rest would allocate.
    second.stream.begin_capture(mode).unwrap();
    // SAFETY: as above.
    let refused = unsafe { matmul.enqueue(second.raw(), x2, out2_pointer, 3) }.unwrap_err();
    assert!(refused.to_string().contains("nothing is prepared for M = 3"), "{refused}");
    second.stream.end_capture(CUgraphInstantiate_flags(0)).unwrap();

    // SAFETY: as above.
    unsafe { matmul.prepare_stream(second.raw(), 3) }.unwrap();
    second.stream.begin_capture(mode).unwrap();
    // SAFETY: as above.
    unsafe { matmul.enqueue(second.raw(), x2, out2_pointer, 3) }.unwrap();
    let graph = second.stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
    for _ in 0..2 {
        graph.launch().unwrap();
        require_same_bits(&second.read(&out2), &expected, "replayed");
    }
    require_no_faults(&driver);
}

#[test]
fn codes_and_scales_of_another_library_are_multiplied() {
    let driver = driver();
    let other = Other::new();
    let kind = (DType::F8E4M3, Scales::PerToken);
    let operands = operands([5, 40, 208], kind.0, kind.1, DType::BF16);
    let Activations::Fp8(codes) = &operands.x else { panic!("codes were asked for") };
    let scales: Vec<u8> = codes.scales().iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let matmul = matmul(&Device::gpu(0).unwrap(), Strategy::Strip, &operands, kind);
    let ((_x, x), (_scales, scales)) = (other.upload(codes.codes()), other.upload(&scales));
    let (out, out_pointer) = other.upload(&[0xff; 5 * 40 * 2]);
    // SAFETY: memory and stream live until the end of the test.
    unsafe { matmul.enqueue_fp8(other.raw(), x, scales, None, out_pointer, 5) }.unwrap();
    require_same_bits(&other.read(&out), &expected(Strategy::Strip, &operands), "codes");
    let layout = ScaleLayout { row: 1, k: 8 };
    let mn_major =
        layout.arrange(codes.scales(), 2).iter().flat_map(|scale| scale.to_le_bytes()).collect::<Vec<u8>>();
    let ((_mn_major, mn_major), (out, other_out)) =
        (other.upload(&mn_major), other.upload(&[0xff; 5 * 40 * 2]));
    // SAFETY: as above.
    unsafe { matmul.enqueue_fp8(other.raw(), x, mn_major, Some(layout), other_out, 5) }.unwrap();
    require_same_bits(&other.read(&out), &expected(Strategy::Strip, &operands), "MN-major scales");
    // SAFETY: refused.
    let refused = unsafe { matmul.enqueue(other.raw(), x, out_pointer, 5) }.unwrap_err();
    assert!(refused.to_string().contains("but got x in floats"), "{refused}");
    // SAFETY: refused.
    let refused = unsafe { matmul.enqueue_fp8(other.raw(), out_pointer, scales, None, out_pointer, 5) };
    assert!(refused.unwrap_err().to_string().contains("overlaps"));
    require_no_faults(&driver);
}

#[test]
fn activations_that_are_not_finite_give_nan_in_their_row() {
    let driver = driver();
    let matmul = small(&Device::gpu(0).unwrap());
    for value in [f32::NAN, f32::INFINITY] {
        let mut x = vec![1.0f32; 3 * 200];
        x[207] = value;
        let mut out = vec![0.0f32; 3 * 40];
        matmul.run(&x, &mut out).unwrap();
        assert!(out[40..80].iter().all(|value| value.is_nan()), "{:?}", &out[40..80]);
        assert!(out[..40].iter().chain(&out[80..]).all(|value| (value - 100.0).abs() < 1e-3));
    }
    require_no_faults(&driver);
}
