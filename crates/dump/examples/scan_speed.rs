//! Measures how fast dumps are parsed: `scan_speed FILE...`. Each file is parsed for about a second, and the time
//! that counts is the time on a processor, so that a busy machine does not blur it (Linux only).

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use octile_dump::{hlo::Module, llo::Listing, mosaic::MosaicKernel};

fn main() {
    for file in std::env::args().skip(1) {
        match std::fs::read_to_string(&file) {
            Ok(text) => measure(&file, &text),
            Err(error) => eprintln!("{file}: {error}"),
        }
    }
}

fn measure(file: &str, text: &str) {
    let parse = || match () {
        () if text.starts_with("HloModule") => black_box(Module::parse(text)).damage().len(),
        () if text.starts_with("module") => usize::from(black_box(MosaicKernel::parse(text)).is_err()),
        () => black_box(Listing::parse(text)).damage().len(),
    };
    let before = resident();
    let damage = parse();
    let after = resident();
    let (start, on_processor, mut times) = (Instant::now(), processor_seconds(), 0u32);
    while start.elapsed() < Duration::from_secs(1) {
        parse();
        times += 1;
    }
    let megabytes = text.len() as f64 / 1e6;
    let speed = megabytes * f64::from(times) / (processor_seconds() - on_processor);
    let grown = after.saturating_sub(before) as f64 / megabytes / 1e6;
    println!(
        "{speed:6.0} MB/s, {megabytes:.2} MB, memory grew by {grown:.1}x the file, {damage} damaged: {file}"
    );
}

/// The most memory this process ever held, in bytes; 0 where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

fn processor_seconds() -> f64 {
    let schedule = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = schedule.split_whitespace().next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.unwrap_or_default() / 1e9
}
