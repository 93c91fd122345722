//! What looks ordered and is not, and the other way round.

use octile_ptx::simulate::FaultKind;

use crate::{fault, kernel, run, run_in, run_seeded};

/// Lane 0 makes a barrier for one arrival, and everyone knows.
const BARRIER: &str = "@%p1 mbarrier.init.shared::cta.b64 [%r1+512], 1;\nbar.sync 0;";
/// Lane 1 of the first warp in `%p2`, the second warp in `%p3`.
const WHO: &str = "setp.eq.u32 %p2, %r2, 1;\nsetp.eq.u32 %p3, %r4, 1;";
const WAIT: &str = "L9:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%r1+512], 0;\n@!%p4 bra L9;";

fn is_race(kind: FaultKind) {
    assert!(matches!(kind, FaultKind::Race { .. }), "{kind}");
}

#[test]
fn to_tell_others_is_not_to_tell_the_next_lane() {
    // Lane 0 stores and arrives; lane 1 does not wait for that.
    let body = |between: &str| {
        format!(
            "{BARRIER}\n{WHO}\n@%p1 st.shared.b32 [%r1+0], %r2;\n@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1+512];\n\
             {between}\n@%p2 ld.shared.b32 %r9, [%r1+0];\n@%p2 st.global.b32 [%rd1+0], %r9;"
        )
    };
    is_race(fault(&body("")));
    assert_eq!(run(&body(WAIT)), Ok(0));
    assert_eq!(run(&body("bar.warp.sync -1;")), Ok(0));
}

#[test]
fn who_arrives_speaks_for_itself_alone() {
    // The second warp's lanes store; its first lane arrives with or without the others.
    let body = |meets: &str| {
        format!(
            "{BARRIER}\n{WHO}\n@!%p3 bra L1;\nst.shared.b32 [%r3+0], %r2;\n{meets}\nsetp.eq.u32 %p5, %r2, 32;\n\
             @%p5 mbarrier.arrive.shared::cta.b64 _, [%r1+512];\nbra L2;\nL1:\n{WAIT}\nld.shared.b32 %r9, [%r1+252];\n\
             @%p1 st.global.b32 [%rd1+0], %r9;\nL2:"
        )
    };
    is_race(fault(&body("")));
    assert_eq!(run(&body("bar.warp.sync -1;")), Ok(63));
}

#[test]
fn lanes_know_what_each_of_them_waited_for() {
    // Lanes 0 and 1 wait one after the other, then read together.
    let body = format!(
        "{BARRIER}\n{WHO}\n@%p3 bra L1;\n@%p1 bra L3;\n@!%p2 bra L2;\n{WAIT}\nbra L4;\nL3:\n{}\nL4:\n\
         ld.shared.b32 %r9, [%r1+0];\n@%p1 st.global.b32 [%rd1+0], %r9;\nbra L2;\n\
         L1:\nsetp.eq.u32 %p5, %r2, 32;\n@!%p5 bra L2;\nst.shared.b32 [%r1+0], %r2;\n\
         mbarrier.arrive.shared::cta.b64 _, [%r1+512];\nL2:",
        WAIT.replace("L9", "L8")
    );
    assert_eq!(run(&body), Ok(32));
}

#[test]
fn barriers_are_used_by_those_who_know_them() {
    let made = "@%p1 mbarrier.init.shared::cta.b64 [%r1+512], 64;";
    let arrive = "mbarrier.arrive.shared::cta.b64 _, [%r1+512];";
    let kind = fault(&format!("{made}\n{arrive}"));
    assert!(matches!(kind, FaultKind::Race { .. } | FaultKind::NoBarrier { .. }), "{kind}");
    assert_eq!(run(&format!("{made}\nbar.sync 0;\n{arrive}")), Ok(0));
    is_race(fault("mbarrier.init.shared::cta.b64 [%r1+512], 64;"));
    let over = format!("{made}\nbar.sync 0;\n@%p1 st.shared.b32 [%r1+516], %r2;");
    assert_eq!(fault(&over), FaultKind::OverwritesBarrier { offset: 512 });
}

