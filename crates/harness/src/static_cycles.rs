//! Static cycles of TPU plans: libtpu compiles the kernel ahead of time, without a TPU, and the control flow
//! of its LLO listing is executed with DMAs at the chip's rates.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use octile_core::{
    Problem,
    device::tpu::TpuChip,
    plan::tpu::{Arithmetic, TpuPlan},
};
use octile_dump::llo::{Listing, SimError, SimOptions, simulate};
use octile_kernels::tpu::emit;
use octile_runtime::{
    cleanup::Temporary,
    pjrt::compile::{CompileError, Compiler, DumpFlags, Module, TEMPORARY_PREFIX, Target},
};
use serde::{Deserialize, Serialize};

/// The listing that has one bundle per cycle.
const TIMED_LISTING: &str = "packed-bundles-post-ra";

/// Why the cycles of a plan could not be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StaticCyclesError {
    /// The compiler rejected the kernel, died or did not start.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// There is no room for the compiler's output.
    #[error("cannot write to a temporary folder: {0}; make room, or set TMPDIR to another folder")]
    Folder(io::Error),
    /// The compiler's output could not be read.
    #[error("cannot read the compiler's listing of {kernel}: {error}")]
    Listing {
        /// The kernel.
        kernel: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The listing could not be executed.
    #[error("cannot count the cycles of {kernel}: {error}")]
    Count {
        /// The kernel.
        kernel: String,
        /// The reason.
        error: SimError,
    },
}

impl StaticCyclesError {
    /// Whether the plan is to blame, and counting again would fail again.
    pub fn is_of_plan(&self) -> bool {
        matches!(self, Self::Compile(CompileError::Rejected { .. }) | Self::Count { .. })
    }
}

/// Cycles of one compiled kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StaticCycles {
    /// Bundles issued: the cycles if DMAs took no time.
    pub issued: u64,
    /// Cycles that waits for DMAs add.
    pub stalled: f64,
    /// Cycles in which the MXUs are busy, per MXU.
    pub mxu_busy: f64,
    /// Bytes between HBM and the chip.
    pub hbm_bytes: u64,
    /// Bundles of code.
    pub code_bundles: usize,
    /// Seconds that the compiler took.
    pub compile_seconds: f64,
    /// The compiler's version text.
    pub compiler: String,
}

impl StaticCycles {
    /// Cycles with modelled DMAs: the figure that plans are compared by.
    pub fn total(&self) -> f64 {
        self.issued as f64 + self.stalled
    }
}

/// Counts the static cycles of plans for one chip.
#[derive(Clone, Debug)]
pub struct StaticCounter {
    compiler: Compiler,
    chip: &'static TpuChip,
}

impl StaticCounter {
    /// A counter that compiles with the plugin `libtpu`, in child processes: `child` is a program with
    /// arguments that runs [`octile_runtime::pjrt::compile::serve`] on its standard input and output.
    pub fn new(libtpu: PathBuf, child: Vec<OsString>, chip: &'static TpuChip) -> Self {
        Self { compiler: Compiler { plugin: libtpu, child }, chip }
    }

    /// Compiles a plan and counts its cycles.
    ///
    /// # Panics
    ///
    /// If the plan is for another chip.
    pub fn count(&self, plan: &TpuPlan) -> Result<StaticCycles, StaticCyclesError> {
        assert_eq!(plan.chip.name, self.chip.name, "the counter is for another chip");
        let emitted = emit(plan);
        let kernel = emitted.kernel_name;
        let unreadable = |error| StaticCyclesError::Listing { kernel: kernel.clone(), error };
        let folder = Temporary::new(|| tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempdir());
        let folder = folder.map_err(StaticCyclesError::Folder)?;
        let module = Module::new(plan.problem.to_string(), emitted.stablehlo.to_string());
        let flags = DumpFlags::Listings(folder.path().to_owned());
        let compiled = self.compiler.compile(&Target::named(self.chip.topology), &module, &flags);
        if compiled.is_err() {
            // A full disk kills the compiler, which has no room to say so.
            require_room(&folder.path().join("room")).map_err(StaticCyclesError::Folder)?;
        }
        let compiled = compiled?;
        let text = timed_listing(folder.path(), &kernel).map_err(unreadable)?;
        let options = SimOptions::with_copies(self.chip);
        let cycles = simulate(&Listing::parse(&text), &options)
            .map_err(|error| StaticCyclesError::Count { kernel: kernel.clone(), error })?;
        Ok(StaticCycles {
            issued: cycles.issued,
            stalled: cycles.stalled,
            mxu_busy: cycles.units.mxu as f64 / f64::from(cycles.mxus.max(1)),
            hbm_bytes: cycles.hbm_bytes(),
            code_bundles: cycles.code_bundles,
            compile_seconds: compiled.seconds,
            compiler: compiled.platform_version,
        })
    }
}

