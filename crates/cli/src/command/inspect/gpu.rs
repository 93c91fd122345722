//! Assembles GPU kernels with ptxas and disassembles them with nvdisasm.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};
use octile_core::{
    Strategy,
    device::hopper::HopperGpu,
    plan::hopper::{HopperPlan, QUANTIZE_SHARED_BYTES},
};
use octile_dump::gpu::{AssemblerReport, Code};
use octile_harness::record::{Provenance, Schema};
use octile_kernels::hopper::{self, Kernel};
use serde::Serialize;

use super::{HOPPER_TARGET, manifest::FileRecord, replace::OutputFolder, version_name};
use crate::{
    command::{analyze::manifest::SCHEMA, seal},
    progress::Progress,
    tools::{Assembler, FoundTool},
};

/// PTX of a kernel.
pub const PTX: &str = "kernel.ptx";
const CUBIN: &str = "kernel.cubin";
const SASS: &str = "kernel.sass";
const REPORT: &str = "ptxas.txt";

/// The files of a version's folder, for the manifest.
const ROLES: [(&str, &str); 4] = [
    (PTX, "PTX, as passed to the driver"),
    (CUBIN, "machine code"),
    (SASS, "machine code as text"),
    (REPORT, "registers, shared memory and spills, from ptxas -v"),
];

/// Folder of the quantization kernel.
pub const QUANTIZE: &str = "quantize";
/// Bytes of one instruction.
const INSTRUCTION_BYTES: usize = 16;

/// What to assemble.
#[derive(Debug)]
pub struct GpuWork {
    /// Target GPU.
    pub gpu: HopperGpu,
    /// One per version.
    pub plans: Vec<HopperPlan>,
}

/// What was assembled.
#[derive(Debug)]
pub struct GpuReport {
    /// Target GPU.
    pub gpu: HopperGpu,
    /// The tools.
    pub tools: Assembler,
    /// One per version.
    pub versions: Vec<GpuVersion>,
}

/// One version.
#[derive(Debug)]
pub struct GpuVersion {
    /// Its plan.
    pub plan: HopperPlan,
    /// Its folder.
    pub folder: PathBuf,
    /// The matmul kernel, then the quantization kernel.
    pub kernels: Vec<AssembledKernel>,
}

/// One kernel.
#[derive(Debug, Serialize)]
pub struct AssembledKernel {
    /// Its name.
    pub entry: String,
    /// Its figures.
    pub figures: GpuFigures,
}

/// The figures of one kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuFigures {
    /// Seconds in ptxas and nvdisasm.
    pub assemble_seconds: f64,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// Bytes of shared memory of a launch.
    pub shared_bytes: usize,
    /// Registers, stack and spills.
    #[serde(flatten)]
    pub assembler: AssemblerReport,
    /// Number of each instruction in the code.
    pub instructions: BTreeMap<String, usize>,
}

impl GpuFigures {
    /// Returns the number of an instruction in the code.
    pub fn count(&self, mnemonic: &str) -> usize {
        self.instructions.get(mnemonic).copied().unwrap_or(0)
    }
}

/// Content of `manifest.json`.
#[derive(Debug, Serialize)]
struct GpuManifest<'a> {
    schema: Schema,
    #[serde(flatten)]
    provenance: Provenance,
    strategy: Strategy,
    title: &'static str,
    compiler: CompilerRecord<'a>,
    gpu: &'a HopperGpu,
    entry: &'a str,
    plan: &'a HopperPlan,
    figures: &'a GpuFigures,
    /// Kernels that prepare operands, by folder.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    helpers: BTreeMap<&'static str, &'a AssembledKernel>,
    files: Vec<FileRecord>,
}

