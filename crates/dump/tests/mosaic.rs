//! Mosaic text of real kernels.

mod common;

use common::{PACKED, cases, load};
use octile_dump::{
    llo::{Listing, SimOptions, simulate},
    mosaic::{ArgumentRole, Execution, MosaicScan},
};

#[test]
fn memory_and_roles() {
    let scan = MosaicScan::read(&load("512-qb128-aligned-v3-tpu7x", "mosaic.mlir"));
    assert_eq!((scan.kernel.as_str(), scan.iteration_bounds.as_slice()), ("v3", &[4, 4, 4][..]));
    let described: Vec<_> = scan
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
    let strip = MosaicScan::read(&load("2048-qb512-strip-tpu7x", "mosaic.mlir"));
    let roles: Vec<_> = strip.arguments.iter().map(|a| a.role).collect();
    use ArgumentRole::{Prefetched, Scratch, Window};
    assert_eq!(roles, [Prefetched, Prefetched, Window, Window, Window, Scratch]);
}

#[test]
fn copies_are_followed_to_their_buffers() {
    let scan = MosaicScan::read(&load("512-qb128-aligned-v3-tpu7x", "mosaic.mlir"));
    assert_eq!(scan.dmas.iter().filter(|dma| !dma.waits).count(), 9);
    assert_eq!(scan.dmas.iter().filter(|dma| dma.waits).count(), 7);
    let first = &scan.dmas[0];
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
        let scan = MosaicScan::read(&load(&case, "mosaic.mlir"));
        assert_eq!(scan.damage, [], "{case}");
        assert!(!scan.matmuls.is_empty(), "{case}");
        let element = if case.contains("bf16") { "bf16" } else { "f8E4M3FN" };
        assert!(scan.matmuls.iter().all(|m| m.lhs.element == element && m.rhs.element == element), "{case}");
        assert!(scan.matmuls.iter().all(|m| m.accumulator.element == "f32"), "{case}");
    }
}

#[test]
fn what_is_no_kernel_says_so() {
    assert_eq!(MosaicScan::read("").damage[0].what, "there is no Mosaic kernel in this file");
    let text = load("512-qb128-aligned-v3-tpu7x", "mosaic.mlir");
    let cut = MosaicScan::read(&text[..text.len() / 2]);
    assert_eq!(cut.damage.last().unwrap().what, "braces do not match: the file is cut off");
}

/// Every place counts once, and the numbers are those of the listing that the compiler made of the same kernel.
#[test]
fn an_execution_copies_what_the_listing_copies() {
    for case in cases().into_iter().filter(|case| case.contains("-v2-") || case.contains("-v3-")) {
        let (scan, module) = MosaicScan::with_module(&load(&case, "mosaic.mlir"));
        let execution = Execution::of(&module.unwrap()).unwrap();
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
        assert_eq!(scan.damage, []);
    }
}

#[test]
fn text_beyond_the_parser_is_still_read() {
    let text = load("512-qb128-aligned-v3-tpu7x", "mosaic.mlir");
    let whole = MosaicScan::read(&text);
    let call = "    %cst = arith.constant";
    let foreign = text.replacen(call, &format!("    %u = other.operation %arg0 : i32\n{call}"), 1);
    assert_ne!(foreign, text);
    let (scan, module) = MosaicScan::with_module(&foreign);
    assert!(module.is_none() && scan.damage.is_empty(), "{:?}", scan.damage);
    assert_eq!((scan.dmas.len(), scan.matmuls.len()), (whole.dmas.len(), whole.matmuls.len()));
    // What is no Mosaic at all has its place.
    let damaged = text.replacen(call, &format!("    \u{fffd}\u{fffd}\n{call}"), 1);
    let (scan, _) = MosaicScan::with_module(&damaged);
    let line = 1 + text[..text.find(call).unwrap()].matches('\n').count() as u32;
    assert_eq!(scan.damage.iter().map(|damage| damage.place.line).collect::<Vec<_>>(), [line]);
}

#[test]
fn both_readers_agree() {
    for case in cases() {
        let text = load(&case, "mosaic.mlir");
        let (parsed, module) = MosaicScan::with_module(&text);
        assert!(module.is_some(), "{case}");
        // An operation that the parser does not know sends the text to the other reader.
        let end = text.rfind("    return").unwrap();
        let scanned = MosaicScan::read(&format!("{}    other.operation\n{}", &text[..end], &text[end..]));
        assert_eq!((&parsed.kernel, &parsed.arguments), (&scanned.kernel, &scanned.arguments), "{case}");
        assert_eq!(parsed.matmuls, scanned.matmuls, "{case}");
        assert_eq!(parsed.dmas, scanned.dmas, "{case}");
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
        let (scan, module) = MosaicScan::with_module(&text);
        assert_eq!(scan.damage, [], "{text}");
        Execution::of(&module.unwrap())
    };
    let grid = |bound: &str| format!("iteration_bounds = array<i64: {bound}>");
    assert_eq!(kernel(&grid("3"), "").unwrap(), Execution::default());
    // Empty loops end too.
    let error = kernel(&grid("9000000000000000000"), "").unwrap_err();
    assert_eq!(error.to_string(), "the kernel has too many steps to be executed here");
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
    assert_eq!(error.to_string(), "at 7:5 the kernel decides by a value that is not in its text");
}
