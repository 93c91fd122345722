//! Recorded kernels side by side, and against the limits of the chip.

mod common;

use common::{PACKED, load};
use octile_dump::{
    checks::{CheckId, Finding, Verdict, check},
    compare::{Row, changes, operations},
    facts::{Facts, Source},
    llo::{DmaModel, Listing, SimOptions, simulate},
    roofline::{Bound, Roofline},
};

fn gathered(case: &str) -> (Facts, Vec<Finding>) {
    let texts: Vec<_> = [PACKED, "optimized.hlo.txt"].map(|file| (file, load(case, file))).into();
    let sources: Vec<_> = texts.iter().map(|(name, text)| Source { name, bytes: text.as_bytes() }).collect();
    let facts = Facts::gather(&sources);
    let findings = check(&facts, None);
    (facts, findings)
}

#[test]
fn the_version_table_comes_from_facts() {
    let row = |case: &str| {
        let (facts, findings) = gathered(case);
        Row::of(case, &facts, &findings)
    };
    let (v2, v3) = (row("2048-qb512-aligned-v2-tpu7x"), row("2048-qb512-aligned-v3-tpu7x"));
    assert_eq!((v2.cycles, v3.cycles), (Some(60_090), Some(56_953)));
    assert_eq!((v2.copies, v3.copies), (Some(272), Some(272)));
    assert_eq!((v2.buffers, v3.buffers), (Some(2), Some(2)));
    assert_eq!((v2.scales_staged, v3.scales_staged), (Verdict::Fail, Verdict::Pass));
    assert_eq!((v2.vmem, v3.vmem), (Some(3_147_776), Some(3_145_728)));
    assert_eq!(v2.matmul.as_deref(), Some("f8e4m3fn"));
    assert_eq!(v2.hbm_bytes, Some(33_619_968 + 8_388_608));
}

#[test]
fn what_changed_between_two_versions() {
    let (before, after) = (gathered("2048-qb512-aligned-v2-tpu7x"), gathered("2048-qb512-aligned-v3-tpu7x"));
    let changes = changes(&before.1, &after.1);
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].check, CheckId::ScalesStaged);
    let [before, after] = ["v2", "v3"].map(|v| load(&format!("2048-qb512-aligned-{v}-tpu7x"), PACKED));
    let operations = operations(&Listing::parse(&before), &Listing::parse(&after));
    let smem = operations.iter().find(|change| change.operation == "dma.hbm_to_smem").unwrap();
    assert_eq!((smem.before, smem.after), (0, 4));
    assert!(operations.iter().all(|change| change.before != change.after));
}

#[test]
fn the_limit_is_that_of_the_problem() {
    let text = load("2048-qb512-strip-tpu7x", PACKED);
    let cycles = simulate(&Listing::parse(&text), &SimOptions::default()).unwrap();
    let roofline = Roofline::of(&cycles, 1682.0).unwrap();
    // 2048^3 products at 524288 a cycle.
    assert_eq!(roofline.mxu_cycles, 16384.0);
    assert_eq!(roofline.hbm_bytes, 12_582_912 + 8_388_608);
    assert_eq!(roofline.bound, Bound::Compute);
    assert!((roofline.distance - 19764.0 / 16384.0).abs() < 1e-9);
    let slow = Roofline::of(&cycles, 100.0).unwrap();
    assert_eq!(slow.bound, Bound::Memory);
    assert_eq!(Roofline::of(&cycles, 0.0), None);
}

#[test]
fn a_profile_stands_beside_the_count() {
    let text = load("2048-qb512-aligned-v1-tpu7x", PACKED);
    let profile = "hlo_op_estimate {\n  hlo_op_name: \"v1.1\"\n  estimated_cycles: 55216\n}\n";
    let sources =
        [("p", profile), (PACKED, text.as_str())].map(|(name, text)| Source { name, bytes: text.as_bytes() });
    let dma = Some(DmaModel { bytes_per_cycle: 1600.0, latency_cycles: 1000.0 });
    let facts = Facts::gather_with(&sources, &SimOptions { dma, ..SimOptions::default() });
    assert_eq!(facts.estimated_cycles, Some(55216));
    assert!(facts.cycles.unwrap().stalled > 8000.0);
}
