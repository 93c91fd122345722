//! Mosaic text of real kernels.

mod common;

use common::{PACKED, cases, load};
use octile_dump::{
    limits::MAX_MOSAIC_BYTES,
    llo::{Listing, SimOptions, simulate},
    mosaic::{ArgumentRole, Execution, MosaicError, MosaicKernel},
    source::Place,
};

fn kernel(case: &str) -> MosaicKernel {
    MosaicKernel::parse(&load(case, "mosaic.mlir")).unwrap_or_else(|error| panic!("{case}: {error}"))
}

#[test]
fn memory_and_roles() {
    let kernel = kernel("512-qb128-aligned-v3-tpu7x");
    assert_eq!((kernel.name.as_str(), kernel.grid.as_slice()), ("v3", &[4, 4, 4][..]));
    let described: Vec<_> = kernel
        .arguments
        .iter()
        .map(|a| format!("{:?} {:?} {} {}", a.role, a.memory.dims, a.memory.element, a.memory.space))
        .collect();
    assert_eq!(
        described,
        [
            "Operand [512, 512] f8E4M3FN hbm",
            "Operand [512, 512] f8E4M3FN hbm",
            "Operand [4, 4, 1, 1] f32 hbm",
            "Operand [4, 4, 1, 1] f32 hbm",
            "Operand [512, 512] bf16 hbm",
            "Scratch [2, 128, 128] f8E4M3FN vmem",
            "Scratch [2, 128, 128] f8E4M3FN vmem",
            "Scratch [2, 1, 1] f32 smem",
            "Scratch [2, 1, 1] f32 smem",
            "Scratch [2, 128, 128] bf16 vmem",
            "Scratch [128, 128] f32 vmem",
            "Scratch [2, 5] !tpu.dma_semaphore semaphore_mem",
        ]
    );
    let strip = crate::kernel("2048-qb512-strip-tpu7x");
    let roles: Vec<_> = strip.arguments.iter().map(|a| a.role).collect();
    use ArgumentRole::{Prefetched, Scratch, Window};
    assert_eq!(roles, [Prefetched, Prefetched, Window, Window, Window, Scratch]);
}

#[test]
fn copies_are_followed_to_their_buffers() {
    let kernel = kernel("512-qb128-aligned-v3-tpu7x");
    assert_eq!(kernel.dmas.iter().filter(|dma| !dma.waits).count(), 9);
    assert_eq!(kernel.dmas.iter().filter(|dma| dma.waits).count(), 7);
    let first = &kernel.dmas[0];
    let (source, target) = (first.source.as_ref().unwrap(), first.target.as_ref().unwrap());
    assert_eq!((source.root.as_str(), source.memory.space.as_str()), ("%arg3", "hbm"));
    assert_eq!((target.root.as_str(), target.memory.space.as_str()), ("%arg8", "vmem"));
    assert_eq!(target.index, ["%4", "0", "0"]);
    let semaphore = first.semaphore.as_ref().unwrap();
    assert_eq!(
        (semaphore.root.as_str(), semaphore.index.as_slice()),
        ("%arg14", &["%4".into(), "0".into()][..])
    );
}

#[test]
fn every_recorded_kernel_is_read() {
    for case in cases() {
        let kernel = kernel(&case);
        assert_eq!(kernel.damage, [], "{case}");
        assert!(!kernel.matmuls.is_empty(), "{case}");
        let element = if case.contains("bf16") { "bf16" } else { "f8E4M3FN" };
        assert!(
            kernel.matmuls.iter().all(|m| m.lhs.element == element && m.rhs.element == element),
            "{case}"
        );
        assert!(kernel.matmuls.iter().all(|m| m.accumulator.element == "f32"), "{case}");
    }
}

/// Text that cannot be parsed is an error with a place, and the error tells damage from what is not
/// supported.
#[test]
fn unreadable_text_is_an_error() {
    assert_eq!(MosaicKernel::parse(""), Err(MosaicError::NoKernel));
    let text = load("512-qb128-aligned-v3-tpu7x", "mosaic.mlir");
    let cut = MosaicKernel::parse(&text[..text.len() / 2]);
    assert!(matches!(cut, Err(MosaicError::Damaged(_))), "{cut:?}");
    let constant = "    %cst = arith.constant";
    let line = 1 + text[..text.find(constant).unwrap()].matches('\n').count() as u32;
    let with = |inserted: &str| {
        let edited = text.replacen(constant, &format!("    {inserted}\n{constant}"), 1);
        assert_ne!(edited, text);
        MosaicKernel::parse(&edited).unwrap_err()
    };
    let foreign = with("%u = other.operation %arg0 : i32");
    assert!(matches!(foreign, MosaicError::Unsupported(_)), "{foreign:?}");
    assert_eq!((foreign.place().line, foreign.into_damage()), (line, None));
    let damaged = with("\u{fffd}\u{fffd}");
    assert!(matches!(damaged, MosaicError::Damaged(_)), "{damaged:?}");
    assert_eq!(damaged.place().line, line);
    let large = " ".repeat(MAX_MOSAIC_BYTES + 1);
    assert_eq!(MosaicKernel::parse(&large), Err(MosaicError::TooLarge(large.len())));
}

