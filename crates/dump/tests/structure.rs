//! What became of every part of one recorded kernel in another, and in damaged copies of itself.

mod common;

use std::{fs, io::Read, path::Path};

use common::{PACKED, cases, load, try_load};
use octile_dump::{
    compare::{Difference, Dump, Fate, File, Structure, Subject},
    facts::{Evidence, Facts, Source},
};

const MOSAIC: &str = "mosaic.mlir";
const DMA: &str = "512-qb128-aligned-v2-tpu7x";
const SMEM: &str = "512-qb128-aligned-v3-tpu7x";

type Files = Vec<(&'static str, String)>;

fn files(case: &str) -> Files {
    let names = [PACKED, "optimized.hlo.txt", MOSAIC];
    names.into_iter().filter_map(|name| Some((name, try_load(case, name)?))).collect()
}

fn mosaic(case: &str) -> Files {
    vec![(MOSAIC, load(case, MOSAIC))]
}

fn between(before: &Files, after: &Files) -> Structure {
    let facts = [before, after].map(|files| {
        let sources: Vec<_> =
            files.iter().map(|(name, text)| Source { name, bytes: text.as_bytes() }).collect();
        Facts::gather(&sources)
    });
    let dump = |files: &'_ Files, facts: &'_ Facts| -> Vec<File<'static>> {
        // Tests may keep their texts for good.
        let kinds = facts.files.iter().map(|file| file.kind);
        let file = |((name, text), kind): (&(&'static str, String), _)| File {
            name,
            kind,
            text: Box::leak(text.clone().into_boxed_str()),
        };
        files.iter().zip(kinds).map(file).collect()
    };
    let [old, new] = [(before, &facts[0]), (after, &facts[1])]
        .map(|(files, facts)| Dump { facts, files: dump(files, facts) });
    Structure::between(&old, &new)
}

fn edited(files: &Files, file: &str, change: impl Fn(&str) -> String) -> Files {
    let mut files = files.clone();
    let (_, text) = files.iter_mut().find(|(name, _)| *name == file).unwrap();
    let after = change(text);
    assert_ne!(*text, after, "the edit changes nothing");
    *text = after;
    files
}

fn says(structure: &Structure) -> Vec<&str> {
    structure.differences.iter().flat_map(|difference| &difference.says).map(String::as_str).collect()
}

fn find<'s>(structure: &'s Structure, sentence: &str) -> &'s Difference {
    let said = |difference: &&Difference| difference.says.iter().any(|says| says == sentence);
    structure.differences.iter().find(said).unwrap_or_else(|| panic!("{sentence}: {:#?}", says(structure)))
}

fn line<'t>(files: &'t Files, evidence: &Option<Evidence>) -> &'t str {
    let evidence = evidence.as_ref().expect("a line");
    let (_, text) = files.iter().find(|(name, _)| *name == evidence.file).expect("a file of the dump");
    text.lines().nth(evidence.place.line as usize - 1).expect("a line of the file")
}

#[test]
fn scales_that_moved_are_said_to_have_moved() {
    let (before, after) = (files(DMA), files(SMEM));
    let structure = between(&before, &after);
    for scale in ["first", "second"] {
        let moved = find(&structure, &format!("the buffer of the {scale} scale moved VMEM -> SMEM"));
        assert_eq!((moved.subject, moved.fate), (Subject::Buffer, Fate::Changed));
        let column = moved.after.as_ref().unwrap().place.column as usize - 1;
        assert!(line(&after, &moved.after)[column..].starts_with("%arg1"), "the column is the buffer's");
        let copies = format!("copies of the {scale} scale go HBM -> SMEM, no longer HBM -> VMEM");
        let copies = find(&structure, &copies);
        assert!(line(&before, &copies.before).contains("dma.hbm_to_vmem"));
        assert!(line(&after, &copies.after).contains("dma.hbm_to_smem"));
    }
    assert!(!says(&structure).iter().any(|says| says.contains("data operand")), "data stays where it was");
    find(&structure, "the code: bundles 689 -> 639");
    find(&structure, "vector memory of the kernel: bytes 198656 -> 196608");
    assert!(structure.alike > 10 && structure.not_compared.is_empty());
}

#[test]
fn a_kernel_is_the_same_as_itself() {
    for case in cases() {
        let files = files(&case);
        let structure = between(&files, &files);
        assert!(structure.differences.is_empty(), "{case}: {:?}", says(&structure));
        assert!(structure.alike >= 10, "{case} has parts");
    }
}

