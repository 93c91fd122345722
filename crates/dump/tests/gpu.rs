//! PTX and SASS of real kernels for sm_90a.

mod common;

use common::try_load;
use octile_dump::{
    checks::{CheckId, Finding, Verdict, check},
    compare::gpu_operations,
    facts::{Facts, FileKind, Source},
    gpu::Code,
};

fn load(file: &str) -> String {
    try_load("../gpu", file).unwrap()
}

#[test]
fn ptx_is_read() {
    for (kernel, name) in
        [("dma", "octile_dma_128x128_bf16"), ("strip128", "octile_strip_128x128_share_b_bf16")]
    {
        let text = load(&format!("{kernel}.ptx"));
        let code = Code::parse_ptx(&text);
        assert_eq!(code.damage(), [], "{kernel}");
        assert_eq!(code.target(), "sm_90a");
        let names: Vec<_> = code.functions().iter().map(|function| &*function.name).collect();
        assert_eq!(names, [name]);
        let wgmma = code.instructions().filter(|i| i.opcode.starts_with("wgmma.mma_async"));
        assert_eq!(wgmma.count(), 4, "{kernel}");
        // Every statement except directives and labels is an instruction.
        let statements =
            text.lines().map(str::trim).filter(|l| l.ends_with(';') && !l.starts_with('.')).count();
        assert_eq!(code.instructions().count(), statements, "{kernel}");
        assert!(code.instructions().any(|i| i.guard.is_some()));
    }
}

#[test]
fn sass_is_read() {
    for kernel in ["dma", "strip128"] {
        let text = load(&format!("{kernel}.sass"));
        let code = Code::parse_sass(&text);
        assert_eq!(code.damage(), [], "{kernel}");
        assert_eq!((code.target(), code.functions().len()), ("sm_90a", 1));
        let numbered =
            text.lines().filter(|line| line.trim_start().starts_with("/*") && line.contains(';')).count();
        assert_eq!(code.instructions().count(), numbered, "{kernel}");
        let qgmma = code.instructions().filter(|i| i.opcode == "QGMMA.64x128x32.F32.E4M3.E4M3");
        assert_eq!(qgmma.count(), 4, "{kernel}");
    }
}

#[test]
fn verdicts_on_gpu_code() {
    let verdicts = |name: &str, text: &str| {
        let facts = Facts::gather(&[Source { name, bytes: text.as_bytes() }]);
        let findings = check(&facts, None);
        let of = |id| findings.iter().find(|finding| finding.check == id).unwrap().verdict;
        let ids = [CheckId::NativeFp8, CheckId::NoF32Matmul, CheckId::AsyncCopies, CheckId::NoSpills];
        (facts.files[0].kind, ids.map(of))
    };
    use Verdict::{Fail, NotObservable, Pass};
    let sass = load("dma.sass");
    assert_eq!(verdicts("dma.sass", &sass), (FileKind::Sass, [Pass, Pass, Pass, Pass]));
    let ptx = load("dma.ptx");
    assert_eq!(verdicts("dma.ptx", &ptx), (FileKind::Ptx, [Pass, Pass, Pass, NotObservable]));
    let bf16 = sass.replace("QGMMA.64x128x32.F32.E4M3.E4M3", "HGMMA.64x128x16.F32.BF16");
    assert_eq!(verdicts("bf16", &bf16).1, [Fail, Pass, Pass, Pass]);
    let spilled = sass.replacen("FFMA", "STL [R1], ", 1);
    assert_ne!(sass, spilled);
    assert_eq!(verdicts("spilled", &spilled).1, [Pass, Pass, Pass, Fail]);
    let synchronous = sass.replace("UTMALDG", "LDG");
    assert_eq!(verdicts("synchronous", &synchronous).1[2], Fail);
    let cut = &synchronous[..synchronous.rfind("QGMMA").unwrap()];
    assert_eq!(verdicts("cut", cut).1[2], NotObservable, "what is missing may have been cut off");
}

