//! The CUDA layer on the stand-in driver, which checks every access, runs streams as late as possible, and
//! interprets the kernels. These tests have no unsafe code, so nothing here may cause a fault.

#![forbid(unsafe_code)]

use std::sync::Arc;

use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, ScaleLayout, Strategy,
    bound::Accumulator,
    oracle,
    plan::hopper::{Arguments, HopperPlan},
    sample::{Operands, Rng},
};
use octile_runtime::cuda::{
    Buffer, CudaError, DeviceActivations, DeviceOperands, Gpu, Graph, HostActivations, MultiplyKernel,
    MultiplyOperands, PlannedMatmul, QuantizeKernel, QuantizeOperands, QuantizeTuning, TensorCorePeak,
    multiply_host,
};
use octile_standin_driver::StandIn;

const TOKEN: ActivationKind = ActivationKind::Fp8(ScaleGranularity::Token);

fn problem(m: usize, n: usize, k: usize) -> Problem {
    Problem::new(m, n, k, QuantBlock::B128).unwrap().with_x(TOKEN)
}

/// A small matmul: operands and plan.
struct Small {
    operands: Operands,
    plan: HopperPlan,
}

impl Small {
    fn new(gpu: &Gpu) -> Self {
        let problem = problem(3, 40, 200);
        let plan = HopperPlan::best(&problem, gpu.properties(), Strategy::Strip).unwrap();
        Self { operands: Operands::random(problem, 5), plan }
    }

    fn upload(&self, gpu: &Gpu) -> DeviceOperands {
        let x = HostActivations::from(&self.operands.x);
        DeviceOperands::new(gpu, &self.plan.problem, x, &self.operands.weight).unwrap()
    }

    #[track_caller]
    fn check(&self, memory: &DeviceOperands) {
        let mut out = vec![f32::NAN; 3 * 40];
        memory.out.read(&mut out).unwrap();
        require_right(&self.operands, &out);
    }
}

#[track_caller]
fn require_right(operands: &Operands, out: &[f32]) {
    let Problem { m, out: kind, .. } = operands.problem;
    let reference = oracle::multiply(&operands.oracle_input(), m, &operands.weight, Accumulator::F32, kind);
    let comparison = reference.compare(out);
    assert!(comparison.passed(), "{comparison:?}");
}

#[track_caller]
fn require_sound(standin: &StandIn) {
    assert_eq!(standin.faults(), [""; 0]);
}

#[test]
fn every_strategy_and_kind_of_activations_is_right() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let floats = |kind, granularity| ActivationKind::Quantized(kind, granularity);
    let kinds = [
        TOKEN,
        ActivationKind::Fp8(ScaleGranularity::Block),
        floats(FloatKind::Bf16, ScaleGranularity::Token),
        floats(FloatKind::F32, ScaleGranularity::Block),
    ];
    for x in kinds {
        for (m, n, k) in [(3, 40, 200), (70, 36, 300)] {
            let operands = Operands::random(problem(m, n, k).with_x(x), 5);
            for strategy in Strategy::ALL {
                let plan = HopperPlan::best(&operands.problem, gpu.properties(), strategy).unwrap();
                let mut out = vec![f32::NAN; m * n];
                let x = HostActivations::from(&operands.x);
                multiply_host(&gpu, &plan, x, &operands.weight, &mut out).unwrap();
                require_right(&operands, &out);
            }
        }
    }
    require_sound(&standin);
}