/// Every place counts once, and the numbers are those of the listing that the compiler made of the same
/// kernel.
#[test]
fn an_execution_copies_what_the_listing_copies() {
    for case in cases().into_iter().filter(|case| case.contains("-v2-") || case.contains("-v3-")) {
        let kernel = kernel(&case);
        let execution = Execution::of(&kernel).unwrap();
        assert_eq!((execution.unresolved, &execution.faults[..]), (0, &[][..]), "{case}");
        assert_eq!(execution.semaphores, 10, "{case}");
        assert_eq!(execution.routes.len(), 5, "{case}");
        assert!(execution.routes.iter().all(|route| route.depth >= 2 && route.read_too_early.is_none()));
        if case.contains("prefetched") {
            continue;
        }
        let listing = load(&case, PACKED);
        let cycles = simulate(&Listing::parse(&listing), &SimOptions::default()).unwrap();
        let starts: u64 = cycles.dma.iter().map(|dma| dma.starts).sum();
        assert_eq!(execution.routes.iter().map(|route| route.starts).sum::<u64>(), starts, "{case}");
        assert_eq!(kernel.damage, []);
    }
}

#[test]
fn what_cannot_be_executed_says_why() {
    let kernel = |attributes: &str, body: &str| {
        let text = format!(
            "module {{\n  func.func @k(%i: i32, %m: memref<4xi32, #tpu.memory_space<smem>>, \
             %s: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {{{attributes}}} \
             {{\n{body}    return\n  }}\n}}\n"
        );
        let kernel = MosaicKernel::parse(&text).unwrap();
        assert_eq!(kernel.damage, [], "{text}");
        Execution::of(&kernel)
    };
    let grid = |bound: &str| format!("iteration_bounds = array<i64: {bound}>");
    assert_eq!(kernel(&grid("3"), "").unwrap(), Execution::default());
    // Empty loops end too.
    let error = kernel(&grid("9000000000000000000"), "").unwrap_err();
    assert_eq!(error.to_string(), "the kernel takes more than 50000000 steps");
    let decides = "\
    %c0 = arith.constant 0 : index
    %v = memref.load %m[%c0] : memref<4xi32, #tpu.memory_space<smem>>
    %zero = arith.constant 0 : i32
    %p = arith.cmpi eq, %v, %zero : i32
    scf.if %p {
      %s0 = tpu.memref_slice %s[%zero] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %s1 = tpu.memref_squeeze %s0 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.wait_dma2 semaphore(%s1 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%m : memref<4xi32, #tpu.memory_space<smem>>) dst(%m : memref<4xi32, #tpu.memory_space<smem>>)
    }
";
    let error = kernel(&grid("1"), decides).unwrap_err();
    assert_eq!(error.to_string(), "the control flow at 7:5 depends on data");
}

/// A DMA to another device signals one semaphore here and one there; here arrives what the same code sends
/// elsewhere.
#[test]
fn both_semaphores_of_a_dma_to_another_device_are_followed() {
    const MEMORY: &str = "memref<8x128xf32, #tpu.memory_space<vmem>>";
    const DMA: &str = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
    let wait = |on: &str| {
        format!(
            "    tpu.wait_dma2 semaphore(%{on} : {DMA}) src(%x : {MEMORY}) dst(%y : {MEMORY}) device_id(%me)\n"
        )
    };
    let load = |of: &str| format!("    %{of}0 = vector.load %{of}[%c0, %c0] : {MEMORY}, vector<8x128xf32>\n");
    let store = |to: &str| format!("    vector.store %ones, %{to}[%c0, %c0] : {MEMORY}, vector<8x128xf32>\n");
    let execution = |body: &[String]| {
        let text = format!(
            "module {{
  func.func @ring(%x: {MEMORY}, %y: {MEMORY}, %send: {DMA}, %receive: {DMA}) attributes {{scratch_operands = 2 : i64}} {{
    %me = tpu.device_id : i32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %ones = arith.constant dense<1.0> : vector<8x128xf32>
    %above = arith.addi %me, %c1 : i32
    %right = arith.remsi %above, %c4 : i32
    tpu.enqueue_dma source(%x : {MEMORY}) source_semaphore(%send : {DMA}) target(%y : {MEMORY}) target_semaphore(%receive : {DMA}) device_id(%right)
{}    return
  }}
}}
",
            body.concat()
        );
        let kernel = MosaicKernel::parse(&text).unwrap();
        assert_eq!(kernel.damage, [], "{text}");
        let execution = Execution::of(&kernel).unwrap();
        assert_eq!((execution.unresolved, execution.unresolved_accesses), (0, 0), "{text}");
        execution
    };
    let says = |found: &[(Place, String)]| found.iter().map(|(_, says)| says.clone()).collect::<Vec<_>>();

    let sound = execution(&[load("x"), wait("send"), store("x"), wait("receive"), load("y"), store("y")]);
    assert_eq!((says(&sound.faults), says(&sound.races)), (vec![], vec![]));
    assert_eq!((sound.semaphores, sound.routes.len(), sound.routes[0].starts), (2, 1, 1));
    assert_eq!(sound.routes[0].bytes, 8 * 128 * 4);

    let half = execution(&[wait("send")]);
    assert_eq!(says(&half.faults), ["%receive holds 4096 bytes at the end: a DMA was never waited for"]);
    let twice = execution(&[wait("send"), wait("receive"), wait("send")]);
    assert_eq!(says(&twice.faults), ["line 13 waits on %send for a DMA that was never started"]);
    // Each semaphore tells of one end.
    let overwritten = execution(&[wait("receive"), store("x"), wait("send")]);
    let racy = "line 12 overwrites %x while the DMA of line 10 is still reading it";
    assert_eq!(says(&overwritten.races), [racy]);
    let early = execution(&[wait("send"), load("y"), wait("receive")]);
    assert_eq!(says(&early.races), ["line 12 reads %y while the DMA of line 10 is still writing it"]);
}

