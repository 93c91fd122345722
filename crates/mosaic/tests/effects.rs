//! Whatever writes, reads or waits does so, or is refused: nothing is left out because nobody knows it.

mod support;

use octile_mosaic::{
    interpret::{Options, Trouble, simulate},
    parse,
};
use support::{NEAR, VECTOR, floats, rates, run_small};

const ALL: &str = "sublane_mask = array<i1: true, true, true, true, true, true, true, true>";
const SOME: &str = "sublane_mask = array<i1: true, false, true, false, false, false, false, false>";

/// Every operation of the core that writes `%v`, or as much of it as fits, to `%BUFFER`.
fn stores() -> Vec<String> {
    let mask = "%m = arith.constant dense<true> : vector<8x128xi1>\n";
    vec![
        "vector.store %v, %BUFFER[%c0, %c0] : NEAR, VECTOR".into(),
        "tpu.vector_store %BUFFER[%c0, %c0], %v {strides = array<i32>} : NEAR, VECTOR,".into(),
        "tpu.vector_store %BUFFER[%c0, %c0], %v {strides = array<i32: 1, 1>} : NEAR, VECTOR,".into(),
        "tpu.strided_store %BUFFER[%c0, %c0], %v {strides = array<i32: 1, 1>} : NEAR, VECTOR".into(),
        format!(
            "{mask}tpu.vector_store %BUFFER[%c0, %c0], %v masked %m {{strides = array<i32>}} : NEAR, VECTOR, vector<8x128xi1>"
        ),
        format!("{mask}vector.maskedstore %BUFFER[%c0, %c0], %m, %v : NEAR, vector<8x128xi1>, VECTOR"),
        format!(
            "\"tpu.store\"(%v, %BUFFER, %c0, %c0) <{{{ALL}, sublane_stride = 1 : i32}}> : (VECTOR, NEAR, index, index) -> ()"
        ),
        "memref.copy %x, %BUFFER : NEAR to NEAR".into(),
    ]
}

/// Every operation that reads `%a`, with a use of what it reads.
fn loads() -> Vec<String> {
    let uses = "\nvector.store %w, %out[%c0, %c0] : NEAR, VECTOR";
    let mask = "%m = arith.constant dense<true> : vector<8x128xi1>\n";
    vec![
        format!("%w = vector.load %a[%c0, %c0] : NEAR, VECTOR{uses}"),
        format!("%w = tpu.vector_load %a[%c0, %c0] {{strides = array<i32>}} : NEAR, VECTOR,{uses}"),
        format!("%w = tpu.strided_load %a[%c0, %c0] {{strides = array<i32: 1, 1>}} : NEAR, VECTOR{uses}"),
        format!(
            "{mask}%w = vector.maskedload %a[%c0, %c0], %m, %v : NEAR, vector<8x128xi1>, VECTOR into VECTOR{uses}"
        ),
        format!("%w = \"tpu.load\"(%a, %c0, %c0) <{{{ALL}}}> : (NEAR, index, index) -> VECTOR{uses}"),
        "memref.copy %a, %out : NEAR to NEAR".into(),
        "tpu.vector_store %a[%c0, %c0], %v {strides = array<i32>, add = true} : NEAR, VECTOR,".into(),
    ]
}

#[test]
fn every_store_stores() {
    for store in stores() {
        let outcome =
            run_small(&store.replace("BUFFER", "out")).unwrap_or_else(|error| panic!("{store}: {error}"));
        assert_eq!(outcome.findings, [], "{store}");
        assert_eq!(outcome.outputs[0].to_f32(), (1..=1024).map(|i| i as f32).collect::<Vec<_>>(), "{store}");
    }
}

#[test]
fn every_load_loads() {
    for load in loads() {
        let body = format!(
            "vector.store %v, %a[%c0, %c0] : NEAR, VECTOR\n{load}\nmemref.copy %a, %out : NEAR to NEAR"
        );
        let outcome = run_small(&body).unwrap_or_else(|error| panic!("{load}: {error}"));
        assert_eq!(outcome.findings, [], "{load}");
        let times = if load.contains("add") { 2.0 } else { 1.0 };
        assert_eq!(outcome.outputs[0].to_f32()[1023], 1024.0 * times, "{load}");
    }
}