#[test]
fn atomic_changes_need_no_order_among_themselves() {
    let body = |first: &str, last: &str| {
        format!(
            "@%p1 st.shared.b32 [%r1+0], %r2;\n{first}\natom.shared.max.u32 %r8, [%r1+0], %r2;\n{last}\n\
             ld.shared.b32 %r9, [%r1+0];\n@%p1 st.global.b32 [%rd1+0], %r9;"
        )
    };
    let meet = "bar.sync 0;";
    assert_eq!(run(&body(meet, meet)), Ok(63));
    is_race(fault(&body("", meet)));
    is_race(fault(&body(meet, "")));
    is_race(fault(&body(meet, "bar.warp.sync -1;")));
    assert!(matches!(
        fault("atom.shared.max.u32 %r8, [%r1+2], %r2;"),
        FaultKind::Misaligned { alignment: 4, .. }
    ));
}

#[test]
fn a_wait_may_end_without_what_it_waits_for() {
    let body = |again: &str| {
        format!(
            "{BARRIER}\n{WHO}\n@%p3 bra L1;\nL9:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%r1+512], 0;\n{again}\n\
             ld.shared.b32 %r9, [%r1+0];\n@%p1 st.global.b32 [%rd1+0], %r9;\nbra L2;\nL1:\nsetp.eq.u32 %p5, %r2, 32;\n\
             @!%p5 bra L2;\nst.shared.b32 [%r1+0], %r2;\nmbarrier.arrive.shared::cta.b64 _, [%r1+512];\nL2:"
        )
    };
    let outcome = |seed: u64, again: &str| run_seeded(seed, 1, 1, &kernel(&body(again)));
    assert!((0..200).all(|seed| outcome(seed, "@!%p4 bra L9;").is_ok_and(|(word, _)| word == 32)));
    assert!((0..200).any(|seed| outcome(seed, "").is_err()), "no wait has ever timed out");
}

#[test]
fn who_is_busy_is_not_stuck() {
    // A long way without anything that others could wait for.
    let body = "mov.b32 %r8, 0;\nL1:\nadd.u32 %r8, %r8, 1;\nsetp.lt.u32 %p2, %r8, 20000;\n@%p2 bra L1;\n\
                @%p1 st.global.b32 [%rd1+0], %r8;";
    assert_eq!(run(body), Ok(20_000));
}

#[test]
fn those_who_left_are_not_waited_for() {
    let body = format!("{WHO}\n@%p3 bra L1;\nbar.sync 0;\n@%p1 st.global.b32 [%rd1+0], 7;\nL1:");
    assert_eq!(run(&body), Ok(7));
    // With a number there is one to wait for.
    assert!(matches!(fault(&body.replace("bar.sync 0", "bar.sync 0, 64")), FaultKind::Deadlock { .. }));
    let other = format!("{WHO}\n@%p3 bra L1;\nbar.sync 1, 64;\nL1:\n@%p3 bar.sync 1, 96;");
    assert_eq!(fault(&other), FaultKind::BarrierCountMismatch { id: 1 });
}

#[test]
fn the_barrier_of_a_cluster_is_arrived_at_first() {
    let twice =
        "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\nbarrier.cluster.wait.acquire;";
    let kind = run_in(1, 2, &kernel(twice)).expect_err("it has not arrived again").kind;
    assert_eq!(kind, FaultKind::WaitsWithoutArrival);
    let far = "mov.b32 %r8, -1;\nmapa.shared::cluster.u32 %r6, %r1, %r8;";
    let kind = run_in(1, 2, &kernel(far)).expect_err("there is no such block").kind;
    assert_eq!(kind, FaultKind::NoSuchCta { rank: u32::MAX as usize, ctas: 2 });
}
