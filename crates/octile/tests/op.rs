//! Operands that stay with the caller: the same bits as `Matmul`, and no bytes that panic.

mod common;

use common::{Bits, operands_in, require_same_bits, run, weight};
use octile::{
    Block, DType, Device, DeviceOperands, Error, Matmul, MatmulOp, ScaleLayout, Scales, WeightRef, bf16, f16,
    packed,
};
use octile_core::sample::{Activations, Operands};

const KINDS: [(DType, Scales); 6] = [
    (DType::F32, Scales::PerToken),
    (DType::BF16, Scales::PerBlock),
    (DType::F16, Scales::PerToken),
    (DType::BF16, Scales::None),
    (DType::F8E4M3, Scales::PerToken),
    (DType::F8E4M3, Scales::PerBlock),
];

fn op(device: &Device, shape: [usize; 2], block: Block, kind: (DType, Scales), out: DType) -> MatmulOp {
    MatmulOp::builder(device, shape, block).activations(kind.0, kind.1).output(out).build().unwrap()
}

fn multiply<T: Bits>(op: &MatmulOp, weight: WeightRef<'_>, x: &Activations) -> Result<Vec<T>, Error> {
    let rows = match x {
        Activations::F32(x) => x.len(),
        Activations::Bf16(x) => x.len(),
        Activations::F16(x) => x.len(),
        Activations::Fp8(x) => x.codes().len(),
    } / op.shape()[1];
    let mut out = vec![T::NAN; rows * op.shape()[0]];
    match x {
        Activations::F32(x) => op.run(weight, x, &mut out),
        Activations::Bf16(x) => op.run(weight, x, &mut out),
        Activations::F16(x) => op.run(weight, x, &mut out),
        Activations::Fp8(x) => op.run_fp8(weight, x.codes(), x.scales(), None, &mut out),
    }
    .map(|()| out)
}

fn pack(operands: &Operands) -> Vec<u8> {
    let (weight, problem) = (&operands.weight, &operands.problem);
    packed::pack(weight.codes(), weight.scales(), [problem.n, problem.k], weight.quant_block()).unwrap()
}

fn rows(operands: &Operands) -> WeightRef<'_> {
    WeightRef::Rows { codes: operands.weight.codes(), scales: operands.weight.scales() }
}

fn check<T: Bits>(block: Block, kind: (DType, Scales), shape @ [m, n, k]: [usize; 3]) {
    let operands = operands_in(block, shape, kind.0, kind.1, T::DTYPE);
    let device = Device::cpu_with_threads(2).unwrap();
    let matmul = Matmul::builder(&device, weight(&operands)).activations(kind.0, kind.1);
    let mut expected = vec![T::NAN; m * n];
    run(&matmul.output(T::DTYPE).build().unwrap(), &operands.x, &mut expected).unwrap();

    let op = op(&device, [n, k], block, kind, T::DTYPE);
    let (packed, what) = (pack(&operands), format!("{block:?}, {kind:?}, {shape:?}"));
    let results = [rows(&operands), WeightRef::Packed(&packed)]
        .map(|weight| multiply::<T>(&op, weight, &operands.x).unwrap());
    require_same_bits(&results[0], &expected, &what);
    require_same_bits(&results[1], &expected, &what);
}

#[test]
fn results_have_the_bits_of_a_matmul() {
    for block in Block::ALL {
        for kind in KINDS {
            check::<f32>(block, kind, [3, 40, 200]);
            check::<bf16>(block, kind, [130, 33, 1100]);
            check::<f16>(block, kind, [1, 300, 128]);
        }
    }
    check::<bf16>(Block::B128, KINDS[1], [70, 520, 600]);
}

