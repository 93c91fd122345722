//! Each kind of trouble, in the smallest kernel that has it.

mod support;

use octile_mosaic::{
    Float,
    interpret::{Agent, Element, Options, Outcome, Tensor, Trouble, simulate},
    parse,
};
use support::rates;

/// Two buffers of 8 x 128, an operand and a result of 32 x 128, and two semaphores for copies and one for
/// counts.
fn run(body: &str) -> Outcome {
    let text = format!(
        "module {{
  func.func @k(%x: memref<32x128xf32, #tpu.memory_space<hbm>>, %out: memref<32x128xf32, #tpu.memory_space<hbm>>, %a: memref<8x128xf32, #tpu.memory_space<vmem>>, %b: memref<8x128xf32, #tpu.memory_space<vmem>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %t: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %r: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) attributes {{scratch_operands = 5 : i64, window_params = [{{}}, {{}}]}} {{
    %c0 = arith.constant 0 : index
    %i0 = arith.constant 0 : i32
    %i8 = arith.constant 8 : i32
    %i32 = arith.constant 32 : i32
{}
    return
  }}
}}",
        expand(body)
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let x =
        Tensor { element: Element::Float(Float::F32), shape: vec![32, 128], bytes: vec![0; 32 * 128 * 4] };
    simulate(&module, &[x], &Options::new(rates())).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const FAR: &str = "memref<8x128xf32, #tpu.memory_space<hbm>>";
const NEAR: &str = "memref<8x128xf32, #tpu.memory_space<vmem>>";
const SEMAPHORE: &str = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";

/// One line of text per line of shorthand: `in a i8 s` copies 8 rows of x from row 8 on to a and signals s.
fn expand(body: &str) -> String {
    let mut slices = 0;
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        slices += 1;
        let slice = |of: &str, row: &str| {
            format!(
                "%far{slices} = tpu.memref_slice %{of}[%{row}, %i0] : memref<32x128xf32, #tpu.memory_space<hbm>> -> {FAR}"
            )
        };
        let far = format!("%far{slices} : {FAR}");
        match words[..] {
            ["in", buffer, row, semaphore] => format!(
                "{}\ntpu.enqueue_dma source({far}) target(%{buffer} : {NEAR}) target_semaphore(%{semaphore} : {SEMAPHORE})",
                slice("x", row)
            ),
            ["out", buffer, row, semaphore] => format!(
                "{}\ntpu.enqueue_dma source(%{buffer} : {NEAR}) target({far}) target_semaphore(%{semaphore} : {SEMAPHORE})",
                slice("out", row)
            ),
            ["wait", semaphore] => format!(
                "tpu.wait_dma2 semaphore(%{semaphore} : {SEMAPHORE}) src(%a : {NEAR}) dst(%b : {NEAR})"
            ),
            ["move", from, to] => format!(
                "%v{slices} = vector.load %{from}[%c0, %c0] : {NEAR}, vector<8x128xf32>\n\
                 tpu.vector_store %{to}[%c0, %c0], %v{slices} {{strides = array<i32>}} : {NEAR}, vector<8x128xf32>,"
            ),
            _ => line.to_owned(),
        }
    };
    body.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The findings without the result that most of these kernels do not write.
fn troubles(body: &str) -> Vec<Trouble> {
    let findings = run(body).findings.into_iter().map(|finding| finding.trouble);
    findings.filter(|trouble| !matches!(trouble, Trouble::OutputNotWritten { .. })).collect()
}

#[test]
fn copies_that_are_waited_for_are_fine() {
    assert_eq!(troubles("in a i0 s\nwait s\nmove a b\nout b i0 s\nwait s"), []);
}

