//! Small programs with one mistake each.

use octile_ptx::simulate::FaultKind;

use crate::{fault, kernel, run, run_in};

const STORE_OWN_WORD: &str = "st.shared.b32 [%r3+0], %r2;";
/// Thread 63's word, seen by thread 0.
const READ_LAST: &str = "ld.shared.b32 %r9, [%r1+252];\n@%p1 st.global.b32 [%rd1+0], %r9;";

#[test]
fn a_barrier_makes_stores_seen() {
    assert_eq!(run(&format!("{STORE_OWN_WORD}\nbar.sync 0;\n{READ_LAST}")), Ok(63));
}

#[test]
fn without_it_there_is_a_race() {
    let FaultKind::Race { offset, does, other, did } = fault(&format!("{STORE_OWN_WORD}\n{READ_LAST}"))
    else {
        panic!("not a race");
    };
    assert_eq!(offset, 252);
    assert!((does, did) == ("reads", "writes") || (does, did) == ("writes", "reads"));
    assert!(other.starts_with("warp "), "{other}");
}

#[test]
fn lanes_race_until_they_meet() {
    let read_neighbour =
        "xor.b32 %r8, %r3, 4;\nld.shared.b32 %r9, [%r8+0];\n@%p1 st.global.b32 [%rd1+0], %r9;";
    assert!(matches!(fault(&format!("{STORE_OWN_WORD}\n{read_neighbour}")), FaultKind::Race { .. }));
    assert_eq!(run(&format!("{STORE_OWN_WORD}\nbar.warp.sync -1;\n{read_neighbour}")), Ok(1));
}

#[test]
fn registers_have_a_value_before_they_are_used() {
    let kinds = [
        ("mov.b32 %r8, 7;", "add.u32 %r9, %r8, 0;\n@%p1 st.global.b32 [%rd1+0], %r9;"),
        ("mov.b64 %rd5, %rd1;", "mov.b32 %r9, 7;\n@%p1 st.global.b32 [%rd5+0], %r9;"),
        (
            "setp.eq.u32 %p5, 0, 0;",
            "mov.b32 %r9, 0;\n@%p5 mov.b32 %r9, 7;\n@%p1 st.global.b32 [%rd1+0], %r9;",
        ),
    ];
    for (writes, uses) in kinds {
        assert_eq!(run(&format!("{writes}\n{uses}")), Ok(7), "{writes}");
        assert_eq!(fault(uses), FaultKind::UninitializedRegister, "{writes}");
        // One lane is not enough for the others.
        assert_eq!(
            fault(&format!("setp.eq.u32 %p6, %r2, 5;\n@%p6 {writes}\n{uses}")),
            FaultKind::UninitializedRegister,
            "{writes}"
        );
    }
}

#[test]
fn a_barrier_in_memory_orders_too() {
    let body = |arrives: &str| {
        format!(
            "@%p1 mbarrier.init.shared::cta.b64 [%r1+512], 1;\nbar.sync 0;\n\
             setp.eq.u32 %p2, %r4, 1;\n@!%p2 bra L1;\n\
             st.shared.b32 [%r3+0], %r2;\nbar.warp.sync -1;\nsetp.eq.u32 %p3, %r2, 32;\n{arrives}\nbra L2;\n\
             L1:\nmov.u32 %r20, shared_memory;\n\
             L3:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%r1+512], 0;\n@!%p4 bra L3;\n{READ_LAST}\nL2:"
        )
    };
    let arrive = "@%p3 mbarrier.arrive.shared::cta.b64 _, [%r1+512];";
    assert_eq!(run(&body(arrive)), Ok(63));
    let FaultKind::Deadlock { waiting } = fault(&body("")) else { panic!("not a deadlock") };
    assert!(waiting.contains("[%r1+512], 0"), "{waiting}");
    let twice = format!(
        "{arrive}\n{}",
        arrive.replace("shared::cta.b64 _, [%r1+512]", "expect_tx.shared::cta.b64 _, [%r1+512], 16")
    );
    // The second arrival begins a phase, which is no mistake; a third one has no place in it.
    let thrice = format!("{twice}\n{arrive}");
    assert_eq!(fault(&body(&thrice)), FaultKind::TooManyArrivals { offset: 512 });
}

