//! The library on the CUDA stand-in driver, which checks every access: several GPUs, bounded caches, wrong
//! arguments.

mod common;

use common::{gpu::*, require_same_bits, run, small};
use cudarc::driver::{CudaContext, DevicePtr};
use octile::{Block, DType, Device, DeviceOperands, MatmulOp, Scales, Strategy, bf16};
use octile_standin_driver::StandIn;

const TWO_GPUS: &str = "NVIDIA H200,9.0,132;NVIDIA H200,9.0,132";

#[test]
fn several_threads_multiply_on_several_gpus() {
    let standin = StandIn::load();
    standin.pretend(TWO_GPUS, 13_000);
    let all = [1, 3, 9].map(floats);
    let expected = all.each_ref().map(|operands| expected(Strategy::Strip, operands));
    let kind = (DType::BF16, Scales::PerToken);
    let matmuls = [0, 1].map(|index| matmul(&Device::gpu(index).unwrap(), Strategy::Strip, &all[0], kind));
    std::thread::scope(|scope| {
        for first in 0..6 {
            let (matmuls, all, expected) = (&matmuls, &all, &expected);
            scope.spawn(move || {
                for round in 0..4 {
                    let at = (first + round) % all.len();
                    let mut out = vec![bf16::NAN; all[at].problem.m * 40];
                    run(&matmuls[(first + round) % 2], &all[at].x, &mut out).unwrap();
                    require_same_bits(&out, &expected[at], "beside others");
                }
            });
        }
    });
    drop(matmuls);
    assert_eq!(standin.faults(), [""; 0]);
}

#[test]
fn a_matmul_outlives_its_work_and_caches_are_bounded() {
    let standin = StandIn::load();
    standin.interpret(false);
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let memory = stream.alloc_zeros::<u8>(80 * (208 + 40) * 2).unwrap();
    let x = memory.device_ptr(&stream).0;
    let out = x + 80 * 208 * 2;
    let operands = floats(80);
    let matmul =
        matmul(&Device::gpu(0).unwrap(), Strategy::Strip, &operands, (DType::BF16, Scales::PerToken));
    for m in (1..=80).chain([1, 80]) {
        // SAFETY: memory and stream live until the end of the test.
        unsafe { matmul.enqueue(stream.cu_stream().cast(), x, out, m) }.unwrap();
    }
    // Its kernels are still queued.
    drop(matmul);
    assert_eq!(standin.faults(), [""; 0]);
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let standin = StandIn::load();
    let matmul = small(&Device::gpu(0).unwrap());
    for m in [0, usize::MAX, usize::MAX / 200, 1 << 50, 1 << 40] {
        assert!(matmul.plan(m).is_err() && matmul.prepare(m).is_err(), "{m}");
    }
    assert!(matmul.run(&[1.0f32; 201], &mut [0.0f32; 40]).is_err());
    assert!(matmul.run(&[1.0f32; 200], &mut [0.0f32; 41]).is_err());
    matmul.run::<f32, f32>(&[], &mut []).expect("nothing to do for no rows");
    let missing = Device::gpu(7).unwrap_err().to_string();
    assert_eq!(missing, "no GPU 7: the driver finds 1, counted from 0");
    assert_eq!(standin.faults(), [""; 0]);
}

#[test]
fn operands_of_several_gpus_are_multiplied_and_the_current_context_stays() {
    let standin = StandIn::load();
    standin.pretend(TWO_GPUS, 13_000);
    let operands = floats(3);
    let expected = expected(Strategy::Strip, &operands);
    let contexts = [0, 1].map(|index| CudaContext::new(index).unwrap());
    for (index, context) in contexts.iter().enumerate() {
        let stream = context.new_stream().unwrap();
        contexts[1 - index].bind_to_thread().unwrap();
        let current = || cudarc::driver::result::ctx::get_current().unwrap();
        let before = current();
        let op = MatmulOp::builder(&Device::gpu(index).unwrap(), [40, 208], Block::B128);
        let op = op.with_constant_weight().build().unwrap();
        op.prepare(3).unwrap();
        assert_eq!(current(), before);
        let scales = operands.weight.scales().iter().flat_map(|scale| scale.to_ne_bytes()).collect();
        let workspace = vec![0xff; op.workspace_bytes(3).unwrap()];
        let uploaded = [bytes_of(&operands.x), operands.weight.codes().to_vec(), scales, workspace];
        let uploaded = uploaded.map(|bytes| stream.clone_htod(&bytes).unwrap());
        let [x, w, w_scales, workspace] = uploaded.each_ref().map(|memory| memory.device_ptr(&stream).0);
        let memory = stream.alloc_zeros::<u8>(3 * 40 * 2).unwrap();
        let out = memory.device_ptr(&stream).0;
        let pointers = DeviceOperands { x, w, w_scales, out, workspace, ..DeviceOperands::default() };
        contexts[1 - index].bind_to_thread().unwrap();
        // SAFETY: memory and stream live until the result has been read.
        unsafe { op.enqueue(stream.cu_stream().cast(), &pointers, 3) }.unwrap();
        assert_eq!(current(), before);
        let bytes = stream.clone_dtoh(&memory).unwrap();
        stream.synchronize().unwrap();
        let result: Vec<bf16> = bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b)).collect();
        require_same_bits(&result, &expected, "on its GPU");
        contexts[1 - index].bind_to_thread().unwrap();
        drop(op);
        assert_eq!(current(), before);
    }
    assert_eq!(standin.faults(), [""; 0]);
}

#[test]
fn an_op_outlives_its_work_and_its_cache_is_bounded() {
    let standin = StandIn::load();
    standin.interpret(false);
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let op = MatmulOp::builder(&Device::gpu(0).unwrap(), [40, 208], Block::B128).build().unwrap();
    let sizes = [80 * 208 * 2, 40 * 208, 16, 80 * 40 * 2, op.workspace_bytes(80).unwrap()];
    let memory = sizes.map(|bytes| stream.alloc_zeros::<u8>(bytes).unwrap());
    let [x, w, w_scales, out, workspace] = memory.each_ref().map(|memory| memory.device_ptr(&stream).0);
    let pointers = DeviceOperands { x, w, w_scales, out, workspace, ..DeviceOperands::default() };
    for m in (1..=80).chain([1, 80]) {
        // SAFETY: memory and stream live until the end of the test.
        unsafe { op.enqueue(stream.cu_stream().cast(), &pointers, m) }.unwrap();
    }
    // Its kernels are still queued.
    drop(op);
    assert_eq!(standin.faults(), [""; 0]);
}
