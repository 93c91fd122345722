//! `octile inspect`: compiles kernels and keeps the compiler output.

mod bare;
pub(super) mod collect;
pub mod foreign;
pub mod gpu;
mod libtpu;
mod lowered;
mod manifest;
mod replace;
pub mod tpu;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use octile_core::{
    Strategy,
    plan::{
        DeviceKind, PlanError,
        hopper::{HopperPlan, STAGE_K},
        tpu::{BlockMode, TpuPlan},
    },
};

use crate::{
    args::{ChipChoice, InspectArgs, StrategyChoice},
    print::shown,
};

pub use crate::args::HOPPER_TARGET;

use lowered::LoweredModule;
pub use manifest::{Counted, Figures};
use replace::OutputFolder;

/// The hidden command that compiles in a child process.
pub const CHILD_COMMAND: &str = "compile-child";

/// What to compile, and the output folder.
#[derive(Debug)]
pub struct InspectRequest {
    /// What to compile.
    pub work: InspectWork,
    /// Output folder.
    pub output: PathBuf,
}

/// What to compile.
#[derive(Debug)]
pub enum InspectWork {
    /// For a TPU.
    Tpu(tpu::TpuWork),
    /// For a GPU.
    Gpu(gpu::GpuWork),
    /// A lowered module, for a TPU.
    Foreign(foreign::ForeignWork),
}

/// What was compiled.
#[derive(Debug)]
pub enum InspectReport {
    /// For a TPU.
    Tpu(tpu::TpuReport),
    /// For a GPU.
    Gpu(gpu::GpuReport),
    /// A lowered module, for a TPU.
    Foreign(foreign::ForeignReport),
}

impl InspectRequest {
    /// Plans the kernels. Rejects problems that do not fit the chip before anything is compiled or written.
    pub fn new(args: &InspectArgs) -> Result<Self> {
        if let Some(path) = &args.module {
            return Self::of_module(path, args);
        }
        let problem = args.problem()?;
        let device = match args.chip {
            ChipChoice::Gpu(_) => DeviceKind::Gpu,
            ChipChoice::Tpu(_) => DeviceKind::Tpu,
        };
        let wanted = |strategy: &Strategy| {
            args.strategies.iter().any(|choice| match choice {
                StrategyChoice::One(one) => one == strategy,
                StrategyChoice::All => true,
                StrategyChoice::Best => *strategy == Strategy::best_for(&problem, device),
            })
        };
        let strategies = Strategy::ALL.into_iter().filter(wanted);
        let work = match args.chip {
            ChipChoice::Gpu(gpu) => {
                refuse_tpu_options(args)?;
                let every = args.promote.unwrap_or(STAGE_K);
                let plan = |strategy| {
                    let plan = HopperPlan::with_promotion(&problem, &gpu, strategy, every)?;
                    Ok::<_, PlanError>(if args.for_racecheck { plan.for_racecheck() } else { plan })
                };
                InspectWork::Gpu(gpu::GpuWork { gpu, plans: strategies.map(plan).collect::<Result<_, _>>()? })
            }
            ChipChoice::Tpu(chip) => {
                refuse_gpu_options(args)?;
                let mode = args.mode.unwrap_or_default();
                let plan = |strategy| TpuPlan::new(&problem, chip, strategy, mode);
                InspectWork::Tpu(tpu::TpuWork {
                    chip,
                    plans: strategies.map(plan).collect::<Result<_, _>>()?,
                    libtpu: args.libtpu.clone(),
                    keep_dumps: args.keep_dumps,
                    // A block mode that the user names is a choice of tiles.
                    tuned: mode == BlockMode::Auto,
                })
            }
        };
        Ok(Self { work, output: args.output.clone() })
    }

    /// Reads a lowered module.
    fn of_module(path: &Path, args: &InspectArgs) -> Result<Self> {
        let ChipChoice::Tpu(chip) = args.chip else {
            bail!("{} is a module for TPUs: name a TPU with --chip", shown(path));
        };
        let work = InspectWork::Foreign(foreign::ForeignWork {
            chip,
            path: path.to_owned(),
            module: LoweredModule::read(path, args.devices.map(usize::from), chip)?,
            libtpu: args.libtpu.clone(),
            keep_dumps: args.keep_dumps,
        });
        Ok(Self { work, output: args.output.clone() })
    }

    fn versions(&self) -> Vec<String> {
        match &self.work {
            InspectWork::Tpu(work) => work.plans.iter().map(|plan| version_name(plan.strategy)).collect(),
            InspectWork::Gpu(work) => work.plans.iter().map(|plan| version_name(plan.strategy)).collect(),
            InspectWork::Foreign(work) => {
                work.module.kernels.iter().map(|kernel| kernel.folder.clone()).collect()
            }
        }
    }
}

/// Rejects options that have no effect on GPU kernels.
fn refuse_tpu_options(args: &InspectArgs) -> Result<()> {
    let given = [
        (args.mode.is_some(), "--mode"),
        (args.libtpu.is_some(), "--libtpu"),
        (args.keep_dumps, "--keep-dumps"),
    ];
    refuse(&given, "TPU")?;
    refuse_devices(args)
}

/// Rejects options that have no effect on TPU kernels.
fn refuse_gpu_options(args: &InspectArgs) -> Result<()> {
    refuse(&[(args.promote.is_some(), "--promote"), (args.for_racecheck, "--for-racecheck")], "GPU")?;
    refuse_devices(args)
}

/// Our kernels run on one device.
fn refuse_devices(args: &InspectArgs) -> Result<()> {
    match args.devices {
        Some(_) => bail!("--devices is for a MODULE: name one, or leave it out"),
        None => Ok(()),
    }
}

fn refuse(options: &[(bool, &str)], target: &str) -> Result<()> {
    match options.iter().find(|(given, _)| *given) {
        Some((_, option)) => {
            bail!("{option} is for {target} kernels only: leave it out, or name a {target} with --target")
        }
        None => Ok(()),
    }
}

impl InspectReport {
    /// Lists the folder of each version.
    pub fn folders(&self) -> Vec<PathBuf> {
        match self {
            Self::Tpu(report) => report.versions.iter().map(|version| version.folder.clone()).collect(),
            Self::Gpu(report) => report.versions.iter().map(|version| version.folder.clone()).collect(),
            Self::Foreign(report) => report.kernels.iter().map(|kernel| kernel.folder.clone()).collect(),
        }
    }
}

/// Returns the folder name of a version: `v2_manual_async_dma`.
pub fn version_name(strategy: Strategy) -> String {
    format!("{}_{}", strategy.version(), strategy.title().to_lowercase().replace([' ', '-'], "_"))
}

impl InspectRequest {
    /// Lists the folders that it replaces.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.versions().into_iter().map(|version| self.output.join(version))
    }
}

/// Compiles every version, then moves all of them into the output folder.
pub fn run(request: &InspectRequest) -> Result<InspectReport> {
    let place = OutputFolder::open(&request.output, &request.versions())?;
    Ok(match &request.work {
        InspectWork::Tpu(work) => InspectReport::Tpu(tpu::run(work, &place)?),
        InspectWork::Gpu(work) => InspectReport::Gpu(gpu::run(work, &place)?),
        InspectWork::Foreign(work) => InspectReport::Foreign(foreign::run(work, &place)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_like_the_original_files() {
        assert_eq!(
            Strategy::ALL.map(version_name),
            ["v1_auto_double_buffer", "v2_manual_async_dma", "v3_smem_scales", "v4_whole_k_strip"]
        );
    }
}
