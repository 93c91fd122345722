//! Compiles TPU kernels with libtpu.

use std::{fs, path::PathBuf};

use anyhow::Result;
use octile_core::{device::tpu::TpuChip, plan::tpu::TpuPlan};
use octile_kernels::tpu::emit;
use octile_runtime::pjrt::{
    compile::{DumpFlags, Module, static_profile},
    tuned,
};

use super::{
    collect,
    libtpu::{self, TpuCompiler},
    manifest::{Figures, Planned, TpuManifest},
    replace::{self, OutputFolder},
    version_name,
};
use crate::{command::seal, print, progress::Progress, tools::FoundTool};

/// What to compile.
#[derive(Debug)]
pub struct TpuWork {
    /// Target chip.
    pub chip: &'static TpuChip,
    /// The default plan of each version.
    pub plans: Vec<TpuPlan>,
    /// Whether plans of tuned tables are used instead, where there are any.
    pub tuned: bool,
    /// Compiler named on the command line.
    pub libtpu: Option<PathBuf>,
    /// Whether to keep all compiler output.
    pub keep_dumps: bool,
}

/// What was compiled.
#[derive(Debug)]
pub struct TpuReport {
    /// Target chip.
    pub chip: &'static TpuChip,
    /// The compiler.
    pub libtpu: FoundTool,
    /// One per version.
    pub versions: Vec<TpuVersion>,
}

/// One version.
#[derive(Debug)]
pub struct TpuVersion {
    /// Its plan.
    pub plan: TpuPlan,
    /// Whether the plan is from a tuned table.
    pub is_tuned: bool,
    /// Its folder.
    pub folder: PathBuf,
    /// Its figures.
    pub figures: Figures,
}

/// Compiles every version, then moves all of them into the output folder.
pub fn run(work: &TpuWork, place: &OutputFolder) -> Result<TpuReport> {
    let compiler = TpuCompiler::find(work.libtpu.as_deref(), work.chip, 1)?;
    let progress = Progress::new(work.plans.len() as u64);
    let version = compiler.libtpu.version_text();
    if work.tuned {
        let problems: Vec<_> = work.plans.iter().map(|plan| plan.problem).collect();
        let notes = tuned::notes(work.chip, &version, &problems);
        notes.iter().for_each(|note| print::say(&format!("octile: {note}")));
    }
    let mut built = Vec::new();
    for default in &work.plans {
        let tuned = work.tuned.then(|| tuned::plan(default, &version)).flatten();
        let (is_tuned, plan) = (tuned.is_some(), tuned.unwrap_or_else(|| default.clone()));
        progress.doing(format!("compiling {} for {}", plan.strategy, work.chip.name));
        let figures = build(&plan, work, place, &compiler)?;
        built.push((plan, is_tuned, figures));
        progress.step();
    }
    let names: Vec<_> = work.plans.iter().map(|plan| version_name(plan.strategy)).collect();
    let folders = place.put_all(&names)?;
    let version = |((plan, is_tuned, figures), folder)| TpuVersion { plan, is_tuned, folder, figures };
    let versions = built.into_iter().zip(folders).map(version).collect();
    Ok(TpuReport { chip: work.chip, libtpu: compiler.libtpu, versions })
}

/// Compiles one version into a draft folder.
fn build(plan: &TpuPlan, work: &TpuWork, place: &OutputFolder, compiler: &TpuCompiler) -> Result<Figures> {
    let name = version_name(plan.strategy);
    let folder = place.draft(&name)?;
    let emitted = emit(plan);
    let stablehlo = emitted.stablehlo.to_string();
    fs::write(folder.join("stablehlo.mlir"), &stablehlo)?;
    fs::write(folder.join("mosaic.mlir"), emitted.mosaic.to_string())?;

    let dump = replace::dump_folder()?;
    let module = libtpu::module(&name, stablehlo, dump.path(), folder.join("executable.bin"));
    let (compiled, dump) = compiler.compile(&module, dump, DumpFlags::Listings)?;
    collect::listings(dump.path(), &emitted.kernel_name, &folder)?;
    if work.keep_dumps {
        collect::copy_all(dump.path(), &folder.join(collect::RAW))?;
    }
    let again = Module::new(&name, module.stablehlo);
    let profile = static_profile(&compiler.compiler, &compiler.target, &again, &compiled)?;
    let figures = Figures::new(&compiled, profile, libtpu::count(&folder, plan.chip)?);
    let subject = Planned { strategy: plan.strategy, title: plan.strategy.title(), plan };
    let flags = libtpu::flags(DumpFlags::Listings);
    let manifest = TpuManifest::new(subject, compiler, flags, &compiled, &figures, &folder)?;
    fs::write(folder.join("manifest.json"), seal::sealed(&manifest)?)?;
    fs::copy(folder.join(collect::OPTIMIZED_HLO), place.draft_hlo(&name))?;
    Ok(figures)
}
