//! Dead code does not count, and scalar matmuls are found.

mod common;

use common::try_load;
use octile_dump::{
    checks::{CheckId, Finding, Verdict, check},
    facts::{Facts, Source},
    gpu::Code,
};

fn ptx() -> String {
    try_load("../gpu", "dma.ptx").unwrap()
}

fn find(files: &[(&str, &str)], id: CheckId) -> Finding {
    let sources: Vec<_> = files.iter().map(|(name, text)| Source { name, bytes: text.as_bytes() }).collect();
    check(&Facts::gather(&sources), None).into_iter().find(|finding| finding.check == id).unwrap()
}

fn native(text: &str) -> Finding {
    find(&[("kernel.ptx", text)], CheckId::NativeFp8)
}

/// The kernel with more lines at its start, and every wgmma under a guard.
fn guarded(guard: &str, setup: &str) -> String {
    let text =
        ptx().replace("\tmov.u32 %r1, shared_memory;\n", &format!("{setup}\tmov.u32 %r1, shared_memory;\n"));
    text.replace("\twgmma.mma_async", &format!("\t{guard} wgmma.mma_async"))
}

#[test]
fn recorded_kernels_have_live_wgmmas_and_no_scalar_matmul() {
    for text in [ptx(), try_load("../gpu", "strip128.ptx").unwrap()] {
        let facts = Facts::gather(&[Source { name: "kernel.ptx", bytes: text.as_bytes() }]);
        assert_eq!((&facts.invalid[..], &facts.unexecuted[..]), (&[][..], &[][..]));
        assert_eq!(facts.scalar_products, []);
        assert_eq!(native(&text).verdict, Verdict::Pass);
    }
}

