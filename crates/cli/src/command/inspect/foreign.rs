//! Compiles kernels that Octile did not generate: a module that JAX lowered, with its Pallas kernels.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use octile_core::device::tpu::TpuChip;
use octile_dump::hlo;
use octile_mosaic::bytecode;
use octile_runtime::pjrt::compile::{Compiled, DumpFlags, Module, StaticProfile, static_profile};

use super::{
    collect,
    libtpu::{self, TpuCompiler},
    lowered::{LoweredKernel, LoweredModule},
    manifest::{Figures, TpuManifest, Unplanned},
    replace::{self, OutputFolder},
};
use crate::{
    command::{analyze::manifest::ForeignKernel, seal},
    input,
    progress::Progress,
    tools::FoundTool,
};

/// What to compile.
#[derive(Debug)]
pub struct ForeignWork {
    /// Target chip.
    pub chip: &'static TpuChip,
    /// The file of the module.
    pub path: PathBuf,
    /// The module.
    pub module: LoweredModule,
    /// Compiler named on the command line.
    pub libtpu: Option<PathBuf>,
    /// Whether to keep all compiler output.
    pub keep_dumps: bool,
}

/// What was compiled.
#[derive(Debug)]
pub struct ForeignReport {
    /// Target chip.
    pub chip: &'static TpuChip,
    /// The compiler.
    pub libtpu: FoundTool,
    /// Name of the module.
    pub module: String,
    /// One per kernel.
    pub kernels: Vec<CompiledKernel>,
    /// Number of devices that run it.
    pub devices: usize,
    /// Whether extents of operands were assumed.
    pub assumed: bool,
    /// Names of kernels that the compiler removed, because nothing uses their results.
    pub removed: Vec<String>,
}

/// One kernel.
#[derive(Debug)]
pub struct CompiledKernel {
    /// Its name in the module.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its figures.
    pub figures: Figures,
}

/// The compiled module.
struct Output<'a> {
    work: &'a ForeignWork,
    compiler: &'a TpuCompiler,
    compiled: Compiled,
    profile: StaticProfile,
    /// The compiler's dumps.
    dump: &'a Path,
    executable: &'a Path,
}

/// Compiles the module, then moves the folders of its kernels into the output folder.
pub fn run(work: &ForeignWork, place: &OutputFolder) -> Result<ForeignReport> {
    let devices = work.module.devices;
    let compiler = TpuCompiler::find(work.libtpu.as_deref(), work.chip, devices.total())?;
    let progress = Progress::new(1);
    progress.doing(format!("compiling {} for {}", work.module.name, work.chip.name));
    let dump = replace::dump_folder()?;
    let executable = dump.path().join("executable.bin");
    let stablehlo = work.module.stablehlo.clone();
    let mut module = libtpu::module(&work.module.name, stablehlo, dump.path(), executable.clone());
    // A module says by its dialect how it is divided.
    let shardy = module.stablehlo.contains("sdy.");
    module.options = module.options.on_devices(devices).with_shardy(shardy);
    let (compiled, dump) = compiler.compile(&module, dump, DumpFlags::AnnotatedListings)?;
    let mut again = Module::new(&work.module.name, module.stablehlo);
    again.options = again.options.on_devices(devices).with_shardy(shardy);
    let profile = static_profile(&compiler.compiler, &compiler.target, &again, &compiled)?;
    progress.step();
    let output =
        Output { work, compiler: &compiler, compiled, profile, dump: dump.path(), executable: &executable };
    let calls = output.calls()?;
    let (mut built, mut removed) = (Vec::new(), Vec::new());
    for kernel in &work.module.kernels {
        match output.operation(kernel, &calls)? {
            Some(operation) => built.push((kernel, output.build(kernel, operation, place)?)),
            None => removed.push(kernel.name.clone()),
        }
    }
    if built.is_empty() {
        bail!(
            "the compiler removed {}: return the result of the kernel from the program",
            removed.join(", ")
        );
    }
    let names: Vec<_> = built.iter().map(|(kernel, _)| kernel.folder.clone()).collect();
    let folders = place.put_all(&names)?;
    let kernels = built.into_iter().zip(folders).map(|((kernel, figures), folder)| CompiledKernel {
        name: kernel.name.clone(),
        folder,
        figures,
    });
    let kernels = kernels.collect();
    Ok(ForeignReport {
        chip: work.chip,
        module: work.module.name.clone(),
        devices: devices.total(),
        assumed: work.module.assumed,
        kernels,
        removed,
        libtpu: compiler.libtpu,
    })
}