#[test]
fn bytes_of_every_type_are_multiplied() {
    let device = Device::cpu_with_threads(1).unwrap();
    for kind in KINDS {
        let operands = operands_in(Block::B128, [3, 40, 200], kind.0, kind.1, DType::BF16);
        let op = op(&device, [40, 200], Block::B128, kind, DType::BF16);
        let expected: Vec<bf16> = multiply(&op, rows(&operands), &operands.x).unwrap();
        let (x, scales): (&[u8], &[f32]) = match &operands.x {
            Activations::F32(x) => (bytemuck::cast_slice(x), &[]),
            Activations::Bf16(x) => (bytemuck::cast_slice(x), &[]),
            Activations::F16(x) => (bytemuck::cast_slice(x), &[]),
            Activations::Fp8(x) => (x.codes(), x.scales()),
        };
        let mut out = [bf16::NAN; 3 * 40];
        op.run_bytes(rows(&operands), x, scales, None, bytemuck::cast_slice_mut(&mut out)).unwrap();
        require_same_bits(&out, &expected, &format!("{kind:?}"));
        let mut bytes = vec![0u8; 3 * 40 * 2 + 1];
        let odd = usize::from(bytes.as_ptr().addr().is_multiple_of(2));
        let refused = op.run_bytes(rows(&operands), x, scales, None, &mut bytes[odd..][..240]).unwrap_err();
        assert!(refused.to_string().contains("not whole, aligned elements of bf16"), "{refused}");
        let out = bytemuck::cast_slice_mut(&mut out);
        assert!(op.run_bytes(rows(&operands), &x[1..], scales, None, out).is_err());
        // No rows: a slice of bytes has no alignment then.
        op.run_bytes(rows(&operands), &[], &[], None, &mut []).unwrap();
    }
}

#[test]
fn scales_are_read_in_any_layout() {
    let device = Device::cpu_with_threads(2).unwrap();
    for (kind, rows_of_scales) in [(KINDS[4], 130), (KINDS[5], 2)] {
        let operands = operands_in(Block::B128, [130, 40, 300], kind.0, kind.1, DType::F32);
        let Activations::Fp8(x) = &operands.x else { panic!("codes were asked for") };
        let op = op(&device, [40, 300], Block::B128, kind, DType::F32);
        let expected: Vec<f32> = multiply(&op, rows(&operands), &operands.x).unwrap();
        for layout in [(1, rows_of_scales), (1, 132), (5, 1)].map(|(row, k)| ScaleLayout { row, k }) {
            let mut scales = vec![f32::NAN; layout.span((rows_of_scales, 3))];
            for (at, scale) in x.scales().iter().enumerate() {
                scales[at / 3 * layout.row + at % 3 * layout.k] = *scale;
            }
            let mut out = vec![f32::NAN; 130 * 40];
            op.run_fp8(rows(&operands), x.codes(), &scales, Some(layout), &mut out).unwrap();
            require_same_bits(&out, &expected, &format!("{kind:?} {layout:?}"));
            let refused = op.run_fp8(rows(&operands), x.codes(), &scales[1..], Some(layout), &mut out);
            let expected = format!(
                "activation scales with strides of {} along the rows and {} along K need {} elements, but {} \
                 were given",
                layout.row,
                layout.k,
                scales.len(),
                scales.len() - 1
            );
            assert_eq!(refused.unwrap_err().to_string(), expected);
        }
    }
    let floats = op(&device, [40, 128], Block::B128, KINDS[0], DType::F32);
    let weight = WeightRef::Rows { codes: &[0; 40 * 128], scales: &[1.0] };
    let layout = Some(ScaleLayout { row: 1, k: 1 });
    let refused = floats.run_bytes(weight, &[0; 512], &[], layout, &mut [0; 160]).unwrap_err();
    assert_eq!(refused.to_string(), "x_scales are for f8e4m3 activations: pass none");
}

