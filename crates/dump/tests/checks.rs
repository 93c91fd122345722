//! Verdicts on real dumps, on damaged ones, and on what the guides write.

mod common;

use common::{FINAL, PACKED, cases, load, try_load};
use octile_core::{Strategy, device::tpu::TpuChip};
use octile_dump::{
    checks::{CheckId, Finding, Verdict, check, overall},
    facts::{Facts, FileKind, Origin, Source},
    llo::{Listing, SimOptions, simulate},
};

const EVERY_FILE: [&str; 6] = [
    PACKED,
    FINAL,
    "final_hlo-static-per-bundle-utilization.txt",
    "schedule-analysis.txt",
    "optimized.hlo.txt",
    "mosaic.mlir",
];

fn findings_of(files: &[(&str, &str)]) -> Vec<Finding> {
    let sources: Vec<_> = files.iter().map(|(name, text)| Source { name, bytes: text.as_bytes() }).collect();
    check(&Facts::gather(&sources), None)
}

fn on(case: &str, files: &[&str]) -> Vec<Finding> {
    let texts: Vec<_> = files.iter().filter_map(|file| Some((*file, try_load(case, file)?))).collect();
    let files: Vec<_> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    findings_of(&files)
}

fn verdict(findings: &[Finding], check: CheckId) -> Verdict {
    findings.iter().find(|finding| finding.check == check).unwrap().verdict
}

/// One letter per check, in the order of `CheckId::ALL`.
fn letters(findings: &[Finding]) -> String {
    let letter = |id: &CheckId| match verdict(findings, *id) {
        Verdict::Pass => 'P',
        Verdict::Fail => 'F',
        Verdict::NotObservable => '-',
        Verdict::Obscured => '!',
    };
    CheckId::ALL.iter().map(letter).collect()
}

//  native-fp8, no-f32-matmul, operands-in-hbm, async-copies, copies-balanced,
//  double-buffered, scales-staged, data-on-chip, no-spills, fits-on-chip
const VERDICTS: [(&str, &str); 10] = [
    // The bf16 variant gives up native fp8 by design.
    ("2048-qb128-bf16-strip-tpu7x", "FPPPPPPPPP"),
    ("2048-qb512-aligned-v1-tpu7x", "PPPPPPFPPP"),
    ("2048-qb512-aligned-v2-tpu7x", "PPPPPPFPPP"),
    ("2048-qb512-aligned-v3-tpu7x", "PPPPPPPPPP"),
    ("2048-qb512-strip-tpu7x", "PPPPPPPPFP"),
    // Operands in VMEM: the copies became loads and stores.
    ("512-qb128-aligned-v2-operands-prefetched-tpu7x", "PPFFPFFPPP"),
    ("512-qb128-aligned-v2-tpu7x", "PPPPPPFPPP"),
    // This chip widens fp8, and its dump does not state the VMEM limit.
    ("512-qb128-aligned-v2-v6e", "FPPPPPFPP-"),
    ("512-qb128-aligned-v3-operands-prefetched-tpu7x", "PPFFPFPPPP"),
    ("512-qb128-aligned-v3-tpu7x", "PPPPPPPPPP"),
];

#[test]
fn every_recorded_case_gets_its_verdicts() {
    assert_eq!(VERDICTS.map(|(case, _)| case.to_owned()).to_vec(), cases());
    for (case, expected) in VERDICTS {
        let findings = on(case, &EVERY_FILE);
        assert_eq!(letters(&findings), expected, "{case}: {findings:#?}");
        for finding in findings.iter().filter(|f| f.verdict == Verdict::Fail) {
            let evidence = finding.evidence.first().unwrap_or_else(|| panic!("{case} {}", finding.check));
            assert!(!evidence.excerpt.is_empty() && evidence.place.line > 0, "{case} {}", finding.check);
        }
    }
}