#[derive(Debug, Serialize)]
struct CompilerRecord<'a> {
    target: &'static str,
    ptxas: &'a FoundTool,
    ptxas_flags: [&'static str; 2],
    nvdisasm: &'a FoundTool,
    nvdisasm_flags: [&'static str; 1],
}

/// Assembles every version, then moves all of them into the output folder.
pub fn run(work: &GpuWork, place: &OutputFolder) -> Result<GpuReport> {
    let tools = Assembler::find()?;
    let progress = Progress::new(work.plans.len() as u64);
    let mut built = Vec::new();
    for plan in &work.plans {
        progress.doing(format!("assembling {} for {HOPPER_TARGET}", plan.strategy));
        built.push(build(plan, work, &tools, &place.draft(&version_name(plan.strategy))?)?);
        progress.step();
    }
    let names: Vec<_> = work.plans.iter().map(|plan| version_name(plan.strategy)).collect();
    let folders = place.put_all(&names)?;
    let versions = work.plans.iter().zip(folders).zip(built);
    let version =
        |((plan, folder), kernels): ((&_, _), _)| GpuVersion { plan: Clone::clone(plan), folder, kernels };
    let versions = versions.map(version).collect();
    Ok(GpuReport { gpu: work.gpu, tools, versions })
}

/// Assembles the kernels of one version into a folder.
fn build(
    plan: &HopperPlan,
    work: &GpuWork,
    tools: &Assembler,
    folder: &Path,
) -> Result<Vec<AssembledKernel>> {
    let kernel = hopper::multiply(plan);
    let figures = assemble(&kernel, plan.shared_bytes(), tools, folder)?;
    let mut kernels = vec![AssembledKernel { entry: kernel.entry, figures }];
    let mut files = FileRecord::all(&ROLES, folder)?;
    if let Some((kernel, _)) = hopper::quantize_for(&plan.problem) {
        let quantize = folder.join(QUANTIZE);
        fs::create_dir(&quantize).context("cannot create a temporary folder")?;
        let figures = assemble(&kernel, QUANTIZE_SHARED_BYTES as usize, tools, &quantize)?;
        kernels.push(AssembledKernel { entry: kernel.entry, figures });
        files.extend(FileRecord::all(&ROLES, &quantize)?.into_iter().map(|file| file.within(QUANTIZE)));
    }
    let manifest = GpuManifest {
        schema: SCHEMA,
        provenance: Provenance::now(),
        strategy: plan.strategy,
        title: plan.strategy.title(),
        compiler: CompilerRecord {
            target: HOPPER_TARGET,
            ptxas: &tools.ptxas,
            ptxas_flags: Assembler::PTXAS_FLAGS,
            nvdisasm: &tools.nvdisasm,
            nvdisasm_flags: Assembler::NVDISASM_FLAGS,
        },
        gpu: &work.gpu,
        entry: &kernels[0].entry,
        plan,
        figures: &kernels[0].figures,
        helpers: kernels.get(1).map(|kernel| (QUANTIZE, kernel)).into_iter().collect(),
        files,
    };
    fs::write(folder.join("manifest.json"), seal::sealed(&manifest)?)?;
    Ok(kernels)
}

/// Writes a kernel's PTX, machine code and figures.
fn assemble(kernel: &Kernel, shared_bytes: usize, tools: &Assembler, folder: &Path) -> Result<GpuFigures> {
    fs::write(folder.join(PTX), &kernel.ptx)?;
    let start = Instant::now();
    let assembled = tools.assemble(folder, PTX, CUBIN)?;
    let assemble_seconds = start.elapsed().as_secs_f64();
    fs::write(folder.join(SASS), &assembled.sass)?;
    fs::write(folder.join(REPORT), &assembled.report)?;
    let assembler = AssemblerReport::parse(&assembled.report)
        .with_context(|| format!("ptxas reports no register count for {}", kernel.entry))?;
    let code = Code::parse_sass(&assembled.sass);
    let instructions = code.mnemonics().into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    let code_bytes = INSTRUCTION_BYTES * code.instructions().count();
    Ok(GpuFigures { assemble_seconds, code_bytes, shared_bytes, assembler, instructions })
}
