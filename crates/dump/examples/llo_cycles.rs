//! Counts the cycles of LLO listings: `llo_cycles FILE... [--dma BYTES_PER_CYCLE:LATENCY]`.

use std::process::ExitCode;

use octile_dump::llo::{Cycles, DmaModel, Listing, SimOptions, UnitUse, simulate};

fn main() -> ExitCode {
    let mut options = SimOptions::default();
    let mut files = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument != "--dma" {
            files.push(argument);
            continue;
        }
        let Some(model) = arguments.next().as_deref().and_then(parse_model) else {
            eprintln!("--dma takes BYTES_PER_CYCLE:LATENCY, for example 1600:1000");
            return ExitCode::from(2);
        };
        options.dma = Some(model);
    }
    if files.is_empty() {
        eprintln!("usage: llo_cycles FILE... [--dma BYTES_PER_CYCLE:LATENCY]");
        return ExitCode::from(2);
    }
    let mut code = ExitCode::SUCCESS;
    for file in files {
        if let Err(error) = report(&file, &options) {
            eprintln!("{file}: {error}");
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn parse_model(text: &str) -> Option<DmaModel> {
    let (bytes, latency) = text.split_once(':')?;
    Some(DmaModel { bytes_per_cycle: bytes.parse().ok()?, latency_cycles: latency.parse().ok()? })
}

fn report(file: &str, options: &SimOptions) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(file)?;
    let cycles = simulate(&Listing::parse(&text), options)?;
    print(file, &cycles);
    Ok(())
}

fn print(file: &str, cycles: &Cycles) {
    println!("{file}");
    println!("  cycles {:.0} = issued {} + stalled {:.0}", cycles.total(), cycles.issued, cycles.stalled);
    println!("  code {} bundles, branch delay {}", cycles.code_bundles, cycles.branch_delay);
    println!("  MXU busy {} unit-cycles, {:.1} %", cycles.units.mxu, 100.0 * cycles.mxu_share());
    for (name, used) in UnitUse::COLUMNS.iter().zip(cycles.units.columns()).filter(|(_, used)| *used > 0) {
        println!("  {name:<13} {used}");
    }
    for dma in &cycles.dma {
        println!("  {:<18} {} starts, {} bytes", dma.kind, dma.starts, dma.bytes);
    }
    for route in &cycles.routes {
        let overlap = if route.overlaps_multiply { ", overlaps the matrix units" } else { "" };
        let (source, destination) = (&route.source, &route.destination);
        println!("  {source} -> {destination}: {} starts, depth {}{overlap}", route.starts, route.depth);
    }
    println!("  waits {}, unresolved DMA {}", cycles.waits, cycles.unresolved_dma);
    for semaphore in cycles.semaphores.iter().filter(|s| !s.is_balanced()) {
        println!("  UNBALANCED {} holds {} at the end", semaphore.semaphore, semaphore.left);
    }
    for count in &cycles.loops {
        let (first, last) = (count.first, count.last);
        println!("  loop {first:#x}..{last:#x} depth {}: {} iterations", count.depth, count.iterations);
    }
}