#[test]
fn mma_under_a_false_predicate_does_not_count() {
    let cases = [
        ("@%pz", "\tsetp.ne.u32 %pz, 1, 1;\n"),
        ("@%pz", "\tsetp.eq.u32 %pz, 0, 1;\n"),
        ("@!%pz", "\tsetp.eq.s32 %pz, 7, 7;\n"),
        ("@%pz", "\tmov.pred %pz, 0;\n"),
        ("@%pz", "\tmov.b32 %rz, 5;\n\tmov.b32 %ry, %rz;\n\tsetp.gt.u32 %pz, %rz, %ry;\n"),
        ("@%pz", "\tmov.u32 %rz, %tid.x;\n\tsetp.ge.u32 %pz, %rz, 384;\n"),
        ("@%pz", "\tmov.u32 %rz, %tid.x;\n\tshr.u32 %ry, %rz, 5;\n\tsetp.gt.u32 %pz, %ry, 31;\n"),
        ("@%pz", "\tld.param.u32 %rz, [m];\n\tsetp.lt.u32 %pz, %rz, 0;\n"),
        ("@%pz", "\tld.param.u32 %rz, [m];\n\tsetp.ne.u32 %pz, %rz, %rz;\n"),
        (
            "@%pz",
            "\tld.param.u32 %rz, [m];\n\tsetp.eq.u32 %pa, %rz, 3;\n\tnot.pred %pb, %pa;\n\
             \tand.pred %pz, %pa, %pb;\n",
        ),
        (
            "@%pz",
            "\tld.param.u32 %rz, [m];\n\tsetp.lt.u32 %pa, %rz, 9;\n\tsetp.ge.u32 %pb, %rz, 9;\n\
             \tand.pred %pz, %pa, %pb;\n",
        ),
        ("@%pz", "\tmov.s32 %rz, 0;\n\tsetp.ne.s32 %pz, %rz, 0;\n"),
        ("@%pz", "\tmov.s32 %rz, -3;\n\tsetp.gt.s32 %pz, %rz, -2;\n"),
        ("@%pz", "\tmov.u32 %rz, %ctaid.x;\n\txor.b32 %ry, %rz, %rz;\n\tsetp.ne.u32 %pz, %ry, 0;\n"),
        ("@%pz", "\tmov.u32 %rz, %ctaid.x;\n\tsub.s32 %ry, %rz, %rz;\n\tsetp.ne.u32 %pz, %ry, 0;\n"),
        ("@%pz", "\tmov.u32 %rz, %ctaid.x;\n\tmov.u32 %ry, %rz;\n\tsetp.ne.u32 %pz, %rz, %ry;\n"),
        ("@%pz", "\tsetp.eq.u32 %pa, 1, 2;\n\tselp.u32 %rz, 1, 0, %pa;\n\tsetp.ne.u32 %pz, %rz, 0;\n"),
        ("@%pz", "\tsetp.eq.u32 %pa|%pz, %tid.x, %tid.x;\n"),
        ("@%pz", "\tsetp.eq.u32 _|%pz, %tid.x, %tid.x;\n"),
        ("@%pz", "\tsetp.lt.f32 %pz, 0f3F800000, 0f00000000;\n"),
        ("@%pz", "\tmov.f32 %fz, 0f3F800000;\n\tsetp.lt.f32 %pz, %fz, 0f00000000;\n"),
        ("@%pz", "\tsetp.ne.f64 %pz, 0d0000000000000000, 0d8000000000000000;\n"),
        ("@%pz", "\tsetp.ne.u32 %pz, %tid.z, 0;\n"),
        ("@%pz", "\tsetp.gt.u32 %pz, %tid.y, 0;\n"),
        ("@%pz", "\tsetp.gt.u32 %pz, %ntid.x, 384;\n"),
        ("@%pz", "\tsetp.eq.u32 %pz, %ntid.x, 0;\n"),
        ("@%pz", "\tsetp.gt.u32 %pz, %warpid, 4096;\n"),
        ("@%pz", "\tpopc.b32 %rz, %ctaid.x;\n\tsetp.gt.u32 %pz, %rz, 32;\n"),
        ("@%pz", "\tbfe.u32 %rz, %ctaid.x, 4, 0;\n\tsetp.ne.u32 %pz, %rz, 0;\n"),
        ("@%pz", "\tshl.b32 %rz, %ctaid.x, 1;\n\tand.b32 %ry, %rz, 1;\n\tsetp.eq.u32 %pz, %ry, 1;\n"),
        ("@%pz", "\tmul.lo.u32 %rz, %ctaid.x, 6;\n\tsetp.eq.u32 %pz, %rz, 7;\n"),
        (
            "@%pz",
            "\tmov.u32 %rz, %ctaid.x;\n\tsetp.eq.u32 %pa, %rz, 1;\n\tsetp.eq.u32 %pb, %rz, 2;\n\
             \tand.pred %pz, %pa, %pb;\n",
        ),
        ("@%pz", "\tld.param.u32 %rz, [m];\n\tsetp.eq.u32 %pa, 1, 2;\n\tsetp.lt.and.u32 %pz, %rz, 9, %pa;\n"),
    ];
    for (guard, setup) in cases {
        let found = native(&guarded(guard, setup));
        assert_eq!(found.verdict, Verdict::Fail, "{setup}: {}", found.says);
        assert!(found.says.contains("is never executed: its predicate"), "{}", found.says);
        assert!(found.evidence[0].excerpt.contains("wgmma"), "{:?}", found.evidence);
        // The same for a branch around the MMA.
        let negated = if guard == "@%pz" { "@!%pz" } else { "@%pz" };
        let branch = guarded("", &format!("{setup}\t{negated} bra Lend;\n"));
        let found = native(&branch.replace("\tret;\n", "Lend:\n\tret;\n"));
        assert_eq!(found.verdict, Verdict::Fail, "{setup}: {}", found.says);
    }
    // A branch that may go either way leaves the MMA live.
    let undecided = [
        "\tmov.u32 %rz, %ctaid.x;\n\tsub.s32 %ry, %rz, 1;\n\tsetp.lt.s32 %pz, %ry, 0;\n",
        "\tld.param.u32 %rz, [m];\n\tsub.u32 %ry, %rz, 1;\n\tsetp.gt.u32 %pz, %ry, %rz;\n",
        "\tld.param.u32 %rz, [m];\n\tneg.s32 %ry, %rz;\n\tsetp.lt.s32 %pz, %ry, -5;\n",
        "\tmul.lo.u32 %rz, %ctaid.x, 6;\n\tsetp.eq.u32 %pz, %rz, 12;\n",
        "\tld.param.u32 %rz, [m];\n\tcvt.s64.s32 %ry, %rz;\n\tsetp.lt.s64 %pz, %ry, 0;\n",
        "\tld.param.f32 %fz, [m];\n\tsetp.ne.f32 %pz, %fz, %fz;\n",
        "\tld.param.u32 %rz, [m];\n\tadd.u32 %ry, %rz, 16;\n\tsetp.eq.u32 %pz, %ry, 3;\n",
    ];
    for setup in undecided {
        let branch = guarded("", &format!("{setup}\t@!%pz bra Lend;\n"));
        let found = native(&branch.replace("\tret;\n", "Lend:\n\tret;\n"));
        assert_eq!(found.verdict, Verdict::Pass, "{setup}: {}", found.says);
    }
    // An MMA under an undecided guard is not proven to execute.
    let sometimes = [
        ("@%pz", "\tld.param.u32 %rz, [m];\n\tsetp.lt.u32 %pz, %rz, 9;\n"),
        ("@%pz", "\tmov.u32 %rz, %tid.x;\n\tsetp.ge.u32 %pz, %rz, 128;\n"),
    ];
    for (guard, setup) in sometimes {
        let found = native(&guarded(guard, setup));
        assert_eq!(found.verdict, Verdict::Obscured, "{setup}");
        assert!(
            found.says.contains("is executed only if %pz holds, which cannot be decided"),
            "{}",
            found.says
        );
    }
    assert_eq!(native(&guarded("@!%pz", "\tsetp.ne.u32 %pz, 1, 1;\n")).verdict, Verdict::Pass);
    let waits = ptx().replace(
        "\tmov.u32 %r1, shared_memory;\n",
        "\tsetp.eq.u32 %pz, %tid.x, 0;\n\tmov.u32 %r1, shared_memory;\n",
    );
    let waits = waits.replace("\twgmma.wait_group", "\t@%pz wgmma.wait_group");
    assert_eq!(native(&waits).verdict, Verdict::Obscured);
}

