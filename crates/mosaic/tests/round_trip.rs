//! Printing what was read gives a text that reads and prints the same again.

use octile_mosaic::parse;

fn texts(folder: &str) -> Vec<(String, String)> {
    let folder = format!("{}/tests/{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut texts: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of kernels is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
        .map(|path| {
            (path.display().to_string(), std::fs::read_to_string(&path).expect("a kernel is readable"))
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn printing_is_stable() {
    let texts = texts("corpus");
    assert_eq!(texts.len(), 14);
    for (path, text) in texts {
        let module = parse(&text).unwrap_or_else(|error| panic!("{path}:{error}"));
        let printed = module.to_string();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{path}, printed: {error}"));
        assert_eq!(again.to_string(), printed, "{path}");
    }
}

/// Text in the generic form may give an operation fewer or more things than it has in the short form.
#[test]
fn operations_that_do_not_fit_their_short_form_print_in_the_generic_one() {
    const NAMES: [&str; 36] = [
        "arith.constant",
        "arith.addi",
        "arith.subi",
        "arith.muli",
        "arith.divsi",
        "arith.remsi",
        "arith.andi",
        "arith.addf",
        "arith.subf",
        "arith.mulf",
        "arith.divf",
        "arith.maximumf",
        "arith.cmpi",
        "arith.cmpf",
        "arith.select",
        "arith.index_cast",
        "arith.extf",
        "arith.truncf",
        "arith.extui",
        "vector.broadcast",
        "vector.shape_cast",
        "vector.extract_strided_slice",
        "tpu.memref_squeeze",
        "vector.load",
        "memref.load",
        "tpu.memref_slice",
        "tpu.vector_store",
        "tpu.assume_multiple",
        "tpu.matmul",
        "tpu.enqueue_dma",
        "tpu.wait_dma2",
        "scf.if",
        "scf.for",
        "scf.yield",
        "func.return",
        "test.unknown",
    ];
    const ATTRIBUTES: [&str; 10] = [
        "",
        "{value = 1 : i32}",
        "{value = \"text\"}",
        "{value = 1.0 : f32, more}",
        "{multiple = 8 : i32}",
        "{multiple}",
        "{predicate = 2 : i64}",
        "{predicate = -1 : i64}",
        "{predicate = 99 : i64, fastmath = #arith.fastmath<fast>}",
        "{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0>}",
    ];
    const REGIONS: [&str; 6] = [
        "",
        "({})",
        "({ \"scf.yield\"() : () -> () })",
        "({ \"scf.yield\"() : () -> () loc(\"here\") }, {})",
        "({ ^bb0(%n: i32): \"scf.yield\"() {told} : () -> () })",
        "({}, { ^bb0(%n: i32, %m: f32): \"scf.yield\"(%n) : (i32) -> () })",
    ];
    for name in NAMES {
        for operands in [&[][..], &["i32"], &["f32", "i32"], &["i32", "i32", "i32"], &["i32"; 5]] {
            for results in ["()", "i32", "f32", "i1", "(i32, i32)"] {
                for attributes in ATTRIBUTES {
                    for regions in REGIONS {
                        let values = operands.iter().map(|ty| format!("%{}", &ty[..1])).collect::<Vec<_>>();
                        let (values, types) = (values.join(", "), operands.join(", "));
                        let text = format!(
                            "module {{ func.func @k(%i: i32, %f: f32) {{ \
                             \"{name}\"({values}) {regions} {attributes} : ({types}) -> {results} return }} }}"
                        );
                        let Ok(module) = parse(&text) else { continue };
                        let printed = module.to_string();
                        let again = parse(&printed)
                            .unwrap_or_else(|error| panic!("{text}\nprinted as\n{printed}\n{error}"));
                        assert_eq!(again, module, "{text}\nprinted as\n{printed}");
                    }
                }
            }
        }
    }
}

/// A suffix that tells two values of one name apart may be in use already.
#[test]
fn values_of_one_name_are_told_apart() {
    let text = "module { func.func @k(%a_v1: i32) { \"t.a\"() ({ %a = \"t.b\"() : () -> i32 }, \
                { %a = \"t.c\"() : () -> i32 \"t.d\"(%a, %a_v1) : (i32, i32) -> () }) : () -> () return } }";
    let module = parse(text).unwrap();
    let printed = module.to_string();
    assert_eq!(parse(&printed).unwrap().to_string(), printed);
    assert!(printed.contains("\"t.d\"(%a_v2, %a_v1)"), "{printed}");
}
