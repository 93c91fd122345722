//! `octile inspect`: what the TPU compiler makes of the kernels.

mod collect;
mod manifest;
mod replace;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use octile_core::{Strategy, device::tpu::TpuChip, plan::tpu::TpuPlan};
use octile_dump::llo::{Listing, SimOptions, simulate};
use octile_kernels::tpu::{Emitted, emit};
use octile_runtime::pjrt::{
    OptionValue,
    compile::{CompileError, Compiled, Compiler, DumpFlags, Module, Target, static_profile},
};
use tempfile::TempDir;

use crate::{
    args::{InspectArgs, StrategyChoice},
    progress::Progress,
    tools::{Found, LIBTPU, Places},
};

pub use manifest::{Counted, Figures};
use manifest::{Manifest, PLACEHOLDER};

/// The hidden command that compiles in a process of its own.
pub const CHILD_COMMAND: &str = "compile-child";

/// What to compile.
#[derive(Debug)]
pub struct Job {
    /// For which chip.
    pub chip: &'static TpuChip,
    /// One per version, each of which fits the chip.
    pub plans: Vec<TpuPlan>,
    /// The compiler that the command line names.
    pub libtpu: Option<PathBuf>,
    /// Where to write.
    pub output: PathBuf,
    /// Whether to keep all that the compiler writes.
    pub keep_dumps: bool,
}

impl Job {
    /// The job that the arguments describe. What does not fit the chip is refused here, before anything is compiled
    /// or written.
    pub fn new(args: &InspectArgs) -> Result<Self> {
        let chip = TpuChip::named(&args.chip)?;
        let wanted = |strategy: &Strategy| {
            args.strategies.iter().any(|choice| match choice {
                StrategyChoice::One(one) => one == strategy,
                StrategyChoice::All => true,
                StrategyChoice::Best => *strategy == Strategy::Strip,
            })
        };
        let problem = args.problem();
        let plan = |strategy| TpuPlan::new(&problem, chip, strategy, args.mode);
        let plans = Strategy::ALL.into_iter().filter(wanted).map(plan).collect::<Result<_, _>>()?;
        Ok(Self {
            chip,
            plans,
            libtpu: args.libtpu.clone(),
            output: args.output.clone(),
            keep_dumps: args.keep_dumps,
        })
    }
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

/// The name of a version's folder: `v2_manual_async_dma`.
pub fn version_name(strategy: Strategy) -> String {
    format!("{}_{}", strategy.version(), strategy.title().to_lowercase().replace([' ', '-'], "_"))
}

/// Compiles everything that the job asks for, then puts it in place.
pub fn run(job: &Job) -> Result<Report> {
    let libtpu = LIBTPU.find(&Places::of_process(&LIBTPU, job.libtpu.clone()))?;
    let session = Session::new(job, &libtpu)?;
    let progress = Progress::new(job.plans.len() as u64);
    let mut built = Vec::new();
    for plan in &job.plans {
        progress.doing(format!("compiling {} for {}", plan.strategy, job.chip.name));
        built.push(session.build(plan)?);
        progress.step();
    }
    let mut versions = Vec::new();
    for (plan, figures) in job.plans.iter().zip(built) {
        let name = version_name(plan.strategy);
        let folder = replace::put_in_place(session.work.path(), &job.output, &name)?;
        versions.push(VersionReport { plan: plan.clone(), folder, figures });
    }
    Ok(Report { chip: job.chip, libtpu, versions })
}

/// What all versions of a job share.
struct Session<'a> {
    job: &'a Job,
    libtpu: &'a Found,
    compiler: Compiler,
    target: Target,
    /// On the same file system as the output, so that results can be moved there in one step.
    work: TempDir,
}

impl<'a> Session<'a> {
    fn new(job: &'a Job, libtpu: &'a Found) -> Result<Self> {
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let compiler =
            Compiler { plugin: libtpu.path.clone(), child: vec![program.into(), CHILD_COMMAND.into()] };
        let work = replace::work_folder(&job.output)?;
        Ok(Self { job, libtpu, compiler, target: Target::named(job.chip.topology), work })
    }

    /// Compiles one version into a folder of the work folder.
    fn build(&self, plan: &TpuPlan) -> Result<Figures> {
        let name = version_name(plan.strategy);
        let folder = self.work.path().join(&name);
        fs::create_dir(&folder)?;
        let emitted = emit(plan);
        fs::write(folder.join("stablehlo.mlir"), emitted.stablehlo.to_string())?;
        fs::write(folder.join("mosaic.mlir"), emitted.mosaic.to_string())?;

        let dump = replace::dump_folder()?;
        let module = module(&emitted, &name, &folder, dump.path());
        let (compiled, dump) = self.compile(&module, dump)?;
        collect::listings(dump.path(), &emitted.kernel_name, &folder)?;
        if self.job.keep_dumps {
            collect::copy_all(dump.path(), &folder.join("raw"))?;
        }
        let profile = static_profile(&self.compiler, &self.target, &Module::new(&name, module.stablehlo))?;
        let figures = Figures::new(&compiled, profile, count(&folder, plan.chip)?);
        let manifest = Manifest::new(plan, self.libtpu, &self.target, &compiled, &figures, &folder)?;
        fs::write(folder.join("manifest.json"), serde_json::to_string_pretty(&manifest)? + "\n")?;
        fs::copy(folder.join(collect::OPTIMIZED_HLO), self.work.path().join(format!("{name}_hlo.txt")))?;
        Ok(figures)
    }

    /// Compiles, and gives the dump folder back. After a crash it is left where it is, for the user to look into.
    fn compile(&self, module: &Module, dump: TempDir) -> Result<(Compiled, TempDir)> {
        let flags = DumpFlags::Listings(dump.path().to_owned());
        match self.compiler.compile(&self.target, module, &flags) {
            Ok(compiled) => Ok((compiled, dump)),
            Err(error @ CompileError::Crashed { .. }) => {
                bail!("{error}\nWhat it wrote before is kept in {}", dump.keep().display())
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

/// Every flag and option of a compilation, with `DIR` for the folder.
fn flags() -> Vec<String> {
    let mut flags = DumpFlags::Listings(PLACEHOLDER.into()).flags();
    let options = hlo_options(&Path::new(PLACEHOLDER).join("hlo"));
    flags.extend(options.iter().map(|(name, value)| format!("--{name}={value}")));
    flags
}

/// Counts the cycles of the kernel's listing.
fn count(folder: &Path, chip: &TpuChip) -> Result<Counted> {
    let text = fs::read_to_string(folder.join(collect::PACKED_BUNDLES))?;
    let options = SimOptions { mxus: chip.mxus as u32, ..SimOptions::default() };
    Ok(match simulate(&Listing::parse(&text), &options) {
        Ok(cycles) => Counted::Cycles { cycles: cycles.issued, mxu_share: cycles.mxu_share() },
        Err(error) => Counted::NotCounted { reason: error.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_names_of_the_original_files() {
        assert_eq!(
            Strategy::ALL.map(version_name),
            ["v1_auto_double_buffer", "v2_manual_async_dma", "v3_smem_scales", "v4_whole_k_strip"]
        );
    }
}
