//! `octile devices`: devices and compilers of this machine, and what is missing.

use std::path::Path;

use octile_core::{
    FloatKind,
    device::{
        cpu::{Isa, IsaDispatch},
        hopper::HOPPER_GPUS,
        tpu::TPU_CHIPS,
    },
};
use octile_harness::backend::cpu_model;
use octile_runtime::{
    cpu::{Cpu, CpuError, dispatch, peak},
    cuda::{self, CudaError, DriverInfo, Gpu, GpuInfo},
};

use crate::print::counted;

/// A device or compiler.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Whether it is usable.
    pub state: State,
}

/// Whether a device or compiler is usable.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Usable, with a description.
    Ready(String),
    /// Not usable, with what is missing.
    Missing(String),
}

/// Lists the devices and compilers of this machine.
pub fn run() -> Result<Vec<Device>, CpuError> {
    let cpu = Cpu::new()?;
    let mut devices = vec![processor(&cpu)];
    let dispatch = cpu.dispatch();
    let native = Isa::ALL.into_iter().filter(|isa| isa.is_native());
    devices.extend(native.map(|isa| instruction_set(isa, dispatch)));
    devices.push(tpu());
    devices.extend(gpus());
    devices.extend(super::tools::list().into_iter().map(compiler));
    Ok(devices)
}

fn compiler(report: super::tools::ToolReport) -> Device {
    let state = match report.found {
        Ok(found) => {
            let version = found.version.map_or_else(|| "unknown version".to_owned(), |v| v.to_string());
            State::Ready(format!("{version}, {}", report.tool.purpose))
        }
        Err(error) => State::Missing(error.to_string()),
    };
    Device { name: report.tool.name.to_owned(), state }
}

fn processor(cpu: &Cpu) -> Device {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let design = dispatch::cpu_id().map(|id| format!(" ({id})")).unwrap_or_default();
    let facts = format!("{}{design}, {}", cpu_model(), counted(threads, "thread"));
    let state = State::Ready(format!("{facts}; instruction sets: {}", cpu.dispatch_source()));
    Device { name: "cpu".to_owned(), state }
}

fn instruction_set(isa: Isa, dispatch: &IsaDispatch) -> Device {
    let state = match peak::isa_gflops(isa) {
        Some(gflops) => {
            State::Ready(format!("peak {gflops:.0} GFLOP/s of one thread; {}", uses(isa, dispatch)))
        }
        None => State::Missing(format!("needs {}", isa.requirement())),
    };
    Device { name: format!("cpu isa {isa}"), state }
}

/// What an instruction set is used for.
fn uses(isa: Isa, dispatch: &IsaDispatch) -> String {
    let rows = |operand: FloatKind| -> Vec<String> {
        let ranges = dispatch.ranges(operand).iter().filter(|range| range.isa == isa);
        ranges.map(|range| range.to_string()).collect()
    };
    let (bf16, f32) = (rows(FloatKind::Bf16), rows(FloatKind::F32));
    if bf16.is_empty() && f32.is_empty() {
        return "used if --isa or OCTILE_ISA names it".to_owned();
    }
    let kinds = if bf16 == f32 {
        vec![("x of any type", bf16)]
    } else {
        vec![("fp8, quantized or bf16 x", bf16), ("unquantized f32 or f16 x", f32)]
    };
    let kinds = kinds.into_iter().filter(|(_, rows)| !rows.is_empty());
    let kinds: Vec<_> = kinds.map(|(kind, rows)| format!("{kind}, {}", rows.join(", "))).collect();
    format!("used for {}", kinds.join("; "))
}

/// Looks for the device files of TPU virtual machines.
fn tpu() -> Device {
    let attached = ["/dev/accel0", "/dev/vfio/0"].iter().any(|path| Path::new(path).exists());
    let chips = TPU_CHIPS.map(|chip| chip.name).join(", ");
    let state = if attached {
        State::Missing("a TPU is attached, but this version has no TPU backend".to_owned())
    } else {
        State::Missing(format!("needs a machine with a TPU ({chips})"))
    };
    Device { name: "tpu".to_owned(), state }
}

