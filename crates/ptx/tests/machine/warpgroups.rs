//! What the warps of a warpgroup do together: products, and the handing over of registers.

use octile_ptx::simulate::{Fault, FaultKind};

use crate::{kernel, run_block};

/// Runs a body in three warpgroups, of which each thread has 168 registers: `%p6` is the last one, `%p7` the first warp of each.
fn run(body: &str) -> Result<(), Fault> {
    let who = "setp.ge.u32 %p6, %r2, 256;\nand.b32 %r5, %r2, 127;\nsetp.lt.u32 %p7, %r5, 32;";
    let text = kernel(&format!("{who}\n{body}"))
        .replace(".maxntid 256, 1, 1", ".maxntid 384, 1, 1\n.minnctapersm 1");
    run_block(384, &text).map(|_| ())
}

fn fault(body: &str) -> FaultKind {
    run(body).expect_err("the program is wrong").kind
}

/// The last warpgroup goes down to so many registers, the two others up.
fn handed_over(down: usize, up: usize) -> String {
    format!(
        "@%p6 bra L1;\nsetmaxnreg.inc.sync.aligned.u32 {up};\nbra L2;\nL1:\nsetmaxnreg.dec.sync.aligned.u32 {down};\nL2:"
    )
}

#[test]
fn registers_are_taken_from_those_who_give_some_back() {
    for (down, up) in [(88, 208), (40, 232), (24, 240), (160, 168), (168, 168)] {
        assert_eq!(run(&handed_over(down, up)), Ok(()), "{down} and {up}");
    }
    // What is left of the 64 Ki when 384 threads have been given 168 each belongs to no one.
    for (down, up) in [(96, 208), (48, 232), (40, 240), (168, 176)] {
        let FaultKind::Deadlock { waiting } = fault(&handed_over(down, up)) else {
            panic!("{down} and {up}: not a deadlock")
        };
        assert!(waiting.contains(&format!("`setmaxnreg.inc.sync.aligned.u32 {up}`")), "{waiting}");
    }
}

#[test]
fn registers_go_the_way_that_the_instruction_says() {
    assert_eq!(fault("setmaxnreg.dec.sync.aligned.u32 176;"), FaultKind::WrongDirection { has: 168 });
    assert_eq!(fault("setmaxnreg.inc.sync.aligned.u32 160;"), FaultKind::WrongDirection { has: 168 });
    // What was given back can be taken again.
    assert_eq!(run("setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 168;"), Ok(()));
}

#[test]
fn fewer_registers_for_more_threads() {
    let starts_with = |threads: usize, blocks: usize| {
        let text = kernel("setmaxnreg.inc.sync.aligned.u32 24;")
            .replace(".maxntid 256", &format!(".minnctapersm {blocks}\n.maxntid {threads}"));
        match run_block(128, &text).expect_err("24 are less").kind {
            FaultKind::WrongDirection { has } => has,
            other => panic!("{other}"),
        }
    };
    // As ptxas says.
    assert_eq!(
        [(256, 1), (288, 1), (384, 1)].map(|(threads, blocks)| starts_with(threads, blocks)),
        [256, 168, 168]
    );
    assert_eq!(
        [(416, 1), (512, 1), (384, 2)].map(|(threads, blocks)| starts_with(threads, blocks)),
        [128, 128, 80]
    );
}

const COMMIT: &str = "wgmma.commit_group.sync.aligned;";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;";

#[test]
fn all_warps_of_a_warpgroup_do_the_same() {
    assert_eq!(run(&format!("{COMMIT}\n{WAIT}\n@%p6 {COMMIT}")), Ok(()));
    let missing = |kind: FaultKind, text: &str| match kind {
        FaultKind::WarpgroupDiverged { text: missed, .. } => assert_eq!(format!("{missed};"), text),
        // Where the others have left before.
        other => assert_eq!(other, FaultKind::WarpgroupExited),
    };
    for line in ["wgmma.fence.sync.aligned;", COMMIT, WAIT, "setmaxnreg.dec.sync.aligned.u32 40;"] {
        let skipped = format!("@%p7 bra L1;\n{line}\nL1:");
        missing(fault(&skipped), line);
        missing(fault(&format!("{COMMIT}\n{skipped}")), line);
    }
    // The same one, but in another place.
    let elsewhere = format!("@%p7 bra L1;\n{COMMIT}\nbra L2;\nL1:\n{COMMIT}\nL2:");
    missing(fault(&elsewhere), COMMIT);
    // Twice as often.
    let more = fault(&format!(
        "mov.b32 %r6, 1;\n@%p7 mov.b32 %r6, 2;\nL1:\n{COMMIT}\nsub.u32 %r6, %r6, 1;\nsetp.ne.u32 %p2, %r6, 0;\n@%p2 bra L1;"
    ));
    missing(more, COMMIT);
}

#[test]
fn a_fault_names_what_the_others_do() {
    let fault = run(&format!("@%p7 bra L1;\n{COMMIT}\nL1:\n{WAIT}")).expect_err("a warp does not");
    let said = fault.to_string();
    assert!(said.contains("warpgroup diverged: another warp executes line "), "{said}");
    assert!(said.ends_with("which all four warps must execute"), "{said}");
}

#[test]
fn a_warpgroup_has_four_warps() {
    let run = |threads: usize| run_block(threads, &kernel(COMMIT));
    assert!(run(128).is_ok() && run(256).is_ok());
    let kind = |threads: usize| run(threads).expect_err("there are too few").kind;
    assert_eq!(
        (kind(64), kind(96)),
        (FaultKind::IncompleteWarpgroup { warps: 2 }, FaultKind::IncompleteWarpgroup { warps: 3 })
    );
    // The second of two.
    assert_eq!(kind(160), FaultKind::IncompleteWarpgroup { warps: 1 });
    let without_some = "setp.eq.u32 %p2, %r2, 40;\n@%p2 ret;\nwgmma.commit_group.sync.aligned;";
    let kind = run_block(128, &kernel(without_some)).expect_err("a thread is missing").kind;
    assert!(matches!(kind, FaultKind::WarpgroupExited | FaultKind::WarpgroupDiverged { .. }), "{kind}");
}