#[test]
fn a_buffer_that_became_single() {
    let before = mosaic(DMA);
    let after = edited(&before, MOSAIC, |text| {
        let (two, one) = ("memref<2x128x128x", "memref<1x128x128x");
        let line = |line: &str| match line.contains("%arg8[") {
            true => line.replace(two, one),
            false => line.replace(&format!("%arg8: {two}"), &format!("%arg8: {one}")),
        };
        text.lines().map(|text| line(text) + "\n").collect()
    });
    let structure = between(&before, &after);
    let single = "the buffer of the first data operand became single: 2 slots -> 1";
    let single = find(&structure, single);
    assert!(line(&before, &single.before).contains("%arg8: memref<2x"));
    assert!(line(&after, &single.after).contains("%arg8: memref<1x"));
    assert_eq!(structure.differences.len(), 2, "the buffer, and the memory it takes");
    find(&between(&after, &before), "the buffer of the first data operand became double: 1 -> 2 slots");
}

#[test]
fn a_copy_that_vanished() {
    let before = mosaic(DMA);
    let after = edited(&before, MOSAIC, |text| {
        let copied = |line: &&str| line.contains("tpu.enqueue_dma") && line.contains("memref<128x128xbf16");
        text.lines().filter(|line| !copied(line)).map(|line| format!("{line}\n")).collect()
    });
    let structure = between(&before, &after);
    let gone = structure.differences.iter().find(|difference| difference.fate == Fate::Vanished).unwrap();
    assert_eq!((gone.subject, gone.role.as_str()), (Subject::Copies, "copies of the result"));
    assert!(gone.says[0].starts_with("copies of the result vanished (tpu.enqueue_dma, VMEM -> HBM"));
    assert!(line(&before, &gone.before).contains("tpu.enqueue_dma") && gone.after.is_none());
    let back = between(&after, &before);
    assert!(says(&back).iter().any(|says| says.starts_with("copies of the result appeared")));
}

#[test]
fn products_loops_and_semaphores() {
    let before = mosaic(DMA);
    let change = |from: &'static str, to: &'static str| {
        between(&before, &edited(&before, MOSAIC, |text| text.replace(from, to)))
    };
    let wide = change("f8E4M3FN", "f32");
    find(&wide, "the kernel's matmuls: type f8e4m3fn by f8e4m3fn -> f32 by f32");
    let grid = change("iteration_bounds = array<i64: 4, 4, 4>", "iteration_bounds = array<i64: 4, 4, 1>");
    find(&grid, "the grid: iterations 4x4x4 -> 4x4x1");
    let semaphore = change("%arg14[%4, %c0_i32_56]", "%arg14[%4, %c2_i32]");
    find(&semaphore, "copies of the first data operand: semaphore [.., 0] -> [.., 2]");
    let before = files("2048-qb512-aligned-v2-tpu7x");
    let strip = between(&before, &files("2048-qb512-strip-tpu7x"));
    find(&strip, "the grid: iterations 4x4x4 -> 2x2");
    find(&strip, "the semaphores vanished (2x5)");
    find(&strip, "the first scale moved HBM -> VMEM");
    find(&strip, "matrix instructions: times in the text 64 -> 1024");
    find(&strip, "the code: vector spills 0 -> 7058");
    assert!(says(&strip).iter().any(|says| says.starts_with("the loop at depth 1: iterations 64 -> ")));
}

#[test]
fn what_only_one_has_is_not_compared() {
    let (whole, text) = (files(DMA), mosaic(DMA));
    let structure = between(&whole, &text);
    assert!(structure.differences.is_empty(), "{:?}", says(&structure));
    assert_eq!(
        structure.not_compared,
        ["only the first dump has a scheduled LLO listing", "only the first dump has optimized HLO"]
    );
}

#[test]
fn every_pair_of_kernels_can_be_compared() {
    let dumps: Vec<_> = cases().iter().map(|case| files(case)).collect();
    for (before, after) in dumps.iter().flat_map(|before| dumps.iter().map(move |after| (before, after))) {
        for difference in between(before, after).differences {
            assert!(difference.before.is_some() || difference.after.is_some());
            for (files, evidence) in [(before, &difference.before), (after, &difference.after)] {
                if evidence.is_some() {
                    line(files, evidence);
                }
            }
            assert!(difference.says.iter().all(|says| says.len() > 10));
        }
    }
}

#[test]
fn gpu_kernels_are_compared_too() {
    let load = |name: &str| {
        let packed = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu").join(name)).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
        text
    };
    let [before, after] =
        ["dma.sass.gz", "strip128.sass.gz"].map(|name| vec![("kernel.sass", load(name))] as Files);
    let structure = between(&before, &after);
    find(&structure, "copies of data: slots 7 -> 6");
    assert!(says(&structure).iter().any(|says| says.starts_with("copies of scales appeared (LDGSTS")));
    assert!(between(&before, &before).differences.is_empty());
}