#[test]
fn advice_on_gpu_code_uses_gpu_terms() {
    let sass = load("dma.sass");
    let facts = Facts::gather(&[Source { name: "dma.sass", bytes: sass.as_bytes() }]);
    for finding in check(&facts, None) {
        for tpu in ["VMEM", "SMEM", "tpu.", "vector memory"] {
            let said = format!("{} {}", finding.why, finding.remedy);
            assert!(!said.contains(tpu), "{}: {said}", finding.check);
        }
    }
}

#[test]
fn staged_scales_and_pipeline_stages() {
    let verdicts = |text: &str| {
        let facts = Facts::gather(&[Source { name: "kernel", bytes: text.as_bytes() }]);
        let findings = check(&facts, None);
        let of = |id| findings.iter().find(|finding| finding.check == id).unwrap().verdict;
        [CheckId::DoubleBuffered, CheckId::ScalesStaged, CheckId::DataOnChip, CheckId::FitsOnChip].map(of)
    };
    use Verdict::{Fail, NotObservable, Pass};
    for language in ["ptx", "sass"] {
        let (dma, strip) = (load(&format!("dma.{language}")), load(&format!("strip128.{language}")));
        assert_eq!(verdicts(&dma), [Pass, Fail, Pass, NotObservable], "{language}");
        assert_eq!(verdicts(&strip), [Pass, Pass, Pass, NotObservable], "{language}");
    }
    let sass = load("strip128.sass");
    let one_stage: String = sass
        .lines()
        .filter(|line| !line.contains("SYNCS.EXCH") || line.contains("+0x30c30]"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(verdicts(&one_stage)[0], Fail);
    // Barriers for other purposes: each is the only one with its arrival count.
    let barrier = one_stage.lines().find(|line| line.contains("SYNCS.EXCH")).unwrap();
    let (start, _) = barrier.rsplit_once(',').unwrap();
    let others = format!("{barrier}\n{start}, UR58 ;\n{start}, UR60 ;\n{start}, UR62 ;\n");
    assert_eq!(verdicts(&one_stage.replace(&format!("{barrier}\n"), &others))[0], Fail);
    let depth = |text: &str| {
        let facts = Facts::gather(&[Source { name: "kernel", bytes: text.as_bytes() }]);
        facts.copies.iter().find_map(|copy| copy.depth)
    };
    assert!(depth(&sass).is_some_and(|stages| stages > 2));
    assert_eq!(depth(&sass.replace(&format!("{barrier}\n"), &others)), depth(&sass));
    let bare = sass.replace("SYNCS.EXCH", "NOP").replace("LDGSTS", "LDG");
    assert_eq!(verdicts(&bare)[..2], [NotObservable, Fail]);
    let through_registers = sass.replace("UTMALDG", "LDG").replace("LDGSTS", "LDG");
    assert_eq!(verdicts(&through_registers)[..3], [NotObservable, Fail, NotObservable]);
}

#[test]
fn the_assembler_report_is_read() {
    let report = "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n\
                  ptxas info    : Function properties for k\n    \
                  0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
                  ptxas info    : Used 168 registers\n";
    let facts = Facts::gather(&[Source { name: "ptxas.txt", bytes: report.as_bytes() }]);
    assert_eq!((facts.files[0].kind, facts.files[0].damage.len()), (FileKind::Assembler, 0));
    assert_eq!(facts.assembler.unwrap().report.registers, 168);
    let half = Facts::gather(&[Source { name: "ptxas.txt", bytes: &report.as_bytes()[..90] }]);
    assert_eq!((half.files[0].kind, half.files[0].damage.len()), (FileKind::Assembler, 1));
}

/// Findings on the files of a kernel that is launched with this much shared memory.
fn findings(files: &[(&str, &str)], shared_bytes: Option<u64>) -> Vec<Finding> {
    let sources: Vec<_> = files.iter().map(|(name, text)| Source { name, bytes: text.as_bytes() }).collect();
    let mut facts = Facts::gather(&sources);
    facts.shared_bytes = shared_bytes;
    check(&facts, None)
}

fn of(findings: Vec<Finding>, id: CheckId) -> Finding {
    findings.into_iter().find(|finding| finding.check == id).unwrap()
}

fn report(registers: u64, spilled: u64) -> String {
    format!(
        "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n\
                  ptxas info    : Function properties for k\n    \
         0 bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads\n\
         ptxas info    : Used {registers} registers, used 1 barriers\n"
    )
}

#[test]
fn the_spill_line_is_the_evidence_for_no_spills() {
    let (sass, clean, spilling) = (load("dma.sass"), report(168, 0), report(168, 16));
    let no_spills = |files: &[(&str, &str)]| of(findings(files, None), CheckId::NoSpills);
    let line = |finding: &Finding| {
        finding.evidence.iter().map(|line| format!("{}:{}", line.file, line.place)).collect::<Vec<_>>()
    };
    let both = no_spills(&[("k.sass", &sass), ("ptxas.txt", &clean)]);
    assert_eq!((both.verdict, line(&both)), (Verdict::Pass, vec!["ptxas.txt:3:26".to_owned()]));
    assert!(both.evidence[0].excerpt.contains("0 bytes spill stores"), "{both:?}");
    let code = no_spills(&[("k.sass", &sass)]);
    assert_eq!((code.verdict, line(&code)), (Verdict::Pass, vec![]), "no line of many is the proof");
    assert!(code.says.contains("no STL or LDL in the SASS"), "{code:?}");
    // What is cut off may have spilled.
    let cut = &sass[..sass.rfind("QGMMA").unwrap()];
    assert_eq!(no_spills(&[("k.sass", cut)]).verdict, Verdict::NotObservable);
    assert_eq!(no_spills(&[("k.sass", cut), ("ptxas.txt", &clean)]).says, "ptxas reports no spills");
    let stated = no_spills(&[("k.sass", &sass), ("ptxas.txt", &spilling)]);
    assert_eq!((stated.verdict, line(&stated)), (Verdict::Fail, vec!["ptxas.txt:3:26".to_owned()]));
    let stored = sass.replacen("FFMA", "STL [R1], ", 1);
    let stored = no_spills(&[("k.sass", &stored), ("ptxas.txt", &clean)]);
    assert_eq!((stored.verdict, stored.evidence[0].file.as_str()), (Verdict::Fail, "k.sass"));
    assert!(stored.evidence[0].excerpt.contains("STL"), "{stored:?}");
}

#[test]
fn ctas_fit_on_an_sm_or_not() {
    use Verdict::{Fail, NotObservable, Pass};
    let ptx = load("dma.ptx");
    assert!(ptx.contains(".maxntid 384, 1, 1") && ptx.contains(".minnctapersm 1"), "the recorded kernel");
    let fits = |ptx: &str, report: &str, shared| {
        of(findings(&[("k.ptx", ptx), ("ptxas.txt", report)], shared), CheckId::FitsOnChip)
    };
    let found = fits(&ptx, &report(168, 0), Some(200_000));
    assert_eq!(
        (found.verdict, found.says.as_str()),
        (
            Pass,
            "1 CTA of 384 threads with 168 registers each takes 64512 of 65536 registers and 201024 of 233472 bytes of \
             shared memory"
        )
    );
    let excerpts: Vec<_> = found.evidence.iter().map(|line| line.excerpt.as_str()).collect();
    assert!(excerpts[0].contains("Used 168 registers") && excerpts[1].contains(".maxntid"), "{excerpts:?}");

    let verdict = |ptx: &str, registers, shared| fits(ptx, &report(registers, 0), shared).verdict;
    // Registers are allocated in units of eight.
    assert_eq!([168, 169].map(|registers| verdict(&ptx, registers, Some(0))), [Pass, Fail]);
    assert_eq!(verdict(&ptx, 168, None), NotObservable);
    assert_eq!(verdict(&ptx, 255, None), Fail, "whatever shared memory there is");
    assert_eq!([232_448, 232_449].map(|shared| verdict(&ptx, 168, Some(shared))), [Pass, Fail]);
    let two = ptx.replace(".minnctapersm 1", ".minnctapersm 2");
    assert_eq!([80, 88].map(|registers| verdict(&two, registers, Some(0))), [Pass, Fail]);
    assert_eq!([115_712, 115_713].map(|shared| verdict(&two, 80, Some(shared))), [Pass, Fail]);
    for unknown in [ptx.replace(".maxntid 384, 1, 1", ""), ptx.replace("sm_90a", "sm_80")] {
        assert_ne!(unknown, ptx);
        assert_eq!(verdict(&unknown, 168, Some(0)), NotObservable);
    }
    // Absurd declarations do not panic.
    let huge = ptx.replace("384, 1, 1", &format!("{0}, {0}, 1", u32::MAX));
    assert_eq!(verdict(&huge, u64::MAX, Some(u64::MAX)), Fail);
}

#[test]
fn checks_of_mma_do_not_apply_to_kernels_without_mma() {
    let (sass, account) = (load("dma.sass").replace("QGMMA", "FFMA"), report(168, 0));
    for files in [&[("k.sass", sass.as_str()), ("ptxas.txt", &account)][..], &[("ptxas.txt", &account)]] {
        for finding in findings(files, None) {
            let expected = match finding.check {
                CheckId::NoSpills => Verdict::Pass,
                _ => Verdict::NotObservable,
            };
            assert_eq!(finding.verdict, expected, "{finding:?}");
            assert!(!finding.says.contains("VMEM"), "{finding:?}");
        }
    }
}

#[test]
fn operations_of_two_kernels() {
    let (dma, strip) = (load("dma.sass"), load("strip128.sass"));
    let changes = gpu_operations(&Code::parse_sass(&dma), &Code::parse_sass(&strip));
    let of = |name: &str| changes.iter().find(|change| change.operation == name);
    assert_eq!(of("LDGSTS.E").map(|change| (change.before, change.after)), Some((0, 5)));
    assert!(of("QGMMA.64x128x32.F32.E4M3.E4M3").is_none(), "as many products in both");
}

#[test]
fn damage_has_a_position() {
    let cut =
        Code::parse_ptx(".version 8.3\n.target sm_90a\n.visible .entry f()\n{\n\tmov.u32 %r1, %r2;\n\tadd");
    let said: Vec<_> = cut.damage().iter().map(|damage| damage.to_string()).collect();
    assert_eq!(
        said,
        [
            "6:2: this instruction has no `;` at its end",
            "6:5: the file ends inside a function: it is truncated"
        ]
    );
    assert_eq!(Code::parse_ptx("").damage()[0].what, "there is no function in this file");
    let foreign = Code::parse_sass(".text.f:\n /*0000*/ NOP ;\nwhat is this\nand this\n");
    assert_eq!(foreign.damage().len(), 1);
    assert_eq!(foreign.damage()[0].to_string(), "3:1: this is not a line of a SASS listing");
    let table = Code::parse_ptx(".version 8.3\n.global .b8 t[2] = {1, 2};\n.entry f()\n{\nret;\n}\n");
    assert_eq!(table.damage(), []);
}

#[test]
fn a_truncated_listing_is_damaged() {
    for kernel in ["dma", "strip128"] {
        for (file, parse) in [
            (format!("{kernel}.sass"), (|text| Code::parse_sass(text).damage().len()) as fn(&str) -> usize),
            (format!("{kernel}.ptx"), |text| Code::parse_ptx(text).damage().len()),
        ] {
            let text = load(&file);
            for percent in [10, 50, 90] {
                // At the end of a line, so that no line is broken.
                let end = text[..text.len() * percent / 100].rfind('\n').unwrap() + 1;
                assert!(parse(&text[..end]) > 0, "{percent} % of {file}");
            }
        }
    }
}
