//! `octile devices`: what this machine can run, and what each missing thing needs.

use std::path::Path;

use octile_core::device::{cpu::Isa, hopper::HOPPER_GPUS, tpu::TPU_CHIPS};

use crate::backend::cpu::cpu_model;

/// One thing that could run or compile a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// What it is.
    pub name: String,
    /// Whether it is there.
    pub state: State,
}

/// Whether something can be used.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// It can, and this is what it is.
    Ready(String),
    /// It cannot, and this is what it needs.
    Missing(String),
}

/// Looks around.
pub fn run() -> Vec<Device> {
    let mut devices = vec![processor()];
    devices.extend(Isa::ALL.into_iter().map(instruction_set));
    devices.push(tpu());
    devices.push(gpu());
    devices.extend(super::tools::list().into_iter().map(compiler));
    devices
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

fn processor() -> Device {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let detail = format!("{}, {threads} threads", cpu_model());
    Device { name: "cpu".to_owned(), state: State::Ready(detail) }
}

fn instruction_set(isa: Isa) -> Device {
    let available = octile_runtime::cpu::available();
    let state = if !available.contains(&isa) {
        State::Missing(format!("needs {}", requirement(isa)))
    } else if available.last() == Some(&isa) {
        State::Ready("used unless --isa names another".to_owned())
    } else {
        State::Ready("can be chosen with --isa".to_owned())
    };
    Device { name: format!("cpu isa {isa}"), state }
}

fn requirement(isa: Isa) -> &'static str {
    match isa {
        Isa::Portable => "nothing",
        Isa::Avx2 => "an x86-64 processor with AVX2, FMA and F16C (Haswell, Zen or later)",
        Isa::Avx512 => "an x86-64 processor with AVX-512 F, BW, DQ and VL (Skylake-X, Zen 4 or later)",
        Isa::Avx512Bf16 => "an x86-64 processor with AVX-512 VBMI and BF16 (Zen 4, Sapphire Rapids or later)",
    }
}

/// The kernel drivers of TPU virtual machines create these files.
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

fn gpu() -> Device {
    let models = HOPPER_GPUS.map(|gpu| gpu.name).join(", ");
    let state = if Path::new("/dev/nvidia0").exists() {
        State::Missing("an NVIDIA GPU is attached, but this version has no GPU backend".to_owned())
    } else {
        State::Missing(format!("needs a machine with an NVIDIA Hopper GPU ({models}) and its driver"))
    };
    Device { name: "gpu".to_owned(), state }
}