#[test]
fn incomplete_rows_are_refused() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let values = vec![1u8; 100];
    let cases = [
        (64, 80),
        (64, 64),
        (1 << 40, 1 << 41),
        (usize::MAX, usize::MAX),
        (100, 99),
        (50, 0),
        (0, 0),
        (0, 16),
        (1, usize::MAX),
        (50, usize::MAX / 2 + 1),
    ];
    for (cols, stride) in cases {
        let refused = Buffer::from_rows(&gpu, &values, cols, stride).unwrap_err();
        assert!(matches!(refused, CudaError::Rows { .. }), "{cols}, {stride}: {refused}");
    }
    // The largest possible allocation, and a size that overflows.
    let refused = Buffer::from_rows(&gpu, &[1.0f32; 4], 2, usize::MAX / 8).unwrap_err();
    assert!(matches!(refused, CudaError::Driver { .. }), "{refused}");
    let refused = Buffer::from_rows(&gpu, &[1.0f32; 4], 2, usize::MAX / 4).unwrap_err();
    assert!(matches!(refused, CudaError::Rows { .. }), "{refused}");

    let buffer = Buffer::from_rows(&gpu, &values, 50, 64).unwrap();
    let mut bytes = vec![9u8; 128];
    buffer.read(&mut bytes).unwrap();
    assert_eq!((bytes[49], bytes[50], bytes[63], bytes[64], bytes[113], bytes[114]), (1, 0, 0, 1, 1, 0));
    assert_eq!(Buffer::from_rows(&gpu, &values[..0], 50, 64).unwrap().len(), 1);
    assert_eq!(Buffer::from_slice(&gpu, &values[..0]).unwrap().len(), 1);
    require_sound(&standin);
}

#[test]
fn operands_and_kernels_may_be_dropped_during_work() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let small = Small::new(&gpu);
    {
        let product = PlannedMatmul::new(&gpu, &small.plan).unwrap();
        let memory = small.upload(&gpu);
        product.prepare(memory.operands()).unwrap().launch().unwrap();
    }
    gpu.wait().unwrap();
    require_sound(&standin);
}

#[test]
fn buffers_of_another_stream_are_refused() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let small = Small::new(&gpu);
    let fork = gpu.fork().unwrap();
    let product = PlannedMatmul::new(&fork, &small.plan).unwrap();
    let memory = small.upload(&gpu);
    let refused = product.prepare(memory.operands()).unwrap_err();
    assert!(matches!(refused, CudaError::OtherStream { what: "x" }), "{refused}");
    let there = Buffer::zeros(&fork, 64).unwrap();
    let refused = there.copy_from(&Buffer::zeros(&gpu, 64).unwrap()).unwrap_err();
    assert!(matches!(refused, CudaError::OtherStream { .. }), "{refused}");
    // Each alone is fine.
    let memory = small.upload(&fork);
    product.prepare(memory.operands()).unwrap().launch().unwrap();
    small.check(&memory);
    require_sound(&standin);
}

#[test]
fn a_buffer_shared_with_another_stream_outlives_its_work() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let fork = gpu.fork().unwrap();
    let bytes: Vec<u8> = (0..64).collect();
    let copy = {
        let owned = Arc::new(Buffer::from_slice(&gpu, &bytes).unwrap());
        let lent = Arc::new(Buffer::on(&owned, &fork).unwrap());
        let copy = Buffer::zeros(&fork, 32).unwrap();
        copy.copy_from(&Buffer::part(&lent, 32, 32)).unwrap();
        // All handles are dropped here, before the stream has run; the owner's stream first.
        drop((owned, lent));
        gpu.wait().unwrap();
        copy
    };
    let mut read = [0u8; 32];
    copy.read(&mut read).unwrap();
    assert_eq!(read, bytes[32..]);
    require_sound(&standin);
}

#[test]
fn memory_of_another_gpu_is_refused() {
    let standin = StandIn::load();
    standin.pretend("NVIDIA H100,9.0,132;NVIDIA H200,9.0,132", 13_000);
    let (first, second) = (Gpu::open(0).unwrap(), Gpu::open(1).unwrap());
    assert_eq!((first.name(), second.name()), ("NVIDIA H100", "NVIDIA H200"));
    let small = Small::new(&second);
    let product = PlannedMatmul::new(&second, &small.plan).unwrap();
    let memory = small.upload(&first);
    assert!(matches!(product.prepare(memory.operands()).unwrap_err(), CudaError::OtherStream { .. }));
    let (here, there) = (Buffer::zeros(&first, 64).unwrap(), Arc::new(Buffer::zeros(&second, 64).unwrap()));
    assert!(matches!(here.copy_from(&there).unwrap_err(), CudaError::OtherStream { .. }));
    assert!(matches!(Buffer::on(&there, &first).unwrap_err(), CudaError::OtherGpu));
    require_sound(&standin);
}