#[test]
fn shards_of_panels_give_their_columns_of_the_result() {
    let device = Device::cpu_with_threads(2).unwrap();
    let kind = (DType::F32, Scales::PerToken);
    let operands = operands_in(Block::B256, [5, 300, 700], kind.0, kind.1, DType::F32);
    let whole = pack(&operands);
    let [panels, bytes] = packed::shape([300, 700], Block::B256).unwrap();
    assert_eq!((panels, whole.len()), (10, panels * bytes));
    let expected: Vec<f32> =
        multiply(&op(&device, [300, 700], Block::B256, kind, DType::F32), rows(&operands), &operands.x)
            .unwrap();
    for at in [1, 3, 8, 9] {
        let (first, second) = whole.split_at(at * bytes);
        let n = at * packed::PANEL_ROWS;
        for (shard, columns) in [(first, 0..n), (second, n..300)] {
            let op = op(&device, [columns.len(), 700], Block::B256, kind, DType::F32);
            let result: Vec<f32> = multiply(&op, WeightRef::Packed(shard), &operands.x).unwrap();
            for (row, result) in result.chunks(columns.len()).enumerate() {
                require_same_bits(result, &expected[row * 300..][columns.clone()], "a shard");
            }
        }
    }
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let device = Device::cpu_with_threads(1).unwrap();
    let kind = (DType::F32, Scales::PerToken);
    let op = op(&device, [40, 200], Block::B128, kind, DType::F32);
    let (codes, scales) = (vec![0x38; 40 * 200], [1.0, 1.0]);
    let packed = packed::pack(&codes, &scales, [40, 200], Block::B128).unwrap();
    let mut out = [0.0f32; 40];
    let mut refused =
        |weight: WeightRef<'_>| op.run(weight, &[1.0f32; 200], &mut out).unwrap_err().to_string();
    fn rows<'a>(codes: &'a [u8], scales: &'a [f32]) -> WeightRef<'a> {
        WeightRef::Rows { codes, scales }
    }
    assert!(refused(rows(&codes[1..], &scales)).contains("needs 8000 elements, but the slice has 7999"));
    assert!(refused(rows(&codes, &scales[..1])).contains("needs 2 scales, but 1 were given"));
    for bad in [f32::NAN, f32::INFINITY, -1.0] {
        assert!(refused(rows(&codes, &[1.0, bad])).starts_with("weight scale of block (0, 1) is"));
    }
    assert!(refused(WeightRef::Packed(&packed[4..])).contains("bytes, but"));
    let other = packed::pack(&codes, &scales, [200, 40], Block::B128).unwrap();
    assert!(!refused(WeightRef::Packed(&other)).is_empty());
    let zeros = vec![0; packed.len()];
    assert!(refused(WeightRef::Packed(&zeros)).contains("has no header"));
    assert_eq!(out, [0.0; 40], "refused calls write nothing");
    assert!(op.run(WeightRef::Packed(&packed), &[1.0f32; 201], &mut out).is_err());
    op.run::<f32, f32>(WeightRef::Packed(&packed), &[], &mut []).expect("nothing to do for no rows");
    assert!(packed::pack(&[0x7f; 4], &[1.0], [2, 2], Block::B128).is_err());
    assert!(packed::shape([usize::MAX, 2], Block::B128).is_err());
}