/// One entry per GPU; a single one where there is no GPU or no driver.
fn gpus() -> Vec<Device> {
    let missing = |need: String| vec![Device { name: "gpu".to_owned(), state: State::Missing(need) }];
    match DriverInfo::query() {
        Ok(driver) => {
            let is_only = driver.gpus.len() == 1;
            let usable = driver.gpus.iter().position(|gpu| gpu.require_hopper().is_ok());
            let name = |index: usize| if is_only { "gpu".to_owned() } else { format!("gpu {index}") };
            let state = |(index, found)| gpu(index, found, driver.cuda, usable == Some(index));
            let states = driver.gpus.iter().enumerate().map(state);
            states.enumerate().map(|(index, state)| Device { name: name(index), state }).collect()
        }
        Err(CudaError::NoDriver) if Path::new("/dev/nvidia0").exists() => missing(
            "an NVIDIA GPU is attached, but the driver's library (libcuda.so) was not found: \
             install the NVIDIA driver"
                .to_owned(),
        ),
        Err(CudaError::NoDriver | CudaError::NoGpu) => {
            let models = HOPPER_GPUS.map(|gpu| gpu.name.to_uppercase()).join(", ");
            missing(format!("needs a machine with an NVIDIA Hopper GPU ({models}) and its driver"))
        }
        Err(error) => missing(error.to_string()),
    }
}

/// Describes a GPU, and opens it to find out whether it is usable.
fn gpu(index: usize, found: &GpuInfo, cuda: i32, is_first: bool) -> State {
    let GpuInfo { name, capability: (major, minor), sms, memory } = found;
    let gib = memory.div_ceil(1 << 30);
    let facts = format!(
        "{name}, {sms} SMs, {gib} GiB, compute capability {major}.{minor}, driver for CUDA {}",
        cuda::format_version(cuda)
    );
    if found.require_hopper().is_err() {
        let models = HOPPER_GPUS.map(|gpu| gpu.name.to_uppercase()).join(", ");
        return State::Missing(format!("{facts}; the kernels need compute capability 9.0 ({models})"));
    }
    match Gpu::open(index) {
        Ok(_) if is_first => State::Ready(format!("{facts}; used unless --backend names another")),
        Ok(_) => {
            State::Ready(format!("{facts}; hide the ones before it with CUDA_VISIBLE_DEVICES to use it"))
        }
        Err(error) => State::Missing(format!("{facts}; {error}")),
    }
}

#[cfg(test)]
mod tests {
    use octile_core::device::cpu::Microarchitecture;

    use super::*;

    fn shown() -> String {
        let line = |Device { name, state }: Device| match state {
            State::Ready(detail) => format!("{name} ready {detail}"),
            State::Missing(need) => format!("{name} missing {need}"),
        };
        gpus().into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_isa_says_what_it_is_used_for() {
        assert_eq!(
            uses(Isa::Avx2, &IsaDispatch::only(Isa::Avx2)),
            "used for x of any type, any number of rows"
        );
        let rates = Microarchitecture::SapphireRapids.rates().unwrap();
        let dispatch = IsaDispatch::fastest(&rates, &Isa::ALL).unwrap();
        // Where one ISA takes over from the other follows from the table of rates.
        let few = uses(Isa::Avx512Bf16, &dispatch);
        assert!(few.starts_with("used for fp8, quantized or bf16 x, 1 "), "{few}");
        let many = uses(Isa::Amx, &dispatch);
        assert!(
            many.starts_with("used for fp8, quantized or bf16 x, ") && many.ends_with("and more"),
            "{many}"
        );
        assert_eq!(uses(Isa::Avx2, &dispatch), "used if --isa or OCTILE_ISA names it");
    }

    #[test]
    fn every_gpu_says_what_it_is() {
        let standin = octile_standin_driver::StandIn::load();
        assert_eq!(
            shown(),
            "gpu ready NVIDIA H200, 132 SMs, 141 GiB, compute capability 9.0, driver for CUDA 13.0; \
             used unless --backend names another"
        );
        standin.pretend("NVIDIA A100,8.0,108;NVIDIA H100,9.0,114;NVIDIA H200,9.0,132", 12_080);
        assert_eq!(
            shown(),
            "gpu 0 missing NVIDIA A100, 108 SMs, 141 GiB, compute capability 8.0, driver for CUDA 12.8; \
             the kernels need compute capability 9.0 (H100, H200)\n\
             gpu 1 ready NVIDIA H100, 114 SMs, 141 GiB, compute capability 9.0, driver for CUDA 12.8; \
             used unless --backend names another\n\
             gpu 2 ready NVIDIA H200, 132 SMs, 141 GiB, compute capability 9.0, driver for CUDA 12.8; \
             hide the ones before it with CUDA_VISIBLE_DEVICES to use it"
        );
        standin.pretend("NVIDIA H200,9.0,132", 11_080);
        assert_eq!(
            shown(),
            "gpu missing the NVIDIA driver supports CUDA 11.8, but the kernels need 12.3: \
             install a newer driver"
        );
        standin.pretend("", 13_000);
        assert_eq!(
            shown(),
            "gpu missing needs a machine with an NVIDIA Hopper GPU (H100, H200) and its driver"
        );
        assert_eq!(standin.faults(), [""; 0]);
    }
}