#[test]
fn the_order_of_files_does_not_matter() {
    for (case, expected) in VERDICTS {
        let mut files = EVERY_FILE;
        files.reverse();
        assert_eq!(letters(&on(case, &files)), expected, "{case}");
    }
}

#[test]
fn one_file_alone_proves_what_it_can() {
    let expect = |file: &str, expected: [(&str, &str); 3]| {
        for (case, expected) in expected {
            assert_eq!(letters(&on(case, &[file])), expected, "{case} {file}");
        }
    };
    let [v1, v2, v3] =
        ["2048-qb512-aligned-v1-tpu7x", "512-qb128-aligned-v2-tpu7x", "512-qb128-aligned-v3-tpu7x"];
    expect(PACKED, [(v1, "PPPPPPFPP-"), (v2, "PPPPPPFPP-"), (v3, "PPPPPPPPP-")]);
    // The final listing cannot be executed.
    expect(FINAL, [(v1, "PPP-----P-"), (v2, "PPP-----P-"), (v3, "PPP-----P-")]);
    // HLO holds the kernel as bytecode, and says where operands are and how much VMEM is used.
    expect("optimized.hlo.txt", [(v1, "--P------P"), (v2, "--P------P"), (v3, "--P------P")]);
    // Mosaic asks; whether operands stay in HBM it cannot promise.
    expect("mosaic.mlir", [(v1, "PP----FP--"), (v2, "PP-PPPFP--"), (v3, "PP-PPPPP--")]);
    expect("schedule-analysis.txt", [(v1, "----------"), (v2, "----------"), (v3, "----------")]);
}

#[test]
fn the_sync_word_of_a_copy_is_not_smem() {
    let text = load("512-qb128-aligned-v2-operands-prefetched-tpu7x", "optimized.hlo.txt");
    assert!(text.contains("u32[]{:S(2)}"));
    let findings = findings_of(&[("optimized.hlo.txt", &text)]);
    assert_eq!(verdict(&findings, CheckId::ScalesStaged), Verdict::NotObservable);
    assert_eq!(verdict(&findings, CheckId::OperandsInHbm), Verdict::Fail);
}

#[test]
fn strategies_ask_for_what_they_promise() {
    let case = |case: &str, strategy| overall(&on(case, &EVERY_FILE), CheckId::required(strategy));
    assert_eq!(case("2048-qb512-aligned-v1-tpu7x", Strategy::Auto), Verdict::Pass);
    assert_eq!(case("2048-qb512-aligned-v2-tpu7x", Strategy::Dma), Verdict::Pass);
    assert_eq!(case("2048-qb512-aligned-v2-tpu7x", Strategy::Smem), Verdict::Fail);
    assert_eq!(case("2048-qb512-aligned-v3-tpu7x", Strategy::Smem), Verdict::Pass);
    assert_eq!(case("2048-qb512-strip-tpu7x", Strategy::Strip), Verdict::Pass);
    assert_eq!(case("512-qb128-aligned-v2-operands-prefetched-tpu7x", Strategy::Dma), Verdict::Fail);
    assert_eq!(overall(&[], CheckId::required(Strategy::Auto)), Verdict::NotObservable);
    assert_eq!(overall(&on("512-qb128-aligned-v3-tpu7x", &EVERY_FILE), &[]), Verdict::NotObservable);
}

#[test]
fn a_chip_supplies_the_limit_that_the_dump_leaves_out() {
    let text = load("512-qb128-aligned-v2-v6e", "optimized.hlo.txt");
    let facts = Facts::gather(&[Source { name: "hlo", bytes: text.as_bytes() }]);
    let findings = check(&facts, Some(TpuChip::named("v6e").unwrap()));
    assert_eq!(verdict(&findings, CheckId::FitsOnChip), Verdict::Pass);
}

