use super::*;

fn message(text: &str) -> String {
    parse(text).expect_err("this text is not a module").to_string()
}

#[test]
fn errors_say_where_and_what() {
    assert_eq!(
        message("module {\n  func.func @f() {\n    return %x : i32\n  }\n}"),
        "3:12: %x is used before its definition"
    );
    assert_eq!(message("module {\n  func.func @f(%a: i33x) {"), "2:20: expected a type, found 'i33x'");
    assert_eq!(
        message("module {\n  func.func @f() {\n    tpu.sparkle %a\n  }\n}"),
        "3:5: unknown custom form of 'tpu.sparkle': print the module in generic form"
    );
    let kind = |text: &str| parse(text).expect_err("this text is not a module").kind;
    assert_eq!(kind("module {\n  func.func @f() {\n    tpu.sparkle %a\n  }\n}"), ParseErrorKind::Unsupported);
    assert_eq!(kind("module {} extra"), ParseErrorKind::Malformed);
    assert_eq!(
        message("module {\n  func.func @f() {\n    return"),
        "3:11: expected an operation, but the text ends here"
    );
    assert_eq!(
        message("module {} extra"),
        "1:11: expected the end of the text after the module, found 'extra'"
    );
    assert!(message(&"[".repeat(100_000)).contains("'func.func'"));
    let deep = format!("module attributes {{a = {}}} {{}}", "[".repeat(100_000));
    assert!(message(&deep).ends_with("nesting exceeds 96 levels"));
}

#[test]
fn aliases_stand_for_what_is_defined_anywhere() {
    let text = "#map = affine_map<(d0) -> (d0)>\n!block = memref<8x128xf32, #tpu.memory_space<vmem>>\nmodule {\n  \
        func.func @f(%a: !block) attributes {m = #map} {\n    return loc(#loc1)\n  }\n}\n#loc1 = loc(\"k.py\":3:7)\n";
    let module = parse(text).unwrap();
    let function = &module.functions[0];
    assert_eq!(function.ty(function.body.arguments[0]).shape(), [8, 128]);
    assert_eq!(function.attributes.get("m").unwrap().to_string(), "affine_map<(d0) -> (d0)>");
    let source = function.body.ops[0].source.as_ref().unwrap();
    assert_eq!((&*source[0].file, source[0].line, source[0].column), ("k.py", 3, 7));
}

#[test]
fn names_end_with_their_region() {
    let text = "func.func @f(%c: i1) {\n  scf.if %c {\n    %0 = arith.constant 1 : i32\n  }\n  \
        %0 = arith.constant 2.5 : f32\n  %1:2 = \"my.op\"(%0) : (f32) -> (f32, i1)\n  \"my.op\"(%1#1) : (i1) -> ()\n  return\n}";
    let module = parse(text).unwrap();
    let printed = module.to_string();
    assert_eq!(parse(&printed).unwrap().to_string(), printed);
    assert!(message("func.func @f(%c: i1) {\n  scf.if %c {\n    %0 = arith.constant 1 : i32\n  }\n  \"a.b\"(%0) : (i32) -> ()\n  return\n}").starts_with("5:9"));
}

#[test]
fn a_location_is_in_brackets() {
    let text = |location: &str| format!("func.func @f() {{\n  return loc {location}\n}}");
    for unbracketed in ["x", "\"k.py\":3:7", "", "\u{e9}"] {
        assert!(message(&text(unbracketed)).contains("expected a bracket"), "{unbracketed}");
    }
    assert!(parse(&text("(\"k.py\":3:7)")).is_ok());
}

#[test]
fn names_of_phases_print_as_they_were_read() {
    let text = "func.func @f() {\n  return loc(\"a\\22b\\0Ac\\\\d\")\n}";
    let module = parse(text).unwrap();
    assert_eq!(module.functions[0].body.ops[0].location.as_deref(), Some("a\"b\nc\\d"));
    let printed = module.to_string();
    assert_eq!(parse(&printed).unwrap().to_string(), printed);
}

#[test]
fn locations_give_the_lines_of_the_program() {
    let lines = |location: &str| -> Vec<String> {
        let text = format!(
            "func.func @f() {{\n  return loc({location})\n}}\n#in = loc(\"k.py\":9:52 to :56)\n\
            #fn = loc(\"kernel.<locals>.cx\"(#in))\n#loop = loc(callsite(#loop at #loop))\n"
        );
        let module = parse(&text).unwrap();
        let frame = |frame: &crate::SourceFrame| {
            format!("{}:{} {}", frame.file, frame.line, frame.function.as_deref().unwrap_or("?"))
        };
        module.functions[0].body.ops[0].source.iter().flat_map(|frames| frames.iter().map(frame)).collect()
    };
    assert_eq!(lines("\"k.py\":3:7"), ["k.py:3 ?"]);
    assert_eq!(lines("#in"), ["k.py:9 ?"]);
    assert_eq!(
        lines("\"mul:\"(\"mul\"(callsite(#fn at \"kernel\"(\"k.py\":12:4 to 13:2))))"),
        ["k.py:9 kernel.<locals>.cx", "k.py:12 kernel"]
    );
    assert_eq!(lines("fused<{a = 1}>[unknown, #in, \"b.py\":1:1]"), ["k.py:9 ?"]);
    for nothing in ["unknown", "\"phase\"", "#missing", "#loop", "some.dialect<1>", "\"x\"(\"y\"(unknown))"] {
        assert!(lines(nothing).is_empty(), "{nothing}");
    }
}