#[test]
fn every_load_of_unwritten_memory_is_found() {
    for load in loads() {
        let outcome = run_small(&load).unwrap_or_else(|error| panic!("{load}: {error}"));
        let found = outcome.findings.iter().any(|f| matches!(f.trouble, Trouble::ReadOfUnwritten { .. }));
        assert!(found, "{load}: {:?}", outcome.findings);
    }
}

/// A kernel that runs `op` while `%a` is copied out, or into.
fn beside_a_copy(op: &str, copies_in: bool) -> Vec<Trouble> {
    let far = "memref<8x128xf32, #tpu.memory_space<hbm>>";
    let semaphore = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
    let (source, target) = match copies_in {
        true => (format!("%y : {far}"), format!("%a : {NEAR}")),
        false => (format!("%a : {NEAR}"), format!("%far : {far}")),
    };
    let op = op.replace("VECTOR", VECTOR).replace("NEAR", NEAR).replace("BUFFER", "a");
    let text = format!(
        "module {{
  func.func @k(%x: {NEAR}, %y: {far}, %far: {far}, %out: {NEAR}, %a: {NEAR}, %s: {semaphore}) attributes {{scratch_operands = 2 : i64, window_params = [{{}}, {{}}, {{}}, {{}}]}} {{
    %c0 = arith.constant 0 : index
    %v = vector.load %x[%c0, %c0] : {NEAR}, {VECTOR}
    vector.store %v, %a[%c0, %c0] : {NEAR}, {VECTOR}
    tpu.enqueue_dma source({source}) target({target}) target_semaphore(%s : {semaphore})
    {op}
    tpu.wait_dma2 semaphore(%s : {semaphore}) src({source}) dst({target})
    return
  }}
}}"
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let x = floats(&[8, 128], |i| i as f32);
    let outcome = simulate(&module, &[x.clone(), x], &Options::new(rates())).unwrap();
    let races = outcome.findings.into_iter().map(|finding| finding.trouble);
    races.filter(|trouble| !matches!(trouble, Trouble::OutputNotWritten { .. })).collect()
}

#[test]
fn every_store_races_with_a_copy_out() {
    for store in stores() {
        let races = beside_a_copy(&store, false);
        assert!(matches!(races[..], [Trouble::OverwrittenDuringCopyOut { .. }]), "{store}: {races:?}");
    }
}

#[test]
fn every_load_races_with_a_copy_in() {
    for load in loads() {
        let races = beside_a_copy(&load, true);
        let is_race = |trouble: &Trouble| matches!(trouble, Trouble::ReadDuringCopyIn { .. });
        assert!(races.iter().any(is_race), "{load}: {races:?}");
    }
}

#[test]
fn a_store_under_a_mask_that_never_holds_is_none() {
    let masked = "%m = arith.constant dense<false> : vector<8x128xi1>\n\
                  tpu.vector_store %a[%c0, %c0], %v masked %m {strides = array<i32>} : NEAR, VECTOR, vector<8x128xi1>";
    assert_eq!(beside_a_copy(masked, false), []);
    let outcome = run_small(&format!("{masked}\nmemref.copy %a, %out : NEAR to NEAR")).unwrap();
    assert!(matches!(outcome.findings[0].trouble, Trouble::ReadOfUnwritten { .. }));
}

#[test]
fn masks_keep_what_they_do_not_cover_unwritten() {
    // Lanes below 64 are written; the others are not, and reading them is found.
    let body = |from: &str| {
        format!(
            "%lane = tpu.iota {{dimensions = array<i32: 1>}} : vector<8x128xi32>\n\
             %half = arith.constant dense<64> : vector<8x128xi32>\n\
             %m = arith.cmpi slt, %lane, %half : vector<8x128xi32>\n\
             vector.maskedstore %a[%c0, %c0], %m, %v : NEAR, vector<8x128xi1>, VECTOR\n\
             %from = arith.constant {from} : index\n\
             %w = vector.load %a[%c0, %from] : NEAR, vector<8x64xf32>\n\
             vector.store %v, %out[%c0, %c0] : NEAR, VECTOR\n\
             vector.store %w, %out[%c0, %c0] : NEAR, vector<8x64xf32>"
        )
    };
    assert_eq!(run_small(&body("0")).unwrap().findings, []);
    assert_eq!(run_small(&body("64")).unwrap().findings.len(), 1);
}