/// A matmul into the accumulators of an MXU has the weights that were pushed, also those that a loop pushes
/// after it multiplies.
#[test]
fn matmuls_with_explicit_weights_are_counted_with_their_types() {
    const F8: &str = "vector<256x256xf8E4M3FN>";
    const BF16: &str = "vector<32x256xbf16>";
    let push = |value: &str, ty: &str, mxu: usize| {
        format!(
            "    \"tpu.matmul_push_rhs\"({value}) {{mxu_index = {mxu} : i32, staging_register = 1 : i32, transpose = false}} : ({ty}) -> ()\n"
        )
    };
    let multiply = |value: &str, ty: &str, load: &str, mxu: usize| {
        format!(
            "    \"tpu.matmul_acc_lhs\"({value}) {{acc = 0 : i32, {load}mxu_index = {mxu} : i32}} : ({ty}) -> ()\n"
        )
    };
    let load = "load_staged_rhs = 1 : i32, ";
    let kernel = |body: &[String]| {
        let text = format!(
            "module {{
  func.func @k(%x: memref<32x256xbf16, #tpu.memory_space<hbm>>, %y: memref<32x256xbf16, #tpu.memory_space<vmem>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {{scratch_operands = 2 : i64}} {{
    %w = arith.constant dense<1.0> : {F8}
    %l = arith.constant dense<1.0> : {BF16}
    %b = arith.constant dense<1.0> : vector<256x256xbf16>
{}    return
  }}
}}
",
            body.concat()
        );
        MosaicKernel::parse(&text).unwrap()
    };
    let types = |kernel: &MosaicKernel| -> Vec<String> {
        let word = |ty: &octile_dump::mosaic::TensorType| format!("{:?} {}", ty.dims, ty.element);
        let words = kernel.matmuls.iter().map(|m| [&m.lhs, &m.rhs, &m.accumulator].map(word).join(", "));
        words.collect()
    };
    let two = kernel(&[
        push("%w", F8, 0),
        push("%b", "vector<256x256xbf16>", 1),
        multiply("%w", F8, load, 0),
        multiply("%l", BF16, load, 1),
        multiply("%l", BF16, "", 0),
    ]);
    assert_eq!(two.damage, []);
    assert_eq!(
        types(&two),
        [
            "[256, 256] f8E4M3FN, [256, 256] f8E4M3FN, [256, 256] f32",
            "[32, 256] bf16, [256, 256] bf16, [32, 256] f32",
            "[32, 256] bf16, [256, 256] f8E4M3FN, [32, 256] f32",
        ]
    );
    let later = kernel(&[multiply("%l", BF16, load, 0), push("%w", F8, 0)]);
    assert_eq!(types(&later), ["[32, 256] bf16, [256, 256] f8E4M3FN, [32, 256] f32"]);
    let never = kernel(&[multiply("%l", BF16, "", 0)]);
    assert_eq!(types(&never), ["[32, 256] bf16, [] , [32] f32"]);
    let damaged = kernel(&["    \"tpu.matmul_acc_lhs\"() {acc = 0 : i32} : () -> ()\n".to_owned()]);
    assert_eq!(damaged.damage[0].what, "this matmul has 0 operands, not 1");

    // A DMA in flight overlaps with it.
    let ends = "(%x : memref<32x256xbf16, #tpu.memory_space<hbm>>)";
    let target = "(%y : memref<32x256xbf16, #tpu.memory_space<vmem>>)";
    let semaphore = "semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)";
    let overlap = kernel(&[
        push("%w", F8, 0),
        format!("    tpu.enqueue_dma source{ends} target{target} target_{semaphore}\n"),
        multiply("%l", BF16, load, 0),
        format!("    tpu.wait_dma2 {semaphore} src{ends} dst{target}\n"),
    ]);
    let execution = Execution::of(&overlap).unwrap();
    assert!(execution.routes[0].overlaps_multiply, "{execution:?}");
}
