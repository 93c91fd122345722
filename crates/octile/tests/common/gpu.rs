//! Multiplications on GPUs.

use std::{ffi::c_void, sync::LazyLock};

use cudarc::driver::{CudaContext, CudaStream, DevicePtr};
use octile::{DType, Device, Matmul, Scales, Strategy, bf16};
use octile_core::{
    plan::hopper::HopperPlan,
    sample::{Activations, Operands},
};
use octile_harness::requirement::Requirement;
use octile_runtime::cuda::{CudaError, Gpu, HostActivations, multiply_host};
use octile_standin_driver::StandIn;

use super::{operands, weight};

pub(crate) fn matmul(
    device: &Device,
    strategy: Strategy,
    operands: &Operands,
    kind: (DType, Scales),
) -> Matmul {
    Matmul::builder(device, weight(operands))
        .activations(kind.0, kind.1)
        .with_strategy(strategy)
        .build()
        .unwrap()
}

/// The result of the layer below.
pub(crate) fn expected(strategy: Strategy, operands: &Operands) -> Vec<bf16> {
    let gpu = Gpu::open(0).unwrap();
    let plan = HopperPlan::best(&operands.problem, gpu.properties(), strategy).unwrap();
    let mut out = vec![bf16::NAN; operands.problem.m * operands.problem.n];
    multiply_host(&gpu, &plan, HostActivations::from(&operands.x), &operands.weight, &mut out).unwrap();
    out
}

pub(crate) fn floats(m: usize) -> Operands {
    operands([m, 40, 208], DType::BF16, Scales::PerToken, DType::BF16)
}

/// Whether there is a driver. Asked once, before the stand-in takes its place.
static HAS_DRIVER: LazyLock<bool> = LazyLock::new(|| match Gpu::open(0) {
    Ok(_) => true,
    Err(error @ CudaError::NoDriver) => {
        Requirement::Gpu.report_absent("the library beyond the stand-in driver", error);
        false
    }
    Err(error) => panic!("{error}"),
});

/// The stand-in, if there is no driver.
pub(crate) fn driver() -> Option<StandIn> {
    (!*HAS_DRIVER).then(StandIn::load)
}

#[track_caller]
pub(crate) fn require_no_faults(driver: &Option<StandIn>) {
    if let Some(standin) = driver {
        assert_eq!(standin.faults(), [""; 0]);
    }
}

/// Device memory and a stream of another library.
pub(crate) struct Other {
    pub stream: std::sync::Arc<CudaStream>,
}

impl Other {
    pub(crate) fn new() -> Self {
        Self { stream: CudaContext::new(0).unwrap().new_stream().unwrap() }
    }

    pub(crate) fn raw(&self) -> *mut c_void {
        self.stream.cu_stream().cast()
    }

    pub(crate) fn upload(&self, bytes: &[u8]) -> (cudarc::driver::CudaSlice<u8>, u64) {
        let memory = self.stream.clone_htod(bytes).unwrap();
        let pointer = memory.device_ptr(&self.stream).0;
        (memory, pointer)
    }

    pub(crate) fn read(&self, memory: &cudarc::driver::CudaSlice<u8>) -> Vec<bf16> {
        let bytes = self.stream.clone_dtoh(memory).unwrap();
        self.stream.synchronize().unwrap();
        bytes.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes)).collect()
    }
}

pub(crate) fn bytes_of(x: &Activations) -> Vec<u8> {
    match x {
        Activations::Bf16(x) => x.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Activations::Fp8(x) => x.codes().to_vec(),
        _ => panic!("no other type is used here"),
    }
}
