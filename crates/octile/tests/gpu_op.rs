//! Operands in device memory that stay with the caller, on a GPU or on the CUDA stand-in driver.

mod common;

use common::{gpu::*, operands_in, require_same_bits};
use cudarc::driver::{
    CudaSlice,
    sys::{CUgraphInstantiate_flags, CUstreamCaptureMode},
};
use octile::{Block, DType, Device, DeviceOperands, Error, MatmulOp, ScaleLayout, Scales, Strategy, bf16};
use octile_core::{
    Problem,
    sample::{Activations, Operands},
};

/// What a test allocates, with the pointers.
struct Uploaded {
    _memory: Vec<CudaSlice<u8>>,
    out: CudaSlice<u8>,
    pointers: DeviceOperands,
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Uploads operands, and fills result and workspace with NaN.
fn upload(other: &Other, op: &MatmulOp, operands: &Operands) -> Uploaded {
    let Problem { m, n, .. } = operands.problem;
    let x_scales = match &operands.x {
        Activations::Fp8(x) => bytes(x.scales()),
        _ => vec![0; 16],
    };
    let workspace = vec![0xff; op.workspace_bytes(m).unwrap().max(16)];
    let parts = [bytes_of(&operands.x), x_scales, operands.weight.codes().to_vec(), workspace];
    let [(x_memory, x), (xs_memory, x_scales), (w_memory, w), (space_memory, workspace)] =
        parts.map(|bytes| other.upload(&bytes));
    let (ws_memory, w_scales) = other.upload(&bytes(operands.weight.scales()));
    let (out_memory, out) = other.upload(&vec![0xff; m * n * 2]);
    Uploaded {
        _memory: vec![x_memory, xs_memory, w_memory, space_memory, ws_memory],
        out: out_memory,
        pointers: DeviceOperands { x, x_scales, x_scale_layout: None, w, w_scales, out, workspace },
    }
}

fn op(operands: &Operands, (dtype, scales): (DType, Scales)) -> MatmulOp {
    let Problem { n, k, quant_block, .. } = operands.problem;
    MatmulOp::builder(&Device::gpu(0).unwrap(), [n, k], quant_block)
        .activations(dtype, scales)
        .build()
        .unwrap()
}

const KINDS: [(DType, Scales); 4] = [
    (DType::BF16, Scales::PerToken),
    (DType::BF16, Scales::PerBlock),
    (DType::F8E4M3, Scales::PerToken),
    (DType::F8E4M3, Scales::PerBlock),
];

#[test]
fn results_have_the_bits_of_the_layer_below() {
    let driver = driver();
    let other = Other::new();
    for block in Block::ALL {
        for kind in KINDS {
            let operands = operands_in(block, [5, 72, 656], kind.0, kind.1, DType::BF16);
            let op = op(&operands, kind);
            let uploaded = upload(&other, &op, &operands);
            // SAFETY: memory and stream live until the end of the test.
            unsafe { op.enqueue(other.raw(), &uploaded.pointers, 5) }.unwrap();
            let expected = expected(Strategy::Strip, &operands);
            require_same_bits(&other.read(&uploaded.out), &expected, &format!("{block:?} {kind:?}"));
        }
    }
    require_no_faults(&driver);
}

#[test]
fn scales_are_read_in_any_layout() {
    let driver = driver();
    let other = Other::new();
    for (m, kind, rows) in [(1, KINDS[2], 1), (5, KINDS[2], 5), (150, KINDS[2], 150), (150, KINDS[3], 2)] {
        let operands = operands_in(Block::B128, [m, 72, 656], kind.0, kind.1, DType::BF16);
        let Activations::Fp8(x) = &operands.x else { panic!("codes were asked for") };
        let (op, expected) = (op(&operands, kind), expected(Strategy::Strip, &operands));
        let k_blocks = x.scales().len() / rows;
        let padded = rows.next_multiple_of(4);
        for (row, k) in
            [(1, rows), (1, padded), (1, padded + 4), (1, rows + 3), (k_blocks + 1, 1), (2, 2 * m)]
        {
            let layout = ScaleLayout { row, k };
            let arranged = layout.arrange(x.scales(), k_blocks);
            // Four scales are copied at once where they are aligned.
            assert_eq!(arranged.len(), layout.extent((rows, k_blocks)));
            let (_scales, x_scales) = other.upload(&bytes(&arranged));
            let uploaded = upload(&other, &op, &operands);
            let pointers = DeviceOperands { x_scales, x_scale_layout: Some(layout), ..uploaded.pointers };
            // SAFETY: memory and stream live until the result has been read.
            unsafe { op.enqueue(other.raw(), &pointers, m) }.unwrap();
            require_same_bits(&other.read(&uploaded.out), &expected, &format!("{m} {kind:?} {layout:?}"));
            let refuse = |pointers: DeviceOperands| {
                // SAFETY: refused.
                unsafe { op.enqueue(other.raw(), &pointers, m) }.unwrap_err().to_string()
            };
            let shifted = refuse(DeviceOperands { x_scales: x_scales + 4, ..pointers });
            assert!(shifted.starts_with("the scales of x at") && shifted.contains("16 bytes"), "{shifted}");
            for stride in [1 << 30, usize::MAX] {
                let far = Some(ScaleLayout { row: stride, k: stride });
                let refused = refuse(DeviceOperands { x_scale_layout: far, ..pointers });
                assert!(refused.starts_with("a dimension or byte stride exceeds"), "{refused}");
            }
        }
    }
    require_no_faults(&driver);
}

#[test]
fn a_call_can_be_captured_once_it_is_prepared() {
    let driver = driver();
    let other = Other::new();
    for kind in [KINDS[0], KINDS[2]] {
        let operands = operands_in(Block::B128, [3, 40, 208], kind.0, kind.1, DType::BF16);
        let op = op(&operands, kind);
        let uploaded = upload(&other, &op, &operands);
        other.stream.synchronize().unwrap();
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        other.stream.begin_capture(mode).unwrap();
        // SAFETY: memory and stream live until the end of the test.
        let refused = unsafe { op.enqueue(other.raw(), &uploaded.pointers, 3) }.unwrap_err();
        assert!(
            refused.to_string().contains("no kernel is compiled for M = 3: multiply once, or call prepare"),
            "{refused}"
        );
        other.stream.end_capture(CUgraphInstantiate_flags(0)).unwrap();

        op.prepare(3).unwrap();
        // What was prepared is not evicted by others.
        for m in 4..80 {
            op.plan(m).unwrap();
        }
        other.stream.begin_capture(mode).unwrap();
        // SAFETY: as above, and the graph is launched while `op` lives.
        unsafe { op.enqueue(other.raw(), &uploaded.pointers, 3) }.unwrap();
        let graph = other.stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
        let expected = expected(Strategy::Strip, &operands);
        for _ in 0..2 {
            graph.launch().unwrap();
            require_same_bits(&other.read(&uploaded.out), &expected, "replayed");
        }
    }
    require_no_faults(&driver);
}

#[test]
fn pointers_that_cannot_be_used_are_refused() {
    let driver = driver();
    let other = Other::new();
    let operands = floats(3);
    let op = op(&operands, KINDS[0]);
    let good = upload(&other, &op, &operands);
    assert_eq!(op.workspace_bytes(0).unwrap(), 0);
    let refuse = |pointers: DeviceOperands, m| {
        // SAFETY: refused.
        unsafe { op.enqueue(other.raw(), &pointers, m) }.unwrap_err().to_string()
    };
    let all = good.pointers;
    assert_eq!(refuse(DeviceOperands { x: 0, ..all }, 3), "x is a null pointer: pass device memory");
    assert!(refuse(DeviceOperands { workspace: 0, ..all }, 3).starts_with("the workspace is a null pointer"));
    assert!(refuse(DeviceOperands { w: all.w + 8, ..all }, 3).contains("the weight at"));
    assert!(refuse(DeviceOperands { w: all.w + 8, ..all }, 3).contains("not aligned to 16 bytes"));
    assert!(refuse(DeviceOperands { w_scales: all.w_scales + 2, ..all }, 3).contains("aligned to 4 bytes"));
    assert!(
        refuse(DeviceOperands { workspace: all.workspace + 4, ..all }, 3).contains("aligned to 16 bytes")
    );
    assert!(refuse(DeviceOperands { out: all.w, ..all }, 3).contains("overlaps"));
    assert!(refuse(DeviceOperands { workspace: all.out, ..all }, 3).contains("overlaps"));
    for m in [usize::MAX, usize::MAX / 208, 1 << 50, 1 << 40] {
        assert!(op.plan(m).is_err() && op.prepare(m).is_err(), "{m}");
    }
    // SAFETY: nothing is done for no rows.
    unsafe { op.enqueue(other.raw(), &DeviceOperands::default(), 0) }.unwrap();
    let unaligned = MatmulOp::builder(op.device(), [40, 200], Block::B128).build().unwrap_err().to_string();
    assert!(unaligned.contains("200 bytes, but must be a multiple of 16"), "{unaligned}");
    let mut host = [bf16::NAN; 40];
    let weight = octile::WeightRef::Packed(&[]);
    assert!(matches!(op.run(weight, &[bf16::ONE; 208], &mut host), Err(Error::HostMemory { .. })));
    require_no_faults(&driver);
}