#[test]
fn sublanes_are_masked_and_strided() {
    // Sublanes 0 and 2, two rows apart: rows 0 and 4 of the buffer.
    let store = format!(
        "%z = arith.constant dense<0.0> : VECTOR\nvector.store %z, %out[%c0, %c0] : NEAR, VECTOR\n\
         \"tpu.store\"(%v, %out, %c0, %c0) <{{{SOME}, sublane_stride = 2 : i32}}> : (VECTOR, NEAR, index, index) -> ()"
    );
    let rows = |values: Vec<f32>| -> Vec<f32> { values.chunks(128).map(|row| row[0]).collect() };
    let stored = run_small(&store).unwrap();
    assert_eq!(rows(stored.outputs[0].to_f32()), [1.0, 0.0, 0.0, 0.0, 257.0, 0.0, 0.0, 0.0]);
    let load = format!(
        "%w = \"tpu.load\"(%x, %c0, %c0) <{{{SOME}, sublane_stride = 2 : i32}}> : (NEAR, index, index) -> VECTOR\n\
         vector.store %w, %out[%c0, %c0] : NEAR, VECTOR"
    );
    let loaded = rows(run_small(&load).unwrap().outputs[0].to_f32());
    assert_eq!((loaded[0], loaded[2]), (1.0, 513.0));
    assert!([1, 3, 4, 5, 6, 7].iter().all(|&row: &usize| loaded[row].is_nan()), "{loaded:?}");
}

#[test]
fn strided_accesses_meet_only_what_they_touch() {
    // Even rows are stored while odd ones may still be on their way out.
    let far = "memref<1x128xf32, #tpu.memory_space<smem>>";
    let row = "memref<1x128xf32, #tpu.memory_space<vmem>>";
    let races = |first: &str| {
        let body = format!(
            "vector.store %v, %a[%c0, %c0] : NEAR, VECTOR
    %i1 = arith.constant 1 : i32
    %start = arith.constant {first} : index
    %row = tpu.memref_slice %a[%i1, %i0] : NEAR -> {row}
    %half = vector.extract_strided_slice %v {{offsets = [0, 0], sizes = [4, 128], strides = [1, 1]}} : VECTOR to vector<4x128xf32>
    tpu.region {{
      %s = tpu.sem_alloc : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %h = memref.alloca() : {far}
      tpu.enqueue_dma source(%row : {row}) target(%h : {far}) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      tpu.strided_store %a[%start, %c0], %half {{strides = array<i32: 2, 1>}} : NEAR, vector<4x128xf32>
      tpu.wait_dma2 semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%row : {row}) dst(%h : {far})
      tpu.yield
    }}
    vector.store %v, %out[%c0, %c0] : NEAR, VECTOR"
        );
        run_small(
            &body.replace("tpu.region {", "\"tpu.region\"() ({").replace("    }\n", "    }) : () -> ()\n"),
        )
        .unwrap_or_else(|error| panic!("{error}"))
        .findings
        .len()
    };
    assert_eq!((races("0"), races("1")), (0, 1));
}

#[test]
fn an_operation_that_nobody_knows_is_refused_wherever_it_stands() {
    let unknown = "\"tpu.sparkle\"(%v) : (VECTOR) -> ()";
    let dead = "%d = \"tpu.sparkle\"(%v) : (VECTOR) -> VECTOR";
    let pure_dialect = "%d = \"vector.sparkle\"(%v) : (VECTOR) -> VECTOR";
    let nested = format!("%no = arith.constant false\nscf.if %no {{\n{dead}\n}}");
    let bodies = [unknown, dead, pure_dialect, &nested];
    for body in bodies {
        let error = run_small(body).unwrap_err();
        let line = 6 + body.lines().position(|line| line.contains("sparkle")).unwrap();
        assert!(error.starts_with(&format!("{line}:")), "{body}: {error}");
        assert!(error.contains(".sparkle' is not supported; supported operations: "), "{body}: {error}");
    }
    for name in ["tpu.enqueue_indirect_dma", "tpu.barrier", "memref.dma_start"] {
        let error = run_small(&format!("\"{name}\"() : () -> ()")).unwrap_err();
        assert!(error.starts_with(&format!("6:1: '{name}' is not supported")), "{error}");
    }
    // Also in a function that nothing calls.
    let text = format!(
        "{}func.func @other() {{\n\"tpu.sparkle\"() : () -> ()\nreturn\n}}\n}}",
        support::small_kernel("").trim_end().strip_suffix('}').unwrap()
    );
    let error = simulate(&parse(&text).unwrap(), &[], &Options::new(rates())).unwrap_err().to_string();
    assert!(error.contains("'tpu.sparkle' is not supported"), "{error}");
}