#[test]
fn a_graph_keeps_what_it_runs() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let small = Small::new(&gpu);
    let memory = small.upload(&gpu);
    let codes = match memory.operands().x {
        DeviceActivations::Codes { codes, scales } => (codes, scales),
        DeviceActivations::Floats { .. } => panic!("x comes in codes"),
    };
    let graph = {
        let multiplication = MultiplyKernel::new(&gpu, &small.plan).unwrap();
        let operands = memory.operands();
        let prepared = multiplication
            .prepare(MultiplyOperands {
                x: codes.0,
                x_scales: codes.1,
                w: operands.w,
                w_scales: operands.w_scales,
                out: operands.out,
                arguments: operands.arguments,
            })
            .unwrap();
        Graph::capture(&gpu, [&prepared, &prepared]).unwrap()
    };
    // Capture ran nothing.
    memory.out.fill(0).unwrap();
    let mut out = [1.0f32; 4];
    memory.out.read(&mut out).unwrap();
    assert_eq!(out, [0.0; 4]);
    graph.launch().unwrap();
    small.check(&memory);
    graph.launch().unwrap();
    drop(graph);
    drop(memory);
    require_sound(&standin);
}

#[test]
fn a_graph_captures_work_of_its_own_stream_only() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let small = Small::new(&gpu);
    let (memory, product) = (small.upload(&gpu), PlannedMatmul::new(&gpu, &small.plan).unwrap());
    let prepared = product.prepare(memory.operands()).unwrap();
    let refused = Graph::capture(&gpu.fork().unwrap(), [&prepared]).err().unwrap();
    assert!(matches!(refused, CudaError::OtherStream { .. }), "{refused}");
    require_sound(&standin);
}

#[test]
fn a_modified_plan_is_refused() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let plan = Small::new(&gpu).plan;
    let changes: [fn(&mut HopperPlan); 6] = [
        |plan| plan.problem.n = 4000,
        |plan| plan.problem.m = 0,
        |plan| plan.units.1 = 100,
        |plan| plan.shape.tile.b = 192,
        |plan| plan.stages = 40,
        |plan| plan.blocks = 1 << 20,
    ];
    for change in changes {
        let mut changed = plan.clone();
        change(&mut changed);
        let refused = PlannedMatmul::new(&gpu, &changed).unwrap_err();
        assert!(matches!(refused, CudaError::InvalidPlan { .. }), "{refused}");
        assert!(matches!(MultiplyKernel::new(&gpu, &changed).unwrap_err(), CudaError::InvalidPlan { .. }));
    }
    require_sound(&standin);
}

/// Quantizes x on the GPU right before a matmul that uses the codes as its weight too.
fn weight_that_was_just_written(arguments: fn(&Problem) -> Arguments) -> (StandIn, Result<(), CudaError>) {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let (side, k) = (40, 256);
    let floats = ActivationKind::Quantized(FloatKind::F32, ScaleGranularity::Block);
    let quantized = problem(side, side, k).with_x(floats);
    let codes_given = quantized.with_x(ActivationKind::Fp8(ScaleGranularity::Block));
    let arguments = arguments(&codes_given);
    let arguments = Arguments { w_scales: arguments.x_scales, ..arguments };
    let x = Buffer::from_slice(&gpu, &vec![1.0f32; side * k]).unwrap();
    let [codes, scales, out] =
        [side * k, 64, 4 * side * side].map(|bytes| Buffer::zeros(&gpu, bytes).unwrap());
    let quantization = QuantizeKernel::new(&gpu, &quantized).unwrap();
    let plan = HopperPlan::best(&codes_given, gpu.properties(), Strategy::Strip).unwrap();
    let multiplication = MultiplyKernel::new(&gpu, &plan).unwrap();
    let quantize = quantization
        .prepare(QuantizeOperands {
            x: &x,
            x_stride: k,
            codes: &codes,
            codes_stride: k,
            scales: &scales,
            layout: arguments.x_scales,
        })
        .unwrap();
    let multiply = multiplication
        .prepare(MultiplyOperands {
            x: &codes,
            x_scales: &scales,
            w: &codes,
            w_scales: &scales,
            out: &out,
            arguments,
        })
        .unwrap();
    quantize.launch().unwrap();
    multiply.launch().unwrap();
    let mut result = vec![f32::NAN; side * side];
    let read = out.read(&mut result);
    if read.is_ok() {
        assert!(result.iter().all(|&value| (value - k as f32).abs() < 1e-3), "{:?}", &result[..4]);
    }
    (standin, read)
}