#[test]
fn nothing_in_nothing_out() {
    let binary: Vec<u8> = (0..=255).collect();
    let foreign = "#!/bin/sh\necho async-copy-start f8e4m3fn dot memory_space=2\n";
    let files: [(&[u8], FileKind); 5] = [
        (b"", FileKind::Empty),
        (b" \n\n", FileKind::Empty),
        (&binary, FileKind::Binary),
        (b"HloModule\0", FileKind::Binary),
        (foreign.as_bytes(), FileKind::Unknown),
    ];
    for (bytes, kind) in files {
        let facts = Facts::gather(&[Source { name: "file", bytes }]);
        assert_eq!(facts.files[0].kind, kind);
        let findings = check(&facts, None);
        assert_eq!(letters(&findings), "----------");
        for strategy in Strategy::ALL {
            assert_eq!(overall(&findings, CheckId::required(strategy)), Verdict::NotObservable);
        }
    }
}

/// Replaces text in the packed listing of the smem kernel and gives the verdicts of that listing alone.
fn with_listing(edit: impl Fn(&str) -> String) -> Vec<Finding> {
    let text = load("512-qb128-aligned-v3-tpu7x", PACKED);
    let edited = edit(&text);
    assert_ne!(text, edited, "the edit must change something");
    findings_of(&[(PACKED, &edited)])
}

/// Every listing that differs from `text` in that one instruction of this kind is gone.
fn each_without<'t>(text: &'t str, op: &str) -> Vec<String> {
    let instruction = format!(" = {op} ");
    let without = |(at, _): (usize, &'t str)| {
        let start = text[..at].rfind('%').unwrap();
        let end = start + text[start..].find(['}', ';']).unwrap();
        format!("{}%0 = smov 0 {}", &text[..start], &text[end..])
    };
    text.match_indices(&instruction).map(without).collect()
}

#[test]
fn a_wait_that_is_gone_is_found() {
    for case in ["512-qb128-aligned-v3-tpu7x", "2048-qb512-aligned-v1-tpu7x"] {
        let text = load(case, PACKED);
        // A wait is two instructions: one waits, one takes the copy off the semaphore.
        let (waits, counts) = (each_without(&text, "dma.done.wait"), each_without(&text, "vsyncadd"));
        assert!(waits.len() >= 4 && waits.len() == counts.len(), "{case}");
        for edited in waits.iter().chain(&counts) {
            let findings = findings_of(&[(PACKED, edited)]);
            let finding = findings.iter().find(|finding| finding.check == CheckId::CopiesBalanced).unwrap();
            assert_eq!(finding.verdict, Verdict::Fail, "{case}: {}", finding.says);
            assert!(!finding.evidence.is_empty());
        }
        for (number, edited) in counts.iter().enumerate() {
            let both = &each_without(edited, "dma.done.wait")[number];
            let findings = findings_of(&[(PACKED, both)]);
            assert_eq!(verdict(&findings, CheckId::CopiesBalanced), Verdict::Fail, "{case} {number}");
        }
    }
}

#[test]
fn seeded_damage_in_a_listing_is_found() {
    let f32_matmul = with_listing(|text| text.replacen("vmatmul.mubr.f8e4m3fn", "vmatmul.mubr.f32", 1));
    assert_eq!(verdict(&f32_matmul, CheckId::NoF32Matmul), Verdict::Fail);
    assert_eq!(verdict(&f32_matmul, CheckId::NativeFp8), Verdict::Fail);

    let scales_in_vmem = with_listing(|text| text.replace("dma.hbm_to_smem", "dma.hbm_to_vmem"));
    assert_eq!(verdict(&scales_in_vmem, CheckId::ScalesStaged), Verdict::Fail);

    let prefetched =
        with_listing(|text| text.replacen("inlined_call_operand.hbm", "inlined_call_operand.vmem", 1));
    assert_eq!(verdict(&prefetched, CheckId::OperandsInHbm), Verdict::Fail);

    let half = with_listing(|text| text[..text.len() / 2].to_owned());
    assert_eq!(verdict(&half, CheckId::CopiesBalanced), Verdict::Obscured);
    assert_eq!(verdict(&half, CheckId::DoubleBuffered), Verdict::Obscured);
    assert_ne!(overall(&half, CheckId::required(Strategy::Smem)), Verdict::Pass);
}