#[test]
fn any_bytes_between_the_headers_are_safe() {
    let device = Device::cpu_with_threads(2).unwrap();
    let kind = (DType::BF16, Scales::PerToken);
    let op = op(&device, [96, 200], Block::B128, kind, DType::F32);
    let mut packed = packed::pack(&[0x38; 96 * 200], &[1.0, 1.0], [96, 200], Block::B128).unwrap();
    let panel = packed.len() / 3;
    packed[panel..2 * panel].fill(0xff);
    let mut out = [0.0f32; 96];
    op.run(WeightRef::Packed(&packed), &[bf16::ONE; 200], &mut out).unwrap();
    assert!(out[..32].iter().chain(&out[64..]).all(|value| (value - 200.0).abs() < 0.1));
    assert!(out[32..64].iter().all(|value| value.is_nan()));
    let refused = WeightRef::Packed(&packed).check([96, 200], Block::B128).unwrap_err().to_string();
    assert_eq!(refused, "panel 1 of the packed weight has no header of this version: pack the weight again");
    // Codes of rows are not looked at either.
    let mut codes = vec![0x38; 96 * 200];
    codes[7 * 200 + 3] = 0x7f;
    let rows = WeightRef::Rows { codes: &codes, scales: &[1.0, 1.0] };
    op.run(rows, &[bf16::ONE; 200], &mut out).unwrap();
    assert!(out.iter().enumerate().all(|(at, value)| at == 7 || (value - 200.0).abs() < 0.1));
    let refused = rows.check([96, 200], Block::B128).unwrap_err().to_string();
    assert!(refused.starts_with("weight holds NaN at row 7, column 3"), "{refused}");
    let good = packed::pack(&[0x38; 96 * 200], &[1.0, 1.0], [96, 200], Block::B128).unwrap();
    WeightRef::Packed(&good).check([96, 200], Block::B128).unwrap();
    for (at, byte) in [(panel + 64 + 3, 0x7f), (panel + 200, 0xff)] {
        let mut bad = good.clone();
        bad[at..][..2].fill(byte);
        assert!(WeightRef::Packed(&bad).check([96, 200], Block::B128).is_err(), "{at}");
    }
}

#[test]
fn several_threads_and_pools_multiply_at_once() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<MatmulOp>();
    let kind = (DType::BF16, Scales::PerToken);
    let device = Device::cpu_with_threads(2).unwrap();
    let op = op(&device, [700, 600], Block::B128, kind, DType::BF16);
    let all =
        [1, 2, 5, 64, 130].map(|m| operands_in(Block::B128, [m, 700, 600], kind.0, kind.1, DType::BF16));
    let packed = pack(&all[0]);
    let expected = all
        .each_ref()
        .map(|operands| multiply::<bf16>(&op, WeightRef::Packed(&packed), &operands.x).unwrap());
    let some = |first: usize| {
        for at in first..first + 10 {
            let at = at % all.len();
            let weight = if first.is_multiple_of(2) { WeightRef::Packed(&packed) } else { rows(&all[0]) };
            require_same_bits(
                &multiply::<bf16>(&op, weight, &all[at].x).unwrap(),
                &expected[at],
                "beside others",
            );
        }
    };
    std::thread::scope(|scope| {
        (0..6).for_each(|first| drop(scope.spawn(move || some(first))));
    });
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.scope(|scope| (0..6).for_each(|first| scope.spawn(move |_| some(first))));
    }
}

#[test]
fn what_a_device_cannot_do_is_refused() {
    let cpu = Device::cpu_with_threads(1).unwrap();
    for simulated in [Device::simulated_gpu(), Device::simulated_tpu()] {
        let refused = MatmulOp::builder(&simulated, [64, 128], Block::B128).build().unwrap_err();
        assert!(refused.to_string().ends_with("use a Matmul"), "{refused}");
    }
    let op = MatmulOp::builder(&cpu, [64, 128], Block::B128).build().unwrap();
    assert!(matches!(op.workspace_bytes(1), Err(Error::NoStreams { .. })));
    // SAFETY: refused before anything is done.
    let refused = unsafe { op.enqueue(std::ptr::null_mut(), &DeviceOperands::default(), 1) }.unwrap_err();
    assert!(matches!(refused, Error::NoStreams { .. }));
    for m in [0, usize::MAX, usize::MAX / 128] {
        assert!(op.plan(m).is_err() && op.prepare(m).is_err());
    }
    assert!(MatmulOp::builder(&cpu, [0, 128], Block::B128).build().is_err());
    assert!(MatmulOp::builder(&cpu, [64, 128], Block::B128).output(DType::F8E4M3).build().is_err());
}