#[test]
fn a_weight_is_not_read_early_by_default() {
    for arguments in [Arguments::packed, Arguments::fastest] {
        let (standin, read) = weight_that_was_just_written(arguments);
        read.unwrap();
        require_sound(&standin);
    }
}

#[test]
fn the_stand_in_detects_an_early_weight_read() {
    let (standin, read) =
        weight_that_was_just_written(|problem| Arguments::packed(problem).with_constant_weight());
    assert!(read.is_err());
    assert!(standin.faults()[0].contains("which the preceding kernel may still use"));
}

#[test]
fn strides_and_sizes_that_overflow_are_refused() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let small = Small::new(&gpu);
    let (memory, product) = (small.upload(&gpu), PlannedMatmul::new(&gpu, &small.plan).unwrap());
    let far = usize::MAX / 2 + 1;
    let changes: [fn(&mut Arguments, usize); 6] = [
        |arguments, stride| arguments.out_stride = stride,
        |arguments, stride| arguments.x_stride = stride,
        |arguments, stride| arguments.w_stride = stride,
        |arguments, stride| arguments.x_scales = ScaleLayout { row: stride, k: 1 },
        |arguments, stride| arguments.w_scales = ScaleLayout { row: 1, k: stride },
        |arguments, stride| arguments.w_scales = ScaleLayout { row: stride, k: stride },
    ];
    for change in changes {
        for stride in [1 << 20, 1 << 30, 1 << 31, 1 << 32, 1 << 60, far] {
            let mut operands = memory.operands();
            change(&mut operands.arguments, stride);
            let refused = product.prepare(operands).unwrap_err();
            let is_size = matches!(refused, CudaError::TooLarge | CudaError::BufferTooSmall { .. });
            assert!(is_size, "{stride}: {refused}");
        }
    }
    let mut operands = memory.operands();
    operands.arguments.out_stride = 36;
    assert!(matches!(product.prepare(operands).unwrap_err(), CudaError::OutputStride { .. }));
    require_sound(&standin);
}

#[test]
fn results_must_not_overlap_operands() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let small = Small::new(&gpu);
    let (memory, product) = (small.upload(&gpu), PlannedMatmul::new(&gpu, &small.plan).unwrap());
    let mut operands = memory.operands();
    operands.out = operands.w;
    let refused = product.prepare(operands).unwrap_err();
    assert!(matches!(refused, CudaError::Overlap { other: "the weight", .. }), "{refused}");
    let all = Arc::new(Buffer::zeros(&gpu, 1 << 16).unwrap());
    let (x, codes, scales) = (
        Buffer::part(&all, 0, 16_384),
        Buffer::part(&all, 16_384 - 16, 8192),
        Buffer::part(&all, 32_768, 4096),
    );
    let floats = ActivationKind::Quantized(FloatKind::F32, ScaleGranularity::Token);
    let quantization = QuantizeKernel::new(&gpu, &problem(16, 1, 256).with_x(floats)).unwrap();
    let operands = QuantizeOperands {
        x: &x,
        x_stride: 256,
        codes: &codes,
        codes_stride: 256,
        scales: &scales,
        layout: ScaleLayout::k_major((16, 2)),
    };
    let refused = quantization.prepare(operands).unwrap_err();
    assert!(matches!(refused, CudaError::Overlap { what: "the codes", other: "x" }), "{refused}");
    require_sound(&standin);
}

#[test]
fn unsupported_tunings_and_problems_are_refused() {
    let standin = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let floats = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token);
    let problem = problem(3, 1, 200).with_x(floats);
    for (threads, unroll) in [(0, 1), (33, 1), (2048, 1), (256, 0), (256, 1000)] {
        let tuning = QuantizeTuning { threads, unroll, ..QuantizeTuning::BEST };
        assert!(QuantizeKernel::tuned(&gpu, &problem, tuning).is_err(), "{tuning:?}");
    }
    for (m, k) in [(0, 1), (1, 0), (1 << 40, 1), (1 << 30, 1 << 30)] {
        assert!(QuantizeKernel::new(&gpu, &Problem { m, k, ..problem }).is_err());
    }
    assert!(QuantizeKernel::new(&gpu, &problem.with_x(TOKEN)).is_err());
    require_sound(&standin);
}