#[test]
fn unreachable_mma_does_not_count() {
    let text = ptx();
    let before = "\twgmma.fence.sync.aligned;\n";
    assert!(text.contains(before));
    let returned = text.replace(before, &format!("\tret;\n{before}"));
    let jumped =
        text.replace(before, &format!("\tbra Lend;\n{before}")).replace("\tret;\n", "Lend:\n\tret;\n");
    let always = "\tsetp.eq.u32 %pz, 1, 1;\n\t@%pz bra Lend;\n";
    let decided = text.replace(before, &format!("{always}{before}")).replace("\tret;\n", "Lend:\n\tret;\n");
    for edited in [returned, jumped, decided] {
        let found = native(&edited);
        assert_eq!(found.verdict, Verdict::Fail, "{}", found.says);
        assert!(found.says.contains("is never executed: no path leads to it"), "{}", found.says);
    }
    // In a function without callers.
    let uncalled = text.replace(".visible .entry octile_dma_128x128_bf16(", ".func helper(");
    let uncalled = format!("{uncalled}\n.visible .entry real()\n{{\n\tret;\n}}\n");
    assert_eq!(native(&uncalled).verdict, Verdict::Fail);
}

#[test]
fn a_predicate_that_is_not_written_makes_the_code_invalid() {
    for id in [CheckId::NativeFp8, CheckId::AsyncCopies, CheckId::DoubleBuffered] {
        let waits = ptx().replace("@!%p1 bra", "@!%p9999 bra");
        let found = find(&[("kernel.ptx", &waits)], id);
        assert_eq!(found.verdict, Verdict::Fail, "{id}: {}", found.says);
        assert!(found.says.contains("predicated on %p9999, which is not written"), "{}", found.says);
    }
    let one_path =
        "\tsetp.eq.u32 %pa, %tid.x, 0;\n\t@%pa bra Lskip;\n\tsetp.eq.u32 %pz, %tid.x, 1;\nLskip:\n";
    let found = native(&guarded("@%pz", one_path));
    assert_eq!(found.verdict, Verdict::Fail, "{}", found.says);
    let both = one_path.replace("\t@%pa", "\tsetp.eq.u32 %pz, %tid.x, 2;\n\t@%pa");
    assert_eq!(native(&guarded("@%pz", &both)).verdict, Verdict::Obscured);
}

