//! Every reader of foreign text, on one input. Besides not panicking: a printed program is the one that was parsed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use octile_dump::{
    checks::check,
    facts::{Facts, Source},
    gpu::Code,
    hlo::{KernelBody, Module, Shape},
    llo::{Args, Listing, SimOptions, simulate},
    mosaic::MosaicScan,
    schedule::ScheduleAnalysis,
    utilization::Utilization,
};

fuzz_target!(|bytes: &[u8]| {
    // A loop without end is no finding.
    let options = SimOptions { max_cycles: 20_000, ..SimOptions::default() };
    let _ = check(&Facts::gather_with(&[Source { name: "file", bytes }], &options), None);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = simulate(&Listing::parse(text), &options);
    let module = Module::parse(text);
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(squeeze(&module.print()), squeeze(text));
    let _ = module.kernel_calls();
    let _ = (MosaicScan::read(text), ScheduleAnalysis::parse(text), Utilization::parse(text));
    let _ = (Code::parse_ptx(text), Code::parse_sass(text));
    let _ = (Shape::parse(text), KernelBody::decode(text), Args::parse(text));
});
