//! The TPU compiler of one `inspect`: libtpu, run in a child process for one chip.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use octile_core::device::tpu::TpuChip;
use octile_dump::llo::{Listing, SimOptions, simulate};
use octile_runtime::{
    cleanup::Temporary,
    pjrt::{
        OptionValue,
        compile::{CompileError, Compiled, Compiler, DumpFlags, Module, Target},
    },
};
use tempfile::TempDir;

use super::{
    CHILD_COMMAND, collect,
    manifest::{Counted, PLACEHOLDER},
};
use crate::{
    print::shown,
    restart,
    tools::{FoundTool, LIBTPU, ToolPaths},
};

/// libtpu, and the chip to compile for.
#[derive(Debug)]
pub(super) struct TpuCompiler {
    pub libtpu: FoundTool,
    pub compiler: Compiler,
    pub target: Target,
}

impl TpuCompiler {
    /// Finds libtpu, at the given path or where it is installed, to compile for so many devices.
    pub(super) fn find(path: Option<&Path>, chip: &TpuChip, devices: usize) -> Result<Self> {
        let topology = chip.topology_with(devices).with_context(|| {
            format!(
                "the module is for {devices} devices, but the largest {} has {}",
                chip.name,
                chip.max_devices()
            )
        })?;
        let libtpu = LIBTPU.find(&ToolPaths::of_process(&LIBTPU, path.map(Path::to_owned)))?;
        let compiler = Compiler { plugin: libtpu.path.clone(), child: restart::command(CHILD_COMMAND)? };
        Ok(Self { libtpu, compiler, target: Target::named(topology) })
    }

    /// Compiles and returns the dump folder. After a crash the folder is kept for the user to look into.
    pub(super) fn compile(
        &self,
        module: &Module,
        dump: Temporary<TempDir>,
        flags: fn(PathBuf) -> DumpFlags,
    ) -> Result<(Compiled, Temporary<TempDir>)> {
        match self.compiler.compile(&self.target, module, &flags(dump.path().to_owned())) {
            Ok(compiled) => Ok((compiled, dump)),
            // A compiler without source lines is still good for everything else.
            Err(error) if error.lacks_source_annotations() => self.compile(module, dump, DumpFlags::Listings),
            Err(error @ CompileError::Crashed { .. }) => {
                bail!("{error}\nIts output is kept in {}", shown(&dump.finish(TempDir::keep)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A module to compile, with HLO text dumped to `dump` and the executable written to `executable`.
pub(super) fn module(name: &str, stablehlo: String, dump: &Path, executable: PathBuf) -> Module {
    let mut module = Module::new(name, stablehlo);
    for (option, value) in hlo_options(&dump.join("hlo")) {
        module.options = module.options.set(option, value);
    }
    module.executable = Some(executable);
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
pub(super) fn flags(dump: fn(PathBuf) -> DumpFlags) -> Vec<String> {
    let mut flags = dump(PLACEHOLDER.into()).flags();
    let options = hlo_options(&Path::new(PLACEHOLDER).join("hlo"));
    flags.extend(options.iter().map(|(name, value)| format!("--{name}={value}")));
    flags
}

/// Counts the cycles of the kernel's LLO listing.
pub(super) fn count(folder: &Path, chip: &TpuChip) -> Result<Counted> {
    let text = std::fs::read_to_string(folder.join(collect::PACKED_BUNDLES))?;
    Ok(match simulate(&Listing::parse(&text), &SimOptions::with_copies(chip)) {
        Ok(cycles) => Counted::Cycles {
            cycles: cycles.issued,
            cycles_with_dmas: (cycles.issued as f64 + cycles.stalled).round() as u64,
            mxu_share: cycles.mxu_share(),
        },
        Err(error) => Counted::NotCounted { reason: error.to_string() },
    })
}