#[test]
fn values_behind_a_predicate_must_be_written() {
    let tid = "\tsetp.eq.u32 %pa, %tid.x, 0;\n";
    let undefined = [
        ("%pu", "\tand.pred %pz, %pu, %pv;\n"),
        ("%pu", "\tnot.pred %pz, %pu;\n"),
        ("%pu", "\tmov.pred %pz, %pu;\n"),
        ("%pu", "\tselp.u32 %ru, 1, 0, %pu;\n\tsetp.ne.u32 %pz, %ru, 0;\n"),
        ("%pu", "\tsetp.eq.and.u32 %pz, %tid.x, 0, %pu;\n"),
        ("%ru", "\tsetp.ne.u32 %pz, %ru, 0;\n"),
        ("%ru", "\tshl.b32 %rv, %ru, 3;\n\tpopc.b32 %rw, %rv;\n\tsetp.ne.u32 %pz, %rw, 0;\n"),
        ("named", "\t.reg .b32 named;\n\tsetp.ne.u32 %pz, named, 0;\n"),
        ("%pz", "\tsetp.eq.u32 %pa, %tid.x, 0;\n\t@%pa setp.eq.u32 %pz, %tid.x, 0;\n"),
        (
            "%pz",
            "\tsetp.eq.u32 %pa, %tid.x, 0;\n\t@%pa setp.eq.u32 %pz, %tid.x, 0;\n\
             \tsetp.eq.u32 %pa, %tid.x, 1;\n\t@!%pa setp.eq.u32 %pz, %tid.x, 0;\n",
        ),
    ];
    for (register, setup) in undefined {
        // The MMA is under the predicate, or a branch around it is.
        let branch = guarded("", setup).replacen("\t wgmma.mma", "\t@!%pz bra Lend;\n\twgmma.mma", 1);
        let branch = branch.replace("\tret;\n", "Lend:\n\tret;\n");
        for text in [guarded("@%pz", setup), branch] {
            let found = native(&text);
            assert_eq!(found.verdict, Verdict::Fail, "{setup}: {}", found.says);
            assert!(
                found.says.contains(&format!("{register}, which is not written on every")),
                "{}",
                found.says
            );
        }
    }
    let defined = [
        format!("{tid}\t@%pa setp.eq.u32 %pz, %tid.x, 0;\n\t@!%pa setp.eq.u32 %pz, %tid.x, 1;\n"),
        format!("{tid}\t@%pa mov.u32 %ru, 1;\n\t@%pa setp.eq.u32 %pb, %ru, %tid.x;\n\tmov.pred %pz, %pa;\n"),
    ];
    for setup in defined {
        assert_eq!(native(&guarded("@%pz", &setup)).verdict, Verdict::Obscured, "{setup}");
    }
    // An indirect branch reaches every label of its table.
    let table =
        "\tmov.u32 %ru, %ctaid.x;\n\tbrx.idx %ru, targets;\nLa:\n\tsetp.eq.u32 %pz, %tid.x, 0;\nLb:\n";
    assert_eq!(native(&guarded("@%pz", table)).verdict, Verdict::Fail);
}

#[test]
fn a_function_too_large_to_analyze_proves_nothing() {
    let mut setup = String::new();
    for number in 0..40_000 {
        setup += &format!("\tsetp.eq.u32 %q{number}, %tid.x, {number};\n\t@%q{number} bra Lend;\n");
    }
    let text = guarded("", &setup).replace("\tret;\n", "Lend:\n\tret;\n");
    let found = native(&text);
    assert_eq!(found.verdict, Verdict::Obscured, "{}", found.says);
    assert!(found.says.contains("too large to tell"), "{}", found.says);
}

#[test]
fn mismatched_brackets_are_damage() {
    for operands in ["{{{{{{", "{%r1, %r2], %rd1", "%r1)", &"{".repeat(1_000_000)] {
        let text = guarded("", &format!("\tmov.b32 {operands};\n"));
        let damage = Code::parse_ptx(&text).damage().to_vec();
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert_eq!(damage[0].what, "the brackets of this statement do not match");
    }
    assert_eq!(Code::parse_ptx(&ptx()).damage(), []);
}

#[test]
fn scalar_matmuls_are_found() {
    let text = ptx();
    let loads = "\tld.shared.f32 %fa, [%r1];\n\tld.shared.f32 %fb, [%r1+4];\n";
    let store = "\tst.shared.f32 [%r1], %fd;\n";
    let with = |lines: &str| {
        text.replace(
            "\twgmma.fence.sync.aligned;\n",
            &format!("{loads}{lines}{store}\twgmma.fence.sync.aligned;\n"),
        )
    };
    let products = [
        "\tfma.rn.f32 %fd, %fa, %fb, %fd;\n",
        "\tmul.rn.f32 %ft, %fa, %fb;\n\tadd.f32 %fd, %fd, %ft;\n",
        "\tmul.rn.f32 %ft, %fa, %fb;\n\tfma.rn.f32 %fd, %ft, 0f3F800000, %fd;\n",
        "\tmul.rn.f32 %ft, %fa, %fb;\n\tred.global.add.f32 [%rd1], %ft;\n",
        "\tadd.f32 %ft, %fa, %f65;\n\tfma.rn.f32 %fd, %ft, %fb, %fd;\n",
        "\tsetp.eq.u32 %pz, %tid.x, 0;\n\t@%pz mov.f32 %fa, %f65;\n\tfma.rn.f32 %fd, %fa, %fb, %fd;\n",
        "\tld.shared.u32 %ra, [%r1];\n\tld.shared.u32 %rb, [%r1+4];\n\tmad.lo.s32 %rd, %ra, %rb, %rd;\n",
        "\tld.shared.u32 %ra, [%r1];\n\tmul.lo.u32 %rb, %ra, %ra;\n\tadd.u32 %rd, %rd, %rb;\n",
        "\tcvt.rn.f16.f32 %ha, %fa;\n\tcvt.rn.f16.f32 %hb, %fb;\n\tfma.rn.f16 %hd, %ha, %hb, %hd;\n",
    ];
    for lines in products {
        for id in [CheckId::NativeFp8, CheckId::NoF32Matmul] {
            let found = find(&[("kernel.ptx", &with(lines))], id);
            assert_eq!(found.verdict, Verdict::Fail, "{lines}: {}", found.says);
            assert!(found.says.contains("without tensor cores"), "{}", found.says);
        }
    }
    // Multiplying two scales or scaling an accumulator is allowed.
    let scaled = native(&with("\tmul.rn.f32 %ft, %fa, %fb;\n\tfma.rn.f32 %f1, %f65, %ft, %f1;\n"));
    assert_eq!(scaled.verdict, Verdict::Pass, "{} {:?}", scaled.says, scaled.evidence);
}