#[test]
fn the_peak_kernel_gets_its_parameters() {
    let standin = StandIn::load();
    // Too many iterations to interpret.
    standin.interpret(false);
    let gpu = Gpu::open(0).unwrap();
    let peak = TensorCorePeak::new(&gpu).unwrap();
    assert!(gpu.time(|| peak.launch()).unwrap() > 0.0);
    drop(peak);
    require_sound(&standin);
}

#[test]
fn errors_tell_what_a_machine_lacks() {
    let standin = StandIn::load();
    let refused = |gpus: &str, cuda: i32, index: usize| {
        standin.pretend(gpus, cuda);
        Gpu::open(index).unwrap_err().to_string()
    };
    assert_eq!(
        refused("NVIDIA A100-SXM4-80GB,8.0,108", 13_000, 0),
        "NVIDIA A100-SXM4-80GB has compute capability 8.0, but the kernels need 9.0 (H100, H200): use a \
         Hopper GPU or the CPU"
    );
    assert!(refused("NVIDIA B200,10.0,148", 13_000, 0).contains("NVIDIA B200 has compute capability 10.0"));
    assert_eq!(
        refused("NVIDIA H200,9.0,132", 12_020, 0),
        "the NVIDIA driver supports CUDA 12.2, but the kernels need 12.3: install a newer driver"
    );
    assert!(refused("", 13_000, 0).contains("finds no GPU"));
    assert_eq!(refused("NVIDIA H200,9.0,132", 13_000, 1), "no GPU 1: the driver finds 1, counted from 0");
}

#[test]
fn no_sequence_of_safe_calls_faults() {
    let standin = StandIn::load();
    // Results are checked elsewhere; here only operands are.
    standin.interpret(false);
    standin.pretend("NVIDIA H200,9.0,132;NVIDIA H100,9.0,132", 13_000);
    for seed in 0..40 {
        let mut rng = Rng::new(seed, 11);
        let mut below = |bound: usize| (rng.next_u64() % bound as u64) as usize;
        let first = Gpu::open(0).unwrap();
        let gpus = [first.clone(), first.fork().unwrap(), Gpu::open(1).unwrap()];
        let small = Small::new(&gpus[0]);
        let mut buffers = vec![Arc::new(Buffer::zeros(&gpus[0], 4096).unwrap())];
        let mut uploads: Vec<DeviceOperands> = Vec::new();
        for _ in 0..60 {
            let (one, other) = (below(buffers.len()), below(buffers.len()));
            let (one, other, gpu) =
                (Arc::clone(&buffers[one]), Arc::clone(&buffers[other]), &gpus[below(gpus.len())]);
            match below(11) {
                0 => buffers.push(Arc::new(Buffer::zeros(gpu, below(5000)).unwrap())),
                1 => buffers.push(Arc::new(Buffer::part(&one, one.len() / 3, one.len() / 2))),
                2 => buffers.extend(Buffer::on(&one, gpu).ok().map(Arc::new)),
                3 if other.len() >= one.len() => {
                    let _ = one.copy_from(&other);
                }
                4 => one.fill(7).unwrap(),
                5 => {
                    let rows = Buffer::from_rows(gpu, &[1.5f32; 96][..below(96)], below(20), below(40));
                    buffers.extend(rows.ok().map(Arc::new));
                }
                6 => gpu.wait().unwrap(),
                7 => uploads.push(small.upload(gpu)),
                // Launch with any of the buffers, all of which may be dropped while it runs.
                8 | 9 => {
                    let Some(memory) = uploads.pop() else { continue };
                    let product = PlannedMatmul::new(gpu, &small.plan).unwrap();
                    let mut operands = memory.operands();
                    operands.w = if below(2) == 0 { &one } else { operands.w };
                    let Ok(prepared) = product.prepare(operands) else { continue };
                    let graph = Graph::capture(gpu, [&prepared]).unwrap();
                    prepared.launch().unwrap();
                    graph.launch().unwrap();
                }
                _ if buffers.len() > 1 => drop(buffers.swap_remove(below(buffers.len()))),
                _ => {}
            }
        }
        drop((buffers, uploads));
    }
    require_sound(&standin);
}
