//! Nothing that is thrown at the parsers makes them panic, and nothing broken passes.

mod common;

use common::{PACKED, load};
use octile_dump::{
    checks::{Verdict, check},
    facts::{Facts, Source},
    gpu::Code,
    hlo::{KernelBody, Module, Shape},
    llo::{Args, DmaModel, Listing, SimOptions, simulate},
    mosaic::MosaicKernel,
    schedule::ScheduleAnalysis,
    utilization::Utilization,
};
use proptest::prelude::*;

/// Everything that reads text, on one text.
fn read_as_everything(text: &str) {
    let listing = Listing::parse(text);
    let dma = Some(DmaModel { bytes_per_cycle: 1600.0, latency_cycles: 1000.0 });
    let options = SimOptions { dma, max_cycles: 200_000, ..SimOptions::default() };
    let _ = simulate(&listing, &options);
    for (_, slot) in listing.all_slots() {
        let _ = listing.args(slot);
    }
    let module = Module::parse(text);
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    assert!(squeeze(&module.print()) == squeeze(text), "printing lost something");
    let _ = module.kernel_calls();
    let _ = (MosaicKernel::parse(text), ScheduleAnalysis::parse(text), Utilization::parse(text));
    let _ = (Code::parse_ptx(text), Code::parse_sass(text));
    let _ = (Shape::parse(text), KernelBody::decode(text), Args::parse(text));
    let source = Source { name: "file", bytes: text.as_bytes() };
    let findings = check(&Facts::gather_with(&[source], &options), None);
    for finding in findings.iter().filter(|finding| finding.verdict == Verdict::Pass) {
        assert!(finding.evidence.iter().all(|evidence| evidence.place.line > 0));
    }
}

/// A stretch of a real file, with pieces moved, removed, doubled or replaced.
fn mutated(files: Vec<String>) -> impl Strategy<Value = String> {
    let edit = (0.0..1.0, 0.0..1.0, 0usize..40, "[%{}()\\[\\],;:=/*\"# a0-9\n]{0,6}");
    (0..files.len(), 0.0..1.0, prop::collection::vec(edit, 0..8)).prop_map(move |(file, keep, edits)| {
        let mut bytes = files[file].clone().into_bytes();
        bytes.truncate((bytes.len() as f64 * (0.2 + 0.8 * keep)) as usize);
        for (at, from, length, insert) in edits {
            let at = (bytes.len() as f64 * at) as usize;
            let end = (at + length).min(bytes.len());
            let from = (bytes.len() as f64 * from) as usize;
            let copy = bytes[from..(from + length).min(bytes.len())].to_vec();
            bytes.splice(at..end, insert.bytes().chain(copy));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn small_files() -> Vec<String> {
    let case = "512-qb128-aligned-v3-operands-prefetched-tpu7x";
    let files = [PACKED, "final_bundles.txt", "optimized.hlo.txt", "mosaic.mlir", "schedule-analysis.txt"];
    let mut texts: Vec<_> = files.iter().map(|file| load(case, file)).collect();
    texts.push(load(case, "final_hlo-static-per-bundle-utilization.txt"));
    texts.push(load("512-qb128-aligned-v2-tpu7x", "post-ra.txt"));
    texts.extend(["dma.ptx", "dma.sass"].map(|file| load("../gpu", file)));
    texts
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        read_as_everything(&text);
    }

    #[test]
    fn text_of_their_alphabets_never_panics(
        text in "([%{}()\\[\\],;:=/*\"#>'!+$ \n]|ENTRY|ROOT|HloModule|0x1|dma|smov|sbr.rel|target = |func.func @|memref<|\\.\\.\\.){0,200}"
    ) {
        read_as_everything(&text);
    }

    #[test]
    fn arbitrary_bytes_are_not_observable(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let facts = Facts::gather(&[Source { name: "file", bytes: &bytes }]);
        prop_assert!(check(&facts, None).iter().all(|finding| finding.verdict == Verdict::NotObservable));
    }

    #[test]
    fn mutated_dumps_never_panic(text in mutated(small_files())) {
        read_as_everything(&text);
    }
}

/// Brackets that never close, on every line, are read in time that grows with the text and not with its square.
#[test]
fn unclosed_brackets_do_not_cost_the_square() {
    let text = "f (a [b {c\n".repeat(200_000);
    let start = std::time::Instant::now();
    assert!(!Module::parse(&text).damage().is_empty());
    // The square would take minutes.
    assert!(start.elapsed() < std::time::Duration::from_secs(20));
}