#[test]
fn stray_accesses() {
    assert_eq!(
        fault("st.shared.b32 [%r1+1024], %r2;"),
        FaultKind::OutsideShared { offset: 1024, bytes: 4, size: 1024 }
    );
    assert!(matches!(fault("st.global.b32 [%rd1+256], %r2;"), FaultKind::OutsideDevice { bytes: 4, .. }));
    assert!(matches!(
        fault("st.global.v2.b32 [%rd1+4], {%r1, %r2};"),
        FaultKind::Misaligned { alignment: 8, .. }
    ));
    assert_eq!(fault("mbarrier.arrive.shared::cta.b64 _, [%r1+8];"), FaultKind::NoBarrier { offset: 8 });
    assert_eq!(fault("bar.sync 16;"), FaultKind::NoNamedBarrier { id: 16 });
}

#[test]
fn offsets_may_be_negative() {
    let body = "add.u64 %rd2, %rd1, 64;\nadd.u64 %rd3, %rd2, -60;\n@%p1 st.global.b32 [%rd3+-4], 5;";
    assert_eq!(run(body), Ok(5));
}

#[test]
fn what_nobody_wrote_is_poison() {
    assert_eq!(run(READ_LAST), Ok(u32::MAX));
}

#[test]
fn the_kernel_before_is_waited_for() {
    let text = kernel("st.global.b32 [%rd1+0], %r2;");
    assert!(run_in(1, 1, &text).is_ok());
    let hasty = run_in(1, 1, &text.replace("griddepcontrol.wait;", "")).expect_err("it does not wait").kind;
    assert!(matches!(hasty, FaultKind::BeforePreviousKernel { .. }), "{hasty}");
}

#[test]
fn blocks_have_no_order_among_themselves() {
    let store =
        kernel("mov.u32 %r5, %ctaid.x;\nmad.wide.u32 %rd2, %r5, 4, %rd1;\n@%p1 st.global.b32 [%rd2+0], %r5;");
    assert!(run_in(3, 1, &store).is_ok());
    let same = run_in(3, 1, &store.replace("[%rd2+0]", "[%rd1+0]")).expect_err("all write one word").kind;
    assert!(matches!(same, FaultKind::DeviceRace { does: "writes", .. }), "{same}");
    let load = store.replace("[%rd2+0], %r5;", "[%rd2+0], %r5;\nld.global.b32 %r6, [%rd1+4];");
    let other = run_in(3, 1, &load).expect_err("all read what one writes");
    assert!(matches!(other.kind, FaultKind::DeviceRace { does: "reads", .. }), "{other}");
}

#[test]
fn half_a_warp_at_a_barrier_waits_for_ever() {
    let body = "setp.lt.u32 %p2, %r2, 16;\n@%p2 bra L1;\nbar.sync 0;\nbra L2;\nL1:\nL3:\nbra L3;\nL2:";
    assert!(matches!(fault(body), FaultKind::Deadlock { .. }));
}

#[test]
fn blocks_of_a_cluster() {
    // Block 0 stores into block 1, which hands on what it finds.
    let body = |barrier: &str| {
        format!(
            "mov.u32 %r5, %cluster_ctarank;\nsetp.eq.u32 %p2, %r5, 0;\nmapa.shared::cluster.u32 %r6, %r1, 1;\n\
             {barrier}\n@!%p2 bra L1;\n@%p1 mov.b32 %r7, 77;\n@!%p1 bra L1;\nst.shared::cluster.b32 [%r6+0], %r7;\nL1:\n\
             barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n\
             @%p2 bra L2;\nld.shared.b32 %r9, [%r1+0];\n@%p1 st.global.b32 [%rd1+0], %r9;\nL2:"
        )
    };
    let meet = "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;";
    assert_eq!(run_in(1, 2, &kernel(&body(meet))).map(|(word, _)| word), Ok(77));
    let early = run_in(1, 2, &kernel(&body(""))).expect_err("the other block may not have begun").kind;
    assert!(matches!(early, FaultKind::Race { .. }), "{early}");
    let twice = run_in(1, 2, &kernel("barrier.cluster.arrive.release;\nbarrier.cluster.arrive.release;"));
    assert_eq!(twice.expect_err("it does not wait").kind, FaultKind::ArrivesTwice);
    let stranger =
        run_in(1, 2, &kernel("mapa.shared::cluster.u32 %r6, %r1, 2;\nst.shared::cluster.b32 [%r6+0], %r2;"));
    assert_eq!(stranger.expect_err("there is no such block").kind, FaultKind::NoSuchCta { rank: 2, ctas: 2 });
}