/// Runs a body after `%w`, loaded from scratch memory of which only rows 0 to 3 are written.
fn half_written(body: &str) -> Vec<Trouble> {
    let part = "%h = vector.extract_strided_slice %v {offsets = [0, 0], sizes = [4, 128], strides = [1, 1]} \
                : VECTOR to vector<4x128xf32>\n\
                vector.store %h, %a[%c0, %c0] : NEAR, vector<4x128xf32>\n\
                %w = vector.load %a[%c0, %c0] : NEAR, VECTOR\n\
                %rows = tpu.iota {dimensions = array<i32: 0>} : vector<8x128xi32>\n\
                %four = arith.constant dense<4> : vector<8x128xi32>\n\
                %top = arith.cmpi slt, %rows, %four : vector<8x128xi32>\n\
                %zero = arith.constant dense<0.0> : VECTOR\n";
    let outcome = run_small(&format!("{part}{body}")).unwrap_or_else(|error| panic!("{body}: {error}"));
    outcome.findings.into_iter().map(|finding| finding.trouble).collect()
}

/// What is made of `%w` row by row, as `%r`.
const BY_ROW: [&str; 5] = [
    "%r = arith.addf %w, %v : VECTOR",
    "%r = math.exp %w : VECTOR",
    "%id = arith.constant dense<1.0> : vector<128x128xf32>\n\
     %r = \"tpu.matmul\"(%w, %id, %zero) <{dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], \
     [0, 0, 1, 1], [], []>}> : (VECTOR, vector<128x128xf32>, VECTOR) -> VECTOR",
    "%low = arith.constant dense<0.0> : vector<8xf32>\n\
     %m = vector.multi_reduction <maximumf>, %w, %low [1] : VECTOR to vector<8xf32>\n\
     %c = vector.shape_cast %m : vector<8xf32> to vector<8x1xf32>\n\
     %r = vector.broadcast %c : vector<8x1xf32> to VECTOR",
    "%s = arith.mulf %w, %w : VECTOR\n\
     vector.store %s, %a[%c0, %c0] : NEAR, VECTOR\n\
     %r = vector.load %a[%c0, %c0] : NEAR, VECTOR",
];

#[test]
fn what_is_computed_from_unwritten_memory_and_dropped_is_no_defect() {
    for body in BY_ROW {
        let dropped = format!(
            "{body}\n%k = arith.select %top, %r, %zero : vector<8x128xi1>, VECTOR\n\
             vector.store %k, %out[%c0, %c0] : NEAR, VECTOR"
        );
        assert_eq!(half_written(&dropped), [], "{body}");
    }
}

#[test]
fn what_is_computed_from_unwritten_memory_is_found_once_it_reaches_a_result() {
    for body in BY_ROW {
        let stored = format!("{body}\nvector.store %r, %out[%c0, %c0] : NEAR, VECTOR");
        let kept = format!(
            "{body}\n%k = arith.select %top, %zero, %r : vector<8x128xi1>, VECTOR\n\
             vector.store %k, %out[%c0, %c0] : NEAR, VECTOR"
        );
        for body in [stored, kept] {
            let found = half_written(&body);
            assert!(matches!(found[..], [Trouble::ReadOfUnwritten { .. }]), "{body}: {found:?}");
        }
    }
}

#[test]
fn a_choice_by_unwritten_memory_is_found() {
    let body = "%p = arith.cmpf ogt, %w, %zero : VECTOR\n\
                %k = arith.select %p, %v, %zero : vector<8x128xi1>, VECTOR\n\
                vector.store %k, %out[%c0, %c0] : NEAR, VECTOR";
    assert!(matches!(half_written(body)[..], [Trouble::ReadOfUnwritten { .. }]));
}