#[test]
fn every_mma_instruction_counts() {
    let with = |line: &str| {
        ptx().replace("\twgmma.fence.sync.aligned;\n", &format!("{line}\twgmma.fence.sync.aligned;\n"))
    };
    let foreign = [
        ("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", "tf32"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "tf32"),
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", "bf16"),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", "bf16"),
    ];
    for (op, element) in foreign {
        let text = with(&format!("\t{op} {{%f1, %f2}}, {{%r1}}, {{%r1}}, {{%f1, %f2}};\n"));
        let found = native(&text);
        assert_eq!(found.verdict, Verdict::Fail, "{op}: {}", found.says);
        assert_eq!(found.says, format!("a product of {element} and {element}"));
        let expected = if element == "tf32" { Verdict::Fail } else { Verdict::Pass };
        assert_eq!(find(&[("kernel.ptx", &text)], CheckId::NoF32Matmul).verdict, expected, "{op}");
    }
}

#[test]
fn machine_code_must_have_the_mma_of_its_source() {
    let (ptx, sass) = (ptx(), try_load("../gpu", "dma.sass").unwrap());
    let verdict = |sass: &str| find(&[("k.ptx", &ptx), ("k.sass", sass)], CheckId::NativeFp8).verdict;
    assert_eq!(verdict(&sass), Verdict::Pass);
    assert_eq!(verdict(&sass.replace("QGMMA.64x128x32.F32.E4M3.E4M3", "FFMA")), Verdict::Fail);
    assert_eq!(
        verdict(&sass.replace("QGMMA.64x128x32.F32.E4M3.E4M3", "HGMMA.64x128x16.F32.BF16")),
        Verdict::Fail
    );
    assert_eq!(verdict(&sass.replacen("QGMMA.64x128x32.F32.E4M3.E4M3", "FFMA", 1)), Verdict::Fail);
    // Machine code alone is judged by its scalar multiply-adds.
    let alone = |sass: &str| find(&[("k.sass", sass)], CheckId::NativeFp8);
    assert_eq!(alone(&sass).verdict, Verdict::Pass);
    let (first, rest) = sass.split_at(sass.find("QGMMA").unwrap() + "QGMMA".len());
    let one_left = first.to_owned() + &rest.replace("QGMMA.64x128x32.F32.E4M3.E4M3", "FFMA");
    let found = alone(&one_left);
    assert_eq!(found.verdict, Verdict::Obscured, "{}", found.says);
    assert!(found.says.contains("scalar multiply-adds"), "{}", found.says);
    let never: String = sass.lines().map(|line| line.replace(" QGMMA", " @!PT QGMMA") + "\n").collect();
    assert_ne!(never, sass);
    assert_eq!(verdict(&never), Verdict::Fail);
    assert_eq!(Code::parse_sass(&sass).reach().len(), 1);
}

#[test]
fn two_kernels_that_multiply_are_a_conflict() {
    let (dma, strip) = (ptx(), try_load("../gpu", "strip128.ptx").unwrap());
    let listing = common::load("512-qb128-aligned-v3-tpu7x", common::PACKED);
    for other in [("b.ptx", strip.as_str()), ("b.txt", &listing)] {
        let sources =
            [("a.ptx", dma.as_str()), other].map(|(name, text)| Source { name, bytes: text.as_bytes() });
        let facts = Facts::gather(&sources);
        assert_eq!(facts.conflicts.len(), 1, "{:?}", facts.conflicts);
        assert!(check(&facts, None).iter().all(|finding| finding.verdict != Verdict::Pass), "{}", other.0);
    }
}
