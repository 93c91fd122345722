//! Compiles TPU kernels with libtpu.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use octile_core::{device::tpu::TpuChip, plan::tpu::TpuPlan};
use octile_dump::llo::{Listing, SimOptions, simulate};
use octile_kernels::tpu::{Emitted, emit};
use octile_runtime::cleanup::Temporary;
use octile_runtime::pjrt::{
    OptionValue,
    compile::{CompileError, Compiled, Compiler, DumpFlags, Module, Target, static_profile},
};
use tempfile::TempDir;

use super::{
    CHILD_COMMAND, collect,
    manifest::{Counted, Figures, PLACEHOLDER, TpuManifest},
    replace::{self, OutputFolder},
    version_name,
};
use crate::{
    command::seal,
    print::shown,
    progress::Progress,
    tools::{FoundTool, LIBTPU, ToolPaths},
};

/// What to compile.
#[derive(Debug)]
pub struct TpuWork {
    /// Target chip.
    pub chip: &'static TpuChip,
    /// One plan per version.
    pub plans: Vec<TpuPlan>,
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
    /// Its folder.
    pub folder: PathBuf,
    /// Its figures.
    pub figures: Figures,
}

/// Compiles every version, then moves all of them into the output folder.
pub fn run(work: &TpuWork, place: &OutputFolder) -> Result<TpuReport> {
    let libtpu = LIBTPU.find(&ToolPaths::of_process(&LIBTPU, work.libtpu.clone()))?;
    let session = Session::new(work, place, &libtpu)?;
    let progress = Progress::new(work.plans.len() as u64);
    let mut built = Vec::new();
    for plan in &work.plans {
        progress.doing(format!("compiling {} for {}", plan.strategy, work.chip.name));
        built.push(session.build(plan)?);
        progress.step();
    }
    let names: Vec<_> = work.plans.iter().map(|plan| version_name(plan.strategy)).collect();
    let folders = place.put_all(&names)?;
    let versions = work.plans.iter().zip(folders).zip(built);
    let version =
        |((plan, folder), figures): ((&_, _), _)| TpuVersion { plan: Clone::clone(plan), folder, figures };
    let versions = versions.map(version).collect();
    Ok(TpuReport { chip: work.chip, libtpu, versions })
}

/// What all versions share.
struct Session<'a> {
    work: &'a TpuWork,
    place: &'a OutputFolder,
    libtpu: &'a FoundTool,
    compiler: Compiler,
    target: Target,
}

impl<'a> Session<'a> {
    fn new(work: &'a TpuWork, place: &'a OutputFolder, libtpu: &'a FoundTool) -> Result<Self> {
        let program = std::env::current_exe().context("cannot locate the octile executable")?;
        let compiler =
            Compiler { plugin: libtpu.path.clone(), child: vec![program.into(), CHILD_COMMAND.into()] };
        Ok(Self { work, place, libtpu, compiler, target: Target::named(work.chip.topology) })
    }

    /// Compiles one version into a draft folder.
    fn build(&self, plan: &TpuPlan) -> Result<Figures> {
        let name = version_name(plan.strategy);
        let folder = self.place.draft(&name)?;
        let emitted = emit(plan);
        fs::write(folder.join("stablehlo.mlir"), emitted.stablehlo.to_string())?;
        fs::write(folder.join("mosaic.mlir"), emitted.mosaic.to_string())?;

        let dump = replace::dump_folder()?;
        let module = module(&emitted, &name, &folder, dump.path());
        let (compiled, dump) = self.compile(&module, dump)?;
        collect::listings(dump.path(), &emitted.kernel_name, &folder)?;
        if self.work.keep_dumps {
            collect::copy_all(dump.path(), &folder.join(collect::RAW))?;
        }
        let profile = static_profile(&self.compiler, &self.target, &Module::new(&name, module.stablehlo))?;
        let figures = Figures::new(&compiled, profile, count(&folder, plan.chip)?);
        let manifest = TpuManifest::new(plan, self.libtpu, &self.target, &compiled, &figures, &folder)?;
        fs::write(folder.join("manifest.json"), seal::sealed(&manifest)?)?;
        fs::copy(folder.join(collect::OPTIMIZED_HLO), self.place.draft_hlo(&name))?;
        Ok(figures)
    }

    /// Compiles and returns the dump folder. After a crash the folder is kept for the user to look into.
    fn compile(&self, module: &Module, dump: Temporary<TempDir>) -> Result<(Compiled, Temporary<TempDir>)> {
        let flags = DumpFlags::Listings(dump.path().to_owned());
        match self.compiler.compile(&self.target, module, &flags) {
            Ok(compiled) => Ok((compiled, dump)),
            Err(error @ CompileError::Crashed { .. }) => {
                bail!("{error}\nIts output is kept in {}", shown(&dump.finish(TempDir::keep)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The module to compile, with HLO text dumped to `dump` and the executable written to `folder`.
fn module(emitted: &Emitted, name: &str, folder: &Path, dump: &Path) -> Module {
    let mut module = Module::new(name, emitted.stablehlo.to_string());
    for (option, value) in hlo_options(&dump.join("hlo")) {
        module.options = module.options.set(option, value);
    }
    module.executable = Some(folder.join("executable.bin"));
    module
}

/// Options that dump HLO as text.
fn hlo_options(folder: &Path) -> [(&'static str, OptionValue); 2] {
    [
        ("xla_dump_to", OptionValue::Text(folder.display().to_string())),
        ("xla_dump_hlo_as_text", OptionValue::Bool(true)),
    ]
}

/// Lists the compiler flags for the manifest, with a placeholder for the folder.
pub fn flags() -> Vec<String> {
    let mut flags = DumpFlags::Listings(PLACEHOLDER.into()).flags();
    let options = hlo_options(&Path::new(PLACEHOLDER).join("hlo"));
    flags.extend(options.iter().map(|(name, value)| format!("--{name}={value}")));
    flags
}

/// Counts the cycles of the kernel's LLO listing.
fn count(folder: &Path, chip: &TpuChip) -> Result<Counted> {
    let text = fs::read_to_string(folder.join(collect::PACKED_BUNDLES))?;
    Ok(match simulate(&Listing::parse(&text), &SimOptions::of(chip)) {
        Ok(cycles) => Counted::Cycles { cycles: cycles.issued, mxu_share: cycles.mxu_share() },
        Err(error) => Counted::NotCounted { reason: error.to_string() },
    })
}
