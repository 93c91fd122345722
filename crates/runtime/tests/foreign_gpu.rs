//! Memory and streams of another library, here cudarc itself.

use cudarc::driver::{CudaContext, CudaSlice, DevicePtr};
use half::bf16;
use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy, plan::hopper::HopperPlan,
    sample::Operands,
};
use octile_harness::requirement::Requirement;
use octile_runtime::cuda::{
    Buffer, CudaError, DeviceActivations, DeviceOperands, Gpu, Graph, HostActivations, MatmulOperands,
    PlannedMatmul,
};
use octile_standin_driver::StandIn;

/// Copies a buffer to memory owned by the other library.
fn copied(
    gpu: &Gpu,
    stream: &std::sync::Arc<cudarc::driver::CudaStream>,
    buffer: &Buffer,
) -> (CudaSlice<u8>, Buffer) {
    let mut bytes = vec![0u8; buffer.len()];
    buffer.read(&mut bytes).unwrap();
    let memory = stream.clone_htod(&bytes).unwrap();
    stream.synchronize().unwrap();
    let pointer = memory.device_ptr(stream).0;
    // SAFETY: the memory has this length, the caller keeps it, and all work on it is on one stream.
    let foreign = unsafe { Buffer::from_raw_parts(gpu, pointer, bytes.len()) };
    (memory, foreign)
}

#[test]
fn foreign_memory_on_a_foreign_stream_gives_the_same_bits() {
    let on_gpu = vec![(130, 304, 1000), (16, 1024, 4096), (1024, 1024, 1024)];
    let (gpu, shapes, standin) = match Gpu::open(0) {
        Ok(gpu) => (gpu, on_gpu, None),
        Err(error @ CudaError::NoDriver) => {
            Requirement::Gpu.report_absent("foreign memory and streams beyond the stand-in driver", error);
            let standin = StandIn::load();
            (Gpu::open(0).unwrap(), vec![(130, 40, 300)], Some(standin))
        }
        Err(error @ (CudaError::NoGpu | CudaError::NotHopper { .. } | CudaError::OldDriver { .. })) => {
            Requirement::Gpu.report_absent("foreign memory and streams", error);
            return;
        }
        Err(error) => panic!("{error}"),
    };
    for (m, n, k) in shapes {
        let problem = Problem::new(m, n, k, QuantBlock::B128)
            .unwrap()
            .with_x(ActivationKind::Fp8(ScaleGranularity::Token))
            .with_out(FloatKind::Bf16);
        let operands = Operands::random(problem, 5);
        let plan = HopperPlan::best(&problem, gpu.properties(), Strategy::Strip).unwrap();

        let own = DeviceOperands::new(&gpu, &problem, HostActivations::from(&operands.x), &operands.weight)
            .unwrap();
        let product = PlannedMatmul::new(&gpu, &plan).unwrap();
        product.prepare(own.operands()).unwrap().launch().unwrap();
        let mut expected = vec![bf16::NAN; m * n];
        own.out.read(&mut expected).unwrap();

        let other = CudaContext::new(0).unwrap();
        let stream = other.new_stream().unwrap();
        // SAFETY: the stream is of the primary context and outlives everything made with it; its owner
        // captures nothing.
        let there = unsafe { gpu.on_stream(stream.cu_stream().cast()) };
        let MatmulOperands { x: DeviceActivations::Codes { codes, scales }, w, w_scales, out, arguments } =
            own.operands()
        else {
            panic!("codes were asked for")
        };
        let [codes, scales, w, w_scales, out] =
            [codes, scales, w, w_scales, out].map(|buffer| copied(&there, &stream, buffer));
        out.1.fill(0xff).unwrap();
        let product = PlannedMatmul::new(&there, &plan).unwrap();
        let foreign = MatmulOperands {
            x: DeviceActivations::Codes { codes: &codes.1, scales: &scales.1 },
            w: &w.1,
            w_scales: &w_scales.1,
            out: &out.1,
            arguments,
        };
        let read = |what: &str| {
            let mut got = vec![bf16::NAN; m * n];
            out.1.read(&mut got).unwrap();
            let same = got.iter().zip(&expected).all(|(got, expected)| got.to_bits() == expected.to_bits());
            assert!(same, "{problem}, {what}");
        };
        let prepared = product.prepare(foreign).unwrap();
        prepared.launch().unwrap();
        read("launched");
        let graph = Graph::capture(&there, [&prepared]).unwrap();
        out.1.fill(0xff).unwrap();
        graph.launch().unwrap();
        read("replayed");
    }
    if let Some(standin) = standin {
        assert_eq!(standin.faults(), [""; 0]);
    }
    println!("foreign memory and streams: the same bits");
}
