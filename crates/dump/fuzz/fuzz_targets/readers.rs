//! Everything in octile-dump that reads foreign text, on one input. Besides not panicking: a printed program is the one
//! that was parsed, and nothing differs from itself.

use octile_dump::{
    checks::check,
    compare::{Dump, File, Structure, operations},
    facts::{Facts, Source},
    gpu::Code,
    hlo::{KernelBody, Module, Shape},
    llo::{Args, Listing, SimOptions, simulate},
    mosaic::MosaicScan,
    schedule::ScheduleAnalysis,
    utilization::Utilization,
};

/// Reads the bytes in every way that there is.
pub fn read(bytes: &[u8]) {
    // A loop without end is no finding.
    let options = SimOptions { max_cycles: 20_000, ..SimOptions::default() };
    let facts = Facts::gather_with(&[Source { name: "file", bytes }], &options);
    let _ = check(&facts, None);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let listing = Listing::parse(text);
    let _ = (simulate(&listing, &options), operations(&listing, &listing));
    let module = Module::parse(text);
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(squeeze(&module.print()), squeeze(text));
    let _ = module.kernel_calls();
    let _ = (MosaicScan::read(text), ScheduleAnalysis::parse(text), Utilization::parse(text));
    let _ = (Code::parse_ptx(text), Code::parse_sass(text));
    let _ = (Shape::parse(text), KernelBody::decode(text), Args::parse(text));
    let files = facts.files.iter().map(|file| File { name: "file", kind: file.kind, text }).collect();
    let dump = Dump { facts: &facts, files };
    assert_eq!(Structure::between(&dump, &dump).differences, []);
}