#[test]
fn types_that_short_forms_repeat_are_those_of_the_operands() {
    let function = |body: &str| {
        format!(
            "func.func @f(%a: f32, %v: vector<8xf32>, %m: memref<8xf32>, %i: index, %c: i1) {{\n  {body}\n  return\n}}"
        )
    };
    for (sound, wrong) in [
        ("%0 = arith.addf %v, %v : vector<8xf32>", "%0 = arith.addf %v, %v : vector<9xf32>"),
        ("%0 = arith.addf %a, %a : f32", "%0 = arith.addf %a, %v : f32"),
        ("%0 = arith.cmpf olt, %a, %a : f32", "%0 = arith.cmpf olt, %a, %a : vector<8xf32>"),
        ("%0 = arith.select %c, %v, %v : vector<8xf32>", "%0 = arith.select %c, %v, %v : vector<9xf32>"),
        ("%0 = arith.select %c, %a, %a : i1, f32", "%0 = arith.select %c, %a, %v : i1, f32"),
        ("%0 = arith.truncf %a : f32 to bf16", "%0 = arith.truncf %a : bf16 to bf16"),
        ("%0 = memref.load %m[%i] : memref<8xf32>", "%0 = memref.load %m[%i] : memref<8xi32>"),
        (
            "%0 = vector.load %m[%i] : memref<8xf32>, vector<8xf32>",
            "%0 = vector.load %m[%i] : memref<9xf32>, vector<8xf32>",
        ),
        (
            "tpu.vector_store %m[%i], %v {strides = array<i32>} : memref<8xf32>, vector<8xf32>,",
            "tpu.vector_store %m[%i], %v {strides = array<i32>} : memref<8xf32>, vector<4xf32>,",
        ),
        ("%0 = call @g(%a) : (f32) -> f32", "%0 = call @g(%a) : (f32, f32) -> f32"),
        (
            "%0 = scf.for %k = %i to %i step %i iter_args(%s = %a) -> (f32) {\n scf.yield %s : f32\n}",
            "%0 = scf.for %k = %i to %i step %i iter_args(%s = %a, %t = %a) -> (f32) {\n scf.yield %s : f32\n}",
        ),
        (
            "%0 = scf.if %c -> (f32) {\n scf.yield %a : f32\n} else {\n scf.yield %a : f32\n}",
            "%0 = scf.if %c -> (f32) {\n scf.yield %a : i32\n} else {\n scf.yield %a : f32\n}",
        ),
    ] {
        let printed = parse(&function(sound)).unwrap_or_else(|error| panic!("{sound}: {error}")).to_string();
        assert_eq!(parse(&printed).unwrap().to_string(), printed, "{sound}");
        assert!(parse(&function(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn names_of_operations_are_words() {
    let text = |name: &str| format!("func.func @f() {{\n  \"{name}\"() : () -> ()\n  return\n}}");
    assert!(parse(&text("my.op")).is_ok());
    for name in ["a\\22b", "a b", "a\\0Ab", "\u{e9}"] {
        assert!(message(&text(name)).starts_with("2:3: invalid operation name"), "{name}");
    }
}

#[test]
fn more_results_are_named_than_there_can_be() {
    let text =
        format!("func.func @f() {{\n  %a:{}, %b:2 = \"my.op\"() : () -> i32\n  return\n}}", usize::MAX);
    assert!(message(&text).starts_with("2:"), "{}", message(&text));
}

#[test]
fn numbers_of_all_types() {
    let text = "func.func @f() {\n  %0 = arith.constant dense<0xFF800000> : vector<2xf32>\n  \
        %1 = arith.constant dense<[[1, 2], [3, -4]]> : vector<2x2xi32>\n  %2 = arith.constant true\n  \
        %3 = arith.constant 0.00223214296 : f32\n  %4 = arith.constant 0x7F80 : bf16\n  \
        %5 = arith.constant dense<[true, false]> : vector<2xi1>\n  return\n}";
    let printed = parse(text).unwrap().to_string();
    for piece in [
        "dense<0xFF800000> : vector<2xf32>",
        "dense<[[1, 2], [3, -4]]> : vector<2x2xi32>",
        "2.23214296e-03 : f32",
        "0x7F80 : bf16",
        "dense<[true, false]> : vector<2xi1>",
    ] {
        assert!(printed.contains(piece), "{piece} in {printed}");
    }
    assert_eq!(parse(&printed).unwrap().to_string(), printed);
}

#[test]
fn symbols_of_any_characters_print_as_they_were() {
    let text = "module @\"a {b}\" {\n  func.func @\"f-\"() {\n    \
        \"stablehlo.custom_call\"() {config = @\"{\\22body\\22}\", other = @a::@\"b c\"} : () -> ()\n    return\n  }\n}";
    let module = parse(text).unwrap();
    let printed = module.to_string();
    for piece in ["module @\"a {b}\"", "@\"f-\"()", "@a::@\"b c\""] {
        assert!(printed.contains(piece), "{piece} in {printed}");
    }
    assert_eq!(parse(&printed).unwrap().to_string(), printed);
}