/// One register is spilled before the loop, another one in it.
#[test]
fn a_spilled_loop_is_found() {
    const ONCE: &str = "0x1   :  {";
    const IN_LOOP: &str = "0x1f5   : > {";
    let spilled = with_listing(|text| {
        assert!(text.contains(ONCE) && text.contains(IN_LOOP));
        let store =
            |slot: &str| format!(" %0 = vst [vmem:[#{slot}_spill] sm:$0xff] /*vst_source=*/%v1_v0  ;; ");
        let reload = " %v2_v1 = vld [vmem:[#allocation99_spill] sm:$0xff]  ;; ";
        let text = text.replacen(ONCE, &format!("{ONCE}{}", store("allocation98")), 1);
        text.replacen(IN_LOOP, &format!("{IN_LOOP}{}{reload}", store("allocation99")), 1)
    });
    let finding = spilled.iter().find(|f| f.check == CheckId::NoSpills).unwrap();
    assert_eq!(finding.verdict, Verdict::Fail);
    assert_eq!(finding.says, "3 stores and reloads of spilled vector registers, executed 129 times");
    assert!(finding.evidence[0].excerpt.contains("#allocation99_spill"), "{:?}", finding.evidence);
}

/// Both buffers at the same address: every copy overwrites what is being multiplied.
#[test]
fn a_single_buffer_is_found() {
    const SLOT: &str = "scalar_lea.vmem [#allocation2], ";
    let single = with_listing(|text| {
        let mut parts = text.split(SLOT);
        let mut edited = parts.next().unwrap().to_owned();
        for part in parts {
            let offset = part.find([' ', '\n']).unwrap();
            edited += &format!("{SLOT}0{}", &part[offset..]);
        }
        edited
    });
    assert_eq!(verdict(&single, CheckId::DoubleBuffered), Verdict::Fail);
    let finding = single.iter().find(|f| f.check == CheckId::DoubleBuffered).unwrap();
    assert_eq!(finding.says, "operand 0 is copied 64 times into one place, so no copy can run ahead");
    assert!(finding.evidence[0].excerpt.contains("dma.hbm_to_vmem"));
}

#[test]
fn seeded_damage_in_mosaic_text_is_found() {
    let text = load("512-qb128-aligned-v3-tpu7x", "mosaic.mlir");
    let with = |edited: String| {
        assert_ne!(text, edited);
        findings_of(&[("mosaic.mlir", &edited)])
    };
    let f32_matmul = with(text.replace("f8E4M3FN", "f32"));
    assert_eq!(verdict(&f32_matmul, CheckId::NoF32Matmul), Verdict::Fail);
    // A matmul that spells other types than its operands have is no valid Mosaic, and proves nothing.
    let contradicting = with(text.replace(
        "vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> ->",
        "vector<128x128xf32>, vector<128x128xf32>, vector<128x128xf32> ->",
    ));
    assert!(contradicting.iter().all(|finding| finding.verdict != Verdict::Pass));
    assert_eq!(verdict(&contradicting, CheckId::NoF32Matmul), Verdict::Obscured);
    let single = with(text.replace("memref<2x128x128xf8E4M3FN", "memref<1x128x128xf8E4M3FN"));
    assert_eq!(verdict(&single, CheckId::DoubleBuffered), Verdict::Fail);
    let in_vmem = with(text.replace("f32, #tpu.memory_space<smem>", "f32, #tpu.memory_space<vmem>"));
    assert_eq!(verdict(&in_vmem, CheckId::ScalesStaged), Verdict::Fail);
    let waits: Vec<_> = text.lines().filter(|line| line.contains("tpu.wait_dma2")).collect();
    assert_eq!(waits.len(), 7);
    for wait in &waits {
        let without_it = with(text.replacen(wait, "", 1));
        assert_eq!(verdict(&without_it, CheckId::CopiesBalanced), Verdict::Fail, "{wait}");
    }
}

