//! Kernels that race, and files that contradict each other: what one level or file refutes stays refuted.

mod common;

use common::{FINAL, PACKED, load};
use octile_dump::{
    checks::{CheckId, Finding, Verdict, check},
    facts::{Facts, Source},
};

fn findings_of(files: &[(&str, &str)]) -> Vec<Finding> {
    let sources: Vec<_> = files.iter().map(|(name, text)| Source { name, bytes: text.as_bytes() }).collect();
    check(&Facts::gather(&sources), None)
}

fn verdict(findings: &[Finding], check: CheckId) -> Verdict {
    findings.iter().find(|finding| finding.check == check).unwrap().verdict
}

/// Kernels with a wait in the wrong place, compiled by libtpu: each level refutes them alone, and no other
/// level, however sound, makes up for it.
#[test]
fn racy_kernels_are_refuted_at_every_level() {
    let racy = ["late-wait-w", "late-wait-x", "late-wait-scale", "late-wait-out", "late-wait-in-one-step"];
    let racy = racy.into_iter().chain(["late-wait-w-v2", "late-wait-scale-v2", "late-wait-strip"]);
    // Two copies on one semaphore: a wait for one of them may have seen the other.
    let shared = ["shared-semaphore", "shared-semaphore-slots", "shared-semaphore-slots-v2"];
    let racy = racy.chain(shared);
    let sound = load("512-qb128-aligned-v3-tpu7x", "mosaic.mlir");
    for name in racy {
        let case = format!("../defects/{name}");
        let (mosaic, listing) = (load(&case, "mosaic.mlir"), load(&case, PACKED));
        let balanced = |files: &[(&str, &str)]| {
            let findings = findings_of(files);
            findings.into_iter().find(|finding| finding.check == CheckId::CopiesBalanced).unwrap()
        };
        let from_text = balanced(&[("mosaic.mlir", &mosaic)]);
        assert_eq!(from_text.verdict, Verdict::Fail, "{name}: {}", from_text.says);
        assert!(from_text.says.starts_with("line ") && from_text.says.contains("while the DMA of line"));
        for files in [&[(PACKED, listing.as_str())][..], &[("mosaic.mlir", &sound), (PACKED, &listing)]] {
            let found = balanced(files);
            assert_eq!(found.verdict, Verdict::Fail, "{name}: {}", found.says);
            assert!(
                found.says.starts_with("bundle 0x") && found.says.contains(" while a dma."),
                "{}",
                found.says
            );
            let line = &found.evidence[0].excerpt;
            assert!(line.contains("vld") || line.contains("vst") || line.contains("sld"), "{name}: {line}");
        }
    }
}

#[test]
fn waits_under_a_predicate_that_nothing_writes_prove_nothing() {
    let text = load("512-qb128-aligned-v3-tpu7x", PACKED);
    let mosaic = load("512-qb128-aligned-v3-tpu7x", "mosaic.mlir");
    for (at, _) in text.match_indices(" = dma.done.wait ") {
        let after = at + " = dma.done.wait ".len();
        let rest = text[after..].trim_start_matches(|c| c != '%');
        let edited = format!("{}(%p9999), {rest}", &text[..after]);
        let findings = findings_of(&[(PACKED, &edited), ("mosaic.mlir", &mosaic)]);
        let finding = findings.iter().find(|finding| finding.check == CheckId::CopiesBalanced).unwrap();
        assert_eq!(finding.verdict, Verdict::Fail, "{}", finding.says);
        assert!(finding.says.contains("is predicated on %p9999, which no instruction"), "{}", finding.says);
        assert!(finding.evidence[0].excerpt.contains("dma.done.wait"), "{:?}", finding.evidence);
    }
    // A predicate that depends on data is written, but what it is nobody knows: a proof from the text is none
    // of this.
    let edited = text.replacen(" = dma.done.wait ", " = dma.done.wait (%p7777_p1), ", 1);
    let edited = edited.replacen("0x1   :  {", "0x1   :  { %p7777_p1 = vpop.sfrf %1 ;; ", 1);
    let findings = findings_of(&[(PACKED, &edited), ("mosaic.mlir", &mosaic)]);
    assert_eq!(verdict(&findings, CheckId::CopiesBalanced), Verdict::Obscured);
}

/// A sound listing beside one that is not.
#[test]
fn a_second_listing_is_neither_hidden_nor_merged() {
    let sound = load("512-qb128-aligned-v3-tpu7x", PACKED);
    let (racy, last) = (load("../defects/late-wait-w", PACKED), load("512-qb128-aligned-v3-tpu7x", FINAL));
    let f32_product = last.replacen("vmatmul.mubr.f8e4m3fn", "vmatmul.mubr.f32", 1);
    for names in [["a.txt", "b.txt"], ["b.txt", "a.txt"]] {
        let found = findings_of(&[(names[0], &sound), (names[1], &racy)]);
        assert_eq!(verdict(&found, CheckId::CopiesBalanced), Verdict::Fail, "{names:?}");
        let found = findings_of(&[(names[0], &sound), (names[1], &f32_product)]);
        assert_eq!(verdict(&found, CheckId::NoF32Matmul), Verdict::Fail, "{names:?}");
        // Whichever runs, nothing is proven where two kernels multiply.
        let other = load("2048-qb512-aligned-v3-tpu7x", PACKED);
        let sources = [(names[0], &sound), (names[1], &other)];
        let sources = sources.map(|(name, text)| Source { name, bytes: text.as_bytes() });
        let facts = Facts::gather(&sources);
        assert_eq!(facts.conflicts.len(), 1);
        assert!(facts.conflicts[0].to_string().contains("each define a kernel"), "{:?}", facts.conflicts);
        assert!(check(&facts, None).iter().all(|finding| finding.verdict != Verdict::Pass));
    }
    let stages = [(PACKED, sound.as_str()), (FINAL, &last)];
    let sources = stages.map(|(name, text)| Source { name, bytes: text.as_bytes() });
    assert!(Facts::gather(&sources).conflicts.is_empty(), "two stages of one kernel");
}

/// All of a shared semaphore is waited for before anything is read.
#[test]
fn a_shared_semaphore_that_is_waited_for_in_full_is_sound() {
    let findings = findings_of(&[("mosaic.mlir", &load("../sound/shared-semaphore", "mosaic.mlir"))]);
    assert_eq!(verdict(&findings, CheckId::CopiesBalanced), Verdict::Pass);
}

/// A listing whose DMAs, masks or addresses cannot be read proves nothing.
#[test]
fn what_a_listing_hides_is_not_taken_for_harmless() {
    let text = load("512-qb128-aligned-v3-tpu7x", PACKED);
    let edit = |from: &str, to: &str| {
        let edited = text.replace(from, to);
        assert_ne!(edited, text, "{from}");
        edited
    };
    let edits = [
        edit("/*vmem=*/%s", "/*vmem=*/%s99999"),
        edit("dma.hbm_to_vmem", "dma.general"),
        edit("/*size_in_granules=*/", "/*size=*/"),
        edit("sm:$0xff", "sm:$zz"),
        edit("/*dst_stride=*/", "/*dst_stride_1=*/"),
        edit("sld [smem:", "sld [[smem:"),
        edit(" = vsyncadd ", " = vsyncset "),
    ];
    for edited in edits {
        let findings = findings_of(&[(PACKED, &edited)]);
        let found = findings.iter().find(|finding| finding.check == CheckId::CopiesBalanced).unwrap();
        assert_eq!(found.verdict, Verdict::Obscured, "{}", found.says);
    }
}