impl Output<'_> {
    /// The kernel calls in the optimized HLO.
    fn calls(&self) -> Result<Vec<hlo::KernelCall>> {
        let files = collect::files_below(self.dump)?;
        let optimized = collect::optimized_hlo(&files).context("the compiler wrote no optimized HLO")?;
        Ok(hlo::Module::parse(&input::read_text(optimized)?).kernel_calls())
    }

    /// The operation of the HLO that calls a kernel and has a listing: the compiler compiles equal calls
    /// once. `None` if nothing calls it any more.
    fn operation<'c>(&self, kernel: &LoweredKernel, calls: &'c [hlo::KernelCall]) -> Result<Option<&'c str>> {
        let is_own = |call: &&hlo::KernelCall| {
            // XLA may serialize the kernel again.
            let is_only = self.work.module.kernels.len() == 1;
            is_only || call.encoded.as_deref() == Some(kernel.body.as_str())
        };
        let own: Vec<_> = calls.iter().filter(is_own).map(|call| call.name.as_str()).collect();
        if own.is_empty() {
            return Ok(None);
        }
        let files = collect::files_below(self.dump)?;
        let listed = own.iter().find(|name| collect::has_listing(&files, name));
        let listed = listed.with_context(|| {
            format!("the compiler wrote no listing of {}: another kernel has the same code", kernel.name)
        })?;
        Ok(Some(listed))
    }

    /// Writes the draft folder of a kernel.
    fn build(&self, kernel: &LoweredKernel, operation: &str, place: &OutputFolder) -> Result<Figures> {
        let folder = place.draft(&kernel.folder)?;
        fs::write(folder.join("stablehlo.mlir"), &self.work.module.stablehlo)?;
        if let Some(mosaic) = mosaic(kernel) {
            fs::write(folder.join("mosaic.mlir"), mosaic)?;
        }
        fs::copy(self.executable, folder.join("executable.bin"))?;
        collect::operation_listings(self.dump, operation, &folder)?;
        if self.work.keep_dumps {
            collect::copy_all(self.dump, &folder.join(collect::RAW))?;
        }
        let figures =
            Figures::new(&self.compiled, self.profile.clone(), libtpu::count(&folder, self.work.chip)?);
        let subject = Unplanned {
            kernel: ForeignKernel {
                name: kernel.name.clone(),
                source: input::file_name(&self.work.path),
                operation: operation.to_owned(),
                chip: self.work.chip,
            },
        };
        let flags = libtpu::flags(DumpFlags::AnnotatedListings);
        let manifest = TpuManifest::new(subject, self.compiler, flags, &self.compiled, &figures, &folder)?;
        fs::write(folder.join("manifest.json"), seal::sealed(&manifest)?)?;
        Ok(figures)
    }
}

/// The kernel as Mosaic text; `None` if it is in a form that only the compiler reads.
fn mosaic(kernel: &LoweredKernel) -> Option<String> {
    let bytes = STANDARD.decode(&kernel.body).ok()?;
    if bytecode::is_bytecode(&bytes) {
        return Some(bytecode::read(&bytes).ok()?.to_string());
    }
    String::from_utf8(bytes).ok().filter(|text| text.contains("func.func"))
}