#[test]
fn known_defects_of_kernels_are_found_in_their_text() {
    let balanced = |name: &str| verdict(&on(name, &["kernel.mlir"]), CheckId::CopiesBalanced);
    assert_eq!(balanced("../defects/no-wait-w"), Verdict::Fail);
    assert_eq!(balanced("../defects/no-wait-out"), Verdict::Fail);
    assert_eq!(balanced("../defects/same-slot"), Verdict::Fail);
    let same_slot = on("../defects/same-slot", &["kernel.mlir"]);
    let finding = same_slot.iter().find(|finding| finding.check == CheckId::DoubleBuffered).unwrap();
    assert_eq!(finding.verdict, Verdict::Fail);
    assert!(finding.says.contains("where a copy of it is still on its way to"), "{}", finding.says);
}

#[test]
fn the_guides_own_notation_gets_the_verdicts_they_promise() {
    let v3 = "\
%x_hbm = f8e4m3fn[2048,2048]{1,0} parameter(0), metadata={...}, memory_space=0
%w_q_hbm = f8e4m3fn[4096,2048]{1,0} parameter(1), metadata={...}, memory_space=0
%w_scale_hbm = f32[8,4]{1,0} parameter(2), memory_space=0

%x_x2_vmem = f8e4m3fn[2,512,512]{2,1,0} scratch, memory_space=1
%w_q_x2_vmem = f8e4m3fn[2,512,512]{2,1,0} scratch, memory_space=1
%out_x2_vmem = bf16[2,512,512]{2,1,0} scratch, memory_space=1
%w_scale_x2_smem = f32[2,1,1]{2,1,0} scratch, memory_space=2

%async-copy-start.1 = (f8e4m3fn[512,512]{1,0}, u32[], ...) async-copy-start(
  f8e4m3fn[2048,2048]{1,0} %x_hbm,
  ...
), memory_space=1
%async-copy-done.1 = f8e4m3fn[512,512]{1,0} async-copy-done(
  (f8e4m3fn[512,512]{1,0}, u32[], ...) %async-copy-start.1
)
%async-copy-start.scale = (...) async-copy-start(
  f32[1,1]{1,0} %w_scale_hbm,
  ...
), memory_space=2  # Destination is SMEM
%async-copy-done.scale = f32[1,1]{1,0} async-copy-done(%async-copy-start.scale)

%dot = f8e4m3fn[...] dot(
  f8e4m3fn[...] %lhs,
  f8e4m3fn[...] %rhs
)
";
    let letters_of = |text: &str| letters(&findings_of(&[("v3_smem_scales_hlo.txt", text)]));
    assert_eq!(letters_of(v3), "PPPPPPPP--");
    let edit = |from: &str, to: &str| {
        assert!(v3.contains(from), "{from}");
        letters_of(&v3.replace(from, to))
    };
    // Each red flag of the guides.
    assert_eq!(
        edit("{1,0} parameter(0), metadata={...}, memory_space=0", "{1,0} parameter(0)"),
        "PPFPPPPP--"
    );
    assert_eq!(edit("(%async-copy-start.scale)", "(%other)"), "PPPPFPPP--");
    assert_eq!(
        edit("f32[2,1,1]{2,1,0} scratch, memory_space=2", "f32[2,1,1]{2,1,0} scratch, memory_space=1"),
        "PPPPPPFP--"
    );
    assert_eq!(edit("[2,512,512]", "[512,512]"), "PPPPPFPP--");
    assert_eq!(edit("f8e4m3fn[...]", "f32[...]"), "FFPPPPPP--");
    let no_copies: String = v3.split("%async").next().unwrap().to_owned();
    assert_eq!(letters_of(&no_copies), "--PF--PP--");
}

