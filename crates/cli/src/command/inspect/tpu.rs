//! TPU kernels through libtpu.

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
    manifest::{Counted, Figures, Manifest, PLACEHOLDER},
    replace::{self, Place},
    version_name,
};
use crate::{
    command::seal,
    progress::Progress,
    tools::{Found, LIBTPU, Places},
};

/// What to compile.
#[derive(Debug)]
pub struct Work {
    /// For which chip.
    pub chip: &'static TpuChip,
    /// One per version, each of which fits the chip.
    pub plans: Vec<TpuPlan>,
    /// The compiler that the command line names.
    pub libtpu: Option<PathBuf>,
    /// Whether to keep all that the compiler writes.
    pub keep_dumps: bool,
}

/// What was compiled.
#[derive(Debug)]
pub struct Report {
    /// For which chip.
    pub chip: &'static TpuChip,
    /// With which compiler.
    pub libtpu: Found,
    /// One per version.
    pub versions: Vec<VersionReport>,
}

/// One version.
#[derive(Debug)]
pub struct VersionReport {
    /// The plan that was compiled.
    pub plan: TpuPlan,
    /// The folder with everything about it.
    pub folder: PathBuf,
    /// The compiler's figures.
    pub figures: Figures,
}

/// Compiles everything, then puts it in place.
pub fn run(work: &Work, place: &Place) -> Result<Report> {
    let libtpu = LIBTPU.find(&Places::of_process(&LIBTPU, work.libtpu.clone()))?;
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
        |((plan, folder), figures): ((&_, _), _)| VersionReport { plan: Clone::clone(plan), folder, figures };
    let versions = versions.map(version).collect();
    Ok(Report { chip: work.chip, libtpu, versions })
}

/// What all versions of a job share.
struct Session<'a> {
    work: &'a Work,
    place: &'a Place,
    libtpu: &'a Found,
    compiler: Compiler,
    target: Target,
}

impl<'a> Session<'a> {
    fn new(work: &'a Work, place: &'a Place, libtpu: &'a Found) -> Result<Self> {
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let compiler =
            Compiler { plugin: libtpu.path.clone(), child: vec![program.into(), CHILD_COMMAND.into()] };
        Ok(Self { work, place, libtpu, compiler, target: Target::named(work.chip.topology) })
    }

    /// Compiles one version into a folder of the work folder.
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
        let manifest = Manifest::new(plan, self.libtpu, &self.target, &compiled, &figures, &folder)?;
        fs::write(folder.join("manifest.json"), seal::sealed(&manifest)?)?;
        fs::copy(folder.join(collect::OPTIMIZED_HLO), self.place.draft_hlo(&name))?;
        Ok(figures)
    }

    /// Compiles, and gives the dump folder back. After a crash it is left where it is, for the user to look into.
    fn compile(&self, module: &Module, dump: Temporary<TempDir>) -> Result<(Compiled, Temporary<TempDir>)> {
        let flags = DumpFlags::Listings(dump.path().to_owned());
        match self.compiler.compile(&self.target, module, &flags) {
            Ok(compiled) => Ok((compiled, dump)),
            Err(error @ CompileError::Crashed { .. }) => {
                bail!("{error}\nWhat it wrote before is kept in {}", dump.finish(TempDir::keep).display())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The module to compile, which leaves HLO text in the dump folder and the executable in the version's own.
fn module(emitted: &Emitted, name: &str, folder: &Path, dump: &Path) -> Module {
    let mut module = Module::new(name, emitted.stablehlo.to_string());
    for (option, value) in hlo_options(&dump.join("hlo")) {
        module.options = module.options.set(option, value);
    }
    module.executable = Some(folder.join("executable.bin"));
    module
}

/// The options that make the compiler write HLO as text.
fn hlo_options(folder: &Path) -> [(&'static str, OptionValue); 2] {
    [
        ("xla_dump_to", OptionValue::Text(folder.display().to_string())),
        ("xla_dump_hlo_as_text", OptionValue::Bool(true)),
    ]
}

/// Every flag and option of a compilation, with a placeholder for the folder.
pub fn flags() -> Vec<String> {
    let mut flags = DumpFlags::Listings(PLACEHOLDER.into()).flags();
    let options = hlo_options(&Path::new(PLACEHOLDER).join("hlo"));
    flags.extend(options.iter().map(|(name, value)| format!("--{name}={value}")));
    flags
}

/// Counts the cycles of the kernel's listing.
fn count(folder: &Path, chip: &TpuChip) -> Result<Counted> {
    let text = fs::read_to_string(folder.join(collect::PACKED_BUNDLES))?;
    Ok(match simulate(&Listing::parse(&text), &SimOptions::of(chip)) {
        Ok(cycles) => Counted::Cycles { cycles: cycles.issued, mxu_share: cycles.mxu_share() },
        Err(error) => Counted::NotCounted { reason: error.to_string() },
    })
}