/// Tries to write a large file.
fn require_room(file: &Path) -> io::Result<()> {
    fs::write(file, vec![0; 1 << 20])
}

/// Reads the kernel's listing from the compiler's dump folder.
fn timed_listing(folder: &Path, kernel: &str) -> io::Result<String> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if is_timed_listing(name, kernel) {
                return fs::read_to_string(path);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no {TIMED_LISTING} listing was written")))
}

/// Listings are named `NUMBER-KERNEL[.COPY]-LABEL.txt`.
fn is_timed_listing(name: &str, kernel: &str) -> bool {
    let copy = name
        .split_once('-')
        .and_then(|(_, rest)| rest.strip_prefix(kernel)?.strip_suffix(".txt")?.strip_suffix(TIMED_LISTING))
        .and_then(|copy| copy.strip_suffix('-'));
    copy.is_some_and(|copy| copy.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit()))
}

/// Lower bounds on the cycles of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CycleBound {
    /// All multiply-adds at the rate of the arithmetic, with full MXUs.
    pub mxu: f64,
    /// Operands, scales and result moved once, at the bandwidth of HBM.
    pub hbm: f64,
    /// The first operand must arrive and the result leave: two latencies that nothing can hide.
    pub latency: f64,
}

impl CycleBound {
    /// The bounds of a problem in an arithmetic.
    ///
    /// With quantization blocks of 128, codes fill half of an MXU's K, so there the rate is that of bf16
    /// whatever is multiplied.
    pub fn new(problem: &Problem, chip: &TpuChip, arithmetic: Arithmetic) -> Self {
        let rates = &chip.rates;
        let half_filled = problem.quant_block.size() < chip.mxu_side;
        let products = match arithmetic {
            Arithmetic::Fp8 if !half_filled => rates.fp8_products,
            Arithmetic::Fp8 | Arithmetic::Widened | Arithmetic::Dequantized => rates.bf16_products,
        };
        let volume = problem.m as f64 * problem.n as f64 * problem.k as f64;
        Self {
            mxu: volume / products,
            hbm: problem.min_bytes() as f64 / rates.hbm_bytes_per_cycle(),
            latency: 2.0 * rates.copy_latency,
        }
    }

    /// The larger of the MXU and the HBM bound.
    pub fn larger(&self) -> f64 {
        self.mxu.max(self.hbm)
    }
}

#[cfg(test)]
mod tests {
    use octile_core::QuantBlock;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        require_room(&folder.path().join("room")).unwrap();
        assert!(require_room(Path::new("/dev/full")).is_err());
    }

    #[test]
    fn only_the_timed_listing_of_the_kernel_counts() {
        let is = |name: &str| is_timed_listing(name, "octile_strip_large");
        assert!(is("0001-octile_strip_large.2-packed-bundles-post-ra.txt"));
        assert!(is("0001-octile_strip_large-packed-bundles-post-ra.txt"));
        assert!(!is("0000-octile_strip_large.2-schedule-analysis_packed-bundles-post-ra.txt"));
        assert!(!is("0001-pad.1-packed-bundles-post-ra.txt"));
    }

    #[test]
    fn bounds_follow_the_arithmetic() {
        let chip = TpuChip::named("tpu7x").unwrap();
        let bound = |block, arithmetic| {
            CycleBound::new(&Problem::new(2048, 2048, 2048, block).unwrap(), chip, arithmetic)
        };
        assert_eq!(bound(QuantBlock::B512, Arithmetic::Fp8).mxu, 16_384.0);
        assert_eq!(bound(QuantBlock::B128, Arithmetic::Fp8).mxu, 32_768.0);
        assert_eq!(bound(QuantBlock::B128, Arithmetic::Dequantized).larger(), 32_768.0);
    }
}
