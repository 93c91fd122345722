//! Prints `octile inspect`.

use std::fmt::Write;

use octile_core::{Problem, Strategy};

use super::{analyze::size, emit, heading, shown};
use crate::{
    command::inspect::{Counted, Figures, HOPPER_TARGET, InspectReport, foreign, gpu, tpu},
    tools::FoundTool,
};

/// Instructions to count: MMA, TMA and other copies, mbarriers.
const TELLING: [&str; 6] = ["QGMMA", "UTMALDG", "LDGSTS", "UBLKCP", "SYNCS", "UTMASTG"];

/// What the cycles are.
const CYCLES: &str = "Cycles: the LLO listing at one bundle per cycle; DMAs at the rates of the device table. No TPU was used.\n";

/// Prints figures and folder of every version.
pub fn report(report: &InspectReport) {
    emit(&match report {
        InspectReport::Tpu(report) => tpu_text(report),
        InspectReport::Gpu(report) => gpu_text(report),
        InspectReport::Foreign(report) => foreign_text(report),
    });
}

fn tpu_text(report: &tpu::TpuReport) -> String {
    let mut text = heading(format!(
        "FP8 2-D block-scaled matmul: compiled for {}\n{}",
        report.chip.name,
        tool("libtpu", &report.libtpu)
    ));
    for version in &report.versions {
        text += &tpu_version(version);
    }
    text += CYCLES;
    text
}

fn foreign_text(report: &foreign::ForeignReport) -> String {
    let devices = match report.devices {
        1 => String::new(),
        several => format!(", {several} devices"),
    };
    let mut text = heading(format!(
        "{}: compiled for {}{devices}\n{}",
        report.module,
        report.chip.name,
        tool("libtpu", &report.libtpu)
    ));
    if report.assumed {
        text += "Extents that depend on a dynamic grid or on scalar-prefetch operands are assumed to be the\n\
                 smallest: inspect the program around the kernel for its own.\n\n";
    }
    for kernel in &report.kernels {
        let _ = writeln!(text, "{}", kernel.name);
        text += &figures(&kernel.figures);
        let _ = writeln!(text, "  {}\n", shown(&kernel.folder));
    }
    for name in &report.removed {
        let _ = writeln!(text, "{name}\n  removed by the compiler: nothing uses its result\n");
    }
    text += CYCLES;
    text
}

fn gpu_text(report: &gpu::GpuReport) -> String {
    let mut text = heading(format!(
        "FP8 2-D block-scaled matmul: assembled for {HOPPER_TARGET}, planned for an {}\n{}",
        report.gpu.name.to_uppercase(),
        tool("ptxas", &report.tools.ptxas)
    ));
    for version in &report.versions {
        text += &gpu_version(version);
    }
    text += "Figures from ptxas and the machine code. No GPU was used.\n";
    text
}

fn tool(name: &str, found: &FoundTool) -> String {
    let version = found.version.map_or_else(|| "(unknown version)".to_owned(), |version| version.to_string());
    format!("{name} {version}, {}", found.origin)
}

fn title(strategy: Strategy, problem: &Problem, details: &str) -> String {
    let (version, title, x, out) = (strategy.version(), strategy.title(), problem.x, problem.out);
    format!("{version} {title} ({problem}, {details}x {x}, out {out})\n")
}

fn tpu_version(report: &tpu::TpuVersion) -> String {
    let tpu::TpuVersion { plan, is_tuned, folder, .. } = report;
    let mut text = title(plan.strategy, &plan.problem, &format!("{}, ", plan.mode));
    let tuned = if *is_tuned { ", tuned" } else { "" };
    let _ = writeln!(text, "  tile {}, grid {}{tuned}", plan.tile, plan.grid);
    text += &figures(&report.figures);
    let _ = writeln!(text, "  {}\n", shown(folder));
    text
}

/// Cycles and sizes of a TPU kernel.
fn figures(figures: &Figures) -> String {
    let mut text = String::new();
    let _ = match &figures.counted {
        Counted::Cycles { cycles, cycles_with_dmas, mxu_share } => writeln!(
            text,
            "  {cycles} cycles without waits, MXU busy {:.1} %; {cycles_with_dmas} cycles with DMAs",
            100.0 * mxu_share
        ),
        Counted::NotCounted { reason } => writeln!(text, "  cycles not counted: {reason}"),
    };
    let _ = writeln!(
        text,
        "  {} bytes of code, {} bytes of temporaries, compiled in {:.1} s",
        figures.code_bytes, figures.memory.temp, figures.compile_seconds
    );
    text
}

fn gpu_version(report: &gpu::GpuVersion) -> String {
    let gpu::GpuVersion { plan, folder, kernels } = report;
    let mut text = title(plan.strategy, &plan.problem, "");
    let _ = writeln!(
        text,
        "  tile {}x{}, {} stages, {} CTA{} of {} threads",
        plan.shape.tile.a,
        plan.shape.tile.b,
        plan.stages,
        plan.blocks,
        if plan.blocks == 1 { "" } else { "s" },
        plan.threads()
    );
    for gpu::AssembledKernel { entry, figures } in kernels {
        let assembler = &figures.assembler;
        let spilled = assembler.spill_stores + assembler.spill_loads;
        let spills = if spilled == 0 { "no spills".to_owned() } else { format!("{spilled} bytes of spills") };
        let _ = writeln!(
            text,
            "  {entry}\n    {} registers, {} of shared memory, {spills}",
            assembler.registers,
            size(figures.shared_bytes as u64)
        );
        let count = |name| {
            Some(figures.count(name)).filter(|count| *count > 0).map(|count| format!("{count} {name}, "))
        };
        let counts: String = TELLING.into_iter().filter_map(count).collect();
        let _ = writeln!(
            text,
            "    {counts}{} of code, assembled in {:.1} s",
            size(figures.code_bytes as u64),
            figures.assemble_seconds
        );
    }
    let _ = writeln!(text, "  {}\n", shown(folder));
    text
}