/// HLO from before code generation states the limit, but not what the kernel uses of it.
#[test]
fn memory_is_summed_up_where_the_compiler_does_not_state_it() {
    for (case, _) in VERDICTS {
        let hlo = load(case, "optimized.hlo.txt");
        let stated = Facts::gather(&[Source { name: "hlo", bytes: hlo.as_bytes() }]).vmem.unwrap();
        assert_eq!(stated.origin, Origin::Stated, "{case}");
        let early = without_used_memory(&hlo);
        let mosaic = load(case, "mosaic.mlir");
        let files = [("hlo", early.as_str()), ("mosaic.mlir", mosaic.as_str())];
        let sources = files.map(|(name, text)| Source { name, bytes: text.as_bytes() });
        let declared = Facts::gather(&sources).vmem.unwrap();
        assert_eq!((declared.origin, declared.evidence.file.as_str()), (Origin::Declared, "mosaic.mlir"));
        assert_eq!(declared.limit, stated.limit, "{case}");
        // Spills come on top; a window that never moves has no second copy.
        let ratio = declared.used as f64 / stated.used as f64;
        assert!((0.99..1.5).contains(&ratio), "{case}: {} of {}", declared.used, stated.used);
        let chip = Some(TpuChip::named("tpu7x").unwrap());
        let fits = |files: &[(&str, &str)]| {
            let sources = files.iter().map(|(name, text)| Source { name, bytes: text.as_bytes() });
            let findings = check(&Facts::gather(&sources.collect::<Vec<_>>()), chip);
            findings.into_iter().find(|finding| finding.check == CheckId::FitsOnChip).unwrap()
        };
        assert_eq!(fits(&files).verdict, Verdict::Pass, "{case}");
        assert!(fits(&files).says.contains("in the buffers that the kernel declares"), "{case}");
        assert_eq!(fits(&files[..1]).verdict, Verdict::NotObservable, "{case}");
        assert!(fits(&files[..1]).says.contains("HLO from after code generation"), "{case}");
    }
}

#[test]
fn buffers_that_do_not_fit_are_found() {
    let text = load("512-qb128-aligned-v3-tpu7x", "mosaic.mlir");
    let chip = Some(TpuChip::named("tpu7x").unwrap());
    let says = |from: &str, to: &str| {
        let edited = text.replace(from, to);
        assert_ne!(edited, text, "{from}");
        let facts = Facts::gather(&[Source { name: "mosaic.mlir", bytes: edited.as_bytes() }]);
        let findings = check(&facts, chip);
        assert_eq!(verdict(&findings, CheckId::FitsOnChip), Verdict::Fail, "{findings:#?}");
        findings.into_iter().find(|finding| finding.check == CheckId::FitsOnChip).unwrap().says
    };
    let vmem = says("memref<2x128x128xf8E4M3FN", "memref<2048x128x128xf8E4M3FN");
    assert!(vmem.contains("bytes of VMEM") && vmem.contains("where 33554432 are allowed"), "{vmem}");
    let smem =
        says("memref<2x1x1xf32, #tpu.memory_space<smem>", "memref<4096x1x1xf32, #tpu.memory_space<smem>");
    assert!(smem.contains("bytes of SMEM") && smem.contains("where 1048576 are allowed"), "{smem}");
}

fn without_used_memory(hlo: &str) -> String {
    const USED: &str = "\"used_scoped_memory_configs\":[";
    let mut parts = hlo.split(USED);
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        text += USED;
        text += &part[part.find(']').unwrap()..];
    }
    text
}