#[test]
fn a_fault_names_the_line_and_the_thread() {
    let fault =
        run("setp.eq.u32 %p2, %r2, 40;\n@%p2 st.shared.b32 [%r1+2000], %r2;").expect_err("it is outside");
    assert_eq!((fault.cta, fault.thread), (0, 40));
    assert_eq!(
        fault.to_string(),
        format!(
            "line {}: `@%p2 st.shared.b32 [%r1+2000], %r2` in thread 40 of CTA 0: 4 bytes at offset 2000 are outside \
             the CTA's 1024 bytes of shared memory",
            fault.line
        )
    );
}

#[test]
fn the_outcome_tells_what_was_executed() {
    let (_, outcome) =
        run_in(3, 1, &kernel("setp.ne.u32 %p2, %r2, %r2;\n@%p2 bra L1;\nmov.b32 %r9, 1;\nL1:"))
            .expect("it is right");
    // Seven lines before the body, three of it of which one is never taken, and the return; two warps, three blocks.
    assert_eq!(outcome.instructions, 6 * 11);
    assert_eq!(outcome.lines.len(), 10);
}

#[test]
fn one_lane_is_elected_once_all_are_there() {
    // Each elected lane of two warps adds its thread's number plus one: of the first warp 1, of the second 33.
    let body = |before: &str| {
        format!(
            "{before}\nelect.sync _|%p2, -1;\nadd.u32 %r5, %r2, 1;\nmov.b32 %r6, 0;\n@%p2 mov.b32 %r6, %r5;\n\
             st.shared.b32 [%r3], %r6;\nbar.sync 0;\n@!%p1 bra END;\nld.shared.b32 %r7, [%r1];\nld.shared.b32 %r8, [%r1+128];\n\
             ld.shared.b32 %r9, [%r1+160];\nadd.u32 %r7, %r7, %r8;\nadd.u32 %r7, %r7, %r9;\nst.global.b32 [%rd1], %r7;\nEND:"
        )
    };
    assert_eq!(run(&body("")), Ok(34));
    // Lanes that take a detour, thread 40 the first of them, are waited for.
    let detour = body("setp.lt.u32 %p3, %r2, 40;\n@!%p3 bra L1;\nL2:") + "\nbra L3;\nL1:\nbra L2;\nL3:";
    assert_eq!(run(&detour), Ok(34));
}

/// A loop that others may wait for looks alive for ever.
#[test]
fn endless_loops_are_stopped() {
    let max = 1 << 20;
    let stopped = FaultKind::InstructionLimit { max };
    assert_eq!(fault("AGAIN:\n\tbar.sync 0;\n\tbra AGAIN;"), stopped);
    let polls = "\t@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;\n\tbar.sync 0;\nAGAIN:\n\
                 \t@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];\n\tbar.sync 0;\n\tbra AGAIN;";
    assert_eq!(fault(polls), stopped);
    assert!(stopped.to_string().starts_with("stopped after 1048576 instructions"));
}

/// Work that nobody waits for is kept, and must not fill the memory.
#[test]
fn work_without_end_is_refused() {
    let makes = "AGAIN:\n\t@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;\n\tbar.sync 0;\n\tbra AGAIN;";
    assert_eq!(fault(makes), FaultKind::TooMuchPending { max: 1024, what: "mbarriers initialized" });
    // One that never fences what it stores.
    let stores = "AGAIN:\n\tst.shared.b32 [%r3], %r2;\n\tbar.sync 0;\n\tbra AGAIN;";
    assert_eq!(fault(stores), FaultKind::InstructionLimit { max: 1 << 20 });
}