#[test]
fn a_wait_that_nothing_can_end() {
    let outcome = run("in a i0 s\nwait s\nwait s");
    assert!(!outcome.completed);
    match &outcome.findings[0].trouble {
        Trouble::Deadlock { semaphore, wait, needed, available, signalled_by } => {
            assert_eq!((semaphore.as_str(), *needed, *available), ("s", 4096, 0));
            assert_eq!((wait.line, signalled_by.len()), (Some(10), 1));
        }
        other => panic!("{other:?}"),
    }
    let counted = troubles("tpu.sem_wait %r, %i8 : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>");
    assert!(
        matches!(&counted[0], Trouble::Deadlock { signalled_by, .. } if signalled_by.is_empty()),
        "{counted:?}"
    );
}

#[test]
fn a_semaphore_that_is_not_zero_at_the_end() {
    let found = troubles("tpu.sem_signal %r, %i8 : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>");
    assert!(matches!(&found[..], [Trouble::SemaphoreLeftOver { count: 8, .. }]), "{found:?}");
    let found = troubles("in a i0 s");
    assert!(matches!(&found[..], [Trouble::SemaphoreLeftOver { count: 4096, .. }]), "{found:?}");
}

#[test]
fn memory_that_nothing_has_written() {
    let found = troubles("move a b");
    assert!(matches!(&found[..], [Trouble::ReadOfUnwritten { area, .. }] if area.buffer == "a"), "{found:?}");
    // What was never written is still not written when it has been copied.
    let found = troubles("out a i0 s\nwait s");
    assert_eq!(found, []);
    let findings = run("out a i0 s\nwait s").findings;
    assert!(
        matches!(findings[0].trouble, Trouble::OutputNotWritten { elements: 4096, of: 4096, .. }),
        "{findings:?}"
    );
}

#[test]
fn a_copy_out_of_bounds() {
    let outcome = run("in a i32 s\nwait s");
    assert!(!outcome.completed);
    match &outcome.findings[0].trouble {
        Trouble::OutOfBounds { buffer, dimension: 0, index: 32, size: 8, extent: 32, access } => {
            assert_eq!((buffer.as_str(), access.line), ("x", Some(8)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_buffer_overwritten_while_a_copy_reads_it() {
    let found = troubles("in a i0 s\nin b i8 t\nwait s\nwait t\nout a i0 s\nmove b a\nwait s");
    assert!(
        matches!(&found[..], [Trouble::OverwrittenDuringCopyOut { area, .. }] if area.buffer == "a"),
        "{found:?}"
    );
}

#[test]
fn two_copies_into_one_buffer() {
    let found = troubles("in a i0 s\nin a i8 t\nwait s\nwait t");
    match &found[..] {
        [Trouble::WriteDuringCopyIn { copy, write, .. }] => {
            assert_eq!((&copy.agent, &write.agent), (&Agent::Copy(0), &Agent::Copy(1)));
        }
        other => panic!("{other:?}"),
    }
    // In order, one after the other, they are fine.
    assert_eq!(troubles("in a i0 s\nwait s\nin a i8 t\nwait t"), []);
}

/// Two copies signal one semaphore, and one wait for half of the bytes says of neither that it has ended. In
/// this run the first one has, but on a chip it may be the second.
#[test]
fn a_wait_for_either_of_two_copies_orders_neither() {
    let found = troubles("in a i0 s\nin b i8 s\nwait s\nmove a a\nwait s");
    assert!(matches!(&found[0], Trouble::ReadDuringCopyIn { area, .. } if area.buffer == "a"), "{found:?}");
    assert_eq!(troubles("in a i0 s\nin b i8 s\nwait s\nwait s\nmove a b"), []);
}

#[test]
fn a_race_is_found_even_where_the_run_happened_to_go_well() {
    // The wait on t moves nothing that the load of a needs; only a wait on s orders it.
    let found = troubles("in a i0 s\nin b i8 t\nwait t\nmove a b\nwait s");
    assert!(
        matches!(&found[..], [Trouble::ReadDuringCopyIn { semaphore, .. }] if semaphore == "s"),
        "{found:?}"
    );
}