/// Their semaphores are numbered by a loop, so that the same one has several names in the text.
#[test]
fn semaphores_with_computed_numbers_are_balanced() {
    const CASE: &str = "../fresh/8x1024x1024-qb128-large-strip-tpu7x";
    let findings = on(CASE, &EVERY_FILE);
    assert_eq!(letters(&findings), "PPPPPPPPPP", "{findings:#?}");
    assert_eq!(letters(&on(CASE, &["mosaic.mlir"])), "PP-PPPPP--");
    // Six of them take turns, by a division that gives both its results. Scales of tokens are vectors in VMEM.
    let findings = on("../fresh/1x700x900-qb128-token-strip-v5e", &EVERY_FILE);
    assert_eq!(letters(&findings), "FPPPPPFPPP", "{findings:#?}");
}

/// Two cores of this chip share a kernel, and the code asks which of them executes it.
#[test]
fn a_kernel_for_two_cores_is_executed_on_both() {
    for version in ["v1", "v2", "v4"] {
        let case = format!("../fresh/512-qb128-aligned-{version}-v5p");
        let text = load(&case, PACKED);
        let listing = Listing::parse(&text);
        assert!(listing.asks_for_core(), "{case}");
        let run = |core: u32| simulate(&listing, &SimOptions { core, ..SimOptions::default() }).unwrap();
        let work = [0, 1].map(|core| run(core).units.mxu);
        // Steps of a parallel grid are shared out; else the second core has nothing to do.
        assert_eq!(work[1], if version == "v2" { 0 } else { work[0] }, "{case}");

        let findings = on(&case, &EVERY_FILE);
        // This chip widens 8-bit floats.
        let scales = if version == "v4" { 'P' } else { 'F' };
        assert_eq!(letters(&findings), format!("FPPPPP{scales}PPP"), "{case}: {findings:#?}");
        for edited in each_without(&text, "dma.done.wait") {
            let findings = findings_of(&[(PACKED, &edited)]);
            assert_eq!(verdict(&findings, CheckId::CopiesBalanced), Verdict::Fail, "{case}");
        }
    }
}

/// One bundle issues after a branch of this chip, where later ones have four or six.
#[test]
fn a_chip_with_one_delay_slot_is_executed_as_it_is() {
    for (version, scales) in [("v1", 'F'), ("v2", 'F'), ("v4", 'P')] {
        let case = format!("../fresh/512-qb128-bf16-plain-{version}-v4");
        let text = load(&case, PACKED);
        let options = SimOptions { granule_bytes: 512, ..SimOptions::default() };
        let run = simulate(&Listing::parse(&text), &options).unwrap();
        assert_eq!(run.branch_delay, 1);
        // Every row and column of blocks is fetched at least once: x as bf16, the weight in one byte.
        let fetched = run.dma_bytes("hbm_to_vmem");
        assert!((3 * 512 * 512..30 * 512 * 512).contains(&fetched), "{version}: {fetched}");
        let findings = on(&case, &EVERY_FILE);
        // Activations that are not quantized are multiplied as bf16, and vectors are spilled.
        assert_eq!(letters(&findings), format!("FPPPPP{scales}PFP"), "{case}: {findings:#?}");
    }
}

#[test]
fn a_copy_that_is_counted_twice_is_found() {
    let text = load("../fresh/512-qb128-bf16-plain-v2-v4", PACKED);
    // The last copy, awaited and taken off once too often.
    let twice = |text: String, op: &str| {
        let at = text.rfind(op).unwrap();
        let start = text[..at].rfind('%').unwrap();
        let end = at + text[at..].find([';', '}']).unwrap();
        format!("{} ;; {}", &text[..end], &text[start..])
    };
    let text = twice(twice(text, "= dma.done.wait"), "= vsyncadd");
    let findings = findings_of(&[(PACKED, &text)]);
    let found = findings.iter().find(|finding| finding.check == CheckId::CopiesBalanced).unwrap();
    assert_eq!(found.verdict, Verdict::Fail, "{found:#?}");
    assert!(found.says.ends_with("128 granules below zero: more was subtracted than copied"), "{found:#?}");
}
